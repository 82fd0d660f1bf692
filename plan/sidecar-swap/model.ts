/** What the swap of sidecars in one pod, its activities and the leading watcher know in common. */
import type { PodRef } from '../../api/core/refs.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { SetRef } from '../../api/sidecar-set/swap.ts';

/** An image in a container of the pod. */
export interface SwapSlot {
  readonly container: string;
  readonly image: string;
}

/**
 * How far the swap is:
 *
 *   begin      the new images are to be written
 *   starting   they are written; the kubelet starts them
 *   reset      they serve; the old containers are to be emptied
 *   resetting  the empty images are written; the kubelet starts them
 */
export type SwapStage = 'begin' | 'starting' | 'reset' | 'resetting';

/** A swap that has not ended. */
export interface OpenSwap {
  readonly kind: 'open';
  readonly stage: SwapStage;
  /** The new images, and the empty ones that follow. Only for people: as many as fit. */
  readonly incoming: readonly SwapSlot[];
  readonly outgoing: readonly SwapSlot[];
  /** The hash of the content that the pod is to have. */
  readonly target: string;
  /** When the new images were written, RFC 3339 in UTC. */
  readonly begunAt?: string;
  /** How long the new containers may take to get ready. Absent: as long as it takes. */
  readonly deadlineMs?: number;
  /** Until when the kubelet would make a container wait that is to start. */
  readonly backOffUntil?: string;
}

/** What a look at the pod and the SidecarSet finds. */
export type SwapLook =
  | { readonly kind: 'gone'; readonly why: string }
  /** Each sidecar runs what it should, beside an idle container. */
  | { readonly kind: 'done' }
  | OpenSwap;

/** What the leading watcher writes. */
export type SwapStep = 'begin' | 'reset' | 'cancel';

/** The sidecars of one SidecarSet in one pod: the input of `fleet.v1.lookAtSwap`. */
export interface SwapOfPod {
  readonly pod: PodRef;
  readonly set: SetRef;
}

interface SwapRequest extends SwapOfPod {
  /** The reason of a wait that has been reported: it is not reported again. */
  readonly told?: string;
  /** How many waits of this step have been reported: the more, the longer a further one has to last. */
  readonly reports: number;
}

/** The input of `fleet.v1.swapStep`. */
export interface SwapStepRequest extends SwapRequest {
  readonly step: SwapStep;
  /** Of `cancel`. */
  readonly why?: SwapFailure;
}

/** Why a swap that was wanted has been undone. */
export type SwapFailure = 'Aborted' | 'DeadlineExceeded';

/** What became of a step. */
export type SwapStepAnswer =
  /** Written, by this attempt or an earlier one. */
  | { readonly kind: 'written'; readonly at: string }
  /** There is nothing to write. */
  | { readonly kind: 'nothing'; readonly why: string }
  /** It has waited for this long enough to report it. */
  | { readonly kind: 'blocked'; readonly waitingFor: WaitingFor };

/** What the kubelet is waited for. */
export type SwapGoal = 'ready' | 'idle';

/** The input of `fleet.v1.awaitSwap`. */
export interface SwapAwaitRequest extends SwapRequest {
  readonly until: SwapGoal;
}

/** What became of a wait for the kubelet. */
export type SwapAwaitAnswer =
  | { readonly kind: 'reached' }
  /** The swap is somewhere else. */
  | { readonly kind: 'changed'; readonly why: string }
  | { readonly kind: 'blocked'; readonly waitingFor: WaitingFor };
