// The daemon's report about the containers of a pod, and the hashes in this report.

import { deepHash } from '../base/fnv.ts';
import { isJsonObject, type Json } from '../base/json.ts';
import { goJson } from '../base/json-go.ts';
import { asGoStruct } from '../core/core-types.ts';
import type { Container, Pod } from '../core/pod.ts';
import { group, sidecarSetHashAnnotation } from '../core/well-known.ts';
import { annotation, inPlaceAnnotation } from './annotations.ts';
import { objects, parseObject, textOf } from './work.ts';

/** The daemon's report about one container (IPU 4.3). */
export interface ContainerMeta {
  readonly name: string;
  /** `<runtime>://<id>` */
  readonly containerID: string;
  readonly restartCount: number;
  readonly plainHash: number;
  /** 0: not known. */
  readonly envHash: number;
}

/** The daemon's report in an annotation's text. */
export function formatContainersMeta(containers: readonly ContainerMeta[]): string {
  return goJson({
    containers: containers.map(({ name, containerID, restartCount, plainHash, envHash }) => ({
      name,
      containerID,
      restartCount,
      hashes: { plainHash, extractedEnvFromMetadataHash: envHash || undefined },
    })),
  });
}

/** Parses the daemon's report; undefined for an invalid one, which counts as no report (ND §6). */
export function parseContainersMeta(text: string): readonly ContainerMeta[] | undefined {
  const object = parseObject(text);
  if (object === undefined) return undefined;
  return objects(object.containers).map((entry) => {
    const hashes = isJsonObject(entry.hashes) ? entry.hashes : {};
    return {
      name: textOf(entry.name),
      containerID: textOf(entry.containerID),
      restartCount: numberOf(entry.restartCount),
      plainHash: numberOf(hashes.plainHash),
      envHash: numberOf(hashes.extractedEnvFromMetadataHash),
    };
  });
}

/** The daemon's report about the pod's containers; undefined while there is none. */
export function containersMetaOf(pod: Pod): readonly ContainerMeta[] | undefined {
  const text = annotation(pod, inPlaceAnnotation.containersMeta);
  return text === undefined ? undefined : parseContainersMeta(text);
}

/** Whether the daemon reports on this pod: one of our kinds controls it, or has injected containers into it (ND-20). */
export function isReportedOn({ metadata }: Pod): boolean {
  const isControlled = metadata.ownerReferences?.some(
    ({ controller, apiVersion }) => controller === true && apiVersion.startsWith(`${group.apps}/`),
  );
  return isControlled === true || metadata.annotations?.[sidecarSetHashAnnotation] !== undefined;
}

/** The hash of a container in a kubelet from 1.31 on (IPU 4.4). */
export function plainHash({ name, image = '' }: Pick<Container, 'name' | 'image'>): number {
  return deepHash(goJson({ image, name }));
}

/** The hash of a container in a kubelet up to 1.30: of the whole container (IPU 4.4). */
export function wholePlainHash(container: Container): number | undefined {
  const json: unknown = container;
  return isJsonObject(json) ? deepHash(goJson(asGoStruct('Container', json))) : undefined;
}

function numberOf(value: Json | undefined): number {
  return typeof value === 'number' ? value : 0;
}
