// Job sidecar termination: a pod that runs to completion is not kept alive by containers that never end by themselves.
// The feature has no object of its own. Variables of a container mark it as a sidecar; when all other containers have
// completed, the marked ones are terminated.
//
//   variables KRUISE_TERMINATE_SIDECAR_…                        the user
//   request sidecar-termination-<pod UID>, images of sidecars,
//   condition SidecarTerminated with the phase of the pod,
//   annotations windlass.io/sidecar-termination and windlass.io/sidecars-left-behind
//                                                               the workflow, by the cluster worker; in the first
//                                                               annotation those of the engine: the watcher
//   annotation windlass.io/command                              the user; the watcher removes it

import { isJsonList, isJsonObject } from './base/json.ts';
import type { ContainerRecreateRequest } from './container-recreate-request/types.ts';
import type { EventText } from './core/event.ts';
import type { OwnerReference } from './core/meta.ts';
import { type Container, type ContainerStatus, isFinished, type Pod, type PodCondition } from './core/pod.ts';
import type { PodRef } from './core/refs.ts';
import { sidecarTerminatedCondition } from './core/well-known.ts';
import { type OperationTarget, operationId } from './engine/operation-id.ts';
import type { WaitingFor } from './engine/waiting-for.ts';

/** Environment variables that users set on containers, and annotations that Windlass writes on the pod. */
export const terminationMark = {
  /** `true` in any letter case: the container is a sidecar, which is stopped. */
  env: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT',
  /**
   * An image that exits with 0 at once: the container is a sidecar, which on virtual nodes is terminated by changing
   * its image to this one.
   */
  imageEnv: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE',
  /**
   * `true` in any letter case, together with the first one: the exit code of the sidecar does not affect the phase of
   * the pod.
   */
  ignoreExitCodeEnv: 'KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE',
  /** On the pod, as JSON: what the termination of its sidecars waits for, and the commands of operators about it. */
  status: 'windlass.io/sidecar-termination',
  /** On the pod: when its phase was set. Makes the kubelet sync the pod. */
  finished: 'windlass.io/sidecars-left-behind',
} as const;

/** A container that is terminated when the others have completed. */
export interface Sidecar {
  readonly name: string;
  /** It is terminated by a stop. */
  readonly stops: boolean;
  readonly quickExitImage?: string;
  /** Only together with `stops`. */
  readonly ignoresExitCode: boolean;
}

/** The sidecar settings of a container; undefined for a main container. Only literal values count. */
export function sidecarOf({ name, env = [] }: Container): Sidecar | undefined {
  const literal = (key: string): string => env.find((variable) => variable.name === key)?.value ?? '';
  const isTrue = (key: string): boolean => literal(key).toLowerCase() === 'true';
  const stops = isTrue(terminationMark.env);
  const image = literal(terminationMark.imageEnv);
  if (!stops && image === '') return undefined;
  const ignoresExitCode = stops && isTrue(terminationMark.ignoreExitCodeEnv);
  return { name, stops, ...(image !== '' && { quickExitImage: image }), ignoresExitCode };
}

/** The sidecars of a pod in order. Init containers do not count. */
export function sidecarsOf({ spec }: Pod): readonly Sidecar[] {
  return spec.containers.flatMap((container) => sidecarOf(container) ?? []);
}

/** The commands of operators about the termination of one pod's sidecars, and what it waits for. */
export interface TerminationStatus {
  readonly waitingFor?: WaitingFor;
  /** Sidecars that are to be left running. */
  readonly skipped?: readonly string[];
  /** Who aborted the termination. Removing the annotation reverts it. */
  readonly abortedBy?: string;
}

/** Parses the annotation. Invalid parts are ignored. */
export function terminationStatusOf({ metadata }: Pick<Pod, 'metadata'>): TerminationStatus {
  const text = metadata.annotations?.[terminationMark.status];
  if (text === undefined) return {};
  try {
    const status: unknown = JSON.parse(text);
    if (!isJsonObject(status)) return {};
    const { waitingFor, skipped, abortedBy } = status;
    const isWait =
      isJsonObject(waitingFor) && typeof waitingFor.reason === 'string' && isJsonList(waitingFor.blockedBy);
    return {
      ...(isWait && { waitingFor: waitingFor as unknown as WaitingFor }),
      ...(isJsonList(skipped) && { skipped: skipped.filter((name) => typeof name === 'string') }),
      ...(typeof abortedBy === 'string' && { abortedBy }),
    };
  } catch {
    return {};
  }
}

