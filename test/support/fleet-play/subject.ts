import type { Pod } from '../../../api/core/pod.ts';
import type { PodTemplate } from '../../../api/core/pod-template.ts';
import type { FeatureGate } from '../../../api/feature-gates.ts';
import type { Lifecycle } from '../../../api/fleet/lifecycle.ts';
import type { FleetInput } from '../../../plan/fleet/input.ts';
import type { FleetPlanner, ScalePlan, Situation } from '../../../plan/fleet/kind.ts';
import type { FleetDecision } from '../../../plan/fleet/plan.ts';
import type { FleetPod, Members } from '../../../plan/fleet/pods.ts';
import type { FleetScene, UpdateDemand } from '../../../plan/fleet/scene.ts';
import type { Intention } from '../../../plan/fleet/steps.ts';
import type { Workload } from '../../../plan/fleet/workload.ts';
import type { PlayedStore } from './store.ts';

/** What a play begins with, whatever is played. */
export interface PlayCast {
  readonly lifecycle: Lifecycle | undefined;
  readonly gates: readonly FeatureGate[];
  /** Whether caches show the writes of others late. */
  readonly hasStaleCaches: boolean;
  /** Whether daemons put pods back into service. */
  readonly hasDaemon: boolean;
  /** Whether writes may get no answer, and be made late or not at all, also those of a leader whose term is over. Absent: none does. */
  readonly losesAnswers?: boolean;
  /** What its users do, by what is told of it. Absent: everything. */
  readonly userSteps?: RegExp;
  /** Jobs pull images ahead of updates, and the workload may ask to wait for them. Absent: neither. */
  readonly pulls?: { readonly awaited: string | undefined };
}

/** A workload that can be played. */
export type PlayedOwner = Workload & {
  readonly spec: {
    readonly replicas?: number;
    readonly lifecycle?: Lifecycle;
    readonly scaleStrategy?: object;
  };
};

export interface Step {
  readonly what: string;
  readonly take: () => void;
}

/** What a kind sees and does of a play. */
export interface Stage<Owner> {
  readonly store: PlayedStore;
  readonly owner: Owner;
  /** Names of pods that were created late, when nobody may have wanted them any more. */
  readonly late: ReadonlySet<string>;
  changeSpec(change: object): void;
  broken(what: string): BrokenPromise;
}

export type PlayedPlan<
  Owner extends Workload,
  Scene extends FleetScene,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
> = FleetDecision<Owner['status'] & object, Situation<Scene, Scale, Demand>>;

/** A kind of workload as it is played: what it begins with, what only its users do, and what only it promises. */
export interface Subject<
  Owner extends PlayedOwner,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
> {
  readonly planner: FleetPlanner<Owner, Input, Scene, Scale, Demand>;
  /** At first, with a template of the play. */
  ownerWith(first: PodTemplate): Owner;
  input(input: FleetInput<Owner>): Input;
  /** How many pods it wants now. Absent: as its spec says. */
  replicas?(): number;
  /** Whether there is such a node. Absent: there is every one. */
  hasNode?(name: string): boolean;
  /** Between which its users change maxUnavailable. */
  readonly budgets: readonly [number | string, number | string];
  /** Where nothing is in the way of a roll-out: a change of the spec. */
  mended(owner: Owner): object;
  /** What else a person does for that. Absent: nothing. */
  mend?(stage: Stage<Owner>): void;
  /** What else its users do. */
  userSteps(stage: Stage<Owner>): readonly Step[];
  userStepsFor(stage: Stage<Owner>, pod: Pod): readonly Step[];
  /** What happens by itself. Absent: nothing more than to every kind. */
  natureSteps?(stage: Stage<Owner>): readonly Step[];
  /** How many of its pods are to be there, and how many of them may be missing. */
  budgetOf(scene: Scene): { readonly replicas: number; readonly maxUnavailable: number };
  /** Whether a pod is one of them. Absent: each one that counts. */
  isWanted?(scene: Scene, pod: FleetPod): boolean;
  /** Whether an available pod may be deleted because it is too many. */
  isSurplus(scene: Scene, pod: FleetPod): boolean;
  /** How many pods an update has to leave old, whichever they are. Absent: as the planner says. */
  keptOld?(scene: Scene): number;
  /** Its own promises: of a plan, before a step is taken, after a pod was created, and of what is there while nobody disturbs it. */
  checkPlan?(stage: Stage<Owner>, plan: PlayedPlan<Owner, Scene, Scale, Demand>, scene: Scene): void;
  checkStep?(stage: Stage<Owner>, step: Intention, scene: Scene): void;
  checkCreated?(stage: Stage<Owner>, scene: Scene): void;
  checkTruth(stage: Stage<Owner>, members: Members): void;
  /** What else is to be wished for. Absent: nothing. */
  unfinished?(stage: Stage<Owner>): readonly string[];
}

/** A promise that was not kept, with the way that led there. */
export class BrokenPromise extends Error {}
