import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { describeAlone, describeProof } from '../support/groups.ts';
import { batchesIn } from '../support/history.ts';
import { problemsOf } from '../support/roll-out-by-hand.ts';
import { type RollOuts, startRollOuts, type TrivialRollOut } from '../support/trivial-roll-outs.ts';
import { waitFor } from '../support/wait.ts';

let rollOuts: RollOuts;

beforeAll(async () => {
  rollOuts = await startRollOuts({ longWaitMs: 3_000 });
});

afterAll(async () => {
  await rollOuts?.stop();
});

/** A roll-out whose first pods do not get ready, once it has no activity pending. */
async function waiting(): Promise<TrivialRollOut> {
  const rollOut = await rollOuts.begin({ replicas: 6, maxUnavailable: 2 });
  await waitFor('the first batch', () => rollOut.unready().length === 2);
  await rollOut.shows('RollingOut', 'BudgetSpent');
  await hasNothingPending(rollOut);
  return rollOut;
}

async function hasNothingPending(rollOut: TrivialRollOut): Promise<void> {
  await waitFor('no activity to be pending', async (see) => {
    const { raw } = await rollOut.handle.describe();
    return see(raw.pendingActivities ?? []).length === 0 && !raw.pendingWorkflowTask;
  });
}

async function endsRight(rollOut: TrivialRollOut): Promise<void> {
  await rollOut.until('all pods to be new', () => rollOut.pods('new') === 6);
  rollOut.kubelet();
  expect(await rollOut.handle.result()).toMatchObject({ message: '6 of 6 pods are of revision new' });
  expect(await problemsOf(rollOuts, rollOut)).toEqual([]);
}

async function eventsIn(rollOut: TrivialRollOut): Promise<number> {
  return (await rollOut.handle.fetchHistory()).events?.length ?? 0;
}

describeAlone('a roll-out that waits for long', () => {
  it.concurrent('has no activity pending, says what it waits for, and goes on when its pods are ready', async () => {
    const rollOut = await waiting();
    const before = await eventsIn(rollOut);
    const [batch] = batchesIn(await rollOut.handle.fetchHistory());
    expect(batch?.verdict?.pods).toHaveLength(2);
    for (const { at, why } of batch?.verdict?.pods ?? []) {
      expect([typeof at, why]).toEqual(['string', 'not available after 3 s: not ready']);
    }
    const until = Date.now() + 4_000;
    await waitFor('longer than a batch is kept', () => Date.now() > until);
    expect(await eventsIn(rollOut)).toBe(before);
    await rollOut.shows('RollingOut', 'BudgetSpent');
    await endsRight(rollOut);
  });

  it.concurrent('obeys commands', async () => {
    const rollOut = await waiting();
    await rollOut.handle.signal('pause', { by: 'ann' });
    await rollOut.shows('Paused', 'PausedByOperator');
    await hasNothingPending(rollOut);
    rollOut.kubelet();
    await rollOut.handle.signal('resume', { by: 'ann' });
    await endsRight(rollOut);
  });
});

// This concerns all roll-outs that there are, so it runs after the others.
describeAlone('a roll-out that waits for long', () => {
  it('P-4: is asked for by the next leader, and has nothing pending again', async () => {
    const rollOut = await waiting();
    const before = await eventsIn(rollOut);
    await rollOuts.newTerm();
    rollOuts.look(rollOut.uid);
    await waitFor('the question of the woken roll-out', async () => (await eventsIn(rollOut)) > before + 4);
    await hasNothingPending(rollOut);
    await rollOut.shows('RollingOut', 'BudgetSpent');
    await endsRight(rollOut);
  });
});

describeProof('slow', 'a roll-out that waits for long', () => {
  it('is woken once Temporal is back', async () => {
    const rollOut = await waiting();
    await rollOuts.platform.kill('temporal');
    try {
      rollOut.kubelet();
      const until = Date.now() + 3_000;
      await waitFor('a call that nobody answers', () => Date.now() > until);
      expect(rollOut.pods('new')).toBe(2);
    } finally {
      await rollOuts.platform.start('temporal');
    }
    await endsRight(rollOut);
  });
});
