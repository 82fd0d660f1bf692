import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { KubeError } from '../../kube/failures.ts';
import { batchOf, type ChosenPod } from '../../plan/fleet/batch.ts';
import { asked, begun, heard } from '../../plan/fleet/roll-out.ts';
import { heldBatch, restsForMs } from '../../watcher/fleet/held-batch.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';

import { fleetWithOldPods } from '../support/fleet-of-old-pods.ts';
import { alive } from '../support/played-roll-out.ts';
import type { TrivialFleet } from '../support/trivial-fleet.ts';

const uid = 'fleet-1';
const tenMinutes = 600_000;
const by = { by: 'ann', at: '2026-01-01T00:00:00Z' };

beforeEach(() => {
  jest.useFakeTimers({ now: Date.UTC(2026, 0, 1), doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

const pass = (ms = 0) => jest.advanceTimersByTimeAsync(ms);

/**
 * Five pods of the revision `old`, while `new` is wanted; one may be down. `woken`: when the roll-out was told to ask, which it
 * does then unless it is `deaf`.
 */
async function fleetOfOldPods(overrides: Partial<TrivialFleet> = {}, isDeaf = false) {
  const fleet = { uid, replicas: 5, revision: 'new', maxUnavailable: 1, minReadyMs: 0, ...overrides };
  const started = await fleetWithOldPods(fleet, pass);
  const beganAtMs = Date.now();
  const woken: number[] = [];
  started.cluster.onWake = () => {
    woken.push(Date.now() - beganAtMs);
    if (!isDeaf) started.queue.next(uid);
  };
  return { ...started, woken };
}

function batch(number: number, ...names: readonly string[]) {
  const chosen = names.map((name): ChosenPod => ({ namespace: 'shop', name, uid: name, how: 'inPlace' }));
  return { number, batch: batchOf('new', chosen as [ChosenPod]) };
}

async function now<Value>(promise: Promise<Value>): Promise<Value | undefined> {
  await pass();
  return await Promise.race([promise, Promise.resolve(undefined)]);
}

function life() {
  const ended = new AbortController();
  const given: PermitLife = { isAlive: () => !ended.signal.aborted, ended: ended.signal };
  return { life: given, end: () => ended.abort(new Error('the run was terminated')) };
}

/** The budget is spent by an updated pod that is not ready, which was given back after ten minutes. */
async function waiting(overrides: Partial<TrivialFleet> = {}) {
  const started = await fleetOfOldPods(overrides);
  started.queue.next(uid);
  const given = started.queue.carryOut(uid, batch(1, 'pod-0'), alive);
  await pass(tenMinutes - 1);
  expect(await now(given)).toBeUndefined();
  await pass(2);
  return { ...started, result: await now(given) };
}

describe('a batch of which nothing changes for ten minutes', () => {
  it('P-7: is given back, and its result says what is waited for', async () => {
    const { result, woken } = await waiting();
    const at = '2026-01-01T00:00:00.000Z';
    expect(result).toMatchObject({
      summary: '1 of 5 pods are updated, 0 of these are available',
      pods: [{ pod: 'pod-0', how: 'inPlace', at, why: 'not available after 10 minutes: not ready' }],
      next: { kind: 'wait', waitingFor: { reason: 'BudgetSpent', blockedBy: ['Pod/pod-0'] } },
    });
    expect(woken).toEqual([]);
  });

  it('P-7: is kept as long as it gets on', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 2 });
    const given = queue.carryOut(uid, batch(1, 'pod-0', 'pod-1'), alive);
    await pass(tenMinutes - 60_000);
    cluster.makeReady(uid, 'pod-0', Date.now());
    await pass(tenMinutes - 60_000);
    expect(await now(given)).toBeUndefined();
    await pass(60_001);
    expect(await now(given)).toMatchObject({
      pods: [
        { pod: 'pod-0', ms: tenMinutes - 60_000 },
        { pod: 'pod-1', why: expect.stringContaining('10 minutes') },
      ],
    });
  });

  it('is kept while a write of it is refused and tried again', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    cluster.beforeWrite = ({ kind }) => {
      if (kind === 'restart') throw new KubeError({ status: 403, message: 'forbidden by a policy' });
    };
    const given = queue.carryOut(uid, batch(1, 'pod-0'), alive);
    await pass(3 * tenMinutes);
    expect(await now(given)).toBeUndefined();
    cluster.beforeWrite = () => undefined;
    await pass(tenMinutes);
    expect(cluster.steps.filter(({ kind }) => kind === 'restart')).toEqual([{ kind: 'restart', name: 'pod-0' }]);
  });
});

