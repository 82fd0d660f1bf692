/**
 * What a kind of workload that maintains pods has to define. `plan.ts` does the rest: an input becomes a scene, the
 * scene becomes decisions, the decisions become steps.
 *
 * A kind that maintains no pods of its own (it changes those of others, or its children are workloads) has no such
 * planner. It uses the layer below: queue, permits, waits, in-place writes.
 */

import type { JsonObject } from '../../api/base/json.ts';
import type { Resource } from '../../api/core/meta.ts';
import type { RevisionScheme } from '../../api/fleet/revision.ts';
import type { Rule, Wait } from '../decision.ts';
import type { FleetInput, VolumeClaim } from './input.ts';
import type { FleetPod, Membership } from './pods.ts';
import type { RefreshPlan } from './refresh.ts';
import type { FleetScene, FleetWaitTexts, UpdateDemand, UpdateStrategy } from './scene.ts';
import type { Intention } from './steps.ts';
import type { UpdateLine, UpdatePlan } from './update.ts';
import type { Workload } from './workload.ts';

/** How the workload gets to its number of pods: what to create and to delete now. Needs no permit. */
export interface ScalePlan {
  readonly steps: readonly Intention[];
  /** Emitted whether or not anything is done. */
  readonly events: readonly Intention[];
  /** The numbers of missing and of surplus pods. */
  readonly missing: number;
  readonly surplus: number;
  /** There are exactly the desired pods. */
  readonly isSettled: boolean;
  /** Ready pods that are to be deleted but must not be yet, since too many others are unavailable. */
  readonly spared: readonly FleetPod[];
}

/** A pass after its decisions. */
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

/** The parts of a pass that all kinds have. */
export type FleetSituation = Situation;

/** What happened in a pass, as far as it is in the status. */
export interface PassNews {
  readonly scaleFailure?: string;
  readonly updateFailure?: string;
  readonly wait?: Wait;
}

/** The planner of a kind: pure functions, called in this order. */
export interface FleetPlanner<
  Owner extends Workload,
  Input extends FleetInput<Owner> = FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input> = FleetScene<Owner, Input>,
  Scale extends ScalePlan = ScalePlan,
  Demand extends UpdateDemand = UpdateDemand,
> {
  readonly resource: Resource;
  readonly revisions: RevisionScheme<Owner>;
  /** The remedies for the waits that every kind has. */
  readonly texts: FleetWaitTexts;
  /** Everything that such a workload can wait for: the rules of every kind, and its own, in the order of the status. */
  readonly rules: readonly Rule<Situation<Scene, Scale, Demand>>[];
  /** Which pods are its members. */
  membership(input: Pick<Input, 'owner'>): Membership;
  /** Whether the PVC is one of its pods'. Absent: where the workload is its controller. */
  ownsClaim?(owner: Owner, claim: VolumeClaim): boolean;
  strategy(input: Input): UpdateStrategy;
  /** How many pods it wants. */
  replicas(input: Input): number;
  /** Adds what only this kind has. */
  scene(scene: FleetScene<Owner, Input>): Scene;
  /** Which pods are missing or too many. */
  scale(scene: Scene): Scale;
  /** How many pods are to be updated. */
  demand(scene: Scene): Demand;
  /** Which ones, in which order, and how far the budget goes. Called only where some are to be updated. */
  line(scene: Scene, demand: Demand): UpdateLine;
  /** The status before there are pods: every field that the CRD requires. */
  readonly emptyStatus: Owner['status'] & object;
  /** The desired status. */
  status(scene: Scene, news: PassNews): Owner['status'] & object;
  /** Which images are pulled ahead, where that is decided otherwise than for updates in place. Absent: it is not. */
  preDownload?(scene: Scene, demand: Demand): readonly Intention[];
  /** What else is to be done for PVCs and others. Absent: nothing. */
  upkeep?(situation: Situation<Scene, Scale, Demand>): readonly Intention[];
  /** A merge patch of the spec that removes what has been done. Absent: none. */
  prunedSpec?(scene: Scene): JsonObject | undefined;
  /** Times at which to reconcile again without a change. Absent: none of its own. */
  againAtMs?(situation: Situation<Scene, Scale, Demand>, status: Owner['status'] & object): readonly number[];
}
