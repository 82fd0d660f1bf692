/** In which order the requests of one pod are worked on (CRR-30…32). */
import { type ContainerRecreateRequest, isCompleted } from '../../api/container-recreate-request.ts';

/** The unfinished requests of one pod. */
export interface RequestQueue {
  /** The one to work on. */
  readonly first?: ContainerRecreateRequest;
  /** Those behind it, in the order of their turn. */
  readonly behind: readonly ContainerRecreateRequest[];
}

const phaseOrder = ['Recreating', 'Pending', ''];

/**
 * Sorts what is unfinished: what has begun, then what waits already, then what is new; the oldest first, and of two of
 * the same second the one whose UID sorts first, so that everybody who asks agrees.
 */
export function requestQueue(requests: readonly ContainerRecreateRequest[]): RequestQueue {
  const open = requests.filter((request) => !isCompleted(request) && request.metadata.deletionTimestamp === undefined);
  const [first, ...behind] = open.toSorted(
    (a, b) =>
      rank(a) - rank(b) ||
      compare(a.metadata.creationTimestamp, b.metadata.creationTimestamp) ||
      compare(a.metadata.uid, b.metadata.uid),
  );
  return { ...(first ? { first } : {}), behind };
}

function rank({ status }: ContainerRecreateRequest): number {
  return phaseOrder.indexOf(status?.phase ?? '');
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
