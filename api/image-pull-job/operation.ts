import type { ObjectRef } from '../core/refs.ts';

/** Receives the commands about one image pull on many nodes, which the watcher carries out. */
export const pullOnNodesType = 'pullOnNodes';

export function pullOnNodesId(jobUid: string): string {
  return `pull-on-nodes/${jobUid}`;
}

/** The input of `pullOnNodes`: an ImagePullJob. */
export interface PullJobOperation {
  readonly job: ObjectRef;
  /** What the watcher had chosen when it started the operation, which then need not ask for it. Absent: it asks. */
  readonly first?: FirstWave;
}

/** The first wave of a job: these of its `of` nodes, which are named here for the first time; `rest` are left. */
export interface FirstWave {
  readonly image: string;
  readonly nodes: readonly string[];
  readonly of: number;
  readonly ended: number;
  readonly rest: number;
}
