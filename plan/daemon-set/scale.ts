/**
 * Which nodes get a pod, and which pods go (AD-20 to AD-24): what is done in every pass, also while the update is paused.
 *
 *   no pod              one is created, of the newest revision
 *   failed              the pod is deleted, later and later
 *   too many            the first one stays; while new pods start beside old ones, the first of each
 *   both old and new    the old one goes once the new one is available, or when it serves nobody any more
 *   the node is not one of those that run pods any more   all go
 */
import { daemonSetEvent } from '../../api/daemon-set/types.ts';
import { podMark } from '../../api/fleet/marks.ts';
import type { ScalePlan } from '../fleet/kind.ts';
import { first } from '../fleet/order.ts';
import { deletion } from '../fleet/pod-writes.ts';
import { asSeen, type FleetPod, isPodReady } from '../fleet/pods.ts';
import type { Intention } from '../fleet/steps.ts';
import { podFor } from './pods.ts';
import { type DaemonSetScene, isLeaving, isSurging, type Place } from './scene.ts';
import { selectedPlaces, spentBudget } from './update.ts';

export interface DaemonSetScale extends ScalePlan {
  /** Nodes that have no pod yet, as the partition holds it back (AD-22). */
  readonly heldBack: readonly Place[];
  /** Pods that have failed and are deleted later, as others before them have failed on their node. */
  readonly backingOff: readonly FleetPod[];
  /** When the first of them is. */
  readonly againAtMs: readonly number[];
}

/** What to create and to delete now. */
export function planScale(scene: DaemonSetScene): DaemonSetScale {
  const { places, lost, burst, strategy } = scene;
  const failed = failedPods(scene);
  const backingOff = failed.later.map(({ pod }) => pod);
  const { creations, heldBack } = wantedCreations(scene, new Set(backingOff));
  const surplus = [...places.flatMap((place) => surplusAt(scene, place)), ...lost];
  const named = strategy.isOnDelete || strategy.isPaused ? nothing : deleteNamed(scene);
  const going = [...new Set([...failed.due.map(({ pod }) => pod), ...surplus, ...named.pods])];
  const deletions = going.filter((pod) => !pod.isTerminating).map((pod) => ({ pod, steps: deletion(scene, pod) }));
  const acting = deletions.filter(({ steps }) => steps.length > 0).slice(0, burst);
  const created = creations.slice(0, burst).flatMap(({ node }) => podFor(scene, node) ?? []);
  const again = places.flatMap(({ fresh }) => fresh.filter((pod) => pod.isSpecified && !going.includes(pod)));
  return {
    steps: [...created, ...acting.flatMap(({ steps }) => steps), ...again.map(keep)],
    events: acting.flatMap(({ pod }) => failureEvents(failed.due, pod)),
    missing: creations.length,
    surplus: going.length,
    isSettled: creations.length === 0 && going.length === 0 && places.every((place) => isSettled(scene, place)),
    spared: named.spared,
    heldBack,
    backingOff,
    againAtMs: failed.later.map(({ dueAtMs }) => dueAtMs),
  };
}

/** AD-37: while updates are stopped, labels are not looked at either. */
function isSettled({ strategy }: DaemonSetScene, { pods }: Place): boolean {
  const isStopped = strategy.isOnDelete || strategy.isPaused;
  return pods.length <= 1 && pods.every((pod) => !pod.isTerminating && (isStopped || !pod.isSpecified));
}

/** AD-20, AD-22: the nodes that are to get a pod, in the order of their names. */
function wantedCreations(
  scene: DaemonSetScene,
  backingOff: ReadonlySet<FleetPod>,
): { readonly creations: readonly Place[]; readonly heldBack: readonly Place[] } {
  const { places, owner, partition, replicas, strategy } = scene;
  const isStopped = strategy.isOnDelete || strategy.isPaused;
  const open = places.filter(({ eligibility, isAdopting }) => eligibility === 'runs' && !isAdopting);
  const empty = open.filter((place) => lacksPod(scene, place, backingOff));
  const known = new Set(empty);
  const granted = isStopped ? [] : open.filter((place) => !known.has(place) && awaitsSurge(scene, place));
  const isProgressive = owner.spec.scaleStrategy?.partitionedScaling === true && partition > 0;
  if (!isProgressive) return { creations: [...empty, ...granted], heldBack: [] };
  const updated = places.filter(({ eligibility, fresh }) => eligibility === 'runs' && fresh.length > 0).length;
  const most = Math.max(replicas - updated - partition, 0);
  return { creations: [...empty.slice(0, most), ...granted], heldBack: empty.slice(most) };
}

/** Without surging, pods that are going still count. What has failed counts until it is deleted, or nothing would slow it down. */
function lacksPod(scene: DaemonSetScene, { pods }: Place, backingOff: ReadonlySet<FleetPod>): boolean {
  const isGone = (pod: FleetPod) => pod.isTerminating || isLeaving(pod) || (isFailed(pod) && !backingOff.has(pod));
  return isSurging(scene) ? pods.every(isGone) : pods.length === 0;
}

/** AD-35: its old pod was granted to be replaced, and the new one is not there yet. */
function awaitsSurge(scene: DaemonSetScene, { fresh, old }: Place): boolean {
  return isSurging(scene) && fresh.length === 0 && old.some(({ isSpecified }) => isSpecified) && old.every(isGranted);
}

