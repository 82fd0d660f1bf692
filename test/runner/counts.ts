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

/** The parts of Jest's JSON result that count. */
export interface JestResult {
  readonly success: boolean;
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  /** Files that failed before or outside their tests. */
  readonly numRuntimeErrorTestSuites: number;
  readonly testResults: readonly JestFile[];
}

/** A file in it, with times in milliseconds since 1970. */
export interface JestFile {
  readonly name: string;
  readonly startTime: number;
  readonly endTime: number;
}

/** Counts a file that could not be run as one failed test; a run that failed for no counted reason, too. */
export function countJest(result: JestResult): Counts {
  const failed = result.numFailedTests + result.numRuntimeErrorTestSuites;
  return {
    passed: result.numPassedTests,
    failed: result.success ? failed : Math.max(failed, 1),
    skipped: result.numPendingTests + result.numTodoTests,
  };
}
