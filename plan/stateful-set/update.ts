/** Which pods of a StatefulSet are to be updated, in which order, and within which budget (AS-50 to AS-62). */
import { beforeDelete } from '../fleet/lifecycle.ts';
import { byPriority, first, inOrder } from '../fleet/order.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { isAtGoal, isInDoubt, isUpToDate, skippedPods, type UpdateDemand } from '../fleet/scene.ts';
import { isDrained, isHeld, type UpdateLine, underWayFirst } from '../fleet/update.ts';
import { losesClaim } from './claims.ts';
import { type StatefulSetScene, spendsBudget, spentBudget, unavailableReplicas } from './scene.ts';

/** The pods that are to be updated, with those that are where they are to go. */
export interface StatefulSetDemand extends UpdateDemand {
  /** In the order of the update. */
  readonly candidates: readonly FleetPod[];
}

export function updateDemand(scene: StatefulSetScene): StatefulSetDemand {
  const candidates = candidatesOf(scene);
  const old = new Set(candidates.filter((pod) => !isUpToDate(scene, pod)));
  return { candidates, left: old.size, keeps: scene.partition, concerns: (pod) => old.has(pod) };
}

function candidatesOf(scene: StatefulSetScene): readonly FleetPod[] {
  const { replicaPods, ordinals, partition, replicas, rollingUpdate, input } = scene;
  const descending = replicaPods.toReversed();
  const { unorderedUpdate } = rollingUpdate;
  if (unorderedUpdate === undefined) {
    return descending.filter(({ ordinal }) => ordinals.below(ordinal) >= partition).map(({ pod }) => pod); // AS-52
  }
  const falling = descending.map(({ pod }) => pod);
  // AS-53: pods that need nothing any more use up the slots first, and so do missing ones that will be of the new revision: what is
  // left to others goes to all but those that stay old (AS-50).
  const isAhead = (pod: FleetPod) =>
    pod.isTerminating ||
    isAtGoal(scene, pod) ||
    (input.gates.PreparingUpdateAsUpdate && pod.state === 'PreparingUpdate');
  const others = falling.filter((pod) => !isAhead(pod)).toSorted(byPriority(unorderedUpdate.priorityStrategy)); // AS-54
  const left = others.slice(0, Math.max(others.length - partition, 0));
  return [...falling.filter(isAhead), ...left].slice(0, Math.max(replicas - partition, 0));
}

/** AS-61, AS-62: the pods with the budget of maxUnavailable; pods that are unavailable already do not ask for it. */
export function updateLine(scene: StatefulSetScene, { candidates }: StatefulSetDemand): UpdateLine {
  const { replicaPods, maxUnavailable, isOrdered, condemned, isUndo } = scene;
  const skip = skippedPods(scene);
  // What is labelled to be deleted counts as gone.
  const labelled = replicaPods.filter(({ pod }) => pod.isSpecified && !spendsBudget(scene, pod));
  let away = spentBudget(scene) + labelled.length;
  const isHeldUp = isOrdered && unavailableReplicas(scene) + condemned.length > 0; // AS-34, AS-40
  const replicaOf = new Map(replicaPods.map((replica) => [replica.pod, replica]));
  return {
    pods: candidates
      .filter((pod) => !isUpToDate(scene, pod) && !pod.isSpecified && !pod.isTerminating && !skip.has(pod.name))
      .filter(({ state }) => state !== 'PreparingDelete')
      // what is taken back begins with what is broken: everything else may wait for it
      .toSorted(
        inOrder(
          underWayFirst,
          first((pod) => isUndo && !pod.isAvailable),
        ),
      ),
    passesOver: false, // AS-64
    // AS-63. A mark makes the kubelet look at the pod, and then at its deletion a second later. It is for deletions that have to wait:
    // for a hook, for the owners of a PVC, or for others in their order.
    deletes: (pod) => {
      const replica = replicaOf.get(pod);
      const mayGo = beforeDelete(pod.pod, scene.strategy.lifecycle) === 'delete' && !isHeldUp;
      return mayGo && replica !== undefined && !losesClaim(scene, replica);
    },
    admits(pod) {
      if (isInDoubt(scene, pod)) return true;
      // AS-34: a pod that cannot become available is taken back when a person asks for it.
      if (isHeldUp) return isHeld(pod) || isDrained(pod) || (isUndo && !pod.isAvailable);
      if (spendsBudget(scene, pod)) return true;
      if (away >= maxUnavailable) return false;
      away++;
      return true;
    },
  };
}
