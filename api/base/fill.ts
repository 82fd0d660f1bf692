// Defaults of optional fields. They are added after the existing fields.

import { isAbsent, type Json, type JsonObject } from './json.ts';

/** For fields in which an empty value has a meaning. Null counts as absent, as in Go. */
export function fillAbsent(object: JsonObject, defaults: JsonObject): JsonObject {
  return fill(object, defaults, isAbsent);
}

/** For strings in which empty means absent. */
export function fillEmptyText(object: JsonObject, defaults: JsonObject): JsonObject {
  return fill(object, defaults, (value) => isAbsent(value) || value === '');
}

/** For strings and numbers in which empty or 0 means absent. */
export function fillEmpty(object: JsonObject, defaults: JsonObject): JsonObject {
  return fill(object, defaults, (value) => isAbsent(value) || value === '' || value === 0);
}

function fill(object: JsonObject, defaults: JsonObject, isMissing: (value: Json | undefined) => boolean): JsonObject {
  const missing = Object.entries(defaults).filter(([name]) => isMissing(object[name]));
  return missing.length === 0 ? object : { ...object, ...Object.fromEntries(missing) };
}
