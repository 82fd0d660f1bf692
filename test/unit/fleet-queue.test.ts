import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { KubeError } from '../../kube/failures.ts';
import { batchOf, type ChosenPod } from '../../plan/fleet/batch.ts';
import type { Answer, NamedPods } from '../../plan/fleet/permit.ts';
import { payloadBytes } from '../../plan/text-size.ts';
import type { FleetQueue, FleetQueueOptions } from '../../watcher/fleet/queue.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import { PlayedRollOut } from '../support/played-roll-out.ts';
import { TrivialCluster, type TrivialFleet, type TrivialStep, type TrivialWorld } from '../support/trivial-fleet.ts';
import { trivialQueue } from '../support/trivial-queue.ts';

const uid = 'fleet-1';

beforeEach(() => {
  jest.useFakeTimers({ now: Date.UTC(2026, 0, 1), doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

/** Lets everything happen that needs no more time, or needs that much. */
async function pass(ms = 0): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
}

function fleet(overrides: Partial<TrivialFleet> = {}): TrivialFleet {
  return { uid, replicas: 5, revision: 'new', maxUnavailable: 2, minReadyMs: 0, ...overrides };
}

/** A permit for these pods; for all of them if none is named. */
function batch(number: number, ...names: readonly string[]) {
  const pods = names.length > 0 ? names : ['pod-0', 'pod-1', 'pod-2', 'pod-3', 'pod-4'];
  const chosen = pods.map((name): ChosenPod => ({ namespace: 'shop', name, uid: name, how: 'inPlace' }));
  return { number, batch: batchOf('new', chosen as [ChosenPod]) };
}

/** A life or a term that a test ends. */
function breath() {
  const end = new AbortController();
  const isAlive = () => !end.signal.aborted;
  const life: PermitLife = { isAlive, ended: end.signal };
  return { life, term: { isLeading: isAlive, lost: end.signal }, end: (why: string) => end.abort(new Error(why)) };
}

function queueOver(cluster: TrivialCluster, overrides: Partial<FleetQueueOptions<TrivialWorld, TrivialStep>> = {}) {
  const term = breath();
  const queue = trivialQueue(cluster, { term: term.term, ...overrides });
  return { queue, loseLease: () => term.end('the lease was lost') };
}

/** A fleet whose pods are all ready and of the revision "old", while "new" is wanted. */
async function fleetOfOldPods(overrides: Partial<TrivialFleet> = {}) {
  const cluster = new TrivialCluster();
  const rest = queueOver(cluster);
  cluster.put(fleet({ ...overrides, revision: 'old' }));
  await pass();
  for (const { name } of cluster.pods(uid)) cluster.makeReady(uid, name, Date.now() - 1e6);
  cluster.put(fleet(overrides));
  await pass();
  cluster.steps.length = 0;
  return { cluster, ...rest };
}

type Queue = FleetQueue<TrivialWorld, TrivialStep>;

/** What a roll-out has in flight: a batch of all pods. */
function handIn(queue: Queue, life = breath().life) {
  const given = queue.carryOut(uid, batch(1), life);
  // a test that wants to know awaits it
  given.catch(() => undefined);
  return { given };
}

/** A roll-out as its workflow does it: what may go is carried out, and it asks again. */
function rollOut(queue: Queue): Promise<Answer> {
  return new PlayedRollOut(() => queue, uid).run();
}

const unready = (cluster: TrivialCluster) => cluster.pods(uid).filter(({ readyAtMs }) => readyAtMs === undefined);
const restarts = (cluster: TrivialCluster) => cluster.steps.filter(({ kind }) => kind === 'restart').length;

describe('upkeep', () => {
  it('needs no permit: creates what is missing and deletes what is too much', async () => {
    const cluster = new TrivialCluster();
    queueOver(cluster);
    cluster.put(fleet({ replicas: 3 }));
    await pass();
    expect(cluster.pods(uid)).toHaveLength(3);
    cluster.put(fleet({ replicas: 1 }));
    await pass();
    expect(cluster.pods(uid).map(({ name }) => name)).toEqual(['pod-0']);
  });

  it('disrupts nothing, however long it goes on', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    queue.add(uid, 'fullPass');
    await pass(600_000);
    expect(cluster.steps).toEqual([]);
  });

  it('goes on while an operator holds the roll-out', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    cluster.order(uid, { version: 1, revision: 'new', paused: { by: 'ann', at: '2026-01-01T00:00:00Z' } });
    handIn(queue);
    cluster.put({ ...fleet({ replicas: 6 }), ...cluster.fleetOf(uid), replicas: 6 });
    await pass();
    expect(cluster.pods(uid)).toHaveLength(6);
    expect(restarts(cluster)).toBe(0);
  });

  it('looks again after its own writes, though no event tells of them', async () => {
    const cluster = new TrivialCluster();
    const passes: number[] = [];
    const { look } = cluster.fleet();
    const { queue } = queueOver(cluster, {
      fleet: {
        ...cluster.fleet(),
        look(target) {
          const world = look(target);
          passes.push(world?.pods.length ?? 0);
          return world;
        },
      },
    });
    cluster.onShown = () => undefined;
    cluster.put(fleet({ replicas: 1 }));
    queue.add(uid, 'changed');
    await pass();
    expect(passes).toEqual([0, 1]);
  });

  it('rests longer and longer between passes that only events ask for, and looks at once at what has rested', async () => {
    const cluster = new TrivialCluster();
    const passes: number[] = [];
    const { plan } = cluster.fleet();
    queueOver(cluster, {
      restMs: 50,
      fleet: {
        ...cluster.fleet(),
        plan(world, permit, nowMs) {
          passes.push(Date.now() - startedAtMs);
          return plan(world, permit, nowMs);
        },
      },
    });
    const startedAtMs = Date.now();
    cluster.put(fleet({ replicas: 0 }));
    await pass();
    for (let ms = 0; ms < 200; ms += 1) {
      cluster.put(fleet({ replicas: 0 }));
      await pass(1);
    }
    expect(passes).toEqual([0, 5, 15, 35, 75, 125, 175]);
    await pass(1_000);
    expect(passes.slice(7)).toEqual([225]);
    cluster.put(fleet({ replicas: 0 }));
    await pass();
    cluster.put(fleet({ replicas: 0 }));
    await pass(1_000);
    expect(passes.slice(8)).toEqual([1_200, 1_205]);
  });

  it('plans for all objects together for a third of the time, however many there are, and for a burst at once', async () => {
    const cluster = new TrivialCluster();
    const uids = Array.from({ length: 10 }, (_, at) => `fleet-${at}`);
    const plans = new Map<string, number>();
    const { plan } = cluster.fleet();
    const { queue } = queueOver(cluster, {
      restMs: 50,
      fleet: {
        ...cluster.fleet(),
        plan(world, permit, nowMs) {
          plans.set(world.fleet.uid, (plans.get(world.fleet.uid) ?? 0) + 1);
          jest.advanceTimersByTime(20);
          return plan(world, permit, nowMs);
        },
      },
    });
    cluster.onShown = () => undefined;
    for (const one of uids) cluster.put(fleet({ uid: one, replicas: 0 }));
    const startedAtMs = Date.now();
    for (const one of uids) queue.add(one, 'changed');
    await pass();
    expect(plans.size).toBe(10);
    while (Date.now() - startedAtMs < 20_000) {
      for (const one of uids) queue.add(one, 'changed');
      await pass(10);
    }
    const planned = [...plans.values()].reduce((sum, count) => sum + count, 0) * 20;
    expect(planned / (Date.now() - startedAtMs)).toBeLessThan(0.37);
    expect(planned / (Date.now() - startedAtMs)).toBeGreaterThan(0.25);
    expect(Math.min(...plans.values())).toBeGreaterThan(5);
  });

  it('P-2: does not rest after its own writes, and answers at once though it rests', async () => {
    const cluster = new TrivialCluster();
    const { queue } = queueOver(cluster, { restMs: 50 });
    cluster.put(fleet({ replicas: 3 }));
    await pass();
    cluster.makeReady(uid, 'pod-0', Date.now());
    for (const { name } of cluster.pods(uid)) cluster.makeReady(uid, name, Date.now() - 1e6);
    expect(queue.next(uid)).toMatchObject({ kind: 'done' });
  });

  it('does not look again after writes that only report', async () => {
    const cluster = new TrivialCluster();
    let looks = 0;
    const { look } = cluster.fleet();
    const { queue } = queueOver(cluster, {
      fleet: {
        ...cluster.fleet(),
        tells: () => true,
        look(target) {
          looks += 1;
          return look(target);
        },
      },
    });
    cluster.onShown = () => undefined;
    cluster.put(fleet({ replicas: 1 }));
    queue.add(uid, 'changed');
    await pass();
    expect([looks, cluster.pods(uid).length]).toEqual([1, 1]);
  });

  it('of many creations begins with one, doubles as long as none fails, and goes on where it stopped', async () => {
    const cluster = new TrivialCluster();
    let underWay = 0;
    const most: number[] = [];
    let refused = 0;
    cluster.beforeWrite = async ({ name }) => {
      underWay += 1;
      most.push(underWay);
      await Promise.resolve();
      underWay -= 1;
      if (name === 'pod-2' && refused++ === 0) throw new Error('quota');
    };
    queueOver(cluster, { fleet: { ...cluster.fleet(), together: () => 'growing' } });
    cluster.put(fleet({ replicas: 11 }));
    await pass();
    // one, then two of which the second is refused; the next four are not begun, another pass begins with one
    expect(most.slice(0, 4)).toEqual([1, 1, 2, 1]);
    await pass(1_000);
    expect(cluster.pods(uid)).toHaveLength(11);
    expect(Math.max(...most)).toBe(4);
  });

  it('of creations that a pass has left over goes on as many at once as it had come to, until one fails', async () => {
    const cluster = new TrivialCluster();
    const most: number[] = [];
    let underWay = 0;
    let refused: string | undefined;
    cluster.beforeWrite = async ({ name }) => {
      underWay += 1;
      most.push(underWay);
      await Promise.resolve();
      underWay -= 1;
      if (name === refused) throw new Error('quota');
    };
    const { plan } = cluster.fleet();
    const bounded: typeof plan = (...args) => {
      const planned = plan(...args);
      return { ...planned, upkeep: planned.upkeep.slice(0, 4) };
    };
    queueOver(cluster, { fleet: { ...cluster.fleet(), plan: bounded, together: () => 'growing' } });
    cluster.put(fleet({ replicas: 12 }));
    await pass();
    expect(most).toEqual([1, 1, 2, 1, 1, 2, 3, 4, 1, 2, 3, 4]);

    refused = 'pod-12';
    cluster.put(fleet({ replicas: 16 }));
    await pass();
    refused = undefined;
    most.length = 0;
    await pass(1_000);
    expect([cluster.pods(uid).length, most.slice(0, 3)]).toEqual([16, [1, 1, 2]]);
  });

  it('of independent pods runs in parallel, and continues after one that fails', async () => {
    const cluster = new TrivialCluster();
    let isFirst = true;
    cluster.beforeWrite = ({ name }) => {
      if (name === 'pod-0' && isFirst) throw new Error('refused');
    };
    queueOver(cluster, { fleet: { ...cluster.fleet(), together: () => 'freely' } });
    cluster.put(fleet({ replicas: 9 }));
    await pass();
    expect(cluster.pods(uid)).toHaveLength(8);
    isFirst = false;
    await pass(1_000);
    expect(cluster.pods(uid)).toHaveLength(9);
  });

  it('that failed does not hold up disruption that was planned beside it', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 1 });
    cluster.beforeWrite = ({ kind }) => {
      if (kind === 'create') throw new Error('quota');
    };
    cluster.put(fleet({ replicas: 6, maxUnavailable: 1 }));
    handIn(queue);
    await pass();
    expect(restarts(cluster)).toBe(1);
  });

  it('CS-13, AS-24: never decides on a world that lacks its own writes, however late the cache is', async () => {
    const cluster = new TrivialCluster();
    const { queue } = queueOver(cluster);
    cluster.put(fleet({ replicas: 3 }));
    cluster.showsAtOnce = false;
    for (let minute = 0; minute < 5; minute += 1) {
      queue.add(uid, 'fullPass');
      await pass(60_000);
    }
    expect(cluster.steps.map(({ name }) => name)).toEqual(['pod-0', 'pod-1', 'pod-2']);
    cluster.show();
    await pass();
    expect(cluster.steps).toHaveLength(3);
  });
});

