/**
 * On which nodes pods are updated, in which order, and within which budget (AD-30 to AD-35).
 *
 * Without surging, a node takes part of the budget while it has no available pod of the new revision and is not waiting for its
 * turn; an old pod that is unavailable is replaced whatever the budget is. While surging, a node does so while it has a new pod
 * beside its old one. Nodes outside of the selection count for nothing.
 */

import { beforeDelete } from '../fleet/lifecycle.ts';
import { first, inOrder } from '../fleet/order.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { isAtGoal, skippedPods, type UpdateDemand } from '../fleet/scene.ts';
import { type UpdateLine, underWayFirst } from '../fleet/update.ts';
import { type DaemonSetScene, isGranted, isLeaving, isSurging, type Place } from './scene.ts';

/** The nodes whose pods are to be of the new revision. */
export interface DaemonSetDemand extends UpdateDemand {
  readonly selected: readonly Place[];
}

export function updateDemand(scene: DaemonSetScene): DaemonSetDemand {
  const { selected, heldBack, leftOut } = choosePlaces(scene);
  const oldIn = (places: readonly Place[]) =>
    new Set(places.flatMap(({ pods }) => pods.filter((pod) => !isAtGoal(scene, pod))));
  const [old, others] = [oldIn(selected), oldIn(leftOut)];
  return {
    ...{ selected, left: old.size, keeps: oldIn(heldBack).size },
    concerns: (pod) => old.has(pod),
    isLeftOut: (pod) => others.has(pod),
  };
}

/** The nodes that the update is about. */
export function selectedPlaces(scene: DaemonSetScene): readonly Place[] {
  return choosePlaces(scene).selected;
}

/**
 * AD-30, AD-31: nodes with a new pod come first, then those without a pod, and of the others the last ones. The partition holds back the
 * end of this row; the selector leaves out nodes with an old pod.
 */
function choosePlaces(scene: DaemonSetScene): Readonly<Record<'selected' | 'heldBack' | 'leftOut', readonly Place[]>> {
  const places = placesOf(scene);
  const groups = Map.groupBy(places.toReversed(), groupOf);
  const [fresh = [], none = [], old = []] = [groups.get('new'), groups.get('none'), groups.get('old')];
  const [chosen, leftOut] = [old.filter(({ isSelected }) => isSelected), old.filter(({ isSelected }) => !isSelected)];
  const ordered = [...fresh, ...none, ...chosen];
  const most = Math.max(places.length - scene.partition, 0);
  return { selected: ordered.slice(0, most), heldBack: ordered.slice(most), leftOut };
}

/** AD-39, AD-39a: nodes that should not run a pod, and have one, count unless a gate says otherwise. */
function placesOf({ places, input }: DaemonSetScene): readonly Place[] {
  if (!input.gates.DaemonSetPruneIneligibleNodes) return places;
  return places.filter(({ eligibility }) => eligibility === 'runs');
}

function groupOf({ fresh, old }: Place): 'new' | 'none' | 'old' {
  if (fresh.length > 0 || old.length > 1) return 'new';
  return old.every(isLeaving) ? 'none' : 'old';
}

/** AD-32, AD-35: how much of the budget these nodes have spent. */
export function spentBudget(scene: DaemonSetScene, places: readonly Place[]): number {
  return places.filter((place) => (isSurging(scene) ? isSpentSurge : isSpentSlot)(scene, place)).length;
}

function isSpentSlot(scene: DaemonSetScene, { fresh, old }: Place): boolean {
  if (fresh.length > 1 || old.length > 1) return true;
  const [newPod] = fresh;
  const oldPod = old.find((pod) => !isLeaving(pod)); // AD-32a
  if ((newPod === undefined) === (oldPod === undefined)) return true;
  if (oldPod !== undefined) return isGranted(scene, oldPod);
  return newPod?.isAvailable !== true;
}

function isSpentSurge(scene: DaemonSetScene, { fresh, old }: Place): boolean {
  if (fresh.length > 1 || old.length > 1) return true;
  const [newPod] = fresh;
  const oldPod = old.find((pod) => !isLeaving(pod));
  if (oldPod === undefined) return false;
  return newPod === undefined ? isGranted(scene, oldPod) : !newPod.isAvailable;
}

/** The old pods with the budget: those that are unavailable do not ask for it, and go first. */
export function updateLine(scene: DaemonSetScene, { selected }: DaemonSetDemand): UpdateLine {
  const { burst } = scene;
  const budget = isSurging(scene) ? scene.maxSurge : scene.maxUnavailable;
  const skip = skippedPods(scene);
  let spent = spentBudget(scene, selected);
  let begun = 0;
  const isCandidate = (place: Place) => place.fresh.length === 0 && (!isSurging(scene) || place.eligibility === 'runs');
  return {
    pods: selected
      .filter(isCandidate)
      .flatMap(({ old }) => (old.length === 1 ? old : []))
      .filter((pod) => !isAtGoal(scene, pod) && !pod.isSpecified && !isLeaving(pod) && !skip.has(pod.name))
      .toSorted(
        inOrder<FleetPod>(
          underWayFirst,
          first((pod) => !pod.isAvailable),
        ),
      ),
    passesOver: true, // AD-32: in any order
    // A mark is for deletions that have to wait: for a hook, or for the new pod beside it.
    deletes: ({ pod }) => !isSurging(scene) && beforeDelete(pod, scene.strategy.lifecycle) === 'delete',
    admits(pod) {
      if (begun >= burst) return false; // AD-34
      const isFree = isGranted(scene, pod) || !pod.isAvailable;
      if (!isFree && spent >= budget) return false;
      if (!isFree) spent++;
      begun++;
      return true;
    },
  };
}
