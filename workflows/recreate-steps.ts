/** The steps that recreate the containers of a request: one or two activities for each action of the plan. */

import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow';
import type { RequestLook } from '../activities/kube/requests.ts';
import { whenPassed } from '../api/base/time.ts';
import type { RestartOperation } from '../api/container-recreate-request/operation.ts';
import type { NodeRef } from '../api/core/refs.ts';
import type { RecreateEvent, RecreateStep } from '../plan/recreate/events.ts';
import type { Progress } from '../plan/recreate/model.ts';
import type { Action } from '../plan/recreate/next.ts';
import { refusedPauseMs } from '../plan/refused-pause.ts';
import { kube, nodeSilenceMs, onNode, silenceSlice, untilItWorks } from './shared/activities.ts';
import type { Inbox } from './shared/inbox.ts';
import type { Operator } from './shared/operator.ts';
import { reasonOf } from './shared/refusals.ts';
import { after, longestMs } from './shared/timers.ts';

export type OpenRequest = Extract<RequestLook, { kind: 'open' }>;

/** An event for the operation of a pod. `changed`: something has changed, so it looks again. */
export type RestartEvent = RecreateEvent | { readonly kind: 'changed' };

/** A request that this run carries out. */
export interface Recreation {
  readonly operation: RestartOperation;
  readonly request: OpenRequest;
  readonly inbox: Inbox<RestartEvent>;
  readonly operator: Operator;
  /** The node as last read. */
  node: NodeRef;
  progress: Progress;
}

/** The steps of one request. The result of each is put into the inbox as an event. */
export interface RecreateSteps {
  /** Starts an action of the plan. */
  readonly begin: (action: Action) => void;
  /** Looks at the request, its pod and its node again. */
  readonly lookAgain: () => Promise<void>;
  /** Cancels the waits for new instances: their results are no longer needed. */
  readonly endWaits: () => void;
}

type ActionOf<Kind extends Action['kind']> = Extract<Action, { kind: Kind }>;

/** A step, and its container. */
interface StepRef {
  readonly during: RecreateStep;
  readonly container?: string;
}

/** `lookAgain`: resolves after a look at the request that began after the call. */
export function newSteps(recreation: Recreation, lookAgain: () => Promise<void>): RecreateSteps {
  const { inbox } = recreation;
  const waits = new CancellationScope();
  let refusals = 0;
  let silentMs = 0;

  return {
    begin: (action) => {
      if (action.kind === 'await') void waits.run(() => attempt(action));
      else void attempt(action);
    },
    lookAgain,
    endWaits: () => waits.cancel(),
  };

  async function attempt(action: Action): Promise<void> {
    const startedAtMs = Date.now();
    try {
      inbox.put(await carryOut(action, recreation, lookAgain));
      refusals = 0;
    } catch (error) {
      if (isCancellation(error)) return;
      await putFailure(error, stepOf(action), startedAtMs);
    }
  }

  async function putFailure(error: unknown, step: StepRef, startedAtMs: number): Promise<void> {
    const why = reasonOf(error);
    switch (why.kind) {
      case 'nodeSilent': {
        const tookMs = Date.now() - startedAtMs;
        await lookAgain();
        inbox.put({ kind: isSilent(step, tookMs) ? 'nodeSilent' : 'interrupted', ...step });
        break;
      }
      case 'refused':
        inbox.put({ kind: 'refused', ...step, reason: why.reason, message: why.message });
        after(refusedPauseMs(why.reason, refusals++), 'retry after a refusal', () => inbox.put({ kind: 'tryAgain' }));
        break;
      case 'away':
        if (step.during === 'look') inbox.put({ kind: 'runtimeAway', message: why.message });
        else inbox.put({ kind: 'interrupted', ...step });
        break;
      case 'superseded':
        await lookAgain();
        inbox.put({ kind: 'interrupted', ...step });
        break;
    }
  }

  /** CRR-12: the silence before a first answer is the sum of the slices that ended on time. */
  function isSilent({ during }: StepRef, tookMs: number): boolean {
    if (during !== 'look' || recreation.progress.phase === 'Recreating') return true;
    if (tookMs <= silenceSlice.ms + silenceSlice.lateMs) silentMs += silenceSlice.ms;
    return silentMs >= nodeSilenceMs;
  }
}

