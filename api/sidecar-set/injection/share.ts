// What a sidecar takes over from the containers of a pod: mounts, devices and environment variables (SCS 5.3). The
// containers are those of the pod as it was submitted. They are a user's text of any size: each list is read once for
// all sidecars.

import { isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../../base/json.ts';
import { compareGoStrings } from '../../base/json-go.ts';
import { perObject } from '../../base/per-object.ts';
import { metadataReference } from '../field-reference.ts';
import { injectedEnv } from '../marks.ts';
import { textOf } from '../read.ts';
import type { SidecarContainer, TransferEnv } from '../types.ts';

/** A pod as sidecars are added to it. */
export interface SharedPod {
  readonly metadata: JsonObject;
  /** Its containers as submitted. */
  readonly containers: readonly JsonObject[];
}

/** Mounts, devices and environment variables that are appended to those of the sidecar. */
export interface Shared {
  readonly mounts: readonly JsonObject[];
  readonly devices: readonly JsonObject[];
  /** SCS-41: what paths of shared mounts refer to, each name once. */
  readonly env: readonly JsonObject[];
}

/** SCS-40 to SCS-43. */
export function sharedWith(sidecar: SidecarContainer, pod: SharedPod): Shared {
  const isSharing = sidecar.shareVolumePolicy?.type === 'enabled';
  const isSharingDevices = sidecar.shareVolumeDevicePolicy?.type === 'enabled';
  if (!isSharing && !isSharingDevices) return { mounts: [], devices: [], env: [] };
  const { mounts, devices, env } = offeredBy(pod);
  const own = new Set([...pathsOf(sidecar.volumeMounts, 'mountPath'), ...pathsOf(sidecar.volumeDevices, 'devicePath')]);
  const isFree = (path: string) => !own.has(path) && !(isSharing && mounts.has(path));
  return {
    mounts: isSharing ? [...mounts].flatMap(([path, mount]) => (own.has(path) ? [] : [mount])) : [],
    devices: isSharingDevices ? [...devices].flatMap(([path, device]) => (isFree(path) ? [device] : [])) : [],
    env: isSharing ? env : [],
  };
}

/** The variables that `transferEnv` copies, in order (SCS-44, SCS-45). */
export function transferredEnv({ transferEnv = [] }: SidecarContainer, pod: SharedPod): readonly JsonObject[] {
  return transferEnv.flatMap((transfer) => {
    const name = sourceOf(transfer, pod);
    const source = name === undefined ? undefined : containersByName(pod).get(name);
    if (source === undefined) return [];
    const { envName, envNames = [] } = transfer;
    const names = new Set([...(envName ? [envName] : []), ...envNames]);
    return [...names].toSorted(compareGoStrings).flatMap((wanted) => variable(source, wanted));
  });
}

/** Whether a container was injected by a SidecarSet. */
export function isInjected(container: JsonObject): boolean {
  return objectsIn(container.env).some(({ name, value }) => name === injectedEnv.name && value === injectedEnv.value);
}

/** The objects in a list of any shape. */
export function objectsIn(list: Json | undefined): readonly JsonObject[] {
  const items: readonly Json[] = listOr(list);
  return items.every(isJsonObject) ? items : items.map(objectOr);
}

/** Undefined: the reference cannot be resolved. */
function sourceOf({ sourceContainerName = '', sourceContainerNameFrom }: TransferEnv, { metadata }: SharedPod) {
  if (sourceContainerNameFrom === undefined) return sourceContainerName;
  const reference = metadataReference(sourceContainerNameFrom.fieldRef?.fieldPath ?? '');
  if (reference === undefined) return undefined;
  const entries = objectOr(metadata[reference.map]);
  return Object.hasOwn(entries, reference.key) ? textOf(entries[reference.key]) : '';
}

const containersByName = perObject(({ containers }: SharedPod) => byName(containers));

function variable(container: JsonObject, name: string): readonly JsonObject[] {
  const found = variablesOf(container).get(name);
  return found === undefined ? [] : [found];
}

const variablesOf = perObject(({ env }: JsonObject) => byName(objectsIn(env)));

/** The first object of each name. */
function byName(objects: readonly JsonObject[]): ReadonlyMap<Json | undefined, JsonObject> {
  return firstOfEach<Json | undefined>(objects, ({ name }) => name);
}

function firstOfEach<Key>(objects: readonly JsonObject[], key: (object: JsonObject) => Key): Map<Key, JsonObject> {
  const first = new Map<Key, JsonObject>();
  for (const object of objects) {
    const its = key(object);
    if (!first.has(its)) first.set(its, object);
  }
  return first;
}

/** What the containers of a pod offer to all its sidecars: mounts and devices by path, and variables. */
const offeredBy = perObject(({ containers }: SharedPod) => {
  const apps = containers.filter((container) => !isInjected(container));
  const mounts = apps.flatMap(({ volumeMounts }) => objectsIn(volumeMounts));
  const devices = apps.flatMap(({ volumeDevices }) => objectsIn(volumeDevices));
  return {
    mounts: firstOfEach(mounts, ({ mountPath }) => textOf(mountPath)),
    devices: firstOfEach(devices, ({ devicePath }) => textOf(devicePath)),
    env: variablesOfPaths(apps),
  };
});

/** The variables that the paths of mounts refer to, of each name the first one. */
function variablesOfPaths(apps: readonly JsonObject[]): readonly JsonObject[] {
  const found = new Map<string, JsonObject>();
  for (const app of apps) {
    for (const { subPathExpr } of objectsIn(app.volumeMounts)) {
      for (const [, name = ''] of textOf(subPathExpr).matchAll(/\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)/g)) {
        const variable = found.has(name) ? undefined : variablesOf(app).get(name);
        if (variable !== undefined) found.set(name, variable);
      }
    }
  }
  return [...found.values()];
}

function pathsOf(list: Json | undefined, field: string): readonly string[] {
  return objectsIn(list).map((entry) => textOf(entry[field]));
}
