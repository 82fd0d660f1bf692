/** Which pods of a CloneSet are to be updated, in which order, and within which budget (CS-50…56). */

import { isInGrace } from '../../api/in-place/grace.ts';
import { updateOrder } from '../fleet/order.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { isAtGoal, isInDoubt, skippedPods, type UpdateDemand } from '../fleet/scene.ts';
import { type UpdateLine, underWayFirst } from '../fleet/update.ts';
import type { Numbers } from './counts.ts';
import { type CloneSetScene, updateNumbers } from './scene.ts';

/** How many pods are to be updated, with the numbers from which it was derived. */
export interface CloneSetDemand extends UpdateDemand {
  readonly numbers: Numbers;
}

/** CS-25…28. */
export function updateDemand(scene: CloneSetScene): CloneSetDemand {
  const numbers = updateNumbers(scene);
  const keeps = scene.limits.partition;
  return { numbers, left: numbers.updateNum, keeps, concerns: (pod) => !isAtGoal(scene, pod) };
}

/** CS-51: as many pods as are to be updated: pods to be deleted that will be recreated, and pods in update order. */
export function podsToUpdate(
  scene: CloneSetScene,
  { left: wanted }: Pick<UpdateDemand, 'left'>,
): { readonly marked: readonly FleetPod[]; readonly line: readonly FleetPod[] } {
  const { counted, rollingUpdate = {} } = scene;
  const skip = skippedPods(scene);
  const candidates = counted.filter(
    (pod) => isAtGoal(scene, pod) === wanted < 0 && pod.state !== 'PreparingDelete' && !isInGrace(pod.pod),
  );
  const marked = candidates.filter(({ isSpecified }) => isSpecified);
  const left = candidates.filter(({ name, isSpecified }) => !isSpecified && !skip.has(name));
  const line = updateOrder(left, counted, rollingUpdate).toSorted(underWayFirst);
  return { marked, line: line.slice(0, Math.max(Math.abs(wanted) - marked.length, 0)) };
}

/**
 * CS-55, CS-55b, CS-56: the pods with the budget of maxUnavailable. A pod that is not ready serves nobody, so it costs
 * nothing. One that is ready for less than minReadySeconds serves: as many of them go as there may be updated pods that are
 * not available yet, or an edit that raises minReadySeconds would take all pods out of service at once.
 */
export function updateLine(scene: CloneSetScene, demand: CloneSetDemand): UpdateLine {
  const { updateMax } = demand.numbers;
  const isBack = demand.left < 0;
  const { marked, line } = podsToUpdate(scene, demand);
  const isGoing = (pod: FleetPod) => marked.includes(pod) || isInDoubt(scene, pod);
  const isGone = (pod: FleetPod) => !pod.isAvailable || isGoing(pod);
  const hasArrived = (pod: FleetPod) => isAtGoal(scene, pod) !== isBack;
  const unavailable = scene.counted.filter(isGone);
  const arriving = unavailable.filter((pod) => hasArrived(pod) || (isGoing(pod) && pod.isReady));
  let chosen = { available: 0, ready: 0 };
  return {
    pods: line,
    passesOver: true,
    admits(pod) {
      const { isAvailable, isReady } = pod;
      if (!isReady || isInDoubt(scene, pod)) return true;
      const taken = isAvailable ? unavailable.length + chosen.available : arriving.length + chosen.ready;
      if (taken >= updateMax) return false;
      chosen = { available: chosen.available + (isAvailable ? 1 : 0), ready: chosen.ready + 1 };
      return true;
    },
  };
}
