import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { FailedSteps } from '../../watcher/fleet/failed-steps.ts';

const uid = 'set';
const refused = new Error('refused');
const none = { done: [], failures: [] };

beforeEach(() => {
  jest.useFakeTimers({ now: 0 });
});

afterEach(() => {
  jest.useRealTimers();
});

function steps() {
  const failed = new FailedSteps<string>((step) => step);
  const fail = (step: string) => failed.note(uid, [step], { done: [], failures: [{ step, error: refused }] });
  return { failed, fail };
}

describe('steps that fail again and again', () => {
  it('are tried later and later, up to five minutes', () => {
    const { failed, fail } = steps();
    expect([fail('a'), fail('a')].map((all) => all.map(({ attempts }) => attempts))).toEqual([[1], [2]]);
    expect([failed.isDue(uid, 'a'), failed.isDue(uid, 'b')]).toEqual([false, true]);
    jest.advanceTimersByTime(400);
    expect(failed.isDue(uid, 'a')).toBe(true);
    for (let attempt = 0; attempt < 20; attempt++) fail('a');
    expect(failed.longestPauseMs(uid)).toBe(300_000);
    jest.advanceTimersByTime(300_000);
    expect(failed.isDue(uid, 'a')).toBe(true);
  });

  it('are forgotten when they succeed, and forgiven when their object is edited', () => {
    const { failed, fail } = steps();
    for (let attempt = 0; attempt < 3; attempt++) fail('a');
    failed.forgive(uid);
    expect(failed.isDue(uid, 'a')).toBe(true);
    expect(fail('a')).toMatchObject([{ attempts: 1 }]);
    failed.note(uid, ['a'], { done: [{ step: 'a', isChange: true }], failures: [] });
    expect(failed.has(uid)).toBe(false);
  });

  it('are forgotten as soon as nobody plans them', () => {
    const { failed, fail } = steps();
    for (let attempt = 0; attempt < 9; attempt++) fail('a');
    expect(failed.of(uid)).toMatchObject([{ attempts: 9 }]);
    expect(failed.note(uid, [], none)).toEqual([]);
    expect(failed.has(uid)).toBe(false);
  });
});
