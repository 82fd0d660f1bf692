// Converts StatefulSets between the versions of the API. The fields of v1alpha1 are those of v1beta1, fewer of them. A client that
// writes a whole object in v1alpha1 would erase the others, so they are kept in an annotation on the way down, and come back
// from it on the way up.

import { isInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonList, isJsonObject, type JsonObject, objectOr } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import { statefulSets, statefulSetVersion } from './types.ts';

/** Annotation of an object in v1alpha1: the fields of its spec that this version does not have, as JSON. */
export const newerFieldsAnnotation = 'windlass.io/v1beta1-fields';

/** The fields of the spec that only v1beta1 has. */
export const newerSpecFields = [
  'reserveOrdinals',
  'scaleStrategy',
  'lifecycle',
  'ordinals',
  'persistentVolumeClaimRetentionPolicy',
  'volumeClaimUpdateStrategy',
] as const;

/** The object in the version `apiVersion`. Undefined: one of the two versions is unknown. */
export function convertStatefulSet(object: JsonObject, apiVersion: string): Converted | undefined {
  const from = statefulSetVersion(object);
  const to = statefulSetVersion({ apiVersion });
  if (from === undefined || to === undefined) return undefined;
  if (from === to) return { object, warnings: [] };
  return to === 'v1beta1' ? toV1beta1(object) : { object: toV1alpha1(object), warnings: [] };
}

function toV1alpha1(object: JsonObject): JsonObject {
  const converted = { ...object, apiVersion: `${statefulSets.group}/v1alpha1` };
  const { spec } = object;
  if (!isJsonObject(spec)) return converted;
  const [newer, common] = split(spec);
  if (Object.keys(newer).length === 0) return { ...converted, spec: common };
  const metadata = objectOr(object.metadata);
  const annotations = { ...objectOr(metadata.annotations), [newerFieldsAnnotation]: JSON.stringify(newer) };
  return { ...converted, metadata: { ...metadata, annotations }, spec: common };
}

function toV1beta1(object: JsonObject): Converted {
  const converted = { ...object, apiVersion: `${statefulSets.group}/v1beta1` };
  const { spec } = object;
  const metadata = objectOr(object.metadata);
  const { [newerFieldsAnnotation]: text, ...annotations } = objectOr(metadata.annotations);
  if (!isJsonObject(spec) || text === undefined) return { object: converted, warnings: [] };
  const { annotations: _, ...others } = metadata;
  const kept = Object.keys(annotations).length > 0 ? { ...others, annotations } : others;
  const newer = parsed(text);
  const without = { ...converted, metadata: kept, spec };
  if (newer === undefined) {
    return {
      object: without,
      warnings: [`annotation ${newerFieldsAnnotation} is not the JSON of an object and has no effect`],
    };
  }
  // Nobody has checked it against the schema.
  const isRead = ([field, value]: readonly [string, unknown]) => isOfShape[field as NewerField](value);
  const fields = Object.entries(newer);
  const wrong = fields.filter((entry) => !isRead(entry)).map(([field]) => field);
  return {
    object: { ...without, spec: { ...Object.fromEntries(fields.filter(isRead)), ...spec } },
    warnings: wrong.map((field) => `annotation ${newerFieldsAnnotation}: ${field} has the wrong type and no effect`),
  };
}

type NewerField = (typeof newerSpecFields)[number];

/** Whether the value has the type that the planner relies on. */
const isOfShape: Readonly<Record<NewerField, (value: unknown) => boolean>> = {
  reserveOrdinals: (value) =>
    isJsonList(value) && value.every((entry) => typeof entry === 'number' || typeof entry === 'string'),
  scaleStrategy: isJsonObject,
  lifecycle: isJsonObject,
  ordinals: (value) => isJsonObject(value) && (isAbsent(value.start) || isInt32(value.start)),
  persistentVolumeClaimRetentionPolicy: isJsonObject,
  volumeClaimUpdateStrategy: isJsonObject,
};

/** The fields that only v1beta1 has, and the others. */
function split(spec: JsonObject): readonly [JsonObject, JsonObject] {
  const isNewer = (field: string) => newerSpecFields.some((newer) => newer === field);
  const entries = Object.entries(spec);
  return [
    Object.fromEntries(entries.filter(([field]) => isNewer(field))),
    Object.fromEntries(entries.filter(([field]) => !isNewer(field))),
  ];
}

/** Undefined: it is not the JSON of an object. Fields that are no business of this annotation are left out. */
function parsed(text: unknown): JsonObject | undefined {
  try {
    const value = JSON.parse(String(text));
    return isJsonObject(value) ? split(value)[0] : undefined;
  } catch {
    return undefined;
  }
}
