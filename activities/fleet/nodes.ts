import type { ObjectRef } from '../../api/core/refs.ts';
import { imagePullJobs } from '../../api/image-pull-job/types.ts';
import type { NextNodes, Wave, WaveOutcome, WaveQuestion } from '../../plan/images/pull-waves.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';

import { type FleetDependencies, whileItCounts } from './permit-holder.ts';

export interface TellNodesInput extends WaveQuestion {
  readonly job: ObjectRef;
}

export interface AwaitNodesInput extends Wave {
  readonly job: ObjectRef;
}

/** The controller of ImagePullJobs, as far as it is needed here; none while this watcher does not lead. */
export interface NodeHolder {
  ask(uid: string, question: WaveQuestion, life: PermitLife): Promise<NextNodes>;
  await(uid: string, wave: Wave, life: PermitLife): Promise<WaveOutcome>;
  /** What people see of a wave, or of the question which nodes go next. */
  progressOf(uid: string, wave?: number): unknown;
}

/** Where these activities find the controller. */
export type NodeDependencies = FleetDependencies<NodeHolder>;

/**
 * Asks which nodes of a job pull next, and waits, heartbeating, while none may. Meanwhile the watcher may tell as many of
 * them as parallelism allows; these come first in the wave that it answers.
 */
export function tellNodesActivity(dependencies: NodeDependencies): (input: TellNodesInput) => Promise<NextNodes> {
  return async ({ job, wave, after }) => {
    const of = { kind: imagePullJobs.kind, target: job, doing: 'choose the next nodes of' };
    return await whileItCounts(dependencies, of, (holder, life) => holder.ask(job.uid, { wave, after }, life), {
      progress: (holder) => holder.progressOf(job.uid),
    });
  };
}

/**
 * Permits the watcher to tell these nodes, as far as parallelism allows, and waits, heartbeating, until each has ended. The
 * permit ends with the attempt; another one hands it in anew and finds what has been done by then.
 */
export function awaitNodesActivity(dependencies: NodeDependencies): (input: AwaitNodesInput) => Promise<WaveOutcome> {
  return async ({ job, wave, nodes }) => {
    const of = { kind: imagePullJobs.kind, target: job, doing: `await wave ${wave} of` };
    return await whileItCounts(dependencies, of, (holder, life) => holder.await(job.uid, { wave, nodes }, life), {
      progress: (holder) => holder.progressOf(job.uid, wave),
    });
  };
}
