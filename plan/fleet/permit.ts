/** What a roll-out and the one writer of its pods exchange: the permit to disrupt, and the verdict on it. */
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { Wait } from '../decision.ts';
import type { PodBatch } from './batch.ts';

/** What a roll-out allows. What operators have ordered is in the object, and holds besides. */
export interface Leave {
  /** The revision that pods are to become. When the object asks for another one, nothing is allowed. */
  readonly revision: string;
  /** Nothing new may be disrupted; what is in flight finishes. */
  readonly paused: boolean;
}

/**
 * The permit to disrupt pods of one fleet object, given by its roll-out workflow. Without one a fleet is only kept up:
 * replicas, deletes that the user named, finishing what has begun, status.
 */
export interface Permit extends Leave {
  /** The pods that may be disrupted, by UID, with the revision that each is to become. */
  readonly pods: ReadonlyMap<string, string>;
  /** The roll-out asks which further pods may be disrupted, besides `pods`. */
  readonly chooses: boolean;
}

/** A permit for no pod, which asks which ones may go to this revision. */
export function questionFor(revision: string): Permit {
  return { revision, paused: false, pods: new Map(), chooses: true };
}

/** A revision that is taken back, and the one that takes its place. */
export interface Undo {
  readonly from: string;
  readonly to: string;
}

/** What the question which pods go next has come to, and the orders that hold meanwhile. Absent: none do. */
export type ToldVerdict = ChoiceVerdict & { readonly orders?: RollOutOrders };

/** What the question which pods go next has come to. */
export type ChoiceVerdict =
  /** These pods may go. Of `of` pods `updated` are where they are to go. */
  | { readonly kind: 'batch'; readonly batch: PodBatch; readonly of: number; readonly updated: number }
  /** `arrived` pods are of the revision. */
  | { readonly kind: 'allDone'; readonly summary: string; readonly arrived: number }
  /** The object is gone, or asks for another revision: decide anew. */
  | { readonly kind: 'superseded' }
  /**
   * It has waited for the same thing for long, or is paused and all that was in flight has ended. `parked`: the watcher
   * remembers the question, and signals `changed` when the answer would be another one. Absent: it does not.
   */
  | { readonly kind: 'blocked'; readonly waitingFor: WaitingFor; readonly parked?: boolean };

/** How a permit stands, as the planner sees it. Ignored while there is none. */
export type Standing =
  | { readonly kind: 'working' }
  | { readonly kind: 'waiting'; readonly wait: Wait }
  /** Where it is asked: these pods may go next. */
  | { readonly kind: 'pods'; readonly batch: PodBatch }
  | Extract<ChoiceVerdict, { readonly kind: 'allDone' | 'superseded' }>;

/** What to do with one fleet object now. */
export interface FleetPlan<Step> {
  /** Done in any case, in this order. Nothing at the fixed point, or the queue never rests. */
  readonly upkeep: readonly Step[];
  /** Done under the permit only, side by side; empty when there is none. */
  readonly disruption: readonly Step[];
  readonly standing: Standing;
  /** When to look again though nothing happens: minReadySeconds, grace, TTL. Absent: not at all. */
  readonly againInMs?: number;
  /** How the pods stand that the permit names. Absent: there is none, or nothing was decided on. */
  readonly named?: NamedPods;
}

/** The pods that a permit names. */
export interface NamedPods {
  /** By UID. One that is missing here is gone. */
  readonly pods: ReadonlyMap<string, NamedPod>;
  /** How many pods are still to come in the place of pods that are gone: missing ones, and new ones that are not available. */
  readonly awaited: number;
  /** How many pods the object wants, how many are where they are to go, and how many of those are available. */
  readonly progress: FleetProgress;
}

export interface FleetProgress {
  readonly of: number;
  readonly updated: number;
  readonly ready: number;
}

/** Where a pod that the permit names stands. */
export type NamedPod =
  /** Its update begins in this pass, or in the next. */
  | { readonly state: 'next' }
  /** Its update may not begin now. */
  | { readonly state: 'notNow'; readonly why: string }
  /** `doing`: a word or two for people. */
  | { readonly state: 'underWay'; readonly doing: string }
  /** It is where it is to go, and available. */
  | { readonly state: 'done' }
  /** An operator leaves it out. */
  | { readonly state: 'skipped' };
