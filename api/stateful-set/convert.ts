// Converts StatefulSets between the versions of the API. The fields of v1alpha1 are those of v1beta1, fewer of them: the others
// are kept in an annotation (see `newer-fields.ts`).

import { isInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonList, isJsonObject, type JsonObject } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import { keepNewer, type NewerFields, splitNewer, takeNewer } from '../fleet/newer-fields.ts';
import { statefulSets, statefulSetVersion } from './types.ts';

/** The fields of the spec that only v1beta1 has. */
const newerFields: NewerFields = {
  reserveOrdinals: (value) =>
    isJsonList(value) && value.every((entry) => typeof entry === 'number' || typeof entry === 'string'),
  scaleStrategy: isJsonObject,
  lifecycle: isJsonObject,
  ordinals: (value) => isJsonObject(value) && (isAbsent(value.start) || isInt32(value.start)),
  persistentVolumeClaimRetentionPolicy: isJsonObject,
  volumeClaimUpdateStrategy: isJsonObject,
};

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
  const [newer, common] = splitNewer(spec, newerFields);
  return { ...keepNewer(converted, newer), spec: common };
}

function toV1beta1(object: JsonObject): Converted {
  const converted = { ...object, apiVersion: `${statefulSets.group}/v1beta1` };
  const { spec } = object;
  if (!isJsonObject(spec)) return { object: converted, warnings: [] };
  const { object: without, newer, warnings } = takeNewer(converted, newerFields);
  return { object: { ...without, spec: { ...newer, ...spec } }, warnings };
}
