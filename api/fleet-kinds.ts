import { cloneSets } from './cloneset.ts';
import type { Resource } from './meta.ts';

/** The kinds whose changes are rolled out, as the API server addresses them. */
const fleetKinds: Readonly<Record<string, Resource>> = { [cloneSets.kind]: cloneSets };

/** How the API server addresses objects of this kind; undefined for a kind that is not rolled out. */
export function fleetResource(kind: string): Resource | undefined {
  return fleetKinds[kind];
}
