import type { ObjectRef } from '../core/refs.ts';

/** Receives the commands about one image pull on many nodes, which the watcher carries out. */
export const pullOnNodesType = 'pullOnNodes';

export function pullOnNodesId(jobUid: string): string {
  return `pull-on-nodes/${jobUid}`;
}

/** The input of `pullOnNodes`: an ImagePullJob. */
export interface PullJobOperation {
  readonly job: ObjectRef;
}
