import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { ApplyCommandInput } from '../../activities/fleet/commands.ts';
import { changedSignal } from '../../api/engine/operations.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { TerminationStatus } from '../../api/job-sidecar-termination.ts';
import { workflowBundle } from '../../workers/workflow-bundle.ts';
import { closedAs } from '../support/closed.ts';
import { newGate } from '../support/gate.ts';
import {
  idOf,
  type OperationType,
  type PlayedOperations,
  startPlayedOperations,
  uneventful,
} from '../support/played-operations.ts';
import { waitFor } from '../support/wait.ts';

/** A history counts as full so early that a few commands are enough. */
const fullEvents = 30;

let played: PlayedOperations;

/** By request: opened when its stop may end. */
const stops = new Map<string, ReturnType<typeof newGate>>();
/** The status that operations have reported, by the ID of the workflow. */
const pullWaits = new Map<string, WaitingFor | undefined>();
const sidecars = new Map<string, TerminationStatus>();
/** Operations whose pulls fail. */
const failing = new Set<string>();
/** Operations whose looks fail, like without the API server. */
const unseen = new Set<string>();

const waiting = { reason: 'ContainerNotStarted', blockedBy: [], blockedCount: 0, unblock: '' };

beforeAll(async () => {
  played = await startPlayedOperations({
    settings: [`limit.historyCount.suggestContinueAsNew=${fullEvents}`],
    answers: {
      'node.v1.stopContainer': async ({ input }) => {
        await stops.get(input.request.uid)?.opened;
        return { kind: 'stopped' };
      },
      lookAtNodeImage: async (call) => {
        if (unseen.has(call.workflowId)) throw ApplicationFailure.retryable('the API server is away', 'Unreachable');
        const look = await uneventful.lookAtNodeImage(call);
        const waitingFor = pullWaits.get(call.workflowId);
        return { ...look, ...(waitingFor && { waitingFor }) };
      },
      'node.v1.pullImage': ({ workflowId }) =>
        failing.has(workflowId)
          ? { kind: 'failed', failure: 'registryUnreachable', final: false, message: 'the registry is away' }
          : { kind: 'succeeded', imageId: 'nginx@sha256:1', pulled: true },
      reportPulls: ({ input, workflowId }) => void pullWaits.set(workflowId, input.waitingFor),
      'fleet.v1.next': async (call) =>
        call.workflowId.includes('misspelt')
          ? { kind: 'wait', waitingFor: { ...waiting, since: '2026-11-22T10:00:00Z' } }
          : await uneventful['fleet.v1.next'](call),
      lookAtSidecars: ({ workflowId }) => ({
        decision: {
          kind: 'wait',
          waitingFor: waiting,
        },
        status: sidecars.get(workflowId) ?? {},
      }),
      reportSidecars: ({ input, workflowId }) => void sidecars.set(workflowId, input.status),
    },
  });
});

afterAll(async () => {
  await played?.stop();
});

function callsOf(workflowId: string, activity: string): readonly unknown[] {
  return played.calls
    .filter((call) => call.workflowId === workflowId && call.activity === activity)
    .map(({ input }) => input);
}

/** Sends commands without effect until the operation has continued as new, and returns the ID of that run. */
async function fillHistory(handle: WorkflowHandle): Promise<string> {
  const { runId } = await handle.describe();
  return await waitFor('the next run', async (see) => {
    for (let nth = 0; nth < 4; nth++) await handle.signal('retry', { by: 'ann' });
    const now = see((await handle.describe()).runId);
    return now !== runId && now;
  });
}

