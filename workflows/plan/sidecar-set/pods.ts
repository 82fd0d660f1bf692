// The pods of a SidecarSet, and the state of each (SCS-6, SCS-116, SCS-153, SCS-190).

import { entryOf, isJsonObject, type Json, type JsonObject, objectOr } from '../../../api/base/json.ts';
import { perObject } from '../../../api/base/per-object.ts';
import { subdomainProblem } from '../../../api/core/label-syntax.ts';
import { type ContainerStatus, isActive, isMirrorPod, type Pod } from '../../../api/core/pod.ts';
import { selectsPod } from '../../../api/sidecar-set/injection/choose.ts';
import { hashAnnotation, hotMark, injectedListAnnotation, restartsAnnotation } from '../../../api/sidecar-set/marks.ts';
import { imageStartsAnnotation } from '../../../api/sidecar-set/swap.ts';
import {
  hotPair,
  isHotUpgrade,
  type SidecarContainer,
  type SidecarContent,
  type SidecarSet,
} from '../../../api/sidecar-set/types.ts';

type Labels = Readonly<Record<string, string>>;

/** The name of a SidecarSet and its sidecars: of its spec, or of a stored revision. */
export interface NamedSidecars {
  readonly metadata: { readonly name: string };
  readonly spec: Pick<SidecarContent, 'containers'>;
}

/** Annotation of pods: the images before updates in place, by SidecarSet. */
export const updateStateAnnotation = 'kruise.io/sidecarset-inplace-update-state';

/** The annotations that say which SidecarSets a pod has, and what of them. */
export const sidecarAnnotations: readonly string[] = [
  ...[hashAnnotation.whole, hashAnnotation.withoutImage, injectedListAnnotation],
  ...[hotMark.working, updateStateAnnotation, imageStartsAnnotation, restartsAnnotation],
];

/** Characters of the list of SidecarSets of a pod, and the most names that are read in it. */
export const longestList = 16 * 1024;
export const mostListed = 64;

/** Characters of each other of these annotations: 64 SidecarSets, or as many containers, fill half of it. */
export const longestMark = 64 * 1024;

/** The list of a cached pod of which a mark is longer. It names no SidecarSet. */
export const unreadList = '!';

/** The SidecarSets that a pod lists. */
export function listedSets({ metadata }: Pod): readonly string[] {
  const text = metadata.annotations?.[injectedListAnnotation] ?? '';
  if (text.length > longestList) return [];
  const names = text.split(',').filter((name) => subdomainProblem(name) === undefined);
  return [...new Set(names)].slice(0, mostListed);
}

/** Whether a mark of SidecarSets is too long to be read. Such a pod has none: a mark must not count as absent by itself. */
export function hasLongMark({ metadata }: Pick<Pod, 'metadata'>): boolean {
  const { annotations = {} } = metadata;
  if (annotations[injectedListAnnotation] === unreadList) return true;
  return sidecarAnnotations.some((key) => (annotations[key]?.length ?? 0) > longestOf(key));
}

function longestOf(annotation: string): number {
  return annotation === injectedListAnnotation ? longestList : longestMark;
}

/** Whether the SidecarSet manages the pod (SCS-6). A static pod would never get ready by an update of its mirror. */
export function isManaged(set: SidecarSet, pod: Pod, namespaceLabels: Labels | undefined): boolean {
  return (
    isActive(pod) &&
    !isMirrorPod(pod) &&
    !hasLongMark(pod) &&
    listedSets(pod).includes(set.metadata.name) &&
    selectsPod(set, { labels: pod.metadata.labels ?? {}, namespaceLabels }) &&
    hasContainers(set, pod)
  );
}

/** Whether the pod has every container of the SidecarSet. */
export function hasContainers({ spec }: Pick<NamedSidecars, 'spec'>, pod: Pod): boolean {
  const names = new Set(pod.spec.containers.map(({ name }) => name));
  const working = workingContainers(pod);
  return (spec.containers ?? []).every((sidecar) => {
    const isMarked = !isHotUpgrade(sidecar) || typeof entryOf(working, nameOf(sidecar)) === 'string';
    return isMarked && namesInPod(sidecar).every((name) => names.has(name));
  });
}

