// How large a DaemonSet may be; OpenKruise has none of these limits. They hold in admission: an update may keep what is above
// a limit already, or make it smaller.

import { type JsonObject, objectOr } from '../base/json.ts';
import type { FieldError } from '../core/field-error.ts';
import { bytes, count, type Measure, overLimit } from '../core/limits.ts';
import { mostSelectorBytes, workloadMeasures } from '../fleet/workload-limits.ts';

/** The limits that a DaemonSet exceeds; what `before` exceeds already is no problem as long as it does not grow. */
export function daemonSetLimitProblems(after: JsonObject, before?: JsonObject): readonly FieldError[] {
  return overLimit(measuresOf(after), before === undefined ? [] : measuresOf(before));
}

function measuresOf(set: JsonObject): readonly Measure[] {
  const spec = objectOr(set.spec);
  const { maxUnavailable, maxSurge, partition, selector } = objectOr(objectOr(spec.updateStrategy).rollingUpdate);
  const at = 'spec.updateStrategy.rollingUpdate';
  return [
    ...workloadMeasures(spec),
    count('spec.burstReplicas', spec.burstReplicas),
    count(`${at}.maxUnavailable`, maxUnavailable),
    count(`${at}.maxSurge`, maxSurge),
    count(`${at}.partition`, partition),
    bytes(`${at}.selector`, selector, mostSelectorBytes),
  ];
}