describe('F6: a command reaches the request that it was meant for', () => {
  const about = (request: string, pod: string) => ({
    request: { namespace: 'shop', name: 'restart-web', uid: request },
    pod: { namespace: 'shop', name: 'web', uid: pod },
    node: { name: 'node-1', uid: 'node-uid' },
  });
  const conditions = (workflowId: string, request: string) =>
    callsOf(workflowId, 'reportRequest').flatMap((input) => {
      const { request: ref, delta } = input as {
        readonly request: { readonly uid: string };
        readonly delta: { readonly condition?: { readonly reason: string } };
      };
      return ref.uid === request && delta.condition ? [delta.condition.reason] : [];
    });

  it.concurrent('when the run of the request before has not ended yet, after its own end', async () => {
    const pod = 'pod-of-two';
    const workflowId = idOf('restartContainers', pod);
    const stop = newGate();
    stops.set(pod, stop);
    // the request that is begun first has the UID of its pod
    const handle = await played.begin('restartContainers', pod);
    await waitFor('the stop', () => callsOf(workflowId, 'node.v1.stopContainer').length === 1);
    await handle.signal('abort', { by: 'ann' });
    await waitFor('the end', () => conditions(workflowId, pod).length === 1);

    await handle.signal(changedSignal, { operation: about('second', pod), generation: 1 });
    await handle.signal('abort', { by: 'bob', request: 'second', id: '1' });
    await handle.signal('abort', { by: 'bob', request: 'second', id: '1' });
    stop.open();

    await waitFor('the second to end', () => conditions(workflowId, 'second').length === 1);
    expect(conditions(workflowId, pod)).toEqual(['Aborted']);
    expect(conditions(workflowId, 'second')).toEqual(['Aborted']);
    expect(callsOf(workflowId, 'node.v1.stopContainer')).toHaveLength(1);
    await waitFor('the Events', () => callsOf(workflowId, 'announceCommand').length > 1);
    const told = callsOf(workflowId, 'announceCommand');
    expect(told).toMatchObject([
      { request: { uid: pod }, by: 'ann' },
      { request: { uid: 'second' }, by: 'bob' },
    ]);
  });

  it.concurrent('and whoever sent it without a name is known there', async () => {
    const pod = 'pod-of-nameless';
    const workflowId = idOf('restartContainers', pod);
    const stop = newGate();
    stops.set(pod, stop);
    const handle = await played.begin('restartContainers', pod);
    await waitFor('the stop', () => callsOf(workflowId, 'node.v1.stopContainer').length === 1);
    await handle.signal(changedSignal, { operation: about('next', pod), generation: 1 });
    await handle.signal('abort', { request: 'next' });
    stop.open();
    await waitFor('the second to end', () => conditions(workflowId, 'next').length === 1);
    expect(conditions(workflowId, pod)).toEqual(['ContainersRecreated']);
    await waitFor('the Event', () => callsOf(workflowId, 'announceCommand').length > 0);
    expect(callsOf(workflowId, 'announceCommand')).toMatchObject([{ request: { uid: 'next' }, by: 'operator@test' }]);
  });
});

describe('F14: the senders of commands without a name', () => {
  it.concurrent('are told apart, though several commands come at once', async () => {
    const handle = await played.begin('pullImages', 'n4', { name: 'pause', payload: { by: 'ann' } });
    const senders = Array.from({ length: 5 }, (_, nth) => `person ${nth}`);
    for (const identity of senders) {
      await played.client.workflowService.signalWorkflowExecution({
        namespace: 'default',
        workflowExecution: { workflowId: handle.workflowId },
        signalName: 'retry',
        identity,
      });
    }
    const told = await waitFor('all to be told', (see) => {
      const by = callsOf(handle.workflowId, 'announceSteering').map((input) => (input as { readonly by: string }).by);
      return see(by).length > senders.length && by;
    });
    expect(told.toSorted((a, b) => a.localeCompare(b))).toEqual(['ann', ...senders]);
    await handle.signal('abort', { by: 'ann' });
    expect(await closedAs(handle)).toBe('FAILED');
  });
});

describe('F14: a skip without a target', () => {
  it.concurrent('that comes twice by a double click leaves out one container', async () => {
    const workflowId = idOf('terminateSidecars', 'clicked');
    const handle = await played.begin('terminateSidecars', 'clicked');
    await handle.signal('skip', { by: 'ann' });
    await handle.signal('skip', { by: 'ann' });
    await handle.signal('skip', { by: 'bob' });
    await handle.signal('abort', { by: 'ann' });
    expect(await closedAs(handle)).toBe('FAILED');
    const told = callsOf(workflowId, 'announceOnPod').filter((input) => JSON.stringify(input).includes('skip'));
    // each is reported by an activity of its own, in any order
    const lines = told.map((input) => input as { readonly by: string; readonly refused: string });
    expect(lines.map(({ by, refused }) => `${by}: ${refused}`).toSorted()).toEqual([
      'ann: a skip without a target by the same sender came within 5 s before it',
      'ann: it has no target, and no sidecar is waited for',
      'bob: it has no target, and no sidecar is waited for',
    ]);
  });
});

