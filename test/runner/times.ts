import { basename, join } from 'node:path';
import { readJson, writeJson } from '../../deploy/local/files.ts';
import type { FileResult } from './jest-result.ts';

/** So many seconds the tests of a file of a phase are to take on a quiet machine with two cores. Told, never asserted. */
export const budgetSeconds: Readonly<Record<string, number>> = { unit: 10, integration: 30, e2e: 60 };

/** So many of the slowest files are named, and so many of the slowest tests of a file. */
const named = { files: 5, tests: 3 } as const;

/** The results of files of which some were run more than once, a part each time. */
export function addedUp(results: readonly FileResult[]): readonly FileResult[] {
  const sums = new Map<string, FileResult>();
  for (const result of results) {
    const before = sums.get(result.file);
    const { seconds = 0, tests = [] } = before ?? {};
    sums.set(result.file, { ...result, seconds: seconds + result.seconds, tests: [...tests, ...result.tests] });
  }
  return [...sums.values()];
}

/** The slowest files of a phase, and all that are over its budget with their slowest tests; nothing where a single file ran. */
export function describeTimes(results: readonly FileResult[], budget = Infinity): readonly string[] {
  const slowestFirst = results.toSorted((a, b) => b.seconds - a.seconds);
  const over = slowestFirst.filter(({ seconds }) => seconds > budget);
  if (results.length < 2) return [];
  const listed = slowestFirst.slice(0, named.files).map(fileTime);
  return [
    `slowest of ${results.length} files: ${listed.join(', ')}`,
    ...over.flatMap((result) => [`over the budget of ${budget} s: ${fileTime(result)}`, ...slowestTests(result)]),
  ];
}

function slowestTests({ tests }: FileResult): readonly string[] {
  const slowestFirst = tests.toSorted((a, b) => b.seconds - a.seconds);
  return slowestFirst.slice(0, named.tests).map(({ test, seconds }) => `  ${Math.round(seconds)} s ${test}`);
}

function fileTime({ file, seconds }: FileResult): string {
  return `${basename(file).replace(/\.test\.ts$/, '')} ${Math.round(seconds)} s`;
}

/** How long the files of a phase took in one run. */
export interface TimesOfRun {
  /** RFC 3339. */
  readonly at: string;
  readonly phase: string;
  /** By path. */
  readonly seconds: Readonly<Record<string, number>>;
}

/** So many runs of phases are kept. */
const keptRuns = 100;

/** The file with the times of the last runs. */
function timesFile(root: string): string {
  return join(root, '.windlass', 'times.json');
}

function readTimes(root: string): readonly TimesOfRun[] {
  return readJson<readonly TimesOfRun[]>(timesFile(root)) ?? [];
}

/** The seconds of all files in the last run of each phase. */
export function lastTimes(root: string): Readonly<Record<string, number>> {
  const all = Object.assign({}, ...readTimes(root).map(({ seconds }) => seconds)) as Record<string, number>;
  return Object.fromEntries(Object.entries(all).toSorted(([a], [b]) => a.localeCompare(b)));
}

/** Adds the times of a run to `.windlass/times.json`, where those of the last runs are. */
export function keepTimes(root: string, phase: string, results: readonly FileResult[]): void {
  const seconds = Object.fromEntries(results.map((result) => [result.file, Math.round(result.seconds * 10) / 10]));
  const run: TimesOfRun = { at: new Date().toISOString(), phase, seconds };
  writeJson(timesFile(root), [...readTimes(root), run].slice(-keptRuns));
}
