import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { KubeError } from '../../kube/failures.ts';
import { isRefused, RefusedPods } from '../../watcher/fleet/refused-pods.ts';

const denied = new KubeError({ status: 403, message: 'admission webhook "guard" denied the request' });
const held = new KubeError({
  status: 429,
  message: 'Cannot evict pod as it would violate the budget',
  causes: [{ reason: 'DisruptionBudget' }],
});
const throttled = new KubeError({ status: 429, message: 'too many requests' });
const unanswered = new KubeError({ status: 0, message: 'no answer within 30s' });

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

const everyPod = () => true;
const seen = (pods: RefusedPods) => pods.refused(everyPod);
const refuse = (pods: RefusedPods, ...uids: readonly string[]) =>
  pods.note({ done: [], refused: uids.map((uid) => ({ uid, error: denied })) });
const went = (pods: RefusedPods, ...uids: readonly string[]) => pods.note({ done: uids, refused: [] });
const isDue = (pods: RefusedPods, uid: string) => seen(pods)?.pods.get(uid)?.isDue;

/** The pauses between dry runs that are all refused, in seconds. */
function pausesOf(pods: RefusedPods, error: unknown, count: number): readonly number[] {
  return Array.from({ length: count }, () => {
    const pauseMs = pods.dueInMs(false) ?? 0;
    jest.advanceTimersByTime(pauseMs);
    expect(isDue(pods, 'a')).toBe(true);
    pods.tried('a', error);
    return pauseMs / 1000;
  });
}

describe('P-7: a pod whose update was refused', () => {
  it('is tried again in dry runs, after 5 s at first, then later and later up to an hour', () => {
    const pods = new RefusedPods();
    expect([seen(pods), pods.dueInMs(false)]).toEqual([undefined, undefined]);
    refuse(pods, 'a');
    expect(isDue(pods, 'a')).toBe(false);
    expect(pausesOf(pods, denied, 12)).toEqual([5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
  });

  it('by a budget is tried again within five minutes', () => {
    const pods = new RefusedPods();
    pods.note({ done: [], refused: [{ uid: 'a', error: held }] });
    expect(pausesOf(pods, held, 8)).toEqual([5, 10, 20, 40, 80, 160, 300, 300]);
  });

  it('says what the API server has said, and after which pause it is tried again', () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    const { message, type } = denied;
    expect(seen(pods)?.pods.get('a')).toMatchObject({ error: { message, type }, isAccepted: false, pauseMs: 5_000 });
  });

  it('may begin again once a dry run was accepted, and rests for longer if it is refused all the same', () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    pods.tried('a');
    expect(seen(pods)?.pods.get('a')).toMatchObject({ isAccepted: true });
    expect(pods.dueInMs(false)).toBeUndefined();
    refuse(pods, 'a');
    expect(seen(pods)?.pods.get('a')).toMatchObject({ isAccepted: false, pauseMs: 10_000 });
  });

  it('holds up all dry runs, longer and longer, where these are accepted and updates are not', () => {
    const pods = new RefusedPods();
    const pauses = Array.from({ length: 12 }, (_, index) => {
      refuse(pods, `${index}`);
      const pauseMs = pods.dueInMs(true) ?? 0;
      jest.advanceTimersByTime(pauseMs);
      expect(seen(pods)?.mayTry).toBe(true);
      for (let next = 0; next <= index + 1; next++) pods.tried(`${next}`);
      return pauseMs / 1000;
    });
    expect(pauses).toEqual([0, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120]);
  });

  it('is forgotten when it was updated, and when it is gone', () => {
    const pods = new RefusedPods();
    refuse(pods, 'a', 'b', 'c');
    went(pods, 'a');
    expect([...(pods.refused((uid) => uid !== 'b')?.pods.keys() ?? [])]).toEqual(['c']);
  });

  it('is tried at once when somebody has changed the object, and then as if for the first time', () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    pausesOf(pods, denied, 6);
    pods.forgive();
    expect([isDue(pods, 'a'), seen(pods)?.mayTry]).toEqual([true, true]);
    pods.tried('a', denied);
    expect(pods.dueInMs(false)).toBe(5_000);
  });

  it('is tried at once when one that was refused before has been updated', () => {
    const pods = new RefusedPods();
    refuse(pods, 'a', 'b');
    went(pods, 'other');
    expect(isDue(pods, 'a')).toBe(false);
    went(pods, 'b');
    expect(isDue(pods, 'a')).toBe(true);
  });
});

describe('P-7: after five refusals in a row', () => {
  it('every pod is tried before it begins, until one was updated', () => {
    const pods = new RefusedPods();
    refuse(pods, 'a', 'b', 'c', 'd');
    expect(seen(pods)?.isGeneral).toBe(false);
    went(pods, 'e');
    refuse(pods, 'f', 'g', 'h', 'i');
    expect(seen(pods)?.isGeneral).toBe(false);
    refuse(pods, 'j');
    expect(seen(pods)?.isGeneral).toBe(true);
    went(pods, 'k');
    expect(seen(pods)?.isGeneral).toBe(false);
  });

  it('by a budget they are not, as that is about single pods', () => {
    const pods = new RefusedPods();
    pods.note({ done: [], refused: ['a', 'b', 'c', 'd', 'e', 'f'].map((uid) => ({ uid, error: held })) });
    expect(seen(pods)?.isGeneral).toBe(false);
  });

  it('refused dry runs do not count, and those that were only tried are forgotten with the next update', () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    for (const uid of ['b', 'c', 'd', 'e', 'f']) pods.tried(uid, denied);
    expect(seen(pods)?.isGeneral).toBe(false);
    pods.tried('g');
    went(pods, 'h');
    expect([...(seen(pods)?.pods.keys() ?? [])]).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  });

  it('dry runs begin 5 s apart, and a second after something has changed', () => {
    const pods = new RefusedPods();
    refuse(pods, 'a', 'b', 'c', 'd', 'e');
    pods.tries();
    expect([seen(pods)?.mayTry, pods.dueInMs(true)]).toEqual([false, 5_000]);
    pods.forgive();
    expect([seen(pods)?.mayTry, pods.dueInMs(true)]).toEqual([false, 1_000]);
    jest.advanceTimersByTime(1_000);
    expect([seen(pods)?.mayTry, pods.dueInMs(true)]).toEqual([true, 0]);
  });
});

describe('whether an update was refused', () => {
  it.each([
    ['what admission denies', denied, 1, true],
    ['what a budget denies', held, 1, true],
    [
      'a webhook that does not answer',
      new KubeError({ status: 500, message: 'failed calling webhook "guard"' }),
      1,
      true,
    ],
    ['a write without an answer, which may have been made', unanswered, 9, false],
    ['an API server that asks for later', throttled, 4, false],
    ['one that does so again and again', throttled, 5, true],
  ])('%s', (_what, error, attempts, expected) => {
    expect(isRefused(error, attempts)).toBe(expected);
  });
});
