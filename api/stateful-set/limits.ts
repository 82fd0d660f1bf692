// How large a StatefulSet may be; OpenKruise has none of these limits. They hold in admission: an update may keep what is above
// a limit already, or make it smaller.

import { type JsonObject, listOr, objectOr } from '../base/json.ts';
import type { FieldError } from '../core/field-error.ts';
import { count, items, type Measure, overLimit } from '../core/limits.ts';
import { priorityMeasures, workloadMeasures } from '../fleet/workload-limits.ts';

/** Entries of reserveOrdinals. */
const mostReservedOrdinals = 10_000;

/** Characters of a range: two numbers of ten digits, and a dash. */
const longestRange = 21;

/** The limits that a StatefulSet exceeds; what `before` exceeds already is no problem as long as it does not grow. */
export function statefulSetLimitProblems(after: JsonObject, before?: JsonObject): readonly FieldError[] {
  return overLimit(measuresOf(after), before === undefined ? [] : measuresOf(before));
}

function measuresOf(set: JsonObject): readonly Measure[] {
  const spec = objectOr(set.spec);
  const { rollingUpdate } = objectOr(spec.updateStrategy);
  const { maxUnavailable, unorderedUpdate } = objectOr(rollingUpdate);
  const at = 'spec.updateStrategy.rollingUpdate';
  return [
    ...workloadMeasures(spec),
    items('spec.reserveOrdinals', spec.reserveOrdinals, mostReservedOrdinals),
    ...listOr(spec.reserveOrdinals).flatMap((entry, index): readonly Measure[] => {
      if (typeof entry !== 'string' || entry.length <= longestRange) return [];
      const path = `spec.reserveOrdinals[${index}]`;
      const rule = `must not be longer than ${longestRange} characters`;
      return [{ path, key: `${path} text`, value: entry.length, most: longestRange, rule }];
    }),
    count('spec.scaleStrategy.maxUnavailable', objectOr(spec.scaleStrategy).maxUnavailable),
    count(`${at}.maxUnavailable`, maxUnavailable),
    ...priorityMeasures(`${at}.unorderedUpdate.priorityStrategy`, objectOr(unorderedUpdate).priorityStrategy),
  ];
}
