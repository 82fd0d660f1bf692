/**
 * Starts the containers of a pod in order. One pass looks at one pod: which keys its barrier contains, which of its
 * containers are ready; and publishes the keys that are due. The pod's annotation reports what the rest waits for. That
 * change of the pod also makes the kubelet retry a held container at once; by itself it retries every 10 to 15 s.
 */

import {
  barrierName,
  barrierOwners,
  heldContainers,
  isLaunchCompleted,
  keyOfContainer,
  type LaunchBarrier,
  type LaunchContainer,
  launchOrder,
  launchWaits,
} from '../../../../api/container-launch-priority.ts';
import type { ObjectMeta } from '../../../../api/core/meta.ts';
import { isActive, type Pod } from '../../../../api/core/pod.ts';
import { kubeResource } from '../../../../api/core/well-known.ts';
import type { PassResult } from '../../../../kube/keyed-queue.ts';
import { hasMovedOn } from '../../../../kube/moved-on.ts';
import { type LaunchStep, nextLaunch, unpublished } from '../../../../plan/container-launch-priority.ts';
import { waitFor } from '../../../../plan/decision.ts';
import { addKeys, keepIfOwn, keysOf, ownBarrier, removeBarriers } from './barrier.ts';
import type { LaunchPassDependencies } from './launch-pass-dependencies.ts';
import { emitEvent, keyOfProgress, progressEvent, reportMissed, writeLaunchStatus } from './report.ts';

/** Another client has written the pod; the cache shows it soon. */
const conflictMs = 200;

/** How often a foreign ConfigMap with the barrier's name is checked again. */
const takenMs = 10_000;

/**
 * The next pass must not repeat this write, so it waits until the cache shows it; longer than any watch may be silent.
 */
const seenMs = 60_000;

/** Whether the launch of this pod is ordered, or should have been. */
export function isOrdered(pod: Pod): boolean {
  return heldContainers(pod).length > 0 || isMissed(pod);
}

/** A pod that requests an order, and that admission did not see when it was created. */
function isMissed(pod: Pod): boolean {
  const { metadata, spec, status } = pod;
  if (status?.phase !== undefined && status.phase !== 'Pending') return false;
  const containers = spec.containers.map(({ env = [] }) => ({ env }));
  const isAsked = launchOrder({ annotations: metadata.annotations ?? {}, containers }).kind === 'ordered';
  return isAsked && heldContainers(pod).length === 0;
}

/** One pass over one pod. */
export async function passOverLaunch(podUid: string, world: LaunchPassDependencies): Promise<PassResult | undefined> {
  const pod = world.pods.byUid(podUid);
  if (pod === undefined) return await removeBarriers(podUid, world);
  if (!isActive(pod)) return undefined;
  const containers = heldContainers(pod);
  if (containers.length === 0) {
    if (isMissed(pod)) await reportMissed(pod, world);
    return undefined;
  }

  const barrier = await ownBarrier(pod, world);
  const { step, version } = await publishDue(pod, containers, barrier, world);
  const isNews = !isLaunchCompleted(pod);
  const text = isNews ? progressEvent(containers, barrier, step) : undefined;
  const [isWritten] = await Promise.all([
    isNews ? writeLaunchStatus(pod, step, world) : true,
    // one Event for what is published, whether or not the annotation can be written
    text && emitEvent(pod, text, keyOfProgress(pod, step), world),
    version && world.barriers.seen(version.uid, version.resourceVersion, AbortSignal.timeout(seenMs)),
  ]);
  if (!isWritten) return { againInMs: conflictMs };
  // the ConfigMap with this name is not watched
  return step.waitingFor?.reason === 'BarrierNameTaken' ? { againInMs: takenMs } : undefined;
}

/** Publishes what is due. An existing barrier that the cache does not show is read, and decided on again. */
async function publishDue(
  pod: Pod,
  containers: readonly LaunchContainer[],
  barrier: LaunchBarrier | undefined,
  world: LaunchPassDependencies,
): Promise<{ readonly step: LaunchStep; readonly version?: ObjectMeta }> {
  const published = keysOf(barrier);
  // CLP-22: keys that were published before are published again, whatever state the containers are in
  const step = isLaunchCompleted(pod) ? allKeys(containers, published) : nextLaunch({ pod, containers, published });
  if (barrier && step.publish.length === 0) return { step };
  try {
    const due = containers.filter(({ priority }) => step.publish.includes(priority)).map(keyOfContainer);
    return { step, version: (await addKeys(pod, barrier, due, world)).metadata };
  } catch (error) {
    if (barrier || !hasMovedOn(error)) throw error;
    // a ConfigMap without our label: left behind, created by OpenKruise, or foreign
    const { namespace = '', name } = pod.metadata;
    const ref = { namespace, name: barrierName(name) };
    const found = await world.kube.get<LaunchBarrier>(kubeResource.configMaps, ref);
    if (barrierOwners(found).length === 0) return { step: stepForTakenName(found) };
    const usable = await keepIfOwn(pod, found, world);
    if (usable === undefined) throw error;
    return await publishDue(pod, containers, usable, world);
  }
}

/**
 * A ConfigMap that is not a barrier of a pod is not changed: the user who created the pod may have no right to write
 * it.
 */
function stepForTakenName({ metadata }: LaunchBarrier): LaunchStep {
  const reason = 'BarrierNameTaken';
  const waitingFor = waitFor(reason, [`configmap/${metadata.name}`], launchWaits[reason]);
  return { publish: [], completed: false, waitingFor };
}

function allKeys(containers: readonly LaunchContainer[], published: ReadonlySet<string>): LaunchStep {
  return { publish: unpublished(containers, published), completed: true };
}
