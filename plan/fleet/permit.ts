/** What a roll-out and the one writer of its pods exchange: the permit to disrupt, and the verdict on it. */
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import type { Wait } from '../decision.ts';
import type { AnswerOrder } from '../permits/in-flight.ts';
import type { BatchOutcome, ChosenPod, PodBatch } from './batch.ts';

/**
 * The permit to disrupt pods of one fleet object, given by its roll-out workflow. Without one a fleet is only kept up:
 * replicas, deletes that the user named, finishing what has begun, status. What operators hold is not disrupted with one either.
 */
export interface Permit {
  /** The pods that may be disrupted, by UID, with the revision that each is to become. For no other one may they be. */
  readonly pods: ReadonlyMap<string, string>;
  /** UIDs of those that may be updated in place, and not be recreated. Absent: none. */
  readonly inPlaceOnly?: ReadonlySet<string>;
  /** The roll-out asks at this moment: it does not wait for Temporal. */
  readonly isAsked?: true;
  /** Whether to find out which further pods may be disrupted, besides `pods`. */
  readonly chooses: boolean;
}

/** A permit for no pod, which asks which ones may go. */
export const question: Permit = { pods: new Map(), chooses: true };

/** A revision that is taken back, and the one that takes its place. */
export interface Undo {
  readonly from: string;
  readonly to: string;
}

/**
 * Which pods may go next, or why none may: the answer to `next`, and part of the result of each batch and command. Always of
 * the moment at which it is given.
 */
export type Answer = AnswerKind & {
  /** What the object asks for. Absent: that is not known, or it is gone. */
  readonly facts?: RollOutFacts;
  /** Tells which of two answers of one term is the later one. Absent: that is not known. */
  readonly order?: AnswerOrder;
};

/** Pods that have just been permitted: the leading watcher may not have their batches yet. */
export interface JustPermitted {
  readonly revision: string;
  readonly uids: readonly string[];
}

export type AnswerKind =
  /** Of `of` pods `updated` are where they are to go. `more`: further pods may go as well. */
  | {
      readonly kind: 'pods';
      readonly batches: readonly PodBatch[];
      readonly more: boolean;
      readonly of: number;
      readonly updated: number;
    }
  /** Batches in flight explain that no further pod may go. */
  | { readonly kind: 'nothing' }
  | { readonly kind: 'wait'; readonly waitingFor: WaitingFor }
  /** Nothing is left to do. */
  | { readonly kind: 'done'; readonly summary: string }
  /**
   * An operator has aborted it: nothing begins before that is taken back, which starts another run (P-5). `isIdle`: no batch is
   * carried out any more, so none that is in flight comes to a result.
   */
  | { readonly kind: 'aborted'; readonly summary: string; readonly isIdle: boolean }
  /** The object is being deleted, or gone. */
  | { readonly kind: 'withdrawn' };

/** What has become of a batch, and which pods may go next. */
export interface BatchResult extends BatchOutcome {
  readonly next: Answer;
}

/** How a permit stands, as the planner sees it. Ignored while there is none. */
export type Standing =
  | { readonly kind: 'working' }
  | { readonly kind: 'waiting'; readonly wait: Wait }
  /** These pods may go next, besides those that the permit names. `more`: others may, too. */
  | {
      readonly kind: 'pods';
      readonly revision: string;
      readonly pods: readonly [ChosenPod, ...ChosenPod[]];
      readonly more: boolean;
    }
  /** Nothing is left to do. */
  | { readonly kind: 'allDone'; readonly summary: string }
  /** An operator has aborted it. */
  | { readonly kind: 'aborted'; readonly summary: string }
  /** The object is being deleted. */
  | { readonly kind: 'withdrawn' };

/** What the roll-out of a workload has to know, and whether there should be one. */
export interface RollOutWanted {
  readonly facts: RollOutFacts;
  readonly isWanted: boolean;
  /** All pods are where the spec wants them, and no undo is in effect: orders would be about nothing. */
  readonly isRolledOut: boolean;
}

/** What to do with one fleet object now. */
export interface FleetPlan<Step> {
  /** Done in any case, in this order. Nothing at the fixed point, or the queue never rests. */
  readonly upkeep: readonly Step[];
  /** Done under the permit only, side by side; empty when there is none. */
  readonly disruption: readonly Step[];
  /** Dry runs of updates that were refused, to be made now. Absent: none. */
  readonly trials?: Trials<Step>;
  readonly standing: Standing;
  /** Absent: nothing was decided on. */
  readonly rollOut?: RollOutWanted;
  /** When to look again though nothing happens: minReadySeconds, grace, TTL. Absent: not at all. */
  readonly againInMs?: number;
  /** How the pods stand that the permit names. Absent: there is none, or nothing was decided on. */
  readonly named?: NamedPods;
}

export interface Trials<Step> {
  readonly steps: readonly Step[];
  /** Others are due as well. */
  readonly more: boolean;
}

/** The pods that a permit names. */
export interface NamedPods {
  /** The revision that pods are brought to now. */
  readonly to: string;
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

/** What happens to a pod that has its revision and is not available. */
export const podDoing = { notReady: 'not ready', readyForShort: 'ready for less than minReadySeconds' } as const;

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
