import { describe, expect, it } from '@jest/globals';
import { describeFlakes, type Flake, judge, withFlakes } from '../runner/again.ts';
import { fileResults } from '../runner/jest-result.ts';
import { BrokenPromise } from '../support/broken-promise.ts';

type Ending = 'passed' | 'failed' | 'pending';

function fileOf(name: string, tests: Readonly<Record<string, Ending>>, why = 'Error: late\n    at wait.ts:1') {
  const isRed = Object.values(tests).includes('failed');
  const [result] = fileResults(
    {
      testResults: [
        {
          ...{ name: `/w/test/e2e/${name}.test.ts`, status: isRed ? 'failed' : 'passed', message: '' },
          ...{ startTime: 1_000, endTime: 3_500 },
          assertionResults: Object.entries(tests).map(([fullName, status]) => ({
            ...{ fullName, status, duration: 100 },
            failureMessages: status === 'failed' ? [why] : [],
          })),
        },
      ],
    },
    '/w',
  );
  if (!result) throw new Error('one file has one result');
  return result;
}

describe('fileResults', () => {
  it('counts the tests of a file, and its time', () => {
    const result = fileOf('a', { one: 'passed', two: 'failed', three: 'pending' });
    expect(result).toMatchObject({ file: 'test/e2e/a.test.ts', seconds: 2.5 });
    expect(result.counts).toEqual({ passed: 1, failed: 1, skipped: 1 });
    expect(result.failures.map(({ test }) => test)).toEqual(['two']);
  });

  it('counts a file that could not be run as one failed test', () => {
    const times = { startTime: 0, endTime: 0 };
    const broken = { name: '/w/test/e2e/a.test.ts', status: 'failed', message: 'no such module', ...times };
    const [result] = fileResults({ testResults: [{ ...broken, assertionResults: [] }] }, '/w');
    expect(result?.counts).toEqual({ passed: 0, failed: 1, skipped: 0 });
    expect(result?.failures).toEqual([{ test: '', why: 'no such module' }]);
  });
});

describe('a file that fails', () => {
  const first = fileOf('a', { one: 'passed', two: 'failed' });

  it('is red where it is not run again, or does not run', () => {
    expect(judge([{ first }]).counts).toMatchObject({ failed: 1 });
    expect(judge([{ first, second: fileOf('a', {}) }])).toMatchObject({ counts: { failed: 1 }, flakes: [] });
  });

  it('is red where it fails again, with another test, too', () => {
    const second = fileOf('a', { one: 'failed', two: 'passed' });
    expect(judge([{ first, second }])).toEqual({ counts: second.counts, flakes: [] });
  });

  it('is flaky where it passes alone, and counts as passed', () => {
    const second = fileOf('a', { one: 'passed', two: 'passed' });
    const { counts, flakes } = judge([{ first, second }, { first: fileOf('b', { one: 'passed' }) }]);
    expect(counts).toEqual({ passed: 3, failed: 0, skipped: 0 });
    expect(describeFlakes(flakes)).toEqual(['flaky: test/e2e/a.test.ts › two: Error: late']);
  });

  it('is called a danger where its first failure has broken a promise, and comes first', () => {
    const why = String(new BrokenPromise('3 pods were ready, at least 4 have to be'));
    const tried = [
      { first, second: fileOf('a', { two: 'passed' }) },
      { first: fileOf('b', { one: 'failed' }, why), second: fileOf('b', { one: 'passed' }) },
    ];
    expect(describeFlakes(judge(tried).flakes)).toEqual([
      'flaky SAFETY: test/e2e/b.test.ts › one: BrokenPromise: 3 pods were ready, at least 4 have to be',
      'flaky: test/e2e/a.test.ts › two: Error: late',
    ]);
  });
});

describe('flaky files', () => {
  const green = { passed: 9, failed: 0, skipped: 0 };
  const flake = (file: string, test: string): Flake => ({ file, test, why: 'late', isSafety: false });

  it('leave a run green while they are two, however many tests of theirs failed', () => {
    const flakes = [flake('a', 'one'), flake('a', 'two'), flake('b', 'one')];
    expect(withFlakes(green, flakes)).toEqual(green);
    expect(describeFlakes(flakes)).toHaveLength(3);
  });

  it('make it red when they are three', () => {
    const flakes = [flake('a', 'one'), flake('b', 'one'), flake('c', 'one')];
    expect(withFlakes(green, flakes)).toEqual({ ...green, failed: 3 });
    expect(describeFlakes(flakes).at(-1)).toBe('3 files are flaky, at most 2 may be: red');
  });
});
