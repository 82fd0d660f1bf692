/** What the pods of a workload are to be now, and how far its roll-out may go: what all decisions of a pass share. */

import type { IntOrPercent } from '../../api/base/int-or-percent.ts';
import { timestamp } from '../../api/base/time.ts';
import type { Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { EngineReason } from '../../api/engine/engine-trouble.ts';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import type { ControllerRevision, RevisionScheme } from '../../api/fleet/revision.ts';
import { ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import type { PodUpdatePolicy } from './in-place/decide.ts';
import type { FleetInput } from './input.ts';
import type { Undo } from './permit.ts';
import { type FleetPod, isOfRevision } from './pods.ts';
import type { ChangedImage } from './prefetch.ts';
import type { Revisions } from './revisions.ts';
import { isHeld, ordersFor, undoOf } from './roll-out-orders.ts';
import { type PodVolumes, unchangedVolumes } from './volumes.ts';
import type { Workload } from './workload.ts';

/** Everything that the decisions of a pass share. */
export interface FleetScene<Owner extends Workload = Workload, Input extends FleetInput<Owner> = FleetInput<Owner>> {
  readonly input: Input;
  readonly owner: Owner;
  readonly resource: Resource;
  readonly scheme: Pick<RevisionScheme<never>, 'podLabels' | 'recreatesForClaims'>;
  readonly strategy: UpdateStrategy;
  /** What a person can do about each wait. */
  readonly texts: FleetWaitTexts;
  /** How many pods the workload wants. */
  readonly replicas: number;
  /** RFC 3339. */
  readonly now: string;
  readonly counted: readonly FleetPod[];
  /** Pods that are about to be adopted: they do not count yet, and their names are taken. Absent: none. */
  readonly adoptable?: readonly Pod[];
  readonly revisions: Revisions;
  /** What pods are to become. */
  readonly target: ControllerRevision;
  /** What pods are made of that are to stay old. */
  readonly other: ControllerRevision;
  readonly isUndo: boolean;
  /** An undo is ordered, and the revision that it goes back to is not kept any more: nothing may be updated. */
  readonly isUndoLost: boolean;
  /** An operator holds the roll-out, or an undo is lost: no further pod is disrupted, permit or not. */
  readonly isHeldByOperator: boolean;
  /** What operators have decided about what is to be done now. */
  readonly orders: RollOutOrders | undefined;
  /** Images that are pulled ahead of updates of whatever type. Absent: of updates in place, those that change. */
  readonly ahead?: ImagesAhead;
  /** The volumes of a pod that are expanded with its update. Absent: PVCs stay as they are. */
  readonly volumes?: (pod: FleetPod) => PodVolumes;
}

/** The reasons of these rules. */
export type FleetWaitReason =
  | 'Paused'
  | 'Aborted'
  | 'PausedByOperator'
  | 'Undone'
  | 'OnDelete'
  | 'PartitionReached'
  | 'Skipped'
  | EngineReason
  | 'NoPermit'
  | 'CannotCreate'
  | 'CannotDelete'
  | 'CannotUpdate'
  | 'RefusedByBudget'
  | 'PodUnreadable'
  | 'InPlaceImpossible'
  | 'HookBeforeDelete'
  | 'HookBeforeUpdate'
  | 'HookAfterUpdate'
  | 'HookBeforeNormal'
  | 'BatchNotReady'
  | 'ContainersNotSwapped'
  | 'Draining'
  | 'GracePeriod'
  | 'ImageNotReady'
  | 'BudgetSpent'
  | 'NotScheduled'
  | 'NotReady'
  | 'MinReadySeconds';

/** How much there is to update. */
export interface UpdateDemand {
  /** How many pods are to be updated; less than 0: as many pods go back to the old revision. */
  readonly left: number;
  /** How many pods stay at older revisions. */
  readonly keeps: number;
  /** Whether this pod stays old for another reason than the partition. Absent: none does. */
  readonly isLeftOut?: (pod: FleetPod) => boolean;
  /** Whether this pod is one of those that may be updated. */
  readonly concerns: (pod: FleetPod) => boolean;
}

/** The revision that pods are brought to now. */
export function nextRevision(
  { target, other }: Pick<FleetScene, 'target' | 'other'>,
  { left }: Pick<UpdateDemand, 'left'>,
): ControllerRevision {
  return left < 0 ? other : target;
}

/** The settings of a workload for pre-downloads (CS-100, CS-101, CS-103). */
export interface PreDownloadSettings {
  readonly parallelism: IntOrPercent;
  readonly timeoutSeconds: number;
  /** How many pods must be updated and ready before images are pre-downloaded. */
  readonly minUpdatedReadyPods: number;
  /** All pods may be updated at once, so that a job would help none of them. */
  readonly isOneBatch: boolean;
}

export interface ImagesAhead {
  /** Whether the feature gates allow it. */
  readonly isOn: boolean;
  readonly images: readonly ChangedImage[];
}

/** What a person can do about each, in the words of the kind. */
export type FleetWaitTexts = Readonly<Record<FleetWaitReason, string>>;

/** What the spec of a workload says about updates, in one shape for all kinds. */
export interface UpdateStrategy {
  /** The pods are left to the user. */
  readonly isOnDelete: boolean;
  readonly isPaused: boolean;
  readonly podUpdatePolicy: PodUpdatePolicy;
  /** How long a pod is out of service before its containers change. */
  readonly graceSeconds: number;
  readonly lifecycle: Lifecycle | undefined;
  /** Pods have a lifecycle state only while a hook holds them before their deletion (LC-10, AD-34). Absent: always. */
  readonly hasNoStates?: true;
  /** Only pods with the readiness gate of in-place updates are updated in place (AD-34). Absent: all. */
  readonly needsGate?: true;
  /** Absent: nothing is pre-downloaded. */
  readonly preDownload?: PreDownloadSettings;
}

/** Puts together what the input says about where the pods are to go. */
export function fleetScene<Owner extends Workload, Input extends FleetInput<Owner>>(given: {
  readonly input: Input;
  readonly counted: readonly FleetPod[];
  readonly revisions: Revisions;
  readonly resource: Resource;
  readonly scheme: RevisionScheme<Owner>;
  readonly strategy: UpdateStrategy;
  readonly texts: FleetWaitTexts;
  readonly replicas: number;
}): FleetScene<Owner, Input> {
  const { input, revisions } = given;
  const { owner } = input;
  const orders = ordersFor(input.held?.orders ?? ordersOf(owner), revisions.update.metadata.name);
  const undone = undoneTo(input.undo ?? undoOf(orders), revisions);
  const target = undone ?? revisions.update;
  const isUndoLost = orders?.undo !== undefined && undone === undefined;
  return {
    ...given,
    owner,
    now: timestamp(input.nowMs),
    target,
    other: undone ? revisions.update : revisions.current,
    isUndo: undone !== undefined,
    isUndoLost,
    isHeldByOperator: isHeld(orders) || isUndoLost,
    orders,
  };
}

/** The revision that an operator wants back in place of the one in the spec. */
function undoneTo(undo: Undo | undefined, { all, update }: Revisions): ControllerRevision | undefined {
  if (undo?.from !== update.metadata.name) return undefined;
  return all.find(({ metadata }) => metadata.name === undo.to);
}

/**
 * Whether the pod is where it is to go. During an undo that is any revision but the one that is taken back: only pods that
 * the roll-out has changed are changed again.
 */
export function isAtGoal({ revisions, isUndo }: Pick<FleetScene, 'revisions' | 'isUndo'>, pod: FleetPod): boolean {
  return isOfRevision(pod, revisions.update.metadata.name) !== isUndo;
}

/** The volumes of a pod, as far as they are expanded with its update. */
export function volumesOf({ volumes }: Pick<FleetScene, 'volumes'>, pod: FleetPod): PodVolumes {
  return volumes?.(pod) ?? unchangedVolumes;
}

/** Whether nothing is to be done for the pod: it is where it is to go, and its PVCs are as their templates want them. */
export function isUpToDate(scene: Pick<FleetScene, 'revisions' | 'isUndo' | 'volumes'>, pod: FleetPod): boolean {
  const { due, differs } = volumesOf(scene, pod);
  return isAtGoal(scene, pod) && due.length === 0 && differs === undefined;
}

/**
 * P-7: whether an update of the pod got no answer, so that it may still be made. It uses up part of the budget, whatever else is
 * decided.
 */
export function isInDoubt({ input }: Pick<FleetScene, 'input'>, { pod }: FleetPod): boolean {
  const { uid } = pod.metadata;
  return input.inDoubt?.has(uid) === true || input.unanswered?.has(uid) === true;
}

/** How many pods are where they are to go, for people. */
export function progressOf(
  scene: Pick<FleetScene, 'revisions' | 'isUndo' | 'counted' | 'replicas' | 'target'>,
): string {
  const arrived = scene.counted.filter((pod) => isAtGoal(scene, pod)).length;
  return `${arrived} of ${scene.replicas} pods are of revision ${scene.target.metadata.name}`;
}

/** Names of pods that operators leave out of the update. */
export function skippedPods({ orders }: Pick<FleetScene, 'orders'>): ReadonlySet<string> {
  return new Set(orders?.skip);
}

/** Whether an update of the pod, or its replacement, has been begun. */
export function isOnTheWay({ state, isSpecified, isTerminating }: FleetPod): boolean {
  return isTerminating || isSpecified || state === 'PreparingUpdate' || state === 'PreparingDelete';
}
