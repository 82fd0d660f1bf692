/**
 * When the daemon itself puts a pod back into service after its containers have been swapped (IPU-40).
 *
 * The kubelet makes one pass over a pod a second. It tells of the new containers in one pass, and of a gate that is opened
 * for that in the next: a second during which the pod runs, and serves nobody. The daemon sees the containers in the
 * runtime before that first pass. A gate that is open by then is part of it, and the pod is ready in the same pass that
 * tells of the containers.
 *
 * The kubelet never calls a pod ready for containers that have gone meanwhile: a pass looks at what the runtime had after
 * the end of the pass before, in which the containers were swapped. So all that has to be known is that they are.
 */
import { containerHashOf, newestByName, type RuntimeContainer } from '../../activities/cri/runtime.ts';
import type { JsonObject } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { Pod, PodCondition } from '../../api/core/pod.ts';
import { inPlaceReadinessGate, inPlaceReason } from '../../api/in-place/annotations.ts';
import { plainHash } from '../../api/in-place/containers-meta.ts';
import { isInGrace } from '../../api/in-place/grace.ts';
import { type InPlaceState, stateOf } from '../../api/in-place/state.ts';
import { containersOf } from '../../api/in-place/work.ts';

/**
 * Whether nothing is left of the pod's update but that its containers start with their new images: it is out of service for
 * this update, the kubelet has begun with the very spec that the pod has, and no later batch, environment or amount is
 * waited for. All else is left to the workload's own look at the pod.
 */
export function isOpeningDue(pod: Pod): boolean {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined || !isHeldByUpdate(pod)) return false;
  if (conditionOf(pod, 'Ready')?.status !== 'False') return false;
  // A kubelet that does not tell may be about to take the pod back to a spec from before the last one.
  if (status?.observedGeneration === undefined || status.observedGeneration !== metadata.generation) return false;

  const state = stateOf(pod);
  if (state.kind !== 'value' || !isOnlyImages(state.value) || isInGrace(pod)) return false;
  // A pod that went out of service after that is out for another update, which is not on record yet.
  const drainedAt = conditionOf(pod, inPlaceReadinessGate)?.lastTransitionTime ?? '';
  return Date.parse(drainedAt) <= Date.parse(state.value.updateTimestamp);
}

/** Whether an update keeps the pod out of service. */
export function isHeldByUpdate(pod: Pod): boolean {
  const gate = conditionOf(pod, inPlaceReadinessGate);
  return gate?.status === 'False' && gate.reason === inPlaceReason;
}

/**
 * Whether each container of the pod runs, started from what the spec says now (IPU-37), and at least one is an instance that
 * the kubelet has not told of: once it has told of all, there is nothing to gain.
 */
export function hasSwapped(pod: Pod, containers: readonly RuntimeContainer[]): boolean {
  const newest = newestByName(containers);
  const told = new Map(pod.status?.containerStatuses?.map(({ name, containerID }) => [name, containerID]));
  const isAsWanted = pod.spec.containers.every((container) => {
    const instance = newest.get(container.name);
    return instance?.state === 'running' && containerHashOf(instance) === plainHash(container);
  });
  const isNews = [...newest].some(([name, { id }]) => told.has(name) && !told.get(name)?.endsWith(`://${id}`));
  return isAsWanted && isNews;
}

/** A strategic merge patch of the pod's status that opens the gate of the very version that was looked at, or nothing. */
export function openingPatch({ metadata: { uid, resourceVersion } }: Pod, nowMs: number): JsonObject {
  const gate = {
    type: inPlaceReadinessGate,
    status: 'True',
    reason: null,
    message: null,
    lastTransitionTime: timestamp(nowMs),
  };
  return { metadata: { uid, resourceVersion }, status: { conditions: [gate] } };
}

function conditionOf({ status }: Pod, wanted: string): PodCondition | undefined {
  return status?.conditions?.find(({ type }) => type === wanted);
}

function isOnlyImages({ updateImages, updateEnvFromMetadata, updateResources, next }: InPlaceState): boolean {
  return updateImages && !updateEnvFromMetadata && !updateResources && containersOf(next).length === 0;
}
