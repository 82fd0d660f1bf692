// What one write of a pod carries (SCS-185 to SCS-188, SCS-81, SHU-30 to SHU-35).
//
// Images and annotations go into a single patch: a container that starts because of it reads versions that belong to its
// image (SHU-84).

import { launchPriority } from '../../api/container-launch-priority.ts';
import { isActive, type Pod } from '../../api/core/pod.ts';
import { InjectionError } from '../../api/sidecar-set/injection/failure.ts';
import { type Annotations, patchedAnnotations } from '../../api/sidecar-set/injection/metadata.ts';
import { hashAnnotation, hotMark } from '../../api/sidecar-set/marks.ts';
import { textOf } from '../../api/sidecar-set/read.ts';
import { isHotUpgrade } from '../../api/sidecar-set/types.ts';
import type { PodWrite } from '../fleet/in-place/update.ts';
import { containersInProgress, isUpgradable } from './classify.ts';
import {
  cancelMarks,
  type HotChoice,
  type HotSidecar,
  hotChoice,
  hotSidecars,
  nextVersion,
  upgradeMarks,
  workingMark,
} from './hot.ts';
import { hasContainers, imageOf, nameOf } from './pods.ts';
import { isAtGoal, type SidecarTarget } from './target.ts';
import { hashMarks, updateRecord } from './update-marks.ts';

/** A container whose image a write changes. */
export interface ChangedContainer {
  readonly name: string;
  readonly image: string;
  /** Of a hot-upgrade sidecar: its name, and what happens to it. Absent: the container is restarted with the new image. */
  readonly hot?: {
    readonly sidecar: string;
    /** `upgrade`: gets the new image. `cancel`: goes back to the empty image, and the other one stays. */
    readonly step: 'upgrade' | 'cancel';
  };
}

/** Why a pod gets no write now. */
type NoWrite =
  /** The pod is at its goal. */
  | { readonly kind: 'nothing' }
  /** The kubelet, or a swap, has to finish with these containers first. */
  | { readonly kind: 'inProgress'; readonly containers: readonly string[]; readonly why: string }
  /** No write can update this pod as it is. */
  | { readonly kind: 'impossible'; readonly why: string };

/** What an update changes. `containers` in launch order; empty: only annotations change (SCS-188). */
export type SidecarChange = { readonly kind: 'change'; readonly containers: readonly ChangedContainer[] } | NoWrite;

export type SidecarWrite =
  /**
   * One strategic merge patch of the pod, to be sent with the UID and the resourceVersion of the pod that was read. After a
   * conflict read and decide again.
   */
  { readonly kind: 'write'; readonly write: PodWrite; readonly containers: readonly ChangedContainer[] } | NoWrite;

/** What the update of a pod changes. For plans: it takes a trimmed pod, and costs less than the write. */
export function sidecarChange(target: SidecarTarget, pod: Pod): SidecarChange {
  const choices = choicesOf(target, pod);
  return choices.kind === 'choices' ? { kind: 'change', containers: choices.containers } : choices;
}

/** The write that updates a pod. `pod` is freshly read and untrimmed; `now` is RFC 3339 with whole seconds. */
export function sidecarWrite(target: SidecarTarget, pod: Pod, now: string): SidecarWrite {
  const choices = choicesOf(target, pod);
  if (choices.kind !== 'choices') return choices;
  const { containers, hot } = choices;
  const marks = hotMarks(target, pod, hot);
  if (marks === undefined) return { kind: 'impossible', why: noVersion };
  const patched = metadataPatches(target, pod);
  if ('why' in patched) return { kind: 'impossible', why: patched.why };
  const cancelled = containers.filter((container) => container.hot?.step === 'cancel').map(({ name }) => name);
  const names = containers.map(({ name }) => name);
  const annotations = {
    ...patched.annotations,
    ...marks,
    ...updateRecord(target, pod, names, now, cancelled),
    ...hashMarks(target, pod, now),
  };
  return { kind: 'write', write: imagesWrite(pod, containers, annotations), containers };
}

interface Choices {
  readonly kind: 'choices';
  readonly containers: readonly ChangedContainer[];
  readonly hot: readonly { readonly sidecar: HotSidecar; readonly choice: HotChoice }[];
}

function choicesOf(target: SidecarTarget, pod: Pod): Choices | NoWrite {
  if (isAtGoal(target, pod)) return { kind: 'nothing' };
  const obstacle = obstacleOf(target, pod);
  if (obstacle !== undefined) return { kind: 'impossible', why: obstacle };
  const unfinished = containersInProgress(target, pod);
  if (unfinished.length > 0) {
    return { kind: 'inProgress', containers: unfinished, why: 'the kubelet has not finished their last update' };
  }
  const hot = hotSidecars(target, pod).map((sidecar) => ({ sidecar, choice: hotChoice(target, pod, sidecar) }));
  const held = hot.flatMap(({ choice }) => (choice.kind === 'resetFirst' ? [choice.idle] : []));
  if (held.length > 0) return { kind: 'inProgress', containers: held, why: resetFirst };
  // The marks that say so are all that a plan has of a pod; what else keeps it from being written shows when it is read.
  const isLast = ({ sidecar, choice }: (typeof hot)[number]) =>
    choice.kind === 'upgrade' && nextVersion(target, pod, sidecar) === undefined;
  if (hot.some(isLast)) return { kind: 'impossible', why: noVersion };
  const changed = [...changedCold(target, pod), ...hot.flatMap(({ sidecar, choice }) => changedHot(sidecar, choice))];
  return { kind: 'choices', containers: inLaunchOrder(pod, changed), hot };
}

