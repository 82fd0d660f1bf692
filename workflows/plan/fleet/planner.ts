/** A kind of workload as the watcher and the command line work with it: what to do about it, and which pods come next. */
import type { Resource } from '../../../api/core/meta.ts';
import { firstWait } from '../decision.ts';
import { batchesOf, type PodWrite } from './in-place/update.ts';
import type { FleetInput, WorkloadPlan } from './input.ts';
import type { FleetPlanner, ScalePlan } from './kind.ts';
import type { Batch, BatchPod } from './permit.ts';
import { afterDrain, planFleet, sceneIn } from './plan.ts';
import type { FleetScene } from './scene.ts';
import { type DrainedPod, decideUpdate, type UpdateDemand } from './update.ts';
import type { Workload } from './workload.ts';

/** The decisions about one kind of workload. Pure. */
export interface WorkloadPlanner<Owner extends Workload, Input extends FleetInput<Owner> = FleetInput<Owner>> {
  readonly resource: Resource;
  /** What to do now. */
  plan(input: Input): WorkloadPlan<Owner['status'] & object>;
  /** Which pods are disrupted next, were there a permit for any. */
  chooseBatch(input: Input): Batch;
  /**
   * Gives the function that works out the writes of an update again, for a pod that is out of service by now; it answers
   * undefined when the update is not to continue. Asked once for each look, and only where a pod is drained.
   */
  afterDrain(input: Input): ((drained: DrainedPod) => readonly PodWrite[] | undefined) | undefined;
}

/** The planner of a kind that keeps pods. */
export function workloadPlanner<
  Owner extends Workload,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(kind: FleetPlanner<Owner, Input, Scene, Scale, Demand>): WorkloadPlanner<Owner, Input> {
  return {
    resource: kind.resource,
    plan: (input) => planFleet(kind, input),
    chooseBatch: (input) => batchOf(kind, input),
    afterDrain: (input) => afterDrain(kind, input),
  };
}

/** So many pods are in one batch at most: what a line of a history can hold. */
export const mostInBatch = 40;

function batchOf<
  Owner extends Workload,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(kind: FleetPlanner<Owner, Input, Scene, Scale, Demand>, input: Input): Batch {
  const revision = sceneIn(kind, input)?.target.metadata.name;
  if (revision === undefined) return { kind: 'done' };
  // A permit for any pod; what operators have ordered still holds.
  const permit = { revision, paused: false, skip: [], batch: Number.MAX_SAFE_INTEGER };
  const { situation, disruption } = planFleet(kind, { ...input, permit });
  if (situation === undefined) return { kind: 'done' };
  const { scene, update } = situation;
  const target = update.demand.left < 0 ? scene.other : scene.target;
  if (disruption.length > 0) {
    const pods = update.begun.slice(0, mostInBatch).map((pod): BatchPod => {
      const { namespace = '', uid } = pod.pod.metadata;
      const decision = decideUpdate(scene, pod, target);
      const how =
        decision.kind === 'inPlace'
          ? ({ how: 'inPlace', containers: batchesOf(pod.pod, decision.change) } as const)
          : ({ how: 'recreate' } as const);
      return { namespace, name: pod.name, uid, ...how };
    });
    return { kind: 'pods', revision: target.metadata.name, pods };
  }
  const wait = update.demand.left === 0 ? undefined : firstWait(kind.rules, situation);
  return wait ? { kind: 'wait', wait } : { kind: 'done' };
}
