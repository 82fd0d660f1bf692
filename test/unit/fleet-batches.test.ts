import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { KubeError } from '../../kube/failures.ts';
import { batchOf, type ChosenPod, mostInFlight } from '../../plan/fleet/batch.ts';
import type { ChoiceVerdict } from '../../plan/fleet/permit.ts';
import type { PermitLife } from '../../watcher/fleet/kind.ts';
import { type ChoiceRequest, RollOutPermits } from '../../watcher/fleet/permits.ts';
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
  return await fleetWithOldPods(fleet, 30_000, pass);
}

type Started = Awaited<ReturnType<typeof fleetOfOldPods>>;

function ask(after: readonly number[] = [], more: Partial<ChoiceRequest> = {}): ChoiceRequest {
  return { revision: 'new', paused: false, after, ...more };
}

function batch(number: number, ...names: readonly string[]) {
  return batchOfRevision('new', number, ...names);
}

function batchOfRevision(revision: string, number: number, ...names: readonly string[]) {
  const chosen = names.map((name): ChosenPod => ({ namespace: 'shop', name, uid: name, how: 'inPlace' }));
  return { number, revision, batch: batchOf(revision, chosen as [ChosenPod]) };
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

const namesIn = (choice: ChoiceVerdict | undefined) =>
  choice?.kind === 'batch' ? choice.batch.pods.map(({ name }) => name) : choice?.kind;
const restarts = ({ cluster }: Pick<Started, 'cluster'>) =>
  cluster.steps.filter(({ kind }) => kind === 'restart').map(({ name }) => name);

describe('the question which pods go next', () => {
  it('is answered with as many as the budget has room for, and disrupts none of them', async () => {
    const started = await fleetOfOldPods();
    const choice = await now(started.queue.choose(uid, ask(), forEver));
    expect(namesIn(choice)).toEqual(['pod-0', 'pod-1']);
    expect(choice).toMatchObject({ of: 5, updated: 0 });
    await pass(60_000);
    expect(restarts(started)).toEqual([]);
  });

  it('waits until every batch in flight is handed in, so that no pod is chosen twice', async () => {
    const { queue } = await fleetOfOldPods();
    const choice = queue.choose(uid, ask([1]), forEver);
    await pass(5_000);
    expect(await now(choice)).toBeUndefined();
    pending(queue.carryOut(uid, batch(1, 'pod-0'), forEver));
    await pass(100);
    expect(namesIn(await now(choice))).toEqual(['pod-1']);
  });

  it('says so when a batch is not handed in for long, as when somebody has paused its activity', async () => {
    const { queue } = await fleetOfOldPods();
    const choice = queue.choose(uid, ask([1, 2]), forEver);
    pending(queue.carryOut(uid, batch(1, 'pod-0'), forEver));
    await pass(31_000);
    expect(await now(choice)).toMatchObject({
      kind: 'blocked',
      waitingFor: { reason: 'BatchNotRunning', blockedBy: ['batch/2'] },
    });
  });

  it('does not wait for a batch that has ended before it was asked', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    pending(queue.choose(uid, ask(), forEver));
    const done = queue.carryOut(uid, batch(1, 'pod-0'), forEver);
    pending(queue.choose(uid, ask([1]), forEver));
    await pass(100);
    cluster.makeReady(uid, 'pod-0', Date.now() - 1);
    await pass(100);
    expect(await now(done)).toMatchObject({ pods: [{ pod: 'pod-0' }] });
    expect(namesIn(await now(queue.choose(uid, ask([1]), forEver)))).toEqual(['pod-1', 'pod-2']);
  });

  it('collects for a moment what comes free while others are under way', async () => {
    const { cluster, queue } = await fleetOfOldPods({ replicas: 10 });
    pending(queue.choose(uid, ask(), forEver));
    for (const number of [1, 2]) pending(queue.carryOut(uid, batch(number, `pod-${number}`), forEver));
    const next = queue.choose(uid, ask([1, 2]), forEver);
    await pass(1_000);
    expect(await now(next)).toBeUndefined();
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    await pass(10);
    expect(await now(next)).toBeUndefined();
    cluster.makeReady(uid, 'pod-2', Date.now() - 1);
    await pass(20);
    expect(namesIn(await now(next))).toEqual(['pod-0', 'pod-3']);
  });

  it('says what it waits for: a budget, a pause at once, and a pause that was told only after long', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    for (const name of ['pod-3', 'pod-4']) cluster.breakDown(uid, name);
    pending(queue.choose(uid, ask(), forEver));
    pending(queue.carryOut(uid, batch(1, 'pod-3', 'pod-4'), forEver));
    const spent = queue.choose(uid, ask([1]), forEver);
    await pass(31_000);
    expect(await now(spent)).toMatchObject({ kind: 'blocked', waitingFor: { reason: 'BudgetSpent' } });
    expect(await now(queue.choose(uid, ask([1], { paused: true }), forEver))).toMatchObject({
      waitingFor: { reason: 'PausedByOperator' },
    });
    const told = queue.choose(uid, ask([1], { paused: true, told: 'PausedByOperator' }), forEver);
    await pass(60_000);
    expect(await now(told)).toBeUndefined();
  });

  it('has one asker at a time, and ends with the life of whoever asks', async () => {
    const { queue } = await fleetOfOldPods();
    const { life, end } = breath();
    const first = queue.choose(uid, ask([1]), forEver);
    const second = queue.choose(uid, ask([1]), life);
    await expect(first).rejects.toThrow('asked again');
    end('the activity has ended');
    await expect(second).rejects.toThrow('the activity has ended');
  });

  it('is answered with nothing while so many batches are in flight', async () => {
    const { queue } = await fleetOfOldPods({ replicas: 60, maxUnavailable: 60 });
    pending(queue.choose(uid, ask(), forEver));
    const numbers = Array.from({ length: mostInFlight }, (_, index) => index + 1);
    for (const number of numbers) pending(queue.carryOut(uid, batch(number, `pod-${number}`), forEver));
    const choice = queue.choose(uid, ask(numbers), forEver);
    await pass(5_000);
    expect(await now(choice)).toBeUndefined();
  });
});

