// The annotations of a pod: those of `patchPodMetadata` (SCS-80), and the marks of its SidecarSets (SCS-30).

import { isJsonObject, type Json, type JsonObject, objectOr } from '../../base/json.ts';
import { compareGoStrings, type GoValue, goJson, goJsonSorted } from '../../base/json-go.ts';
import { hashAnnotation, hotMark, injectedListAnnotation } from '../marks.ts';
import { hotPair, isHotUpgrade, isNativeSidecar, type SidecarContent } from '../types.ts';
import type { ChosenContent } from './choose.ts';
import { InjectionError } from './failure.ts';

export type Annotations = Readonly<Record<string, string>>;

/** A SidecarSet that is injected, with its content. */
export interface InjectedSet {
  readonly name: string;
  readonly chosen: ChosenContent;
}

/** The annotations with those that a content adds (SCS-80). An unknown policy adds none. */
export function patchedAnnotations(annotations: Annotations, { patchPodMetadata = [] }: SidecarContent): Annotations {
  if (patchPodMetadata.length === 0) return annotations;
  const patched = new Map(Object.entries(annotations));
  for (const { annotations: given = {}, patchPolicy } of patchPodMetadata) {
    for (const [key, value] of Object.entries(given)) {
      const present = patched.get(key);
      if (patchPolicy === 'Retain' && present === undefined) patched.set(key, value);
      if (patchPolicy === 'Overwrite') patched.set(key, value);
      if (patchPolicy === 'MergePatchJson') patched.set(key, merged(key, present, value));
    }
  }
  return Object.fromEntries(patched);
}

/** RFC 7386. An absent or empty value becomes the patch as it is written. */
function merged(key: string, present: string | undefined, patch: string): string {
  if (present === undefined || present === '') return patch;
  const parse = (text: string): Json => {
    try {
      return JSON.parse(text);
    } catch {
      throw new InjectionError(`annotation ${key} cannot be merged: its value or its patch is not JSON`);
    }
  };
  return goJsonSorted(mergePatch(parse(present), parse(patch)));
}

function mergePatch(target: Json, patch: Json): Json {
  if (!isJsonObject(patch)) return patch;
  const result: Record<string, Json | undefined> = { ...(isJsonObject(target) ? target : {}) };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null || value === undefined) delete result[name];
    else result[name] = mergePatch(result[name] ?? null, value);
  }
  return result;
}

/** The marks of the injected SidecarSets; entries of others stay. `now` is RFC 3339 with whole seconds. */
export function markAnnotations(annotations: Annotations, sets: readonly InjectedSet[], now: string): Annotations {
  const listed = (annotations[injectedListAnnotation] ?? '').split(',').filter((name) => name !== '');
  const names = [...new Set([...listed, ...sets.map(({ name }) => name)])].toSorted(compareGoStrings);
  return {
    ...hotAnnotations(annotations, sets),
    [hashAnnotation.whole]: hashMap('whole', annotations, sets, now),
    [hashAnnotation.withoutImage]: hashMap('withoutImage', annotations, sets, now),
    [injectedListAnnotation]: names.join(','),
  };
}

/** One entry of a hash annotation, with its members in OpenKruise's order. */
export type HashEntry = Readonly<Record<string, GoValue | undefined>>;

function hashMap(
  hash: keyof typeof hashAnnotation,
  annotations: Annotations,
  sets: readonly InjectedSet[],
  now: string,
): string {
  const key = hashAnnotation[hash];
  const entries = presentEntries(annotations[key], key);
  for (const set of sets) entries.set(set.name, hashEntry(hash, set, now));
  return goJson(entries);
}

/** The entry of a SidecarSet in one of the hash annotations. */
export function hashEntry(hash: keyof typeof hashAnnotation, { name, chosen }: InjectedSet, now: string): HashEntry {
  return {
    updateTimestamp: now,
    hash: chosen.hashes[hash],
    sidecarSetName: name,
    sidecarList: sidecarNames(chosen.content),
    controllerRevision: hash === 'whole' && chosen.revision !== '' ? chosen.revision : undefined,
  };
}

