import { describe, expect, it } from '@jest/globals';
import { countJest, describeCounts, isGreen, type JestResult, nothing, sum } from '../runner/counts.ts';

function jestResult(overrides: Partial<JestResult>): JestResult {
  return {
    success: true,
    numPassedTests: 3,
    numFailedTests: 0,
    numPendingTests: 0,
    numTodoTests: 0,
    numRuntimeErrorTestSuites: 0,
    ...overrides,
  };
}

describe('countJest', () => {
  it('counts pending and todo as skipped', () => {
    expect(countJest(jestResult({ numPendingTests: 1, numTodoTests: 2 }))).toEqual({
      passed: 3,
      failed: 0,
      skipped: 3,
    });
  });

  it('counts a file that could not be run as failed', () => {
    const result = jestResult({ success: false, numFailedTests: 1, numRuntimeErrorTestSuites: 2 });
    expect(countJest(result)).toMatchObject({ failed: 3 });
  });

  it('never calls a run green that Jest calls failed', () => {
    expect(countJest(jestResult({ success: false }))).toMatchObject({ failed: 1 });
  });
});

describe('isGreen', () => {
  it('is not satisfied with nothing', () => {
    expect(isGreen(nothing)).toBe(false);
    expect(isGreen({ passed: 0, failed: 0, skipped: 5 })).toBe(false);
    expect(isGreen({ passed: 1, failed: 0, skipped: 5 })).toBe(true);
    expect(isGreen({ passed: 1, failed: 1, skipped: 0 })).toBe(false);
  });
});

describe('describeCounts', () => {
  it('says the last line of npm test', () => {
    const counts = sum([
      { passed: 11, failed: 0, skipped: 0 },
      { passed: 200, failed: 1, skipped: 2 },
    ]);
    expect(describeCounts(counts)).toBe('211 passed, 1 failed, 2 skipped');
  });
});
