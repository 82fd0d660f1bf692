import { cloneSets } from '../cloneset/types.ts';
import type { OwnerReference, Resource } from '../core/meta.ts';
import { type PerKind, partOf, partsOf } from '../per-kind.ts';

/** The kinds whose changes are rolled out, as the API server addresses them. */
const fleetKinds: PerKind<Resource> = {
  CloneSet: cloneSets,
  ContainerRecreateRequest: 'none',
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
};

/** How the API server addresses objects of this kind; undefined for a kind that is not rolled out. */
export function fleetResource(kind: string): Resource | undefined {
  return partOf(fleetKinds, kind);
}

/** The kind whose changes are rolled out that an owner reference names, in whatever version. */
export function fleetOf({ apiVersion, kind }: Pick<OwnerReference, 'apiVersion' | 'kind'>): Resource | undefined {
  const resource = partOf(fleetKinds, kind);
  return resource !== undefined && apiVersion.startsWith(`${resource.group}/`) ? resource : undefined;
}

/** The names of the kinds whose changes are rolled out. */
export const fleetKindNames: readonly string[] = partsOf(fleetKinds).map(({ kind }) => kind);
