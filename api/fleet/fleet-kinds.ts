import { cloneSets } from '../cloneset/types.ts';
import type { OwnerReference, Resource } from '../core/meta.ts';
import { daemonSets } from '../daemon-set/types.ts';
import { type PerKind, partOf, partsOf } from '../per-kind.ts';
import { sidecarSets } from '../sidecar-set/types.ts';
import { statefulSets } from '../stateful-set/types.ts';

/** The resources whose changes are rolled out. */
const fleetKinds: PerKind<Resource> = {
  CloneSet: cloneSets,
  ContainerRecreateRequest: 'none',
  PodProbeMarker: 'none',
  NodePodProbe: 'none',
  ImageListPullJob: 'none',
  ImagePullJob: 'none',
  NodeImage: 'none',
  SidecarSet: sidecarSets,
  StatefulSet: statefulSets,
  DaemonSet: daemonSets,
};

/** The resource of this kind; undefined for a kind that is not rolled out. */
export function fleetResource(kind: string): Resource | undefined {
  return partOf(fleetKinds, kind);
}

/** The kind of an owner reference if its changes are rolled out, in any version. */
export function fleetOf({ apiVersion, kind }: Pick<OwnerReference, 'apiVersion' | 'kind'>): Resource | undefined {
  const resource = partOf(fleetKinds, kind);
  return resource !== undefined && apiVersion.startsWith(`${resource.group}/`) ? resource : undefined;
}

/** All of them. */
export const fleetResources: readonly Resource[] = partsOf(fleetKinds);

/** The names of the kinds whose changes are rolled out to pods that they own. A SidecarSet changes pods of others. */
export const workloadKindNames: readonly string[] = fleetResources
  .map(({ kind }) => kind)
  .filter((kind) => kind !== sidecarSets.kind);
