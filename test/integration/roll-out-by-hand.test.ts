import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { queues } from '../../api/engine/operations.ts';
import { rollOutType } from '../../api/fleet/operation.ts';
import type { PodBatch } from '../../plan/fleet/batch.ts';
import { resetPoints } from '../support/by-hand.ts';
import { closedAs } from '../support/closed.ts';
import { newGate } from '../support/gate.ts';
import { describeProof } from '../support/groups.ts';
import { batchesIn } from '../support/history.ts';
import { byHand, type Judgement, problemsOf } from '../support/roll-out-by-hand.ts';
import { type RollOuts, startRollOuts, type TrivialRollOut } from '../support/trivial-roll-outs.ts';
import { waitFor } from '../support/wait.ts';

let rollOuts: RollOuts;

beforeAll(async () => {
  rollOuts = await startRollOuts();
  rollOuts.cluster.refusesStale = true;
});

afterAll(async () => {
  await rollOuts?.stop();
});

/** A roll-out whose first batch is in flight: its pods are restarted and not ready. */
async function inFlight(replicas = 6): Promise<TrivialRollOut> {
  const rollOut = await rollOuts.begin({ replicas, maxUnavailable: 2 });
  await waitFor('the first batch', () => rollOut.unready().length === 2);
  return rollOut;
}

/** The same, once it has reported that it waits: its activities stay the same until something happens. */
async function waiting(): Promise<TrivialRollOut> {
  const rollOut = await inFlight();
  await rollOut.shows('RollingOut', 'BudgetSpent');
  return rollOut;
}

/** Plays the kubelet until all pods are new and the last run has ended; judges how that came about. */
async function endsRight(rollOut: TrivialRollOut, judgement: Judgement = {}): Promise<void> {
  const all = rollOuts.cluster.pods(rollOut.uid).length;
  await rollOut.until('all pods to be new', () => rollOut.pods('new') === all);
  rollOut.kubelet();
  expect(await rollOut.handle.result()).toMatchObject({ message: `${all} of ${all} pods are of revision new` });
  expect(await problemsOf(rollOuts, rollOut, judgement)).toEqual([]);
}

describeProof('by-hand', 'a roll-out whose history is reset', () => {
  it.concurrent('ends again, from each of its workflow tasks, and restarts no pod', async () => {
    const rollOut = await rollOuts.begin({ replicas: 4, maxUnavailable: 2 });
    await endsRight(rollOut);
    const { runId } = await rollOut.handle.describe();
    const points = resetPoints(await rollOut.handle.fetchHistory());
    for (const point of points) {
      const next = await byHand(rollOuts, rollOut).reset(runId, point);
      expect(await rollOut.run(next).result()).toMatchObject({ message: '4 of 4 pods are of revision new' });
    }
    expect(await problemsOf(rollOuts, rollOut, { runs: 1 + points.length })).toEqual([]);
  });

  it.concurrent('goes on in the middle, from each of its workflow tasks', async () => {
    const rollOut = await rollOuts.begin({ replicas: 8, maxUnavailable: 2 });
    await rollOut.until('half of the pods', () => rollOut.pods('new') >= 4);
    const { runId } = await rollOut.handle.describe();
    const points = resetPoints(await rollOut.handle.fetchHistory());
    for (const point of points) await byHand(rollOuts, rollOut).reset(runId, point);
    await endsRight(rollOut, { runs: 1 + points.length });
  });

  it.concurrent('goes on while pods become ready between one reset and the next', async () => {
    const rollOut = await inFlight(12);
    let runs = 1;
    for (let round = 0; round < 4; round++) {
      const { runId } = await rollOut.handle.describe();
      const points = resetPoints(await rollOut.handle.fetchHistory());
      const point = points[Math.floor((points.length * round) / 4)];
      if (point === undefined) throw new Error('a run has a workflow task');
      await byHand(rollOuts, rollOut).reset(runId, point);
      runs++;
      const before = rollOut.pods('new');
      await rollOut.until('another pod', () => rollOut.pods('new') > before);
    }
    await endsRight(rollOut, { runs });
  });

  it.concurrent('begins no pod of a paused roll-out until resume, to whichever workflow task it is reset', async () => {
    const rollOut = await waiting();
    await rollOut.handle.signal('pause', { by: 'ann' });
    await rollOut.shows('Paused', 'PausedByOperator');
    const { runId } = await rollOut.handle.describe();
    const points = resetPoints(await rollOut.handle.fetchHistory());
    for (const point of points) {
      await byHand(rollOuts, rollOut).reset(runId, point);
      await rollOut.shows('Paused', 'PausedByOperator');
      rollOut.kubelet();
      expect(rollOut.pods('new')).toBe(2);
    }
    await rollOut.handle.signal('resume', { by: 'ann' });
    await endsRight(rollOut, { runs: 1 + points.length });
  });
});