describe('a roll-out is told to ask', () => {
  it('P-4: when the term is new, and again after 10 s, doubling, until it does', async () => {
    const { cluster, queue, woken } = await fleetOfOldPods({}, true);
    await pass(80_000);
    // the first time was when the revision was wanted
    expect(woken).toEqual([10_000, 30_000, 70_000]);
    queue.next(uid);
    cluster.put({ ...cluster.fleetOf(uid), minReadyMs: 1 } as TrivialFleet);
    await pass(1_000);
    expect(woken).toHaveLength(4);
  });

  it('P-4a: once when pods may go, though nothing has changed for a week', async () => {
    const { cluster, woken } = await waiting();
    await pass(7 * 24 * 3_600_000);
    const before = woken.length;
    cluster.makeReady(uid, 'pod-0', Date.now());
    await pass(9_000);
    expect(woken).toHaveLength(before + 1);
    expect(cluster.steps.filter(({ kind }) => kind === 'restart')).toHaveLength(1);
  });

  it('P-4a: later and later when it does nothing about it', async () => {
    const { cluster, woken } = await waiting();
    cluster.makeReady(uid, 'pod-0', Date.now());
    await pass(3_600_000);
    expect(woken.length).toBeLessThan(15);
    expect(woken.length).toBeGreaterThan(5);
  });

  it('P-4b: of the same wait not again for a day', async () => {
    const { woken } = await waiting();
    await pass(23 * 3_600_000);
    expect(woken).toEqual([]);
    await pass(2 * 3_600_000);
    expect(woken).toHaveLength(1);
  });

  it('when what operators have ordered is news, and no answer has said so within half a second', async () => {
    const { cluster, queue, woken } = await waiting();
    cluster.order(uid, { version: 1, revision: 'new', paused: by });
    await pass(499);
    expect(woken).toEqual([]);
    await pass(1);
    expect(woken).toHaveLength(1);
    expect(queue.next(uid)).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'PausedByOperator' },
      facts: { orders: { paused: by } },
    });
    await pass(tenMinutes);
    expect(woken).toHaveLength(1);
  });

  it('P-4c: when nothing is left, and when another revision is wanted', async () => {
    for (const happens of ['done', 'revised'] as const) {
      const { cluster, fleet, queue, woken } = await waiting(happens === 'done' ? { replicas: 1 } : {});
      if (happens === 'done') cluster.makeReady(uid, 'pod-0', Date.now());
      else cluster.put({ ...fleet, revision: 'newer' });
      await pass(1_000);
      expect([happens, woken.length]).toEqual([happens, 1]);
      expect(queue.next(uid)).toMatchObject(
        happens === 'done' ? { kind: 'done' } : { kind: 'pods', batches: [{ revision: 'newer' }] },
      );
    }
  });

  it('P-5: seldom once nothing is left, in case it has not heard that; at once when something is to be done', async () => {
    const { cluster, fleet, woken } = await waiting({ replicas: 1 });
    cluster.makeReady(uid, 'pod-0', Date.now());
    await pass(24 * 3_600_000);
    expect(woken.length).toBeLessThan(24 * 6 + 10);
    const before = woken.length;
    cluster.put({ ...fleet, revision: 'newer' });
    await pass();
    expect(woken).toHaveLength(before + 1);
  });

  it('P-5: once it is aborted with the results of its batches, and no more before that is taken back', async () => {
    const { cluster, queue, woken } = await fleetOfOldPods({ maxUnavailable: 2 });
    queue.next(uid);
    const given = ['pod-0', 'pod-1'].map((name, nth) => queue.carryOut(uid, batch(nth + 1, name), alive));
    await pass(100);
    cluster.order(uid, { version: 1, revision: 'new', aborted: by });
    await pass(tenMinutes / 2);
    // what was ordered is news
    expect(woken).toHaveLength(1);
    for (const [nth, name] of ['pod-0', 'pod-1'].entries()) {
      cluster.makeReady(uid, name, Date.now());
      await pass(1_000);
      expect(await now(given[nth] as Promise<unknown>)).toMatchObject({ next: { kind: 'aborted' } });
    }
    // its run has ended
    cluster.onWake = () => void woken.push(Date.now());
    await pass(24 * 3_600_000);
    // once more, in case it has not heard that
    expect(woken.length).toBeLessThanOrEqual(2);
    const before = woken.length;
    cluster.order(uid, { version: 2, revision: 'new' });
    await pass(1_000);
    expect(woken).toHaveLength(before + 1);
    expect(queue.next(uid)).toMatchObject({ kind: 'pods' });
  });

  it('P-5: a few times more at most when it is aborted and cannot end, as its activity is paused', async () => {
    const { cluster, queue, woken } = await fleetOfOldPods({ maxUnavailable: 2 });
    queue.next(uid);
    const { life: held, end } = life();
    void queue.carryOut(uid, batch(1, 'pod-0'), held).catch(() => undefined);
    await pass(100);
    end();
    await pass(100);
    cluster.order(uid, { version: 1, revision: 'new', aborted: by });
    await pass(7 * 24 * 3_600_000);
    expect(queue.next(uid)).toMatchObject({ kind: 'aborted', isIdle: true });
    expect(2 * woken.length).toBeLessThan(20);
  });

  it('P-5: at once when an abort is taken back, though a signal has gone to nobody just before', async () => {
    const { cluster, queue, woken } = await fleetOfOldPods({ maxUnavailable: 2 });
    queue.next(uid);
    cluster.order(uid, { version: 1, revision: 'new', aborted: by });
    await pass(1_000);
    cluster.onWake = () => void woken.push(Date.now());
    await pass(11_000);
    const before = woken.length;
    cluster.order(uid, { version: 2, revision: 'new' });
    await pass(1_000);
    expect(woken).toHaveLength(before + 1);
  });

  it('P-5: once more when it has ended, and then no more', async () => {
    const { cluster, queue, woken } = await fleetOfOldPods({ replicas: 1 }, true);
    cluster.put({ ...cluster.fleetOf(uid), revision: 'old' } as TrivialFleet);
    await pass();
    expect(queue.next(uid)).toMatchObject({ kind: 'done' });
    await pass(24 * 3_600_000);
    expect(woken).toEqual([10_000]);
  });
});

