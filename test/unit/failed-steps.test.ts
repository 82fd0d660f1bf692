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

/** Steps are set aside for a minute after three failures in a row. */
function steps() {
  const failed = new FailedSteps<string>(
    (step) => step,
    (_, attempts) => (attempts >= 3 ? 60_000 : undefined),
  );
  const fail = (step: string) => failed.note(uid, [step], { done: [], failures: [{ step, error: refused }] });
  return { failed, fail };
}

describe('steps that fail again and again', () => {
  it('are set aside, and known until then though nobody plans them', () => {
    const { failed, fail } = steps();
    expect([fail('a').planned, fail('a').planned].map(({ length }) => length)).toEqual([1, 1]);
    expect(fail('a')).toMatchObject({ planned: [], others: [{ step: 'a', attempts: 3, isAside: true }] });
    jest.advanceTimersByTime(59_000);
    expect(failed.note(uid, [], none).others).toHaveLength(1);
    expect([failed.isDue(uid, 'a'), failed.isDue(uid, 'b')]).toEqual([false, true]);
    jest.advanceTimersByTime(1_000);
    expect(failed.isDue(uid, 'a')).toBe(true);
  });

  it('are set aside after one more try, where they are tried again and fail', () => {
    const { failed, fail } = steps();
    for (let attempt = 0; attempt < 3; attempt++) fail('a');
    jest.advanceTimersByTime(60_000);
    failed.note(uid, [], none);
    expect(fail('a').others).toMatchObject([{ attempts: 4, isAside: true }]);
  });

  it('are remembered while others take their turn, and not for ever', () => {
    const { failed, fail } = steps();
    fail('a');
    fail('b');
    expect(fail('a').planned).toMatchObject([{ attempts: 2 }]);
    jest.advanceTimersByTime(700_000);
    expect(failed.note(uid, [], none)).toEqual({ planned: [], others: [] });
    expect(failed.has(uid)).toBe(false);
  });

  it('are forgotten when they succeed, and forgiven when their object is edited', () => {
    const { failed, fail } = steps();
    for (let attempt = 0; attempt < 3; attempt++) fail('a');
    failed.forgive(uid);
    expect(failed.isDue(uid, 'a')).toBe(true);
    expect(fail('a').planned).toMatchObject([{ attempts: 1, isAside: false }]);
    failed.note(uid, ['a'], { done: [{ step: 'a', isChange: true }], failures: [] });
    expect(failed.has(uid)).toBe(false);
  });

  it('are forgotten as soon as nobody plans them, where none is set aside', () => {
    const failed = new FailedSteps<string>((step) => step);
    for (let attempt = 0; attempt < 9; attempt++) {
      failed.note(uid, ['a'], { done: [], failures: [{ step: 'a', error: refused }] });
    }
    expect(failed.of(uid)).toMatchObject([{ attempts: 9, isAside: false }]);
    expect(failed.note(uid, [], none)).toEqual({ planned: [], others: [] });
  });
});
