/**
 * When the daemon itself puts a pod back into service after its containers have been replaced (IPU-40).
 *
 * The kubelet syncs a pod once a second. It reports the new containers in one sync, and reacts to the gate that a
 * controller then opens in the next one: for a second the pod runs without serving traffic. The daemon sees the
 * containers in the runtime before that first sync. If the gate is open by then, the pod becomes ready in the same sync
 * that reports the containers.
 *
 * The kubelet never makes a pod ready because of containers that were replaced meanwhile: a sync uses the state of the
 * runtime after the end of the previous sync, in which the containers were replaced. So it is enough to know that they
 * are.
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
 * Whether the update of the pod only waits for its containers to start with their new images: the pod is out of service
 * for this update, the kubelet works on the current spec, and no later batch, environment or resize is pending.
 * Everything else is left to the workload's controller.
 */
export function isOpeningDue(pod: Pod): boolean {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined || !isHeldByUpdate(pod)) return false;
  if (conditionOf(pod, 'Ready')?.status !== 'False') return false;
  // A kubelet that does not report the generation may still apply an earlier spec.
  if (status?.observedGeneration === undefined || status.observedGeneration !== metadata.generation) return false;

  const state = stateOf(pod);
  if (state.kind !== 'value' || !isOnlyImages(state.value) || isInGrace(pod)) return false;
  // A pod that went out of service later is out for another update, which is not recorded yet.
  const drainedAt = conditionOf(pod, inPlaceReadinessGate)?.lastTransitionTime ?? '';
  return Date.parse(drainedAt) <= Date.parse(state.value.updateTimestamp);
}

/** Whether an update keeps the pod out of service. */
export function isHeldByUpdate(pod: Pod): boolean {
  const gate = conditionOf(pod, inPlaceReadinessGate);
  return gate?.status === 'False' && gate.reason === inPlaceReason;
}

/**
 * Whether each container of the pod runs and was started from the current spec (IPU-37), and at least one is an
 * instance that the kubelet has not reported: once all are reported, opening early gains nothing.
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

/**
 * A strategic merge patch of the pod's status that opens the gate, and applies only to the version that was checked.
 */
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
