/** PVCs that are to be deleted with their pod (CS-35). */
import { timestamp } from '../../../api/base/time.ts';
import type { FleetInput, VolumeClaim } from './input.ts';

/** CS-35: the PVCs that were to go with their pod and are still there. */
export function owedClaims(
  { owedClaims: owed }: Pick<FleetInput<unknown>, 'owedClaims'>,
  claims: readonly VolumeClaim[],
): readonly VolumeClaim[] {
  if (owed === undefined) return [];
  return claims.filter(({ metadata }) => owed.has(metadata.uid) && metadata.deletionTimestamp === undefined);
}

/** The PVC as everything else has to take it once it is to be deleted. */
export function asGoing({ metadata }: VolumeClaim, { nowMs }: Pick<FleetInput<unknown>, 'nowMs'>): VolumeClaim {
  return { metadata: { ...metadata, deletionTimestamp: timestamp(nowMs) } };
}
