// Converts CloneSets between the versions of the API.
//
// v1beta1 groups the fields of the update strategy differently and inverts one flag; everything else, unknown fields
// included, maps one to one.
//
//   v1beta1                                                    v1alpha1
//   updateStrategy.type RollingUpdate, and
//   updateStrategy.rollingUpdate.podUpdatePolicy X      <->    updateStrategy.type X
//   updateStrategy.rollingUpdate.*                      <->    updateStrategy.*
//   updateStrategy.type OnDelete, nothing else          <->    updateStrategy.type OnDelete, nothing else
//   scaleStrategy.enablePVCReuse                        <->    scaleStrategy.disablePVCReuse, the opposite
//   scaleStrategy.excludePreparingDelete                <-     label cloneset-scaling-exclude-preparing-delete
//   inPlaceUpdateStrategy.imagePreDownload*             <->    annotations image-predownload-*, integers
//
// A round trip loses some fields (CS §2.1): with OnDelete the other fields of the update strategy are dropped, as they have
// no effect; so are imagePreDownload* in v1alpha1, where only the annotations count; and v1alpha1 has no field for
// excludePreparingDelete, so a client that replaces an object there without the label clears it.

import { parseInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, objectOr } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import { preDownloadAnnotation } from '../fleet/pre-download.ts';
import { podUpdatePolicies } from '../fleet/update-schema.ts';
import { cloneSetDefault, cloneSetMark, cloneSets, cloneSetVersion } from './types.ts';

/** The object in the version `apiVersion`. Undefined: one of the two versions is unknown. */
export function convertCloneSet(object: JsonObject, apiVersion: string): Converted | undefined {
  const from = cloneSetVersion(object);
  const to = cloneSetVersion({ apiVersion });
  if (from === undefined || to === undefined) return undefined;
  if (from === to) return { object, warnings: [] };
  return to === 'v1beta1' ? toV1beta1(object) : { object: toV1alpha1(object), warnings: [] };
}

function toV1beta1(object: JsonObject): Converted {
  const converted = { ...object, apiVersion: `${cloneSets.group}/v1beta1` };
  const { spec } = object;
  if (!isJsonObject(spec)) return { object: converted, warnings: [] };

  const { disablePVCReuse, ...scale } = objectOr(spec.scaleStrategy);
  const excludes = objectOr(objectOr(object.metadata).labels)[cloneSetMark.excludePreparingDelete] === 'true';
  const scaleStrategy = {
    ...scale,
    enablePVCReuse: disablePVCReuse !== true,
    ...(excludes && { excludePreparingDelete: true }),
  };
  const { type, ...pace } = objectOr(spec.updateStrategy);
  if (type === 'OnDelete') {
    return {
      object: { ...converted, spec: { ...spec, scaleStrategy, updateStrategy: { type } } },
      warnings: droppedWarnings('spec.updateStrategy', pace, 'with type OnDelete'),
    };
  }

  const inPlace = objectOr(pace.inPlaceUpdateStrategy);
  const { moved, left, metadata } = takePreDownload(object.metadata);
  const ignored = preDownloadFields.filter((field) => !isAbsent(inPlace[field]));
  const kept = without(inPlace, preDownloadFields);
  const isThere = isJsonObject(pace.inPlaceUpdateStrategy) || Object.keys(moved).length > 0;
  const podUpdatePolicy = podUpdatePolicies.find((policy) => policy === type) ?? cloneSetDefault.podUpdatePolicy;
  const rollingUpdate = {
    podUpdatePolicy,
    ...pace,
    ...(isThere && { inPlaceUpdateStrategy: { ...kept, ...moved } }),
  };
  return {
    object: {
      ...converted,
      ...(metadata !== undefined && { metadata }),
      spec: { ...spec, scaleStrategy, updateStrategy: { type: cloneSetDefault.updateType, rollingUpdate } },
    },
    warnings: [
      ...droppedWarnings(
        'spec.updateStrategy.inPlaceUpdateStrategy',
        Object.fromEntries(ignored.map((field) => [field, inPlace[field]])),
        'in v1alpha1, which has an annotation instead,',
      ),
      ...left.map((annotation) => `annotation ${annotation} is not an integer and has no effect`),
    ],
  };
}

