/** Which pods of a CloneSet are to be updated, in which order, and within which budget (CS-50…56). */

import { isInGrace } from '../../../api/in-place/grace.ts';
import { updateOrder } from '../fleet/order.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { isAtGoal, skippedPods } from '../fleet/scene.ts';
import { type UpdateDemand, type UpdateLine, underWayFirst } from '../fleet/update.ts';
import type { Numbers } from './counts.ts';
import { batchRoom, type CloneSetScene, updateNumbers } from './scene.ts';

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
  const { counted, coming, rollingUpdate = {} } = scene;
  const skip = skippedPods(scene);
  const candidates = counted.filter(
    (pod) => isAtGoal(scene, pod) === wanted < 0 && pod.state !== 'PreparingDelete' && !isInGrace(pod.pod),
  );
  const marked = candidates.filter(({ isSpecified }) => isSpecified);
  const left = candidates.filter(({ name, isSpecified }) => !isSpecified && !skip.has(name));
  const line = updateOrder(left, counted, rollingUpdate, coming && { coming }).toSorted(underWayFirst);
  return { marked, line: line.slice(0, Math.max(Math.abs(wanted) - marked.length, 0)) };
}

/** CS-55, CS-56: the pods with the budget of maxUnavailable. */
export function updateLine(scene: CloneSetScene, demand: CloneSetDemand): UpdateLine {
  const { counted } = scene;
  const { updateMax } = demand.numbers;
  const isBack = demand.left < 0;
  const { marked, line } = podsToUpdate(scene, demand);
  const down = counted.filter(({ isAvailable }) => !isAvailable);
  const downAtTarget = down.filter((pod) => isAtGoal(scene, pod) !== isBack).length;
  // A pod marked for deletion counts as gone when available pods are updated. It must not block pods that are down:
  // their update may make them available again, and as long as they are down no pod is deleted.
  let unavailable = down.length + marked.filter(({ isAvailable }) => isAvailable).length;
  let ahead = 0;
  return {
    pods: line,
    room: batchRoom(scene),
    admits({ isAvailable }) {
      const taken = downAtTarget + ahead + (isAvailable ? marked.length : 0);
      if (taken >= updateMax || (isAvailable && unavailable >= updateMax)) return false;
      ahead++;
      if (isAvailable) unavailable++;
      return true;
    },
  };
}
