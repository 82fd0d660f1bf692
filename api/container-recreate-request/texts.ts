// The reasons and messages of requests.

import { type Condition, endCondition, endIn } from '../core/conditions.ts';
import type { EventText } from '../core/event.ts';
import { type WaitFacts, waitOf } from '../core/wait-of.ts';
import { endedBefore } from '../engine/operations.ts';

/** The conditions of a request; `Complete` and `Failed` exclude each other. */
export const recreateCondition = { ...endCondition, preRecreateGrace: 'PreRecreateGrace' } as const;

/**
 * Reasons of `Complete`: every container was restarted, or failed to under `failurePolicy: Ignore`; where sidecars are
 * terminated, stopped.
 */
export type CompleteReason = 'ContainersRecreated' | 'ContainersStopped';

/** Reasons of `Failed`. */
export type FailedReason =
  | 'PodGone'
  | 'NodeSilent'
  | 'DeadlineExceeded'
  | 'StopFailed'
  | 'RuntimeNotFound'
  | 'InvalidRequest'
  | 'Aborted';

/** Reasons of `status.waitingFor`, with what a person can do. */
export const recreateWaits = {
  Queued: 'Wait for the request ahead in the queue, or delete it',
  EngineSilent: 'Bring Temporal back; the request then continues automatically',
  EngineNoWorkers: 'Bring the cluster workers back; the request then continues automatically',
  EngineNoFleetWorker:
    'Bring the leading watcher and Temporal together again; the request then continues automatically',
  EngineNoDaemon: 'Bring the daemon of the node back; the request then continues automatically',
  EngineStuck: 'Terminate its workflow; the request then continues automatically from its status',
  NodeSilent: 'Bring the node and its daemon back, or delete the request',
  Draining: 'Nothing to do: the pod is unready for unreadyGracePeriodSeconds before the first stop',
  Stopping: 'Nothing to do: preStop and the grace period run',
  ContainerNotFound: 'Nothing to do if the kubelet is about to start it; otherwise look at the events of the pod',
  ContainerNotReady:
    'Nothing to do if the new container has just started; otherwise look at its logs and its readiness probe',
  MinStartedSeconds: 'Nothing to do: the new container must run for longer than minStartedSeconds',
  Paused: 'Signal resume, or abort',
  PodFinished: 'Delete the request: the pod has ended, or its restart policy does not let this container start again',
  RuntimeUnreachable: 'Bring the container runtime of the node back; the request then continues automatically',
  Denied:
    'Grant the missing permission or quota: it is retried automatically, or at once after the signal retry; or signal skip or abort',
  Parked:
    'Fix the rejected object or what rejects it: it is retried automatically, or at once after the signal retry; or signal skip or abort',
} as const;
export type RecreateWaitReason = keyof typeof recreateWaits;

/** A wait of a request, with the remedy for its reason. */
export function recreateWait(reason: RecreateWaitReason, facts: WaitFacts) {
  return waitOf(recreateWaits, reason, facts);
}

/** Texts of `status.message` and of container states, verbatim OpenKruise's, because scripts compare them. */
export const recreateMessage = {
  podGone: 'pod has gone',
  nodeSilent: 'daemon has not responded for a long time',
  deadlineExceeded: 'recreating has exceeded the activeDeadlineSeconds',
  runtimeNotFound: (error: string) => `failed to find runtime service: ${error}`,
  /** `by` as given by the operator, or the identity of the signal's sender. */
  aborted: (by: string) => `aborted by ${by}`,
  notFoundOnNode: 'not found container on Node',
  killFailed: (error: string) => `kill container error: ${error}`,
  preRecreateGrace: 'Pod has been forced to not-ready for unreadyGracePeriodSeconds drain',
} as const;

/** The condition that records the start of the drain; it is set once and stays (CRR-22). */
export function preRecreateGrace(startedAt: string): Condition {
  return {
    type: recreateCondition.preRecreateGrace,
    status: 'True',
    reason: 'PreRecreateGrace',
    message: recreateMessage.preRecreateGrace,
    lastTransitionTime: startedAt,
  };
}

/** The daemon's Event on the pod before preStop and stop, from component `kruise-daemon-crr`. */
export function killingEvent(container: string, request: string): EventText {
  return {
    type: 'Normal',
    reason: 'Killing',
    message: `Stopping container ${container} by ContainerRecreateRequest ${request}`,
  };
}

/** The daemon's Event on the pod when preStop failed; it names the container, because an ID is of no use to people. */
export function failedPreStopEvent(container: string, containerId: string, error: string): EventText {
  return {
    type: 'Warning',
    reason: 'FailedPreStopHook',
    message: containerId === '' ? error : error.replaceAll(containerId, container),
  };
}

/** Why a command about a request that has ended is refused. */
export function endedRequest({ status }: { readonly status?: { readonly conditions?: readonly Condition[] } }): string {
  return endedBefore('request', {
    end: endIn(status?.conditions),
    instead: 'create another request to recreate containers again',
  });
}
