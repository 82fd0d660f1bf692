import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { queues } from '../../api/engine/operations.ts';
import { rollOutType } from '../../api/fleet/operation.ts';
import { KubeError } from '../../kube/failures.ts';
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
/** Fleets whose pods cannot be restarted. */
const refused = new Set<string>();
/** Fleets whose roll-outs get no answer. */
const unanswered = new Set<string>();

beforeAll(async () => {
  rollOuts = await startRollOuts();
  rollOuts.cluster.refusesStale = true;
  rollOuts.cluster.beforeWrite = ({ kind }, uid) => {
    if (kind === 'restart' && refused.has(uid)) throw new KubeError({ status: 403, message: 'refused by the test' });
  };
  rollOuts.moments.beforeNext = (uid) => {
    if (unanswered.has(uid)) throw new Error('the test gives no answer');
  };
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

/** The same, with a question that gets no answer until `answer` is called. */
async function asking(): Promise<{
  readonly rollOut: TrivialRollOut;
  readonly id: string;
  readonly answer: () => void;
}> {
  const rollOut = await inFlight();
  unanswered.add(rollOut.uid);
  await rollOut.tell();
  const id = await waitFor('a question', async () => (await byHand(rollOuts, rollOut).pending('fleet.v1.next'))[0]);
  return { rollOut, id, answer: () => void unanswered.delete(rollOut.uid) };
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
    const rollOut = await inFlight();
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
    const left = { number: 1, batch: batch?.input.batch, startedAtMs: Date.now() };
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
  it.concurrent('says that a batch is paused whose pods have not begun, and goes on with it when it is unpaused', async () => {
    const rollOut = await rollOuts.begin({ replicas: 6, maxUnavailable: 2 }, (uid) => refused.add(uid));
    const hand = byHand(rollOuts, rollOut);
    const id = await hand.started('fleet.v1.carryOutBatch');
    await hand.pause(id);
    refused.delete(rollOut.uid);
    await rollOut.shows('RollingOut', 'BatchNotRunning');
    expect(rollOut.pods('new')).toBe(0);
    await hand.unpause(id);
    await endsRight(rollOut);
  });

  it.concurrent('goes on with other pods while a batch is paused whose pods have begun', async () => {
    const rollOut = await inFlight();
    const hand = byHand(rollOuts, rollOut);
    const id = await hand.started('fleet.v1.carryOutBatch');
    await hand.pause(id);
    await rollOut.until('the others to be new', async () => {
      const pending = await hand.pending('fleet.v1.carryOutBatch');
      return rollOut.pods('new') === 6 && pending.length === 1 && pending[0] === id;
    });
    await hand.unpause(id);
    await endsRight(rollOut);
  });

  it.concurrent('goes on by the results of its batches while its question is paused, and ends with the answer', async () => {
    const { rollOut, id, answer } = await asking();
    const hand = byHand(rollOuts, rollOut);
    await hand.pause(id);
    answer();
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 6 && rollOut.unready().length === 0);
    await waitFor('the last batch', async () => (await hand.pending('fleet.v1.carryOutBatch')).length === 0);
    expect(await hand.pending('fleet.v1.next')).toEqual([id]);
    await hand.unpause(id);
    await endsRight(rollOut);
  });

  it.concurrent('fleet.v1.next is reset', async () => {
    const { rollOut, id, answer } = await asking();
    await byHand(rollOuts, rollOut).resetActivity(id);
    answer();
    await endsRight(rollOut);
  });

  it.concurrent('fleet.v1.carryOutBatch is reset while pods are in flight', async () => {
    const rollOut = await inFlight();
    const hand = byHand(rollOuts, rollOut);
    await hand.resetActivity(await hand.started('fleet.v1.carryOutBatch'));
    await endsRight(rollOut);
  });

  it.concurrent.each([
    ['for good', true],
    ['for once', false],
  ] as const)('fleet.v1.carryOutBatch is failed %s while pods are in flight', async (_, isFinal) => {
    const rollOut = await inFlight();
    const hand = byHand(rollOuts, rollOut);
    await hand.fail(await hand.started('fleet.v1.carryOutBatch'), isFinal);
    await endsRight(rollOut);
  });

  it.concurrent.each([
    ['nothing', null],
    ['no pods', { summary: '', pods: [], next: { kind: 'nothing' } }],
    ['all pods', { summary: 'all is done', pods: [{ pod: 'pod-5', how: 'inPlace' }], next: { kind: 'nothing' } }],
    ['a result of another shape', { summary: 7 }],
    ['a blank wait', { summary: '', pods: [], next: { kind: 'wait', waitingFor: waitOf('Paused') } }],
    ['more pods than the budget allows', answerOf('pod-0', 'pod-2', 'pod-3', 'pod-4', 'pod-5')],
    ['a pod that there is not', answerOf('pod-77')],
    ['another revision', answerOf('pod-4', 'pod-5', { revision: 'other' })],
  ] as const)('fleet.v1.carryOutBatch is completed with %s while pods are in flight', async (_, value) => {
    const rollOut = await inFlight();
    const hand = byHand(rollOuts, rollOut);
    await hand.complete(await hand.started('fleet.v1.carryOutBatch'), value);
    await endsRight(rollOut, { isForged: value !== null });
  });

  it.concurrent('ends when somebody says that all is done, and the next run does what is left', async () => {
    const rollOut = await inFlight();
    const hand = byHand(rollOuts, rollOut);
    const id = await hand.started('fleet.v1.carryOutBatch');
    unanswered.add(rollOut.uid); // it is told to ask at once, as its pods are in no batch any more
    await hand.complete(id, { summary: '', pods: [], next: { kind: 'done', summary: '6 of 6' } });
    await waitFor('the end', async () => (await rollOut.handle.describe()).status.name === 'COMPLETED');
    unanswered.delete(rollOut.uid);
    expect(rollOut.pods('new')).toBe(2);
    await rollOut.tell();
    await endsRight(rollOut, { runs: 2, isForged: true });
  });
});

function waitOf(reason: string) {
  return { reason, blockedBy: [], blockedCount: 0, since: '2026-01-01T00:00:00Z', unblock: 'retry' };
}

function answerOf(...named: readonly (string | Partial<PodBatch>)[]) {
  const names = named.filter((name) => typeof name === 'string');
  const other = named.find((one) => typeof one !== 'string');
  const pods = names.map((name) => ({ name, uid: name }));
  const batch = { revision: 'new', namespace: 'shop', how: 'inPlace', containers: [['app']], pods, ...other };
  return { summary: '', pods: [], next: { kind: 'pods', batches: [batch], more: false, of: 6, updated: 2 } };
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
    const started = await Promise.all(['a', 'b', 'c'].map(() => inFlight()));
    const end = rollOuts.rivalTerm({ polls: true });
    await Promise.all(
      started.map(async (rollOut) => {
        const hand = byHand(rollOuts, rollOut);
        await hand.resetActivity(await hand.started('fleet.v1.carryOutBatch'));
        rollOut.kubelet();
      }),
    );
    await end();
    await Promise.all(started.map((rollOut) => endsRight(rollOut)));
  });
});
