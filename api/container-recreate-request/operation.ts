import { isJsonObject } from '../base/json.ts';
import { type NodeRef, type ObjectRef, type PodRef, qualifiedName } from '../core/refs.ts';
import { longestOperationId, type OperationTarget, operationId } from '../engine/operation-id.ts';
import type { OperationStart } from '../engine/operation-start.ts';
import { queues } from '../engine/operations.ts';
import { crr } from './types.ts';

/** Restarts containers of one pod. Because of its workflow ID, it is the only way to stop any container of that pod. */
export const restartContainersType = 'restartContainers';

export function restartContainersId(pod: OperationTarget): string {
  return operationId(restartContainersType, pod);
}

/** What all work on one pod has in common. */
interface WorkOnPod {
  readonly pod: PodRef;
  /** The node as last seen by the watcher; the operation reads it again. */
  readonly node: NodeRef;
  /** The workflow ID of the operation that has caused the work. Absent: no operation has. */
  readonly cause?: string;
}

/** The input of `restartContainers`. */
export interface RestartOperation extends WorkOnPod {
  readonly request: ObjectRef;
}

/**
 * The other task of `restartContainers`: to stop the containers of a pod whose environment is older than its labels and
 * annotations. The containers are derived from the pod. There is no request for it: it is part of an in-place update.
 */
export interface RefreshOperation extends WorkOnPod {
  readonly refresh: 'environment';
}

/** The reasons for which containers of one pod are stopped. */
export type RestartWork = RestartOperation | RefreshOperation;

/** Whether two pieces of work on the same pod are the same: the same request, or both the environment. */
export function isSameWork(left: RestartWork, right: RestartWork): boolean {
  if ('refresh' in left || 'refresh' in right) return 'refresh' in left && 'refresh' in right;
  return left.request.uid === right.request.uid;
}

/** The run that does this work, in lists under the name of the request, or of the pod where there is no request. */
export function restartStart(work: RestartWork): OperationStart {
  const { pod, node, cause } = work;
  const { namespace, name } = 'request' in work ? work.request : pod;
  return {
    workflowId: restartContainersId(pod),
    workflowType: restartContainersType,
    taskQueue: queues.cluster,
    argument: work,
    summary: `${'request' in work ? 'restart containers' : 'refresh the environment'} of pod ${qualifiedName(pod)}`,
    about: { kind: 'request' in work ? crr.kind : 'Pod', namespace, name, node: node.name, cause },
  };
}

/** The payload of the signal `changed` of `restartContainers`. */
export interface RestartChanged {
  /** The work to do: the current one, or the next one on the same pod. */
  readonly operation: RestartWork;
  /** Incremented by every change that an operation has to look at. */
  readonly generation: number;
  /** The request was deleted: nothing further is stopped for it, and it is not started. */
  readonly withdrawn?: boolean;
}

/**
 * Parses the signal `changed`. Only the watcher's payloads name an operation; anything else is a request to look again.
 */
export function parseRestartChanged(payload: unknown): Partial<RestartChanged> {
  if (!isJsonObject(payload) || !isJsonObject(payload.operation)) return {};
  const { request, refresh, pod, node, cause } = payload.operation;
  if (!isRef(pod) || !isJsonObject(node)) return {};
  if (typeof node.name !== 'string' || typeof node.uid !== 'string') return {};
  const target = {
    pod: refOf(pod),
    node: { name: node.name, uid: node.uid },
    ...(typeof cause === 'string' && cause !== '' && { cause: cause.slice(0, longestOperationId) }),
  };
  if (!isRef(request) && refresh !== 'environment') return {};
  return {
    operation: isRef(request) ? { request: refOf(request), ...target } : { refresh: 'environment', ...target },
    generation: typeof payload.generation === 'number' ? payload.generation : 0,
    withdrawn: payload.withdrawn === true,
  };
}

function isRef(value: unknown): value is ObjectRef {
  if (!isJsonObject(value)) return false;
  return [value.namespace, value.name, value.uid].every((part) => typeof part === 'string');
}

function refOf({ namespace, name, uid }: ObjectRef): ObjectRef {
  return { namespace, name, uid };
}
