// The two versions of a request. Everything maps one to one, and unknown fields are kept, except for two facts of the
// status:
//
//   v1beta1                                                  v1alpha1
//   status.containerStatusSnapshot                    <->    annotation sync-container-statuses, a JSON list
//   status.conditions[PreRecreateGrace], its time     <->    annotation unready-acquired
//
// The condition is left out of v1alpha1 where it can be restored from its time alone, that is when it is the first one
// and has its usual content. Any other stays in the list as well, so that nothing is lost.

import { isJsonList, isJsonObject, type Json, type JsonObject, sameJson } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import { metadataEntry } from '../core/meta.ts';
import { crrAnnotation } from '../core/well-known.ts';
import { preRecreateGrace, recreateCondition } from './texts.ts';
import { crr, recreateVersion } from './types.ts';

/** The object in that version, from either one. Undefined: the version is unknown. */
export function convertRecreateRequest(object: JsonObject, apiVersion: string): Converted | undefined {
  if (recreateVersion(object) === undefined) return undefined;
  if (apiVersion === `${crr.group}/v1beta1`) return toV1beta1(object);
  if (apiVersion === `${crr.group}/v1alpha1`) return toV1alpha1(object);
  return undefined;
}

/**
 * The object as v1beta1: the annotations become fields of the status. An invalid annotation is dropped with a warning.
 */
export function toV1beta1(object: JsonObject): Converted {
  if (recreateVersion(object) === 'v1beta1') return { object, warnings: [] };
  const snapshotText = metadataEntry(object, 'annotations', crrAnnotation.syncContainerStatuses);
  const acquiredText = metadataEntry(object, 'annotations', crrAnnotation.unreadyAcquired);
  const snapshot = snapshotText === undefined ? undefined : parseSnapshot(snapshotText);
  const acquired = acquiredText === undefined ? undefined : parseTime(acquiredText);

  const status = object.status;
  const known = isJsonObject(status) ? status : {};
  const additions = {
    ...(snapshot && { containerStatusSnapshot: snapshot }),
    ...(acquired !== undefined && { conditions: conditionsWithDrain(known.conditions, acquired) }),
  };
  const moved = withoutAnnotations(object);
  const hasAdditions = Object.keys(additions).length > 0 && (status === undefined || isJsonObject(status));
  return {
    object: {
      ...moved,
      apiVersion: `${crr.group}/v1beta1`,
      ...(hasAdditions && { status: { ...known, ...additions } }),
    },
    warnings: [
      ...(snapshotText !== undefined && snapshot === undefined ? [dropped(crrAnnotation.syncContainerStatuses)] : []),
      ...(acquiredText !== undefined && acquired === undefined ? [dropped(crrAnnotation.unreadyAcquired)] : []),
    ],
  };
}

/** The object as v1alpha1: both annotations have the content of the status, and nothing else. */
export function toV1alpha1(object: JsonObject): Converted {
  if (recreateVersion(object) === 'v1alpha1') return { object, warnings: [] };
  const moved: JsonObject = { ...withoutAnnotations(object), apiVersion: `${crr.group}/v1alpha1` };
  const status = moved.status;
  if (!isJsonObject(status)) return { object: moved, warnings: [] };

  const { containerStatusSnapshot, ...rest } = status;
  const snapshot = formatSnapshot(containerStatusSnapshot);
  const acquired = drainTime(rest.conditions);
  const annotations = {
    ...(snapshot !== undefined && { [crrAnnotation.syncContainerStatuses]: snapshot }),
    ...(acquired !== undefined && { [crrAnnotation.unreadyAcquired]: acquired }),
  };
  const left = {
    ...withoutPlainDrain(rest),
    ...(snapshot === undefined && containerStatusSnapshot !== undefined && { containerStatusSnapshot }),
  };
  const { status: _, ...withoutStatus } = moved;
  // A status that contained nothing but the annotations' fields is created from them again.
  const gone = Object.keys(left).length === 0 && Object.keys(annotations).length > 0;
  return { object: withAnnotations(gone ? withoutStatus : { ...moved, status: left }, annotations), warnings: [] };
}

