// How large a SidecarSet may be. OpenKruise has none of these limits, Kubernetes only that of a whole object in etcd. A
// SidecarSet is read for every new pod that it selects, so each limit also bounds the work for a pod.

import { type JsonObject, listOr, objectOr } from '../base/json.ts';
import type { FieldError } from '../core/field-error.ts';
import { bytes, count, items, type Measure, open, overLimit } from '../core/limits.ts';
import { mostTerms } from '../fleet/update-order.ts';

/** Containers and init containers together. */
export const mostSidecars = 256;

/** Volumes. */
export const mostVolumes = 1_024;

/** Bytes of JSON of all containers, and of all volumes. */
export const mostContentBytes = 512 * 1024;

/** Levels of nested objects and lists within containers and volumes. */
export const deepestContent = 100;

/** Bytes of JSON of `patchPodMetadata`: the maximum size of all annotations of an object. */
export const mostPatchBytes = 256 * 1024;

/** Bytes of JSON of a selector, of all priorities, and of all scatter terms. */
export const mostSelectorBytes = 256 * 1024;

/** Of parts that pass through as open JSON. */
const openLimits = { levels: deepestContent, bytes: mostContentBytes } as const;

/** The limits that a SidecarSet exceeds; what `before` exceeds already is no problem as long as it does not grow. */
export function sidecarSetLimitProblems(after: JsonObject, before?: JsonObject): readonly FieldError[] {
  return overLimit(measuresOf(after), before === undefined ? [] : measuresOf(before));
}

/** Whether it has more containers than are read at all, also where it was stored with them. */
export function hasTooManySidecars({ spec }: JsonObject): boolean {
  const { containers, initContainers } = objectOr(spec);
  return listOr(containers).length + listOr(initContainers).length > mostSidecars;
}

function measuresOf({ spec }: JsonObject): readonly Measure[] {
  const { selector, namespaceSelector, containers, initContainers, volumes, patchPodMetadata, updateStrategy } =
    objectOr(spec);
  const strategy = objectOr(updateStrategy);
  const { weightPriority, orderPriority } = objectOr(strategy.priorityStrategy);
  const at = 'spec.updateStrategy';
  return [
    bytes('spec.selector', selector, mostSelectorBytes),
    bytes('spec.namespaceSelector', namespaceSelector, mostSelectorBytes),
    items('spec.containers', [...listOr(containers), ...listOr(initContainers)], mostSidecars),
    items('spec.volumes', volumes, mostVolumes),
    ...open('spec.containers', containers, openLimits),
    ...open('spec.initContainers', initContainers, openLimits),
    ...open('spec.volumes', volumes, openLimits),
    bytes('spec.patchPodMetadata', patchPodMetadata, mostPatchBytes),
    bytes(`${at}.selector`, strategy.selector, mostSelectorBytes),
    items(`${at}.priorityStrategy.weightPriority`, weightPriority, mostTerms),
    items(`${at}.priorityStrategy.orderPriority`, orderPriority, mostTerms),
    items(`${at}.scatterStrategy`, strategy.scatterStrategy, mostTerms),
    bytes(`${at}.priorityStrategy`, strategy.priorityStrategy, mostSelectorBytes),
    bytes(`${at}.scatterStrategy`, strategy.scatterStrategy, mostSelectorBytes),
    ...(['partition', 'maxUnavailable'] as const).map((field) => count(`${at}.${field}`, strategy[field])),
  ];
}
