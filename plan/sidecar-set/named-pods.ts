/** Where the pods of a SidecarSet stand that a permit names: what the batches of its roll-out are judged by. */
import type { NamedPod, NamedPods } from '../fleet/permit.ts';
import { refusedText } from '../fleet/refused-updates.ts';
import type { ClassifiedPod } from './classify.ts';
import { hotSidecars } from './hot.ts';
import { namesInPod } from './pods.ts';
import { isSkipped, type SidecarSetScene, updatedPods } from './scene.ts';
import type { UpdatePlan, UpdateStop } from './update.ts';

/** Nothing where the permit names no pods. */
export function namedPods(scene: SidecarSetScene, update: UpdatePlan): { readonly named?: NamedPods } {
  const named = scene.input.permit?.pods;
  if (named === undefined) return {};
  const pods = new Map<string, NamedPod>();
  for (const found of scene.pods) {
    const { uid } = found.pod.metadata;
    if (named.has(uid)) pods.set(uid, standsAt(found, scene, update));
  }
  const updated = updatedPods(scene);
  const ready = updated.filter(({ isSidecarReady }) => isSidecarReady).length;
  // No pod is recreated, so none is awaited in the place of another one.
  const to = scene.target.revision;
  return { named: { to, pods, awaited: 0, progress: { of: scene.pods.length, updated: updated.length, ready } } };
}

function standsAt(found: ClassifiedPod, scene: SidecarSetScene, { coming, stop, ...update }: UpdatePlan): NamedPod {
  const { pod, place } = found;
  if (place.kind === 'updated') {
    const doing = doingOf(found, scene);
    if (doing === undefined) return { state: 'done' };
    return isSkipped(found, scene) ? { state: 'skipped' } : { state: 'underWay', doing };
  }
  if (isSkipped(found, scene)) return { state: 'skipped' };
  if (coming.has(pod.metadata.uid)) return { state: 'next' };
  const isIn = (pods: readonly ClassifiedPod[]) => pods.some((one) => one.pod === pod);
  if (place.kind === 'notUpgradable') return { state: 'notNow', why: 'it cannot be updated in place' };
  if (place.kind === 'notSelected') return { state: 'notNow', why: stopTexts.done };
  if (isIn(update.inProgress)) return { state: 'notNow', why: 'an earlier update of it is not finished' };
  const impossible = update.impossible.find((one) => one.pod === pod);
  if (impossible) return { state: 'notNow', why: impossible.why };
  return { state: 'notNow', why: isIn(update.refused) ? refusedText(scene.input.refused, found) : stopTexts[stop] };
}

/** What happens to an updated pod; undefined: nothing any more. */
export function doingOf(found: ClassifiedPod, scene: SidecarSetScene): string | undefined {
  if (!found.isConsistent) return 'restarting';
  if (isSwapping(found, scene)) return 'being swapped';
  return isThrough(found, scene) ? undefined : 'not ready';
}

/** Until its old containers are idle (SHU-34). */
export function isSwapping({ pod }: ClassifiedPod, { target }: Pick<SidecarSetScene, 'target'>): boolean {
  return hotSidecars(target, pod).some(({ state }) => state === 'swapping');
}

/** Ready, or unready for other reasons than its sidecars: the update has not made it so, and cannot end that. */
function isThrough({ pod, isSidecarReady }: ClassifiedPod, { target }: SidecarSetScene): boolean {
  if (isSidecarReady) return true;
  const sidecars = new Set((target.content.containers ?? []).flatMap(namesInPod));
  const states = pod.status?.containerStatuses ?? [];
  return states.filter(({ name }) => sidecars.has(name)).every(({ ready }) => ready);
}

/** Why a pod that was chosen is not updated now. */
const stopTexts: Readonly<Record<UpdateStop, string>> = {
  done: 'it is not to be updated any more',
  started: 'it is not to be updated any more',
  pausedBySpec: 'the SidecarSet is paused',
  pausedByOperator: 'the roll-out is paused',
  noPermit: 'the roll-out has no permit',
  batchFull: 'too many pods begin at once',
  budget: 'the budget has no room for it',
  imageNotReady: 'its new images are not on enough nodes',
  failing: 'too many updates get no answer',
  refused: 'updates of other pods were refused',
};
