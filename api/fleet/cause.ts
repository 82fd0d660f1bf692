import type { ObjectMeta } from '../core/meta.ts';
import { fleetOf } from './fleet-kinds.ts';
import { rollOutId } from './operation.ts';

/**
 * The workflow ID of the roll-out that causes work on this object: that of the CloneSet that controls it, which is in
 * the same namespace. Undefined for an object that no such kind controls.
 */
export function rollOutBehind({
  metadata,
}: {
  readonly metadata: Pick<ObjectMeta, 'namespace' | 'ownerReferences'>;
}): string | undefined {
  const owner = metadata.ownerReferences?.find((reference) => reference.controller && fleetOf(reference) !== undefined);
  if (owner === undefined) return undefined;
  const { name, uid } = owner;
  return rollOutId({ name, uid, ...(fleetOf(owner)?.namespaced && { namespace: metadata.namespace ?? '' }) });
}
