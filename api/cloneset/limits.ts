// How large a CloneSet may be. OpenKruise has none of these limits, Kubernetes only that of a whole object in etcd:
// each is far above what a useful CloneSet needs.
//
//   in admission      `cloneSetLimitProblems`; an update may keep what is above a limit already, or make it smaller
//   where it is used  the order of an update uses the first `mostTerms` terms of each list, as a CloneSet may have been
//                     stored before there were limits; all other work grows with the size of the object alone

import { isAbsent, type Json, type JsonObject, listOr, objectOr } from '../base/json.ts';
import { jsonBytes } from '../base/json-bytes.ts';
import type { FieldError } from '../core/field-error.ts';
import { depthOf, type Measure, overLimit } from '../core/limits.ts';
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

/** Characters of a number or percentage given as string. */
export const longestCount = 64;

/** The limits that a CloneSet exceeds; what `before` exceeds already is no problem as long as it does not grow. */
export function cloneSetLimitProblems(after: JsonObject, before?: JsonObject): readonly FieldError[] {
  return overLimit(measuresOf(after), before === undefined ? [] : measuresOf(before));
}

function measuresOf(set: JsonObject): readonly Measure[] {
  const spec = objectOr(set.spec);
  const { scaleStrategy, template, volumeClaimTemplates } = spec;
  return [
    bytes('spec.selector', spec.selector, mostSelectorBytes),
    ...open('spec.template', template),
    ...open('spec.volumeClaimTemplates', volumeClaimTemplates),
    items('spec.volumeClaimTemplates', volumeClaimTemplates, mostClaimTemplates),
    ...podsToDeleteMeasures(objectOr(scaleStrategy).podsToDelete),
    count('spec.scaleStrategy.maxUnavailable', objectOr(scaleStrategy).maxUnavailable),
    ...paceMeasures(spec, cloneSetVersion(set) ?? 'v1beta1'),
    bytes('spec.lifecycle', spec.lifecycle, mostLifecycleBytes),
  ];
}

/** The parts that pass through as open JSON. */
function open(path: string, value: Json | undefined): readonly Measure[] {
  const depth = depthOf(value);
  const levels: Measure = {
    ...{ path, key: `${path} levels`, value: depth, most: deepestTemplate },
    rule: `must not have more than ${deepestTemplate} levels of objects and lists`,
  };
  // Deeply nested values are not serialized: that may overflow the stack.
  return depth > mostCountedLevels ? [levels] : [levels, bytes(path, value, mostTemplateBytes)];
}

/** Far above the limit, and far below what overflows the stack. */
const mostCountedLevels = 1_000;

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

function bytes(path: string, value: Json | undefined, most: number): Measure {
  const size = isAbsent(value) ? 0 : jsonBytes(value);
  return { path, key: `${path} bytes`, value: size, most, rule: `must not have more than ${most / 1024} KiB of JSON` };
}

function items(path: string, value: Json | undefined, most: number): Measure {
  const rule = `must not have more than ${most} items`;
  return { path, key: `${path} items`, value: listOr(value).length, most, rule };
}

/** A number or percentage given as string. */
function count(path: string, value: Json | undefined): Measure {
  const length = typeof value === 'string' ? value.length : 0;
  const rule = `must not be longer than ${longestCount} characters`;
  return { path, key: `${path} text`, value: length, most: longestCount, rule };
}
