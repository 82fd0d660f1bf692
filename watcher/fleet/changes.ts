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
