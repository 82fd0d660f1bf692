/** A JSON value. Objects that pass through unchanged have this type. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json | undefined;
}

/** Whether the value is a JSON object, and not a list. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether the value is a list. Unlike `Array.isArray` the result type contains no `any`. */
export function isJsonList(value: unknown): value is readonly Json[] {
  return Array.isArray(value);
}

/** Whether two values are equal as JSON: the order of keys is ignored, and an absent key equals undefined. */
export function sameJson(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (isJsonList(left) && isJsonList(right)) {
    return left.length === right.length && left.every((item, index) => sameJson(item, right[index]));
  }
  if (!isJsonObject(left) || !isJsonObject(right)) return false;
  const isIn = (key: string) => right[key] === undefined || Object.hasOwn(left, key);
  return Object.keys(left).every((key) => sameJson(left[key], right[key])) && Object.keys(right).every(isIn);
}

/** Applies a merge patch (RFC 7386) to an object. */
export function mergePatch(object: JsonObject, patch: JsonObject): JsonObject {
  const result = new Map(Object.entries(object));
  for (const [key, value] of Object.entries(patch)) {
    const before = result.get(key);
    if (value === null) result.delete(key);
    else if (isJsonObject(value)) result.set(key, mergePatch(isJsonObject(before) ? before : {}, value));
    else result.set(key, value);
  }
  return Object.fromEntries(result);
}

/** The merge patch (RFC 7386) that turns one object into the other. It names each field: absent ones are removed by null. */
export function mergePatchTo(before: JsonObject, after: JsonObject): JsonObject {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return Object.fromEntries(
    keys.map((key) => {
      const [from, to] = [before[key], after[key]];
      return [key, isJsonObject(from) && isJsonObject(to) ? mergePatchTo(from, to) : (to ?? null)];
    }),
  );
}

/**
 * The entry with this key in a map with user-defined keys. Inherited properties do not count: a container may be called
 * `constructor`.
 */
export function entryOf<Value>(map: Readonly<Record<string, Value>> | undefined, name: string): Value | undefined {
  return map !== undefined && Object.hasOwn(map, name) ? map[name] : undefined;
}

/** The value if it is an object, otherwise an empty object. */
export function objectOr(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** The object in a text; empty when the text is absent, or contains none. */
export function jsonObjectIn(text: string | undefined): JsonObject {
  if (text === undefined) return {};
  try {
    return objectOr(JSON.parse(text));
  } catch {
    return {};
  }
}

/** The value if it is a list, otherwise an empty list. */
export function listOr(value: unknown): readonly Json[] {
  return isJsonList(value) ? value : [];
}

/** Whether a field is absent, or null, which means the same. */
export function isAbsent(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

/** The path of a value in a JSON patch; special characters in keys are escaped. */
export function jsonPointer(...keys: readonly (string | number)[]): string {
  return keys.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
