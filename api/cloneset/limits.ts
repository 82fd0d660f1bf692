// How large a CloneSet may be. OpenKruise has none of these limits, Kubernetes only that of a whole object in etcd:
// each is far above what a useful CloneSet needs.
//
//   in admission      `cloneSetLimitProblems`; an update may keep what is above a limit already, or make it smaller
//   where it is used  the order of an update uses the first `mostTerms` terms of each list, as a CloneSet may have been
//                     stored before there were limits; all other work grows with the size of the object alone

import { type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import type { FieldError } from '../core/field-error.ts';
import { bytes, count, items, type Measure, open, overLimit } from '../core/limits.ts';
import { mostTerms } from '../fleet/update-order.ts';
import { type CloneSetVersion, cloneSetVersion } from './types.ts';

/** Bytes of JSON of the template, and of all PVC templates together: almost the maximum size of an object in etcd. */
export const mostTemplateBytes = 1024 * 1024;

/** Levels of nested objects and lists within the template, and within a PVC template. */
export const deepestTemplate = 100;

/** PVC templates. */
export const mostClaimTemplates = 256;

/** Names in podsToDelete. */
export const mostPodsToDelete = 10_000;

/** Characters of a name in podsToDelete: the maximum length of a pod name. */
export const longestPodToDelete = 253;

/** Bytes of JSON of a selector, of all priorities, and of all scatter terms. */
export const mostSelectorBytes = 256 * 1024;

/** Bytes of JSON of the hooks of lifecycle. */
export const mostLifecycleBytes = 256 * 1024;

/** Of parts that pass through as open JSON. */
const openLimits = { levels: deepestTemplate, bytes: mostTemplateBytes } as const;

/** The limits that a CloneSet exceeds; what `before` exceeds already is no problem as long as it does not grow. */
export function cloneSetLimitProblems(after: JsonObject, before?: JsonObject): readonly FieldError[] {
  return overLimit(measuresOf(after), before === undefined ? [] : measuresOf(before));
}

function measuresOf(set: JsonObject): readonly Measure[] {
  const spec = objectOr(set.spec);
  const { scaleStrategy, template, volumeClaimTemplates } = spec;
  return [
    bytes('spec.selector', spec.selector, mostSelectorBytes),
    ...open('spec.template', template, openLimits),
    ...open('spec.volumeClaimTemplates', volumeClaimTemplates, openLimits),
    items('spec.volumeClaimTemplates', volumeClaimTemplates, mostClaimTemplates),
    ...podsToDeleteMeasures(objectOr(scaleStrategy).podsToDelete),
    count('spec.scaleStrategy.maxUnavailable', objectOr(scaleStrategy).maxUnavailable),
    ...paceMeasures(spec, cloneSetVersion(set) ?? 'v1beta1'),
    bytes('spec.lifecycle', spec.lifecycle, mostLifecycleBytes),
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
  const { weightPriority, orderPriority } = objectOr(priorityStrategy);
  return [
    ...(['partition', 'maxUnavailable', 'maxSurge'] as const).map((field) => count(`${at}.${field}`, fields[field])),
    items(`${at}.priorityStrategy.weightPriority`, weightPriority, mostTerms),
    items(`${at}.priorityStrategy.orderPriority`, orderPriority, mostTerms),
    bytes(`${at}.priorityStrategy`, priorityStrategy, mostSelectorBytes),
    items(`${at}.scatterStrategy`, scatterStrategy, mostTerms),
    bytes(`${at}.scatterStrategy`, scatterStrategy, mostSelectorBytes),
    count(
      `${at}.inPlaceUpdateStrategy.imagePreDownloadParallelism`,
      objectOr(inPlaceUpdateStrategy).imagePreDownloadParallelism,
    ),
  ];
}
