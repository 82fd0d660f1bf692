// What a sidecar takes over from the containers of a pod: mounts, devices and environment variables (SCS 5.3). The
// containers are those of the pod as it was submitted.

import { type Json, type JsonObject, listOr, objectOr } from '../../base/json.ts';
import { compareGoStrings } from '../../base/json-go.ts';
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
  /** SCS-41: what paths of shared mounts refer to. */
  readonly env: readonly JsonObject[];
}

/** SCS-40 to SCS-43. */
export function sharedWith(sidecar: SidecarContainer, { containers }: SharedPod): Shared {
  const apps = containers.filter((container) => !isInjected(container));
  const used = new Set([
    ...pathsOf(sidecar.volumeMounts, 'mountPath'),
    ...pathsOf(sidecar.volumeDevices, 'devicePath'),
  ]);
  const mounts: JsonObject[] = [];
  const env: JsonObject[] = [];
  if (sidecar.shareVolumePolicy?.type === 'enabled') {
    for (const app of apps) {
      for (const mount of objectsIn(app.volumeMounts)) {
        env.push(...variablesOf(mount, app));
        if (used.size !== used.add(textOf(mount.mountPath)).size) mounts.push(mount);
      }
    }
  }
  const devices =
    sidecar.shareVolumeDevicePolicy?.type === 'enabled'
      ? apps
          .flatMap((app) => objectsIn(app.volumeDevices))
          .filter(({ devicePath }) => used.size !== used.add(textOf(devicePath)).size)
      : [];
  return { mounts, devices, env };
}

/** The variables that `transferEnv` copies, in order (SCS-44, SCS-45). */
export function transferredEnv({ transferEnv = [] }: SidecarContainer, pod: SharedPod): readonly JsonObject[] {
  return transferEnv.flatMap((transfer) => {
    const name = sourceOf(transfer, pod);
    const source = pod.containers.find((container) => container.name === name);
    if (name === undefined || source === undefined) return [];
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
  return listOr(list).map(objectOr);
}

/** Undefined: the reference cannot be resolved. */
function sourceOf({ sourceContainerName = '', sourceContainerNameFrom }: TransferEnv, { metadata }: SharedPod) {
  if (sourceContainerNameFrom === undefined) return sourceContainerName;
  const reference = metadataReference(sourceContainerNameFrom.fieldRef?.fieldPath ?? '');
  if (reference === undefined) return undefined;
  const entries = objectOr(metadata[reference.map]);
  return Object.hasOwn(entries, reference.key) ? textOf(entries[reference.key]) : '';
}

function variable(container: JsonObject, name: string): readonly JsonObject[] {
  const found = objectsIn(container.env).find((one) => one.name === name);
  return found === undefined ? [] : [found];
}

/** The variables of the container that the mount's path refers to. */
function variablesOf({ subPathExpr }: JsonObject, container: JsonObject): readonly JsonObject[] {
  const names = [...textOf(subPathExpr).matchAll(/\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)/g)].map(([, name = '']) => name);
  return names.flatMap((name) => variable(container, name));
}

function pathsOf(list: Json | undefined, field: string): readonly string[] {
  return objectsIn(list).map((entry) => textOf(entry[field]));
}
