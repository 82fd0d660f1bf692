import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { handOverSignal } from '../../api/engine/operations.ts';
import { resetPoints } from '../support/by-hand.ts';
import { describeAlone, describeProof } from '../support/groups.ts';
import { batchesIn } from '../support/history.ts';
import { byHand } from '../support/roll-out-by-hand.ts';
import { type RollOuts, startRollOuts } from '../support/trivial-roll-outs.ts';
import { waitFor } from '../support/wait.ts';

let rollOuts: RollOuts;

beforeAll(async () => {
  rollOuts = await startRollOuts();
});

afterAll(async () => {
  await rollOuts?.stop();
});

describeAlone('a roll-out', () => {
  it.concurrent('goes within the budget, and its history names every pod once, with how and when', async () => {
    const rollOut = await rollOuts.begin({ replicas: 30, maxUnavailable: 3 });
    let most = 0;
    await rollOut.until('all pods to be new', () => {
      most = Math.max(most, rollOut.unready().length);
      return rollOut.pods('new') === 30;
    });
    rollOut.kubelet();
    expect(await rollOut.handle.result()).toMatchObject({ message: '30 of 30 pods are of revision new' });
    expect(most).toBeLessThanOrEqual(3);
    const history = await rollOut.handle.fetchHistory();
    const batches = batchesIn(history);
    expect(history.events?.length).toBeLessThanOrEqual(40 + 10 * batches.length);
    expect(batches[0]?.summary).toBe('update pod-0, pod-1 and pod-2 in place');
    // another test calls in the next leader: what a batch has come to that was taken back for it is said by the one in its place
    const counting = batches.filter(({ isTakenBack }) => !isTakenBack);
    const updated = counting.flatMap(({ verdict }) => verdict?.pods ?? []).filter(({ why }) => why === undefined);
    expect(updated.map(({ pod }) => pod).toSorted()).toEqual(
      rollOuts.cluster
        .pods(rollOut.uid)
        .map(({ name }) => name)
        .toSorted(),
    );
    // nor does the next leader know when the pods of its predecessor began
    const timed = updated.filter(({ at }) => at !== undefined);
    expect(timed.length).toBeGreaterThan(0);
    for (const { ms } of timed) expect(typeof ms).toBe('number');
    await rollOut.shows('Completed', 'RolledOut');
  });

  it.concurrent('P-4: says what it waits for unless its own batches explain it, and goes on by itself', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 }, (uid) => {
      rollOuts.cluster.order(uid, { version: 1, revision: 'new', skip: ['pod-5'] });
      rollOuts.cluster.breakDown(uid, 'pod-5');
    });
    await rollOut.shows('RollingOut', 'BudgetSpent');
    await rollOut.until('all other pods to be new', () => rollOut.pods('new') === 5);
    rollOut.kubelet();
    await rollOut.handle.result();
    await rollOut.shows('Completed', 'RolledOut');
  });

  it.concurrent('turns to a newer revision without starting over', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await waitFor('the first pod', () => rollOut.pods('new') === 1);
    await rollOut.want({ revision: 'newer' });
    await rollOut.until('all pods to be newer', () => rollOut.pods('newer') === 6);
    rollOut.kubelet();
    expect(await rollOut.handle.result()).toMatchObject({ message: '6 of 6 pods are of revision newer' });
    expect(rollOut.pods('new')).toBe(0);
  });

  it.concurrent('ends when its object is gone', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    rollOuts.cluster.remove(rollOut.uid);
    await rollOut.tell();
    await rollOut.handle.result();
    await rollOut.shows('Completed', 'Deleted');
  });

  it.concurrent('P-11: hands over at once, with the batch in flight, and the next run goes on with it', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await waitFor('the first pod', () => rollOut.pods('new') === 1);
    const { runId } = await rollOut.handle.describe();
    const [first] = rollOut.unready();
    await rollOut.handle.signal(handOverSignal);
    await rollOut.tell();
    // nothing of the batch comes to an end before
    await rollOut.continuesAfter(runId);
    expect(rollOut.unready()).toEqual([first]);
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 6);
    rollOut.kubelet();
    await rollOut.handle.result();
    const batches = batchesIn(await rollOut.handle.fetchHistory());
    expect(batches[0]?.summary).toBe(`update ${first} in place`);
    const updated = batches.filter(({ isTakenBack }) => !isTakenBack).flatMap(({ verdict }) => verdict?.pods ?? []);
    expect(updated.map(({ pod }) => pod).toSorted()).toEqual([0, 1, 2, 3, 4, 5].map((index) => `pod-${index}`));
  });

  it.concurrent('P-11: hands over a command that is not applied yet, with its sender', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await waitFor('the first pod', () => rollOut.pods('new') === 1);
    const { runId } = await rollOut.handle.describe();
    rollOuts.refuseOrders(rollOut.uid, 'Denied');
    await rollOut.handle.signal('pause');
    await rollOut.handle.signal(handOverSignal);
    await rollOut.tell();
    await rollOut.continuesAfter(runId);
    rollOut.kubelet();
    rollOuts.refuseOrders(rollOut.uid, undefined);
    await rollOut.shows('Paused', 'PausedByOperator');
    const orders = () => rollOuts.cluster.fleetOf(rollOut.uid)?.orders;
    await waitFor('the name of the sender', () => orders()?.paused?.by === 'operator@test');
    expect(rollOut.pods('new')).toBe(1);
    await rollOut.handle.cancel();
    await expect(rollOut.handle.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
  });

  it.concurrent('is taken up by the next leader', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await waitFor('the first pod', () => rollOut.pods('new') === 1);
    await rollOuts.newTerm();
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 6);
    rollOut.kubelet();
    await rollOut.handle.result();
  });
});

