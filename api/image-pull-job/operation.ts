import type { ObjectRef } from '../core/refs.ts';
import { type OperationTarget, operationId } from '../engine/operation-id.ts';

/** Receives the commands about one image pull on many nodes, which the watcher carries out. */
export const pullOnNodesType = 'pullOnNodes';

export function pullOnNodesId(job: OperationTarget): string {
  return operationId(pullOnNodesType, job);
}

/** The input of `pullOnNodes`: an ImagePullJob. */
export interface PullJobOperation {
  readonly job: ObjectRef;
}
