import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import type { RestartChanged } from '../../api/container-recreate-request/operation.ts';
import { changedSignal, commandNames, searchAttributes } from '../../api/engine/operations.ts';
import { newGate } from '../support/gate.ts';
import {
  type Answers,
  inputOf,
  type OperationType,
  type PlayedOperations,
  startPlayedOperations,
  uneventful,
} from '../support/played-operations.ts';
import { waitFor } from '../support/wait.ts';

/** How an operation is driven to its end, by a word in the UID of its object. */
type Fate = 'succeeds' | 'fails' | 'deleted' | 'finished' | 'waits';

function fateOf(workflowId: string): Fate {
  return workflowId.split('/').at(-1)?.split('-')[0] as Fate;
}

/** Holds an activity until the operation has been aborted or cancelled, and the tests are over. */
const over = newGate();
async function held(): Promise<never> {
  await over.opened;
  throw new Error('the tests are over');
}

const answers: Partial<Answers> = {
  lookAtRequest: (call) => {
    const fate = fateOf(call.workflowId);
    if (fate === 'deleted') return { kind: 'gone' };
    if (fate === 'finished')
      return { kind: 'finished', end: { type: 'Failed', reason: 'NodeSilent', message: 'gone' } };
    return uneventful.lookAtRequest(call);
  },
  'node.v1.stopContainer': ({ workflowId }) =>
    fateOf(workflowId) === 'fails' ? { kind: 'failed', message: 'no such device' } : { kind: 'stopped' },
  'node.v1.awaitContainer': async ({ workflowId }) =>
    fateOf(workflowId) === 'waits' ? await held() : { kind: 'ready', containerId: 'new', restartCount: 1 },
  lookAtEnvironment: (call) =>
    call.nth > 1 && fateOf(call.workflowId) === 'succeeds'
      ? { kind: 'seen', instances: [], more: false }
      : uneventful.lookAtEnvironment(call),
  'node.v1.refreshContainer': ({ workflowId }) =>
    fateOf(workflowId) === 'waits' ? { kind: 'failed', message: 'no such device' } : { kind: 'stopped' },
  lookAtSidecars: (call) =>
    fateOf(call.workflowId) === 'waits' && call.nth > 1
      ? uneventful.lookAtSidecars({ ...call, nth: 1 })
      : uneventful.lookAtSidecars(call),
  lookAtNodeImage: (call) =>
    fateOf(call.workflowId) === 'deleted' ? { kind: 'gone' } : uneventful.lookAtNodeImage(call),
  'node.v1.pullImage': async ({ workflowId }) => {
    const fate = fateOf(workflowId);
    if (fate === 'waits') return await held();
    if (fate === 'fails') return { kind: 'failed', failure: 'other', final: true, message: 'manifest unknown' };
    return { kind: 'succeeded', imageId: 'nginx@sha256:1', pulled: true };
  },
  'fleet.v1.carryOutBatch': async (call) =>
    fateOf(call.workflowId) === 'waits' ? await held() : await uneventful['fleet.v1.carryOutBatch'](call),
};

let played: PlayedOperations;

beforeAll(async () => {
  played = await startPlayedOperations({ answers });
});

afterAll(async () => {
  over.open();
  await played?.stop();
});

interface Ended {
  readonly status: string;
  readonly phase: unknown;
  readonly reason: unknown;
  /** Of the result, or of the failure. */
  readonly said: { readonly reason?: unknown; readonly message?: unknown };
}

async function endOf(handle: WorkflowHandle): Promise<Ended> {
  const said = await handle.result().then(
    (result) => result as Ended['said'],
    ({ cause }: { readonly cause: { readonly type?: string; readonly message: string } }) => ({
      reason: cause.type,
      message: cause.message,
    }),
  );
  const { status, searchAttributes: shown } = await handle.describe();
  return {
    status: status.name,
    phase: shown[searchAttributes.phase]?.[0],
    reason: shown[searchAttributes.reason]?.[0],
    said,
  };
}

/** Runs an operation to its end. */
async function run(type: OperationType, uid: string): Promise<Ended> {
  return await endOf(await played.begin(type, uid));
}

