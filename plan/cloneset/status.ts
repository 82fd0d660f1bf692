/** The status of a CloneSet (CS §3), computed by one function; times are those of the last change. */

import {
  type CloneSet,
  type CloneSetCondition,
  type CloneSetStatus,
  cloneSetCondition,
  noProgressDeadline,
  type ProgressReason,
  progressMessage,
} from '../../api/cloneset/types.ts';
import { formatSelector } from '../../api/core/label-selector.ts';
import type { PassNews } from '../fleet/kind.ts';
import { type FleetPod, isOfRevision } from '../fleet/pods.ts';
import { waitingSince } from '../waiting-since.ts';
import { partitionOf } from './counts.ts';
import { type CloneSetScene, replicasOf } from './scene.ts';

/** The desired status. */
export function cloneSetStatus(scene: CloneSetScene, news: PassNews): CloneSetStatus {
  const { owner: set, counted, revisions } = scene;
  const updateRevision = revisions.update.metadata.name;
  const updated = counted.filter((pod) => isOfRevision(pod, updateRevision));
  const replicas = counted.length;
  const wanted = replicasOf(set);
  const hasAllUpdated = updated.length === replicas && replicas === wanted;
  const currentRevision = hasAllUpdated ? updateRevision : revisions.current.metadata.name;
  const partition = scene.rollingUpdate ? partitionOf(scene.rollingUpdate.partition, wanted) : 0;

  const counts = {
    replicas,
    readyReplicas: count(counted, ({ isServing }) => isServing),
    availableReplicas: count(counted, ({ isAvailable }) => isAvailable),
    updatedReplicas: updated.length,
    updatedReadyReplicas: count(updated, ({ isServing }) => isServing),
    updatedAvailableReplicas: count(updated, ({ isAvailable }) => isAvailable),
    expectedUpdatedReplicas: wanted - partition,
  };
  const conditions = conditionsOf(scene, { ...counts, currentRevision, updateRevision }, news);
  const waitingFor = news.wait && waitingSince(set.status?.waitingFor, news.wait, scene.now);
  return {
    ...(set.metadata.generation !== undefined && { observedGeneration: set.metadata.generation }),
    ...counts,
    currentRevision,
    updateRevision,
    collisionCount: set.status?.collisionCount ?? 0,
    labelSelector: formatSelector(set.spec.selector),
    ...(conditions.length > 0 && { conditions }),
    ...(waitingFor && { waitingFor }),
  };
}

/** When the progress deadline expires; undefined while there is none. */
export function progressDeadlineMs(set: CloneSet, status: CloneSetStatus): number | undefined {
  const seconds = deadlineOf(set);
  const progress = find(status.conditions, cloneSetCondition.progressing);
  if (seconds === undefined || progress?.reason !== updating) return undefined;
  return Date.parse(progress.lastUpdateTime ?? '') + seconds * 1000;
}

function count(pods: readonly FleetPod[], is: (pod: FleetPod) => boolean): number {
  return pods.filter(is).length;
}

type Counts = Pick<
  Required<CloneSetStatus>,
  | 'replicas'
  | 'updatedReplicas'
  | 'updatedAvailableReplicas'
  | 'expectedUpdatedReplicas'
  | 'currentRevision'
  | 'updateRevision'
>;

function conditionsOf(scene: CloneSetScene, counts: Counts, news: PassNews): readonly CloneSetCondition[] {
  const { owner: set, now } = scene;
  const { progressing, failedScale, failedUpdate } = cloneSetCondition;
  const stored = set.status?.conditions ?? [];
  const wanted = [
    progressOf(scene, counts),
    failureOf(failedScale, news.scaleFailure),
    failureOf(failedUpdate, news.updateFailure),
  ].flatMap((condition) => (condition ? [withTimes(find(stored, condition.type), condition, now)] : []));
  const ours: readonly string[] = [progressing, failedScale, failedUpdate];
  return [
    ...stored.flatMap((before) => (ours.includes(before.type) ? (find(wanted, before.type) ?? []) : [before])),
    ...wanted.filter(({ type }) => find(stored, type) === undefined),
  ];
}

type Wanted = Pick<CloneSetCondition, 'type' | 'status' | 'reason' | 'message'>;

/**
 * CS-3, with one difference: OpenKruise never removes it. It is removed after the next pass without failure, and
 * reports the last failure.
 */
function failureOf(type: string, message: string | undefined): Wanted | undefined {
  return message === undefined ? undefined : { type, status: 'True', message };
}

/** CS-4. */
function withTimes(before: CloneSetCondition | undefined, wanted: Wanted, now: string): CloneSetCondition {
  const isSame = before?.status === wanted.status && (before.reason ?? '') === (wanted.reason ?? '');
  const saysSame = before?.message === wanted.message || wanted.type === cloneSetCondition.progressing;
  if (before && isSame && saysSame) return before;
  const since = before?.status === wanted.status ? before.lastTransitionTime : now;
  return { ...wanted, lastUpdateTime: now, lastTransitionTime: since ?? now };
}

const updating: ProgressReason = 'CloneSetUpdated';
const exceeded: ProgressReason = 'ProgressDeadlineExceeded';

function progressOf(scene: CloneSetScene, counts: Counts): Wanted | undefined {
  if (deadlineOf(scene.owner) === undefined) return undefined;
  const reason = progressReason(scene, counts);
  const message = progressMessage[reason](counts.updateRevision);
  return { type: cloneSetCondition.progressing, status: reason === exceeded ? 'False' : 'True', reason, message };
}

/** The table of CS §3, from top to bottom. */
function progressReason({ owner: set, rollingUpdate, input: world }: CloneSetScene, counts: Counts): ProgressReason {
  const wanted = replicasOf(set);
  const { replicas, updatedReplicas, updatedAvailableReplicas: available, expectedUpdatedReplicas: expected } = counts;
  const isComplete = [replicas, updatedReplicas, available].every((pods) => pods === wanted);
  if (counts.currentRevision === counts.updateRevision && isComplete) return 'CloneSetAvailable';
  if (rollingUpdate?.paused) return 'CloneSetPaused';
  if (expected < wanted && expected <= available) return 'ProgressPartitionAvailable';

  const before = find(set.status?.conditions, cloneSetCondition.progressing);
  // CS-90b: only an update in progress can be late, and another revision starts the clock again
  if (before?.reason === exceeded) return set.status?.updateRevision === counts.updateRevision ? exceeded : updating;
  if (before?.reason !== updating) return updating;
  const endMs = Date.parse(before.lastUpdateTime ?? '') + (deadlineOf(set) ?? 0) * 1000;
  return world.nowMs > endMs ? exceeded : updating;
}

function deadlineOf({ spec }: CloneSet): number | undefined {
  const { progressDeadlineSeconds } = spec;
  return progressDeadlineSeconds === noProgressDeadline ? undefined : progressDeadlineSeconds;
}

function find(conditions: readonly CloneSetCondition[] | undefined, wanted: string): CloneSetCondition | undefined {
  return conditions?.find(({ type }) => type === wanted);
}
