// The swap of hot-upgrade sidecars: when the old container becomes the idle one, and how a swap is cancelled (SHU-40 ff.).

import type { Pod } from '../../api/core/pod.ts';
import type { PodWrite } from '../fleet/in-place/update.ts';
import { updateBudget } from './budget.ts';
import type { ClassifiedPod } from './classify.ts';
import { cancelMarks, type HotSidecar, hotSidecars, idleMarks, type SwapTarget, workingMark } from './hot.ts';
import { byPlace } from './order.ts';
import { consistencyOf, imageOf, isRunningAndReady, namesInPod } from './pods.ts';
import type { SidecarTarget } from './target.ts';
import { hashMarks, updateRecord } from './update-marks.ts';
import { imagesWrite } from './write.ts';

export { type HotSidecar, hotSidecars, type SwapTarget } from './hot.ts';

/** Why a reset has to wait. */
export type ResetWait =
  /** SHU-40 (b): the kubelet has not finished with these containers. */
  | { readonly reason: 'Inconsistent'; readonly containers: readonly string[] }
  /** SHU-40 (c): the pod is not Ready, and these containers are not. */
  | { readonly reason: 'NotReady'; readonly containers: readonly string[] }
  /** These containers are marked as working but have the empty image: the others are the ones that serve. */
  | { readonly reason: 'WorkingIsEmpty'; readonly containers: readonly string[] };

export type ResetDecision =
  /** SHU-40 (a) is false: every idle container has the empty image. */
  | { readonly kind: 'none' }
  | { readonly kind: 'wait'; readonly waits: readonly ResetWait[] }
  /** `isSwap` false: only empty images change, which goes under maxUnavailable (`emptyImagesToRoll`). */
  | { readonly kind: 'due'; readonly containers: readonly string[]; readonly isSwap: boolean };

/**
 * Whether containers of a managed pod are to become idle (SHU-40). SidecarSets that are paused or of type NotUpdate reset
 * nothing (SHU-43), which is left to the caller.
 */
export function resetDecision(target: SwapTarget, pod: Pod): ResetDecision {
  const hot = hotSidecars(target, pod);
  const due = hot.filter(({ state }) => state !== 'idle');
  if (due.length === 0) return { kind: 'none' };
  const waits = resetWaits(target, pod, hot);
  if (waits.length > 0) return { kind: 'wait', waits };
  return {
    kind: 'due',
    containers: due.map(({ idle }) => idle),
    isSwap: due.some(({ state }) => state === 'swapping'),
  };
}

function resetWaits({ setName, content }: SwapTarget, pod: Pod, hot: readonly HotSidecar[]): readonly ResetWait[] {
  const idle = new Set(hot.map((sidecar) => sidecar.idle));
  const others = (content.containers ?? []).flatMap(namesInPod).filter((name) => !idle.has(name));
  const areConsistent = consistencyOf(pod, [setName]);
  const isFinished = areConsistent((name) => others.includes(name));
  const unfinished = others.filter((name) => !areConsistent((container) => container === name));
  const notReady = (pod.status?.containerStatuses ?? [])
    .filter(({ name, ready }) => !ready && !idle.has(name))
    .map(({ name }) => name);
  const empty = hot
    .filter(({ state, working, emptyImage }) => state === 'swapping' && imageOf(pod, working) === emptyImage)
    .map(({ working }) => working);
  return [
    ...(isFinished
      ? []
      : [{ reason: 'Inconsistent' as const, containers: unfinished.length > 0 ? unfinished : others }]),
    ...(isRunningAndReady(pod) || notReady.length === 0 ? [] : [{ reason: 'NotReady' as const, containers: notReady }]),
    ...(empty.length === 0 ? [] : [{ reason: 'WorkingIsEmpty' as const, containers: empty }]),
  ];
}

/** A write of a swap, to be sent like a `SidecarWrite`, and the containers that get the empty image. */
export interface SwapWrite {
  readonly write: PodWrite;
  readonly containers: readonly string[];
}

/** The write of a reset (SHU-41); undefined: none is due. */
export function resetWrite(target: SwapTarget, pod: Pod, now: string): SwapWrite | undefined {
  if (resetDecision(target, pod).kind !== 'due') return undefined;
  const due = hotSidecars(target, pod).filter(({ state }) => state !== 'idle');
  const emptied = due.map(({ idle, emptyImage }) => ({ name: idle, image: emptyImage }));
  const containers = due.map(({ idle }) => idle);
  const marks = Object.assign({}, ...due.map(idleMarks));
  const annotations = { ...marks, ...updateRecord(target, pod, containers, now) };
  return { write: imagesWrite(pod, emptied, annotations), containers };
}

/**
 * The write that cancels the swaps of a pod: the containers with the new image get the empty one, those before work again
 * (SHU-61, 8.1). Undefined: no swap is going on. `back`: the content that the pod is marked with afterwards; absent: its
 * hash stays.
 */
export function cancelWrite(target: SwapTarget, pod: Pod, now: string, back?: SidecarTarget): SwapWrite | undefined {
  const swapping = hotSidecars(target, pod).filter(
    ({ state, working, emptyImage }) => state === 'swapping' && imageOf(pod, working) !== emptyImage,
  );
  if (swapping.length === 0) return undefined;
  const emptied = swapping.map(({ working, emptyImage }) => ({ name: working, image: emptyImage }));
  const containers = swapping.map(({ working }) => working);
  const marks = swapping.map(({ working, idle }) => cancelMarks(pod, { target: working, twin: idle }));
  const annotations = {
    ...Object.assign({}, ...marks),
    ...workingMark(pod, new Map(swapping.map(({ name, idle }) => [name, idle]))),
    ...updateRecord(target, pod, containers, now, containers),
    ...(back && hashMarks(back, pod, now)),
  };
  return { write: imagesWrite(pod, emptied, annotations), containers };
}

/**
 * The pods whose empty images may be changed now, by namespace and name (SHU-68, SHU-69): within maxUnavailable, to which
 * updated pods that are down count, and pods whose idle container is being restarted with the empty image.
 */
export function emptyImagesToRoll(
  target: SidecarTarget,
  managed: readonly ClassifiedPod[],
  isSkipped: (pod: ClassifiedPod) => boolean = () => false,
): readonly ClassifiedPod[] {
  const { most, spentBy } = updateBudget(target, managed, isSkipped);
  const down = new Set([...spentBy, ...managed.filter((one) => !isSkipped(one) && isIdleDown(target, one.pod))]);
  const due = managed.filter(({ pod }) => {
    const decision = resetDecision(target, pod);
    return decision.kind === 'due' && !decision.isSwap;
  });
  let room = most - down.size;
  return due.toSorted(byPlace).filter((one) => !isRunningAndReady(one.pod) || down.has(one) || room-- > 0);
}

/** Whether an idle container with the empty image does not run yet. */
function isIdleDown(target: SidecarTarget, pod: Pod): boolean {
  const areConsistent = consistencyOf(pod, [target.setName]);
  return hotSidecars(target, pod).some(({ idle, state }) => {
    const status = pod.status?.containerStatuses?.find(({ name }) => name === idle);
    return state === 'idle' && !(status?.ready === true && areConsistent((name) => name === idle));
  });
}
