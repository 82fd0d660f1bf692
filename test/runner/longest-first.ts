import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** What a quiet run took, by file: `npm test -- order` writes it. */
export const orderFile = join(root, 'test/runner/order.json');

/** The seconds of each file in that run. */
export function quietSeconds(): Readonly<Record<string, number>> {
  return JSON.parse(readFileSync(orderFile, 'utf8'));
}

/**
 * The order in which Jest runs files: the longest first, so that two workers end at about the same time, and the same order
 * in each run. New files, whose time is unknown, come before all others.
 */
// biome-ignore lint/style/noDefaultExport: Jest looks for it
export default class LongestFirst {
  sort<File extends { readonly path: string }>(files: readonly File[]): File[] {
    const seconds = quietSeconds();
    const timeOf = ({ path }: File): number => seconds[relative(root, path)] ?? Infinity;
    return files.toSorted((a, b) => timeOf(b) - timeOf(a) || a.path.localeCompare(b.path));
  }

  /** For `--onlyFailures`: what failed before is not remembered, so all are run. */
  allFailedTests<File>(files: File[]): File[] {
    return files;
  }

  /** Nothing is remembered: a run does not depend on the one before. */
  cacheResults(): void {}
}
