import type { ObjectRef } from '../core/refs.ts';

/** Steers the pull of one image on many nodes, which the watcher carries out. */
export const pullOnNodesType = 'pullOnNodes';

export function pullOnNodesId(jobUid: string): string {
  return `pull-on-nodes/${jobUid}`;
}

/** What a run of `pullOnNodes` is started with: an ImagePullJob. */
export interface PullJobOperation {
  readonly job: ObjectRef;
}
