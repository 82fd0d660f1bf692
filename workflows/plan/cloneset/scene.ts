/** What the pods of a CloneSet are to be now, and how far the roll-out may go: what scaling and updating both ask. */

import { timestamp } from '../../../api/base/time.ts';
import { type CloneSet, cloneSetDefault, type RollingUpdate } from '../../../api/cloneset/types.ts';
import type { ControllerRevision } from '../../../api/fleet/revision.ts';
import { ordersOf, type RollOutOrders } from '../../../api/fleet/roll-out-orders.ts';
import type { Permit, Undo } from '../fleet/permit.ts';
import { ordersFor, permitUnder, undoOf } from '../fleet/roll-out-orders.ts';
import { type Limits, limitsOf, type Numbers, numbersOf, type Question } from './counts.ts';
import { type AlikePods, type FleetPod, isOfRevision } from './fleet.ts';
import type { CloneSetWorld } from './input.ts';
import type { Revisions } from './revisions.ts';

/** Everything that the parts of a pass share. */
export interface Scene {
  readonly world: CloneSetWorld;
  readonly set: CloneSet;
  /** RFC 3339. */
  readonly now: string;
  readonly counted: readonly FleetPod[];
  /** Pods that a preview counts as if they were there; absent: none. */
  readonly coming?: readonly AlikePods[];
  readonly revisions: Revisions;
  /** What pods are to become. */
  readonly target: ControllerRevision;
  /** What pods are made of that are to stay old. */
  readonly other: ControllerRevision;
  /** The pods are left to the user. */
  readonly isOnDelete: boolean;
  /** Undefined where the pods are left to the user and nothing else is said. */
  readonly rollingUpdate: RollingUpdate | undefined;
  readonly limits: Limits;
  /** The permit, if it is one for what is to be done now. */
  readonly permit: Permit | undefined;
  readonly isUndo: boolean;
  /** What operators have decided about what is to be done now. */
  readonly orders: RollOutOrders | undefined;
}

/** Puts together what the world says about where the pods are to go. */
export function sceneOf(world: CloneSetWorld, counted: readonly FleetPod[], revisions: Revisions): Scene {
  const { set, permit } = world;
  const { spec } = set;
  const isOnDelete = spec.updateStrategy?.type === 'OnDelete';
  const rollingUpdate = spec.updateStrategy?.rollingUpdate ?? (isOnDelete ? undefined : {});
  const orders = ordersFor(ordersOf(set), revisions.update.metadata.name);
  // The permit may know of an undo a moment before the caches show it.
  const undone = undoneTo(world.undo ?? undoOf(orders) ?? permit?.undo, revisions);
  const limits = limitsOf({
    replicas: replicasOf(set),
    rollingUpdate,
    scaleMaxUnavailable: spec.scaleStrategy?.maxUnavailable,
  });
  const target = undone ?? revisions.update;
  return {
    world,
    set,
    now: timestamp(world.nowMs),
    counted,
    revisions,
    target,
    other: undone ? revisions.update : revisions.current,
    isOnDelete,
    rollingUpdate,
    limits: undone ? { ...limits, partition: 0 } : limits,
    permit: permit?.revision === target.metadata.name ? permitUnder(permit, orders) : undefined,
    isUndo: undone !== undefined,
    orders,
  };
}

/** The revision that an operator wants back in place of the one in the spec. */
function undoneTo(undo: Undo | undefined, { all, update }: Revisions): ControllerRevision | undefined {
  if (undo?.from !== update.metadata.name) return undefined;
  return all.find(({ metadata }) => metadata.name === undo.to);
}

/** How many pods the set wants. */
export function replicasOf({ spec }: Pick<CloneSet, 'spec'>): number {
  return spec.replicas ?? cloneSetDefault.replicas;
}

/**
 * Whether the pod is where it is to go. During an undo that is any revision but the one that is taken back: only pods that
 * the roll-out has changed are changed again.
 */
export function isAtGoal({ revisions, isUndo }: Scene, pod: FleetPod): boolean {
  return isOfRevision(pod, revisions.update.metadata.name) !== isUndo;
}

