/** What a roll-out and the one writer of its pods exchange: the permit to disrupt, and the verdict on it. */
import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import type { Wait } from '../decision.ts';

/**
 * The permit to disrupt one fleet object up to the end of one batch, given by its roll-out workflow. Without one a fleet
 * is only kept up: replicas, deletes that the user named, finishing what has begun, status.
 */
export interface Permit {
  /** The revision that pods are to become. When the object asks for another one, this permit is worthless. */
  readonly revision: string;
  /** Nothing new may be disrupted; what is in flight finishes. */
  readonly paused: boolean;
  /** It is paused because an operator has aborted the roll-out, which the object may not say yet. */
  readonly aborted?: true;
  /** UIDs of the pods that may be disrupted. Absent: any, as far as `batch` goes. */
  readonly pods?: readonly string[];
  /** Names of pods to leave out. */
  readonly skip: readonly string[];
  /** How many pods may be of the revision, those of earlier batches included. */
  readonly batch: number;
  /**
   * How many pods must be of the revision and available for the verdict `batchDone`; `batch` if absent. With less than
   * `batch` the next permit comes before this one is used up, and no pod waits for the slowest of its batch.
   */
  readonly milestone?: number;
  /** The reason of a wait that has been reported already: it is reported again only after a long time. */
  readonly told?: string;
  /** An operator takes the revision `from` back: `revision` is `to`, and only pods of `from` are changed. */
  readonly undo?: Undo;
}

/** A revision that is taken back, and the one that takes its place. */
export interface Undo {
  readonly from: string;
  readonly to: string;
}

/** What a permit has come to: counts and a reason, never pods. `arrived` pods are of the revision. */
export type Verdict =
  | { readonly kind: 'batchDone'; readonly summary: string; readonly arrived: number }
  | { readonly kind: 'allDone'; readonly summary: string; readonly arrived: number }
  /** The object is gone, or asks for another revision: decide anew. */
  | { readonly kind: 'superseded' }
  /** It has waited for the same thing for long, or is paused and all that was in flight has ended. */
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

/** The pods that go next, by name and UID, and how each of them goes. */
export interface BatchPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly how: 'inPlace' | 'recreate';
  /** Of an update in place: which containers change, one group after the other by launch priority. */
  readonly containers?: readonly (readonly string[])[];
}

/** Which pods may be disrupted now, or why none may. */
export type Batch =
  | { readonly kind: 'pods'; readonly revision: string; readonly pods: readonly BatchPod[] }
  | { readonly kind: 'wait'; readonly wait: Wait }
  /** There is nothing to update. */
  | { readonly kind: 'done' };
