// The barrier of a pod: a ConfigMap with a key for each priority whose containers may start.

import {
  barrierName,
  barrierOwners,
  type LaunchBarrier,
  launchMark,
  publishedKeys,
} from '../../../../api/container-launch-priority.ts';
import type { Pod } from '../../../../api/core/pod.ts';
import { kubeResource } from '../../../../api/core/well-known.ts';
import { unlessMovedOn } from '../../../../kube/moved-on.ts';
import type { LaunchPassDependencies } from './launch-pass-dependencies.ts';

/** The index of barriers by the UID of their pod. */
export const barriersByPod = 'pod';

/** Index functions of the cache of barriers. */
export const barrierIndexes = {
  [barriersByPod]: (barrier: LaunchBarrier): readonly string[] => barrierOwners(barrier),
};

/** Selects barriers among all ConfigMaps. */
export const barrierSelector = `${launchMark.barrier}=true`;

/** The keys that a barrier publishes. */
export function keysOf(barrier: LaunchBarrier | undefined): ReadonlySet<string> {
  return new Set(barrier === undefined ? [] : publishedKeys(barrier));
}

/** The barrier of this pod in the cache. */
export async function ownBarrier(pod: Pod, world: LaunchPassDependencies): Promise<LaunchBarrier | undefined> {
  const { namespace = '', name } = pod.metadata;
  const found = world.barriers.byName(namespace, barrierName(name));
  return found && (await keepIfOwn(pod, found, world));
}

/**
 * The barrier, if it belongs to exactly this pod. One that an earlier pod of the same name has left behind would let
 * all containers start at once, and would then be garbage collected: it is deleted (CLP-23).
 */
export async function keepIfOwn(
  pod: Pod,
  found: LaunchBarrier,
  { kube }: LaunchPassDependencies,
): Promise<LaunchBarrier | undefined> {
  const owners = barrierOwners(found);
  if (owners.includes(pod.metadata.uid)) return found;
  if (owners.length === 0) return undefined;
  const { namespace = '', name, uid } = found.metadata;
  await unlessMovedOn(kube.delete(kubeResource.configMaps, { namespace, name }, { preconditions: { uid } }));
  return undefined;
}

/** Adds keys to the barrier, which is created if there is none. */
export async function addKeys(
  pod: Pod,
  known: LaunchBarrier | undefined,
  keys: readonly string[],
  { kube }: LaunchPassDependencies,
): Promise<LaunchBarrier> {
  const { namespace = '', name: podName, uid } = pod.metadata;
  const name = barrierName(podName);
  const data = Object.fromEntries(keys.map((key) => [key, 'true']));
  const labels = { [launchMark.barrier]: 'true', 'app.kubernetes.io/managed-by': 'windlass' };
  if (known) {
    const body = { metadata: { uid: known.metadata.uid, labels }, data };
    return await kube.patch<LaunchBarrier>(kubeResource.configMaps, { namespace, name }, 'merge', body);
  }
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Pod', name: podName, uid }];
  const annotations = { 'kubernetes.io/description': description(podName) };
  const metadata = { namespace, name, labels, annotations, ownerReferences };
  return await kube.create<LaunchBarrier>(kubeResource.configMaps, { metadata, data });
}

function description(podName: string): string {
  return (
    `Each key lets containers of pod ${podName} start, in order. They need it at every restart: ` +
    'it is deleted with the pod, and recreated when it is deleted earlier'
  );
}

/** The pod is gone: deletes its barrier before another pod of the same name can be affected by it (CLP-25). */
export async function removeBarriers(podUid: string, { kube, barriers }: LaunchPassDependencies): Promise<undefined> {
  for (const { metadata } of barriers.byIndex(barriersByPod, podUid)) {
    const { namespace = '', name, uid } = metadata;
    await unlessMovedOn(kube.delete(kubeResource.configMaps, { namespace, name }, { preconditions: { uid } }));
  }
}
