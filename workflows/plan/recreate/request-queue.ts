/** In which order the requests of one pod are worked on (CRR-30…32). */
import { type ContainerRecreateRequest, isCompleted } from '../../../api/container-recreate-request/types.ts';

/** The unfinished requests of one pod. */
export interface RequestQueue {
  /** The one to work on. */
  readonly first?: ContainerRecreateRequest;
  /** Those behind it, in the order of their turn. */
  readonly behind: readonly ContainerRecreateRequest[];
}

/**
 * Sorts what is unfinished: what has begun, then what nobody has paused, then the oldest first, and of two of the same
 * second the one whose UID sorts first, so that everybody who asks agrees. One that was paused in the queue lets others go
 * first; when it is the only one left, its operation begins, and waits. That the others are Pending already makes no difference: only those behind
 * another ever are, and the one in front stays without a phase until its node has answered.
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

/** Whether somebody has paused this request, as its status says. */
export function isPaused({ status }: ContainerRecreateRequest): boolean {
  return status?.waitingFor?.reason === 'Paused';
}

function hasBegun({ status }: ContainerRecreateRequest): boolean {
  return status?.phase === 'Recreating';
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
