/**
 * Starts the containers of a pod in order. One pass looks at one pod: which keys its barrier contains, which of its
 * containers are ready; and publishes the keys that are due. The pod's annotation reports what the rest waits for. That
 * change of the pod also makes the kubelet retry a held container at once; by itself it retries every 10 to 15 s.
 */

import { timestamp } from '../../../api/base/time.ts';
import {
  barrierName,
  barrierOwners,
  heldContainers,
  isLaunchCompleted,
  keyOfContainer,
  type LaunchBarrier,
  type LaunchContainer,
  launchMark,
  launchOrder,
  launchStatusOf,
  launchWaits,
  publishedKeys,
} from '../../../api/container-launch-priority.ts';
import type { EventText } from '../../../api/core/event.ts';
import type { ObjectMeta } from '../../../api/core/meta.ts';
import { isActive, type Pod } from '../../../api/core/pod.ts';
import { eventComponent, kubeResource } from '../../../api/core/well-known.ts';
import type { Cache } from '../../../kube/cache.ts';
import { tellEvent } from '../../../kube/events.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import type { PassResult } from '../../../kube/keyed-queue.ts';
import { hasMovedOn, unlessMovedOn } from '../../../kube/moved-on.ts';
import {
  type LaunchStep,
  nextLaunch,
  prioritiesOf,
  unpublished,
} from '../../../workflows/plan/container-launch-priority.ts';
import { waitFor } from '../../../workflows/plan/decision.ts';
import { waitingOnBlockersSince } from '../../../workflows/plan/waiting-since.ts';
import type { Controller, ControllerContext } from '../../controller.ts';

/** The index of barriers by the UID of their pod. */
export const barriersByPod = 'pod';

/** Index functions of the cache of barriers. */
export const barrierIndexes = {
  [barriersByPod]: (barrier: LaunchBarrier): readonly string[] => barrierOwners(barrier),
};

/** Selects barriers among all ConfigMaps. */
export const barrierSelector = `${launchMark.barrier}=true`;

export interface LaunchPassDependencies {
  readonly kube: KubeWriter;
  readonly pods: Pick<Cache<Pod>, 'byUid'>;
  readonly barriers: Pick<Cache<LaunchBarrier>, 'byName' | 'byIndex' | 'seen'>;
  readonly now: () => number;
  /** UIDs of pods for which the Event that admission has missed them was written. */
  readonly told: Set<string>;
}

/**
 * Ensures that the containers of ordered pods start one after the other, and that barriers exist as long as their pods.
 */
export function containerLaunches({ kube, now, isLeading, cache, queue }: ControllerContext): Controller {
  const pods = cache<Pod>(kubeResource.pods);
  const barriers = cache<LaunchBarrier>(kubeResource.configMaps, barrierIndexes, { labelSelector: barrierSelector });
  const told = new Set<string>();
  const world: LaunchPassDependencies = { kube, pods, barriers, now, told };
  const passes = queue('launches', (podUid) => passOverLaunch(podUid, world));

  pods.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid ?? '';
    if (after === undefined) told.delete(uid);
    if (!isLeading()) return;
    if (after === undefined ? barriers.byIndex(barriersByPod, uid).length > 0 : isOrdered(after)) passes.add(uid);
  });
  barriers.onChange(({ before, after }) => {
    if (!isLeading()) return;
    for (const barrier of [before, after]) for (const uid of barrier ? barrierOwners(barrier) : []) passes.add(uid);
  });
  return {
    wantAll() {
      for (const pod of pods.all()) if (isOrdered(pod)) passes.add(pod.metadata.uid);
    },
  };
}

/** Whether the launch of this pod is ordered, or should have been. */
export function isOrdered(pod: Pod): boolean {
  return heldContainers(pod).length > 0 || wasMissed(pod);
}

