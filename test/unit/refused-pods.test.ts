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
const conflict = new KubeError({ status: 409, message: 'the object has been modified', reason: 'Conflict' });
const unanswered = new KubeError({ status: 0, message: 'no answer within 30s' });

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** What the next dry runs come to; undefined: they are accepted. */
let verdict: Promise<void> = Promise.resolve();
const refusedPods = () => new RefusedPods();
const trials = (uids: readonly string[], revision = 'new') =>
  uids.map((uid) => ({ pod: podOf(uid), revision, dryRun: () => verdict }));

/** `shop`, or as in `bank/a`. */
const podOf = (uid: string) => ({ namespace: uid.includes('/') ? `${uid.split('/')[0]}` : 'shop', name: uid, uid });
const everyPod = () => true;
const seen = (pods: RefusedPods) => pods.refused(everyPod);
const refuse = (pods: RefusedPods, ...uids: readonly string[]) =>
  pods.note('new', { done: [], refused: uids.map((uid) => ({ pod: podOf(uid), error: denied })) });
const went = (pods: RefusedPods, ...uids: readonly string[]) =>
  pods.note('new', { done: uids.map(podOf), refused: [] });
/** Of a namespace. */
const isGeneral = (pods: RefusedPods, namespace = 'shop') => seen(pods)?.namespaces.get(namespace)?.isGeneral === true;
const mostTrials = (pods: RefusedPods, namespace = 'shop') =>
  Math.min(
    seen(pods)?.mostTrials ?? 0,
    seen(pods)?.namespaces.get(namespace)?.isMisled ? (seen(pods)?.mostMisledTrials ?? 0) : 16,
  );
const isDue = (pods: RefusedPods, uid: string) => seen(pods)?.pods.get(uid)?.isDue;

/** Makes dry runs of these pods, which end with this error, or are accepted. */
async function dryRuns(pods: RefusedPods, uids: readonly string[], error?: unknown): Promise<void> {
  verdict = error === undefined ? Promise.resolve() : Promise.reject(error);
  verdict.catch(() => undefined);
  await pods.tryOut(trials(uids));
}

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
    const pods = refusedPods();
    expect([seen(pods), pods.dueInMs(false)]).toEqual([undefined, undefined]);
    refuse(pods, 'a');
    expect(isDue(pods, 'a')).toBe(false);
    expect(await pausesOf(pods, denied, 12)).toEqual([5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
  });

  it.each([
    ['by a budget', held],
    ['without an answer', unanswered],
    ['by a conflict', conflict],
  ])('%s is tried again within five minutes', async (_what, error) => {
    const pods = refusedPods();
    pods.note('new', { done: [], refused: [{ pod: podOf('a'), error }] });
    expect(await pausesOf(pods, error, 8)).toEqual([5, 10, 20, 40, 80, 160, 300, 300]);
  });

  it('says what the API server has said, and after which pause it is tried again', async () => {
    const pods = refusedPods();
    refuse(pods, 'a');
    const { message, type } = denied;
    expect(seen(pods)?.pods.get('a')).toMatchObject({ error: { message, type }, isAccepted: false });
    expect(seen(pods)).toMatchObject({ error: { message, type }, retriedWithinMs: 5_000 });
  });

  it('may begin again once a dry run was accepted, and rests for longer if it is refused all the same', async () => {
    const pods = refusedPods();
    refuse(pods, 'a');
    await dryRuns(pods, ['a']);
    expect(seen(pods)?.pods.get('a')).toMatchObject({ isAccepted: true });
    expect(pods.dueInMs(false)).toBeUndefined();
    refuse(pods, 'a');
    expect(seen(pods)?.pods.get('a')).toMatchObject({ isAccepted: false });
    expect(seen(pods)?.retriedWithinMs).toBe(10_000);
  });

  it('holds up all dry runs, longer and longer, where these are accepted and updates are not; a command ends that', async () => {
    const pods = refusedPods();
    const uids = Array.from({ length: 13 }, (_, index) => `${index}`);
    const pauses: number[] = [];
    for (const uid of uids) {
      refuse(pods, uid);
      expect(seen(pods)?.pods.get(uid)?.isAccepted).toBe(false);
      expect([...(seen(pods)?.pods.values() ?? [])].filter(({ isAccepted }) => isAccepted)).toEqual([]);
      const from = performance.now();
      while (mostTrials(pods) === 0) jest.advanceTimersByTime(pods.dueInMs(false) ?? Number.NaN);
      await dryRuns(pods, uids);
      pauses.push((performance.now() - from) / 1000);
    }
    expect(pauses).toEqual([0, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 7200]);
    refuse(pods, '0');
    pods.forgive();
    expect([mostTrials(pods), seen(pods)?.retriedWithinMs]).toEqual([0, 7_200_000]);
    pods.forgive({ byCommand: true });
    expect(mostTrials(pods)).toBeGreaterThan(0);
  });

  it('is forgotten when it was updated, and when it is gone', async () => {
    const pods = refusedPods();
    refuse(pods, 'a', 'b', 'c');
    went(pods, 'a');
    expect([...(pods.refused((uid) => uid !== 'b')?.pods.keys() ?? [])]).toEqual(['c']);
  });

  it('is tried at once when somebody has changed the object, and then as if for the first time', async () => {
    const pods = refusedPods();
    refuse(pods, 'a');
    await pausesOf(pods, denied, 6);
    pods.forgive({ byCommand: true });
    expect([isDue(pods, 'a'), seen(pods)?.mostTrials]).toEqual([true, 16]);
    await dryRuns(pods, ['a'], denied);
    expect(pods.dueInMs(false)).toBe(5_000);
  });

  it('is tried at once when one that was refused before has been updated', async () => {
    const pods = refusedPods();
    refuse(pods, 'a', 'b');
    went(pods, 'other');
    expect(isDue(pods, 'a')).toBe(false);
    went(pods, 'b');
    expect(isDue(pods, 'a')).toBe(true);
  });
});