/** The hash of the content that the pod has of this SidecarSet, in the present form of the annotation or the old one. */
export function recordedHash(
  pod: Pod,
  setName: string,
  which: keyof typeof hashAnnotation = 'whole',
): string | undefined {
  return recordedContents(pod).get(setName)?.[which];
}

/** The ControllerRevision of that content; undefined: none is recorded. */
export function recordedRevision(pod: Pod, setName: string): string | undefined {
  return recordedContents(pod).get(setName)?.revision;
}

/** When the content that the pod has of this SidecarSet was written; NaN: that is not recorded. */
export function recordedAtMs(pod: Pod, setName: string): number {
  return Date.parse(String(objectOr(entryOf(jsonIn(pod, hashAnnotation.whole), setName)).updateTimestamp));
}

/** What is recorded of the content of a SidecarSet that a pod has. */
interface RecordedContent {
  readonly whole?: string;
  readonly withoutImage?: string;
  readonly revision?: string;
}

function recordedContents(pod: Pod): ReadonlyMap<string, RecordedContent> {
  return marksOf(pod).contents;
}

/** The working containers that a pod names, by hot-upgrade sidecar. */
export function workingContainers(pod: Pod): JsonObject {
  return marksOf(pod).working;
}

/** Whether containers of this SidecarSet were changed in the running pod. */
export function wasUpdated(pod: Pod, setName: string): boolean {
  return Object.hasOwn(marksOf(pod).state, setName);
}

/** The marks of a pod, parsed once for each version of it: every look at a fleet asks about all of its pods. */
const marksOf = perObject((pod: Pod) => ({
  contents: contentsIn(pod),
  working: jsonIn(pod, hotMark.working),
  state: jsonIn(pod, updateStateAnnotation),
}));

function contentsIn(pod: Pod): ReadonlyMap<string, RecordedContent> {
  const contents = new Map<string, RecordedContent>();
  for (const which of ['whole', 'withoutImage'] as const) {
    for (const [setName, entry] of Object.entries(jsonIn(pod, hashAnnotation[which]))) {
      const { hash, controllerRevision: revision } = typeof entry === 'string' ? { hash: entry } : objectOr(entry);
      contents.set(setName, {
        ...contents.get(setName),
        ...(typeof hash === 'string' && { [which]: hash }),
        ...(which === 'whole' && typeof revision === 'string' && revision !== '' && { revision }),
      });
    }
  }
  return contents;
}

/** SCS-153. */
export function isSidecarReady({ spec }: Pick<NamedSidecars, 'spec'>, pod: Pod): boolean {
  if (!isRunningAndReady(pod) || pod.metadata.deletionTimestamp !== undefined) return false;
  const hot = (spec.containers ?? []).filter(isHotUpgrade);
  if (hot.length === 0) return true;
  const working = workingContainers(pod);
  return hot.every((sidecar) => {
    const [first, second] = hotPair(nameOf(sidecar));
    const idle = entryOf(working, nameOf(sidecar)) === first ? second : first;
    return imageOf(pod, idle) === sidecar.upgradeStrategy?.hotUpgradeEmptyImage;
  });
}

/** Whether the kubelet reports the pod as Running and Ready. */
export function isRunningAndReady({ status }: Pod): boolean {
  const isReady = status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True');
  return status?.phase === 'Running' && isReady === true;
}

/** Whether the kubelet reports what the spec of the sidecars says (SCS-190). */
export function isConsistent({ metadata, spec }: NamedSidecars, pod: Pod): boolean {
  const sidecars = new Set((spec.containers ?? []).flatMap(namesInPod));
  return consistencyOf(pod, [metadata.name])((name) => sidecars.has(name));
}

/** The same of all SidecarSets of the pod: of every container that one of them has updated. */
export function isWhollyConsistent(pod: Pod): boolean {
  return consistencyOf(pod, Object.keys(marksOf(pod).state))(() => true);
}

