// Which test files were flaky or red in the last runs on this machine, whichever checkout they ran in.
import { join } from 'node:path';
import { readJson, writeJson } from '../../deploy/local/files.ts';
import { cacheFolder } from '../../deploy/local/instance.ts';
import { withLock } from '../../deploy/local/lock.ts';
import type { Flake } from './again.ts';

/** What became of the files of one run of a phase. */
export interface LedgerEntry {
  /** RFC 3339. */
  readonly at: string;
  readonly commit: string;
  readonly phase: string;
  /** The paths of all files that ran. */
  readonly files: readonly string[];
  /** Those that failed, also when they were run again. */
  readonly red: readonly string[];
  readonly flakes: readonly Flake[];
}

/** So many runs are kept. */
const keptRuns = 200;

const ledgerFile = join(cacheFolder, 'flaky-tests.json');

export function readLedger(file = ledgerFile): readonly LedgerEntry[] {
  return readJson<readonly LedgerEntry[]>(file) ?? [];
}

/** Adds a run. Several may end at the same time. */
export async function addToLedger(entry: LedgerEntry, file = ledgerFile): Promise<void> {
  await withLock(`${file}.lock`, async () => writeJson(file, [...readLedger(file), entry].slice(-keptRuns)));
}

/** For each file that was flaky or red: how often, of how many runs, and the last flake. The most flaky one first. */
export function describeLedger(entries: readonly LedgerEntry[]): readonly string[] {
  const files = new Set(entries.flatMap(({ red, flakes }) => [...red, ...flakes.map((flake) => flake.file)]));
  const rows = [...files].map((file) => {
    const runs = entries.filter((entry) => entry.files.includes(file));
    const flaky = runs.filter(({ flakes }) => flakes.some((flake) => flake.file === file));
    const red = runs.filter((entry) => entry.red.includes(file));
    const last = flaky.at(-1);
    const { test = '', why = '', isSafety = false } = last?.flakes.find((flake) => flake.file === file) ?? {};
    const told = last && `  last at ${last.at}, ${last.commit}:${isSafety ? ' SAFETY' : ''} ${test}: ${why}`;
    return {
      share: flaky.length / runs.length,
      lines: [
        `${file}: flaky in ${flaky.length} of ${runs.length} runs, red in ${red.length}`,
        ...(told === undefined ? [] : [told]),
      ],
    };
  });
  return [
    ...rows.toSorted((a, b) => b.share - a.share).flatMap(({ lines }) => lines),
    `${entries.length} runs of phases, ${files.size} files that were flaky or red`,
  ];
}
