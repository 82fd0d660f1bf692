import type { KubeObject } from '../../api/core/meta.ts';

/** Whether the spec, labels or annotations of an object have changed, and not its status alone. */
export function isEdited(before: KubeObject | undefined, after: KubeObject | undefined): boolean {
  const edited = (owner: KubeObject | undefined) => {
    const { generation, labels, annotations, deletionTimestamp } = owner?.metadata ?? {};
    return JSON.stringify([generation, labels, annotations, deletionTimestamp]);
  };
  return edited(before) !== edited(after);
}