/** Runs an operation until it waits in this activity, has somebody end it, and answers how it has ended. */
async function runUntil(type: OperationType, activity: string, how: 'abort' | 'cancel'): Promise<Ended> {
  const handle = await played.begin(type, `waits-${how}-${type}`);
  await waitFor(`${handle.workflowId} to call ${activity}`, async () =>
    played.calls.some((call) => call.workflowId === handle.workflowId && call.activity === activity),
  );
  if (how === 'cancel') await handle.cancel();
  else await handle.signal('abort', { by: 'ann' });
  return await endOf(handle);
}

describe('F8: a run ends as its object does', () => {
  it('a request that is complete', async () => {
    expect(await run('restartContainers', 'succeeds-restart')).toMatchObject({
      status: 'COMPLETED',
      phase: 'Completed',
      reason: 'ContainersRecreated',
      said: { reason: 'ContainersRecreated', message: '1 of 1 containers of pod "web" were recreated' },
    });
  });

  it('a request that has failed', async () => {
    expect(await run('restartContainers', 'fails-restart')).toMatchObject({
      status: 'FAILED',
      phase: 'Failed',
      reason: 'StopFailed',
      said: { reason: 'StopFailed', message: expect.stringContaining('no such device') },
    });
  });

  it('a request that was deleted, and one that had failed before the run began', async () => {
    expect(await run('restartContainers', 'deleted-restart')).toMatchObject({
      status: 'COMPLETED',
      said: { reason: 'Deleted', message: 'The ContainerRecreateRequest was deleted' },
    });
    expect(await run('restartContainers', 'finished-restart')).toMatchObject({
      status: 'FAILED',
      said: { reason: 'NodeSilent', message: 'gone' },
    });
  });

  it('an environment that is up to date', async () => {
    expect(await run('refreshEnvironment', 'succeeds-refresh')).toMatchObject({
      status: 'COMPLETED',
      phase: 'Completed',
      said: { reason: 'EnvironmentRefreshed' },
    });
  });

  it('sidecars that are terminated', async () => {
    const handle = await played.begin('terminateSidecars', 'succeeds-sidecars');
    await waitFor('the first look', async () => /ContainerNotStarted/.test(await played.detailsOf(handle)));
    await handle.signal(changedSignal, null);
    expect(await endOf(handle)).toMatchObject({
      status: 'COMPLETED',
      phase: 'Completed',
      said: { reason: 'SidecarsTerminated' },
    });
  });

  it('a failed image is a result of the pulls of a node, not a failure of their run', async () => {
    expect(await run('pullImages', 'succeeds-pulls')).toMatchObject({
      status: 'COMPLETED',
      said: { reason: 'ImagesPulled', message: '1 images are on node "node-1"' },
    });
    expect(await run('pullImages', 'fails-pulls')).toMatchObject({
      status: 'COMPLETED',
      said: { reason: 'ImagesFailed', message: '0 images are on node "node-1"; not nginx:1.27' },
    });
    expect(await run('pullImages', 'deleted-pulls')).toMatchObject({ said: { reason: 'Deleted' } });
  });

  it('a roll-out that is done', async () => {
    expect(await run('rollOut', 'succeeds-roll-out')).toMatchObject({
      status: 'COMPLETED',
      phase: 'Completed',
      said: { reason: 'RolledOut', message: '5 of 5 pods are of revision new' },
    });
  });

  const waits = [
    ['restartContainers', 'node.v1.awaitContainer'],
    ['refreshEnvironment', 'node.v1.refreshContainer'],
    ['terminateSidecars', 'lookAtSidecars'],
    ['pullImages', 'node.v1.pullImage'],
  ] as const;
  it.each(waits)('%s that is aborted fails, one that is cancelled in Temporal is cancelled', async (type, activity) => {
    expect(await runUntil(type, activity, 'abort')).toMatchObject({
      status: 'FAILED',
      phase: 'Failed',
      reason: 'Aborted',
      said: { reason: 'Aborted', message: expect.stringMatching(/^Aborted by /) },
    });
    expect(await runUntil(type, activity, 'cancel')).toMatchObject({
      status: 'CANCELLED',
      phase: 'Canceled',
      reason: 'Aborted',
    });
  });

  it('a roll-out that is cancelled in Temporal', async () => {
    expect(await runUntil('rollOut', 'fleet.v1.carryOutBatch', 'cancel')).toMatchObject({
      status: 'CANCELLED',
      phase: 'Canceled',
    });
  });

  it('one query lists what has failed, and nothing else', async () => {
    const wanted = ['fails-restart', 'finished-restart', ...waits.map(([type]) => `waits-abort-${type}`)];
    await waitFor('the visibility store to show all', async (see) => {
      const found: string[] = [];
      for await (const { workflowId } of played.client.workflow.list({ query: 'ExecutionStatus = "Failed"' })) {
        found.push(workflowId.slice(workflowId.lastIndexOf('/') + 1));
      }
      return (
        JSON.stringify(see(found).toSorted((a, b) => a.localeCompare(b))) ===
        JSON.stringify(wanted.toSorted((a, b) => a.localeCompare(b)))
      );
    });
  });
});