/** One pass over one pod. */
export async function passOverLaunch(podUid: string, world: LaunchPassDependencies): Promise<PassResult | undefined> {
  const pod = world.pods.byUid(podUid);
  if (pod === undefined) return await removeBarriers(podUid, world);
  if (!isActive(pod)) return undefined;
  const containers = heldContainers(pod);
  if (containers.length === 0) return await tellMissed(pod, world);

  const barrier = await ownBarrier(pod, world);
  const { step, version } = await publishDue(pod, containers, barrier, world);
  const isNews = !isLaunchCompleted(pod);
  const text = isNews ? progressOf(containers, barrier, step) : undefined;
  const [isTold] = await Promise.all([
    isNews ? tell(pod, step, world) : true,
    // one Event for what is published, whether or not the annotation can be written
    text && sayOf(pod, text, keyOf(pod, step), world),
    version && world.barriers.seen(version.uid, version.resourceVersion, AbortSignal.timeout(seenMs)),
  ]);
  if (!isTold) return { againInMs: conflictMs };
  // the ConfigMap with this name is not watched
  return step.waitingFor?.reason === 'BarrierNameTaken' ? { againInMs: takenMs } : undefined;
}

/** Another client has written the pod; the cache shows it soon. */
const conflictMs = 200;

/** How often a foreign ConfigMap with the barrier's name is checked again. */
const takenMs = 10_000;

/**
 * The next pass must not repeat this write, so it waits until the cache shows it; longer than any watch may be silent.
 */
const seenMs = 60_000;

/** Publishes what is due. An existing barrier that the cache does not show is read, and decided on again. */
async function publishDue(
  pod: Pod,
  containers: readonly LaunchContainer[],
  barrier: LaunchBarrier | undefined,
  world: LaunchPassDependencies,
): Promise<{ readonly step: LaunchStep; readonly version?: ObjectMeta }> {
  const published = keysOf(barrier);
  // CLP-22: keys that were published before are published again, whatever state the containers are in
  const step = isLaunchCompleted(pod) ? everything(containers, published) : nextLaunch({ containers, published });
  if (barrier && step.publish.length === 0) return { step };
  try {
    const due = containers.filter(({ priority }) => step.publish.includes(priority)).map(keyOfContainer);
    return { step, version: (await publish(pod, barrier, due, world)).metadata };
  } catch (error) {
    if (barrier || !hasMovedOn(error)) throw error;
    // a ConfigMap without our label: left behind, created by OpenKruise, or foreign
    const { namespace = '', name } = pod.metadata;
    const ref = { namespace, name: barrierName(name) };
    const found = await world.kube.get<LaunchBarrier>(kubeResource.configMaps, ref);
    if (barrierOwners(found).length === 0) return { step: heldByName(found) };
    const usable = await own(pod, found, world);
    if (usable === undefined) throw error;
    return await publishDue(pod, containers, usable, world);
  }
}

/**
 * A ConfigMap that is not a barrier of a pod is not changed: the user who created the pod may have no right to write
 * it.
 */
function heldByName({ metadata }: LaunchBarrier): LaunchStep {
  const reason = 'BarrierNameTaken';
  const waitingFor = waitFor(reason, [`configmap/${metadata.name}`], launchWaits[reason]);
  return { publish: [], completed: false, waitingFor };
}

function keysOf(barrier: LaunchBarrier | undefined): ReadonlySet<string> {
  return new Set(barrier === undefined ? [] : publishedKeys(barrier));
}

function everything(containers: readonly LaunchContainer[], published: ReadonlySet<string>): LaunchStep {
  return { publish: unpublished(containers, published), completed: true };
}

async function ownBarrier(pod: Pod, world: LaunchPassDependencies): Promise<LaunchBarrier | undefined> {
  const { namespace = '', name } = pod.metadata;
  const found = world.barriers.byName(namespace, barrierName(name));
  return found && (await own(pod, found, world));
}

/**
 * The barrier, if it belongs to exactly this pod. One that an earlier pod of the same name has left behind would let
 * all containers start at once, and would then be garbage collected: it is deleted (CLP-23).
 */
