/**
 * Updates that the API server has refused (P-7). Their pods are given back, and tried again in dry runs, which change nothing and
 * need no permit: one that is accepted may begin again. Once several were refused in a row, this holds for every pod of their
 * namespace; once many were, for every pod.
 */
import type { FailureType } from '../../api/core/failure.ts';
import type { Pod } from '../../api/core/pod.ts';
import { shortened } from '../text-size.ts';
import type { Trials } from './permit.ts';

/** As input of the planner. */
export interface RefusedUpdates {
  /** The revision to which the pods were to be updated. For any other one nothing is refused. */
  readonly revision: string;
  /** By the UID of the pod. */
  readonly pods: ReadonlyMap<string, RefusedUpdate>;
  /** So many were refused in a row that no pod begins before a dry run of its update was accepted. */
  readonly isGeneral: boolean;
  /** Of one that is missing here nothing is known. */
  readonly namespaces: ReadonlyMap<string, RefusedInNamespace>;
  /** How many dry runs may be made now, and how many of these of pods in namespaces that are misled. */
  readonly mostTrials: number;
  readonly mostMisledTrials: number;
  /** What the API server said last. */
  readonly error: RefusedUpdate['error'];
  /** After so long each of them has been tried again at the latest, if no others are due as well. */
  readonly retriedWithinMs: number;
}

export interface RefusedInNamespace {
  /** The same of its pods. */
  readonly isGeneral: boolean;
  /** Dry runs of its pods were accepted where updates were refused. */
  readonly isMisled: boolean;
  /** When dry runs of its pods began last, to be compared with others. */
  readonly triedAtMs: number;
}

export interface RefusedUpdate {
  /** Why it was refused, in a dry run or not. Absent: it never was. */
  readonly error?: Refusal;
  /** Its last dry run was accepted. */
  readonly isAccepted: boolean;
  /** When it was refused last, from 0 on, to be compared with others. */
  readonly refusedAtMs: number;
  /** Whether it is to be tried again by now. */
  readonly isDue: boolean;
}

/** What the API server said. */
export interface Refusal {
  readonly message: string;
  readonly type?: FailureType;
  /** Nothing was sent: no write can update the pod as it is. */
  readonly isImpossible?: true;
}

/** A pod as it is looked at for the one or other kind. */
interface OfPod {
  readonly pod: Pod;
}

/** What was refused, if that was for this revision. */
export function refusedFor(refused: RefusedUpdates | undefined, revision: string): RefusedUpdates | undefined {
  return refused?.revision === revision ? refused : undefined;
}

/** What is known of the update of a pod, if it was refused and no dry run was accepted since. */
export function refusalOf(refused: RefusedUpdates | undefined, { pod }: OfPod): RefusedUpdate | undefined {
  const known = refused?.pods.get(pod.metadata.uid);
  return known?.isAccepted ? undefined : known;
}

/** Whether a pod that was never tried has to be accepted in a dry run before it is named. */
export function isUntried(refused: RefusedUpdates | undefined, of: OfPod): boolean {
  return isGeneralFor(refused, of) && refused?.pods.has(of.pod.metadata.uid) === false;
}

/** Whether so many updates were refused in a row that this holds for the pod as well. */
export function isGeneralFor(refused: RefusedUpdates | undefined, { pod }: OfPod): boolean {
  return refused?.isGeneral === true || refused?.namespaces.get(namespaceOf(pod))?.isGeneral === true;
}

/**
 * The dry runs that are made now, of those of these pods that are due: namespaces take turns, first the one that had none for the
 * longest time; in each of them those pods come first that were never tried, then those that were refused the longest ago. `stepOf`:
 * undefined for a pod of which there is nothing to try.
 */
export function trialsAmong<One extends OfPod, Step>(
  refused: RefusedUpdates,
  pods: readonly One[],
  stepOf: (pod: One) => Step | undefined,
): Trials<Step> {
  const { mostTrials, mostMisledTrials, namespaces } = refused;
  const steps: Step[] = [];
  let misled = 0;
  let more = false;
  for (const one of inTurn(refused, pods)) {
    if (steps.length >= mostTrials) return { steps, more: true };
    const isMisled = namespaces.get(namespaceOf(one.pod))?.isMisled === true;
    if (isMisled && misled >= mostMisledTrials) {
      more ||= mostMisledTrials > 0;
      continue;
    }
    const step = stepOf(one);
    if (step === undefined) continue;
    steps.push(step);
    if (isMisled) misled++;
  }
  return { steps, more };
}

function inTurn<One extends OfPod>({ pods: known, namespaces }: RefusedUpdates, pods: readonly One[]): readonly One[] {
  const due = pods.flatMap((one) => {
    const { isDue = true, refusedAtMs = -1 } = known.get(one.pod.metadata.uid) ?? {};
    const { triedAtMs = 0 } = namespaces.get(namespaceOf(one.pod)) ?? {};
    return isDue ? [{ one, refusedAtMs, triedAtMs }] : [];
  });
  const places = new Map<string, number>();
  const placed = due
    .toSorted((left, right) => left.refusedAtMs - right.refusedAtMs)
    .map((found) => {
      const namespace = namespaceOf(found.one.pod);
      const place = places.get(namespace) ?? 0;
      places.set(namespace, place + 1);
      return { ...found, place };
    });
  const sorted = placed.toSorted((left, right) => left.place - right.place || left.triedAtMs - right.triedAtMs);
  return sorted.map(({ one }) => one);
}

function namespaceOf({ metadata: { namespace = '' } }: Pod): string {
  return namespace;
}

/** Why a pod was given back, for the result of a batch. */
export function refusedText(refused: RefusedUpdates | undefined, pod: OfPod): string {
  const { error } = refusalOf(refused, pod) ?? {};
  return shortened(`refused: ${error?.message ?? 'the updates of other pods were'}`, longestWhyBytes);
}

/** A result says it of up to 40 pods. */
const longestWhyBytes = 100;
