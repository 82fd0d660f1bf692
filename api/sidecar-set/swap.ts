// The hot upgrade of sidecars in one pod: the new image starts in the idle container, and takes over from the old one, which
// becomes idle in its place.
//
//   images, versions and working container of the pod      the leading watcher, for the operation
//   annotations windlass.io/swap-… of SidecarSets           the user
//   annotation windlass.io/sidecar-image-starts of the pod  the leading watcher, in the same writes

import { isJsonObject } from '../base/json.ts';
import { type PodRef, qualifiedName } from '../core/refs.ts';
import { longestOperationId, type OperationTarget, operationId } from '../engine/operation-id.ts';
import type { OperationStart } from '../engine/operation-start.ts';
import { queues } from '../engine/operations.ts';

/** Annotations of SidecarSets that users write. Both are Windlass's own. */
export const swapAnnotation = {
  /** A duration as Go writes it. A swap whose new container is not ready after it is undone. Absent: it waits. */
  deadline: 'windlass.io/swap-deadline',
  /** `true`: a swap begins also if the kubelet will make one of its containers wait before it starts. */
  despiteBackOff: 'windlass.io/swap-despite-back-off',
} as const;

/** On pods, JSON by container and image: when a restarted container last began to run an image that was replaced since. */
export const imageStartsAnnotation = 'windlass.io/sidecar-image-starts';

/** Swaps the sidecars of one pod. Because of its ID, only one SidecarSet at a time swaps in a pod. */
export const swapSidecarType = 'swapSidecar';

export function swapSidecarId(pod: OperationTarget): string {
  return operationId(swapSidecarType, pod);
}

/** A SidecarSet. */
export interface SetRef {
  readonly name: string;
  readonly uid: string;
}

/** The input of `swapSidecar`: the hot-upgrade sidecars that one pod has of one SidecarSet. */
export interface SwapOperation {
  readonly pod: PodRef;
  readonly set: SetRef;
  /** The workflow ID of the operation that has caused it. Absent: no operation has. */
  readonly cause?: string;
}

/** Whether two operations on the same pod are the same. */
export function isSameSwap(left: SwapOperation, right: SwapOperation): boolean {
  return left.set.uid === right.set.uid;
}

/** The run of this operation, in lists under the name of the pod. */
export function swapStart(operation: SwapOperation): OperationStart {
  const { pod, set, cause } = operation;
  return {
    workflowId: swapSidecarId(pod),
    workflowType: swapSidecarType,
    taskQueue: queues.cluster,
    argument: operation,
    summary: `swap sidecars of pod ${qualifiedName(pod)} for SidecarSet ${set.name}`,
    about: { kind: 'Pod', namespace: pod.namespace, name: pod.name, node: '', cause },
  };
}

/** The payload of the signal `changed` of `swapSidecar`. */
export interface SwapChanged {
  /** The operation in progress, or the next one on the same pod. */
  readonly operation: SwapOperation;
}

/** Parses the signal `changed`. Only the watcher's payloads name an operation; anything else is a request to look again. */
export function parseSwapChanged(payload: unknown): Partial<SwapChanged> {
  if (!isJsonObject(payload) || !isJsonObject(payload.operation)) return {};
  const { pod, set, cause } = payload.operation;
  if (!isJsonObject(pod) || !isJsonObject(set)) return {};
  const { namespace, name, uid } = pod;
  const parts = { namespace, name, uid, set: set.name, setUid: set.uid };
  if (!areTexts(parts)) return {};
  return {
    operation: {
      pod: { namespace: parts.namespace, name: parts.name, uid: parts.uid },
      set: { name: parts.set, uid: parts.setUid },
      ...(typeof cause === 'string' && cause !== '' && { cause: cause.slice(0, longestOperationId) }),
    },
  };
}

function areTexts<Key extends string>(parts: Readonly<Record<Key, unknown>>): parts is Readonly<Record<Key, string>> {
  return Object.values(parts).every((part) => typeof part === 'string');
}

/** Reasons of the waits of a swap, with what a person can do. */
export const swapWaits = {
  Paused: 'Unpause the SidecarSet: a swap in progress keeps both versions running until then',
  PausedByOperator: 'Signal resume, or abort',
  NotPermitted: 'The roll-out of the SidecarSet permits it when maxUnavailable and its order allow it',
  KubeletBackOff:
    'The kubelet would make a container wait that returns to an image it ran within ten minutes: signal skip, or set the annotation windlass.io/swap-despite-back-off of the SidecarSet to true, to begin at once',
  ContainerNotReported:
    'Nothing to do if the image was changed just now; otherwise look at the Events of the pod: the kubelet reports the new image after postStart has returned',
  ContainerNotReady:
    'Nothing to do if the container has just started; otherwise fix it, publish another image, or signal abort to return to the old one',
  PodNotReady:
    'Nothing to do if these containers are starting; otherwise look at them: the old version keeps running until every other container of the pod is ready',
  WorkingIsEmpty:
    'The pod names idle containers as the working ones: publish another image, signal abort, or delete the pod',
  IdleNotReported:
    'Nothing to do if the image was changed just now; otherwise look at the Events of the pod: the kubelet has not reported the empty image yet',
  Denied: 'Grant the missing permission: it is retried automatically, or at once after the signal retry',
  Parked: 'Fix the rejected object or what rejects it: it is retried automatically, or at once after the signal retry',
} as const;
export type SwapWaitReason = keyof typeof swapWaits;
