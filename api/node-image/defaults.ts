// The meaning of absent fields of a NodeImage, and what admission fills in.

import { fillAbsent } from '../base/fill.ts';
import { isJsonList, isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { compareGoStrings } from '../base/json-go.ts';
import { timestamp } from '../base/time.ts';

/** The meaning of absent fields. */
export const pullDefault = { timeoutSeconds: 600, backoffLimit: 3 } as const;

/** Fills in the defaults of tags, and sorts tags. Fields of the wrong shape are left unchanged. */
export function defaultNodeImage(object: JsonObject, nowMs: number): JsonObject {
  const { spec } = object;
  if (!isJsonObject(spec) || !isJsonObject(spec.images)) return object;
  const images = Object.entries(spec.images).map(([name, entry]): [string, Json | undefined] => {
    if (!isJsonObject(entry) || !isJsonList(entry.tags)) return [name, entry];
    const tags = entry.tags.map((tag) => (isJsonObject(tag) ? defaultTag(tag, nowMs) : tag));
    return [name, { ...entry, tags: sortedTags(tags) }];
  });
  return { ...object, spec: { ...spec, images: Object.fromEntries(images) } };
}

function defaultTag(tag: JsonObject, nowMs: number): JsonObject {
  const { pullPolicy } = tag;
  const filled = fillAbsent(tag, { createdAt: timestamp(nowMs) });
  return isJsonObject(pullPolicy) ? { ...filled, pullPolicy: fillAbsent(pullPolicy, pullDefault) } : filled;
}

function sortedTags(tags: readonly Json[]): readonly Json[] {
  const key = (tag: Json): string => {
    const text = isJsonObject(tag) ? tag.tag : undefined;
    return typeof text === 'string' ? text : '';
  };
  return tags.toSorted((left, right) => compareGoStrings(key(left), key(right)));
}
