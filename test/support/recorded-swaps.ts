import type { WorkflowHandle } from '@temporalio/client';
import { changedSignal, handOverSignal } from '../../api/engine/operations.ts';
import { closedAs } from './closed.ts';
import type { PlayedSwap, PlayedSwaps } from './played-swaps.ts';
import { waitFor } from './wait.ts';

/** Plays one scenario to its end, and returns the runs to record, by branch. */
type Scenario = (swaps: PlayedSwaps) => Promise<Readonly<Record<string, WorkflowHandle>>>;

async function endOf(swap: PlayedSwap): Promise<WorkflowHandle> {
  await closedAs(swap.handle);
  return swap.handle;
}

/** The run that is under way now. */
async function runOf({ played }: PlayedSwaps, { handle }: PlayedSwap) {
  const { runId } = await handle.describe();
  return { runId, run: played.client.workflow.getHandle(handle.workflowId, runId) };
}

async function nextRunBegins({ handle }: PlayedSwap, runId: string): Promise<void> {
  await waitFor('the next run', async () => (await handle.describe()).runId !== runId);
}

/** One scenario for each branch of the workflow `swapSidecar`. */
export const swapScenarios: Readonly<Record<string, Scenario>> = {
  swapped: async (swaps) => ({ swapped: await endOf(await swaps.begin()) }),
  nothing: async (swaps) => ({ nothing: await endOf(await swaps.begin({ stage: 'done' })) }),
  notDue: async (swaps) => ({ 'not-due': await endOf(await swaps.begin({ isDue: false })) }),
  halfSwapped: async (swaps) => ({ 'half-swapped': await endOf(await swaps.begin({ stage: 'reset' })) }),

  async gone(swaps) {
    const swap = await swaps.begin({ isRunning: false });
    await swap.wrote('begin');
    swap.let({ stage: 'gone' });
    return { gone: await endOf(swap) };
  },

  async setPaused(swaps) {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    swap.let({ isPaused: true, isRunning: true });
    await swap.shows('Paused');
    swap.let({ isPaused: false });
    return { 'set-paused': await endOf(swap) };
  },

  async paused(swaps) {
    const swap = await swaps.begin({}, { signal: 'pause' });
    await swap.shows('PausedByOperator');
    await swap.tell('resume', { by: 'ann' });
    return { paused: await endOf(swap) };
  },

  async abortedBefore(swaps) {
    const swap = await swaps.begin({ isPaused: true });
    await swap.shows('Paused');
    await swap.tell('abort');
    return { 'aborted-before': await endOf(swap) };
  },

  async abortedAfter(swaps) {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    await swap.tell('abort', { by: 'ann' });
    await swap.wrote('cancel');
    swap.let({ isRunning: true });
    return { 'aborted-after': await endOf(swap) };
  },

  async cancelled(swaps) {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    await swap.handle.cancel();
    await swap.wrote('cancel');
    swap.let({ isRunning: true });
    return { cancelled: await endOf(swap) };
  },

  async deadline(swaps) {
    const swap = await swaps.begin({ isRunning: false, deadlineMs: 2_000 });
    await swap.wrote('cancel');
    swap.let({ isRunning: true });
    return { deadline: await endOf(swap) };
  },

  async backOff(swaps) {
    const swap = await swaps.begin({ backOffUntil: new Date(Date.now() + 2_000).toISOString() });
    await swap.shows('KubeletBackOff');
    return { 'back-off': await endOf(swap) };
  },

  async backOffSkipped(swaps) {
    const swap = await swaps.begin({ backOffUntil: new Date(Date.now() + 600_000).toISOString() });
    await swap.shows('KubeletBackOff');
    await swap.tell('skip', { by: 'ann' });
    return { 'back-off-skipped': await endOf(swap) };
  },

  async anotherImage(swaps) {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    swap.let({ stage: 'begin', image: 'mesh:v3', isRunning: true });
    await swap.tell(changedSignal);
    return { 'another-image': await endOf(swap) };
  },

  async queued(swaps) {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    const { runId, run } = await runOf(swaps, swap);
    const next = swaps.beside(swap, 'logs');
    await swap.tell(changedSignal, { operation: next.operation });
    swap.let({ isRunning: true });
    await nextRunBegins(swap, runId);
    return { queued: run, 'next-in-queue': await endOf(next) };
  },

  async handedOver(swaps) {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    const { runId, run } = await runOf(swaps, swap);
    await swap.tell(handOverSignal);
    await swap.tell(changedSignal);
    await nextRunBegins(swap, runId);
    swap.let({ isRunning: true });
    return { 'handed-over': run, continued: await endOf(swap) };
  },
};
