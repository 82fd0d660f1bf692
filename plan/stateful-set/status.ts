/** The status of a StatefulSet (AS §3). */
import { sameJson } from '../../api/base/json.ts';
import { formatSelector } from '../../api/core/label-selector.ts';
import { isWorkingState } from '../../api/fleet/lifecycle.ts';
import { type StatefulSetStatus, statefulSetCondition } from '../../api/stateful-set/types.ts';
import type { PassNews } from '../fleet/kind.ts';
import { type FleetPod, isOfRevision, isPodReady, readySinceMs } from '../fleet/pods.ts';
import { waitingSince } from '../waiting-since.ts';
import { claimCounts } from './claims.ts';
import type { StatefulSetScene } from './scene.ts';

/** The desired status: the stored one where nothing has changed that is worth a write (AS-2). */
export function statefulSetStatus(scene: StatefulSetScene, news: PassNews): StatefulSetStatus {
  const { owner } = scene;
  const wanted = statusNow(scene, news);
  if (owner.status === undefined || isWorthWriting(owner.status, wanted)) return wanted;
  const { rollOut: _, ...stored } = owner.status;
  return stored;
}

function statusNow(scene: StatefulSetScene, news: PassNews): StatefulSetStatus {
  const { owner, counted, revisions, replicas: desired, strategy, now } = scene;
  const pods = counted.filter(({ pod }) => pod.status?.phase);
  const created = pods.filter(({ isTerminating }) => !isTerminating);
  const [update, current] = [revisions.update.metadata.name, revisions.current.metadata.name];
  const ready = pods.filter(isReadyOrGoing);
  const available = ready.filter((pod) => isOldEnough(scene, pod));
  const updated = created.filter((pod) => isOfRevision(pod, update));
  const isOfUpdate = (pod: FleetPod) => isOfRevision(pod, update);
  // AS-5
  const isComplete =
    !strategy.isOnDelete && updated.length === pods.length && ready.length === pods.length && pods.length === desired;
  const currentRevision = isComplete ? update : current;
  const conditions = conditionsOf(scene, news);
  const claims = claimCounts(scene);
  const waitingFor = news.wait && waitingSince(owner.status?.waitingFor, news.wait, now);
  return {
    ...(owner.metadata.generation !== undefined && { observedGeneration: owner.metadata.generation }),
    replicas: pods.length,
    readyReplicas: ready.length,
    availableReplicas: available.length,
    currentReplicas: created.filter((pod) => isOfRevision(pod, currentRevision)).length,
    updatedReplicas: updated.length,
    updatedReadyReplicas: ready.filter(isOfUpdate).length,
    updatedAvailableReplicas: available.filter(isOfUpdate).length,
    currentRevision,
    updateRevision: update,
    collisionCount: owner.status?.collisionCount ?? 0,
    labelSelector: formatSelector(owner.spec.selector),
    ...(claims.length > 0 && { volumeClaims: claims }),
    ...(conditions.length > 0 && { conditions }),
    ...(waitingFor && { waitingFor }),
  };
}

/** Its state does not count here, nor that it is being deleted. */
function isReadyOrGoing({ pod }: FleetPod): boolean {
  return pod.status?.phase === 'Running' && isPodReady(pod);
}

function isOldEnough({ rollingUpdate, input }: StatefulSetScene, { pod, state }: FleetPod): boolean {
  const leastMs = Math.max(rollingUpdate.minReadySeconds ?? 0, 0) * 1000;
  const sinceMs = readySinceMs(pod);
  return isWorkingState(state) && (leastMs === 0 || (sinceMs !== undefined && input.nowMs > sinceMs + leastMs));
}

/** AS-1, AS-2: what follows from other fields, and the words of a failure, ride along with other changes. Orders are compared elsewhere. */
function isWorthWriting(stored: StatefulSetStatus, wanted: StatefulSetStatus): boolean {
  return !sameJson(essence(stored), essence(wanted));
}

function essence(status: StatefulSetStatus) {
  const {
    updatedReadyReplicas,
    updatedAvailableReplicas,
    collisionCount,
    rollOut,
    conditions = [],
    ...others
  } = status;
  return { ...others, conditions: conditions.map(({ type }) => type) };
}

function conditionsOf({ owner, now }: StatefulSetScene, news: PassNews) {
  const { failedCreate, failedUpdate } = statefulSetCondition;
  const failures = [
    [failedCreate, news.scaleFailure, 'create'],
    [failedUpdate, news.updateFailure, 'update'],
  ] as const;
  return failures.flatMap(([type, why, verb]) => {
    if (why === undefined) return [];
    const since = owner.status?.conditions?.find((condition) => condition.type === type)?.lastTransitionTime;
    const message = `StatefulPodControl failed to ${verb} Pod error: ${why}`;
    return [{ type, status: 'True', lastTransitionTime: since ?? now, reason: '', message }];
  });
}
