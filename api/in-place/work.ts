// Work on containers, in the format of the annotations of in-place updates, and how their JSON is written and parsed.
//
//   writing   empty values are left out, as in Go
//   reading   a value of the wrong type counts as absent

import { isJsonList, isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import type { GoValue } from '../base/json-go.ts';
import type { ResourceRequirements } from '../core/pod.ts';

/** Labels and annotations of the pod that a container sees in its environment. */
export interface RefMetadata {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Values by container name. */
export type ByContainer<Value> = Readonly<Record<string, Value>>;

/** Work on containers that is still to be done. */
export interface ContainerWork {
  readonly images: ByContainer<string>;
  readonly refMetadata: ByContainer<RefMetadata>;
  /** Only the quantities that change. */
  readonly resources: ByContainer<ResourceRequirements>;
}

/** Everything that an update changes in a pod. */
export interface InPlaceChange extends ContainerWork {
  /**
   * A strategic merge patch of the pod's metadata, without what is in `refMetadata`. Absent: no metadata changes. Empty:
   * all of it is in `refMetadata`.
   */
  readonly metadataPatch?: JsonObject;
  readonly updateEnvFromMetadata: boolean;
}

/** No work. */
export const noWork: ContainerWork = { images: {}, refMetadata: {}, resources: {} };

/** Names of the containers with work to do, in no particular order. */
export function containersOf(work: ContainerWork): readonly string[] {
  return [...new Set([work.images, work.refMetadata, work.resources].flatMap((map) => Object.keys(map)))];
}

/** The map for `goJson`; undefined for an empty one. */
export function filled<Value>(
  map: ByContainer<Value>,
  toGo: (value: Value) => GoValue = (value) => value as GoValue,
): GoValue | undefined {
  const entries = Object.entries(map).map(([name, value]) => [name, toGo(value)] as const);
  return entries.length > 0 ? new Map(entries) : undefined;
}

/** Labels and annotations for `goJson`. */
export function goRefMetadata({ labels, annotations }: RefMetadata): GoValue {
  return { creationTimestamp: null, labels: filled(labels ?? {}), annotations: filled(annotations ?? {}) };
}

/** Amounts for `goJson`. */
export function goResources({ limits, requests }: ResourceRequirements): GoValue {
  return { limits: filled(limits ?? {}), requests: filled(requests ?? {}) };
}

/** The JSON object in this text; undefined for anything else. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The entries of a map that `readOne` can parse. */
export function byContainer<Value>(
  value: Json | undefined,
  readOne: (value: Json | undefined) => Value | undefined,
): ByContainer<Value> {
  if (!isJsonObject(value)) return {};
  const entries = Object.entries(value).flatMap(([name, inner]) => {
    const one = readOne(inner);
    return one === undefined ? [] : [[name, one] as const];
  });
  return Object.fromEntries(entries);
}

/** The value if it is a string. */
export function asText(value: Json | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function asAmount(value: Json | undefined): string | undefined {
  return typeof value === 'number' ? String(value) : asText(value);
}

/** Labels and annotations in this value; undefined when it is no object. */
export function asRefMetadata(value: Json | undefined): RefMetadata | undefined {
  if (!isJsonObject(value)) return undefined;
  return {
    ...(isJsonObject(value.labels) && { labels: byContainer(value.labels, asText) }),
    ...(isJsonObject(value.annotations) && { annotations: byContainer(value.annotations, asText) }),
  };
}

/** Amounts in this value; undefined when it is no object. */
export function asResources(value: Json | undefined): ResourceRequirements | undefined {
  if (!isJsonObject(value)) return undefined;
  return {
    ...(isJsonObject(value.limits) && { limits: byContainer(value.limits, asAmount) }),
    ...(isJsonObject(value.requests) && { requests: byContainer(value.requests, asAmount) }),
  };
}

/** The value if it is a string, else "". */
export function textOf(value: Json | undefined): string {
  return asText(value) ?? '';
}

/** The strings of a list; none when the value is no list. */
export function texts(value: Json | undefined): readonly string[] {
  return isJsonList(value) ? value.flatMap((item) => asText(item) ?? []) : [];
}

/** The objects of a list; none when the value is no list. */
export function objects(value: Json | undefined): readonly JsonObject[] {
  return isJsonList(value) ? value.filter(isJsonObject) : [];
}
