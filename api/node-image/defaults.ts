// What an absent field of a NodeImage means, and what admission writes into one.

import { fillAbsent } from '../base/fill.ts';
import { isJsonList, isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { compareGoStrings } from '../base/json-go.ts';
import { timestamp } from '../base/time.ts';

/** What an absent field means. */
export const pullDefault = { timeoutSeconds: 600, backoffLimit: 3 } as const;

/** Fills in what a tag may leave out, and sorts tags. What has not the right shape stays as it is. */
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