describe('P-7: after five refusals in a row', () => {
  it('every pod is tried before it begins, until one was updated', async () => {
    const pods = refusedPods();
    refuse(pods, 'a', 'b', 'c', 'd');
    expect(isGeneral(pods)).toBe(false);
    went(pods, 'e');
    refuse(pods, 'f', 'g', 'h', 'i');
    expect(isGeneral(pods)).toBe(false);
    refuse(pods, 'j');
    expect(isGeneral(pods)).toBe(true);
    went(pods, 'k');
    expect(isGeneral(pods)).toBe(false);
  });

  it('of one namespace this holds for that one, and after 25 for all', () => {
    const pods = refusedPods();
    const five = (namespace: string) => Array.from({ length: 5 }, (_, at) => `${namespace}/${at}`);
    for (const namespace of ['evil-1', 'evil-2', 'evil-3', 'evil-4']) refuse(pods, ...five(namespace));
    expect([isGeneral(pods, 'evil-1'), isGeneral(pods, 'bank'), seen(pods)?.isGeneral]).toEqual([true, false, false]);
    went(pods, 'bank/a');
    refuse(pods, ...five('evil-5'));
    expect([isGeneral(pods, 'evil-1'), seen(pods)?.isGeneral]).toEqual([true, false]);
    for (const at of [1, 2, 3, 4]) refuse(pods, ...five(`evil-${at}`));
    expect(seen(pods)?.isGeneral).toBe(true);
    went(pods, 'bank/b');
    expect([isGeneral(pods, 'evil-1'), seen(pods)?.isGeneral]).toEqual([true, false]);
  });

  it('namespaces rest together in which dry runs are accepted and updates are not, and no other one does', async () => {
    const pods = refusedPods();
    const mislead = async (...uids: readonly string[]) => {
      await dryRuns(pods, uids);
      refuse(pods, ...uids);
    };
    for (const at of Array.from({ length: 30 }, (_, index) => index)) await mislead(`evil-${at}/a`);
    expect([mostTrials(pods, 'evil-0'), mostTrials(pods, 'evil-29'), seen(pods)?.retriedWithinMs]).toEqual([
      0, 0, 7_200_000,
    ]);
    jest.advanceTimersByTime(5_000);
    expect([mostTrials(pods, 'bank'), seen(pods)?.isGeneral]).toEqual([16, true]);
    went(pods, 'bank/a', 'evil-0/a');
    expect([mostTrials(pods, 'evil-0'), mostTrials(pods, 'evil-1'), seen(pods)?.isGeneral]).toEqual([16, 0, false]);
    expect(pods.dueInMs(false)).toBe(7_200_000 - 5_000);
  });

  it('namespaces that say nothing new are forgotten first', () => {
    const pods = refusedPods();
    refuse(pods, 'evil/a', 'evil/b', 'evil/c', 'evil/d', 'evil/e');
    for (const at of Array.from({ length: 1_100 }, (_, index) => index)) refuse(pods, `other-${at}/a`);
    expect([isGeneral(pods, 'evil'), seen(pods)?.namespaces.size]).toEqual([true, 1_000]);
  });

  it('a pod that comes due while others are planned for is not forgotten', async () => {
    const pods = refusedPods();
    refuse(pods, 'a');
    jest.advanceTimersByTime(10);
    refuse(pods, 'b');
    jest.advanceTimersByTime(4_990);
    expect([isDue(pods, 'a'), isDue(pods, 'b')]).toEqual([true, false]);
    jest.advanceTimersByTime(30);
    expect(pods.dueInMs(false)).toBe(0);
  });

  it('pods of other namespaces that were accepted stay so while they wait for their turn', async () => {
    const pods = refusedPods();
    refuse(pods, 'evil/a', 'evil/b', 'evil/c', 'evil/d', 'evil/e');
    await dryRuns(pods, ['evil/f', 'g']);
    went(pods, 'h');
    expect(seen(pods)?.pods.get('evil/f')?.isAccepted).toBe(true);
    expect(seen(pods)?.pods.has('g')).toBe(false);
  });

  it('refused dry runs do not count, and those that were only tried are forgotten with the next update', async () => {
    const pods = refusedPods();
    refuse(pods, 'a');
    await dryRuns(pods, ['b', 'c', 'd', 'e', 'f'], denied);
    expect(isGeneral(pods)).toBe(false);
    await dryRuns(pods, ['g']);
    went(pods, 'h');
    expect([...(seen(pods)?.pods.keys() ?? [])]).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  });

  it('dry runs begin 5 s apart, also when something has changed, unless by a command', async () => {
    const pods = refusedPods();
    refuse(pods, 'a', 'b', 'c', 'd', 'e');
    await dryRuns(pods, ['a'], denied);
    expect([seen(pods)?.mostTrials, pods.dueInMs(true)]).toEqual([0, 5_000]);
    pods.forgive();
    expect([seen(pods)?.mostTrials, pods.dueInMs(true)]).toEqual([0, 5_000]);
    pods.forgive({ byCommand: true });
    expect([seen(pods)?.mostTrials, pods.dueInMs(true)]).toEqual([16, 0]);
  });
});

