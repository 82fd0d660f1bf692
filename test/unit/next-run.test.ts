import { describe, expect, it } from '@jest/globals';
import {
  WorkflowContinuedAsNewError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
} from '@temporalio/client';
import { type NextRunMeans, nextRunActivities } from '../../activities/temporal/next-run.ts';
import { newGate } from '../support/gate.ts';
import { waitFor } from '../support/wait.ts';

const pod = { namespace: 'shop', name: 'web-0', uid: 'pod-1' };
const request = { namespace: 'shop', name: 'again', uid: 'request-2' };
/** The run that closes may be one of release 0.1.0. */
const earlierId = 'restart-containers/pod-1';
const skip = { name: 'skip', by: 'ann', target: 'app', request: 'request-2' };
const work = { request, pod, node: { name: 'node-1', uid: 'node-uid' } };

/** The activity beside a run that ends like this once the gate is open. */
function activityBeside(end: () => unknown, isRunning = false) {
  const closed = newGate();
  const calls: unknown[][] = [];
  const errors: unknown[] = [];
  const client = {
    withDeadline: (_: number, call: () => unknown) => call(),
    workflow: {
      getHandle: (...about: unknown[]) => {
        calls.push(about);
        const signal = async (...given: unknown[]) => void calls.push(given);
        return { signal, result: () => closed.opened.then(end) };
      },
      start: async (...given: unknown[]) => {
        calls.push(given);
        if (isRunning) throw new WorkflowExecutionAlreadyStartedError('', 'restart-containers/pod-1', '');
      },
    },
  } as unknown as NextRunMeans['client'];
  const { startNextRun } = nextRunActivities({ client, onError: (_, error) => void errors.push(error) });
  return {
    closed,
    calls,
    errors,
    start: () => startNextRun({ workflowId: earlierId, runId: 'run-1', work, commands: [skip], build: 'b1' }),
  };
}

describe('the start of the next run', () => {
  it('comes when the run has closed, whatever its end, and does not keep the activity waiting', async () => {
    const failed = new WorkflowFailedError('failed', undefined, 'NON_RETRYABLE_FAILURE');
    for (const end of [() => ({}), () => Promise.reject(failed)]) {
      const { closed, calls, start } = activityBeside(end);
      await start();
      expect(calls).toEqual([[earlierId, 'run-1', { followRuns: false }]]);
      closed.open();
      await waitFor('the start', () => calls.length === 2);
      expect(calls[1]).toMatchObject([
        'restartContainers',
        {
          workflowId: 'restart-containers/shop/web-0/pod-1',
          taskQueue: 'cluster',
          args: [work, undefined, { operator: { commands: [skip], seen: [] } }],
          memo: { kind: 'ContainerRecreateRequest', namespace: 'shop', name: 'again', build: 'b1' },
          staticSummary: 'restart containers of pod shop/web-0',
        },
      ]);
    }
  });

  it('sends the commands to the run that somebody else has started meanwhile', async () => {
    const { closed, calls, start } = activityBeside(() => ({}), true);
    await start();
    closed.open();
    await waitFor('the signals', () => calls.length === 5);
    expect(calls.slice(2)).toEqual([
      ['restart-containers/shop/web-0/pod-1'],
      ['changed', { operation: work, generation: 0 }],
      ['skip', { by: 'ann', target: 'app', request: 'request-2' }],
    ]);
  });

  it('does not come when the run continues as new, since that one has the next work', async () => {
    const { closed, calls, errors, start } = activityBeside(() =>
      Promise.reject(new WorkflowContinuedAsNewError('continued', 'run-2')),
    );
    await start();
    closed.open();
    await new Promise((resolve) => setImmediate(resolve));
    expect(calls).toHaveLength(1);
    expect(errors).toEqual([]);
  });

  it('is left to the watcher when Temporal does not answer', async () => {
    const { closed, calls, errors, start } = activityBeside(() => Promise.reject(new Error('14 UNAVAILABLE')));
    await start();
    closed.open();
    await waitFor('the error', () => errors.length === 1);
    expect(calls).toHaveLength(1);
  });
});