describe('a signal that cannot be obeyed', () => {
  const refusals = {
    restartContainers: 'announceCommand',
    refreshEnvironment: 'announceOnPod',
    pullImages: 'announceSteering',
    pullOnNodes: 'announceSteering',
    rollOut: 'announceRollOutCommand',
    terminateSidecars: 'announceOnPod',
    swapSidecar: 'announceOnPod',
  } as const satisfies Record<OperationType, string>;

  it.concurrent.each(Object.entries(refusals) as [OperationType, string][])(
    'is refused with an Event: %s',
    async (type, activity) => {
      const uid = `misspelt-${type}`;
      const handle = await played.begin(type, uid, { name: 'pause', payload: { by: 'ann' } });
      await handle.signal('pasue');
      await handle.signal('__temporal_any', { by: 'eve' });
      await handle.signal('abort', { by: 'bob', target: 'prxy' });
      const told = await waitFor('all to be told', (see) => {
        const refused = callsOf(handle.workflowId, activity).filter((input) =>
          JSON.stringify(input).includes('refused'),
        );
        return see(refused).length === 3 && refused;
      });
      const by = (name: string) => told.find((input) => (input as { readonly command: string }).command === name);
      const valid = `it must be one of pause, resume, retry, skip, abort${type === 'rollOut' ? ', undo' : ''}`;
      expect(by('pasue')).toMatchObject({ by: 'operator@test', refused: valid });
      expect(by('__temporal_any')).toMatchObject({ by: 'eve', refused: valid });
      expect(by('abort')).toMatchObject({ by: 'bob', refused: expect.stringContaining('abort takes no target here') });
      // a played pull job may have ended by then
      await handle.terminate('by hand').catch(unlessEnded);
    },
  );
});

function unlessEnded(error: unknown): void {
  if (!(error instanceof WorkflowNotFoundError)) throw error;
}

describe('a skip whose input is not understood', () => {
  it.concurrent.each([
    ['a misspelt key', { targte: 'ok' }],
    ['a text', 'ok'],
    ['a number as target', { target: 1 }],
  ])('skips nothing: %s', async (what, input) => {
    const uid = `misread-${what.replaceAll(' ', '-')}`;
    const handle = await played.begin('terminateSidecars', uid);
    await handle.signal('skip', input);
    const [told] = await waitFor('the refusal', (see) => {
      const all = see(callsOf(handle.workflowId, 'announceOnPod'));
      return all.length > 0 && all;
    });
    expect(told).toMatchObject({ command: 'skip', refused: expect.stringMatching(/^its input is not understood: /) });
    await handle.terminate('by hand');
  });
});

describe('F9: a look that fails for long', () => {
  it.concurrent('is retried and keeps no workflow task open, so that commands are received meanwhile', async () => {
    const uid = 'n-unseen';
    const workflowId = idOf('pullImages', uid);
    unseen.add(workflowId);
    const handle = await played.begin('pullImages', uid);
    await waitFor('a further attempt, and no workflow task', async (see) => {
      const { raw } = await handle.describe();
      const attempts = raw.pendingActivities?.map(({ activityType, attempt }) => [activityType?.name, attempt ?? 0]);
      const [[type, attempt] = ['', 0], isIdle] = see([attempts?.[0], !raw.pendingWorkflowTask]);
      return type === 'lookAtNodeImage' && Number(attempt) > 2 && isIdle;
    });
    await handle.signal('abort', { by: 'ann' });
    await waitFor('the command to be told', () => callsOf(workflowId, 'announceSteering').length === 1);
    expect(callsOf(workflowId, 'node.v1.pullImage')).toEqual([]);
    unseen.delete(workflowId);
    expect(await closedAs(handle)).toBe('FAILED');
  });
});

const pulls = (uid: string) => callsOf(idOf('pullImages', uid), 'node.v1.pullImage').length;

describe('F7: a pause of the pulls of a node', () => {
  async function paused(uid: string): Promise<WorkflowHandle> {
    const handle = await played.begin('pullImages', uid, { name: 'pause', payload: { by: 'ann' } });
    await saysPaused(uid);
    return handle;
  }

  async function saysPaused(uid: string): Promise<void> {
    await waitFor('the pause to be told', (see) => {
      const wait = see(pullWaits.get(idOf('pullImages', uid)));
      return wait?.reason === 'Paused' && wait.blockedBy.join() === 'operator/ann';
    });
  }

  it.concurrent('survives a full history, and so does an abort whose sender is being looked up', async () => {
    const handle = await paused('n1');
    await fillHistory(handle);
    await fillHistory(handle);
    await saysPaused('n1');
    expect(pulls('n1')).toBe(0);
    // every run is full soon, so some of these arrive when one is about to end
    for (let nth = 0; nth < 8; nth++) await handle.signal('retry', {});
    await handle.signal('abort', {});
    expect(await closedAs(handle)).toBe('FAILED');
    expect(pulls('n1')).toBe(0);
    expect(JSON.stringify(callsOf(idOf('pullImages', 'n1'), 'reportPulls'))).toContain('aborted by operator@test');
  });

  it.concurrent('survives terminate, as it would the loss of all that Temporal knows', async () => {
    const handle = await paused('n2');
    await handle.terminate('by hand');
    const again = await played.begin('pullImages', 'n2');
    await waitFor('the look', () => callsOf(idOf('pullImages', 'n2'), 'lookAtNodeImage').length === 2);
    await again.signal('retry', { by: 'ann' });
    await waitFor('the command to be told', () => callsOf(idOf('pullImages', 'n2'), 'announceSteering').length === 2);
    expect(pulls('n2')).toBe(0);
    await again.signal('resume', { by: 'ann' });
    await again.result();
    expect(pulls('n2')).toBe(1);
    expect(pullWaits.get(idOf('pullImages', 'n2'))).toBeUndefined();
  });

  it.concurrent('is not taken up again by a run that begins with resume', async () => {
    const handle = await paused('n3');
    await handle.terminate('by hand');
    const again = await played.begin('pullImages', 'n3', { name: 'resume', payload: { by: 'ann' } });
    await again.result();
    expect(pulls('n3')).toBe(1);
  });
});

