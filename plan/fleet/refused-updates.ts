/**
 * Updates that the API server has refused (P-7). Their pods are given back, and tried again in dry runs, which change nothing and
 * need no permit: one that is accepted may begin again. Once several were refused in a row, this holds for every pod.
 */
import type { FailureType } from '../../api/core/failure.ts';
import { shortened } from '../text-size.ts';
import type { FleetPod } from './pods.ts';

/** As input of the planner. */
export interface RefusedUpdates {
  /** The revision to which the pods were to be updated. For any other one nothing is refused. */
  readonly revision: string;
  /** By the UID of the pod. */
  readonly pods: ReadonlyMap<string, RefusedUpdate>;
  /** So many were refused in a row that no pod begins before a dry run of its update was accepted. */
  readonly isGeneral: boolean;
  /** How many dry runs may be made now. */
  readonly mostTrials: number;
  /** What the API server said last. */
  readonly error: RefusedUpdate['error'];
  /** After so long each of them has been tried again at the latest, if no others are due as well. */
  readonly retriedWithinMs: number;
}

export interface RefusedUpdate {
  /** What the API server said when it refused it, in a dry run or not. Absent: it never did. */
  readonly error?: { readonly message: string; readonly type?: FailureType };
  /** Its last dry run was accepted. */
  readonly isAccepted: boolean;
  /** When it was refused last, from 0 on, to be compared with others. */
  readonly refusedAtMs: number;
  /** Whether it is to be tried again by now. */
  readonly isDue: boolean;
}

/** What was refused, if that was for this revision. */
export function refusedFor(refused: RefusedUpdates | undefined, revision: string): RefusedUpdates | undefined {
  return refused?.revision === revision ? refused : undefined;
}

/** What is known of the update of a pod, if it was refused and no dry run was accepted since. */
export function refusalOf(refused: RefusedUpdates | undefined, { pod }: FleetPod): RefusedUpdate | undefined {
  const known = refused?.pods.get(pod.metadata.uid);
  return known?.isAccepted ? undefined : known;
}

/** Whether a pod that was never tried has to be accepted in a dry run before it is named. */
export function isUntried(refused: RefusedUpdates | undefined, { pod }: FleetPod): boolean {
  return refused?.isGeneral === true && !refused.pods.has(pod.metadata.uid);
}

/** The pods of these that are due for a dry run, those first that were never tried, then those that were refused the longest ago. */
export function dueForTrial(refused: RefusedUpdates, pods: readonly FleetPod[]): readonly FleetPod[] {
  const known = ({ pod }: FleetPod) => refused.pods.get(pod.metadata.uid);
  const refusedAtMs = (pod: FleetPod) => known(pod)?.refusedAtMs ?? -1;
  const due = pods.filter((pod) => known(pod)?.isDue ?? true);
  return due.toSorted((one, other) => refusedAtMs(one) - refusedAtMs(other));
}

/** Why a pod was given back, for the result of a batch. */
export function refusedText(refused: RefusedUpdates | undefined, pod: FleetPod): string {
  const { error } = refusalOf(refused, pod) ?? {};
  return shortened(`refused: ${error?.message ?? 'the updates of other pods were'}`, longestWhyBytes);
}

/** A result says it of up to 40 pods. */
const longestWhyBytes = 100;
