import { describe, expect, it } from '@jest/globals';
import { describeCounts, isGreen, nothing, sum } from '../runner/counts.ts';
import type { FileResult } from '../runner/jest-result.ts';
import { addedUp, describeTimes } from '../runner/times.ts';

function fileOf(name: string, seconds: number, tests: FileResult['tests'] = []): FileResult {
  return { file: `test/unit/${name}.test.ts`, seconds, counts: nothing, tests, failures: [] };
}

describe('isGreen', () => {
  it('is not satisfied with nothing', () => {
    expect(isGreen(nothing)).toBe(false);
    expect(isGreen({ passed: 0, failed: 0, skipped: 5 })).toBe(false);
    expect(isGreen({ passed: 1, failed: 0, skipped: 5 })).toBe(true);
    expect(isGreen({ passed: 1, failed: 1, skipped: 0 })).toBe(false);
  });
});

describe('describeTimes', () => {
  it('names the slowest files, and all that are over the budget with their slowest tests', () => {
    const tests = [
      { test: 'is quick', seconds: 0.4 },
      { test: 'is slow', seconds: 7 },
      { test: 'is slower', seconds: 8.8 },
      { test: 'is late', seconds: 2 },
    ];
    const files = [
      fileOf('a', 1.2),
      fileOf('b', 12, tests),
      fileOf('c', 9.6),
      fileOf('d', 3),
      fileOf('e', 2),
      fileOf('f', 11),
    ];
    expect(describeTimes(files, 10)).toEqual([
      'slowest of 6 files: b 12 s, f 11 s, c 10 s, d 3 s, e 2 s',
      'over the budget of 10 s: b 12 s',
      '  9 s is slower',
      '  7 s is slow',
      '  2 s is late',
      'over the budget of 10 s: f 11 s',
    ]);
    expect(describeTimes(files)).toHaveLength(1);
    expect(describeTimes(files.slice(0, 1), 1)).toEqual([]);
  });
});

describe('addedUp', () => {
  it('counts a file once that was run in two parts', () => {
    const added = addedUp([fileOf('a', 2, [{ test: 'x', seconds: 1 }]), fileOf('b', 1), fileOf('a', 3)]);
    expect(added).toEqual([fileOf('a', 5, [{ test: 'x', seconds: 1 }]), fileOf('b', 1)]);
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
