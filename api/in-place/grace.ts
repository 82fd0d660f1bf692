// A change of a pod that waits for the end of its grace period.

import { fromBase64, toBase64 } from '../base/base64.ts';
import { goJson, goJsonSorted } from '../base/json-go.ts';
import type { Pod } from '../core/pod.ts';
import { type Annotation, annotation, inPlaceAnnotation, read } from './annotations.ts';
import {
  asRefMetadata,
  asResources,
  asText,
  byContainer,
  filled,
  goRefMetadata,
  goResources,
  type InPlaceChange,
  parseObject,
  textOf,
} from './work.ts';

/** A change that is applied at the end of the grace period (IPU 4.2). */
export interface InPlaceGrace {
  readonly revision: string;
  readonly change: InPlaceChange;
  readonly graceSeconds: number;
}

/** The text of the annotation for a waiting change. */
export function formatGrace({ revision, change, graceSeconds }: InPlaceGrace): string {
  const patch = change.metadataPatch;
  return goJson({
    revision,
    containerImages: filled(change.images),
    containerRefMetadata: filled(change.refMetadata, goRefMetadata),
    containerResources: filled(change.resources, goResources),
    metaDataPatch: patch && toBase64(goJsonSorted(patch)),
    updateEnvFromMetadata: change.updateEnvFromMetadata || undefined,
    graceSeconds: graceSeconds || undefined,
  });
}

/** Parses a waiting change; undefined for an invalid text. */
export function parseGrace(text: string): InPlaceGrace | undefined {
  const object = parseObject(text);
  if (object === undefined) return undefined;
  const { metaDataPatch } = object;
  const metadataPatch = typeof metaDataPatch === 'string' ? parseObject(fromBase64(metaDataPatch) ?? '') : undefined;
  if (typeof metaDataPatch === 'string' && metadataPatch === undefined) return undefined;
  return {
    revision: textOf(object.revision),
    change: {
      images: byContainer(object.containerImages, asText),
      refMetadata: byContainer(object.containerRefMetadata, asRefMetadata),
      resources: byContainer(object.containerResources, asResources),
      ...(metadataPatch !== undefined && { metadataPatch }),
      updateEnvFromMetadata: object.updateEnvFromMetadata === true,
    },
    graceSeconds: typeof object.graceSeconds === 'number' ? object.graceSeconds : 0,
  };
}

/** The pod's waiting change. */
export function graceOf(pod: Pod): Annotation<InPlaceGrace> {
  return read(annotation(pod, inPlaceAnnotation.grace) ?? annotation(pod, inPlaceAnnotation.oldGrace), parseGrace);
}

/** Whether a change of the pod waits for the end of its grace period. */
export function isInGrace(pod: Pod): boolean {
  return graceOf(pod).kind !== 'absent';
}
