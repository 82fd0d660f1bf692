// Reads objects of any shape, as admission gets them.

import { isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import type { LabelSelector } from '../core/label-selector.ts';
import type { SidecarContainer, SidecarSetSpec } from './types.ts';

/** A selector of any shape; parts of the wrong shape are left out. */
export function readSelector(selector: Json | undefined): LabelSelector {
  const { matchLabels, matchExpressions } = objectOr(selector);
  return {
    matchLabels: textsIn(matchLabels),
    matchExpressions: listOr(matchExpressions)
      .map(objectOr)
      .map(({ key, operator, values }) => ({
        key: textOf(key),
        operator: textOf(operator),
        values: listOr(values).map(textOf),
      })),
  };
}

/** The entries of a map that are strings. */
export function textsIn(map: Json | undefined): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(objectOr(map)).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}

/** A string, or "" for anything else. */
export function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** The two lists of containers of a SidecarSet. */
export const containerLists = ['containers', 'initContainers'] as const;
export type ContainerList = (typeof containerLists)[number];

/** A container with its place. */
export interface PlacedContainer {
  readonly list: ContainerList;
  /** `spec.containers[0]` */
  readonly path: string;
  readonly container: JsonObject;
}

/** All containers of a SidecarSet of any shape. */
export function containersOf(object: JsonObject): readonly PlacedContainer[] {
  const spec = objectOr(object.spec);
  return containerLists.flatMap((list) =>
    listOr(spec[list]).map((container, index) => ({
      list,
      path: `spec.${list}[${index}]`,
      container: objectOr(container),
    })),
  );
}

/**
 * The spec of a stored SidecarSet or the content of a revision, typed: containers, volumes and patches are lists of
 * objects and nothing else.
 */
export function typedSpec(spec: JsonObject): SidecarSetSpec {
  const lists = [...containerLists, 'volumes', 'imagePullSecrets', 'patchPodMetadata'] as const;
  const objects = lists.map((list) => [list, listOr(spec[list]).filter(isJsonObject)] as const);
  // Everything else is as the schema of the CRD demands, which the API server has checked.
  return { ...spec, ...Object.fromEntries(objects) } as SidecarSetSpec;
}

/** The same without the lists that it lacks: only so its revision has the name of the one that is stored of it. */
export function typedSpecAsStored(spec: JsonObject): SidecarSetSpec {
  const typed = Object.entries(typedSpec(spec)).filter(([field]) => Object.hasOwn(spec, field));
  return Object.fromEntries(typed) as unknown as SidecarSetSpec;
}

/** A container that is known to be of the schema's shape. */
export function asSidecar(container: JsonObject): SidecarContainer {
  return container as SidecarContainer;
}