export function statusOfContainer({ status }: Pod, name: string): ContainerStatus | undefined {
  return status?.containerStatuses?.find((entry) => entry.name === name);
}

/** JST-3: terminated and not restarted: with any exit code under restartPolicy Never, else with 0. */
function isMainDone(pod: Pod, name: string): boolean {
  const exitCode = statusOfContainer(pod, name)?.state?.terminated?.exitCode;
  return exitCode !== undefined && (pod.spec.restartPolicy === 'Never' || exitCode === 0);
}

/**
 * Whether the sidecars of this pod are to be terminated now (JST-1 to JST-6), according to the pod alone. A sidecar
 * that has failed under `OnFailure` counts as running: the kubelet is about to restart it (JST-24).
 */
export function isTerminationDue(pod: Pod): boolean {
  const { spec, status } = pod;
  if ((status?.phase ?? 'Pending') === 'Pending' || !hasSidecarsToEnd(pod)) return false;
  // JST-2
  if ((status?.containerStatuses?.length ?? 0) < spec.containers.length) return false;
  const mains = spec.containers.filter((container) => sidecarOf(container) === undefined);
  return mains.every(({ name }) => isMainDone(pod, name));
}

/** Whether the sidecars of this pod are not to be terminated yet, but will be when its main containers complete. */
export function isTerminationToCome(pod: Pod): boolean {
  return hasSidecarsToEnd(pod) && !isFinished(pod) && !isTerminationDue(pod);
}

/** Whether a pod runs to completion and has sidecars, so that these are terminated after its main containers. */
export function endsItsSidecars(pod: Pod): boolean {
  const { restartPolicy } = pod.spec;
  return (restartPolicy === 'Never' || restartPolicy === 'OnFailure') && sidecarsOf(pod).length > 0;
}

function hasSidecarsToEnd(pod: Pod): boolean {
  const { skipped = [], abortedBy } = terminationStatusOf(pod);
  if (pod.metadata.deletionTimestamp !== undefined || !endsItsSidecars(pod) || abortedBy !== undefined) return false;
  return sidecarsOf(pod).some(({ name }) => !skipped.includes(name) && !isEnded(pod, name));
}

/** Whether a sidecar has terminated for good. */
export function isEnded(pod: Pod, name: string): boolean {
  const exitCode = statusOfContainer(pod, name)?.state?.terminated?.exitCode;
  if (exitCode === undefined) return false;
  return exitCode === 0 || pod.spec.restartPolicy === 'Never' || isFinished(pod);
}

/** The name of the request that stops the sidecars of a pod. */
export function terminationRequestName(podUid: string): string {
  return `sidecar-termination-${podUid}`;
}

/** The UID in such a name; undefined for any other name. */
export function podUidOfTerminationRequest(name: string): string | undefined {
  const prefix = terminationRequestName('');
  return name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
}

/** Whether a request terminates sidecars: it has such a name, and belongs to the pod in that name. */
export function isTerminationRequest({ metadata }: Pick<ContainerRecreateRequest, 'metadata'>): boolean {
  const podUid = podUidOfTerminationRequest(metadata.name);
  return metadata.ownerReferences?.some(({ kind, uid }) => kind === 'Pod' && uid === podUid) ?? false;
}

/** That request, before admission fills it in (JST-12). The pod owns it, so it is deleted with the pod. */
export function terminationRequest(
  { namespace = '', name, uid }: { readonly namespace?: string; readonly name: string; readonly uid: string },
  containers: readonly string[],
) {
  const owner: OwnerReference = { apiVersion: 'v1', kind: 'Pod', name, uid, controller: true };
  return {
    metadata: { namespace, name: terminationRequestName(uid), ownerReferences: [owner] },
    spec: {
      podName: name,
      containers: containers.map((container) => ({ name: container })),
      strategy: { forceRecreate: true, failurePolicy: 'Ignore' },
    },
  } as const;
}