/** The same of these containers, with what these SidecarSets have recorded of them. */
export function consistencyOf(pod: Pod, setNames: readonly string[]): (isMeant: (name: string) => boolean) => boolean {
  const statuses = new Map((pod.status?.containerStatuses ?? []).map((status) => [status.name, status]));
  if (statuses.size !== pod.spec.containers.length) return () => false;
  const records = updateRecords(pod, setNames);
  return (isMeant) => {
    let byDigest = true;
    for (const { name, image = '' } of pod.spec.containers) {
      if (!isMeant(name)) continue;
      const status = statuses.get(name);
      const { image: running = '', imageID = '' } = status ?? {};
      byDigest = byDigest && image.includes('@');
      if (byDigest) {
        if (image !== imageID.replace(/^[^/]*:\/\//, '')) return false;
        continue;
      }
      const record = records.get(name);
      if (record === undefined || record.imageID !== imageID || running === image) continue;
      if (!hasRestarted(pod, status, record)) return false;
    }
    return true;
  };
}

/** What is recorded of a container that a SidecarSet has updated. */
interface UpdateRecord {
  readonly setName: string;
  /** The image before that update. */
  readonly imageID: string;
  /** When the SidecarSet updated a container of the pod for the first time; absent: the record is not complete. */
  readonly since: Json | undefined;
}

function updateRecords(pod: Pod, setNames: readonly string[]): ReadonlyMap<string, UpdateRecord> {
  const records = new Map<string, UpdateRecord>();
  const { state } = marksOf(pod);
  for (const setName of setNames) {
    const { lastContainerStatuses, updateTimestamp } = objectOr(entryOf(state, setName));
    for (const [container, before] of Object.entries(objectOr(lastContainerStatuses))) {
      if (!isJsonObject(before)) continue;
      const imageID = typeof before.imageID === 'string' ? before.imageID : '';
      records.set(container, { setName, imageID, since: updateTimestamp });
    }
  }
  return records;
}

/**
 * Whether the kubelet has restarted a container since its update. Then an image with the same ID as the one before is that
 * of the spec, although the kubelet reports it by another name, such as the one with the registry. The number of restarts says
 * so; of updates by OpenKruise there are only times.
 *
 * Hot-upgrade sidecars are left out (SHU-72): their swap goes on by what this says, and a container that crashes between
 * two writes must not count as the new one.
 */
function hasRestarted(pod: Pod, status: ContainerStatus | undefined, { setName, since }: UpdateRecord): boolean {
  const { generation } = pod.metadata;
  const { observedGeneration } = pod.status ?? {};
  if (observedGeneration !== undefined && generation !== undefined && observedGeneration < generation) return false;
  if (status === undefined || isOfHotPair(pod, status.name)) return false;
  const { updateTimestamp } = objectOr(entryOf(jsonIn(pod, hashAnnotation.whole), setName));
  const { at, restarts } = objectOr(entryOf(jsonIn(pod, restartsAnnotation), status.name));
  if (typeof restarts === 'number' && at === updateTimestamp) return status.restartCount > restarts;
  const startedAtMs = Date.parse(status.state?.running?.startedAt ?? '');
  return [since, updateTimestamp].every((time) => typeof time === 'string' && startedAtMs > Date.parse(time));
}

function isOfHotPair(pod: Pod, container: string | undefined): boolean {
  const names = Object.keys(workingContainers(pod));
  return names.some((name) => hotPair(name).some((twin) => twin === container));
}

/** The names of a container of a SidecarSet in pods. */
export function namesInPod(sidecar: SidecarContainer): readonly string[] {
  const name = nameOf(sidecar);
  return isHotUpgrade(sidecar) ? hotPair(name) : [name];
}

/** The name of a sidecar. */
export function nameOf({ name }: SidecarContainer): string {
  return typeof name === 'string' ? name : '';
}

/** The image in the spec of a container; undefined: the pod has no such container. */
export function imageOf({ spec }: Pod, container: string): string | undefined {
  return spec.containers.find(({ name }) => name === container)?.image;
}

/** An annotation with a map as JSON; empty when it is absent or unreadable. */
export function jsonIn({ metadata }: Pod, annotation: string): JsonObject {
  const text = metadata.annotations?.[annotation];
  if (text === undefined) return {};
  try {
    const parsed: Json = JSON.parse(text);
    return objectOr(parsed);
  } catch {
    return {};
  }
}