/** The entries that a pod brings along, in the present form or as hashes alone. */
function presentEntries(text: string | undefined, key: string): Map<string, HashEntry> {
  if (text === undefined || text === '') return new Map();
  const unreadable = () => new InjectionError(`annotation ${key} of the pod is not a map of SidecarSets as JSON`);
  let parsed: Json;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw unreadable();
  }
  if (!isJsonObject(parsed)) throw unreadable();
  return new Map(
    Object.entries(parsed).map(([name, entry]) => {
      if (typeof entry !== 'string' && !isJsonObject(entry)) throw unreadable();
      return [name, presentEntry(name, entry)];
    }),
  );
}

/** An entry that a pod has, in the present form or as hash alone. */
export function presentEntry(name: string, entry: string | JsonObject): HashEntry {
  if (typeof entry === 'string') {
    return { updateTimestamp: null, hash: entry, sidecarSetName: name, sidecarList: null };
  }
  const { updateTimestamp = null, hash = '', sidecarSetName = '', sidecarList = null, controllerRevision } = entry;
  const revision = controllerRevision === '' || controllerRevision === null ? undefined : controllerRevision;
  return { updateTimestamp, hash, sidecarSetName, sidecarList, controllerRevision: revision };
}

/** The sidecars of a content: its containers and native sidecars, sorted (SCS 4.1). */
export function sidecarNames({ containers = [], initContainers = [] }: SidecarContent): readonly string[] {
  const names = [...containers, ...initContainers.filter(isNativeSidecar)].map(({ name }) => String(name));
  return names.toSorted(compareGoStrings);
}

/** SHU-12 and the versions of the two containers of each hot-upgrade sidecar. */
function hotAnnotations(annotations: Annotations, sets: readonly InjectedSet[]): Annotations {
  const hot = sets.flatMap(({ chosen: { content } }) =>
    [...(content.containers ?? []), ...(content.initContainers ?? []).filter(isNativeSidecar)]
      .filter(isHotUpgrade)
      .map(({ name }) => String(name)),
  );
  if (hot.length === 0) return annotations;
  const working = new Map(Object.entries(presentWorking(annotations[hotMark.working])));
  const versions = hot.flatMap((name) => {
    const [first, second] = hotPair(name);
    working.set(name, first);
    return [
      [`${hotMark.version}${first}`, '1'],
      [`${hotMark.otherVersion}${first}`, '0'],
      [`${hotMark.version}${second}`, '0'],
      [`${hotMark.otherVersion}${second}`, '1'],
    ] as const;
  });
  return { ...annotations, ...Object.fromEntries(versions), [hotMark.working]: goJson(working) };
}

function presentWorking(text: string | undefined): Readonly<Record<string, string>> {
  if (text === undefined || text === '') return {};
  try {
    const parsed: Json = JSON.parse(text);
    if (isJsonObject(parsed) && Object.values(parsed).every((name) => typeof name === 'string')) {
      return objectOr(parsed) as Readonly<Record<string, string>>;
    }
  } catch {
    // It is reported below.
  }
  throw new InjectionError(`annotation ${hotMark.working} of the pod is not a map of containers as JSON`);
}

/** The environment variables by which a container of a hot-upgrade sidecar reads its versions (SHU-11). */
export function versionEnv(container: string): readonly JsonObject[] {
  const reference = (prefix: string) => ({
    fieldRef: { apiVersion: 'v1', fieldPath: `metadata.annotations['${prefix}${container}']` },
  });
  return [
    { name: hotMark.versionEnv, valueFrom: reference(hotMark.version) },
    { name: hotMark.otherVersionEnv, valueFrom: reference(hotMark.otherVersion) },
  ];
}