describe('a permit', () => {
  it('rolls out within the budget, from the first batch to the last', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 2 });
    const verdict = rollOut(queue);
    const down: number[] = [];
    while (restarts(cluster) < 5) {
      await pass(100);
      down.push(unready(cluster).length);
      for (const { name } of unready(cluster)) cluster.makeReady(uid, name, Date.now());
    }
    await expect(verdict).resolves.toMatchObject({ kind: 'done', summary: '5 of 5 pods are of revision new' });
    expect(down).toEqual([2, 2, 1]);
  });

  it('ends with its batch, and nothing more is disrupted without the next', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 5 });
    const first = queue.carryOut(uid, batch(1, 'pod-0', 'pod-1'), breath().life);
    await pass();
    for (const { name } of unready(cluster)) cluster.makeReady(uid, name, Date.now());
    await expect(first).resolves.toMatchObject({ pods: [{ pod: 'pod-0' }, { pod: 'pod-1' }] });
    await pass(600_000);
    expect(restarts(cluster)).toBe(2);
    void queue.carryOut(uid, batch(2, 'pod-2'), breath().life);
    await pass();
    expect(restarts(cluster)).toBe(3);
  });

  it('counts a pod only when it has been ready for long enough, and looks again just then', async () => {
    const { cluster, queue } = await fleetOfOldPods({ replicas: 1, minReadyMs: 10_000 });
    const settled = jest.fn();
    void rollOut(queue).then(settled);
    await pass();
    cluster.makeReady(uid, 'pod-0', Date.now());
    await pass(9_999);
    expect(settled).not.toHaveBeenCalled();
    await pass(2);
    expect(settled).toHaveBeenCalledWith(expect.objectContaining({ kind: 'done' }));
  });

  it('P-2: says since when it waits, and what it names is of the present', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 1 });
    queue.next(uid);
    cluster.breakDown(uid, 'pod-3');
    cluster.order(uid, { version: 1, revision: 'new', skip: ['pod-3'] });
    await pass();
    const since = new Date().toISOString();
    await pass(29_000);
    cluster.put({ ...fleet({ maxUnavailable: 1 }), ...cluster.fleetOf(uid) }); // news that changes nothing
    await pass(900);
    expect(queue.next(uid)).toEqual({
      kind: 'wait',
      waitingFor: {
        reason: 'BudgetSpent',
        blockedBy: ['Pod/pod-3'],
        blockedCount: 1,
        unblock: 'Raise maxUnavailable, or fix these pods',
        since,
      },
      facts: expect.objectContaining({ revision: 'new', orders: { version: 1, revision: 'new', skip: ['pod-3'] } }),
      order: { term: expect.any(String), nth: 2 },
    });
    cluster.remove(uid);
    expect(queue.next(uid)).toMatchObject({ kind: 'withdrawn' });
  });

  it('ends with its activity: the step in progress completes, no other begins', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 5 });
    const { life, end } = breath();
    cluster.beforeWrite = () => {
      if (cluster.steps.length === 1) end('the activity was cancelled');
    };
    const { queue: narrow } = queueOver(cluster, { parallelSteps: 1 });
    await queue.stop();
    await expect(handIn(narrow, life).given).rejects.toThrow('the activity was cancelled');
    await pass(600_000);
    expect(restarts(cluster)).toBe(2);
  });

  it('has no verdict before its last steps are done, whatever the plan says of them', async () => {
    const cluster = new TrivialCluster();
    let left = 1;
    const named: NamedPods = {
      to: 'new',
      pods: new Map([['pod-0', { state: 'done' }]]),
      awaited: 0,
      progress: { of: 1, updated: 1, ready: 1 },
    };
    const hasty = {
      ...cluster.fleet(),
      plan: () => ({
        upkeep: [],
        disruption: left-- > 0 ? [{ kind: 'restart', name: 'pod-0' } as const] : [],
        standing: { kind: 'allDone', summary: '' } as const,
        named,
      }),
    };
    const { queue } = queueOver(cluster, { fleet: hasty });
    cluster.onShown = () => undefined;
    cluster.put(fleet());
    await queue.carryOut(uid, batch(1, 'pod-0'), breath().life);
    expect(restarts(cluster)).toBe(1);
  });

  it('that has died already is not taken, though a pass is under way', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    const { life, end } = breath();
    end('heartbeats are not answered');
    cluster.showsAtOnce = false;
    handIn(queue);
    await pass();
    expect(restarts(cluster)).toBe(2);
    await expect(queue.carryOut(uid, batch(1), life)).rejects.toThrow('heartbeats are not answered');
  });

  it('is not used when its end is only detected by the check before a step, as after a freeze', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    const ended = new AbortController();
    const life: PermitLife = {
      isAlive() {
        if (Date.now() > Date.UTC(2026, 0, 1)) ended.abort(new Error('it ran out'));
        return !ended.signal.aborted;
      },
      ended: ended.signal,
    };
    const given = queue.carryOut(uid, batch(1), life);
    jest.setSystemTime(Date.UTC(2026, 0, 2));
    await expect(given).rejects.toThrow('it ran out');
    await pass();
    expect(restarts(cluster)).toBe(0);
  });

  it('is replaced by that of a later attempt', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 5 });
    const { given: earlier } = handIn(queue);
    const later = queue.carryOut(uid, batch(1, 'pod-0'), breath().life);
    await expect(earlier).rejects.toThrow('a later attempt has brought the batch again');
    await pass();
    expect(restarts(cluster)).toBe(1);
    for (const { name } of unready(cluster)) cluster.makeReady(uid, name, Date.now());
    await expect(later).resolves.toMatchObject({ pods: [{ pod: 'pod-0' }] });
  });
});

