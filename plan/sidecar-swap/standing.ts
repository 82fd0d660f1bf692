/**
 * How far the swap of the hot-upgrade sidecars that a pod has of one SidecarSet is, and what the kubelet is waited for
 * (SHU-30 to SHU-45, SHU-61, SHU-68). All of it is read from the pod, so a swap that OpenKruise or a lost run has begun is
 * continued.
 */

import { goDurationMs } from '../../api/base/go-duration.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type SwapWaitReason, swapAnnotation, swapWaits } from '../../api/sidecar-set/swap.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { type Wait, waitFor } from '../decision.ts';
import { containerTrouble, joinedDetails, podTrouble } from '../pod-trouble.ts';
import { isConsistent, recordedAt, wasUpdated } from '../sidecar-set/pods.ts';
import { type HotSidecar, hotSidecars, type ResetWait, resetDecision } from '../sidecar-set/swap.ts';
import type { SidecarTarget } from '../sidecar-set/target.ts';
import { sidecarChange } from '../sidecar-set/write.ts';
import { shortened } from '../text-size.ts';
import { backOffUntil } from './back-off.ts';
import type { OpenSwap, SwapGoal, SwapLook, SwapSlot, SwapStage, SwapStep } from './model.ts';

export interface SwapScene {
  readonly set: SidecarSet;
  /** What the pod is to become. */
  readonly target: SidecarTarget;
  /** A managed pod of the SidecarSet. */
  readonly pod: Pod;
  readonly nowMs: number;
}

/** What a look finds. `wait`: what the kubelet is waited for. */
export interface SwapStanding {
  readonly look: SwapLook;
  readonly wait?: Wait;
}

/** How far the swap is. */
export function swapStanding(scene: SwapScene): SwapStanding {
  const { target, pod } = scene;
  const hot = hotSidecars(target, pod);
  const reset = resetDecision(target, pod);
  // what serves is not replaced before the old container is idle (8.5)
  if (reset.kind === 'due') return { look: open(scene, 'reset', newIn(pod, hot), emptied(hot, reset.containers)) };

  const begin = beginOf(scene, hot);
  if (begin) return { look: begin };
  if (reset.kind === 'wait') {
    const incoming = newIn(pod, hot);
    return { look: open(scene, 'starting', incoming, toEmpty(hot)), wait: kubeletWait(pod, reset.waits, incoming) };
  }
  // The idle containers of a new pod start with it.
  if (!wasUpdated(pod, target.setName) || isIdle(scene, hot)) return { look: { kind: 'done' } };
  const idle = hot.map(({ idle: container, emptyImage: image }) => ({ container, image }));
  const names = idle.map(({ container }) => container);
  return { look: open(scene, 'resetting', [], idle), wait: wait(pod, 'IdleNotReported', names) };
}

/** Whether the kubelet runs all that was written, and the idle containers are ready. */
function isIdle({ set, target, pod }: SwapScene, hot: readonly HotSidecar[]): boolean {
  const isUp = ({ idle }: HotSidecar) =>
    pod.status?.containerStatuses?.find(({ name }) => name === idle)?.ready === true;
  return isConsistent({ ...set, spec: { ...set.spec, ...target.content } }, pod) && hot.every(isUp);
}

/** The new images are to be written, if they are images of hot-upgrade sidecars. */
function beginOf(scene: SwapScene, hot: readonly HotSidecar[]): OpenSwap | undefined {
  const { target, pod } = scene;
  const change = sidecarChange(target, pod);
  if (change.kind !== 'change') return undefined;
  const changed = change.containers.filter((container) => container.hot !== undefined);
  if (changed.length === 0) return undefined;
  const incoming = changed.map(({ name, image }) => ({ container: name, image }));
  const outgoing = changed.flatMap(({ name, hot: step }) => {
    const sidecar = hot.find((one) => one.name === step?.sidecar);
    if (sidecar === undefined || step?.step !== 'upgrade') return [];
    const twin = name === sidecar.working ? sidecar.idle : sidecar.working;
    return [{ container: twin, image: sidecar.emptyImage }];
  });
  return open(scene, 'begin', incoming, outgoing);
}

/** The most containers of each list, and the bytes of an image: a look fits into a payload. */
const mostSlots = 8;
const longestImageBytes = 120;

function open(
  { set, target, pod, nowMs }: SwapScene,
  stage: SwapStage,
  incoming: readonly SwapSlot[],
  outgoing: readonly SwapSlot[],
): OpenSwap {
  const annotations = set.metadata.annotations ?? {};
  const begunAt = stage === 'begin' ? undefined : updatedAt(pod, target.setName);
  const deadlineMs = goDurationMs(annotations[swapAnnotation.deadline] ?? '');
  const isHeld = stage === 'begin' && annotations[swapAnnotation.despiteBackOff] !== 'true';
  const until = isHeld ? backOffUntil(pod, [...incoming, ...outgoing], nowMs) : undefined;
  return {
    ...{ kind: 'open', stage, incoming: shown(incoming), outgoing: shown(outgoing), target: target.hashes.whole },
    ...(begunAt !== undefined && { begunAt }),
    ...(deadlineMs !== undefined && deadlineMs > 0 && { deadlineMs }),
    ...(until !== undefined && { backOffUntil: until }),
  };
}