function dropped(annotation: string): string {
  return `annotation ${annotation} is invalid and is dropped`;
}

function withoutAnnotations(object: JsonObject): JsonObject {
  const metadata = object.metadata;
  const annotations = isJsonObject(metadata) ? metadata.annotations : undefined;
  if (!isJsonObject(metadata) || !isJsonObject(annotations)) return object;
  const {
    [crrAnnotation.syncContainerStatuses]: snapshot,
    [crrAnnotation.unreadyAcquired]: acquired,
    ...rest
  } = annotations;
  if (snapshot === undefined && acquired === undefined) return object;

  const { annotations: _, ...others } = metadata;
  const kept = Object.keys(rest).length === 0 ? others : { ...metadata, annotations: rest };
  return { ...object, metadata: kept };
}

function withAnnotations(object: JsonObject, annotations: JsonObject): JsonObject {
  if (Object.keys(annotations).length === 0) return object;
  const metadata = isJsonObject(object.metadata) ? object.metadata : {};
  const before = isJsonObject(metadata.annotations) ? metadata.annotations : {};
  return { ...object, metadata: { ...metadata, annotations: { ...before, ...annotations } } };
}

/**
 * Undefined when the text is not a list of container statuses. Absent numbers and booleans are zero values, as in Go.
 */
function parseSnapshot(text: Json): readonly JsonObject[] | undefined {
  const list = parseJson(text);
  if (!isJsonList(list)) return undefined;
  const entries = list.filter(isSnapshotEntry);
  return entries.length === list.length
    ? entries.map((entry) => ({ ...entry, ready: entry.ready ?? false, restartCount: entry.restartCount ?? 0 }))
    : undefined;
}

function isSnapshotEntry(entry: Json): entry is JsonObject {
  if (!isJsonObject(entry)) return false;
  const { name, ready = false, restartCount = 0, containerID = '' } = entry;
  return (
    typeof name === 'string' &&
    typeof ready === 'boolean' &&
    Number.isInteger(restartCount) &&
    typeof containerID === 'string'
  );
}

function parseJson(text: Json): Json | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return undefined;
  }
}

/** The keys in the order that scripts know. */
function formatSnapshot(snapshot: Json | undefined): string | undefined {
  if (!isJsonList(snapshot) || !snapshot.every(isSnapshotEntry)) return undefined;
  const entries = snapshot.map(({ name, ready, restartCount, containerID, ...rest }) => ({
    name,
    ready,
    restartCount,
    containerID,
    ...rest,
  }));
  return JSON.stringify(entries);
}

const rfc3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

function parseTime(text: Json): string | undefined {
  return typeof text === 'string' && rfc3339.test(text) && !Number.isNaN(Date.parse(text)) ? text : undefined;
}

function isDrain(condition: Json): condition is JsonObject {
  return isJsonObject(condition) && condition.type === recreateCondition.preRecreateGrace;
}

/** The time in the condition, where v1alpha1 has an annotation for it. */
function drainTime(conditions: Json | undefined): string | undefined {
  const drain = isJsonList(conditions) ? conditions.find(isDrain) : undefined;
  return parseTime(drain?.lastTransitionTime ?? null);
}

/** The condition with that time, at its position if it exists, else first. */
function conditionsWithDrain(conditions: Json | undefined, acquired: string): readonly Json[] {
  const list = isJsonList(conditions) ? conditions : [];
  const place = list.findIndex(isDrain);
  if (place < 0) return [{ ...preRecreateGrace(acquired) }, ...list];
  return list.map((condition, index) =>
    index === place && isDrain(condition) ? { ...condition, lastTransitionTime: acquired } : condition,
  );
}

function withoutPlainDrain(status: JsonObject): JsonObject {
  const conditions = status.conditions;
  const acquired = drainTime(conditions);
  if (!isJsonList(conditions) || acquired === undefined) return status;
  const [first, ...others] = conditions;
  if (!sameJson(first, preRecreateGrace(acquired)) || others.some(isDrain)) return status;

  const { conditions: _, ...rest } = status;
  return others.length === 0 ? rest : { ...rest, conditions: others };
}
