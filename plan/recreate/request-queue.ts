/** The order in which the requests of one pod are carried out (CRR-30…32). */
import { type ContainerRecreateRequest, isCompleted } from '../../api/container-recreate-request/types.ts';

/** The unfinished requests of one pod. */
export interface RequestQueue {
  /** The request in turn. */
  readonly first?: ContainerRecreateRequest;
  /** The others, in order. */
  readonly behind: readonly ContainerRecreateRequest[];
}

/**
 * Sorts the unfinished requests: those that have begun first, then those that are not paused, then the oldest, and of
 * two from the same second the one whose UID sorts first, so that the order is always the same. A request that was
 * paused in the queue lets others go first; when it is the only one left, its operation begins, and waits. The phase
 * Pending makes no difference: only requests behind another one have it, and the first one has no phase until its node
 * has answered.
 */
export function requestQueue(requests: readonly ContainerRecreateRequest[]): RequestQueue {
  const open = requests.filter((request) => !isCompleted(request) && request.metadata.deletionTimestamp === undefined);
  const [first, ...behind] = open.toSorted(
    (a, b) =>
      Number(hasBegun(b)) - Number(hasBegun(a)) ||
      Number(isPaused(a)) - Number(isPaused(b)) ||
      compare(a.metadata.creationTimestamp, b.metadata.creationTimestamp) ||
      compare(a.metadata.uid, b.metadata.uid),
  );
  return { ...(first ? { first } : {}), behind };
}

/** Whether this request is paused, according to its status. */
export function isPaused({ status }: ContainerRecreateRequest): boolean {
  return status?.waitingFor?.reason === 'Paused';
}

function hasBegun({ status }: ContainerRecreateRequest): boolean {
  return status?.phase === 'Recreating';
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