function shown(slots: readonly SwapSlot[]): readonly SwapSlot[] {
  return slots
    .slice(0, mostSlots)
    .map(({ container, image }) => ({ container, image: shortened(image, longestImageBytes) }));
}

/** When the pod was last marked with a content of the SidecarSet. */
function updatedAt(pod: Pod, setName: string): string | undefined {
  const at = recordedAt(pod, setName);
  return Number.isNaN(Date.parse(at ?? '')) ? undefined : at;
}

/** The containers whose new images are to serve. */
function newIn({ spec }: Pod, hot: readonly HotSidecar[]): readonly SwapSlot[] {
  return hot
    .filter(({ state }) => state === 'swapping')
    .map(({ working }) => ({
      container: working,
      image: spec.containers.find(({ name }) => name === working)?.image ?? '',
    }));
}

function toEmpty(hot: readonly HotSidecar[]): readonly SwapSlot[] {
  return hot
    .filter(({ state }) => state !== 'idle')
    .map(({ idle, emptyImage }) => ({ container: idle, image: emptyImage }));
}

function emptied(hot: readonly HotSidecar[], containers: readonly string[]): readonly SwapSlot[] {
  return toEmpty(hot).filter(({ container }) => containers.includes(container));
}

/** What the kubelet is waited for before the old containers are emptied (SHU-40). */
function kubeletWait(pod: Pod, waits: readonly ResetWait[], incoming: readonly SwapSlot[]): Wait {
  const isNew = (name: string) => incoming.some(({ container }) => container === name);
  const missing = waits.flatMap(({ reason, containers }) => (reason === 'Inconsistent' ? containers : []));
  const unready = waits.flatMap(({ reason, containers }) => (reason === 'NotReady' ? containers : []));
  const empty = waits.flatMap(({ reason, containers }) => (reason === 'WorkingIsEmpty' ? containers : []));
  if (empty.length > 0) return wait(pod, 'WorkingIsEmpty', empty);
  const stuck = [...missing, ...unready].filter((name) => isNew(name) && containerTrouble(pod, name) !== undefined);
  if (stuck.length > 0) return wait(pod, 'ContainerNotReady', stuck);
  if (missing.length > 0) return wait(pod, 'ContainerNotReported', missing);
  const ours = unready.filter(isNew);
  return ours.length > 0 ? wait(pod, 'ContainerNotReady', ours) : wait(pod, 'PodNotReady', unready);
}

function wait(pod: Pod, reason: SwapWaitReason, containers: readonly string[]): Wait {
  const unblock = joinedDetails(swapWaits[reason], podTrouble(pod, containers));
  const blockedBy = containers.map((name) => `container/${name}`);
  return waitFor(reason, blockedBy, unblock);
}

/** Whether a step that is handed in is to be written. */
export type StepStanding =
  | { readonly kind: 'due' }
  /** Not yet; the kubelet is waited for. */
  | { readonly kind: 'early' }
  | { readonly kind: 'written' }
  | { readonly kind: 'nothing'; readonly why: string };

/** What is left to do for a step, by how far the swap is. */
export function stepStanding(step: SwapStep, look: SwapLook): StepStanding {
  if (look.kind === 'gone') return { kind: 'nothing', why: look.why };
  const stage = look.kind === 'done' ? 'done' : look.stage;
  return standings[step][stage];
}

const serves = { kind: 'nothing', why: 'the new version serves' } as const;
const other = { kind: 'nothing', why: 'another image is to be written' } as const;

const standings: Readonly<Record<SwapStep, Readonly<Record<SwapStage | 'done', StepStanding>>>> = {
  begin: {
    begin: { kind: 'due' },
    starting: { kind: 'written' },
    reset: { kind: 'written' },
    resetting: { kind: 'written' },
    done: { kind: 'nothing', why: 'its sidecars run what they should' },
  },
  reset: {
    begin: other,
    starting: { kind: 'early' },
    reset: { kind: 'due' },
    resetting: { kind: 'written' },
    done: { kind: 'written' },
  },
  cancel: {
    begin: other,
    starting: { kind: 'due' },
    reset: serves,
    resetting: { kind: 'written' },
    done: { kind: 'written' },
  },
};

/** Whether the kubelet has done what is waited for; undefined: not yet. */
export function goalStanding(until: SwapGoal, look: SwapLook): 'reached' | 'changed' | undefined {
  if (look.kind === 'gone') return 'changed';
  if (look.kind === 'done') return until === 'idle' ? 'reached' : 'changed';
  const [goal, meanwhile] = until === 'ready' ? (['reset', 'starting'] as const) : ([undefined, 'resetting'] as const);
  if (look.stage === goal) return 'reached';
  return look.stage === meanwhile ? undefined : 'changed';
}
