// How large a CloneSet may be. OpenKruise has none of these limits, Kubernetes only that of a whole object in etcd:
// each is far above what a useful CloneSet needs.
//
//   in admission      `cloneSetLimitProblems`; an update may keep what is above a limit already, or make it smaller
//   where it is used  the order of an update uses the first `mostTerms` terms of each list, as a CloneSet may have been
//                     stored before there were limits; all other work grows with the size of the object alone

import { type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import type { FieldError } from '../core/field-error.ts';
import { bytes, count, items, type Measure, overLimit } from '../core/limits.ts';
import { mostTerms } from '../fleet/update-order.ts';
import { mostSelectorBytes, priorityMeasures, workloadMeasures } from '../fleet/workload-limits.ts';
import { type CloneSetVersion, cloneSetVersion } from './types.ts';

/** Names in podsToDelete. */
export const mostPodsToDelete = 10_000;

/** Characters of a name in podsToDelete: the maximum length of a pod name. */
export const longestPodToDelete = 253;

/** The limits that a CloneSet exceeds; what `before` exceeds already is no problem as long as it does not grow. */
export function cloneSetLimitProblems(after: JsonObject, before?: JsonObject): readonly FieldError[] {
  return overLimit(measuresOf(after), before === undefined ? [] : measuresOf(before));
}

function measuresOf(set: JsonObject): readonly Measure[] {
  const spec = objectOr(set.spec);
  const { scaleStrategy } = spec;
  return [
    ...workloadMeasures(spec),
    ...podsToDeleteMeasures(objectOr(scaleStrategy).podsToDelete),
    count('spec.scaleStrategy.maxUnavailable', objectOr(scaleStrategy).maxUnavailable),
    ...paceMeasures(spec, cloneSetVersion(set) ?? 'v1beta1'),
  ];
}

function podsToDeleteMeasures(names: Json | undefined): readonly Measure[] {
  const path = 'spec.scaleStrategy.podsToDelete';
  return [
    items(path, names, mostPodsToDelete),
    ...listOr(names).flatMap((name, index): readonly Measure[] =>
      typeof name === 'string' && name.length > longestPodToDelete
        ? [
            {
              ...{ path: `${path}[${index}]`, key: `${path} ${name}`, value: name.length, most: longestPodToDelete },
              rule: `must not be longer than ${longestPodToDelete} characters`,
            },
          ]
        : [],
    ),
  ];
}

/** The fields for the pace and the order of updates; their paths depend on the version. */
function paceMeasures({ updateStrategy }: JsonObject, version: CloneSetVersion): readonly Measure[] {
  const isFlat = version === 'v1alpha1';
  const fields = isFlat ? objectOr(updateStrategy) : objectOr(objectOr(updateStrategy).rollingUpdate);
  const at = isFlat ? 'spec.updateStrategy' : 'spec.updateStrategy.rollingUpdate';
  const { priorityStrategy, scatterStrategy, inPlaceUpdateStrategy } = fields;
  return [
    ...(['partition', 'maxUnavailable', 'maxSurge'] as const).map((field) => count(`${at}.${field}`, fields[field])),
    ...priorityMeasures(`${at}.priorityStrategy`, priorityStrategy),
    items(`${at}.scatterStrategy`, scatterStrategy, mostTerms),
    bytes(`${at}.scatterStrategy`, scatterStrategy, mostSelectorBytes),
    count(
      `${at}.inPlaceUpdateStrategy.imagePreDownloadParallelism`,
      objectOr(inPlaceUpdateStrategy).imagePreDownloadParallelism,
    ),
  ];
}
