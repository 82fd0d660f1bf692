import { basename } from 'node:path';

/** How long the tests of one file took. */
export interface FileTime {
  readonly file: string;
  readonly seconds: number;
}

/** So many seconds the tests of a file of a phase are to take on a quiet machine with two cores. Told, never asserted. */
export const budgetSeconds: Readonly<Record<string, number>> = { unit: 10, integration: 45, e2e: 120 };

/** So many of the slowest files are named. */
const named = 5;

/** The times of files of which some were run more than once, a part each time. */
export function addedUp(times: readonly FileTime[]): readonly FileTime[] {
  const sums = new Map<string, number>();
  for (const { file, seconds } of times) sums.set(file, (sums.get(file) ?? 0) + seconds);
  return [...sums].map(([file, seconds]) => ({ file, seconds }));
}

/** The slowest files of a phase, and all that are over its budget; nothing where a single file ran. */
export function describeTimes(times: readonly FileTime[], budget = Infinity): readonly string[] {
  const slowestFirst = times.toSorted((a, b) => b.seconds - a.seconds);
  const over = slowestFirst.filter(({ seconds }) => seconds > budget);
  if (times.length < 2) return [];
  return [
    `slowest of ${times.length} files: ${listed(slowestFirst.slice(0, named))}`,
    ...(over.length > 0 ? [`over the budget of ${budget} s for a file: ${listed(over)}`] : []),
  ];
}

function listed(times: readonly FileTime[]): string {
  return times
    .map(({ file, seconds }) => `${basename(file).replace(/\.test\.ts$/, '')} ${Math.round(seconds)} s`)
    .join(', ');
}
