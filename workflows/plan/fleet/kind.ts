/**
 * What a kind of workload that keeps pods has to say for itself. `plan.ts` does the rest: a look becomes a scene, the scene
 * becomes decisions, the decisions become steps.
 *
 * A kind that keeps no pods of its own (it changes those of others, or its children are workloads) has no planner of this
 * sort. It stands on what is below: queue, permits, waits, writes in place.
 */

import type { JsonObject } from '../../../api/base/json.ts';
import type { Resource } from '../../../api/core/meta.ts';
import type { RevisionScheme } from '../../../api/fleet/revision.ts';
import type { Rule, Wait } from '../decision.ts';
import type { FleetInput } from './input.ts';
import type { FleetPod, Membership } from './pods.ts';
import type { RefreshPlan } from './refresh.ts';
import type { FleetScene, UpdateStrategy } from './scene.ts';
import type { Intention } from './steps.ts';
import type { UpdateDemand, UpdateLine, UpdatePlan } from './update.ts';
import type { FleetWaitTexts } from './waits.ts';
import type { Workload } from './workload.ts';

/** How the workload gets to its pods: what to create and to delete now. Takes no permit. */
export interface ScalePlan {
  readonly steps: readonly Intention[];
  /** Emitted whether or not anything is done. */
  readonly events: readonly Intention[];
  /** How many pods are missing, and how many are too many. */
  readonly missing: number;
  readonly surplus: number;
  /** There are exactly the pods that there should be. */
  readonly isSettled: boolean;
  /** Ready pods that are to be deleted and may not be yet, since too many others are unavailable. */
  readonly spared: readonly FleetPod[];
}

/** A pass, once it is decided. */
export interface Situation<
  Scene extends FleetScene = FleetScene,
  Scale extends ScalePlan = ScalePlan,
  Demand extends UpdateDemand = UpdateDemand,
> {
  readonly scene: Scene;
  readonly scale: Scale;
  readonly refresh: RefreshPlan;
  readonly update: UpdatePlan<Demand>;
}

/** As much of a pass as all kinds have. */
export type FleetSituation = Situation;

/** What happened in a pass, as far as the status reports it. */
export interface PassNews {
  readonly scaleFailure?: string;
  readonly updateFailure?: string;
  readonly wait?: Wait;
}

/** The planner of a kind: pure, and asked in the order in which its members stand here. */
export interface FleetPlanner<
  Owner extends Workload,
  Input extends FleetInput<Owner> = FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input> = FleetScene<Owner, Input>,
  Scale extends ScalePlan = ScalePlan,
  Demand extends UpdateDemand = UpdateDemand,
> {
  readonly resource: Resource;
  readonly revisions: RevisionScheme<Owner>;
  /** What a person can do about each wait that every kind has. */
  readonly texts: FleetWaitTexts;
  /** Everything that such a workload can wait for: the rules of every kind, and its own, in the order of the status. */
  readonly rules: readonly Rule<Situation<Scene, Scale, Demand>>[];
  /** Which pods are its members. */
  membership(input: Pick<Input, 'owner'>): Membership;
  strategy(input: Input): UpdateStrategy;
  /** How many pods it wants. */
  replicas(input: Input): number;
  /** Adds what only this kind knows. */
  scene(scene: FleetScene<Owner, Input>): Scene;
  /** Which pods are missing or too many. */
  scale(scene: Scene): Scale;
  /** How many pods are to be updated. */
  demand(scene: Scene): Demand;
  /** Which ones, in which order, and how far the budget goes. Asked only where some are to be updated. */
  line(scene: Scene, demand: Demand): UpdateLine;
  /** The status as it is to be. */
  status(scene: Scene, news: PassNews): Owner['status'] & object;
  /** What else is to be done for PVCs and others. Absent: nothing. */
  upkeep?(situation: Situation<Scene, Scale, Demand>): readonly Intention[];
  /** A merge patch of the spec, where what it asks for is done. Absent: none. */
  prunedSpec?(scene: Scene): JsonObject | undefined;
  /** Moments at which to look again though nothing happens. Absent: none of its own. */
  againAtMs?(situation: Situation<Scene, Scale, Demand>, status: Owner['status'] & object): readonly number[];
}