function toV1alpha1(object: JsonObject): JsonObject {
  const converted = { ...object, apiVersion: `${cloneSets.group}/v1alpha1` };
  const { spec } = object;
  if (!isJsonObject(spec)) return converted;

  const { enablePVCReuse, excludePreparingDelete: _, ...scale } = objectOr(spec.scaleStrategy);
  const scaleStrategy = { ...scale, ...(enablePVCReuse !== true && { disablePVCReuse: true }) };
  const { type, rollingUpdate } = objectOr(spec.updateStrategy);
  if (type === 'OnDelete') return { ...converted, spec: { ...spec, scaleStrategy, updateStrategy: { type } } };

  const { podUpdatePolicy, inPlaceUpdateStrategy, ...pace } = objectOr(rollingUpdate);
  const policy = podUpdatePolicies.find((known) => known === podUpdatePolicy) ?? cloneSetDefault.podUpdatePolicy;
  const inPlace = objectOr(inPlaceUpdateStrategy);
  const kept = without(inPlace, preDownloadFields);
  const annotations = preDownloadAnnotations(inPlace);
  // An object that contained nothing but the annotations' fields was created from them.
  const isGone = Object.keys(kept).length === 0 && Object.keys(annotations).length > 0;
  const updateStrategy = {
    ...pace,
    ...(isJsonObject(inPlaceUpdateStrategy) && !isGone && { inPlaceUpdateStrategy: kept }),
    type: policy,
  };
  return withAnnotations({ ...converted, spec: { ...spec, scaleStrategy, updateStrategy } }, annotations);
}

type PreDownloadField = keyof typeof preDownloadAnnotation;

const preDownloadFields = Object.keys(preDownloadAnnotation) as readonly PreDownloadField[];

/** The fields from the annotations, the metadata without these annotations, and the annotations that cannot be read. */
function takePreDownload(metadata: Json | undefined): {
  readonly moved: JsonObject;
  readonly left: readonly string[];
  readonly metadata?: JsonObject;
} {
  const { annotations } = objectOr(metadata);
  if (!isJsonObject(metadata) || !isJsonObject(annotations)) return { moved: {}, left: [] };
  const present = preDownloadFields.flatMap((field) => {
    const text = annotations[preDownloadAnnotation[field]];
    return typeof text === 'string' ? [{ field, number: parseInt32(text) }] : [];
  });
  const read = present.filter(({ number }) => number !== undefined);
  const rest = without(
    annotations,
    read.map(({ field }) => preDownloadAnnotation[field]),
  );
  const { annotations: _, ...others } = metadata;
  return {
    moved: Object.fromEntries(read.map(({ field, number }) => [field, number])),
    left: present.filter(({ number }) => number === undefined).map(({ field }) => preDownloadAnnotation[field]),
    ...(read.length > 0 && { metadata: Object.keys(rest).length > 0 ? { ...metadata, annotations: rest } : others }),
  };
}

/** The annotations for these fields. */
function preDownloadAnnotations(inPlace: JsonObject): JsonObject {
  return Object.fromEntries(
    preDownloadFields.flatMap((field) => {
      const value = inPlace[field];
      if (typeof value !== 'number' && typeof value !== 'string') return [];
      return [[preDownloadAnnotation[field], String(value)] as const];
    }),
  );
}

function withAnnotations(object: JsonObject, annotations: JsonObject): JsonObject {
  if (Object.keys(annotations).length === 0) return object;
  const metadata = objectOr(object.metadata);
  return { ...object, metadata: { ...metadata, annotations: { ...objectOr(metadata.annotations), ...annotations } } };
}

function without(object: JsonObject, fields: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !fields.includes(name)));
}

function droppedWarnings(path: string, fields: JsonObject, when: string): readonly string[] {
  const names = Object.keys(fields).filter((name) => !isAbsent(fields[name]));
  return names.length === 0 ? [] : [`${names.join(', ')} in ${path} has no effect ${when} and is dropped`];
}
