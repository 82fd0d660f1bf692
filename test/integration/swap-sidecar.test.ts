import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { changedSignal, handOverSignal } from '../../api/engine/operations.ts';
import { closedAs } from '../support/closed.ts';
import { newGate } from '../support/gate.ts';
import { summariesOf } from '../support/history.ts';
import { foundBy, type PlayedSwaps, startPlayedSwaps } from '../support/played-swaps.ts';
import { waitFor } from '../support/wait.ts';

let swaps: PlayedSwaps;

beforeAll(async () => {
  swaps = await startPlayedSwaps();
});

afterAll(async () => {
  await swaps?.stop();
});

const afterMs = (ms: number) => new Date(Date.now() + ms).toISOString();

describe('swapSidecar', () => {
  it.concurrent('SHU-32, SHU-41: writes, waits, resets, waits, and says so step by step', async () => {
    const swap = await swaps.begin();
    expect(await swap.handle.result()).toMatchObject({ reason: 'Swapped' });
    expect(swap.written).toEqual(['begin', 'reset']);
    const history = await swap.handle.fetchHistory();
    expect(summariesOf(history)).toEqual([
      'look at web-0',
      'write mesh:v2 into web-0 mesh-2',
      'wait until mesh-2 of web-0 is ready',
      'reset mesh-1 of web-0',
      'wait until mesh-1 of web-0 is idle',
      'look at web-0',
    ]);
    expect(history.events?.length).toBeLessThanOrEqual(60);
    expect(await foundBy(swap.handle)).toEqual(['Completed', 'Swapped']);
  });

  it.concurrent('SHU-68, SHU-69: continues what OpenKruise has left half swapped', async () => {
    const swap = await swaps.begin({ stage: 'reset' });
    await swap.handle.result();
    expect(swap.written).toEqual(['reset']);
  });

  it.concurrent('SHU-43: a paused SidecarSet holds the reset back, and both versions keep running', async () => {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    swap.let({ isPaused: true, isRunning: true });
    await waitFor('the pause', async (see) => see(await foundBy(swap.handle))[1] === 'Paused');
    expect(swap.written).toEqual(['begin']);
    swap.let({ isPaused: false });
    await swap.handle.result();
    expect(swap.written).toEqual(['begin', 'reset']);
  });

  it.concurrent('a pause by an operator holds only the first write back', async () => {
    const swap = await swaps.begin({ isRunning: false }, { signal: 'pause' });
    await swap.shows('PausedByOperator');
    expect(swap.written).toEqual([]);
    await swap.tell('resume', { by: 'ann' });
    await swap.wrote('begin');
    await swap.tell('pause', { by: 'ann' });
    swap.let({ isRunning: true });
    await swap.handle.result();
    expect(swap.written).toEqual(['begin', 'reset']);
  });

  it.concurrent.each(['pause', 'abort'])('a first write that is on its way is made despite %s', async (command) => {
    const swap = await swaps.begin({ isRunning: false }, { signal: 'pause' });
    const answer = newGate();
    swap.answered = answer.opened;
    await swap.shows('PausedByOperator');
    await swap.tell('resume');
    await swap.wrote('begin');
    await swap.tell(command);
    await waitFor('the cancellation', async () => {
      const { events } = await swap.handle.fetchHistory();
      return events?.some((event) => event.activityTaskCancelRequestedEventAttributes);
    });
    answer.open();
    if (command === 'abort') await swap.wrote('cancel');
    swap.let({ isRunning: true });
    expect(await closedAs(swap.handle)).toBe(command === 'abort' ? 'FAILED' : 'COMPLETED');
    expect(swap.written).toEqual(['begin', command === 'abort' ? 'cancel' : 'reset']);
  });

  it.concurrent('SHU-60: abort returns to the old version while the new one does not get ready', async () => {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    await swap.tell('abort', { by: 'ann' });
    await swap.wrote('cancel');
    swap.let({ isRunning: true });
    expect(await closedAs(swap.handle)).toBe('FAILED');
    expect(await foundBy(swap.handle)).toEqual(['Failed', 'Aborted']);
    expect(swap.written).toEqual(['begin', 'cancel']);
  });

  it.concurrent('a cancellation of the workflow does the same, and it ends cancelled', async () => {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    await swap.handle.cancel();
    await swap.wrote('cancel');
    swap.let({ isRunning: true });
    expect(await closedAs(swap.handle)).toBe('CANCELLED');
    expect(await foundBy(swap.handle)).toEqual(['Canceled', 'Aborted']);
  });

  it.concurrent('abort before the first write changes nothing, whoever sends it', async () => {
    const swap = await swaps.begin({ isPaused: true });
    await swap.shows('Paused');
    await swap.tell('abort');
    expect(await closedAs(swap.handle)).toBe('FAILED');
    expect(swap.written).toEqual([]);
  });

  it.concurrent('SHU-63: a swap that takes longer than its deadline is undone', async () => {
    const swap = await swaps.begin({ isRunning: false, deadlineMs: 1_000 });
    await swap.wrote('cancel');
    swap.let({ isRunning: true });
    expect(await closedAs(swap.handle)).toBe('FAILED');
    expect(await foundBy(swap.handle)).toEqual(['Failed', 'DeadlineExceeded']);
  });

  it.concurrent('waits for the back-off of the kubelet, or for skip', async () => {
    const short = await swaps.begin({ backOffUntil: afterMs(2_000) });
    const long = await swaps.begin({ backOffUntil: afterMs(600_000) });
    await long.shows('KubeletBackOff');
    expect(long.written).toEqual([]);
    await long.tell('skip', { by: 'ann' });
    await Promise.all([short.handle.result(), long.handle.result()]);
    expect(short.written).toEqual(['begin', 'reset']);
  });

  it.concurrent('SHU-33: another image that is published meanwhile is written, too', async () => {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    swap.let({ stage: 'begin', image: 'mesh:v3', isRunning: true });
    await swap.tell(changedSignal);
    await swap.handle.result();
    expect(swap.written).toEqual(['begin', 'begin', 'reset']);
  });

  it.concurrent('the swap for another SidecarSet begins when the first one has ended', async () => {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    const { runId } = await swap.handle.describe();
    const next = swaps.beside(swap, 'logs');
    await swap.tell(changedSignal, { operation: next.operation });
    await swap.tell('pause', { by: 'ann', request: next.operation.set.uid });
    swap.let({ isRunning: true });
    await waitFor('the next run', async () => (await swap.handle.describe()).runId !== runId);
    await next.shows('PausedByOperator');
    await next.tell('resume', { by: 'ann' });
    await waitFor('the end', async () => (await next.handle.describe()).status.name === 'COMPLETED');
    expect(next.written).toEqual(['begin', 'reset']);
  });

  it.concurrent('continues as new in the middle', async () => {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    const { runId } = await swap.handle.describe();
    await swap.tell(handOverSignal);
    await swap.tell(changedSignal);
    await waitFor('the next run', async () => (await swap.handle.describe()).runId !== runId);
    swap.let({ isRunning: true });
    await waitFor('the end', async () => (await swap.handle.describe()).status.name === 'COMPLETED');
    expect(swap.written).toEqual(['begin', 'reset']);
  });

  it.concurrent('a terminated run is started again, and continues from what the pod shows', async () => {
    const swap = await swaps.begin({ isRunning: false });
    await swap.shows('ContainerNotReady');
    await swap.handle.terminate('by hand');
    await swaps.again(swap);
    swap.let({ isRunning: true });
    await waitFor('the end', async () => (await swap.handle.describe()).status.name === 'COMPLETED');
    expect(swap.written).toEqual(['begin', 'reset']);
  });
});