describeAlone('an operator', () => {
  it.concurrent('pauses: nothing new is disrupted until resume, and it stands in the object', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await waitFor('the first pod', () => rollOut.pods('new') === 1);
    await rollOut.handle.signal('pause', { by: 'ann' });
    await rollOut.shows('Paused', 'PausedByOperator');
    rollOut.kubelet();
    expect(rollOuts.cluster.fleetOf(rollOut.uid)?.orders).toMatchObject({ revision: 'new', paused: { by: 'ann' } });
    expect(rollOut.pods('new')).toBe(1);

    await rollOut.handle.signal('resume', { by: 'ann' });
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 6);
    rollOut.kubelet();
    await rollOut.handle.result();
    expect(rollOuts.eventsOf(rollOut.uid)).toEqual(['Paused: Paused by ann', 'Resumed: Resumed by ann']);
    expect(rollOuts.cluster.fleetOf(rollOut.uid)?.orders).not.toHaveProperty('paused');
  });

  it.concurrent('P-8: obeys no command a second time when its workflow is reset', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await waitFor('the first pod', () => rollOut.pods('new') === 1);
    await rollOut.handle.signal('undo', { by: 'ann' });
    await waitFor('the undo', () => rollOuts.cluster.fleetOf(rollOut.uid)?.orders?.undo);
    await rollOut.handle.signal('resume');
    await rollOut.until('more pods', () => rollOut.pods('new') >= 2);
    const { runId } = await rollOut.handle.describe();
    const [start] = resetPoints(await rollOut.handle.fetchHistory());
    if (start === undefined) throw new Error('a run has a workflow task');
    await byHand(rollOuts, rollOut).reset(runId, start);
    const why = 'a reset of the workflow has given it again, and the run before has received it';
    const refused = ['undo by ann', 'resume by operator@test'].map((command) => {
      return `CommandRefused: Command ${command} has no effect: ${why}`;
    });
    await waitFor('both to be refused', (see) => {
      const events = see(rollOuts.eventsOf(rollOut.uid));
      return refused.every((event) => events.includes(event));
    });
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 6);
    rollOut.kubelet();
    await rollOut.handle.result();
  });

  it.concurrent('aborts, which outlives the workflow and its history, until somebody retries', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await waitFor('the first pod', () => rollOut.pods('new') === 1);
    await rollOut.handle.signal('abort');
    // the first pod is being finished
    await rollOut.shows('Aborted', 'Aborted');
    await waitFor('the name of the sender', () => {
      return rollOuts.cluster.fleetOf(rollOut.uid)?.orders?.aborted?.by === 'operator@test';
    });
    rollOut.kubelet();
    await expect(rollOut.handle.result()).rejects.toMatchObject({
      cause: { type: 'Aborted', message: expect.stringMatching(/^Aborted by operator@test: \d of 6/) },
    });
    await rollOut.shows('Failed', 'Aborted');
    // P-5: a run that begins and hears that ends as well
    await rollOut.tell();
    await expect(rollOut.handle.result()).rejects.toMatchObject({ cause: { type: 'Aborted' } });
    expect(rollOut.pods('new')).toBe(1);

    await rollOut.tell('retry', { by: 'ann' });
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 6);
    rollOut.kubelet();
    await rollOut.handle.result();
  });

  it.concurrent('aborts one revision; the next is rolled out', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await rollOut.handle.signal('abort', { by: 'ann' });
    rollOut.kubelet();
    await rollOut.shows('Failed', 'Aborted');
    await rollOut.want({ revision: 'newer' });
    await rollOut.until('all pods to be newer', () => rollOut.pods('newer') === 6);
    rollOut.kubelet();
    await rollOut.handle.result();
  });

  it.concurrent('undoes: what has been changed goes back within the budget, and later pods come as before', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 2 });
    await rollOut.until('three pods', () => rollOut.pods('new') >= 3);
    await rollOut.handle.signal('undo', { by: 'ann' });
    let most = 0;
    await rollOut.until('all pods to be old', () => {
      most = Math.max(most, rollOut.unready().length);
      return rollOut.pods('old') === 6;
    });
    rollOut.kubelet();
    expect(await rollOut.handle.result()).toEqual({
      reason: 'RolledBack',
      message: '6 of 6 pods are of revision old',
    });
    await rollOut.shows('Completed', 'RolledBack');
    expect(most).toBeLessThanOrEqual(2);
    const fleet = rollOuts.cluster.fleetOf(rollOut.uid);
    if (fleet) rollOuts.cluster.put({ ...fleet, replicas: 7 });
    await waitFor('one pod more', () => rollOut.pods('old') === 7);

    // the run has ended; the watcher starts one for the command
    await rollOut.tell('resume', { by: 'ann' });
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 7);
    rollOut.kubelet();
    expect(await rollOut.handle.result()).toMatchObject({
      reason: 'RolledOut',
      message: '7 of 7 pods are of revision new',
    });
  });

  it.concurrent('undoes what is complete already', async () => {
    const rollOut = await rollOuts.begin();
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 6);
    rollOut.kubelet();
    await rollOut.handle.result();
    await rollOut.tell('undo', { by: 'ann' });
    await rollOut.until('all pods to be old', () => rollOut.pods('old') === 6);
    rollOut.kubelet();
    expect(await rollOut.handle.result()).toMatchObject({ message: '6 of 6 pods are of revision old' });
  });

  it.concurrent('skips a pod, which is left as it is until retry', async () => {
    const rollOut = await rollOuts.begin();
    await rollOut.handle.signal('skip', { by: 'ann', target: 'pod/pod-5' });
    await waitFor('the order', () => rollOuts.cluster.fleetOf(rollOut.uid)?.orders?.skip);
    await rollOut.until('the others to be new', () => rollOut.pods('new') === 5);
    rollOut.kubelet();
    expect(await rollOut.handle.result()).toMatchObject({ message: '5 of 6 pods are of revision new' });
    expect(rollOuts.eventsOf(rollOut.uid)).toEqual(['Skipped: Skipped pod-5 by ann']);

    await rollOut.tell('retry', { by: 'ann' });
    await rollOut.until('all to be new', () => rollOut.pods('new') === 6);
    rollOut.kubelet();
    await rollOut.handle.result();
  });

  it.concurrent('is told in an Event when a command can have no effect', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await rollOut.handle.signal('skip', { by: 'ann' });
    await waitFor('the Event', (see) => see(rollOuts.eventsOf(rollOut.uid)).length === 1);
    expect(rollOuts.eventsOf(rollOut.uid)[0]).toMatch(/^CommandRefused: Command skip by ann has no effect: /);
    await rollOut.handle.cancel();
    // it waits for its batches in flight, a minute at most
    await rollOut.until('the run to end', async () => (await rollOut.handle.describe()).status.name === 'CANCELLED');
    expect(rollOuts.cluster.fleetOf(rollOut.uid)?.orders).toMatchObject({ aborted: {} });
  });
});

describeProof('slow', 'a roll-out without Temporal', () => {
  it('disrupts nothing new, and goes on when Temporal is back', async () => {
    const rollOut = await rollOuts.begin({ maxUnavailable: 1 });
    await waitFor('the first pod', () => rollOut.pods('new') === 1);
    await rollOuts.platform.kill('temporal');
    try {
      const outlived = Date.now() + 10_500;
      await waitFor('the permit to run out', () => Date.now() > outlived);
      const before = rollOut.pods('new');
      rollOut.kubelet();
      const fleet = rollOuts.cluster.fleetOf(rollOut.uid);
      if (fleet) rollOuts.cluster.put({ ...fleet, replicas: 7 });
      await waitFor('upkeep', () => rollOut.pods('old') + rollOut.pods('new') === 7);
      expect(rollOut.pods('new')).toBe(before + 1); // the one that upkeep has created
    } finally {
      await rollOuts.platform.start('temporal');
    }
    await rollOut.until('all pods to be new', () => rollOut.pods('new') === 7);
    rollOut.kubelet();
    await rollOut.handle.result();
  });
});
