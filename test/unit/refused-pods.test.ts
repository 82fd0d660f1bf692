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

/** Makes dry runs of these pods, which end with this error, or are accepted. */
const dryRuns = async (pods: RefusedPods, uids: readonly string[], error?: unknown) => {
  const dryRun = () => (error === undefined ? Promise.resolve() : Promise.reject(error));
  await pods.tryOut(uids.map((uid) => ({ uid, dryRun })));
};

/** The pauses between dry runs that are all refused, in seconds. */
async function pausesOf(pods: RefusedPods, error: unknown, count: number): Promise<readonly number[]> {
  const pauses: number[] = [];
  while (pauses.length < count) {
    const pauseMs = pods.dueInMs(false) ?? 0;
    jest.advanceTimersByTime(pauseMs);
    expect(isDue(pods, 'a')).toBe(true);
    await dryRuns(pods, ['a'], error);
    pauses.push(pauseMs / 1000);
  }
  return pauses;
}

describe('P-7: a pod whose update was refused', () => {
  it('is tried again in dry runs, after 5 s at first, then later and later up to an hour', async () => {
    const pods = new RefusedPods();
    expect([seen(pods), pods.dueInMs(false)]).toEqual([undefined, undefined]);
    refuse(pods, 'a');
    expect(isDue(pods, 'a')).toBe(false);
    expect(await pausesOf(pods, denied, 12)).toEqual([5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
  });

  it('by a budget is tried again within five minutes', async () => {
    const pods = new RefusedPods();
    pods.note({ done: [], refused: [{ uid: 'a', error: held }] });
    expect(await pausesOf(pods, held, 8)).toEqual([5, 10, 20, 40, 80, 160, 300, 300]);
  });

  it('says what the API server has said, and after which pause it is tried again', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    const { message, type } = denied;
    expect(seen(pods)?.pods.get('a')).toMatchObject({ error: { message, type }, isAccepted: false, pauseMs: 5_000 });
  });

  it('may begin again once a dry run was accepted, and rests for longer if it is refused all the same', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    await dryRuns(pods, ['a']);
    expect(seen(pods)?.pods.get('a')).toMatchObject({ isAccepted: true });
    expect(pods.dueInMs(false)).toBeUndefined();
    refuse(pods, 'a');
    expect(seen(pods)?.pods.get('a')).toMatchObject({ isAccepted: false, pauseMs: 10_000 });
  });

  it('holds up all dry runs, longer and longer, where these are accepted and updates are not', async () => {
    const pods = new RefusedPods();
    const uids = Array.from({ length: 13 }, (_, index) => `${index}`);
    const pauses: number[] = [];
    for (const uid of uids) {
      refuse(pods, uid);
      const pauseMs = pods.dueInMs(true) ?? 0;
      jest.advanceTimersByTime(pauseMs);
      expect(seen(pods)?.mayTry).toBe(true);
      await dryRuns(pods, uids);
      pauses.push(pauseMs / 1000);
    }
    expect(pauses).toEqual([0, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 7200]);
  });

  it('is forgotten when it was updated, and when it is gone', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a', 'b', 'c');
    went(pods, 'a');
    expect([...(pods.refused((uid) => uid !== 'b')?.pods.keys() ?? [])]).toEqual(['c']);
  });

  it('is tried at once when somebody has changed the object, and then as if for the first time', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    await pausesOf(pods, denied, 6);
    jest.advanceTimersByTime(1_000);
    pods.forgive();
    expect([isDue(pods, 'a'), seen(pods)?.mayTry]).toEqual([true, true]);
    await dryRuns(pods, ['a'], denied);
    expect(pods.dueInMs(false)).toBe(5_000);
  });

  it('is tried at once when one that was refused before has been updated', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a', 'b');
    went(pods, 'other');
    expect(isDue(pods, 'a')).toBe(false);
    went(pods, 'b');
    expect(isDue(pods, 'a')).toBe(true);
  });
});

describe('P-7: after five refusals in a row', () => {
  it('every pod is tried before it begins, until one was updated', async () => {
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

  it('by a budget they are not, as that is about single pods', async () => {
    const pods = new RefusedPods();
    pods.note({ done: [], refused: ['a', 'b', 'c', 'd', 'e', 'f'].map((uid) => ({ uid, error: held })) });
    expect(seen(pods)?.isGeneral).toBe(false);
  });

  it('refused dry runs do not count, and those that were only tried are forgotten with the next update', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    await dryRuns(pods, ['b', 'c', 'd', 'e', 'f'], denied);
    expect(seen(pods)?.isGeneral).toBe(false);
    await dryRuns(pods, ['g']);
    went(pods, 'h');
    expect([...(seen(pods)?.pods.keys() ?? [])]).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  });

  it('dry runs begin 5 s apart, and a second after something has changed', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a', 'b', 'c', 'd', 'e');
    await dryRuns(pods, ['a'], denied);
    expect([seen(pods)?.mayTry, pods.dueInMs(true)]).toEqual([false, 5_000]);
    pods.forgive();
    expect([seen(pods)?.mayTry, pods.dueInMs(true)]).toEqual([false, 1_000]);
    jest.advanceTimersByTime(1_000);
    expect([seen(pods)?.mayTry, pods.dueInMs(true)]).toEqual([true, 0]);
  });
});

describe('P-7: dry runs', () => {
  it('are not made twice at the same time, and nothing is due until they have ended', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a', 'b');
    const { promise, resolve } = Promise.withResolvers<void>();
    const round = pods.tryOut([{ uid: 'a', dryRun: () => promise }]);
    jest.advanceTimersByTime(60_000);
    expect([pods.tryOut([{ uid: 'b', dryRun: () => promise }]), pods.dueInMs(true)]).toEqual([undefined, undefined]);
    resolve();
    await round;
    expect([isDue(pods, 'b'), pods.dueInMs(true)]).toEqual([true, 0]);
  });

  it('that a change of the pod has overtaken say nothing', async () => {
    const pods = new RefusedPods();
    refuse(pods, 'a');
    jest.advanceTimersByTime(5_000);
    await dryRuns(pods, ['a'], new KubeError({ status: 409, message: 'modified', reason: 'Conflict' }));
    expect([isDue(pods, 'a'), seen(pods)?.pods.get('a')?.pauseMs]).toEqual([true, 5_000]);
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
