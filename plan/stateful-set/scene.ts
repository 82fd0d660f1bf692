/** The desired state of a StatefulSet's pods, for scaling and updating: which ordinals there are, and which pods are at them. */
import { countOf, type IntOrPercent } from '../../api/base/int-or-percent.ts';
import type { FeatureGates } from '../../api/feature-gates.ts';
import { type Ordinals, ordinalIn, ordinalsOf } from '../../api/stateful-set/ordinals.ts';
import { type StatefulSet, type StatefulSetRollingUpdate, statefulSetDefault } from '../../api/stateful-set/types.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { type FleetScene, isInDoubt, volumesOf } from '../fleet/scene.ts';
import { claimAt } from './claim.ts';
import { volumesIn } from './volumes.ts';

/** A pod with the ordinal in its name. */
export interface Replica {
  readonly ordinal: number;
  readonly pod: FleetPod;
}

/** Everything that the parts of a pass share. */
export interface StatefulSetScene extends FleetScene<StatefulSet> {
  readonly rollingUpdate: StatefulSetRollingUpdate;
  readonly ordinals: Ordinals;
  /** The pods at wanted ordinals, in ascending order. */
  readonly replicaPods: readonly Replica[];
  /** All others, in descending order: they are too many. */
  readonly condemned: readonly Replica[];
  /** Ordinals of pods that are about to be adopted (AS-11). */
  readonly adopted: ReadonlySet<number>;
  readonly isOrdered: boolean;
  /** How many pods stay old (AS-50). */
  readonly partition: number;
  /** How many pods may be unavailable because of updates and deletions that users asked for (AS-60). */
  readonly maxUnavailable: number;
}

/** Adds what only a StatefulSet has. */
export function statefulSetScene(scene: FleetScene<StatefulSet>): StatefulSetScene {
  const { owner, counted, adoptable = [], replicas, input } = scene;
  const { updateStrategy, podManagementPolicy } = owner.spec;
  const rollingUpdate = updateStrategy?.rollingUpdate ?? {};
  const ordinals = ordinalsFor(owner, input.gates);
  const ordinalOf = (podName: string) => ordinalIn(podName, owner.metadata.name) ?? -1;
  const members = counted
    .map((pod) => ({ pod, ordinal: ordinalOf(pod.name) }))
    .toSorted((left, right) => left.ordinal - right.ordinal);
  const maxUnavailable = rollingUpdate.maxUnavailable ?? statefulSetDefault.maxUnavailable;
  const volumes = volumesIn(scene, (template, { name }) => claimAt(scene, template, ordinalOf(name)));
  return {
    ...scene,
    ...(volumes && { volumes }),
    rollingUpdate,
    ordinals,
    replicaPods: members.filter(({ ordinal }) => ordinals.isWanted(ordinal)),
    condemned: members.filter(({ ordinal }) => !ordinals.isWanted(ordinal)).toReversed(),
    adopted: new Set(adoptable.map(({ metadata }) => ordinalOf(metadata.name))),
    isOrdered: podManagementPolicy !== 'Parallel',
    partition: scene.isUndo ? 0 : Math.max(rollingUpdate.partition ?? statefulSetDefault.partition, 0),
    maxUnavailable: budgetOf(maxUnavailable, replicas),
  };
}

/** How many pods the StatefulSet wants. */
export function replicasOf({ spec }: Pick<StatefulSet, 'spec'>): number {
  return Math.max(spec.replicas ?? statefulSetDefault.replicas, 0);
}

/** AS-12. The first ordinal takes effect with its gate. */
export function ordinalsFor(owner: StatefulSet, gates: Pick<FeatureGates, 'StatefulSetStartOrdinal'>): Ordinals {
  const { reserveOrdinals = [], ordinals } = owner.spec;
  const start = gates.StatefulSetStartOrdinal ? Math.max(ordinals?.start ?? 0, 0) : 0;
  return ordinalsOf({ replicas: replicasOf(owner), start, reserved: reserveOrdinals });
}

/** AS-60, AS-35: percentages of replicas are rounded down; at least one pod. */
export function budgetOf(value: IntOrPercent, replicas: number): number {
  return Math.max(countOf(value, replicas, 'down') ?? 0, 1);
}

/** How many wanted pods are unavailable, missing ones included. */
export function unavailableReplicas({ replicaPods, replicas }: StatefulSetScene): number {
  return replicas - replicaPods.filter(({ pod }) => pod.isAvailable).length;
}

/** AS-61: whether the pod spends the budget: it is unavailable, an update of it may still be made, or its volumes are not as wanted. */
export function spendsBudget(scene: StatefulSetScene, pod: FleetPod): boolean {
  return !pod.isAvailable || isInDoubt(scene, pod) || volumesOf(scene, pod).spendsBudget;
}

/** AS-61: how much of the budget is spent, by missing pods as well. */
export function spentBudget(scene: StatefulSetScene): number {
  const { replicaPods, replicas } = scene;
  return replicas - replicaPods.filter(({ pod }) => !spendsBudget(scene, pod)).length;
}