/** The phase of the pod when the exit codes of its sidecars are ignored (JST-20). */
export function phaseByMains(pod: Pod): 'Succeeded' | 'Failed' {
  const mains = pod.spec.containers.filter((container) => sidecarOf(container) === undefined);
  const isWell = mains.every(({ name }) => statusOfContainer(pod, name)?.state?.terminated?.exitCode === 0);
  return isWell ? 'Succeeded' : 'Failed';
}

/**
 * The condition of a pod whose phase was set by Windlass; with it admission accepts the request although the pod has
 * completed.
 */
export function sidecarTerminated(at: string): PodCondition {
  return {
    type: sidecarTerminatedCondition,
    status: 'True',
    message: 'Terminated by Sidecar Terminator',
    lastTransitionTime: at,
  };
}

/** The Event on the pod, verbatim OpenKruise's. */
export function terminatingEvent(containers: readonly string[], how: 'crr' | 'in-place update'): EventText {
  const names = containers.toSorted().join(' ');
  const message = `Kruise SidecarTerminator is trying to terminate sidecar [${names}] using ${how}`;
  return { type: 'Normal', reason: 'SidecarTerminator', message };
}

/** The Event on a pod without a main container (JST-5). */
export const noMainEvent: EventText = {
  type: 'Warning',
  reason: 'SidecarTerminator',
  message: 'Every container is marked as a sidecar, so all of them are terminated as soon as they run',
};

/** The Event on a pod whose node needs another variable on these containers; undefined for other waits. */
export function missingMarkEvent({ reason, blockedBy }: WaitingFor): EventText | undefined {
  const missing = { NoStopMark: terminationMark.env, NoQuickExitImage: terminationMark.imageEnv };
  if (reason !== 'NoStopMark' && reason !== 'NoQuickExitImage') return undefined;
  const names = blockedBy.map((blocker) => blocker.replace('container/', '')).join(' ');
  const node = reason === 'NoStopMark' ? 'a real' : 'a virtual';
  const message = `Sidecar [${names}] is not terminated on ${node} node: it lacks the environment variable ${missing[reason]}`;
  return { type: 'Warning', reason: 'SidecarTerminator', message };
}

/** Reasons of `waitingFor`, with what a person can do. */
export const terminationWaits = {
  EngineSilent: 'Bring Temporal back; the sidecars are then terminated automatically',
  EngineNoWorkers: 'Bring the cluster workers back; the sidecars are then terminated automatically',
  EngineNoFleetWorker:
    'Bring the leading watcher and Temporal together again; the sidecars are then terminated automatically',
  EngineNoDaemon: 'Bring the daemon of the node back; the sidecars are then terminated automatically',
  EngineStuck: 'Terminate its workflow; the next run then terminates the sidecars',
  Paused: 'Signal resume, or abort',
  NodeMissing: 'Bring the node back, or delete the pod',
  NoQuickExitImage: `Delete the pod, and create the next one with ${terminationMark.imageEnv}: a virtual node cannot stop a container`,
  NoStopMark: `Delete the pod, and create the next one with ${terminationMark.env}: on a real node only that stops a sidecar`,
  QuickExitPending:
    'Nothing to do if the images were changed just now; otherwise look at the events of the pod: its virtual node has yet to run the quick-exit image',
  ContainerNotStarted:
    'Nothing to do if the container is about to start; otherwise look at the events of the pod: a container cannot be stopped before it has started',
  Stopping: 'Nothing to do: the status of this request shows the progress',
  StopFailed: 'Nothing to do: it is retried automatically, or at once after the signal retry',
  RequestAborted: 'Signal retry to try again, or abort',
  Denied:
    'Grant the missing permission or quota: it is retried automatically, or at once after the signal retry; or signal abort',
  Parked:
    'Fix the rejected object or what rejects it: it is retried automatically, or at once after the signal retry; or signal abort',
} as const;
export type TerminationWaitReason = keyof typeof terminationWaits;

/**
 * Terminates the sidecars of one pod whose main containers have completed. Stops are made through `restartContainers`.
 */
export const terminateSidecarsType = 'terminateSidecars';

export function terminateSidecarsId(pod: OperationTarget): string {
  return operationId(terminateSidecarsType, pod);
}

/** The input of `terminateSidecars`. */
export interface SidecarOperation {
  readonly pod: PodRef;
}