describeProof('by-hand', 'a roll-out whose workflow is ended by hand', () => {
  it.concurrent('goes on when it is started anew after it was terminated', async () => {
    const rollOut = await inFlight();
    await rollOut.handle.terminate('by hand');
    await rollOut.tell();
    await endsRight(rollOut, { runs: 2 });
  });

  it.concurrent('begins no pod while it is terminated', async () => {
    const rollOut = await inFlight();
    await rollOut.handle.terminate('by hand');
    rollOut.kubelet();
    await waitFor('its end', async () => (await rollOut.handle.describe()).status.name === 'TERMINATED');
    expect(byHand(rollOuts, rollOut).restarted()).toHaveLength(2);
    await rollOut.tell();
    await endsRight(rollOut, { runs: 2 });
  });

  it.concurrent('is aborted by a cancellation: pods in flight become ready, no other is begun', async () => {
    const rollOut = await inFlight();
    await rollOut.handle.cancel();
    await rollOut.shows('Aborted', 'Aborted');
    await rollOut.until('both pods to be ready', () => rollOut.unready().length === 0);
    expect(await closedAs(rollOut.handle)).toBe('CANCELLED');
    expect(rollOuts.cluster.fleetOf(rollOut.uid)?.orders).toMatchObject({ aborted: {} });
    expect(rollOut.pods('new')).toBe(2);
    const [batch] = batchesIn(await rollOut.handle.fetchHistory());
    expect(batch?.verdict?.pods.map(({ why }) => why)).toEqual([undefined, undefined]);

    await rollOut.tell('retry', { by: 'ann' });
    await endsRight(rollOut, { runs: 2 });
  });

  it.concurrent('goes on with the batches that the run before has left', async () => {
    const rollOut = await inFlight();
    const [batch] = batchesIn(await rollOut.handle.fetchHistory());
    await rollOut.handle.terminate('by hand');
    const left = { number: 1, revision: 'new', batch: batch?.input.batch, startedAtMs: Date.now() };
    const before = { operator: { commands: [], seen: [] }, next: 2, inFlight: [left], log: [], refusals: 0 };
    const target = { namespace: 'shop', name: 'web', uid: rollOut.uid };
    await rollOuts.client.workflow.start(rollOutType, {
      workflowId: rollOut.handle.workflowId,
      taskQueue: queues.cluster,
      args: [{ kind: 'TrivialFleet', target, facts: rollOut.facts() }, before],
    });
    await byHand(rollOuts, rollOut).started('fleet.v1.carryOutBatch');
    const [neverReady = ''] = rollOut.unready();
    await rollOut.until('the others to be new', () => rollOut.pods('new') === 6, [neverReady]);
    expect(await byHand(rollOuts, rollOut).pending('fleet.v1.carryOutBatch')).not.toEqual([]);
    await endsRight(rollOut, { runs: 2 });
    const batches = batchesIn(await rollOut.handle.fetchHistory());
    expect(batches[0]?.input.batch).toEqual(batch?.input.batch);
    expect(batches[0]?.verdict?.pods.map(({ pod, why }) => [pod, why])).toEqual(
      batch?.input.batch.pods.map(({ name }) => [name, undefined]),
    );
  });
});

