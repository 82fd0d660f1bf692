// Converts PodUnavailableBudgets between the versions of the API.
//
//   v1beta1                         v1alpha1
//   spec.protectOperations     <->  annotation kruise.io/pub-protect-operations: "DELETE,EVICT"
//   spec.protectTotalReplicas  <->  annotation pub.kruise.io/protect-total-replicas: "5"
//   spec.ignoredPodSelector    <->  kept in an annotation of ours; OpenKruise loses it
//
// On the way down the fields decide: without one, its annotation is removed. On the way up the annotations stay. Admission refuses
// annotations that have no field; one that is stored with them is read as far as it can be, or no list would have any budget.

import { parseInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import type { Converted } from '../core/converted.ts';
import type { FieldError } from '../core/field-error.ts';
import { selectorProblems } from '../core/label-problems.ts';
import { metadataEntry } from '../core/meta.ts';
import { keepNewer, type NewerFields, splitNewer, takeNewer, withAnnotation } from '../fleet/newer-fields.ts';
import { budgetAnnotation, podUnavailableBudgets, podUnavailableBudgetVersion, protectedOperations } from './types.ts';

/** The fields of the spec that v1alpha1 has no form of. */
const newerFields: NewerFields = {
  ignoredPodSelector: (value) => isJsonObject(value) && selectorProblems('', value, '').length === 0,
};

/** The object in the version `apiVersion`. Undefined: one of the two versions is unknown. */
export function convertPodUnavailableBudget(object: JsonObject, apiVersion: string): Converted | undefined {
  const from = podUnavailableBudgetVersion(object);
  const to = podUnavailableBudgetVersion({ apiVersion });
  if (from === undefined || to === undefined) return undefined;
  if (from === to) return { object, warnings: [] };
  return to === 'v1beta1' ? toV1beta1(object) : { object: toV1alpha1(object), warnings: [] };
}

function toV1alpha1(object: JsonObject): JsonObject {
  const converted = { ...object, apiVersion: `${podUnavailableBudgets.group}/v1alpha1` };
  const { spec } = object;
  if (!isJsonObject(spec)) return converted;
  const { protectOperations, protectTotalReplicas, ...others } = spec;
  const [newer, common] = splitNewer(others, newerFields);
  const operations = listOr(protectOperations).join(',');
  const replicas = isAbsent(protectTotalReplicas) ? '' : String(protectTotalReplicas);
  const marked = withText(converted, budgetAnnotation.protectOperations, operations);
  return keepNewer({ ...withText(marked, budgetAnnotation.protectTotalReplicas, replicas), spec: common }, newer);
}

function toV1beta1(object: JsonObject): Converted {
  const converted = { ...object, apiVersion: `${podUnavailableBudgets.group}/v1beta1` };
  const { spec } = object;
  if (!isJsonObject(spec)) return { object: converted, warnings: [] };
  const { fields } = annotatedFields(object);
  const { object: without, newer, warnings } = takeNewer(converted, newerFields);
  return { object: { ...without, spec: { ...spec, ...newer, ...fields } }, warnings };
}

/** The object with this annotation, or without it where the text is empty. */
function withText(object: JsonObject, key: string, text: string): JsonObject {
  if (text !== '') return withAnnotation(object, key, text);
  if (metadataEntry(object, 'annotations', key) === undefined) return object;
  const { annotations, ...metadata } = objectOr(object.metadata);
  const { [key]: _, ...kept } = objectOr(annotations);
  return { ...object, metadata: { ...metadata, ...(Object.keys(kept).length > 0 && { annotations: kept }) } };
}

/** What the annotations of an object in v1alpha1 are as fields, and which have none. */
export function annotatedFields(object: JsonObject): {
  readonly fields: JsonObject;
  readonly problems: readonly FieldError[];
} {
  const textOf = (key: string): Json | undefined => metadataEntry(object, 'annotations', key) || undefined;
  const operations = textOf(budgetAnnotation.protectOperations);
  const words =
    operations === undefined
      ? []
      : String(operations)
          .split(',')
          .map((word) => word.trim());
  const isKnown = (word: string) => protectedOperations.some((known) => known === word);
  const unknown = words.find((word) => !isKnown(word));
  const known = words.filter(isKnown);
  const replicas = textOf(budgetAnnotation.protectTotalReplicas);
  const total = replicas === undefined ? undefined : parseInt32(String(replicas));
  return {
    fields: {
      ...(known.length > 0 && { protectOperations: known }),
      ...(total !== undefined && { protectTotalReplicas: total }),
    },
    problems: [
      ...(unknown === undefined
        ? []
        : [unconvertible(budgetAnnotation.protectOperations, `unknown operation ${shown(unknown)}`)]),
      ...(replicas !== undefined && total === undefined
        ? [unconvertible(budgetAnnotation.protectTotalReplicas, `${shown(replicas)} is not a 32-bit integer`)]
        : []),
    ],
  };
}

function unconvertible(key: string, why: string): FieldError {
  return {
    field: `metadata.annotations[${key}]`,
    detail: `failed to convert v1alpha1 PUB to v1beta1: annotation ${key}: ${why}`,
  };
}

const longestShown = 64;

function shown(value: Json): string {
  return JSON.stringify(String(value).slice(0, longestShown));
}
