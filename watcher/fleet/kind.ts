import type { FleetPlan, Permit } from '../../plan/fleet/permit.ts';
import type { AsSeen } from '../../plan/fleet/pods.ts';

/** Waits until the caches show a write. */
export type Seen = (signal: AbortSignal) => Promise<void>;

export type Together = 'alone' | 'freely' | 'growing';

/** A pod as steps name it. */
export type StepPod = Pick<AsSeen, 'namespace' | 'name' | 'uid'>;

export interface UpdateInStep {
  readonly pod: StepPod;
  readonly revision: string;
  readonly isWhole: boolean;
}

/** One kind of fleet object: how it is looked at, decided on and acted on. */
export interface FleetKind<World, Step, Plan extends FleetPlan<Step> = FleetPlan<Step>> {
  /** `CloneSet`: for logs and metrics. */
  readonly kind: string;
  /** The whole object with all that belongs to it, from the caches; undefined when it is gone. */
  readonly look: (uid: string) => World | undefined;
  /** Pure. `nowMs` is the wall clock, to be compared with times in the objects. */
  readonly plan: (world: World, permit: Permit | undefined, nowMs: number) => Plan;
  /** Told of each plan before it is carried out. */
  readonly planned?: (world: World, plan: Plan, nowMs: number) => void;
  /** Tells the roll-out of an object to ask which pods go next, and starts it if there is something to do. Absent: nobody does. */
  readonly wake?: (uid: string) => void;
  /**
   * How neighbouring steps go: `freely` side by side; `growing` one, then two, then four at once as long as none fails,
   * from pass to pass, because what is refused once will be refused again; `alone` in their order, until one fails.
   * Absent: steps of upkeep `alone`, and those of disruption `freely`.
   */
  readonly together?: (step: Step) => Together;
  /**
   * Whether a step only reports, so that having done it is no reason for another look. Absent: no step is
   * of that sort.
   */
  readonly tells?: (step: Step) => boolean;
  /**
   * Steps of one key fail together: after one of them has failed, the others wait for its next try. Absent: all steps of an
   * object do.
   */
  readonly retryKey?: (step: Step) => string;
  /** The pod that a disruptive step is about: it is done only while a permit names this pod. */
  readonly podOf: (step: Step) => StepPod | undefined;
  /**
   * Whether an operator holds the object or leaves the pod out, as is known at this moment. Asked immediately before each
   * disruption. Absent: nobody does.
   */
  readonly isForbidden?: (uid: string, pod: StepPod) => boolean;
  /**
   * Whether the object still asks for what it asked for when this was looked at, as is known at this moment. Asked between the writes
   * of a step. Absent: it does.
   */
  readonly isCurrent?: (world: World) => boolean;
  /**
   * Does one step through a fenced client; "already so" is success. Answers how to see the write, or nothing when nothing
   * had to be written. A step that takes its time asks `mayGoOn` again before it does what cannot be taken back. A dry run of an
   * update throws what refuses it; what it cannot find out counts as accepted.
   */
  readonly act: (step: Step, world: World, signal: AbortSignal, mayGoOn: () => boolean) => Promise<Seen | undefined>;
  /**
   * The pod whose update a step is, begins, or tries in a dry run, and its new revision; with or without a permit. `isWhole`: the pod
   * is updated by it. Absent: what was refused is tried again under its permit.
   */
  readonly updateIn?: (step: Step) => UpdateInStep | undefined;
  /**
   * Resolves when the caches show all that had happened when it was called, or when that takes too long. Asked after a
   * write got no answer, since it may have been made all the same; `pods` of which an update got none.
   */
  readonly catchUp: (uid: string, signal: AbortSignal, pods: readonly StepPod[]) => Promise<void>;
}
