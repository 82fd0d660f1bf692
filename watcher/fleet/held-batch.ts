/** A batch that a roll-out has handed in, and what has become of each of its pods by now. */
import { type BatchOutcome, type ChosenPod, type PodBatch, type PodOutcome, podsOf } from '../../plan/fleet/batch.ts';
import { podDoing } from '../../plan/fleet/permit.ts';
import type { Held } from '../permits/held.ts';
import type { BatchKey, OneHeld } from '../permits/held-batches.ts';

/** A permit to update the pods of one batch. */
export interface BatchRequest extends BatchKey {
  readonly batch: PodBatch;
}

export interface HeldBatch extends OneHeld<BatchOutcome> {
  readonly request: BatchRequest;
  readonly pods: ReadonlyMap<string, ChosenPod>;
  /** When the update of a pod began, by both clocks; by UID. */
  readonly begun: Map<string, { readonly at: string; readonly sinceMs: number }>;
  /** Since when pods have been gone, by UID. */
  readonly goneAtMs: Map<string, number>;
  /** What happens to the pods whose update has begun, by UID; as of the last look. */
  readonly underWay: Map<string, string>;
  readonly outcomes: Map<string, PodOutcome>;
  /** When it ends, as all of its pods are through. */
  endsAtMs?: number;
  /** Where its pods stand, and since when all of them have stood there. */
  rests: { readonly at: string; readonly sinceMs: number };
}

/** The batch as it is handed in: nothing is known of its pods yet. */
export function heldBatch(held: Held<BatchOutcome>, request: BatchRequest): HeldBatch {
  return {
    ...held,
    request,
    pods: new Map(podsOf(request.batch).map((pod) => [pod.uid, pod])),
    ...{ begun: new Map(), goneAtMs: new Map(), underWay: new Map(), outcomes: new Map() },
    rests: { at: '', sinceMs: performance.now() },
  };
}

/** Notes what has become of a pod, once. `why` is empty, or missing, when it was updated. */
export function settle(held: HeldBatch, uid: string, { why = '' }: { readonly why?: string } = {}): void {
  const pod = held.pods.get(uid);
  if (pod === undefined || held.outcomes.has(uid)) return;
  const begun = held.begun.get(uid);
  const { namespace } = held.request.batch;
  held.outcomes.set(uid, {
    pod: pod.namespace === namespace ? pod.name : `${pod.namespace}/${pod.name}`,
    how: pod.how,
    ...(begun && { at: begun.at }),
    ...(begun && why === '' && { ms: Math.round(performance.now() - begun.sinceMs) }),
    ...(why !== '' && { why }),
  });
}

/** For how many milliseconds none of its pods has got any further. `isBusy`: something is tried for it right now. */
export function restsForMs(held: HeldBatch, isBusy: boolean): number {
  const stages = [...held.underWay].map(([uid, doing]) => [uid, isStarting(doing) ? 'starting' : doing]);
  const at = JSON.stringify([held.outcomes.size, [...held.begun.keys()], stages]);
  if (isBusy || at !== held.rests.at) held.rests = { at, sinceMs: performance.now() };
  return performance.now() - held.rests.sinceMs;
}

/** A pod that gets ready and fails again and again makes no progress (P-7). */
function isStarting(doing: string): boolean {
  return doing === podDoing.notReady || doing === podDoing.readyForShort;
}

/** Settles all that is left of a batch of which nothing has changed for so long. What has begun is finished without it. */
export function giveUp(held: HeldBatch, afterMs: number): void {
  for (const uid of held.pods.keys()) {
    const doing = held.underWay.get(uid);
    const why =
      doing === undefined
        ? `not now: nothing has happened for ${lasting(afterMs)}`
        : `not available after ${lasting(afterMs)}: ${doing}`;
    settle(held, uid, { why });
  }
}

function lasting(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  return minutes > 0 ? `${minutes} minutes` : `${ms / 1_000} s`;
}
