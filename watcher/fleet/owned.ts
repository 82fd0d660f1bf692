/**
 * What workloads control: pods, PersistentVolumeClaims, revisions, jobs. The index is the same for every kind of workload, so
 * that several kinds that follow one resource share it, and each finds only its own.
 */

import type { KubeObject, OwnerReference, Resource } from '../../api/core/meta.ts';
import { fleetOf } from '../../api/fleet/fleet-kinds.ts';
import { seriesOf } from '../../api/stateful-set/ordinals.ts';
import type { Cache } from '../../kube/cache.ts';

type Kind = Pick<Resource, 'group' | 'kind'>;

/** Finds what a workload controls. */
export const ownedIndex = {
  owner: (object: KubeObject): readonly string[] => {
    const controller = controllerIn(object);
    return controller?.uid ? [keyOf(kindOf(controller), controller.uid)] : [];
  },
} as const;

/** Finds objects without a controller, by namespace. */
export const orphanIndex = {
  orphan: (object: KubeObject): readonly string[] => (isOrphan(object) ? [object.metadata.namespace ?? ''] : []),
} as const;

/** Finds PVCs by namespace and name without the ordinal: `shop/data-web` for `data-web-0`. */
export const seriesIndex = {
  series: ({ metadata: { namespace = '', name } }: KubeObject): readonly string[] => {
    const series = seriesOf(name);
    return series === undefined ? [] : [`${namespace}/${series}`];
  },
} as const;

/** Finds workloads by namespace. */
export const namespaceIndex = {
  namespace: ({ metadata }: KubeObject): readonly string[] => [metadata.namespace ?? ''],
} as const;

/** Whether the object has no controller. */
export function isOrphan({ metadata }: KubeObject): boolean {
  return !metadata.ownerReferences?.some(({ controller }) => controller);
}

/** The workloads of a namespace, of a cache that has `namespaceIndex`. */
export function inNamespace<T extends KubeObject>(cache: Pick<Cache<T>, 'byIndex'>, namespace: string): readonly T[] {
  return cache.byIndex('namespace', namespace);
}

/** What the workload of this UID controls, of a cache that has `ownedIndex`. */
export function ownedBy<T extends KubeObject>(cache: Pick<Cache<T>, 'byIndex'>, kind: Kind, uid: string): readonly T[] {
  return cache.byIndex('owner', keyOf(kind, uid));
}

/** The objects of a namespace without a controller, of a cache that has `orphanIndex`. */
export function orphansIn<T extends KubeObject>(cache: Pick<Cache<T>, 'byIndex'>, namespace: string): readonly T[] {
  return cache.byIndex('orphan', namespace);
}

/** The UID of the workload of this kind that controls the object. */
export function ownerIn(object: KubeObject | undefined, kind: Kind): string | undefined {
  const controller = object && controllerIn(object);
  if (controller === undefined) return undefined;
  const named = kindOf(controller);
  return named.kind === kind.kind && named.group === kind.group ? controller.uid : undefined;
}

/** Whether a workload whose changes are rolled out controls the object. */
export function isOfFleet(object: KubeObject): boolean {
  const controller = controllerIn(object);
  return controller !== undefined && fleetOf(controller) !== undefined;
}

function controllerIn({ metadata }: KubeObject): OwnerReference | undefined {
  return metadata.ownerReferences?.find((reference) => reference.controller);
}

/** In whatever version the reference is. */
function kindOf({ apiVersion, kind }: OwnerReference): Kind {
  return { group: apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '', kind };
}

function keyOf({ group, kind }: Kind, uid: string): string {
  return `${group}/${kind}/${uid}`;
}
