// Converts DaemonSets between the versions of the API.
//
//   v1beta1                                   v1alpha1
//   scaleStrategy.partitionedScaling true     annotation daemonset.kruise.io/progressive-create-pod "true"
//   rollingUpdateType Standard           <-   rollingUpdateType Surging, which surges by 1 where it does not say otherwise
//   status.updateRevision                     status.daemonSetHash
//
// The annotation stays in objects in v1beta1, where it means nothing: a later write in v1alpha1 turns it on again (AD §2). Any
// other value of `scaleStrategy` is kept in an annotation of ours.

import { isAbsent, isJsonObject, type Json, type JsonObject, objectOr, sameJson } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import { metadataEntry } from '../core/meta.ts';
import { keepNewer, type NewerFields, splitNewer, takeNewer, withAnnotation } from '../fleet/newer-fields.ts';
import { withSurge } from './defaults.ts';
import { daemonSetDefault, daemonSetMark, daemonSets, daemonSetVersion, surging } from './types.ts';

/** The fields of the spec that only v1beta1 has. */
const newerFields: NewerFields = {
  scaleStrategy: (value) =>
    isJsonObject(value) && (isAbsent(value.partitionedScaling) || typeof value.partitionedScaling === 'boolean'),
};

const progressive: JsonObject = { partitionedScaling: true };

/** The object in the version `apiVersion`. Undefined: one of the two versions is unknown. */
export function convertDaemonSet(object: JsonObject, apiVersion: string): Converted | undefined {
  const from = daemonSetVersion(object);
  const to = daemonSetVersion({ apiVersion });
  if (from === undefined || to === undefined) return undefined;
  if (from === to) return { object, warnings: [] };
  return to === 'v1beta1' ? toV1beta1(object) : { object: toV1alpha1(object), warnings: [] };
}

function toV1alpha1(object: JsonObject): JsonObject {
  const converted = renamed(
    { ...object, apiVersion: `${daemonSets.group}/v1alpha1` },
    'updateRevision',
    'daemonSetHash',
  );
  const { spec } = object;
  if (!isJsonObject(spec)) return converted;
  const [newer, common] = splitNewer(spec, newerFields);
  const older = { ...converted, spec: common };
  const isOn = objectOr(newer.scaleStrategy).partitionedScaling === true;
  const marked = isOn ? withAnnotation(older, daemonSetMark.progressiveCreate, 'true') : older;
  return sameJson(newer.scaleStrategy, progressive) ? marked : keepNewer(marked, newer);
}

function toV1beta1(object: JsonObject): Converted {
  const converted = renamed(
    { ...object, apiVersion: `${daemonSets.group}/v1beta1` },
    'daemonSetHash',
    'updateRevision',
  );
  const { spec } = object;
  if (!isJsonObject(spec)) return { object: converted, warnings: [] };
  const { object: without, newer, warnings } = takeNewer(converted, newerFields);
  const isOn = metadataEntry(object, 'annotations', daemonSetMark.progressiveCreate) === 'true';
  return {
    object: {
      ...without,
      spec: { ...scaleStrategy(newer.scaleStrategy, isOn), ...spec, ...updateStrategy(spec.updateStrategy) },
    },
    warnings,
  };
}

/** The annotation that clients of v1alpha1 know says whether it is on. */
function scaleStrategy(kept: Json | undefined, isOn: boolean): JsonObject {
  if (isOn) return { scaleStrategy: { ...objectOr(kept), ...progressive } };
  if (!isJsonObject(kept)) return {};
  const { partitionedScaling, ...others } = kept;
  return { scaleStrategy: partitionedScaling === true ? others : kept };
}

function updateStrategy(strategy: Json | undefined): JsonObject {
  const { rollingUpdate } = objectOr(strategy);
  if (!isJsonObject(rollingUpdate) || rollingUpdate.rollingUpdateType !== surging) return {};
  const { rollingUpdateType } = daemonSetDefault;
  return {
    updateStrategy: { ...objectOr(strategy), rollingUpdate: { ...withSurge(rollingUpdate), rollingUpdateType } },
  };
}

/** The object with another name for this field of its status. */
function renamed(object: JsonObject, from: string, to: string): JsonObject {
  const { status } = object;
  if (!isJsonObject(status) || !Object.hasOwn(status, from)) return object;
  const { [from]: value, ...others } = status;
  return { ...object, status: { ...others, [to]: value } };
}
