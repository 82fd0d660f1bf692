import { describe, expect, it } from '@jest/globals';
import { countJest, describeCounts, isGreen, type JestResult, nothing, sum } from '../runner/counts.ts';
import { addedUp, describeTimes } from '../runner/times.ts';

function jestResult(overrides: Partial<JestResult>): JestResult {
  return {
    success: true,
    numPassedTests: 3,
    numFailedTests: 0,
    numPendingTests: 0,
    numTodoTests: 0,
    numRuntimeErrorTestSuites: 0,
    testResults: [],
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

describe('describeTimes', () => {
  const time = (name: string, seconds: number) => ({ file: `/w/test/unit/${name}.test.ts`, seconds });

  it('names the slowest files, and all that are over the budget', () => {
    const files = [time('a', 1.2), time('b', 12), time('c', 9.6), time('d', 3), time('e', 2), time('f', 11)];
    expect(describeTimes(files, 10)).toEqual([
      'slowest of 6 files: b 12 s, f 11 s, c 10 s, d 3 s, e 2 s',
      'over the budget of 10 s for a file: b 12 s, f 11 s',
    ]);
    expect(describeTimes(files)).toHaveLength(1);
    expect(describeTimes(files.slice(0, 1), 1)).toEqual([]);
  });
});

describe('addedUp', () => {
  it('counts a file once that was run in two parts', () => {
    const part = (file: string, seconds: number) => ({ file, seconds });
    expect(addedUp([part('a', 2), part('b', 1), part('a', 3)])).toEqual([part('a', 5), part('b', 1)]);
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
