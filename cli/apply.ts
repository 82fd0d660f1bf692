// What `kubectl apply` changes in an existing object: a three-way merge of the last applied manifest, the live object
// and the new manifest. Lists of custom resources are replaced as a whole.
import { entryOf, isJsonObject, type Json, type JsonObject, sameJson } from '../api/base/json.ts';

/** The annotation in which kubectl keeps the last applied manifest. */
export const lastAppliedAnnotation = 'kubectl.kubernetes.io/last-applied-configuration';

/**
 * The merge patch that apply sends: new and changed fields, and null for fields that were applied before and are no
 * longer in the manifest.
 */
export function applyPatch(live: JsonObject, manifest: JsonObject): JsonObject {
  return merged(changes(live, manifest), removals(lastApplied(live), manifest));
}

function lastApplied(live: JsonObject): JsonObject {
  const metadata = isJsonObject(live.metadata) ? live.metadata : {};
  const annotations = isJsonObject(metadata.annotations) ? metadata.annotations : {};
  const text = annotations[lastAppliedAnnotation];
  try {
    const value: unknown = typeof text === 'string' ? JSON.parse(text) : {};
    return isJsonObject(value) ? value : {};
  } catch {
    return {}; // as if it had never been applied: no field is removed
  }
}

function changes(live: JsonObject, manifest: JsonObject): JsonObject {
  return fromEntries(
    Object.entries(manifest).flatMap(([key, value]) => {
      const there = entryOf(live, key);
      if (value === undefined || sameJson(there, value)) return [];
      if (!isJsonObject(value) || !isJsonObject(there)) return [[key, value]];
      const inner = changes(there, value);
      return Object.keys(inner).length > 0 ? [[key, inner]] : [];
    }),
  );
}

function removals(before: JsonObject, manifest: JsonObject): JsonObject {
  return fromEntries(
    Object.entries(before).flatMap(([key, value]): readonly (readonly [string, Json])[] => {
      const now = entryOf(manifest, key);
      if (now === undefined) return [[key, null]];
      if (!isJsonObject(value) || !isJsonObject(now)) return [];
      const inner = removals(value, now);
      return Object.keys(inner).length > 0 ? [[key, inner]] : [];
    }),
  );
}

function merged(patch: JsonObject, other: JsonObject): JsonObject {
  const both = Object.entries(other).map(([key, value]): [string, Json | undefined] => {
    const mine = entryOf(patch, key);
    return [key, isJsonObject(mine) && isJsonObject(value) ? merged(mine, value) : (mine ?? value)];
  });
  return { ...patch, ...Object.fromEntries(both) };
}

function fromEntries(entries: readonly (readonly [string, Json])[]): JsonObject {
  return Object.fromEntries(entries);
}
