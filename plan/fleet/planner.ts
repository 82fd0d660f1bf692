/** A kind of workload as the watcher and the command line work with it: what to do about it, and which pods come next. */
import type { Resource } from '../../api/core/meta.ts';
import { firstWait, type Wait } from '../decision.ts';
import { batchOf, type PodBatch } from './batch.ts';
import type { PodWrite } from './in-place/update.ts';
import type { FleetInput, WorkloadPlan } from './input.ts';
import type { FleetPlanner, FleetSituation, ScalePlan } from './kind.ts';
import { question } from './permit.ts';
import { afterDrain, planFleet } from './plan.ts';
import { type Play, play } from './play.ts';
import type { FleetScene, UpdateDemand } from './scene.ts';
import type { DrainedPod } from './update.ts';
import { allWaits } from './waits.ts';
import type { Workload } from './workload.ts';

/** The decisions about one kind of workload. Pure. */
export interface WorkloadPlanner<Owner extends Workload, Input extends FleetInput<Owner> = FleetInput<Owner>>
  extends Pick<FleetPlanner<Owner, Input>, 'strategy'> {
  readonly resource: Resource;
  /** As in `FleetPlanner`. */
  readonly emptyStatus: Owner['status'] & object;
  /** What to do now. */
  plan(input: Input): WorkloadPlan<Owner['status'] & object>;
  /** Which pods are disrupted next, were there a permit for any. */
  chooseBatch(input: Input): Choice;
  /**
   * Gives the function that works out the writes of an update again, for a pod that is out of service by now; it answers
   * undefined when the update is not to continue. Asked once for each look, and only where a pod is drained.
   */
  afterDrain(input: Input): ((drained: DrainedPod) => readonly PodWrite[] | undefined) | undefined;
  /** How things stand, and everything that is waited for. Undefined: before its template is recorded, nothing is decided. */
  explain(input: Input): { readonly situation: FleetSituation; readonly waits: readonly Wait[] } | undefined;
  /** What becomes of each pod if nothing fails. Undefined: its selector is malformed. */
  play(input: Input): Play | undefined;
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
    emptyStatus: kind.emptyStatus,
    strategy: (input) => kind.strategy(input),
    plan: (input) => planFleet(kind, input),
    chooseBatch: (input) => chooseBatch(kind, input),
    afterDrain: (input) => afterDrain(kind, input),
    explain(input) {
      const { situation } = planFleet(kind, input);
      return situation && { situation, waits: allWaits(kind.rules, situation) };
    },
    play: (input) => play(kind, input),
  };
}

/** What a roll-out that has no pods in flight is told when it asks which ones go next. */
function chooseBatch<
  Owner extends Workload,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(kind: FleetPlanner<Owner, Input, Scene, Scale, Demand>, input: Input): Choice {
  const { situation, standing } = planFleet(kind, { ...input, permit: question });
  if (situation === undefined) return { kind: 'done' };
  if (standing.kind === 'pods') return { kind: 'pods', batch: batchOf(standing.revision, standing.pods) };
  const wait = situation.update.demand.left === 0 ? undefined : firstWait(kind.rules, situation);
  return wait ? { kind: 'wait', wait } : { kind: 'done' };
}

/** Which pods may be disrupted next, or why none may. */
export type Choice =
  | { readonly kind: 'pods'; readonly batch: PodBatch }
  | { readonly kind: 'wait'; readonly wait: Wait }
  /** There is nothing to update. */
  | { readonly kind: 'done' };
