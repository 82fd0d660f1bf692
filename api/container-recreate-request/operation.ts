import { isJsonObject } from '../base/json.ts';
import type { NodeRef, ObjectRef, PodRef } from '../core/refs.ts';

/** Restarts containers of one pod. The ID makes it the only path to a stop of any container of that pod. */
export const restartContainersType = 'restartContainers';

export function restartContainersId(podUid: string): string {
  return `restart-containers/${podUid}`;
}

/** What a run of `restartContainers` is started with. */
export interface RestartOperation {
  readonly request: ObjectRef;
  readonly pod: PodRef;
  /** The node as the watcher saw it last; the operation itself looks again. */
  readonly node: NodeRef;
}

/**
 * The other work of `restartContainers`: to stop the containers of a pod whose environment is older than its labels and
 * annotations. Which ones is read from the pod. Nobody has made a request for it: it is part of an update in place.
 */
export interface RefreshOperation {
  readonly refresh: 'environment';
  readonly pod: PodRef;
  /** The node as the watcher saw it last; the operation itself looks again. */
  readonly node: NodeRef;
}

/** All for which containers of one pod are stopped. */
export type RestartWork = RestartOperation | RefreshOperation;

/** Whether two pieces of work on the same pod are the same: the same request, or both its environment. */
export function isSameWork(left: RestartWork, right: RestartWork): boolean {
  if ('refresh' in left || 'refresh' in right) return 'refresh' in left && 'refresh' in right;
  return left.request.uid === right.request.uid;
}

/** What the `changed` signal of `restartContainers` carries. */
export interface RestartChanged {
  /** What should be worked on: this, or the next work on the same pod. */
  readonly operation: RestartWork;
  /** Grows with every change that an operation has to look at. */
  readonly generation: number;
  /** The request went away: whoever works on it stops nothing further, and nobody goes on to it. */
  readonly withdrawn?: boolean;
}

/** Reads the signal `changed`. Nothing but what the watcher sends names an operation; all else is a wish to look again. */
export function parseRestartChanged(payload: unknown): Partial<RestartChanged> {
  if (!isJsonObject(payload) || !isJsonObject(payload.operation)) return {};
  const { request, refresh, pod, node } = payload.operation;
  if (!isRef(pod) || !isJsonObject(node)) return {};
  if (typeof node.name !== 'string' || typeof node.uid !== 'string') return {};
  const target = { pod: refOf(pod), node: { name: node.name, uid: node.uid } };
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