describe('F8: what the UI shows about signals', () => {
  it('each command says what it does, and internal signals that they are not for people', async () => {
    const handle = await played.begin('pullImages', 'waits-described');
    const { definition } = await handle.query<{ definition: { signalDefinitions: readonly Described[] } }, []>(
      '__temporal_workflow_metadata',
    );
    const shown = new Map(definition.signalDefinitions.map(({ name, description }) => [name, description]));
    for (const name of commandNames) expect(shown.get(name)).toMatch(/^[A-Z].*\. Input, optional: /);
    expect([shown.get(changedSignal), shown.get('handOver')]).toEqual(
      Array(2).fill(expect.stringMatching(/^Internal/)),
    );
    await handle.terminate();
  });
});

interface Described {
  readonly name: string;
  readonly description: string;
}

describe('two requests of one pod', () => {
  it('when the first one has failed, its run starts that of the next, which has a history and a name of its own', async () => {
    const uid = 'waits-queue';
    const handle = await played.begin('restartContainers', uid);
    await waitFor('the first request to wait', async () =>
      played.calls.some(({ workflowId, activity }) => workflowId === handle.workflowId && activity.includes('await')),
    );
    const { pod, node } = inputOf('restartContainers', uid) as Pick<RestartChanged['operation'], 'pod' | 'node'>;
    const operation = { request: { namespace: 'shop', name: 'restart-again', uid: 'again' }, pod, node };
    const change: RestartChanged = { operation, generation: 1 };
    await handle.signal(changedSignal, change);
    await handle.signal('skip', { by: 'ann', target: 'app', request: 'again' });
    const { runId: first } = await handle.describe();
    await handle.signal('abort', { by: 'ann' });

    const current = played.client.workflow.getHandle(handle.workflowId);
    await waitFor('the next run', async () => (await current.describe()).runId !== first);
    const run = played.client.workflow.getHandle(handle.workflowId, first);
    expect((await run.describe()).status.name).toBe('FAILED');
    const { runId, memo, searchAttributes: shown } = await current.describe();
    expect(memo).toMatchObject({ kind: 'ContainerRecreateRequest', namespace: 'shop', name: 'restart-again' });
    expect(shown[searchAttributes.name]).toEqual(['restart-again']);
    const { events } = await played.client.workflow.getHandle(handle.workflowId, runId).fetchHistory();
    const started = events?.[0]?.workflowExecutionStartedEventAttributes;
    expect(started?.continuedExecutionRunId ?? '').toBe('');
    // a command for the next request comes with its run
    expect(started?.input?.payloads?.map(({ data }) => String(data)).join()).toContain('"name":"skip"');
    await current.terminate();
  });

  it('a run without a next request starts none', async () => {
    const handle = await played.begin('restartContainers', 'fails-alone');
    expect(await endOf(handle)).toMatchObject({ status: 'FAILED' });
    expect(
      played.calls.some(({ workflowId, activity }) => workflowId === handle.workflowId && activity === 'startNextRun'),
    ).toBe(false);
  });
});
