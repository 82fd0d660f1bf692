// How large a PodUnavailableBudget may be; OpenKruise has none of these limits. They hold in admission: an update may keep
// what is above a limit already, or make it smaller.

import { type JsonObject, objectOr } from '../base/json.ts';
import type { FieldError } from '../core/field-error.ts';
import { bytes, count, items, type Measure, overLimit } from '../core/limits.ts';
import { mostSelectorBytes } from '../fleet/workload-limits.ts';

/** Entries of protectOperations, of which each operation needs one. */
export const mostOperations = 16;

/** Characters of each part of targetRef: a group and a version are no longer than a name. */
export const longestTargetPart = 253;

/** The limits that a budget in v1beta1 exceeds; what `before` exceeds already is no problem as long as it does not grow. */
export function budgetLimitProblems(after: JsonObject, before?: JsonObject): readonly FieldError[] {
  return overLimit(measuresOf(after), before === undefined ? [] : measuresOf(before));
}

function measuresOf(budget: JsonObject): readonly Measure[] {
  const { selector, targetRef, maxUnavailable, minAvailable, protectOperations, ignoredPodSelector } = objectOr(
    budget.spec,
  );
  return [
    bytes('spec.selector', selector, mostSelectorBytes),
    bytes('spec.ignoredPodSelector', ignoredPodSelector, mostSelectorBytes),
    count('spec.maxUnavailable', maxUnavailable),
    count('spec.minAvailable', minAvailable),
    items('spec.protectOperations', protectOperations, mostOperations),
    ...['apiVersion', 'kind', 'name'].map((part): Measure => {
      const value = objectOr(targetRef)[part];
      const path = `spec.targetRef.${part}`;
      return {
        ...{ path, key: path, value: typeof value === 'string' ? value.length : 0, most: longestTargetPart },
        rule: `must not be longer than ${longestTargetPart} characters`,
      };
    }),
  ];
}
