/** The desired state of a CloneSet's pods, and the numbers that follow from it, for scaling and updating. */

import { type CloneSet, cloneSetDefault, type RollingUpdate } from '../../api/cloneset/types.ts';
import type { FleetPod } from '../fleet/pods.ts';
import { type FleetScene, isAtGoal, isInDoubt } from '../fleet/scene.ts';
import { type Limits, limitsOf, type Numbers, numbersOf } from './counts.ts';
import type { CloneSetInput } from './input.ts';

/** Everything that the parts of a pass share. */
export interface CloneSetScene extends FleetScene<CloneSet, CloneSetInput> {
  /** Undefined where the pods are left to the user and `rollingUpdate` is absent. */
  readonly rollingUpdate: RollingUpdate | undefined;
  readonly limits: Limits;
}

/** Adds what only a CloneSet has. */
export function cloneSetScene(scene: FleetScene<CloneSet, CloneSetInput>): CloneSetScene {
  const { spec } = scene.owner;
  const rollingUpdate = rollingUpdateOf(scene.owner);
  const limits = limitsOf({
    replicas: scene.replicas,
    rollingUpdate,
    scaleMaxUnavailable: spec.scaleStrategy?.maxUnavailable,
  });
  return { ...scene, rollingUpdate, limits: scene.isUndo ? { ...limits, partition: 0 } : limits };
}

/** How the pods are updated; undefined where they are left to the user and `rollingUpdate` is absent. */
export function rollingUpdateOf({ spec }: CloneSet): RollingUpdate | undefined {
  const { type, rollingUpdate } = spec.updateStrategy ?? {};
  return rollingUpdate ?? (type === 'OnDelete' ? undefined : {});
}

/** How many pods the CloneSet wants. */
export function replicasOf({ spec }: Pick<CloneSet, 'spec'>): number {
  return spec.replicas ?? cloneSetDefault.replicas;
}

/** The numbers for updating: a pod has the revision in its label. */
export function updateNumbers(scene: CloneSetScene): Numbers {
  return numbersFor(scene, (pod) => isAtGoal(scene, pod));
}

/** The numbers for scaling. */
export function scaleNumbers(scene: CloneSetScene): Numbers {
  return numbersFor(scene, (pod) => countsAsNew(scene, pod));
}

/** LC-28: whether scaling counts the pod as new. */
export function countsAsNew(scene: CloneSetScene, pod: FleetPod): boolean {
  const isAhead = scene.input.gates.PreparingUpdateAsUpdate && pod.state === 'PreparingUpdate';
  return isAhead || isAtGoal(scene, pod);
}

function numbersFor(scene: CloneSetScene, isNew: (pod: FleetPod) => boolean): Numbers {
  const { input: world, counted, limits, revisions } = scene;
  return numbersOf({
    limits,
    pods: counted.map((pod) => ({
      isNew: isNew(pod),
      isPreparingDelete: pod.state === 'PreparingDelete',
      isSpecified: pod.isSpecified,
      isAvailable: pod.isAvailable && !isInDoubt(scene, pod),
    })),
    canRollBack:
      world.gates.CloneSetPartitionRollback &&
      !scene.isUndo &&
      revisions.current.metadata.name !== revisions.update.metadata.name,
    excludePreparingDelete: excludesPreparingDelete(world),
    ...(!mayCreateSurge(scene) && { keptSurge: keptSurge(scene) }),
  });
}

/** CS-38. */
function excludesPreparingDelete({ owner: set, excludePreparingDelete }: CloneSetInput): boolean {
  return excludePreparingDelete || (set.spec.scaleStrategy?.excludePreparingDelete ?? false);
}

/** Creating a pod in addition to the replicas is a step of the roll-out and needs its permit. */
function mayCreateSurge({ input, isHeldByOperator }: CloneSetScene): boolean {
  return input.permit !== undefined && !isHeldByOperator;
}

/** Surge pods that are there stay; otherwise they would come and go with the permit. */
function keptSurge(scene: CloneSetScene): number {
  const { counted, limits, input: world } = scene;
  const there = Math.max(replaceable(counted, world).length - limits.replicas, 0);
  return Math.min(there, counted.filter((pod) => isAtGoal(scene, pod)).length);
}

/** The pods that are replaced only after they are gone (CS-38). */
function replaceable(counted: readonly FleetPod[], world: CloneSetInput): readonly FleetPod[] {
  return excludesPreparingDelete(world) ? counted.filter(({ state }) => state !== 'PreparingDelete') : counted;
}
