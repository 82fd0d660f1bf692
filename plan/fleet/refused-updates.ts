/**
 * Updates that the API server has refused (P-7). Their pods are given back, and tried again in dry runs, which change nothing and
 * need no permit: one that is accepted may begin again. Once several were refused in a row, this holds for every pod.
 */
import type { FailureType } from '../../api/core/failure.ts';
import { shortened } from '../text-size.ts';
import type { FleetPod } from './pods.ts';

/** As input of the planner. */
export interface RefusedUpdates {
  /** By the UID of the pod. */
  readonly pods: ReadonlyMap<string, RefusedUpdate>;
  /** So many were refused in a row that no pod begins before a dry run of its update was accepted. */
  readonly isGeneral: boolean;
  /** Whether dry runs may be made now. */
  readonly mayTry: boolean;
}

export interface RefusedUpdate {
  /** What the API server has said. Absent: nothing was refused, as it was tried in a dry run only. */
  readonly error?: { readonly message: string; readonly type?: FailureType };
  /** Its last dry run was accepted. */
  readonly isAccepted: boolean;
  /** When it was tried last, from 0 on, to be compared with others. */
  readonly triedAtMs: number;
  /** Whether it is to be tried again by now. */
  readonly isDue: boolean;
  /** The pause before the next dry run. */
  readonly pauseMs: number;
}

/** The most dry runs that are made together. */
export const mostTrials = 16;

/** Whether the update of a pod has to be accepted in a dry run before it begins. `isNamed`: a permit is for it. */
export function awaitsTrial(refused: RefusedUpdates | undefined, pod: FleetPod, isNamed: boolean): boolean {
  const known = refused?.pods.get(pod.pod.metadata.uid);
  if (known !== undefined) return !known.isAccepted;
  return refused?.isGeneral === true && !isNamed;
}

/** The pods of these that are due, those first that were never tried, and then those that were tried the longest ago. */
export function dueForTrial(refused: RefusedUpdates | undefined, pods: readonly FleetPod[]): readonly FleetPod[] {
  const known = ({ pod }: FleetPod) => refused?.pods.get(pod.metadata.uid);
  const triedAtMs = (pod: FleetPod) => known(pod)?.triedAtMs ?? -1;
  const due = pods.filter((pod) => known(pod)?.isDue ?? true);
  return due.toSorted((one, other) => triedAtMs(one) - triedAtMs(other));
}

/** Why the update of a pod was refused, for the result of a batch. */
export function refusedText(refused: RefusedUpdates | undefined, { pod }: FleetPod): string {
  const { error } = refused?.pods.get(pod.metadata.uid) ?? {};
  return shortened(`refused: ${error?.message ?? 'updates of other pods were'}`, longestWhyBytes);
}

/** A result says it of up to 40 pods. */
const longestWhyBytes = 100;
