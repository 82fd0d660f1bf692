import type { WorkflowHandle } from '@temporalio/client';
import { handOverSignal } from '../../api/engine/operations.ts';
import type { RollOuts, TrivialRollOut } from './trivial-roll-outs.ts';
import { waitFor } from './wait.ts';

/** Plays one scenario to its end, and returns the runs to record, by branch. */
type Scenario = (rollOuts: RollOuts) => Promise<Readonly<Record<string, WorkflowHandle>>>;

async function toTheMiddle(rollOuts: RollOuts): Promise<TrivialRollOut> {
  const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
  await waitFor('the first pod', () => rollOut.pods('new') === 1);
  return rollOut;
}

async function toTheEnd(rollOut: TrivialRollOut, revision = 'new', pods = 6): Promise<WorkflowHandle> {
  const { runId } = await rollOut.handle.describe();
  const run = rollOut.run(runId);
  await rollOut.until(`all pods to be ${revision}`, () => rollOut.pods(revision) === pods);
  rollOut.kubelet();
  await run.result();
  return run;
}

/** One scenario for each branch of the workflow `rollOut`. */
export const rollOutScenarios: Readonly<Record<string, Scenario>> = {
  async batches(rollOuts) {
    const rollOut = await rollOuts.begin({ replicas: 20, maxUnavailable: 3 });
    return { batches: await toTheEnd(rollOut, 'new', 20) };
  },

  async blocked(rollOuts) {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 }, (uid) => {
      rollOuts.cluster.order(uid, { version: 1, revision: 'new', skip: ['pod-5'] });
      rollOuts.cluster.breakDown(uid, 'pod-5');
    });
    await rollOut.shows('RollingOut', 'BudgetSpent');
    await rollOut.tell('changed', null);
    await rollOut.tell('changed', { ...rollOut.facts(), generation: 3 });
    await rollOut.shows('RollingOut', 'BudgetSpent');
    return { blocked: await toTheEnd(rollOut, 'new', 5) };
  },

  async turned(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    await rollOut.want({ revision: 'newer' });
    return { turned: await toTheEnd(rollOut, 'newer') };
  },

  async withdrawn(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    rollOuts.cluster.remove(rollOut.uid);
    await rollOut.tell();
    return { withdrawn: rollOut.handle };
  },

  async gone(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    rollOuts.refuseOrders(rollOut.uid, 'Superseded');
    await rollOut.handle.signal('pause', { by: 'ann' });
    return { 'gone-before-orders': rollOut.handle };
  },

  async paused(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    await rollOut.handle.signal('pause', { by: 'ann' });
    await rollOut.shows('Paused', 'PausedByOperator');
    await rollOut.handle.signal('resume', { by: 'ann' });
    return { paused: await toTheEnd(rollOut) };
  },

  async pausedWhileTurned(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    await rollOut.handle.signal('pause', { by: 'ann' });
    await rollOut.shows('Paused', 'PausedByOperator');
    await rollOut.want({ revision: 'newer' });
    await rollOut.handle.signal('resume', { by: 'ann' });
    return { 'paused-while-turned': await toTheEnd(rollOut, 'newer') };
  },

  async aborted(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    await rollOut.handle.signal('abort');
    await rollOut.shows('Aborted', 'Aborted');
    await waitFor('the name', () => rollOuts.cluster.fleetOf(rollOut.uid)?.orders?.aborted?.by !== '');
    const { runId } = await rollOut.handle.describe();
    rollOut.kubelet();
    await rollOut.shows('Failed', 'Aborted');
    await rollOut.tell('retry', { by: 'ann' });
    return { aborted: rollOut.run(runId), retried: await toTheEnd(rollOut) };
  },

  async cancelled(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    await rollOut.handle.cancel();
    return { cancelled: rollOut.handle };
  },

  async undone(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    await rollOut.handle.signal('undo', { by: 'ann' });
    const undone = await toTheEnd(rollOut, 'old');
    await rollOut.tell('resume', { by: 'ann' });
    return { undone, 'rolled-out-after-all': await toTheEnd(rollOut) };
  },

  async skipped(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    await rollOut.handle.signal('skip', { by: 'ann' });
    await rollOut.handle.signal('skip', { by: 'ann', target: 'pod-5' });
    await waitFor('the order', () => rollOuts.cluster.fleetOf(rollOut.uid)?.orders?.skip);
    const { runId } = await rollOut.handle.describe();
    await rollOut.until('the others', () => rollOut.pods('new') === 5);
    rollOut.kubelet();
    return { skipped: rollOut.run(runId) };
  },

  async refused(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    rollOuts.refuseOrders(rollOut.uid, 'Denied');
    await rollOut.handle.signal('undo', { by: 'ann' });
    await rollOut.shows('RollingOut', 'Denied');
    rollOuts.refuseOrders(rollOut.uid, undefined);
    return { refused: await toTheEnd(rollOut, 'old') };
  },

  async handedOver(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    const { runId } = await rollOut.handle.describe();
    await rollOut.handle.signal(handOverSignal);
    await rollOut.tell(); // as the watcher does
    await rollOut.continuesAfter(runId);
    return { 'handed-over': rollOut.run(runId), 'taken-over': await toTheEnd(rollOut) };
  },

  async newLeader(rollOuts) {
    const rollOut = await toTheMiddle(rollOuts);
    await rollOuts.newTerm();
    return { 'new-leader': await toTheEnd(rollOut) };
  },
};
