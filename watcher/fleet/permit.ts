import type { WaitingFor } from '../../api/waiting-for.ts';
import type { Wait } from '../../workflows/plan/decision.ts';

/**
 * The leave to disrupt one fleet object up to the end of one batch, given by its roll-out workflow. Without one a fleet
 * is only kept up: replicas, deletes that the user named, finishing what has begun, status.
 */
export interface Permit {
  /** The revision to roll out. Another one in the object makes this permit worthless. */
  readonly revision: string;
  /** Nothing new may be disrupted; what is in flight finishes. */
  readonly paused: boolean;
  /** Names of pods to leave out. */
  readonly skip: readonly string[];
  /** How many pods may be of the revision when the batch is done, counted from the first batch on. */
  readonly batch: number;
}

/** What a permit has come to: counts and a reason, never pods. */
export type Verdict =
  | { readonly kind: 'batchDone'; readonly summary: string }
  | { readonly kind: 'allDone'; readonly summary: string }
  /** The object is gone, or asks for another revision: decide anew. */
  | { readonly kind: 'superseded' }
  /** It has waited for the same thing for long: time for somebody to decide. */
  | { readonly kind: 'blocked'; readonly waitingFor: WaitingFor };

/** How a permit stands, as the planner sees it. Ignored while there is none. */
export type Standing =
  | { readonly kind: 'working' }
  | { readonly kind: 'waiting'; readonly wait: Wait }
  | Exclude<Verdict, { readonly kind: 'blocked' }>;

/** What to do with one fleet object now. */
export interface FleetPlan<Step> {
  /** Done in any case, in this order. Nothing at the fixed point, or the queue never rests. */
  readonly upkeep: readonly Step[];
  /** Done under the permit only, side by side; empty when there is none. */
  readonly disruption: readonly Step[];
  readonly standing: Standing;
  /** When to look again though nothing happens: minReadySeconds, grace, TTL. Absent: not at all. */
  readonly againInMs?: number;
}

/** Waits until the caches show a write. */
export type Seen = (signal: AbortSignal) => Promise<void>;

/** One kind of fleet object: how it is looked at, decided on and acted on. */
export interface FleetKind<World, Step> {
  /** `CloneSet`: for logs and metrics. */
  readonly kind: string;
  /** The whole object with all that belongs to it, from the caches; undefined when it is gone. */
  readonly look: (uid: string) => World | undefined;
  /** Pure. `nowMs` is the wall clock, to be compared with times in the objects. */
  readonly plan: (world: World, permit: Permit | undefined, nowMs: number) => FleetPlan<Step>;
  /**
   * Does one step through a fenced client; "already so" is success. Answers how to see the write, or nothing when nothing
   * had to be written.
   */
  readonly act: (step: Step, world: World, signal: AbortSignal) => Promise<Seen | undefined>;
  /**
   * Resolves when the caches show all that had happened when it was called. Asked after a step failed, since a write
   * without an answer may have been made all the same.
   */
  readonly catchUp: (uid: string, signal: AbortSignal) => Promise<void>;
}

/** For how long a permit holds: as long as the activity that handed it in is known to live. */
export interface PermitLife {
  /** Asked before each disruption. False, once it was false, for good. */
  isAlive(): boolean;
  /** Aborts when it ends. A frozen process learns it late from here: `isAlive` is the fence. */
  readonly ended: AbortSignal;
}
