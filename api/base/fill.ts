// Defaults of fields that users may leave out. What is filled in comes behind the fields that are there.

import { isAbsent, type Json, type JsonObject } from './json.ts';

/** For fields in which an empty value was meant. Null says nothing, as in Go. */
export function fillAbsent(object: JsonObject, defaults: JsonObject): JsonObject {
  return fill(object, defaults, isAbsent);
}

/** For strings that cannot tell an empty value from none. */
export function fillEmptyText(object: JsonObject, defaults: JsonObject): JsonObject {
  return fill(object, defaults, (value) => isAbsent(value) || value === '');
}

/** For strings and numbers that cannot tell an empty value from none. */
export function fillEmpty(object: JsonObject, defaults: JsonObject): JsonObject {
  return fill(object, defaults, (value) => isAbsent(value) || value === '' || value === 0);
}

function fill(object: JsonObject, defaults: JsonObject, isMissing: (value: Json | undefined) => boolean): JsonObject {
  const missing = Object.entries(defaults).filter(([name]) => isMissing(object[name]));
  return missing.length === 0 ? object : { ...object, ...Object.fromEntries(missing) };
}
