/** How many tests ended how. A check counts as a test. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export const nothing: Counts = { passed: 0, failed: 0, skipped: 0 };

export function sum(counts: readonly Counts[]): Counts {
  return counts.reduce(
    (all, { passed, failed, skipped }) => ({
      passed: all.passed + passed,
      failed: all.failed + failed,
      skipped: all.skipped + skipped,
    }),
    nothing,
  );
}

/** The last line of `npm test`, which machines read. */
export function describeCounts({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

/** True when tests ran and none failed: a phase that runs nothing proves nothing. */
export function isGreen({ passed, failed }: Counts): boolean {
  return failed === 0 && passed > 0;
}