describe('what is owed', () => {
  it('P-4a: an answer that came to nothing is owed again after 10 s, also while another batch is in flight', async () => {
    const { queue, woken } = await fleetOfOldPods({ maxUnavailable: 2 }, true);
    queue.next(uid);
    void queue.carryOut(uid, batch(1, 'pod-0'), alive).catch(() => undefined);
    await pass(100);
    expect(queue.next(uid)).toMatchObject({ kind: 'pods' });
    woken.length = 0;
    await pass(60_000);
    expect(woken.length).toBeGreaterThan(0);
  });

  it('does not run in short steps while nothing can be sent', async () => {
    const { queue } = await fleetOfOldPods({ maxUnavailable: 2 }, true);
    queue.next(uid);
    void queue.carryOut(uid, batch(1, 'pod-0'), alive).catch(() => undefined);
    await pass(100);
    queue.next(uid);
    await pass(11_000);
    let timers = 0;
    const original = setTimeout;
    jest.spyOn(globalThis, 'setTimeout').mockImplementation(((...args: Parameters<typeof setTimeout>) => {
      timers += 1;
      return original(...args);
    }) as typeof setTimeout);
    await pass(10_000);
    jest.restoreAllMocks();
    expect(timers).toBeLessThan(10);
  });

  it('of a run that was terminated by hand, with nothing left, ends', async () => {
    const { cluster, queue, woken } = await fleetOfOldPods({ maxUnavailable: 5 }, true);
    queue.next(uid);
    const given = life();
    const names = cluster.pods(uid).map(({ name }) => name);
    void queue.carryOut(uid, batch(1, ...names), given.life).catch(() => undefined);
    await pass(100);
    given.end();
    for (const name of names) cluster.makeReady(uid, name, Date.now());
    await pass(3_600_000);
    woken.length = 0;
    await pass(24 * 3_600_000);
    // none listens any more: each is a call of Temporal that finds nobody
    expect(woken.length).toBeLessThan(3);
    expect(queue.hasRollOut(uid)).toBe(false);
  });
});

