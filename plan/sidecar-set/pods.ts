// The pods of a SidecarSet, and the state of each (SCS-6, SCS-116, SCS-153, SCS-190).

import { entryOf, isJsonObject, type Json, type JsonObject, jsonObjectIn, objectOr } from '../../api/base/json.ts';
import { perObject } from '../../api/base/per-object.ts';
import { subdomainProblem } from '../../api/core/label-syntax.ts';
import { type Container, type ContainerStatus, isActive, isMirrorPod, type Pod } from '../../api/core/pod.ts';
import { selectsPod } from '../../api/sidecar-set/injection/choose.ts';
import { hashAnnotation, hotMark, injectedListAnnotation, restartsAnnotation } from '../../api/sidecar-set/marks.ts';
import { imageStartsAnnotation } from '../../api/sidecar-set/swap.ts';
import {
  hotPair,
  isHotUpgrade,
  type SidecarContainer,
  type SidecarContent,
  type SidecarSet,
} from '../../api/sidecar-set/types.ts';

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

/**
 * Colons, commas and opening brackets of each: a mark is as expensive to parse as it has parts. 64 SidecarSets, or as many
 * containers, need half of them.
 */
export const mostParts = 2_048;

/** Characters of a value in a mark: image IDs are the longest. */
const longestValue = 1_024;

/** The list of a cached pod of which a mark is longer. It names no SidecarSet. */
export const unreadList = '!';

/** The SidecarSets that a pod lists. */
export function listedSets(pod: Pod): readonly string[] {
  return pod.metadata.annotations?.[injectedListAnnotation] === undefined ? [] : marksOf(pod).listed;
}

/** Whether a mark of SidecarSets is too long to be read. Such a pod has none: a mark must not count as absent by itself. */
export function hasLongMark(pod: Pod): boolean {
  return hasMarks(pod) && marksOf(pod).isLong;
}

/** Whether the pod has any mark of SidecarSets. */
export function hasMarks({ metadata: { annotations } }: Pod): boolean {
  return annotations !== undefined && sidecarAnnotations.some((key) => annotations[key] !== undefined);
}

/** Whether the annotation is a mark of SidecarSets with a text that is too long to be read. */
export function isLongMark(annotation: string, text: string): boolean {
  if (!sidecarAnnotations.includes(annotation)) return false;
  if (annotation === injectedListAnnotation) return text.length > longestList || text === unreadList;
  return text.length > longestMark || hasManyParts(text);
}

const partSigns: ReadonlySet<number> = new Set([...':,[{'].map((sign) => sign.charCodeAt(0)));

function hasManyParts(text: string): boolean {
  let parts = 0;
  for (let at = 0; at < text.length && parts <= mostParts; at++) if (partSigns.has(text.charCodeAt(at))) parts++;
  return parts > mostParts;
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
  return entryOf(marksOf(pod).maps[hashAnnotation[which]], setName)?.hash;
}

/** The ControllerRevision of that content; undefined: none is recorded. */
export function recordedRevision(pod: Pod, setName: string): string | undefined {
  return recordedContent(pod, setName)?.controllerRevision || undefined;
}

/** When the content that the pod has of this SidecarSet was written; undefined: that is not recorded. */
export function recordedAt(pod: Pod, setName: string): string | undefined {
  return recordedContent(pod, setName)?.updateTimestamp;
}

function recordedContent(pod: Pod, setName: string): RecordedContent | undefined {
  return entryOf(marksOf(pod).maps[hashAnnotation.whole], setName);
}

/** The working containers that a pod names, by hot-upgrade sidecar. */
export function workingContainers(pod: Pod): Readonly<Record<string, string>> {
  return marksOf(pod).maps[hotMark.working];
}

/** When images of containers have begun to run that were replaced since, by container and image. */
export function recordedStarts(pod: Pod): Readonly<Record<string, Readonly<Record<string, string>>>> {
  return marksOf(pod).maps[imageStartsAnnotation];
}

/** Whether containers of this SidecarSet were changed in the running pod. */
export function wasUpdated(pod: Pod, setName: string): boolean {
  return Object.hasOwn(marksOf(pod).maps[updateStateAnnotation], setName);
}

/** The marks of a pod that are read, as annotations that say the same. */
export function readMarks(pod: Pod): Readonly<Record<string, string>> {
  const { listed, maps } = marksOf(pod);
  const texts = { [injectedListAnnotation]: () => listed.join(','), ...mapTexts(maps) };
  const present = Object.entries(texts).filter(([key]) => pod.metadata.annotations?.[key] !== undefined);
  return Object.fromEntries(present.map(([key, text]) => [key, text()]));
}

function mapTexts(maps: Readonly<Record<string, object>>): Readonly<Record<string, () => string>> {
  return Object.fromEntries(Object.entries(maps).map(([key, map]) => [key, () => JSON.stringify(map)]));
}

/** The marks of a pod, parsed once for each version of it: every look at a fleet asks about all of its pods. */
const marksOf = perObject((pod: Pod) => {
  const { annotations = {} } = pod.metadata;
  const listed = namesIn(annotations[injectedListAnnotation] ?? '');
  const isLong = sidecarAnnotations.some((key) => isLongMark(key, annotations[key] ?? ''));
  return { listed, isLong, maps: mapsIn(isLong ? {} : annotations, listed, pod.spec.containers) };
});

