/** Where the pods stand that a permit names: what the batches of a roll-out are judged by. */
import type { Situation } from './kind.ts';
import { type NamedPod, type NamedPods, podDoing } from './permit.ts';
import { type FleetPod, isOfRevision } from './pods.ts';
import { refusedText } from './refused-updates.ts';
import { isAtGoal, isOnTheWay, isUpToDate, nextRevision, skippedPods, volumesOf } from './scene.ts';
import { isDrained, isHeld, type UpdateStop } from './update.ts';

/** Nothing without a permit. */
export function namedPods({ scene, update }: Situation, isScaling: boolean): { readonly named?: NamedPods } {
  const { counted, replicas } = scene;
  const { permit } = scene.input;
  if (permit === undefined) return {};
  const begun = new Set(update.begun);
  const asksForMore = new Set(update.candidates.map(({ uid }) => uid));
  const refused = new Set(update.refused);
  const skip = skippedPods(scene);
  const waitsForScale = isScaling && !scene.isHeldByOperator;
  const isComing = (pod: FleetPod) => begun.has(pod) || waitsForScale || update.stop.kind === 'batchFull';
  const pods = new Map<string, NamedPod>();
  let [present, fresh] = [0, 0];
  for (const pod of counted) {
    const { uid } = pod.pod.metadata;
    const revision = permit.pods.get(uid);
    if (revision !== undefined) {
      const isSkipped = skip.has(pod.name);
      const stop = asksForMore.has(uid) ? hasToBeRecreated : stopTexts[update.stop.kind];
      const refusal = refused.has(pod) ? refusedText(scene.input.refused, pod) : undefined;
      const isNext = isComing(pod) && !asksForMore.has(uid);
      const isExpanding = volumesOf(scene, pod).resizing.length > 0;
      const isThere = isOfRevision(pod, revision) && (isUpToDate(scene, pod) || !isAtGoal(scene, pod));
      const about = { isThere, isExpanding, isSkipped, isComing: isNext, stop };
      pods.set(uid, standsAt(pod, { ...about, ...(refusal && { refusal }) }));
    } else if (isAtGoal(scene, pod) && !pod.isAvailable) fresh++;
    if (!pod.isTerminating) present++;
  }
  const updated = counted.filter((pod) => isAtGoal(scene, pod));
  const ready = updated.filter(({ isAvailable }) => isAvailable).length;
  const awaited = Math.max(replicas - present, 0) + fresh;
  const { name: to } = nextRevision(scene, update.demand).metadata;
  return { named: { to, pods, awaited, progress: { of: replicas, updated: updated.length, ready } } };
}

function standsAt(
  pod: FleetPod,
  of: {
    /** It has the revision that was permitted, and its PVCs need no write. */
    readonly isThere: boolean;
    readonly isExpanding: boolean;
    readonly isSkipped: boolean;
    readonly isComing: boolean;
    readonly stop: string;
    readonly refusal?: string;
  },
): NamedPod {
  const { isThere, isExpanding } = of;
  if (isThere && pod.isAvailable && !isExpanding) return { state: 'done' };
  if (of.isSkipped) return { state: 'skipped' };
  // it may have been drained before it was refused
  if (of.refusal !== undefined && !isThere && !pod.isTerminating) return { state: 'notNow', why: of.refusal };
  const doing = doingOf(pod, of);
  if (doing !== undefined) return { state: 'underWay', doing };
  return of.isComing ? { state: 'next' } : { state: 'notNow', why: of.stop };
}

/** What happens to a pod whose update has begun; undefined when it has not. */
function doingOf(
  pod: FleetPod,
  { isThere, isExpanding }: { readonly isThere: boolean; readonly isExpanding: boolean },
): string | undefined {
  if (pod.isTerminating) return 'terminating';
  if (isExpanding) return 'its volumes are being expanded';
  if (isThere) return pod.availableAtMs === undefined ? podDoing.notReady : podDoing.readyForShort;
  if (isHeld(pod)) return 'preparing';
  if (isDrained(pod)) return 'draining';
  return isOnTheWay(pod) ? 'being deleted' : undefined;
}

const hasToBeRecreated = 'it has to be recreated now, which takes another permit';

/** Why a pod that was chosen is not updated now. */
const stopTexts: Readonly<Record<UpdateStop['kind'], string>> = {
  done: 'it is not to be updated any more',
  onDelete: 'it is not to be updated any more',
  started: 'it is not to be updated any more',
  paused: 'the roll-out is paused',
  noPermit: 'the roll-out has no permit',
  batchFull: 'too many pods begin at once',
  budget: 'the budget has no room for it',
  imageNotReady: 'its images are not on enough nodes yet',
  refused: 'a budget has refused it',
  claimDiffers: 'the PVC of a pod differs from its template',
  writesRefused: 'updates of other pods were refused',
  impossible: 'a pod cannot be updated in place',
};
