import { sameJson } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { OrderedObject } from '../../api/fleet/roll-out-orders.ts';

/** Whether the spec, labels, annotations or orders of an object have changed, and nothing else of its status alone. */
export function isEdited<Object extends KubeObject & OrderedObject>(
  before: Object | undefined,
  after: Object | undefined,
): boolean {
  const edited = (owner: Object | undefined) => {
    const { generation, labels, annotations, deletionTimestamp } = owner?.metadata ?? {};
    return JSON.stringify([generation, labels, annotations, deletionTimestamp, owner?.status?.rollOut]);
  };
  return edited(before) !== edited(after);
}

/**
 * Whether an object that is being deleted is due to go at another time, and nothing else has changed: its kubelet has ended a pod, which
 * goes in the next moment.
 */
export function isDueEarlier(before: KubeObject, after: KubeObject): boolean {
  if (before.metadata.deletionTimestamp === undefined || after.metadata.deletionTimestamp === undefined) return false;
  const { resourceVersion, deletionTimestamp } = after.metadata;
  return sameJson({ ...before, metadata: { ...before.metadata, resourceVersion, deletionTimestamp } }, after);
}
