/** What the PVCs of every kind have in common: their owners, and those that are to be deleted with their pod (CS-35). */
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { OwnerReference } from '../../api/core/meta.ts';
import type { FleetInput, VolumeClaim } from './input.ts';
import { asSeen } from './pods.ts';
import type { Intention } from './steps.ts';

/** The change of the owners of a PVC as a step. All others stay, those included that the caches do not keep. */
export function ownerChange(
  claim: VolumeClaim,
  { removed, added }: { readonly removed: readonly Pick<OwnerReference, 'uid'>[]; readonly added?: OwnerReference },
): Intention {
  const removals = removed.map(({ uid }) => ({ $patch: 'delete', uid }));
  const ownerReferences = [...removals, ...(added ? [{ ...added }] : [])];
  return { kind: 'writeClaim', claim: asSeen(claim), patch: { metadata: { ownerReferences } } };
}

/** The owners of a PVC after such a change. */
export function ownersAfter({ metadata }: VolumeClaim, patch: JsonObject): readonly OwnerReference[] {
  const changes = listOr(objectOr(patch.metadata).ownerReferences).map(objectOr);
  const isChanged = ({ uid }: OwnerReference) => changes.some((change) => change.uid === uid);
  const added = changes.filter(({ $patch }) => $patch !== 'delete') as unknown as readonly OwnerReference[];
  return [...(metadata.ownerReferences ?? []).filter((owner) => !isChanged(owner)), ...added];
}

/** CS-35: the PVCs that still exist although they were to be deleted with their pod. */
export function owedClaims(
  { owedClaims: owed }: Pick<FleetInput<unknown>, 'owedClaims'>,
  claims: readonly VolumeClaim[],
): readonly VolumeClaim[] {
  if (owed === undefined) return [];
  return claims.filter(({ metadata }) => owed.has(metadata.uid) && metadata.deletionTimestamp === undefined);
}

/** The PVC as if its deletion had begun. */
export function asGoing({ metadata }: VolumeClaim, { nowMs }: Pick<FleetInput<unknown>, 'nowMs'>): VolumeClaim {
  return { metadata: { ...metadata, deletionTimestamp: timestamp(nowMs) } };
}