describe('what people see of a batch', () => {
  it('BatchNotRunning: is over once the batch runs at the new leader', async () => {
    const { cluster, queue, newTerm } = await fleetOfOldPods({}, true);
    const facts = { generation: 2, revision: 'new', previous: 'old', replicas: 5 };
    let progress = heard(asked(begun(facts)), { kind: 'answer', answer: queue.next(uid), atMs: Date.now() });
    expect(progress.inFlight).toHaveLength(1);
    await queue.stop();
    await pass(15_000);

    // the next leader answers before Temporal has retried the activity
    const next = newTerm();
    next.add(uid, 'fullPass');
    await pass();
    progress = heard(progress, { kind: 'answer', answer: next.next(uid), atMs: Date.now() });
    const [inFlight] = progress.inFlight;
    if (!inFlight) throw new Error('no batch');
    void next.carryOut(uid, inFlight, alive).catch(() => undefined);
    cluster.onWake = () => {
      progress = heard(progress, { kind: 'answer', answer: next.next(uid), atMs: Date.now() });
    };
    await pass(9 * 60_000);
    expect(cluster.steps).toContainEqual({ kind: 'restart', name: 'pod-0' });
    expect(progress.waitingFor?.reason).not.toBe('BatchNotRunning');
  });

  it('P-7: not ready and ready too short, alternating, is no progress', () => {
    const held = heldBatch({ life: alive, end: () => undefined, fail: () => undefined }, batch(1, 'pod-0'));
    held.begun.set('pod-0', { at: '', sinceMs: 0 });
    let rests = 0;
    for (let minute = 0; minute < 60; minute++) {
      held.underWay.set('pod-0', minute % 2 === 0 ? 'not ready' : 'ready for less than minReadySeconds');
      rests = restsForMs(held, false);
      jest.advanceTimersByTime(60_000);
    }
    expect(rests).toBeGreaterThan(600_000);
  });
});

describe('the results of batches that end together', () => {
  it('are not planned one by one without a break', async () => {
    const { cluster, queue } = await fleetOfOldPods({ replicas: 25, maxUnavailable: 25 }, true);
    const names = cluster.pods(uid).map(({ name }) => name);
    queue.next(uid);
    const all = names.map((name, index) => queue.carryOut(uid, batch(index + 1, name), alive));
    await pass(1_000);
    const before = queue.next(uid).order?.nth ?? 0;
    cluster.showsAtOnce = false;
    for (const name of names) cluster.makeReady(uid, name, Date.now());
    cluster.showsAtOnce = true;
    cluster.show();
    await pass(1_000);
    const results = await Promise.all(all);
    const answers = results.map(({ next }) => next.order?.nth ?? 0);
    expect(Math.max(...answers) - before).toBeLessThan(5);
  });
});
