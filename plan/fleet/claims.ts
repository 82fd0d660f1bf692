/** PVCs that are to be deleted with their pod (CS-35). */
import { timestamp } from '../../api/base/time.ts';
import type { FleetInput, VolumeClaim } from './input.ts';

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
