// What a pod reports about the launch of its containers: an annotation, and Events.

import { timestamp } from '../../../../api/base/time.ts';
import {
  keyOfContainer,
  type LaunchBarrier,
  type LaunchContainer,
  launchMark,
  launchStatusOf,
} from '../../../../api/container-launch-priority.ts';
import type { EventText } from '../../../../api/core/event.ts';
import type { Pod } from '../../../../api/core/pod.ts';
import { eventComponent, kubeResource } from '../../../../api/core/well-known.ts';
import { tellEvent } from '../../../../kube/events.ts';
import { hasMovedOn } from '../../../../kube/moved-on.ts';
import { type LaunchStep, prioritiesOf } from '../../../../plan/container-launch-priority.ts';
import { waitingOnBlockersSince } from '../../../../plan/waiting-since.ts';
import { keysOf } from './barrier.ts';
import type { LaunchPassDependencies } from './launch-pass-dependencies.ts';

/**
 * Writes what the pod waits for, or that the launch is complete. False when another client has written the pod
 * meanwhile.
 */
export async function writeLaunchStatus(
  pod: Pod,
  step: LaunchStep,
  { kube, now }: LaunchPassDependencies,
): Promise<boolean> {
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
export function progressEvent(
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

/** One Event is written per key. */
export function keyOfProgress({ metadata }: Pod, step: LaunchStep): string {
  const last = step.publish.at(-1) ?? 0;
  return `${metadata.uid}.${last < 0 ? `m${-last}` : last}`;
}

/** Writes an Event, once, that admission did not see this pod when it was created. */
export async function reportMissed(pod: Pod, world: LaunchPassDependencies): Promise<void> {
  const { uid } = pod.metadata;
  if (world.reportedMissed.has(uid)) return;
  world.reportedMissed.add(uid);
  const message =
    'Containers start without order: the webhook did not see this pod when it was created. ' +
    'Recreate it once the webhook is available, in a namespace that the webhook configuration does not exclude';
  await emitEvent(pod, { type: 'Warning', reason: 'LaunchOrderMissed', message }, uid, world);
}

/** Writes an Event about the pod. */
export async function emitEvent(
  pod: Pod,
  text: EventText,
  key: string,
  { kube, now }: LaunchPassDependencies,
): Promise<void> {
  await tellEvent(kube, { about: pod, component: eventComponent.launchPriority, ...text, atMs: now(), key });
}