describe('the lease', () => {
  it('ends all permits and all writing when it is lost', async () => {
    const { cluster, queue, loseLease } = await fleetOfOldPods();
    const { given } = handIn(queue);
    loseLease();
    await expect(given).rejects.toThrow('the lease was lost');
    cluster.put(fleet({ replicas: 9 }));
    queue.add(uid, 'fullPass');
    await pass(600_000);
    expect(cluster.steps).toEqual([]);
    await expect(queue.carryOut(uid, batch(1), breath().life)).rejects.toThrow('the lease was lost');
    expect(() => queue.next(uid)).toThrow('the lease was lost');
  });

  it('is asked for before each step, as a frozen process hears of its loss late', async () => {
    const cluster = new TrivialCluster();
    let leading = true;
    cluster.beforeWrite = () => {
      leading = false;
    };
    queueOver(cluster, { term: { isLeading: () => leading, lost: new AbortController().signal } });
    cluster.put(fleet({ replicas: 3 }));
    await pass();
    expect(cluster.steps).toHaveLength(1);
  });
});

describe('a failure', () => {
  it('is tried again, later and later, and what may have been written is seen first', async () => {
    const cluster = new TrivialCluster();
    const outcomes: string[] = [];
    queueOver(cluster, { onPass: (outcome) => void outcomes.push(outcome) });
    const refusals = [new Error('timeout'), new Error('timeout')];
    cluster.beforeWrite = () => {
      const refusal = refusals.shift();
      if (refusal) throw refusal;
    };
    cluster.put(fleet({ replicas: 1 }));
    await pass();
    expect(outcomes).toEqual(['failed']);
    await pass(2_000);
    expect(cluster.pods(uid)).toHaveLength(1);
    expect(outcomes).toEqual(['failed', 'failed', 'done', 'done']);
  });

  it('of a write whose answer was lost is not made up for by a second write', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 1 });
    cluster.showsAtOnce = false;
    const act = cluster.fleet().act;
    let lost = false;
    const { queue: lossy } = queueOver(cluster, {
      fleet: {
        ...cluster.fleet(),
        async act(step, world, signal, mayGoOn) {
          const seen = await act(step, world, signal, mayGoOn);
          if (lost) return seen;
          lost = true;
          throw new Error('the connection broke before the answer');
        },
      },
    });
    await queue.stop();
    handIn(lossy);
    await pass(120_000);
    expect(restarts(cluster)).toBe(1);
    cluster.show();
    await pass(120_000);
    expect(restarts(cluster)).toBe(1);
  });

  it('P-7: goes on between its writes only while the object asks for the same', async () => {
    const { cluster, queue } = await fleetOfOldPods({ maxUnavailable: 1 });
    await queue.stop();
    let isCurrent = true;
    const went: boolean[] = [];
    const { queue: asking } = queueOver(cluster, {
      fleet: {
        ...cluster.fleet(),
        isCurrent: () => isCurrent,
        async act({ kind }, _world, _signal, mayGoOn) {
          if (kind !== 'restart') return undefined;
          went.push(mayGoOn());
          isCurrent = false;
          went.push(mayGoOn());
          return undefined;
        },
      },
    });
    handIn(asking);
    await pass(10);
    expect(went.slice(0, 2)).toEqual([true, false]);
  });

  it('P-4: that stays is told to the roll-out though its batch is in flight, named by its type', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    cluster.beforeWrite = () => {
      throw new KubeError({ status: 403, message: 'pods is forbidden' });
    };
    const woken: string[] = [];
    cluster.onWake = (of) => {
      woken.push(of);
      queue.next(of);
    };
    queue.next(uid);
    handIn(queue);
    await pass(90_000);
    expect(woken).toEqual([uid]);
    expect(queue.next(uid)).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'Denied', unblock: 'pods is forbidden', since: '2026-01-01T00:00:00.000Z' },
    });
  });

  it('F4: that the API server explains at length becomes an answer that fits into a history', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    const message = `admission webhook "gatekeeper" denied the request: ${'[pod-must-have-owner] é "x" '.repeat(300)}`;
    cluster.beforeWrite = () => {
      throw new KubeError({ status: 403, message });
    };
    handIn(queue);
    await pass(90_000);
    const ended = queue.next(uid);
    expect(ended).toMatchObject({ kind: 'wait', waitingFor: { unblock: expect.stringContaining('gatekeeper') } });
    expect(jsonBytes(ended)).toBeLessThanOrEqual(payloadBytes);
  });

  it('M4: is tried again up to five minutes later, whatever asks for a pass meanwhile, and the rest goes on', async () => {
    const { cluster, queue } = await fleetOfOldPods();
    const attempts: number[] = [];
    cluster.beforeWrite = ({ kind }) => {
      if (kind !== 'create') return;
      attempts.push(Date.now());
      throw new KubeError({ status: 403, message: 'exceeded quota' });
    };
    const { queue: patient } = queueOver(cluster, { fleet: { ...cluster.fleet(), retryKey: ({ kind }) => kind } });
    await queue.stop();
    cluster.put(fleet({ replicas: 6 }));
    for (let second = 0; second < 3_600; second += 1) {
      patient.add(uid, second % 60 === 0 ? 'fullPass' : 'changed');
      await pass(1_000);
    }
    const pauses = attempts.slice(1).map((atMs, index) => atMs - (attempts[index] ?? 0));
    expect(attempts.length).toBeLessThan(12 + (2 * 3_600) / 300);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(301_000);
    expect(pauses.slice(-3).every((ms) => ms >= 150_000)).toBe(true);
    expect(patient.longestPauseMs(uid)).toBe(300_000);

    // what has not failed does not wait
    handIn(patient);
    await pass();
    expect([restarts(cluster), attempts.length]).toEqual([2, attempts.length]);
  });

  it('M4: is tried again at once when somebody has changed the object, and then as if for the first time', async () => {
    const cluster = new TrivialCluster();
    let attempts = 0;
    cluster.beforeWrite = () => {
      attempts += 1;
      throw new KubeError({ status: 403, message: 'exceeded quota' });
    };
    const { queue } = queueOver(cluster);
    cluster.put(fleet({ replicas: 1 }));
    await pass(3_600_000);
    const before = attempts;
    queue.add(uid, 'edited');
    await pass();
    expect(attempts).toBe(before + 1);
    await pass(2_000);
    expect(attempts).toBeGreaterThanOrEqual(before + 3);
  });

  it('H8: is not looked after where the API server has refused, and is where it has not answered', async () => {
    const cluster = new TrivialCluster();
    let caughtUp = 0;
    let error = new KubeError({ status: 422, message: 'no' });
    const catchUp = async () => {
      caughtUp += 1;
      throw new Error('the list failed');
    };
    const { queue } = queueOver(cluster, { fleet: { ...cluster.fleet(), catchUp } });
    cluster.beforeWrite = () => {
      throw error;
    };
    cluster.put(fleet({ replicas: 1 }));
    const reasons: string[] = [];
    for (const { status, message } of [
      { status: 422, message: 'no' },
      { status: 403, message: 'not you' },
      { status: 409, message: 'changed' },
      { status: 429, message: 'slowly' },
      { status: 503, message: 'away' },
      { status: 0, message: 'no answer' },
    ]) {
      error = new KubeError({ status, message });
      queue.add(uid, 'edited');
      await pass();
      reasons.push(`${String(queue.failedSteps(uid)[0]?.error)} ${caughtUp}`);
    }
    expect(reasons).toEqual(
      ['no 0', 'not you 0', 'changed 0', 'slowly 0', 'away 1', 'no answer 2'].map((one) => `KubeError: ${one}`),
    );
  });

  it('of the planner to respect the permit is caught', async () => {
    const cluster = new TrivialCluster();
    const failed: string[] = [];
    const lawless = {
      ...cluster.fleet(),
      plan: () => ({
        upkeep: [],
        disruption: [{ kind: 'restart', name: 'pod-0' }] as const,
        standing: { kind: 'working' } as const,
      }),
    };
    queueOver(cluster, { fleet: lawless, onPass: (outcome) => void failed.push(outcome) });
    cluster.put(fleet({ replicas: 1 }));
    await pass();
    expect(failed).toEqual(['failed']);
    expect(cluster.steps).toEqual([]);
  });
});
