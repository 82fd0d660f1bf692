/**
 * The swaps of hot-upgrade sidecars in the pods of a SidecarSet: which pods need their operation, and which of the steps
 * that operations have handed in are written now (SHU-40 to SHU-43, SHU-68).
 *
 * The first write of a swap disrupts, so it goes with the other updates, under the permit of the roll-out. What follows is
 * upkeep: it is done whatever the partition, the selector and the budget say (SHU-42). An empty image that has changed rolls
 * within the budget.
 */
import type { Pod } from '../../api/core/pod.ts';
import { imageStartsAnnotation, type SwapWaitReason, swapWaits } from '../../api/sidecar-set/swap.ts';
import { isHotUpgrade } from '../../api/sidecar-set/types.ts';
import { type Wait, waitFor } from '../decision.ts';
import type { PodWrite } from '../fleet/in-place/update.ts';
import { asSeen } from '../fleet/pods.ts';
import { imageStartsAfter } from '../sidecar-swap/back-off.ts';
import type { SwapStep } from '../sidecar-swap/model.ts';
import { swapStanding } from '../sidecar-swap/standing.ts';
import type { ClassifiedPod } from './classify.ts';
import type { SidecarSetStep, SwapPlan } from './input.ts';
import { classifiedPods, isSkipped, isUpdating, podRef, type SidecarSetScene } from './scene.ts';
import { cancelWrite, emptyImagesToRoll, hotSidecars, resetDecision, resetWrite } from './swap.ts';
import type { SidecarTarget } from './target.ts';
import { decisionOf, type FreshWrite, fitting, type UpdatePlan } from './update.ts';
import { annotated, notingRestarts } from './update-marks.ts';
import { sidecarWrite } from './write.ts';

/** Decides about the swaps, after the updates of this pass. */
export function planSwaps(scene: SidecarSetScene, update: UpdatePlan): SwapPlan {
  const { target, input, now } = scene;
  const handedIn = input.swaps ?? new Map<string, SwapStep>();
  const none = { target: target.hashes.whole, wanted: [], steps: [], waits: new Map(), nothing: new Map() };
  if (!(target.content.containers ?? []).some(isHotUpgrade)) return none;

  const isHeld = !isUpdating(scene) || scene.owner.spec.updateStrategy?.paused === true;
  const rolls = new Set(isHeld ? [] : emptyImagesToRoll(target, scene.pods, (found) => isSkipped(found, scene)));
  const begins = new Set(update.swaps);
  const isWanted = (found: ClassifiedPod) => begins.has(found) || rolls.has(found) || isUnderWay(scene, found);
  const wanted = isUpdating(scene) ? scene.pods.filter(isWanted).map(({ pod }) => pod) : [];
  const steps: SidecarSetStep[] = [];
  const waits = new Map<string, Wait>();
  const nothing = new Map<string, string>();

  for (const found of scene.pods) {
    const { pod } = found;
    const { uid } = pod.metadata;
    const step = handedIn.get(uid);
    if (step === undefined) continue;
    if (isHeld) waits.set(uid, wait('Paused', pod));
    else if (step === 'begin') judgeBegin(pod, update, { waits, nothing });
    else if (step === 'reset' && isEmptyImage(scene, pod) && !rolls.has(found))
      waits.set(uid, wait('NotPermitted', pod));
    else if (emptying(scene, pod, step, now) !== undefined)
      steps.push({ kind: 'swapSidecars', pod: asSeen(pod), step });
  }
  return { ...none, wanted, steps, waits, nothing };
}

/** A swap that has begun and not ended; that of an empty image alone is counted when it is its turn. */
function isUnderWay({ owner, target, input: { nowMs } }: SidecarSetScene, found: ClassifiedPod): boolean {
  const { pod } = found;
  if (found.isConsistent && !hasOtherImage(target, pod)) return false;
  const { look } = swapStanding({ set: owner, target, pod, nowMs });
  return look.kind === 'open' && look.stage !== 'begin' && !isEmptyImage({ target }, pod);
}

/** Whether an idle container has another image than the present empty one. */
function hasOtherImage(target: SidecarTarget, pod: Pod): boolean {
  return hotSidecars(target, pod).some(({ state }) => state !== 'idle');
}

/** Whether nothing but the empty image is to be changed (SHU-68, SHU-69). */
function isEmptyImage({ target }: Pick<SidecarSetScene, 'target'>, pod: Pod): boolean {
  const decision = resetDecision(target, pod);
  return decision.kind === 'due' && !decision.isSwap;
}

/** A first write that is not part of the updates of this pass. */
function judgeBegin(
  pod: Pod,
  { disruption, demand, swaps, refused }: UpdatePlan,
  { waits, nothing }: { readonly waits: Map<string, Wait>; readonly nothing: Map<string, string> },
): void {
  const { uid } = pod.metadata;
  const isWritten = disruption.some((step) => step.kind === 'swapSidecars' && step.pod.uid === uid);
  if (isWritten) return;
  if (refused.some((found) => found.pod === pod)) {
    nothing.set(uid, 'its update was refused, and is tried in dry runs');
    return;
  }
  const isInLine = demand.line.some((found) => found.pod === pod) || swaps.some((found) => found.pod === pod);
  if (isInLine) waits.set(uid, wait('NotPermitted', pod));
  else nothing.set(uid, 'the SidecarSet does not update this pod now');
}

function wait(reason: SwapWaitReason, pod: Pod): Wait {
  return waitFor(reason, [podRef({ pod })], swapWaits[reason]);
}

function emptying({ target }: SidecarSetScene, pod: Pod, step: Exclude<SwapStep, 'begin'>, now: string) {
  return step === 'reset' ? resetWrite(target, pod, now) : cancelWrite(target, pod, now);
}

/** The write of a step for a pod as it is now. */
export function freshSwap(scene: SidecarSetScene, live: Pod, step: SwapStep): FreshWrite {
  if (step !== 'begin') {
    const emptied = emptying(scene, live, step, scene.now);
    return emptied ? fitting(live, remembering(live, emptied.write, emptied.containers, scene)) : nothing;
  }
  const [found] = classifiedPods(scene, [live]);
  if (found?.place.kind !== 'waiting') return nothing;
  const write = sidecarWrite(scene.target, live, scene.now);
  if (write.kind === 'impossible') return write;
  if (write.kind !== 'write' || decisionOf(write).kind !== 'swap') return nothing;
  const changed = write.containers.map(({ name }) => name);
  const cold = write.containers.filter(({ hot }) => hot === undefined).map(({ name }) => name);
  const noted = cold.length === 0 ? write.write : notingRestarts(write.write, live, cold, scene.now);
  return fitting(live, remembering(live, noted, changed, scene));
}

const nothing = { kind: 'nothing' } as const;

/** With since when the kubelet counts the images that are replaced. */
function remembering(live: Pod, write: PodWrite, containers: readonly string[], { input }: SidecarSetScene): PodWrite {
  const starts = imageStartsAfter(live, containers, input.nowMs);
  return starts === undefined ? write : annotated(write, { [imageStartsAnnotation]: starts });
}