describeProof('by-hand', 'an activity of a roll-out that an operator treats by hand', () => {
  it.concurrent('says that a batch is paused, and goes on with it when it is unpaused', async () => {
    const rollOut = await waiting();
    const hand = byHand(rollOuts, rollOut);
    const id = await hand.started('fleet.v1.carryOutBatch');
    await hand.pause(id);
    const [ready = ''] = rollOut.unready();
    rollOuts.cluster.makeReady(rollOut.uid, ready, Date.now());
    await rollOut.shows('RollingOut', 'BatchNotRunning');
    expect(await blockedBy(rollOut)).toContainEqual(['batch/1']);
    rollOut.kubelet();
    expect(rollOut.pods('new')).toBe(2);
    await hand.unpause(id);
    await endsRight(rollOut);
  });

  it.concurrent('begins no pod while the choice is paused, and goes on when it is unpaused', async () => {
    const rollOut = await waiting();
    const hand = byHand(rollOuts, rollOut);
    const id = await hand.started('fleet.v1.chooseBatch');
    await hand.pause(id);
    rollOut.kubelet();
    await waitFor('the verdict', async () => (await hand.pending('fleet.v1.carryOutBatch')).length === 0);
    expect(rollOut.pods('new')).toBe(2);
    for (const paused of await hand.pending('fleet.v1.chooseBatch')) {
      if (paused === id) await hand.unpause(id);
    }
    await endsRight(rollOut);
  });

  it.concurrent('fleet.v1.chooseBatch is completed with nothing: it is asked again after a pause', async () => {
    const rollOut = await waiting();
    const hand = byHand(rollOuts, rollOut);
    await hand.complete(await hand.started('fleet.v1.chooseBatch'), null);
    await endsRight(rollOut);
  });

  it.concurrent.each(['fleet.v1.chooseBatch', 'fleet.v1.carryOutBatch'] as const)(
    '%s is reset while pods are in flight',
    async (type) => {
      const rollOut = await waiting();
      const hand = byHand(rollOuts, rollOut);
      await hand.resetActivity(await hand.started(type));
      await endsRight(rollOut);
    },
  );

  it.concurrent.each([
    ['fleet.v1.chooseBatch', 'for good', true],
    ['fleet.v1.chooseBatch', 'for once', false],
    ['fleet.v1.carryOutBatch', 'for good', true],
    ['fleet.v1.carryOutBatch', 'for once', false],
  ] as const)('%s is failed %s while pods are in flight', async (type, _, isFinal) => {
    const rollOut = await waiting();
    const hand = byHand(rollOuts, rollOut);
    await hand.fail(await hand.started(type), isFinal);
    if (type === 'fleet.v1.chooseBatch' && isFinal) {
      await rollOut.shows('RollingOut', 'Parked');
      await rollOut.handle.signal('retry', { by: 'ann' });
    }
    await endsRight(rollOut);
  });

  it.concurrent.each([
    ['fleet.v1.chooseBatch', 'a blank wait', { kind: 'blocked', waitingFor: waitOf('Paused') }],
    ['fleet.v1.chooseBatch', 'that it is superseded', { kind: 'superseded' }],
    ['fleet.v1.chooseBatch', 'more pods than the budget allows', choiceOf('pod-0', 'pod-2', 'pod-3', 'pod-4', 'pod-5')],
    ['fleet.v1.chooseBatch', 'a pod that there is not', choiceOf('pod-77')],
    ['fleet.v1.chooseBatch', 'another revision', choiceOf('pod-4', 'pod-5', { revision: 'other' })],
    ['fleet.v1.carryOutBatch', 'nothing', null],
    ['fleet.v1.carryOutBatch', 'no pods', { summary: '', pods: [] }],
    ['fleet.v1.carryOutBatch', 'all pods', { summary: 'all is done', pods: [{ pod: 'pod-5', how: 'inPlace' }] }],
    ['fleet.v1.carryOutBatch', 'a result of another shape', { summary: 7 }],
  ] as const)('%s is completed with %s while pods are in flight', async (type, what, value) => {
    const rollOut = await waiting();
    const hand = byHand(rollOuts, rollOut);
    await hand.complete(await hand.started(type), value);
    if (what === 'a blank wait') {
      await rollOut.shows('RollingOut', 'Paused');
      await rollOut.handle.signal('retry', { by: 'ann' });
    }
    await endsRight(rollOut, { isForged: value !== null });
  });

  it.concurrent('ends when somebody says that all is done, and the next run does what is left', async () => {
    const rollOut = await waiting();
    const hand = byHand(rollOuts, rollOut);
    const id = await hand.started('fleet.v1.chooseBatch');
    await hand.complete(id, { kind: 'allDone', summary: '6 of 6', arrived: 6 });
    await waitFor('the end', async () => {
      rollOut.kubelet();
      return (await rollOut.handle.describe()).status.name === 'COMPLETED';
    });
    expect(rollOut.pods('new')).toBe(2);
    await rollOut.tell();
    await endsRight(rollOut, { runs: 2 });
  });
});

function waitOf(reason: string) {
  return { reason, blockedBy: [], blockedCount: 0, since: '2026-01-01T00:00:00Z', unblock: 'retry' };
}

function choiceOf(...named: readonly (string | Partial<PodBatch>)[]) {
  const names = named.filter((name) => typeof name === 'string');
  const other = named.find((one) => typeof one !== 'string');
  const pods = names.map((name) => ({ name, uid: name }));
  const batch = { revision: 'new', namespace: 'shop', how: 'inPlace', containers: [['app']], pods, ...other };
  return { kind: 'batch', batch, of: 6, updated: 2 };
}

/** What the choices of a roll-out have reported to be in the way. */
async function blockedBy(rollOut: TrivialRollOut): Promise<readonly unknown[]> {
  const { events } = await rollOut.handle.fetchHistory();
  return (events ?? []).flatMap(({ activityTaskCompletedEventAttributes: completed }) => {
    const text = Buffer.from(completed?.result?.payloads?.[0]?.data ?? []).toString('utf8');
    const verdict = JSON.parse(text || 'null') as { waitingFor?: { blockedBy?: unknown } } | null;
    return verdict?.waitingFor ? [verdict.waitingFor.blockedBy] : [];
  });
}

