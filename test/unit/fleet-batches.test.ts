import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { KubeError } from '../../kube/failures.ts';
import { batchOf, type ChosenPod } from '../../plan/fleet/batch.ts';
import type { Answer } from '../../plan/fleet/permit.ts';
import { mostInFlight } from '../../plan/permits/in-flight.ts';
import { RollOutPermits } from '../../watcher/fleet/permits.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import { fleetWithOldPods } from '../support/fleet-of-old-pods.ts';
import type { TrivialFleet } from '../support/trivial-fleet.ts';

const uid = 'fleet-1';

beforeEach(() => {
  jest.useFakeTimers({ now: Date.UTC(2026, 0, 1), doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

const pass = (ms = 0) => jest.advanceTimersByTimeAsync(ms);

function breath() {
  const end = new AbortController();
  const life: PermitLife = { isAlive: () => !end.signal.aborted, ended: end.signal };
  return { life, end: (why: string) => end.abort(new Error(why)) };
}

const forEver = breath().life;

/** Five ready pods of the revision `old`, while `new` is wanted, two of which may be down; and the queue of one term. */
async function fleetOfOldPods(overrides: Partial<TrivialFleet> = {}) {
  const fleet = { uid, replicas: 5, revision: 'new', maxUnavailable: 2, minReadyMs: 0, ...overrides };
  return await fleetWithOldPods(fleet, pass);
}

type Started = Awaited<ReturnType<typeof fleetOfOldPods>>;

function batch(number: number, ...names: readonly string[]) {
  return batchOfRevision('new', number, ...names);
}

function batchOfRevision(revision: string, number: number, ...names: readonly string[]) {
  const chosen = names.map((name): ChosenPod => ({ namespace: 'shop', name, uid: name, how: 'inPlace' }));
  return { number, batch: batchOf(revision, chosen as [ChosenPod]) };
}

/** Nobody waits for it here. */
function pending(promise: Promise<unknown>): void {
  promise.catch(() => undefined);
}

/** What a promise has come to by now; undefined while it is pending. */
async function now<Value>(promise: Promise<Value>): Promise<Value | undefined> {
  await pass();
  return await Promise.race([promise, Promise.resolve(undefined)]);
}

const namesIn = (answer: Answer | undefined) =>
  answer?.kind === 'pods' ? answer.batches.flatMap(({ pods }) => pods.map(({ name }) => name)) : answer?.kind;
const restarts = ({ cluster }: Pick<Started, 'cluster'>) =>
  cluster.steps.filter(({ kind }) => kind === 'restart').map(({ name }) => name);

describe('the answer which pods go next', () => {
  it('names as many as the budget has room for, and disrupts none of them', async () => {
    const started = await fleetOfOldPods();
    const answer = started.queue.next(uid);
    expect(namesIn(answer)).toEqual(['pod-0', 'pod-1']);
    expect(answer).toMatchObject({ of: 5, updated: 0, more: false, facts: { revision: 'new', replicas: 5 } });
    await pass(60_000);
    expect(restarts(started)).toEqual([]);
  });

  it('P-2: comes in batches of 40, and in the result of a batch in one', async () => {
    const { cluster, queue } = await fleetOfOldPods({ replicas: 100, maxUnavailable: 100 });
    const answer = queue.next(uid);
    expect(answer.kind === 'pods' && answer.batches.map(({ pods }) => pods.length)).toEqual([40, 40, 20]);
    const done = queue.carryOut(uid, batch(1, 'pod-0'), forEver);
    await pass(100);
    cluster.makeReady(uid, 'pod-0', Date.now() - 1);
    const { next } = (await now(done)) ?? {};
    expect(next).toMatchObject({ kind: 'pods', more: true, of: 100, updated: 1 });
    expect(namesIn(next)).toHaveLength(40);
  });

  it('P-3: names no pod of a batch in flight, and says nothing while those explain that none may go', async () => {
    const { queue } = await fleetOfOldPods();
    pending(queue.carryOut(uid, batch(1, 'pod-0'), forEver));
    expect(namesIn(queue.next(uid))).toEqual(['pod-1']);
    pending(queue.carryOut(uid, batch(2, 'pod-1'), forEver));
    await pass(100);
    expect(queue.next(uid)).toMatchObject({ kind: 'nothing', facts: { revision: 'new' } });
  });

  it('P-2: collects for a moment what comes free while others are under way', async () => {
    const { cluster, queue } = await fleetOfOldPods({ replicas: 10, maxUnavailable: 3 });
    const [first] = [1, 2, 4].map((number) => queue.carryOut(uid, batch(number, `pod-${number}`), forEver));
    await pass(1_000);
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    await pass(10);
    expect(first && (await now(first))).toBeUndefined();
    cluster.makeReady(uid, 'pod-2', Date.now() - 1);
    await pass(20);
    expect(namesIn(first && (await now(first))?.next)).toEqual(['pod-0', 'pod-3']);
  });

  it('says what it waits for: a budget, and an operator', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    for (const name of ['pod-3', 'pod-4']) cluster.breakDown(uid, name);
    cluster.order(uid, { version: 1, revision: 'new', skip: ['pod-3', 'pod-4'] });
    await pass();
    expect(queue.next(uid)).toMatchObject({ kind: 'wait', waitingFor: { reason: 'BudgetSpent' } });
    cluster.order(uid, { version: 2, revision: 'new', paused: { by: 'ann', at: '2026-01-01T00:00:00Z' } });
    expect(queue.next(uid)).toMatchObject({
      waitingFor: { reason: 'PausedByOperator' },
      facts: { orders: { paused: { by: 'ann' } } },
    });
  });

  it('P-1: names nothing while so many batches are in flight', async () => {
    const { queue } = await fleetOfOldPods({ replicas: 60, maxUnavailable: 60 });
    const numbers = Array.from({ length: mostInFlight }, (_, index) => index + 1);
    for (const number of numbers) pending(queue.carryOut(uid, batch(number, `pod-${number}`), forEver));
    await pass(5_000);
    expect(queue.next(uid)).toMatchObject({ kind: 'nothing' });
  });
});

describe('a batch', () => {
  it('lets its pods be disrupted and no others, and tells of each when it began and how long it took', async () => {
    const started = await fleetOfOldPods();
    const { cluster, queue } = started;
    const done = queue.carryOut(uid, batch(1, 'pod-1', 'pod-3'), forEver);
    await pass();
    expect(restarts(started)).toEqual(['pod-1', 'pod-3']);
    expect(queue.progressOf(uid, 1)).toMatchObject({
      of: 5,
      updated: 2,
      ready: 0,
      now: ['pod-1 not ready', 'pod-3 not ready'],
    });
    await pass(3_000);
    cluster.makeReady(uid, 'pod-3', Date.now() - 1);
    await pass(1_000);
    expect(await now(done)).toBeUndefined();
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    const at = '2026-01-01T00:00:00.000Z';
    expect(await now(done)).toEqual({
      summary: '2 of 5 pods are updated, 2 of these are available',
      next: expect.objectContaining({ kind: 'pods', of: 5, updated: 2 }),
      pods: [
        { pod: 'pod-3', how: 'inPlace', at, ms: 3_000 },
        { pod: 'pod-1', how: 'inPlace', at, ms: 4_000 },
      ].toReversed(),
    });
  });

  it('shows while it is pending what the object waits for, and since when', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 1 });
    pending(queue.carryOut(uid, batch(1, 'pod-0'), forEver));
    await pass(3_000);
    const since = '2026-01-01T00:00:00.000Z';
    const waitingFor = { reason: 'BudgetSpent', blockedBy: ['Pod/pod-0'], since };
    expect(queue.progressOf(uid, 1)).toMatchObject({ now: ['pod-0 not ready'], waitingFor });
    cluster.order(uid, { version: 1, revision: 'new', paused: { by: 'ann', at: since } });
    await pass();
    expect(queue.progressOf(uid, 1).waitingFor).toMatchObject({ reason: 'PausedByOperator' });
  });

  it('P-6: has begun once the update of each pod has, also of one that is tried again or was begun by an earlier attempt', async () => {
    const { cluster, queue, newTerm } = await fleetOfOldPods();
    let isRefused = true;
    cluster.beforeWrite = ({ kind, name }) => {
      if (isRefused && kind === 'restart' && name === 'pod-1') throw new KubeError({ status: 503, message: 'away' });
    };
    pending(queue.carryOut(uid, batch(1, 'pod-0', 'pod-1'), forEver));
    await pass(2_000);
    expect([queue.isBegun(uid, 1), queue.isBegun(uid, 2)]).toEqual([false, false]);
    isRefused = false;
    await pass(10_000);
    expect(queue.isBegun(uid, 1)).toBe(true);
    const next = newTerm();
    pending(next.carryOut(uid, batch(2, 'pod-0', 'pod-1'), forEver));
    expect(next.isBegun(uid, 2)).toBe(false);
    await pass(100);
    expect(next.isBegun(uid, 2)).toBe(true);
  });

  it('allows and does not oblige: what may not go now goes back', async () => {
    const started = await fleetOfOldPods({ maxUnavailable: 1 });
    const { cluster, queue } = started;
    const done = queue.carryOut(uid, batch(1, 'pod-1', 'pod-3'), forEver);
    await pass();
    expect(restarts(started)).toEqual(['pod-1']);
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    expect(await now(done)).toMatchObject({
      pods: [{ pod: 'pod-1' }, { pod: 'pod-3', why: 'not now: the budget has no room for it' }],
    });
  });

  it('gives back at a pause what has not begun, and finishes what has', async () => {
    const started = await fleetOfOldPods({ maxUnavailable: 1 });
    const { cluster, queue } = started;
    cluster.beforeWrite = ({ kind, name }) => {
      if (kind === 'restart' && name === 'pod-2') throw new KubeError({ status: 503, message: 'away' });
    };
    cluster.put({ ...started.fleet, maxUnavailable: 2 });
    const done = queue.carryOut(uid, batch(1, 'pod-1', 'pod-2'), forEver);
    await pass();
    expect(restarts(started)).toEqual(['pod-1']);
    cluster.order(uid, { version: 1, revision: 'new', paused: { by: 'ann', at: '2026-01-01T00:00:00Z' } });
    await pass(1_000);
    expect(await now(done)).toBeUndefined();
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    expect(await now(done)).toMatchObject({
      pods: [
        { pod: 'pod-1', ms: 1_000 },
        { pod: 'pod-2', why: expect.stringContaining('not now') },
      ],
    });
  });

  it('P-6: leaves its pods to a later one though it comes after it, and ends with its run', async () => {
    const { queue } = await fleetOfOldPods();
    const request = (run: string, number: number) => ({ ...batch(number, 'pod-1'), run });
    const later = queue.carryOut(uid, request('run-1', 6), forEver);
    const earlier = queue.carryOut(uid, request('run-1', 5), forEver);
    await pass(600);
    expect(await now(earlier)).toMatchObject({ pods: [{ why: 'it is in batch 6' }] });
    expect(await now(later)).toBeUndefined();
    const ended = expect(later).rejects.toThrow('the operation has taken the batch back');
    pending(queue.carryOut(uid, request('run-2', 1), forEver));
    await ended;
  });

  it('P-4b: that was taken back ends when its run asks, so that its result pays nothing', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 4 });
    const lost = queue.carryOut(uid, batch(1, 'pod-0', 'pod-1'), forEver);
    const kept = [queue.carryOut(uid, batch(2, 'pod-2'), forEver), queue.carryOut(uid, batch(4, 'pod-3'), forEver)];
    const ended = expect(lost).rejects.toThrow('the operation has taken the batch back');
    await pass(10_000);
    // batch 4 is on its way behind the question
    queue.next(uid, { carried: { numbers: [2], next: 4 } });
    await ended;
    for (const one of kept) expect(await now(one)).toBeUndefined();
    for (const name of ['pod-0', 'pod-1']) cluster.makeReady(uid, name, Date.now() - 1);
    const woken: string[] = [];
    cluster.onWake = (of) => woken.push(of);
    await pass(1_000);
    expect(woken).toEqual([uid]);
  });

  it('is over for a pod that another batch names, that is gone, or that an operator leaves out', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 3 });
    const first = queue.carryOut(uid, batch(1, 'pod-1', 'pod-2', 'pod-9'), forEver);
    const second = queue.carryOut(uid, batch(2, 'pod-2'), forEver);
    await pass();
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    await pass(20);
    expect(await now(first)).toMatchObject({
      pods: [{ pod: 'pod-1' }, { why: 'it is in batch 2' }, { pod: 'pod-9', why: 'it is gone' }],
    });
    cluster.breakDown(uid, 'pod-2');
    cluster.order(uid, { version: 1, revision: 'new', skip: ['pod-2'] });
    await pass();
    expect(await now(second)).toBeUndefined(); // it is of the revision already, and not available
    cluster.makeReady(uid, 'pod-2', Date.now() - 1);
    expect((await now(second))?.pods).toMatchObject([{ pod: 'pod-2' }]);
  });

  it('ends with another revision, and with its object', async () => {
    const { cluster, fleet, queue } = await fleetOfOldPods();
    const first = queue.carryOut(uid, batch(1, 'pod-1'), forEver);
    await pass();
    cluster.put({ ...fleet, revision: 'newer' });
    expect(await now(first)).toMatchObject({ pods: [{ why: 'another revision is asked for' }] });
    const second = queue.carryOut(uid, batchOfRevision('newer', 2, 'pod-1'), forEver);
    await pass();
    cluster.remove(uid);
    expect(await now(second)).toMatchObject({ pods: [{ why: 'the object is gone' }] });
  });

  it('disrupts nothing once its life is over, and what it began counts for the attempt that follows', async () => {
    const started = await fleetOfOldPods({ maxUnavailable: 1 });
    const { cluster, newTerm } = started;
    const { life, end } = breath();
    const lost = started.queue.carryOut(uid, batch(1, 'pod-1', 'pod-2'), life);
    await pass();
    end('Temporal has not confirmed the permit in time');
    await expect(lost).rejects.toThrow('not confirmed');
    const next = newTerm();
    const done = next.carryOut(uid, batch(1, 'pod-1', 'pod-2'), forEver);
    await pass(1_000);
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    expect(await now(done)).toMatchObject({ pods: [{ pod: 'pod-1' }, { why: expect.stringContaining('not now') }] });
    expect(restarts(started)).toEqual(['pod-1']);
  });

  it('waits for the pod that takes the place of one that it has recreated, whichever attempt began that', async () => {
    const permits = new RollOutPermits({ longWaitMs: 600_000 });
    const chosen = [{ namespace: 'shop', name: 'pod-0', uid: 'pod-0', how: 'recreate' }] as const;
    const request = { number: 1, batch: batchOf('new', chosen) };
    const { life, end } = breath();
    pending(permits.carryOut(request, life));
    permits.permit();
    permits.begin('pod-0', Date.now());
    end('reset by hand');
    const done = permits.carryOut(request, forEver);
    const judge = (awaited: number) => {
      const named = { to: 'new', pods: new Map(), awaited, progress: { of: 5, updated: 1, ready: 1 - awaited } };
      permits.judgeBatches(permits.permit(), { standing: { kind: 'working' }, named });
    };
    for (const awaited of [1, 2]) {
      judge(awaited);
      expect(await now(done)).toBeUndefined();
    }
    judge(0);
    expect((await now(done))?.pods).toEqual([{ pod: 'pod-0', how: 'recreate' }]);
  });

  it('P-1: that ends without a result has its pods named again at once, though nothing happens in the cluster', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    const woken: string[] = [];
    cluster.onWake = (of) => woken.push(of);
    cluster.beforeWrite = () => {
      throw new KubeError({ status: 403, message: 'forbidden' });
    };
    queue.next(uid);
    const { life, end } = breath();
    pending(queue.carryOut(uid, batch(1, 'pod-0', 'pod-1'), life));
    await pass(2_000);
    expect(woken).toEqual([]);
    end('paused by hand');
    await pass(100);
    expect(woken).toEqual([uid]);
    expect(namesIn(queue.next(uid))).toEqual(['pod-0', 'pod-1']);
  });

  it('is not through with a recreated pod while more pods are to come than it waits for', async () => {
    const permits = new RollOutPermits({ longWaitMs: 600_000 });
    const names = ['pod-0', 'pod-1', 'pod-2'] as const;
    const recreated = names.map((name): ChosenPod => ({ namespace: 'shop', name, uid: name, how: 'recreate' }));
    const done = permits.carryOut({ number: 1, batch: batchOf('new', recreated as [ChosenPod]) }, forEver);
    const judge = (awaited: number) => {
      const named = { to: 'new', pods: new Map(), awaited, progress: { of: 5, updated: 0, ready: 0 } };
      permits.judgeBatches(permits.permit(), { standing: { kind: 'working' }, named });
      return permits.permit()?.pods?.size;
    };
    expect([judge(4), judge(3), judge(2)]).toEqual([3, 3, 2]);
    judge(0);
    expect((await now(done))?.pods).toHaveLength(3);
  });
});