const noVersion = `annotations ${hotMark.version}* have no greater number of 64 bits`;

const resetFirst =
  'it has the image that is wanted again, but the other container has taken over: it must become idle first. ' +
  'If the swap does not end, give the sidecar an image that neither of them has, or delete the pod';

/** Why no write can update the pod. */
function obstacleOf(target: SidecarTarget, pod: Pod): string | undefined {
  if (!isActive(pod)) return 'the pod is completed or being deleted';
  if (!hasContainers({ spec: target.content }, pod)) {
    return `the pod lacks containers of SidecarSet ${target.setName}, or their entries in annotation ${hotMark.working}`;
  }
  if (!isUpgradable(target, pod)) {
    return `annotation ${hashAnnotation.withoutImage}: more than images differs from SidecarSet ${target.setName}`;
  }
  return undefined;
}

function changedCold({ content }: SidecarTarget, pod: Pod): readonly ChangedContainer[] {
  return (content.containers ?? [])
    .filter((sidecar) => !isHotUpgrade(sidecar))
    .map((sidecar) => ({ name: nameOf(sidecar), image: textOf(sidecar.image) }))
    .filter(({ name, image }) => image !== '' && image !== imageOf(pod, name));
}

function changedHot({ name, image, emptyImage }: HotSidecar, choice: HotChoice): readonly ChangedContainer[] {
  if (choice.kind !== 'upgrade' && choice.kind !== 'cancel') return [];
  const { kind: step, target } = choice;
  return [{ name: target, image: step === 'upgrade' ? image : emptyImage, hot: { sidecar: name, step } }];
}

/** The marks of all hot-upgrade sidecars that change; undefined: there is no version for one of them. */
function hotMarks(target: SidecarTarget, pod: Pod, hot: Choices['hot']): Annotations | undefined {
  let marks: Annotations = {};
  const working = new Map<string, string>();
  for (const { sidecar, choice } of hot) {
    if (choice.kind === 'upgrade') {
      const version = nextVersion(target, pod, sidecar);
      if (version === undefined) return undefined;
      marks = { ...marks, ...upgradeMarks(pod, choice, version) };
      working.set(sidecar.name, choice.target);
    }
    if (choice.kind === 'cancel') {
      marks = { ...marks, ...cancelMarks(pod, choice) };
      working.set(sidecar.name, choice.twin);
    }
  }
  return { ...marks, ...workingMark(pod, working) };
}

/** The annotations of `patchPodMetadata` (SCS-81). */
function metadataPatches(
  { content }: SidecarTarget,
  pod: Pod,
): { readonly annotations: Annotations } | { readonly why: string } {
  try {
    return { annotations: patchedAnnotations(pod.metadata.annotations ?? {}, content) };
  } catch (error) {
    if (error instanceof InjectionError) return { why: error.message };
    // What is nested too deeply to be merged overflows the stack.
    return { why: 'annotations of patchPodMetadata cannot be merged: their JSON is nested too deeply' };
  }
}

/** One write of images and annotations; of annotations only those that differ. */
export function imagesWrite(
  pod: Pod,
  containers: readonly Pick<ChangedContainer, 'name' | 'image'>[],
  annotations: Annotations,
): PodWrite {
  const present = pod.metadata.annotations ?? {};
  const differing = Object.entries(annotations).filter(
    ([key, value]) => !Object.hasOwn(present, key) || present[key] !== value,
  );
  return {
    kind: 'pod',
    patch: {
      metadata: { annotations: Object.fromEntries(differing) },
      ...(containers.length > 0 && { spec: { containers: containers.map(({ name, image }) => ({ name, image })) } }),
    },
  };
}

/** By launch priority, then in the order of the pod. Containers without one do not wait for others. */
function inLaunchOrder(pod: Pod, changed: readonly ChangedContainer[]): readonly ChangedContainer[] {
  const places = new Map(pod.spec.containers.map((container, index) => [container.name, { container, index }]));
  const rankOf = ({ name }: ChangedContainer) => {
    const { container, index } = places.get(name) ?? { container: {}, index: 0 };
    return { priority: launchPriority(container) ?? Number.POSITIVE_INFINITY, index };
  };
  return changed
    .map((one) => ({ one, rank: rankOf(one) }))
    .toSorted(({ rank: left }, { rank: right }) => {
      if (left.priority !== right.priority) return right.priority > left.priority ? 1 : -1;
      return left.index - right.index;
    })
    .map(({ one }) => one);
}
