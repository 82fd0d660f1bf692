// Fields of a spec that an older version of the API does not have. A client that writes a whole object in that version would
// erase them, so they are kept in an annotation on the way down, and come back from it on the way up.

import { isJsonObject, type JsonObject, objectOr } from '../base/json.ts';

/** Annotation of an object in v1alpha1: the fields of its spec that this version does not have, as JSON. */
export const newerFieldsAnnotation = 'windlass.io/v1beta1-fields';

/** Whether the value of each field that only the newer version has is of the type that planners rely on. */
export type NewerFields = Readonly<Record<string, (value: unknown) => boolean>>;

/** The fields of a spec that only the newer version has, and the others. */
export function splitNewer(spec: JsonObject, fields: NewerFields): readonly [newer: JsonObject, common: JsonObject] {
  const entries = Object.entries(spec);
  const isNewer = ([field]: readonly [string, unknown]) => Object.hasOwn(fields, field);
  return [Object.fromEntries(entries.filter(isNewer)), Object.fromEntries(entries.filter((entry) => !isNewer(entry)))];
}

/** The object with these fields in the annotation; without any it is left alone. */
export function keepNewer(object: JsonObject, newer: JsonObject): JsonObject {
  if (Object.keys(newer).length === 0) return object;
  return withAnnotation(object, newerFieldsAnnotation, JSON.stringify(newer));
}

/** The object with this annotation. */
export function withAnnotation(object: JsonObject, key: string, value: string): JsonObject {
  const metadata = objectOr(object.metadata);
  return { ...object, metadata: { ...metadata, annotations: { ...objectOr(metadata.annotations), [key]: value } } };
}

/** The object without the annotation, the fields in it, and what of it cannot be used. */
export function takeNewer(
  object: JsonObject,
  fields: NewerFields,
): { readonly object: JsonObject; readonly newer: JsonObject; readonly warnings: readonly string[] } {
  const metadata = objectOr(object.metadata);
  const { [newerFieldsAnnotation]: text, ...annotations } = objectOr(metadata.annotations);
  if (text === undefined) return { object, newer: {}, warnings: [] };
  const { annotations: _, ...others } = metadata;
  const kept = Object.keys(annotations).length > 0 ? { ...others, annotations } : others;
  const without = { ...object, metadata: kept };
  const newer = parsed(text, fields);
  if (newer === undefined) {
    return {
      object: without,
      newer: {},
      warnings: [`annotation ${newerFieldsAnnotation} is not the JSON of an object and has no effect`],
    };
  }
  // Nobody has checked it against the schema.
  const isRead = ([field, value]: readonly [string, unknown]) => fields[field]?.(value) ?? false;
  const entries = Object.entries(newer);
  const wrong = entries.filter((entry) => !isRead(entry)).map(([field]) => field);
  return {
    object: without,
    newer: Object.fromEntries(entries.filter(isRead)),
    warnings: wrong.map((field) => `annotation ${newerFieldsAnnotation}: ${field} has the wrong type and no effect`),
  };
}

/** Undefined: it is not the JSON of an object. Fields that are no business of this annotation are left out. */
function parsed(text: unknown, fields: NewerFields): JsonObject | undefined {
  try {
    const value = JSON.parse(String(text));
    return isJsonObject(value) ? splitNewer(value, fields)[0] : undefined;
  } catch {
    return undefined;
  }
}
