// The hashes of the containers of a SidecarSet (SCS-115 to SCS-119). Running pods carry them, so every byte counts: the
// text is what OpenKruise's Go structs give, with members in the order of their declaration.

import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { isJsonList, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { type GoValue, goJson } from '../base/json-go.ts';
import { safeName } from '../base/safe-name.ts';
import { asGoStruct, type GoObject } from '../core/core-types.ts';
import { hashAnnotation } from './marks.ts';
import { isNativeSidecar } from './types.ts';

/** The hashes of a content. */
export interface ContentHashes {
  readonly whole: string;
  readonly withoutImage: string;
}

/** The hashes of the containers of this spec or content, in either version. Fields of the wrong shape are left out. */
export function contentHashes(spec: JsonObject): ContentHashes {
  const { containers, initContainers } = spec;
  return {
    whole: hashOf(hashInput(containers, initContainers, { images: true })),
    withoutImage: hashOf(hashInput(containers, initContainers, { images: false })),
  };
}

/** The annotations of a SidecarSet or a ControllerRevision with its hashes. */
export function hashAnnotations({ whole, withoutImage }: ContentHashes): Readonly<Record<string, string>> {
  return { [hashAnnotation.whole]: whole, [hashAnnotation.withoutImage]: withoutImage };
}

/** The text that is hashed (SCS-115). */
export function hashInput(
  containers: Json | undefined,
  initContainers: Json | undefined,
  { images }: { readonly images: boolean },
): string {
  const list = (value: Json | undefined): GoValue =>
    isJsonList(value) ? value.map((container) => goContainer(objectOr(container), images)) : null;
  const hasNative = listOr(initContainers).some((container) => isNativeSidecar(objectOr(container)));
  return goJson({ containers: list(containers), ...(hasNative && { initContainers: list(initContainers) }) });
}

/** SCS-116. Not from node:crypto, which workflows do not have. */
function hashOf(text: string): string {
  return safeName(bytesToHex(sha256(utf8ToBytes(text))));
}

function goContainer(container: JsonObject, withImage: boolean): GoObject {
  const { image, ...core } = asGoStruct('Container', container);
  const { name, ...others } = core;
  const { upgradeStrategy, shareVolumePolicy, shareVolumeDevicePolicy, transferEnv, resourcesPolicy } = container;
  return {
    name,
    ...(withImage && { image }),
    ...others,
    podInjectPolicy: text(container.podInjectPolicy),
    upgradeStrategy: texts(objectOr(upgradeStrategy), ['upgradeType', 'hotUpgradeEmptyImage']),
    shareVolumePolicy: texts(objectOr(shareVolumePolicy), ['type']),
    shareVolumeDevicePolicy: isJsonObject(shareVolumeDevicePolicy)
      ? texts(shareVolumeDevicePolicy, ['type'])
      : undefined,
    transferEnv: someOf(transferEnv, goTransferEnv),
    resourcesPolicy: isJsonObject(resourcesPolicy) ? goResourcesPolicy(resourcesPolicy) : undefined,
  };
}

function goTransferEnv({ sourceContainerName, sourceContainerNameFrom, envName, envNames }: JsonObject): GoObject {
  return {
    sourceContainerName: text(sourceContainerName),
    sourceContainerNameFrom: isJsonObject(sourceContainerNameFrom)
      ? {
          fieldRef: isJsonObject(sourceContainerNameFrom.fieldRef)
            ? asGoStruct('ObjectFieldSelector', sourceContainerNameFrom.fieldRef)
            : undefined,
        }
      : undefined,
    envName: text(envName),
    envNames: listOr(envNames).length > 0 ? listOr(envNames) : undefined,
  };
}

function goResourcesPolicy({ targetContainersMode, targetContainersNameRegex, resourcesExpr }: JsonObject): GoObject {
  const { limits, requests } = objectOr(resourcesExpr);
  const amounts = (value: Json | undefined) => (isJsonObject(value) ? texts(value, ['cpu', 'memory']) : undefined);
  return {
    targetContainersMode: targetContainersMode ?? '',
    targetContainersNameRegex: targetContainersNameRegex ?? '',
    resourcesExpr: { limits: amounts(limits), requests: amounts(requests) },
  };
}

/** These fields in this order, without empty ones. */
function texts(object: JsonObject, fields: readonly string[]): GoObject {
  return Object.fromEntries(fields.map((field) => [field, text(object[field])]));
}

function text(value: Json | undefined): Json | undefined {
  return value === '' || value === null ? undefined : value;
}

function someOf(list: Json | undefined, write: (item: JsonObject) => GoObject): GoValue | undefined {
  const items = listOr(list);
  return items.length === 0 ? undefined : items.map((item) => write(objectOr(item)));
}