function namesIn(list: string): readonly string[] {
  if (list.length > longestList) return [];
  const names = list.split(',').filter((name) => subdomainProblem(name) === undefined);
  return [...new Set(names)].slice(0, mostListed);
}

/** What is recorded of the content of a SidecarSet that a pod has. */
interface RecordedContent {
  readonly hash?: string;
  readonly controllerRevision?: string;
  readonly updateTimestamp?: string;
}

/**
 * What is read of the marks, and nothing else, because anybody may write them: of the SidecarSets that the pod lists, and of
 * the containers that it has.
 */
function mapsIn(annotations: Labels, listed: readonly string[], containers: Pod['spec']['containers']) {
  const sets = new Set(listed);
  const names = new Set(containers.map(({ name }) => name));
  const isListed = (name: string) => sets.has(name);
  const isThere = (name: string) => names.has(name);
  const map = (annotation: string) => jsonObjectIn(annotations[annotation]);
  return {
    [hashAnnotation.whole]: kept(map(hashAnnotation.whole), isListed, contentIn),
    [hashAnnotation.withoutImage]: kept(map(hashAnnotation.withoutImage), isListed, contentIn),
    [hotMark.working]: kept(map(hotMark.working), (name) => hotPair(name).some(isThere), valueIn),
    [updateStateAnnotation]: kept(map(updateStateAnnotation), isListed, (entry) => ({
      ...texts(entry, ['updateTimestamp']),
      lastContainerStatuses: kept(objectOr(objectOr(entry).lastContainerStatuses), isThere, (before) =>
        isJsonObject(before) ? texts(before, ['imageID']) : undefined,
      ),
    })),
    [imageStartsAnnotation]: kept(map(imageStartsAnnotation), isThere, (images) =>
      kept(objectOr(images), (image) => image.length <= longestValue, valueIn),
    ),
    [restartsAnnotation]: kept(map(restartsAnnotation), isThere, (entry) => {
      const { restarts } = objectOr(entry);
      return { ...texts(entry, ['at']), ...(typeof restarts === 'number' && { restarts }) };
    }),
  };
}

/** The entries with such names, as far as they are read. */
function kept<Read>(
  map: JsonObject,
  isRead: (name: string) => boolean,
  read: (entry: Json | undefined) => Read | undefined,
): Readonly<Record<string, Read>> {
  const entries = Object.entries(map).flatMap(([name, entry]): [string, Read][] => {
    const value = isRead(name) ? read(entry) : undefined;
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(entries);
}

function contentIn(entry: Json | undefined): RecordedContent {
  return texts(typeof entry === 'string' ? { hash: entry } : entry, ['hash', 'controllerRevision', 'updateTimestamp']);
}

function texts<Key extends string>(entry: Json | undefined, keys: readonly Key[]): { readonly [K in Key]?: string } {
  return kept(objectOr(entry), (name) => keys.some((key) => key === name), valueIn) as { [K in Key]?: string };
}

function valueIn(value: Json | undefined): string | undefined {
  return typeof value === 'string' && value.length <= longestValue ? value : undefined;
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
  return consistencyOf(pod, Object.keys(marksOf(pod).maps[updateStateAnnotation]))(() => true);
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
      byDigest = byDigest && image.includes('@');
      if (byDigest) {
        if (image !== (status?.imageID ?? '').replace(/^[^/]*:\/\//, '')) return false;
        continue;
      }
      if (!hasLanded(pod, image, status, records.get(name))) return false;
    }
    return true;
  };
}

/**
 * Whether the kubelet reports of a container what a SidecarSet has last written, with a digest or without; true for a
 * container that none has updated.
 */
export function sidecarUpdates(pod: Pod): (container: Container, status: ContainerStatus | undefined) => boolean {
  const records = updateRecords(pod, Object.keys(marksOf(pod).maps[updateStateAnnotation]));
  return ({ name, image = '' }, status) => hasLanded(pod, image, status, records.get(name));
}

function hasLanded(
  pod: Pod,
  image: string,
  status: ContainerStatus | undefined,
  record: UpdateRecord | undefined,
): boolean {
  const { image: running = '', imageID = '' } = status ?? {};
  if (record === undefined || record.imageID !== imageID || running === image) return true;
  return hasRestarted(pod, status, record);
}

/** What is recorded of a container that a SidecarSet has updated. */
interface UpdateRecord {
  readonly setName: string;
  /** The image before that update. */
  readonly imageID: string;
  /** When the SidecarSet updated a container of the pod for the first time; absent: the record is not complete. */
  readonly since: string | undefined;
}

function updateRecords(pod: Pod, setNames: readonly string[]): ReadonlyMap<string, UpdateRecord> {
  const records = new Map<string, UpdateRecord>();
  const state = marksOf(pod).maps[updateStateAnnotation];
  for (const setName of setNames) {
    const { lastContainerStatuses = {}, updateTimestamp: since } = entryOf(state, setName) ?? {};
    for (const [container, { imageID = '' }] of Object.entries(lastContainerStatuses)) {
      records.set(container, { setName, imageID, since });
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
  const updatedAt = recordedAt(pod, setName);
  const { at, restarts } = entryOf(marksOf(pod).maps[restartsAnnotation], status.name) ?? {};
  if (restarts !== undefined && at === updatedAt) return status.restartCount > restarts;
  const startedAtMs = Date.parse(status.state?.running?.startedAt ?? '');
  return [since, updatedAt].every((time) => startedAtMs > Date.parse(time ?? ''));
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