describe('NP-7: a pull that fails again and again', () => {
  it.concurrent('is tried as often as it may be, whichever runs make the attempts', async () => {
    const uid = 'n-failing';
    failing.add(idOf('pullImages', uid));
    const handle = await played.begin('pullImages', uid);
    const first = await handle.describe();
    await waitFor('the second attempt', () => pulls(uid) === 2);
    // the third attempt is made by another run, after its pause
    await waitFor('the next run', async (see) => {
      await handle.signal('resume', { by: 'ann' });
      return see((await handle.describe()).runId) !== first.runId;
    });
    expect(await closedAs(handle)).toBe('COMPLETED');
    expect(pulls(uid)).toBe(4); // backoffLimit 3
  });
});

describe('F7: commands about the sidecars of a pod whose history is full', () => {
  it.concurrent('are all obeyed, whichever run they reach', async () => {
    const workflowId = idOf('terminateSidecars', 'p1');
    const handle = await played.begin('terminateSidecars', 'p1');
    await handle.signal('pause', { by: 'ann' });
    await fillHistory(handle);
    const names = Array.from({ length: 12 }, (_, nth) => `c${nth}`);
    for (const target of names) {
      await handle.signal('skip', { by: 'ann', target });
      await handle.signal('retry', {});
    }
    await waitFor('all to be left out', (see) => see(sidecars.get(workflowId)?.skipped ?? []).length === names.length);
    expect(sidecars.get(workflowId)).toMatchObject({ skipped: names });
    await waitFor('the pause', (see) => see(sidecars.get(workflowId)?.waitingFor)?.reason === 'Paused');
    await handle.signal('abort', {});
    expect(await closedAs(handle)).toBe('FAILED');
    expect(sidecars.get(workflowId)).toMatchObject({ abortedBy: 'operator@test' });
  });
});

describe('F7: a refresh of the environment whose history is full', () => {
  it.concurrent('keeps its pause', async () => {
    const workflowId = idOf('restartContainers', 'e1');
    const handle = await played.begin('refreshEnvironment', 'e1', { name: 'pause', payload: { by: 'ann' } });
    await fillHistory(handle);
    await waitFor('the pause', async (see) => see(await played.detailsOf(handle)).includes('paused by ann'));
    expect(callsOf(workflowId, 'node.v1.refreshContainer')).toEqual([]);
    await handle.signal('resume', { by: 'ann' });
    expect(await closedAs(handle)).toBe('COMPLETED');
    expect(callsOf(workflowId, 'node.v1.refreshContainer')).toHaveLength(1);
  });
});

describe('commands that come before the first task of a roll-out', () => {
  it('P-8: are given to the leading watcher in the order in which they came', async () => {
    const early = await startPlayedOperations({ hasClusterWorker: false, hasLogger: true });
    try {
      const handle = await early.begin('rollOut', 'early', { name: 'pause', payload: { by: '1' } });
      for (const [name, by] of [
        ['resume', '2'],
        ['pause', '3'],
      ] as const) {
        await handle.signal(name, { by });
      }
      const worker = await early.startClusterWorker({ workflowBundle: { codePath: await workflowBundle() } });
      const given = await waitFor('the commands', (see) => {
        const calls = early.calls.filter(({ activity }) => activity === 'fleet.v1.applyCommand');
        const all = see(calls.map(({ input }) => input as ApplyCommandInput));
        return all.length === 2 && all;
      });
      // the first one is taken back before it is written; of the others the pause is the later one, whichever gets there first
      const inOrder = given.toSorted((one, other) => (one.command.at < other.command.at ? -1 : 1));
      expect(inOrder.map(({ by }) => by)).toEqual(['2', '3']);
      expect(inOrder[0]?.command.at).not.toBe(inOrder[1]?.command.at);
      await worker.stop();
    } finally {
      await early.stop();
    }
  });
});
