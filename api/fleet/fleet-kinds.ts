import { cloneSets } from '../cloneset/types.ts';
import type { OwnerReference, Resource } from '../core/meta.ts';

/** The kinds whose changes are rolled out, as the API server addresses them. */
const fleetKinds: Readonly<Record<string, Resource>> = { [cloneSets.kind]: cloneSets };

/** How the API server addresses objects of this kind; undefined for a kind that is not rolled out. */
export function fleetResource(kind: string): Resource | undefined {
  return fleetKinds[kind];
}

/** The kind whose changes are rolled out that an owner reference names, in whatever version. */
export function fleetOf({ apiVersion, kind }: Pick<OwnerReference, 'apiVersion' | 'kind'>): Resource | undefined {
  const resource = Object.hasOwn(fleetKinds, kind) ? fleetKinds[kind] : undefined;
  return resource !== undefined && apiVersion.startsWith(`${resource.group}/`) ? resource : undefined;
}
