// The record of the last in-place update of a pod.

import { isJsonObject } from '../base/json.ts';
import { type GoValue, goJson, goMap } from '../base/json-go.ts';
import type { Pod } from '../core/pod.ts';
import { type Annotation, annotation, inPlaceAnnotation, read } from './annotations.ts';
import {
  asRefMetadata,
  asResources,
  asText,
  type ByContainer,
  byContainer,
  type ContainerWork,
  filled,
  goRefMetadata,
  goResources,
  objects,
  parseObject,
  textOf,
  texts,
} from './work.ts';

/** The record of the last update of a pod, or of the one in progress (IPU 4.1). */
export interface InPlaceState {
  /** The value of the revision label, as a full name. */
  readonly revision: string;
  /** Start of the whole update, and of its grace period. */
  readonly updateTimestamp: string;
  /** Image IDs of the changed containers when their images were patched. Absent: no image was changed. */
  readonly lastContainerStatuses?: ByContainer<{ readonly imageID: string }>;
  readonly updateEnvFromMetadata: boolean;
  readonly updateResources: boolean;
  readonly updateImages: boolean;
  /** The work of later batches. */
  readonly next: ContainerWork;
  /** Containers that have to be ready before the next batch. */
  readonly requiredReady: readonly string[];
  readonly batches: readonly { readonly timestamp: string; readonly containers: readonly string[] }[];
}

/** The text of the annotation for a record. */
export function formatState(state: InPlaceState): string {
  const { next } = state;
  return goJson({
    revision: state.revision,
    updateTimestamp: state.updateTimestamp,
    lastContainerStatuses: goMap(state.lastContainerStatuses) ?? null,
    ...flags(state),
    nextContainerImages: filled(next.images),
    nextContainerRefMetadata: filled(next.refMetadata, goRefMetadata),
    nextContainerResources: filled(next.resources, goResources),
    preCheckBeforeNext:
      state.requiredReady.length > 0 ? { containersRequiredReady: [...state.requiredReady] } : undefined,
    containerBatchesRecord:
      state.batches.length > 0
        ? state.batches.map(({ timestamp, containers }) => ({ timestamp, containers: [...containers] }))
        : undefined,
  });
}

/** Parses a record; undefined for an invalid text. */
export function parseState(text: string): InPlaceState | undefined {
  const object = parseObject(text);
  if (object === undefined) return undefined;
  const last = byContainer(object.lastContainerStatuses, (status) =>
    isJsonObject(status) ? { imageID: textOf(status.imageID) } : undefined,
  );
  const check = isJsonObject(object.preCheckBeforeNext) ? object.preCheckBeforeNext.containersRequiredReady : undefined;
  return {
    revision: textOf(object.revision),
    updateTimestamp: textOf(object.updateTimestamp),
    ...(Object.keys(last).length > 0 && { lastContainerStatuses: last }),
    updateEnvFromMetadata: object.updateEnvFromMetadata === true,
    updateResources: object.updateResources === true,
    updateImages: object.updateImages === true,
    next: {
      images: byContainer(object.nextContainerImages, asText),
      refMetadata: byContainer(object.nextContainerRefMetadata, asRefMetadata),
      resources: byContainer(object.nextContainerResources, asResources),
    },
    requiredReady: texts(check),
    batches: objects(object.containerBatchesRecord).map((batch) => ({
      timestamp: textOf(batch.timestamp),
      containers: texts(batch.containers),
    })),
  };
}

/** The pod's record of its last update. */
export function stateOf(pod: Pod): Annotation<InPlaceState> {
  return read(annotation(pod, inPlaceAnnotation.state) ?? annotation(pod, inPlaceAnnotation.oldState), parseState);
}

function flags(state: InPlaceState): { readonly [key: string]: GoValue | undefined } {
  return {
    updateEnvFromMetadata: state.updateEnvFromMetadata || undefined,
    updateResources: state.updateResources || undefined,
    updateImages: state.updateImages || undefined,
  };
}