function stepOf(action: Action): StepRef {
  switch (action.kind) {
    case 'look':
    case 'drain':
      return { during: action.kind };
    case 'recordTarget':
      return { during: 'record', container: action.container };
    case 'stop':
    case 'await':
      return { during: action.kind, container: action.container };
  }
}

function carryOut(action: Action, recreation: Recreation, lookAgain: () => Promise<void>): Promise<RecreateEvent> {
  switch (action.kind) {
    case 'look':
      return lookAtContainers(action, recreation);
    case 'drain':
      return drainPod(action, recreation);
    case 'recordTarget':
      return recordTarget(action, recreation);
    case 'stop':
      return stopContainer(action, recreation);
    case 'await':
      return awaitContainer(action, recreation, lookAgain);
  }
}

async function lookAtContainers({ containers }: ActionOf<'look'>, recreation: Recreation): Promise<RecreateEvent> {
  const { operation, progress } = recreation;
  // stops after some attempts to report the reason, and then continues
  const maximumAttempts = progress.runtimeAway === undefined ? 4 : 20;
  const seen = await onNode(recreation.node.uid)['node.v1.lookAtContainers'].executeWithOptions(
    {
      summary: `look at ${operation.pod.name}`,
      scheduleToStartTimeout: progress.phase === 'Recreating' ? nodeSilenceMs : silenceSlice.ms,
      startToCloseTimeout: '30s',
      retry: { ...untilItWorks, maximumAttempts },
    },
    [{ ...targetOf(recreation), containers }],
  );
  return seen.kind === 'noRuntime' ? seen : { kind: 'looked', containers, instances: seen.instances };
}

async function drainPod({ graceSeconds }: ActionOf<'drain'>, { operation }: Recreation): Promise<RecreateEvent> {
  const summary = `take ${operation.pod.name} out of service`;
  const { since, isHeld } = await kube.takeOutOfService.executeWithOptions({ summary }, [operation]);
  if (isHeld) {
    // other components see the pod as unready before anything stops, however short the grace period
    const seen = `see ${operation.pod.name} drained`;
    await kube.awaitDrained.executeWithOptions({ summary: seen }, [operation.pod]);
  }
  const leftMs = whenPassed(since, graceSeconds) - Date.now();
  if (leftMs > 0) await sleep(Math.min(leftMs, longestMs), { summary: 'unreadyGracePeriodSeconds' });
  return { kind: 'drained' };
}

async function recordTarget(action: ActionOf<'recordTarget'>, { operation }: Recreation): Promise<RecreateEvent> {
  const { container, containerId } = action;
  const summary = `choose ${container}@${operation.pod.name}`;
  const recorded = await kube.recordTarget.executeWithOptions({ summary }, [
    { request: operation.request, container, containerId },
  ]);
  return { kind: 'targetRecorded', container, containerId: recorded.containerId };
}

async function stopContainer(action: ActionOf<'stop'>, recreation: Recreation): Promise<RecreateEvent> {
  const { kind: _, ...stop } = action;
  const result = await onNode(recreation.node.uid)['node.v1.stopContainer'].executeWithOptions(
    { summary: `restart ${action.container}@${recreation.operation.pod.name}` },
    [{ ...targetOf(recreation), ...stop }],
  );
  return { kind: 'stopEnded', container: action.container, result };
}

async function awaitContainer(
  action: ActionOf<'await'>,
  recreation: Recreation,
  lookAgain: () => Promise<void>,
): Promise<RecreateEvent> {
  const { kind: _, ...wait } = action;
  const result = await onNode(recreation.node.uid)['node.v1.awaitContainer'].executeWithOptions(
    { summary: `wait for ${action.container}@${recreation.operation.pod.name}` },
    [{ ...targetOf(recreation), ...wait }],
  );
  if (result.kind === 'podGone') await lookAgain();
  return { kind: 'awaitEnded', container: action.container, result };
}

function targetOf({ operation, request }: Recreation) {
  return { request: operation.request, pod: operation.pod, runtime: request.runtime };
}