async function own(
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
async function publish(
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

/**
 * Writes what the pod waits for, or that the launch is complete. False when another client has written the pod
 * meanwhile.
 */
async function tell(pod: Pod, step: LaunchStep, { kube, now }: LaunchPassDependencies): Promise<boolean> {
  const { namespace = '', name, uid, resourceVersion, annotations } = pod.metadata;
  const waitingFor = waitingOnBlockersSince(launchStatusOf(pod)?.waitingFor, step.waitingFor, timestamp(now()));
  const status = waitingFor && JSON.stringify({ waitingFor });
  const wanted = {
    [launchMark.status]: status ?? null,
    ...(step.completed && { [launchMark.completed]: 'true' }),
  };
  if (Object.entries(wanted).every(([key, value]) => (annotations?.[key] ?? null) === value)) return true;
  const body = { metadata: { uid, resourceVersion, annotations: wanted } };
  try {
    await kube.patch(kubeResource.pods, { namespace, name }, 'merge', body, { subresource: 'status' });
    return true;
  } catch (error) {
    if (hasMovedOn(error)) return false;
    throw error;
  }
}

/** The Event for this step; undefined when nothing has changed. */
function progressOf(
  containers: readonly LaunchContainer[],
  barrier: LaunchBarrier | undefined,
  { publish: due }: LaunchStep,
): EventText | undefined {
  if (due.length === 0) return undefined;
  const published = keysOf(barrier);
  const namesAt = (priority: number) =>
    containers.filter((container) => container.priority === priority).map(({ name }) => name);
  if (!containers.some((container) => published.has(keyOfContainer(container)))) {
    const order = prioritiesOf(containers).map((priority) => namesAt(priority).join(', '));
    const message =
      `Containers start in this order, each when those before it are ready: ${order.join('; ')}. ` +
      'Until then a container shows CreateContainerConfigError, which is expected';
    return { type: 'Normal', reason: 'LaunchOrdered', message };
  }
  const message = `The containers before are ready: ${due.flatMap(namesAt).join(', ')} may start`;
  return { type: 'Normal', reason: 'LaunchReleased', message };
}

function keyOf({ metadata }: Pod, step: LaunchStep): string {
  const last = step.publish.at(-1) ?? 0;
  return `${metadata.uid}.${last < 0 ? `m${-last}` : last}`;
}

/** A pod that requests an order, and that admission did not see when it was created. */
function wasMissed(pod: Pod): boolean {
  const { metadata, spec, status } = pod;
  if (status?.phase !== undefined && status.phase !== 'Pending') return false;
  const containers = spec.containers.map(({ env = [] }) => ({ env }));
  const isAsked = launchOrder({ annotations: metadata.annotations ?? {}, containers }).kind === 'ordered';
  return isAsked && heldContainers(pod).length === 0;
}

async function tellMissed(pod: Pod, world: LaunchPassDependencies): Promise<undefined> {
  const { uid } = pod.metadata;
  if (!wasMissed(pod) || world.told.has(uid)) return;
  world.told.add(uid);
  const message =
    'Containers start without order: the webhook did not see this pod when it was created. ' +
    'Recreate it once the webhook is available, in a namespace that the webhook configuration does not exclude';
  await sayOf(pod, { type: 'Warning', reason: 'LaunchOrderMissed', message }, uid, world);
}

async function sayOf(pod: Pod, text: EventText, key: string, { kube, now }: LaunchPassDependencies): Promise<void> {
  await tellEvent(kube, { about: pod, component: eventComponent.launchPriority, ...text, atMs: now(), key });
}

/** The pod is gone: deletes its barrier before another pod of the same name can be affected by it (CLP-25). */
async function removeBarriers(podUid: string, { kube, barriers }: LaunchPassDependencies): Promise<undefined> {
  for (const { metadata } of barriers.byIndex(barriersByPod, podUid)) {
    const { namespace = '', name, uid } = metadata;
    await unlessMovedOn(kube.delete(kubeResource.configMaps, { namespace, name }, { preconditions: { uid } }));
  }
}
