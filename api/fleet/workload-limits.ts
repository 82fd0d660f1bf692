// How large the parts may be that all workloads with pods of their own have. Each limit is far above what a useful workload
// needs.

import { type Json, type JsonObject, objectOr } from '../base/json.ts';
import { bytes, items, type Measure, open } from '../core/limits.ts';
import { mostTerms } from './update-order.ts';

/** Bytes of JSON of the template, and of all PVC templates together: almost the maximum size of an object in etcd. */
export const mostTemplateBytes = 1024 * 1024;

/** Levels of nested objects and lists within the template, and within a PVC template. */
export const deepestTemplate = 100;

/** PVC templates. */
export const mostClaimTemplates = 256;

/** Bytes of JSON of a selector, of all priorities, and of all scatter terms. */
export const mostSelectorBytes = 256 * 1024;

/** Bytes of JSON of the hooks of lifecycle. */
export const mostLifecycleBytes = 256 * 1024;

/** Of parts that pass through as open JSON. */
const openLimits = { levels: deepestTemplate, bytes: mostTemplateBytes } as const;

/** The sizes of the parts of a spec. */
export function workloadMeasures(spec: JsonObject): readonly Measure[] {
  const { selector, template, volumeClaimTemplates, lifecycle } = spec;
  return [
    bytes('spec.selector', selector, mostSelectorBytes),
    ...open('spec.template', template, openLimits),
    ...open('spec.volumeClaimTemplates', volumeClaimTemplates, openLimits),
    items('spec.volumeClaimTemplates', volumeClaimTemplates, mostClaimTemplates),
    bytes('spec.lifecycle', lifecycle, mostLifecycleBytes),
  ];
}

/** The sizes of an order by priority. */
export function priorityMeasures(path: string, strategy: Json | undefined): readonly Measure[] {
  const { weightPriority, orderPriority } = objectOr(strategy);
  return [
    items(`${path}.weightPriority`, weightPriority, mostTerms),
    items(`${path}.orderPriority`, orderPriority, mostTerms),
    bytes(path, strategy, mostSelectorBytes),
  ];
}
