/** The status of a DaemonSet (AD §3). */
import type { DaemonSetStatus } from '../../api/daemon-set/types.ts';
import { shortHash } from '../../api/fleet/revision.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import type { PassNews } from '../fleet/kind.ts';
import { type FleetPod, isOfRevision, isPodReady, readySinceMs } from '../fleet/pods.ts';
import { waitingSince } from '../waiting-since.ts';
import type { DaemonSetScene } from './scene.ts';

/** The desired status. Every number is one of nodes, each of which has one pod that counts. */
export function daemonSetStatus(scene: DaemonSetScene, news: PassNews): DaemonSetStatus {
  const { owner, places, revisions, replicas: desired, now } = scene;
  const { metadata, status } = owner;
  const update = revisions.update.metadata.name;
  const running = places.filter(({ eligibility }) => eligibility === 'runs');
  const firstPods = running.flatMap(({ pods }) => pods.slice(0, 1));
  const count = (is: (pod: FleetPod) => boolean) => firstPods.filter(is).length;
  const numberAvailable = count((pod) => isAvailable(scene, pod));
  const waitingFor = news.wait && waitingSince(status?.waitingFor, news.wait, now);
  return {
    ...(metadata.generation !== undefined && { observedGeneration: metadata.generation }),
    desiredNumberScheduled: desired,
    currentNumberScheduled: firstPods.length,
    numberMisscheduled: places.length - running.length,
    numberReady: count(({ pod }) => isPodReady(pod)),
    numberAvailable,
    ...(desired > numberAvailable && { numberUnavailable: desired - numberAvailable }),
    updatedNumberScheduled: count((pod) => isOfRevision(pod, update)),
    updateRevision: shortHash(update),
    ...(status?.collisionCount !== undefined && { collisionCount: status.collisionCount }),
    ...(waitingFor && { waitingFor }),
  };
}

/** Neither its state counts here, nor that it is being deleted. */
function isAvailable({ owner, input }: DaemonSetScene, { pod }: FleetPod): boolean {
  const gate = pod.status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
  if (!isPodReady(pod) || gate?.status === 'False') return false;
  const leastMs = Math.max(owner.spec.minReadySeconds ?? 0, 0) * 1000;
  const sinceMs = readySinceMs(pod);
  return leastMs === 0 || (sinceMs !== undefined && input.nowMs > sinceMs + leastMs);
}