/** How many pods are where they are to go, for people. */
export function progressOf(scene: Scene): string {
  const arrived = scene.counted.filter((pod) => isAtGoal(scene, pod)).length;
  return `${arrived} of ${replicasOf(scene.set)} pods are of revision ${scene.target.metadata.name}`;
}

/** The numbers as updating sees them: a pod is what its label says. */
export function updateNumbers(scene: Scene): Numbers {
  return numbersFor(scene, (pod) => isAtGoal(scene, pod));
}

/** The numbers as scaling sees them. */
export function scaleNumbers(scene: Scene): Numbers {
  return numbersFor(scene, (pod) => countsAsNew(scene, pod));
}

/** LC-28: whether scaling takes the pod for a new one. */
export function countsAsNew(scene: Scene, pod: FleetPod): boolean {
  const isAhead = scene.world.gates.PreparingUpdateAsUpdate && pod.state === 'PreparingUpdate';
  return isAhead || isAtGoal(scene, pod);
}

function numbersFor(scene: Scene, isNew: (pod: FleetPod) => boolean): Numbers {
  const { world, counted, coming = [], limits, revisions } = scene;
  const asCounted = (pod: FleetPod) => ({
    isNew: isNew(pod),
    isPreparingDelete: pod.state === 'PreparingDelete',
    isSpecified: pod.isSpecified,
    isAvailable: pod.isAvailable,
  });
  return numbersOf({
    limits,
    pods: [...counted.map(asCounted), ...coming.map(({ pod, count }) => ({ ...asCounted(pod), count }))],
    canRollBack:
      world.gates.CloneSetPartitionRollback &&
      !scene.isUndo &&
      revisions.current.metadata.name !== revisions.update.metadata.name,
    excludePreparingDelete: excludesPreparingDelete(world),
    updateSurge: updateSurge(scene),
  });
}

/** CS-38. */
function excludesPreparingDelete({ set, excludePreparingDelete }: CloneSetWorld): boolean {
  return excludePreparingDelete || (set.spec.scaleStrategy?.excludePreparingDelete ?? false);
}

/**
 * Making a pod beyond the replicas is a step of the roll-out and needs its permit. Without one those that are there stay,
 * or they would come and go with the permit.
 */
function updateSurge(scene: Scene): NonNullable<Question['updateSurge']> {
  const { counted, limits, world, permit } = scene;
  const there = Math.max(replaceable(counted, world).length + comingOf(scene) - limits.replicas, 0);
  const arrived = counted.filter((pod) => isAtGoal(scene, pod)).length + comingOf(scene, isAtGoal);
  if (permit === undefined || permit.paused) return { kind: 'kept', pods: Math.min(there, arrived) };
  return { kind: 'atMost', pods: there + batchRoom(scene) };
}

/** How many of the pods that are to be made this is true of. */
function comingOf(scene: Scene, is: (scene: Scene, pod: FleetPod) => boolean = () => true): number {
  return (scene.coming ?? []).reduce((sum, { pod, count }) => sum + (is(scene, pod) ? count : 0), 0);
}

/** How many more pods may be sent on their way now; 0 without a permit. */
export function batchRoom(scene: Scene): number {
  const { permit, limits, counted, world } = scene;
  if (permit === undefined || permit.paused) return 0;
  const arrived = counted.filter((pod) => isAtGoal(scene, pod)).length;
  const old = replaceable(counted, world).filter((pod) => !isAtGoal(scene, pod));
  const onTheWay = old.filter(isOnTheWay).length;
  // Pods that are missing will come, and mostly as what is wanted.
  const missingOld = Math.max(limits.partition - (counted.length - arrived), 0);
  const missing = Math.max(limits.replicas - counted.length - missingOld, 0);
  return Math.max(permit.batch - arrived - onTheWay - missing, 0);
}

/** The pods that are replaced once they are gone, and not before (CS-38). */
function replaceable(counted: readonly FleetPod[], world: CloneSetWorld): readonly FleetPod[] {
  return excludesPreparingDelete(world) ? counted.filter(({ state }) => state !== 'PreparingDelete') : counted;
}

/** Whether an update of the pod, or its replacement, has been begun. */
function isOnTheWay({ state, isSpecified }: FleetPod): boolean {
  return isSpecified || state === 'PreparingUpdate' || state === 'PreparingDelete';
}
