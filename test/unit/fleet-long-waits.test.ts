import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { KubeError } from '../../kube/failures.ts';
import { batchOf, type ChosenPod } from '../../plan/fleet/batch.ts';
import type { PermitLife } from '../../watcher/fleet/kind.ts';
import type { ChoiceRequest } from '../../watcher/fleet/permits.ts';
import { fleetWithOldPods } from '../support/fleet-of-old-pods.ts';
import type { TrivialFleet } from '../support/trivial-fleet.ts';

const uid = 'fleet-1';
const tenMinutes = 600_000;

beforeEach(() => {
  jest.useFakeTimers({ now: Date.UTC(2026, 0, 1), doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

const pass = (ms = 0) => jest.advanceTimersByTimeAsync(ms);
const forEver: PermitLife = { isAlive: () => true, ended: new AbortController().signal };

/** Five pods of the revision `old`, while `new` is wanted; one may be down, and `pod-4` is. */
async function fleetOfOldPods(overrides: Partial<TrivialFleet> = {}) {
  const fleet = { uid, replicas: 5, revision: 'new', maxUnavailable: 1, minReadyMs: 0, ...overrides };
  const started = await fleetWithOldPods(fleet, 5_000, pass);
  const woken: string[] = [];
  started.cluster.onWake = async (of) => woken.push(of) > 0;
  return { ...started, woken };
}

type Started = Awaited<ReturnType<typeof fleetOfOldPods>>;

function ask(after: readonly number[] = [], more: Partial<ChoiceRequest> = {}): ChoiceRequest {
  return { revision: 'new', paused: false, after, ...more };
}

function batch(number: number, ...names: readonly string[]) {
  const chosen = names.map((name): ChosenPod => ({ namespace: 'shop', name, uid: name, how: 'inPlace' }));
  return { number, revision: 'new', batch: batchOf('new', chosen as [ChosenPod]) };
}

function pending(promise: Promise<unknown>): void {
  promise.catch(() => undefined);
}

async function now<Value>(promise: Promise<Value>): Promise<Value | undefined> {
  await pass();
  return await Promise.race([promise, Promise.resolve(undefined)]);
}

const restarts = ({ cluster }: Pick<Started, 'cluster'>) =>
  cluster.steps.filter(({ kind }) => kind === 'restart').map(({ name }) => name);

/** The budget is spent by an updated pod that is not ready: the question was told so, and was parked ten minutes later. */
async function parked(overrides: Partial<TrivialFleet> = {}) {
  const started = await fleetOfOldPods(overrides);
  const { queue } = started;
  pending(queue.choose(uid, ask(), forEver));
  const given = queue.carryOut(uid, batch(1, 'pod-0'), forEver);
  await pass();
  const first = queue.choose(uid, ask([1]), forEver);
  await pass(5_000);
  expect(await now(first)).toMatchObject({ kind: 'blocked', waitingFor: { reason: 'BudgetSpent' } });
  expect(await now(first)).not.toHaveProperty('parked');
  const second = queue.choose(uid, ask([1], { told: 'BudgetSpent' }), forEver);
  await pass(tenMinutes - 5_001);
  expect([await now(given), await now(second)]).toEqual([undefined, undefined]);
  await pass(5_002);
  return { ...started, given: await now(given), verdict: await now(second) };
}

describe('a wait of a roll-out that lasts ten minutes', () => {
  it('is parked, and the batch of which nothing has changed is given back', async () => {
    const { given, verdict, woken } = await parked();
    const at = '2026-01-01T00:00:00.000Z';
    expect(given).toEqual({
      summary: '1 of 5 pods are updated, 0 of these are available',
      pods: [{ pod: 'pod-0', how: 'inPlace', at, why: 'not available after 10 minutes: not ready' }],
    });
    expect(verdict).toMatchObject({ kind: 'blocked', parked: true, waitingFor: { reason: 'BudgetSpent', since: at } });
    expect(woken).toEqual([]);
  });

  it('disrupts nothing while it is parked, and wakes the roll-out once when pods may go', async () => {
    const { cluster, queue, woken } = await parked();
    await pass(7 * 24 * 3_600_000);
    expect([woken, restarts({ cluster })]).toEqual([[], ['pod-0']]);
    cluster.makeReady(uid, 'pod-0', Date.now());
    await pass(60_000);
    expect([woken, restarts({ cluster })]).toEqual([[uid], ['pod-0']]);
    const asked = queue.choose(uid, ask([], { told: 'BudgetSpent', parked: true }), forEver);
    expect(await now(asked)).toMatchObject({ kind: 'batch', batch: { pods: [{ name: 'pod-1' }] } });
  });

  it('wakes the roll-out when it waits for something else, which has lasted for a moment', async () => {
    const { cluster, queue, woken } = await parked();
    const by = { by: 'ann', at: '2026-01-01T00:00:00Z' };
    cluster.order(uid, { version: 1, revision: 'new', paused: by });
    await pass(4_000);
    cluster.order(uid, undefined);
    await pass(60_000);
    expect(woken).toEqual([]);
    cluster.order(uid, { version: 2, revision: 'new', paused: by });
    await pass(5_001);
    expect(woken).toEqual([uid]);
    const asked = queue.choose(uid, ask([], { told: 'BudgetSpent', parked: true }), forEver);
    expect(await now(asked)).toMatchObject({ parked: true, waitingFor: { reason: 'PausedByOperator' } });
    await pass(tenMinutes);
    expect(woken).toEqual([uid]);
  });

  it('wakes the roll-out when all is done, another revision is wanted, or the object is gone', async () => {
    for (const happens of ['done', 'superseded', 'gone'] as const) {
      const { cluster, fleet, woken } = await parked(happens === 'done' ? { replicas: 1 } : {});
      if (happens === 'done') cluster.makeReady(uid, 'pod-0', Date.now());
      if (happens === 'superseded') cluster.put({ ...fleet, revision: 'newer' });
      if (happens === 'gone') cluster.remove(uid);
      await pass();
      expect([happens, woken]).toEqual([happens, [uid]]);
    }
  });

  it('wakes the roll-out as soon as Temporal answers', async () => {
    const { cluster, woken } = await parked();
    let isAway = true;
    cluster.onWake = async (of) => woken.push(of) > 0 && !isAway;
    cluster.makeReady(uid, 'pod-0', Date.now());
    await pass(25_000);
    expect(woken).toHaveLength(3);
    isAway = false;
    await pass(tenMinutes);
    expect(woken).toHaveLength(4);
  });

  it('is parked again at once when it has not changed, under this leader and the next', async () => {
    const { queue, newTerm, verdict } = await parked();
    const again = ask([], { told: 'BudgetSpent', parked: true });
    expect(await now(queue.choose(uid, again, forEver))).toEqual(verdict);
    const next = newTerm();
    next.add(uid, 'fullPass');
    const asked = next.choose(uid, again, forEver);
    await pass(4_000);
    expect(await now(asked)).toBeUndefined();
    await pass(1_001);
    expect(await now(asked)).toMatchObject({ kind: 'blocked', parked: true, waitingFor: { reason: 'BudgetSpent' } });
  });

  it('is not parked while a batch gets on, or while the activity of one is held up', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 2 });
    cluster.order(uid, { version: 1, revision: 'new', skip: ['pod-2', 'pod-3', 'pod-4'] });
    pending(queue.choose(uid, ask([]), forEver));
    const given = queue.carryOut(uid, batch(1, 'pod-0', 'pod-1'), forEver);
    await pass();
    const asked = queue.choose(uid, ask([1], { told: 'BudgetSpent' }), forEver);
    await pass(tenMinutes - 60_000);
    cluster.makeReady(uid, 'pod-0', Date.now());
    await pass(tenMinutes - 60_000);
    expect([await now(given), await now(asked)]).toEqual([undefined, undefined]);
    await pass(60_001);
    expect(await now(given)).toMatchObject({
      pods: [
        { pod: 'pod-0', ms: tenMinutes - 60_000 },
        { pod: 'pod-1', why: expect.stringContaining('10 minutes') },
      ],
    });
    expect(await now(asked)).toMatchObject({ parked: true });
    const held = queue.choose(uid, ask([2], { told: 'BatchNotRunning' }), forEver);
    await pass(3 * tenMinutes);
    expect(await now(held)).toBeUndefined();
  });

  it('is not parked while a write of its batch is refused and tried again', async () => {
    const started = await fleetOfOldPods();
    const { cluster, queue } = started;
    cluster.beforeWrite = ({ kind }) => {
      if (kind === 'restart') throw new KubeError({ status: 403, message: 'forbidden by a policy' });
    };
    pending(queue.choose(uid, ask(), forEver));
    const given = queue.carryOut(uid, batch(1, 'pod-0'), forEver);
    await pass(3 * tenMinutes);
    expect(await now(given)).toBeUndefined();
    cluster.beforeWrite = () => undefined;
    await pass(tenMinutes);
    expect(restarts(started)).toEqual(['pod-0']);
  });

  it('gives back what has not begun, when nobody tells this watcher what is allowed', async () => {
    const started = await fleetOfOldPods();
    const given = started.queue.carryOut(uid, batch(1, 'pod-0'), forEver);
    await pass(tenMinutes + 1);
    expect(await now(given)).toMatchObject({ pods: [{ why: 'not now: nothing has happened for 10 minutes' }] });
    expect(restarts(started)).toEqual([]);
  });
});
