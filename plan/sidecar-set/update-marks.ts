// The annotations that an update of a running pod writes: its hash (SCS-186) and its record (SCS-187).
//
// An annotation that nobody can read is written anew: no SidecarSet can have used what it said.

import { entryOf, isJsonObject, type Json, type JsonObject, jsonObjectIn, objectOr } from '../../api/base/json.ts';
import { textBytes } from '../../api/base/json-bytes.ts';
import { type GoValue, goJson } from '../../api/base/json-go.ts';
import { depthOf, mostAnnotationBytes } from '../../api/core/limits.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type Annotations, type HashEntry, hashEntry, presentEntry } from '../../api/sidecar-set/injection/metadata.ts';
import { hashAnnotation, restartsAnnotation } from '../../api/sidecar-set/marks.ts';
import type { PodWrite } from '../fleet/in-place/update.ts';
import { isLongMark, longestMark, mostParts, updateStateAnnotation } from './pods.ts';
import type { SidecarTarget } from './target.ts';

/** Levels of objects and lists in annotations of OpenKruise: four. */
const deepestMark = 20;

/**
 * The hash annotations of a pod with the content of the target. The one without images stays as it is, unless it is in the
 * old form, which is replaced in both.
 */
export function hashMarks(target: SidecarTarget, pod: Pod, now: string): Annotations {
  const { setName: name, content, hashes, revision } = target;
  const entries = hashEntries(pod, hashAnnotation.whole);
  entries.set(name, hashEntry('whole', { name, chosen: { content, hashes, revision } }, now));
  const isOld = Object.values(readable(pod, hashAnnotation.withoutImage)).some((entry) => typeof entry === 'string');
  return {
    [hashAnnotation.whole]: goJson(entries),
    ...(isOld && { [hashAnnotation.withoutImage]: goJson(hashEntries(pod, hashAnnotation.withoutImage)) }),
  };
}

function hashEntries(pod: Pod, annotation: string): Map<string, HashEntry> {
  const entries = Object.entries(readable(pod, annotation)).flatMap(([name, entry]): [string, HashEntry][] =>
    typeof entry === 'string' || isJsonObject(entry) ? [[name, presentEntry(name, entry)]] : [],
  );
  return new Map(entries);
}

/**
 * The record of the images that containers have before their images change. Revision and time are those of the first update
 * of the pod, as OpenKruise has them. Empty when no container changes.
 *
 * `cancelled`: these containers get the image back that they had before their last update. One that the kubelet has not
 * restarted since then has no record afterwards: its image would never differ from the recorded one.
 */
export function updateRecord(
  { setName, hashes }: Pick<SidecarTarget, 'setName' | 'hashes'>,
  pod: Pod,
  changed: readonly string[],
  now: string,
  cancelled: readonly string[] = [],
): Annotations {
  if (changed.length === 0) return {};
  const state = readable(pod, updateStateAnnotation);
  const before = objectOr(entryOf(state, setName));
  const { revision = hashes.whole, updateTimestamp = now, lastContainerStatuses, ...others } = before;
  const last = new Map<string, GoValue>(Object.entries(objectOr(lastContainerStatuses)).filter(isPresent));
  for (const name of changed) {
    const imageID = pod.status?.containerStatuses?.find((status) => status.name === name)?.imageID ?? '';
    const isBack = cancelled.includes(name) && (objectOr(last.get(name)).imageID ?? '') === imageID;
    if (isBack) last.delete(name);
    else last.set(name, imageID === '' ? {} : { imageID });
  }
  const entries = new Map<string, GoValue>(Object.entries(state).filter(isPresent));
  entries.set(setName, { revision, updateTimestamp, lastContainerStatuses: last, ...others });
  return { [updateStateAnnotation]: goJson(entries) };
}

/** The write with the restarts of these containers before it, which tells later whether the kubelet has done it. */
export function notingRestarts(write: PodWrite, pod: Pod, changed: readonly string[], now: string): PodWrite {
  const present = new Set(pod.spec.containers.map(({ name }) => name));
  const kept = Object.entries(readable(pod, restartsAnnotation)).filter(([name]) => present.has(name));
  const noted = (pod.status?.containerStatuses ?? [])
    .filter(({ name }) => changed.includes(name))
    .map(({ name, restartCount }) => [name, { at: now, restarts: restartCount }] as const);
  return annotated(write, { [restartsAnnotation]: JSON.stringify(Object.fromEntries([...kept, ...noted])) });
}

/** The write with more annotations: one write carries everything (SHU-84). */
export function annotated({ kind, patch }: PodWrite, more: Annotations): PodWrite {
  const metadata = objectOr(patch.metadata);
  return {
    kind,
    patch: { ...patch, metadata: { ...metadata, annotations: { ...objectOr(metadata.annotations), ...more } } },
  };
}

/**
 * Why the API server, or the next look at the pod, would not take the annotations that a write leaves; undefined: they would.
 * A mark that is too long to be read must not be written: the pod would be down and nobody's.
 */
export function annotationProblem({ metadata }: Pod, { patch }: PodWrite): string | undefined {
  const written = objectOr(objectOr(patch.metadata).annotations);
  const after = Object.entries({ ...metadata.annotations, ...written });
  const bytes = after.reduce((sum, [key, text]) => sum + textBytes(key) + textBytes(String(text)), 0);
  if (bytes > mostAnnotationBytes)
    return `its annotations would have ${bytes} bytes, and may have ${mostAnnotationBytes}`;
  const long = after.find(([key, text]) => isLongMark(key, String(text)));
  return (
    long &&
    `annotation ${long[0]} would have more than ${longestMark} characters, or ${mostParts} colons, commas and brackets`
  );
}

/** The map in an annotation; empty when it is absent, no map, or so deep that nothing could write it. */
function readable({ metadata }: Pod, annotation: string): JsonObject {
  const map = jsonObjectIn(metadata.annotations?.[annotation]);
  return depthOf(map) > deepestMark ? {} : map;
}

function isPresent(entry: [string, Json | undefined]): entry is [string, Json] {
  return entry[1] !== undefined;
}