describe('a batch', () => {
  it('lets its pods be disrupted and no others, and tells of each when it began and how long it took', async () => {
    const started = await fleetOfOldPods();
    const { cluster, queue } = started;
    pending(queue.choose(uid, ask(), forEver));
    const done = queue.carryOut(uid, batch(1, 'pod-1', 'pod-3'), forEver);
    await pass();
    expect(restarts(started)).toEqual(['pod-1', 'pod-3']);
    expect(queue.progressOf(uid, 1)).toEqual({
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
      pods: [
        { pod: 'pod-3', how: 'inPlace', at, ms: 3_000 },
        { pod: 'pod-1', how: 'inPlace', at, ms: 4_000 },
      ].toReversed(),
    });
  });

  it('allows and does not oblige: what may not go now goes back', async () => {
    const started = await fleetOfOldPods({ maxUnavailable: 1 });
    const { cluster, queue } = started;
    pending(queue.choose(uid, ask(), forEver));
    const done = queue.carryOut(uid, batch(1, 'pod-1', 'pod-3'), forEver);
    await pass();
    expect(restarts(started)).toEqual(['pod-1']);
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    expect(await now(done)).toMatchObject({
      pods: [{ pod: 'pod-1' }, { pod: 'pod-3', why: 'not now: the budget has no room for it' }],
    });
  });

  it('begins nothing before this watcher has heard what the roll-out allows', async () => {
    const started = await fleetOfOldPods();
    const { queue } = started;
    const done = queue.carryOut(uid, batch(1, 'pod-1'), forEver);
    await pass(60_000);
    expect(restarts(started)).toEqual([]);
    pending(queue.choose(uid, ask([1], { paused: true }), forEver));
    expect(await now(done)).toMatchObject({ pods: [{ why: expect.stringContaining('not now') }] });
    expect(restarts(started)).toEqual([]);
  });

  it('gives back at a pause what has not begun, and finishes what has', async () => {
    const started = await fleetOfOldPods({ maxUnavailable: 1 });
    const { cluster, queue } = started;
    cluster.beforeWrite = ({ kind, name }) => {
      if (kind === 'restart' && name === 'pod-2') throw new KubeError({ status: 503, message: 'away' });
    };
    cluster.put({ ...started.fleet, maxUnavailable: 2 });
    pending(queue.choose(uid, ask(), forEver));
    const done = queue.carryOut(uid, batch(1, 'pod-1', 'pod-2'), forEver);
    await pass();
    expect(restarts(started)).toEqual(['pod-1']);
    pending(queue.choose(uid, ask([1], { paused: true }), forEver));
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

  it('is over for a pod that another batch names, that is gone, or that an operator leaves out', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 3 });
    pending(queue.choose(uid, ask([1, 2]), forEver));
    const first = queue.carryOut(uid, batch(1, 'pod-1', 'pod-2', 'pod-9'), forEver);
    const second = queue.carryOut(uid, batch(2, 'pod-2'), forEver);
    await pass();
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    expect(await now(first)).toMatchObject({
      pods: [{ pod: 'pod-1' }, { why: 'it is in batch 2' }, { pod: 'pod-9', why: 'it is gone' }],
    });
    cluster.breakDown(uid, 'pod-2');
    cluster.order(uid, { version: 1, revision: 'new', skip: ['pod-2'] });
    pending(queue.choose(uid, ask([2]), forEver));
    await pass();
    expect(await now(second)).toBeUndefined(); // it is of the revision already, and not available
    cluster.makeReady(uid, 'pod-2', Date.now() - 1);
    expect((await now(second))?.pods).toMatchObject([{ pod: 'pod-2' }]);
  });

  it('ends with another revision, and with its object', async () => {
    const { cluster, fleet, queue } = await fleetOfOldPods();
    pending(queue.choose(uid, ask(), forEver));
    const first = queue.carryOut(uid, batch(1, 'pod-1'), forEver);
    await pass();
    cluster.put({ ...fleet, revision: 'newer' });
    expect(await now(first)).toMatchObject({ pods: [{ why: 'another revision is asked for' }] });
    pending(queue.choose(uid, ask([2], { revision: 'newer' }), forEver));
    const second = queue.carryOut(uid, batchOfRevision('newer', 2, 'pod-1'), forEver);
    await pass();
    cluster.remove(uid);
    expect(await now(second)).toMatchObject({ pods: [{ why: 'the object is gone' }] });
  });

  it('disrupts nothing once its life is over, and what it began counts for the attempt that follows', async () => {
    const started = await fleetOfOldPods({ maxUnavailable: 1 });
    const { cluster, newTerm } = started;
    const { life, end } = breath();
    pending(started.queue.choose(uid, ask(), life));
    const lost = started.queue.carryOut(uid, batch(1, 'pod-1', 'pod-2'), life);
    await pass();
    end('Temporal has not confirmed the permit in time');
    await expect(lost).rejects.toThrow('not confirmed');
    const next = newTerm();
    pending(next.choose(uid, ask([1]), forEver));
    const done = next.carryOut(uid, batch(1, 'pod-1', 'pod-2'), forEver);
    await pass(1_000);
    cluster.makeReady(uid, 'pod-1', Date.now() - 1);
    expect(await now(done)).toMatchObject({ pods: [{ pod: 'pod-1' }, { why: expect.stringContaining('not now') }] });
    expect(restarts(started)).toEqual(['pod-1']);
  });

  it('waits for the pod that takes the place of one that it has recreated, whichever attempt began that', async () => {
    const permits = new RollOutPermits({ longWaitMs: 600_000, wake: async () => true });
    pending(permits.choose(ask([1]), forEver));
    const chosen = [{ namespace: 'shop', name: 'pod-0', uid: 'pod-0', how: 'recreate' }] as const;
    const request = { number: 1, revision: 'new', batch: batchOf('new', chosen) };
    const { life, end } = breath();
    pending(permits.carryOut(request, life));
    permits.permit();
    permits.begin('pod-0', Date.now());
    end('reset by hand');
    const done = permits.carryOut(request, forEver);
    const judge = (awaited: number) => {
      const named = { pods: new Map(), awaited, progress: { of: 5, updated: 1, ready: 1 - awaited } };
      permits.judgeBatches(permits.permit(), { standing: { kind: 'working' }, named });
    };
    for (const awaited of [1, 2]) {
      judge(awaited);
      expect(await now(done)).toBeUndefined();
    }
    judge(0);
    expect((await now(done))?.pods).toEqual([{ pod: 'pod-0', how: 'recreate' }]);
  });

  it('that ends without a verdict is noticed at once, though nothing happens in the cluster', async () => {
    const { queue } = await fleetOfOldPods();
    pending(queue.choose(uid, ask(), forEver));
    const { life, end } = breath();
    pending(queue.carryOut(uid, batch(1, 'pod-0', 'pod-1'), life));
    await pass(100);
    const choice = queue.choose(uid, ask([1], { told: 'BudgetSpent' }), forEver);
    await pass(40_000);
    end('paused by hand');
    await pass(31_000);
    expect(await now(choice)).toMatchObject({ kind: 'blocked', waitingFor: { reason: 'BatchNotRunning' } });
  });

  it('is not through with a recreated pod while more pods are to come than it waits for', async () => {
    const permits = new RollOutPermits({ longWaitMs: 600_000, wake: async () => true });
    pending(permits.choose(ask([1]), forEver));
    const names = ['pod-0', 'pod-1', 'pod-2'] as const;
    const recreated = names.map((name): ChosenPod => ({ namespace: 'shop', name, uid: name, how: 'recreate' }));
    const done = permits.carryOut(
      { number: 1, revision: 'new', batch: batchOf('new', recreated as [ChosenPod]) },
      forEver,
    );
    const judge = (awaited: number) => {
      const named = { pods: new Map(), awaited, progress: { of: 5, updated: 0, ready: 0 } };
      permits.judgeBatches(permits.permit(), { standing: { kind: 'working' }, named });
      return permits.permit()?.pods?.size;
    };
    expect([judge(4), judge(3), judge(2)]).toEqual([3, 3, 2]);
    judge(0);
    expect((await now(done))?.pods).toHaveLength(3);
  });
});
