// A file that fails is run once more by itself on a clean cluster. If it passes there, it is flaky: that is said, and not red.
import { stripVTControlCharacters } from 'node:util';
import { brokenPromise } from '../support/broken-promise.ts';
import { type Counts, sum } from './counts.ts';
import type { FileResult } from './jest-result.ts';

/** With more flaky files in a run it is no accident, and the run is red. */
export const mostFlakyFiles = 2;

/** A test that failed, and passed when its file was run again alone. */
export interface Flake {
  readonly file: string;
  /** Empty: the file as a whole. */
  readonly test: string;
  /** The first lines of its failure. */
  readonly why: string;
  /** Its failure says that a promise to users was broken, not only that something was late. */
  readonly isSafety: boolean;
}

/** What a phase comes to. */
export interface Verdict {
  readonly counts: Counts;
  readonly flakes: readonly Flake[];
}

/** A file that was run, and once more if it failed. */
export interface Tried {
  readonly first: FileResult;
  readonly second?: FileResult | undefined;
}

/** Files that were run again count as they did then. One that did not run the second time is as red as before. */
export function judge(tried: readonly Tried[]): Verdict {
  const last = tried.map(({ first, second }) => (second && ran(second) ? second : first).counts);
  const flakes = tried.flatMap(({ first, second }) =>
    second && ran(second) && second.counts.failed === 0 ? flakesIn(first) : [],
  );
  return { counts: sum(last), flakes };
}

function ran({ counts }: FileResult): boolean {
  return counts.passed + counts.failed > 0;
}

function flakesIn({ file, failures }: FileResult): readonly Flake[] {
  return failures.map(({ test, why }) => ({ file, test, why: beginning(why), isSafety: why.includes(brokenPromise) }));
}

/** So much of a failure that its cause can be recognised. */
function beginning(why: string): string {
  const lines = stripVTControlCharacters(why)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('at '));
  return lines.slice(0, 3).join(' | ').slice(0, 400);
}

/** Adds the flaky files to the failed tests where there are too many. */
export function withFlakes(counts: Counts, flakes: readonly Flake[]): Counts {
  const files = new Set(flakes.map(({ file }) => file)).size;
  return files > mostFlakyFiles ? { ...counts, failed: counts.failed + files } : counts;
}

/** A line for each, broken promises first. */
export function describeFlakes(flakes: readonly Flake[]): readonly string[] {
  const files = new Set(flakes.map(({ file }) => file)).size;
  const line = ({ file, test, why, isSafety }: Flake): string =>
    `flaky${isSafety ? ' SAFETY' : ''}: ${file}${test && ` › ${test}`}: ${why}`;
  return [
    ...flakes.toSorted((a, b) => Number(b.isSafety) - Number(a.isSafety)).map(line),
    ...(files > mostFlakyFiles ? [`${files} files are flaky, at most ${mostFlakyFiles} may be: red`] : []),
  ];
}