describe('P-7: dry runs', () => {
  it('are not made twice at the same time, and nothing is due until they have ended', async () => {
    const pods = refusedPods();
    refuse(pods, 'a', 'b');
    const { promise, resolve } = Promise.withResolvers<void>();
    verdict = promise;
    const round = pods.tryOut(trials(['a']));
    jest.advanceTimersByTime(60_000);
    expect([pods.tryOut(trials(['b'])), pods.dueInMs(true)]).toEqual([undefined, undefined]);
    resolve();
    await round;
    expect([isDue(pods, 'b'), pods.dueInMs(true)]).toEqual([true, 0]);
  });

  it('that a change of the pod has overtaken leave the reason as it was', async () => {
    const pods = refusedPods();
    refuse(pods, 'a');
    jest.advanceTimersByTime(5_000);
    await dryRuns(pods, ['a'], conflict);
    expect(seen(pods)?.pods.get('a')).toMatchObject({ error: { message: denied.message }, isAccepted: false });
  });

  it('of another revision begin anew, and late ones of the one before say nothing', async () => {
    const pods = refusedPods();
    refuse(pods, 'a', 'b', 'c', 'd', 'e');
    const { promise, resolve } = Promise.withResolvers<void>();
    verdict = promise;
    const round = pods.tryOut(trials(['a']));
    pods.note('newer', { done: [], refused: [{ pod: podOf('z'), error: denied }] });
    resolve();
    await round;
    expect([seen(pods)?.revision, isGeneral(pods)]).toEqual(['newer', false]);
    expect([...(seen(pods)?.pods.keys() ?? [])]).toEqual(['z']);
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
    ['a conflict', conflict, 4, false],
    ['one conflict after another', conflict, 5, true],
  ])('%s', (_what, error, attempts, expected) => {
    expect(isRefused(error, attempts)).toBe(expected);
  });
});