function isGranted(pod: FleetPod): boolean {
  return pod.isSpecified || isLeaving(pod) || isFailed(pod);
}

function isFailed({ pod }: FleetPod): boolean {
  return pod.status?.phase === 'Failed';
}

interface Failed {
  readonly pod: FleetPod;
  readonly node: string;
  readonly dueAtMs: number;
}

/** AD-20: the first one at once, each further one of the node after twice the time. */
function failedPods({ places, input }: DaemonSetScene): {
  readonly due: readonly Failed[];
  readonly later: readonly Failed[];
} {
  const failed = places
    .filter(({ eligibility }) => eligibility !== 'no')
    .flatMap(({ node, pods }) => {
      const before = input.failedBefore?.get(node);
      const dueAtMs = before === undefined ? 0 : before.lastAtMs + backOffMs(before.times);
      const ofNode = pods.filter((pod) => isFailed(pod) && !pod.isTerminating && !isLeaving(pod));
      return ofNode.map((pod) => ({ pod, node, dueAtMs }));
    });
  // one that is to be replaced anyway does not wait
  const isDue = ({ pod, dueAtMs }: Failed) => pod.isSpecified || dueAtMs <= input.nowMs;
  return { due: failed.filter(isDue), later: failed.filter((one) => !isDue(one)) };
}

const [firstBackOffMs, longestBackOffMs] = [1_000, 15 * 60_000];

function backOffMs(times: number): number {
  return Math.min(firstBackOffMs * 2 ** Math.min(Math.max(times - 1, 0), 30), longestBackOffMs);
}

function failureEvents(failed: readonly Failed[], pod: FleetPod): readonly Intention[] {
  const found = failed.find((one) => one.pod === pod);
  return found ? [{ kind: 'event', event: daemonSetEvent.podFailed(asSeen(pod.pod), found.node) }] : [];
}

/** AD-20, AD-24: pods that the node has too many of, and those that a hook has held before their deletion. */
function surplusAt(scene: DaemonSetScene, { eligibility, pods, fresh, old }: Place): readonly FleetPod[] {
  const present = pods.filter(({ isTerminating }) => !isTerminating);
  if (eligibility === 'no') return present; // AD-39
  const leaving = present.filter(isLeaving);
  const isStaying = (pod: FleetPod) => !isLeaving(pod) && !isFailed(pod);
  if (!isSurging(scene)) return [...leaving, ...present.filter(isStaying).slice(1)];
  // of several old ones, one that serves is kept: an undo may find two that are to be replaced
  const serving = first<FleetPod>((pod) => pod.isAvailable);
  const [new_, ...moreNew] = fresh.filter(isStaying);
  const [old_, ...moreOld] = old.filter(isStaying).toSorted(serving);
  const isReplaced = new_ !== undefined && old_ !== undefined && (!isPodReady(old_.pod) || new_.isAvailable); // AD-35a
  return [...leaving, ...moreNew, ...moreOld, ...(isReplaced ? [old_] : [])];
}

/** A pod that has the goal again, and is not replaced after all. */
function keep({ pod }: FleetPod): Intention {
  const patch = { metadata: { labels: { [podMark.specifiedDelete]: null } } };
  return { kind: 'writePod', pod: asSeen(pod), why: 'keep', writes: [{ kind: 'pod', patch }] };
}

const nothing = { pods: [], spared: [] } as const;

/**
 * Pods that are labelled to be deleted, within the budget: a pod that is to be recreated for an update carries this label as well.
 * While surging the label is of updates alone: such pods go when their new pod is available, or where no pod is to be.
 */
function deleteNamed(scene: DaemonSetScene): {
  readonly pods: readonly FleetPod[];
  readonly spared: readonly FleetPod[];
} {
  const { places, maxUnavailable } = scene;
  const isNamed = (pod: FleetPod) => pod.isSpecified && !pod.isTerminating && !isLeaving(pod);
  if (isSurging(scene)) {
    const unreplaced = places.filter(({ eligibility }) => eligibility !== 'runs');
    return { pods: unreplaced.flatMap(({ old }) => old.filter(isNamed)), spared: [] };
  }
  const selected = new Set(selectedPlaces(scene));
  const pods: FleetPod[] = [];
  const spared: FleetPod[] = [];
  const away = { selected: spentBudget(scene, [...selected]) - namedIn([...selected]), all: unavailablePlaces(places) };
  for (const place of places.toReversed()) {
    for (const pod of place.old.filter(isNamed)) {
      const of = selected.has(place) ? 'selected' : 'all';
      if (pod.isAvailable && away[of] >= maxUnavailable) {
        spared.push(pod);
        continue;
      }
      if (pod.isAvailable) away[of]++;
      pods.push(pod);
    }
  }
  return { pods, spared };
}

/** They are part of the budget that is spent, and are asked for again here. */
function namedIn(places: readonly Place[]): number {
  return places.filter(({ fresh, old: [pod, ...more] }) => {
    return pod !== undefined && fresh.length + more.length === 0 && pod.isSpecified && pod.isAvailable;
  }).length;
}

function unavailablePlaces(places: readonly Place[]): number {
  return places.filter(({ pods }) => !pods.some(({ isAvailable }) => isAvailable)).length;
}