/** Roll-outs of which each is held at another moment: before it hands in its permit, in its writes, before its verdict. */
async function heldAtEachMoment() {
  const { cluster, moments } = rollOuts;
  const moment = new Map<string, 'permit' | 'firstWrite' | 'lastWrite' | 'verdict'>();
  const reached = new Set<string>();
  const written = new Set<string>();
  const gate = newGate();
  const hold = async (uid: string): Promise<void> => {
    reached.add(moment.get(uid) ?? '');
    await gate.opened;
  };
  moments.beforePermit = (uid) => (moment.get(uid) === 'permit' ? hold(uid) : undefined);
  moments.beforeVerdict = (uid) => (moment.get(uid) === 'verdict' ? hold(uid) : undefined);
  cluster.beforeWrite = async (_, uid) => {
    const isLater = written.has(uid);
    written.add(uid);
    if (moment.get(uid) === (isLater ? 'lastWrite' : 'firstWrite')) await hold(uid);
  };
  const begin = (at: 'permit' | 'firstWrite' | 'lastWrite' | 'verdict') =>
    rollOuts.begin({ maxUnavailable: 2 }, (uid) => {
      written.delete(uid);
      moment.set(uid, at);
    });
  const ready = await begin('verdict');
  const started = [ready, await begin('permit'), await begin('firstWrite'), await begin('lastWrite')];
  await waitFor('each moment', (see) => {
    ready.kubelet();
    return see([...reached]).length === 4;
  });
  const release = () => {
    moment.clear();
    gate.open();
  };
  return { started, release };
}

describeProof('by-hand', 'Temporal', () => {
  it('goes away at whatever moment: no further pod is disrupted until it is back, and none twice', async () => {
    const { started, release } = await heldAtEachMoment();
    const other = await rollOuts.begin({ maxUnavailable: 1 });
    const begun = (rollOut: TrivialRollOut) => byHand(rollOuts, rollOut).restarted().length;
    await rollOuts.platform.kill('temporal');
    try {
      const outlived = Date.now() + 10_500;
      await waitFor('the permits to run out', () => Date.now() > outlived);
      const before = started.map(begun);
      release();
      for (const rollOut of started) rollOut.kubelet();
      const fleet = rollOuts.cluster.fleetOf(other.uid);
      if (fleet) rollOuts.cluster.put({ ...fleet, replicas: 7 });
      await waitFor('upkeep', () => rollOuts.cluster.pods(other.uid).length === 7);
      // a write that was held has been made by then
      for (const [nth, rollOut] of started.entries()) {
        expect(begun(rollOut) - (before[nth] ?? 0)).toBeLessThanOrEqual(1);
        rollOut.kubelet();
      }
    } finally {
      await rollOuts.platform.start('temporal');
    }
    await Promise.all(started.map((rollOut) => endsRight(rollOut)));
    await other.until('all pods to be new', () => other.pods('new') === 7);
  });
});

describeProof('by-hand', 'the next leader', () => {
  it('goes on at whatever moment the one before has lost the lease', async () => {
    const { started, release } = await heldAtEachMoment();
    const next = rollOuts.newTerm();
    release();
    await next;
    await Promise.all(started.map((rollOut) => endsRight(rollOut)));
  });

  it('restarts no pod that a leader which does not know its end restarts, too', async () => {
    const { cluster } = rollOuts;
    const gate = newGate();
    const held = new Set<string>();
    let uid = '';
    cluster.beforeWrite = async ({ name }, of) => {
      if (of !== uid || held.has(name)) return;
      held.add(name); // the write of the earlier leader is late
      await gate.opened;
    };
    const rollOut = await rollOuts.begin({ replicas: 6, maxUnavailable: 2 }, (begun) => {
      uid = begun;
    });
    await waitFor('two writes of the earlier leader', () => held.size === 2);
    const end = rollOuts.rivalTerm({ polls: false });
    await waitFor('the writes of the next leader', (see) => see(rollOut.unready()).length === 2);
    rollOut.kubelet();
    gate.open();
    await rollOut.until('more pods', () => rollOut.pods('new') >= 4);
    await end();
    await endsRight(rollOut);
  });

  it('restarts no pod twice while both poll and have half of the activities each', async () => {
    const started = await Promise.all(['a', 'b', 'c'].map(() => waiting()));
    const end = rollOuts.rivalTerm({ polls: true });
    await Promise.all(
      started.map(async (rollOut) => {
        const hand = byHand(rollOuts, rollOut);
        await hand.resetActivity(await hand.started('fleet.v1.chooseBatch'));
        await hand.resetActivity(await hand.started('fleet.v1.carryOutBatch'));
        rollOut.kubelet();
      }),
    );
    await end();
    await Promise.all(started.map((rollOut) => endsRight(rollOut)));
  });
});
