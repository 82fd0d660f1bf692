// Whether a pod is available to a budget (PUB-17, PUB-18): ready, and no change of its containers has yet to land.
//
//   image with a digest   the image ID in the status has the same repository and digest: the change has landed
//                         it has another repository or digest: it has not
//                         it has no digest, as some runtimes report the ID of the configuration: says nothing
//   any other container   what SidecarSets have recorded of it
//   the whole pod         its record of updates in place

import { parseImageReference } from '../../api/core/image-reference.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { FeatureGates } from '../../api/feature-gates.ts';
import { podBudgetMark } from '../../api/pod-unavailable-budget/types.ts';
import { isInPlaceComplete } from '../fleet/in-place/completion.ts';
import { isRunningAndReady, sidecarUpdates } from '../sidecar-set/pods.ts';

export type ReadinessGates = Pick<FeatureGates, 'InPlaceWorkloadVerticalScaling'>;

/** Whether the pod serves, so that an operation would take something away (PUB-17, PUB-18). */
export function isAvailable(pod: Pod, gates: ReadinessGates): boolean {
  return isReady(pod) && isConsistent(pod, gates);
}

/** PUB-17. A pod that is being deleted is never ready, so nothing holds back its end (PUB-40). */
export function isReady(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp === undefined && isRunningAndReady(pod) && !isMarkedUnavailable(pod);
}

/** Whether a label says that the pod counts as unavailable. */
export function isMarkedUnavailable({ metadata: { labels = {} } }: Pick<Pod, 'metadata'>): boolean {
  return Object.keys(labels).some((key) => key.startsWith(podBudgetMark.unavailablePrefix));
}

/** PUB-18. Of pods with more containers than a node runs it is not looked at: they stay protected. */
export function isConsistent(pod: Pod, gates: ReadinessGates): boolean {
  const { containers } = pod.spec;
  if (containers.length > mostContainers) return true;
  const statuses = new Map((pod.status?.containerStatuses ?? []).map((status) => [status.name, status]));
  const isUpdated = sidecarUpdates(pod);
  const haveLanded = containers.every((container) => {
    const status = statuses.get(container.name);
    const isSame = hasDigestOf(container.image, status?.imageID);
    return isSame ?? isUpdated(container, status);
  });
  return haveLanded && isInPlaceComplete(pod, gates);
}

/** Looking for what is said of each container takes the square of their number. */
const mostContainers = 1_024;

/** Whether the image ID is that of an image with a digest; undefined: one of them has none. */
function hasDigestOf(image = '', imageId = ''): boolean | undefined {
  const wanted = parseImageReference(image);
  // Without the scheme of Docker.
  const running = parseImageReference(imageId.replace(/^[^/]*:\/\//, ''));
  if (wanted?.digest === undefined || running?.digest === undefined) return undefined;
  return wanted.digest === running.digest && wanted.repository === running.repository;
}
