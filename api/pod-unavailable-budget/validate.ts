// What admission rejects in PodUnavailableBudgets (PUB §6), as far as it needs no other object.

import { isMoreThanAll, isNegative, parseInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonList, isJsonObject, type Json, type JsonObject, objectOr, sameJson } from '../base/json.ts';
import { type FieldError, forbidden, invalid, newErrors, notSupported, required } from '../core/field-error.ts';
import { selectorProblems } from '../core/label-problems.ts';
import { apiVersionOf, metadataEntry } from '../core/meta.ts';
import { countProblems, isCount, isText, numberProblems } from '../fleet/workload-problems.ts';
import { annotatedFields, convertPodUnavailableBudget } from './convert.ts';
import { budgetLimitProblems } from './limits.ts';
import { budgetAnnotation, podUnavailableBudgets, podUnavailableBudgetVersion, protectedOperations } from './types.ts';

/**
 * All problems of a budget, each with its field path; empty means valid. Accepts objects of any shape in either version, and
 * never throws. Field paths are those of v1beta1.
 */
export function validatePodUnavailableBudget(given: JsonObject): readonly FieldError[] {
  const { object, problems } = stored(given);
  return [...problems, ...problemsOfShape(object), ...budgetLimitProblems(object)];
}

/**
 * The problems of an update, both objects in the same version. A problem that the stored object has already is not
 * reported: it must not block later updates.
 */
export function validatePodUnavailableBudgetUpdate(
  givenBefore: JsonObject,
  givenAfter: JsonObject,
): readonly FieldError[] {
  const [before, after] = [stored(givenBefore), stored(givenAfter)];
  return [
    ...after.problems, // it could not be stored
    ...(sameJson(chosenBy(before.object), chosenBy(after.object))
      ? []
      : [forbidden(chosenPath, 'selector and targetRef cannot be modified')]),
    ...newErrors(problemsOfShape(before.object), problemsOfShape(after.object)),
    ...budgetLimitProblems(after.object, before.object),
  ];
}

/** The object in v1beta1; where its annotations cannot be converted, as it is. */
function stored(given: JsonObject): { readonly object: JsonObject; readonly problems: readonly FieldError[] } {
  if (podUnavailableBudgetVersion(given) !== 'v1alpha1') return { object: given, problems: [] };
  const { problems } = annotatedFields(given);
  if (problems.length > 0) return { object: given, problems };
  return { object: convertPodUnavailableBudget(given, apiVersionOf(podUnavailableBudgets))?.object ?? given, problems };
}

const chosenPath = 'spec.selector, targetRef';

/** What says which pods are protected. */
function chosenBy({ spec }: JsonObject): readonly Json[] {
  const { selector, targetRef } = objectOr(spec);
  return [selector ?? null, targetRef ?? null];
}

function problemsOfShape(object: JsonObject): readonly FieldError[] {
  const { spec } = object;
  if (!isJsonObject(spec)) return [required('spec', 'describes which pods are protected, and from what')];
  const { protectOperations, protectTotalReplicas, ignoredPodSelector } = spec;
  return [
    ...choiceProblems(spec),
    ...amountProblems(spec),
    ...operationProblems('spec.protectOperations', protectOperations),
    ...numberProblems('spec.protectTotalReplicas', protectTotalReplicas),
    ...(protectTotalReplicas === 0 ? [invalid('spec.protectTotalReplicas', 0, 'must be at least 1')] : []),
    ...(isAbsent(ignoredPodSelector)
      ? []
      : selectorProblems('spec.ignoredPodSelector', ignoredPodSelector, 'selects pods that are not protected')),
    ...annotationProblems(object, protectTotalReplicas),
  ];
}

function choiceProblems({ selector, targetRef }: JsonObject): readonly FieldError[] {
  if (isAbsent(targetRef)) {
    if (isAbsent(selector)) return [required(chosenPath, 'no selector or targetRef defined in PodUnavailableBudget')];
    return selectorProblems('spec.selector', selector, 'selects the pods that are protected');
  }
  if (!isAbsent(selector)) return [invalid(chosenPath, targetRef, 'selector and targetRef are mutually exclusive')];
  const { apiVersion, kind, name } = objectOr(targetRef);
  if (![apiVersion, kind, name].every(isText)) {
    return [invalid('spec.targetRef', targetRef, 'empty targetRef is not valid for PodUnavailableBudget')];
  }
  // As in Go, where each of the two parts may be empty.
  return isText(apiVersion) && apiVersion.split('/').length <= 2
    ? []
    : [invalid('spec.targetRef.apiVersion', apiVersion, 'must be a version, or a group and a version: apps/v1')];
}

function amountProblems({ maxUnavailable, minAvailable }: JsonObject): readonly FieldError[] {
  const path = 'spec.maxUnavailable, minAvailable';
  if (isAbsent(maxUnavailable) && isAbsent(minAvailable)) return [required(path, 'one of them must be set')];
  if (!isAbsent(maxUnavailable) && !isAbsent(minAvailable)) return [invalid(path, minAvailable, 'exclude each other')];
  return [...shareProblems('spec.maxUnavailable', maxUnavailable), ...shareProblems('spec.minAvailable', minAvailable)];
}

function shareProblems(path: string, value: Json | undefined): readonly FieldError[] {
  if (isAbsent(value)) return [];
  if (!isCount(value)) return countProblems(path, value);
  if (isNegative(value)) return [invalid(path, value, 'must not be negative')];
  return isMoreThanAll(value) ? [invalid(path, value, 'must not be more than 100%')] : [];
}

function operationProblems(path: string, operations: Json | undefined): readonly FieldError[] {
  if (isAbsent(operations)) return [];
  if (!isJsonList(operations)) return [invalid(path, operations, 'must be a list')];
  return operations.flatMap((operation, index) =>
    protectedOperations.some((known) => known === operation)
      ? []
      : [notSupported(`${path}[${index}]`, operation, protectedOperations)],
  );
}

/** In v1beta1 the annotation has no effect, so it must not say something else than the field. */
function annotationProblems(object: JsonObject, protectTotalReplicas: Json | undefined): readonly FieldError[] {
  const key = budgetAnnotation.protectTotalReplicas;
  const path = `metadata.annotations[${key}]`;
  const text = metadataEntry(object, 'annotations', key);
  if (text === undefined || podUnavailableBudgetVersion(object) === 'v1alpha1') return [];
  const total = parseInt32(String(text));
  if (total === undefined) return [invalid(path, text, 'must be a 32-bit integer')];
  return isAbsent(protectTotalReplicas) || protectTotalReplicas === total
    ? []
    : [invalid(path, text, 'must equal spec.protectTotalReplicas')];
}
