/**
 * Everything that a CloneSet, or its roll-out, can wait for. Each rule is one reason; the status tells the first that
 * holds, `explain` all of them. What only a person can end comes before what ends by itself.
 */

import { type CloneSetWaitReason, cloneSetDefault, cloneSetWaits } from '../../../api/cloneset/types.ts';
import type { FailureType } from '../../../api/core/failure.ts';
import type { EngineReason } from '../../../api/engine/engine-trouble.ts';
import { withGrant } from '../../../api/engine/missing-right.ts';
import { type LifecycleHook, marksMissing, marksOn } from '../../../api/fleet/lifecycle.ts';
import type { Order } from '../../../api/fleet/roll-out-orders.ts';
import { type Rule, type Wait, waitFor } from '../decision.ts';
import type { InPlaceWait, RecreateCause } from '../fleet/in-place/update.ts';
import { beforeDelete, beforeUpdate } from '../fleet/lifecycle.ts';
import { shortened } from '../text-size.ts';
import { roundsToZero } from './counts.ts';
import { type FleetPod, podRef } from './fleet.ts';
import type { CloneSetWorld } from './input.ts';
import type { RefreshPlan } from './refresh.ts';
import type { ScalePlan } from './scale.ts';
import { isAtGoal, progressOf, type Scene } from './scene.ts';
import type { UpdatePlan } from './update.ts';

/** A pass, once it is decided. */
export interface Situation {
  readonly scene: Scene;
  readonly scale: ScalePlan;
  readonly refresh: RefreshPlan;
  readonly update: UpdatePlan;
}

/** Asked in this order. */
export const cloneSetRules: readonly Rule<Situation>[] = [
  paused,
  aborted,
  pausedByOperator,
  engineSilent,
  engineStuck,
  cannotCreate,
  cannotDelete,
  cannotUpdate,
  noFreeInstanceIds,
  podUnreadable,
  inPlaceImpossible,
  refusedByBudget,
  hookBeforeDelete,
  hookBeforeUpdate,
  hookAfterUpdate,
  hookBeforeNormal,
  budgetRoundsToZero,
  notScheduled,
  scaleLimited,
  podTerminating,
  batchNotReady,
  containersNotSwapped,
  draining,
  gracePeriod,
  imageNotReady,
  budgetSpent,
  notReady,
  minReadySeconds,
  noPermit,
  onDelete,
  skipped,
  undone,
  partitionReached,
];

/** Every reason that holds now, in the order of the rules. */
export function allWaits(situation: Situation): readonly Wait[] {
  return cloneSetRules.flatMap((rule) => rule(situation) ?? []);
}

// Somebody has said so.

function paused({ update }: Situation): Wait | undefined {
  return update.stop.kind === 'paused' && update.stop.by === 'spec' ? wait('Paused') : undefined;
}

function aborted({ scene, update }: Situation): Wait | undefined {
  const order = scene.orders?.aborted;
  if (order && update.numbers.updateNum !== 0) return wait('Aborted', [], orderedBy(order, scene));
  return isStoppedByOperator(update) && scene.permit?.aborted ? wait('Aborted') : undefined;
}

function pausedByOperator({ scene, update }: Situation): Wait | undefined {
  const order = scene.orders?.paused;
  if (order && update.numbers.updateNum !== 0) return wait('PausedByOperator', [], orderedBy(order, scene));
  return isStoppedByOperator(update) ? wait('PausedByOperator') : undefined;
}

/** A command reaches the permit before it stands in the object. */
function isStoppedByOperator({ stop }: Situation['update']): boolean {
  return stop.kind === 'paused' && stop.by === 'operator';
}

function undone({ scene, update }: Situation): Wait | undefined {
  const order = scene.orders?.undo;
  return order && scene.isUndo && update.stop.kind === 'done' ? wait('Undone', [], orderedBy(order, scene)) : undefined;
}

/** Who said so, and what had been changed. */
function orderedBy({ by, at }: Order, scene: Scene): string {
  const who = by === '' ? 'an operator' : by;
  return `${progressOf(scene)}; ordered by ${who}${at === '' ? '' : ` at ${at}`}`;
}

function onDelete({ scene, update }: Situation): Wait | undefined {
  const old = scene.counted.filter((pod) => !isAtGoal(scene, pod));
  return update.stop.kind === 'onDelete' && old.length > 0 ? wait('OnDelete', old) : undefined;
}

function partitionReached({ scene, update }: Situation): Wait | undefined {
  const old = scene.counted.filter((pod) => !isAtGoal(scene, pod));
  const isReached = update.stop.kind === 'done' && scene.limits.partition > 0 && old.length > 0;
  return isReached ? wait('PartitionReached', old) : undefined;
}

function skipped({ scene, update }: Situation): Wait | undefined {
  const skip = [...(scene.permit?.skip ?? []), ...(scene.orders?.skip ?? [])];
  const left = scene.counted.filter((pod) => skip.includes(pod.name) && !isAtGoal(scene, pod));
  return update.stop.kind === 'started' && left.length > 0 ? wait('Skipped', left) : undefined;
}

// Something else is away, or refuses.

function engineSilent(situation: Situation): Wait | undefined {
  return engineTrouble(situation, 'EngineSilent');
}

function engineStuck(situation: Situation): Wait | undefined {
  return engineTrouble(situation, 'EngineStuck');
}

/** Of a roll-out that is about to go on. */
function engineTrouble({ scene, update }: Situation, reason: EngineReason): Wait | undefined {
  const { engine } = scene.world;
  const isWanted = update.numbers.updateNum !== 0 && scene.permit === undefined && !scene.isOnDelete;
  if (!isWanted || engine?.reason !== reason) return undefined;
  return waitFor(reason, engine.blockedBy, engine.unblock ?? cloneSetWaits[reason]);
}

function noPermit(situation: Situation): Wait | undefined {
  if (situation.update.stop.kind !== 'noPermit' || (noPermitInMs(situation) ?? 0) > 0) return undefined;
  return wait('NoPermit');
}

/** When the wait for a permit is to be told of; undefined while nothing waits for one. */
export function noPermitInMs({ scene, update }: Situation): number | undefined {
  if (update.stop.kind !== 'noPermit') return undefined;
  const { withoutPermitSinceMs, nowMs } = scene.world;
  return withoutPermitSinceMs === undefined ? undefined : withoutPermitSinceMs + noPermitAfterMs - nowMs;
}

/** A roll-out gives its next permit within a fraction of a second; a watcher that takes over gets it within seconds. */
const noPermitAfterMs = 5_000;

function cannotCreate({ scene, scale }: Situation): Wait | undefined {
  const { failures } = scene.world;
  if (failures?.scale === undefined || scale.numbers.up <= 0) return undefined;
  return wait('CannotCreate', [], failureText(failures.scale, failures.scaleType, failures));
}

/** Of a set whose template is not recorded yet, for which nothing else can be decided. */
export function cannotRecord({ failures }: Pick<CloneSetWorld, 'failures'>): Wait | undefined {
  if (failures?.revision === undefined) return undefined;
  const detail = failureText(failures.revision, failures.revisionType, failures);
  return wait('CannotCreate', [], `the ControllerRevision of the template: ${detail}`);
}

function cannotDelete({ scene, scale }: Situation): Wait | undefined {
  const { failures } = scene.world;
  if (failures?.scale === undefined || scale.numbers.up > 0) return undefined;
  return wait('CannotDelete', [], failureText(failures.scale, failures.scaleType, failures));
}

function cannotUpdate({ scene }: Situation): Wait | undefined {
  const { failures } = scene.world;
  if (failures?.update === undefined) return undefined;
  return wait('CannotUpdate', [], failureText(failures.update, failures.updateType, failures));
}

/** Why it failed, what has to be granted where that is it, and when it is tried again where that takes its time. */
function failureText(
  message: string,
  type: FailureType | undefined,
  { retriedWithinMs = 0 }: NonNullable<CloneSetWorld['failures']>,
): string {
  const minutes = Math.ceil(retriedWithinMs / 60_000);
  const told = `${type === undefined ? '' : `${type}: `}${withGrant(shortened(message, longestMessageBytes))}`;
  return minutes <= 1 ? told : `${told}; retried within ${minutes} minutes, and at once when the CloneSet changes`;
}

/** So that what follows it is told, too. */
const longestMessageBytes = 400;

function refusedByBudget({ update }: Situation): Wait | undefined {
  if (update.stop.kind !== 'refused') return undefined;
  const { pod, by } = update.stop;
  return waitFor('RefusedByBudget', [by, podRef(pod)], cloneSetWaits.RefusedByBudget);
}

// A pod cannot go on.

function podUnreadable({ refresh }: Situation): Wait | undefined {
  const [first] = refresh.broken;
  if (first === undefined) return undefined;
  const pods = refresh.broken.map(({ pod }) => pod);
  return wait('PodUnreadable', pods, first.message);
}

function inPlaceImpossible({ update }: Situation): Wait | undefined {
  if (update.stop.kind !== 'impossible') return undefined;
  const { pod, because } = update.stop;
  return wait('InPlaceImpossible', [pod], describeCause(because));
}

/** Why a pod cannot be updated in place, with the field if it is one: `spec.template.spec.hostNetwork needs a new pod`. */
export function describeCause({ path, reason }: RecreateCause): string {
  return path === '' ? recreateTexts[reason] : `${path} ${recreateTexts[reason]}`;
}

const recreateTexts = {
  PolicyRecreates: 'podUpdatePolicy recreates pods',
  NoOldRevision: 'the revision of the pod is gone',
  UnreadableRevision: 'the revision of the pod cannot be read',
  FieldNeedsNewPod: 'needs a new pod',
  ResizeIsOff: 'changes in place only with feature gate InPlaceWorkloadVerticalScaling',
  QosClassChanges: 'changes the QoS class of the pod',
  ClaimTemplatesChanged: 'has changed, which needs a new pod by feature gate RecreatePodWhenChangeVCTInCloneSetGate',
} as const satisfies Record<RecreateCause['reason'], string>;

function hookBeforeDelete({ scene }: Situation): Wait | undefined {
  const { lifecycle } = scene.set.spec;
  const held = scene.counted.filter(
    ({ pod, state }) => state === 'PreparingDelete' && beforeDelete(pod, lifecycle) === 'wait',
  );
  return hookWait('HookBeforeDelete', held, marksOn, lifecycle?.preDelete);
}

function hookBeforeUpdate({ scene }: Situation): Wait | undefined {
  const { lifecycle } = scene.set.spec;
  const held = scene.counted.filter(
    ({ pod, state }) => state === 'PreparingUpdate' && beforeUpdate(pod, lifecycle) === 'wait',
  );
  return hookWait('HookBeforeUpdate', held, marksOn, lifecycle?.inPlaceUpdate);
}

function hookAfterUpdate({ scene }: Situation): Wait | undefined {
  return hookWaitIn(scene, 'Updated', 'HookAfterUpdate', scene.set.spec.lifecycle?.inPlaceUpdate);
}

function hookBeforeNormal({ scene }: Situation): Wait | undefined {
  return hookWaitIn(scene, 'PreparingNormal', 'HookBeforeNormal', scene.set.spec.lifecycle?.preNormal);
}

function hookWaitIn(
  { counted }: Scene,
  state: FleetPod['state'],
  reason: CloneSetWaitReason,
  hook: LifecycleHook | undefined,
): Wait | undefined {
  const held = counted.filter((pod) => pod.state === state && marksMissing(hook, pod.pod).length > 0);
  return hookWait(reason, held, marksMissing, hook);
}

function hookWait(
  reason: CloneSetWaitReason,
  held: readonly FleetPod[],
  marks: typeof marksOn,
  hook: LifecycleHook | undefined,
): Wait | undefined {
  if (held.length === 0) return undefined;
  const names = new Set(held.flatMap(({ pod }) => marks(hook, pod)));
  return wait(reason, held, [...names].join(', '));
}

// An update has begun and is not through.

function batchNotReady(situation: Situation): Wait | undefined {
  return underWay(situation, 'BatchNotReady', ['BatchNotReady']);
}

function containersNotSwapped(situation: Situation): Wait | undefined {
  return underWay(situation, 'ContainersNotSwapped', [
    'ImageNotSwapped',
    'NotResized',
    'EnvironmentNotRefreshed',
    'NotReported',
    'NotObserved',
  ]);
}

function draining(situation: Situation): Wait | undefined {
  return underWay(situation, 'Draining', ['Draining']);
}

function gracePeriod(situation: Situation): Wait | undefined {
  return underWay(situation, 'GracePeriod', ['GracePeriod']);
}

function underWay(
  { refresh }: Situation,
  reason: CloneSetWaitReason,
  kinds: readonly InPlaceWait['reason'][],
): Wait | undefined {
  const found = refresh.underWay.filter(({ waitingFor }) => kinds.includes(waitingFor.reason));
  const [first] = found;
  if (first === undefined) return undefined;
  const detail = underWayTexts[first.waitingFor.reason];
  const pods = found.map(({ pod }) => pod);
  return wait(reason, pods, detail && `${detail}: ${first.waitingFor.containers.join(', ')}`);
}

/** What the containers lack, where the reason of the wait does not say it. */
const underWayTexts: Readonly<Partial<Record<InPlaceWait['reason'], string>>> = {
  ImageNotSwapped: 'not started from the new image',
  NotResized: 'not resized',
  EnvironmentNotRefreshed: 'not restarted with the new environment',
  NotReported: 'not reported by the daemon of the node',
  NotObserved: 'not yet seen by the kubelet',
  BatchNotReady: 'not ready',
};

// There is no room, or not yet.

function imageNotReady({ update }: Situation): Wait | undefined {
  if (update.stop.kind !== 'imageNotReady') return undefined;
  const { missing, failed, ready, wanted } = update.stop.prefetch;
  const nodes = missing.length + ready.length;
  const detail = `new images are on ${ready.length} of ${nodes} nodes, and are needed on ${wanted}`;
  const failures = failed.length === 0 ? '' : `; they could not be pulled on ${failed.slice(0, 3).join(', ')}`;
  const unblock = `${cloneSetWaits.ImageNotReady}; ${detail}${failures}`;
  const blockedBy = missing.map((node) => `node/${node}`);
  return waitFor('ImageNotReady', blockedBy, shortened(unblock, mostBytes));
}

function budgetRoundsToZero({ scene, scale, update }: Situation): Wait | undefined {
  const { limits, rollingUpdate } = scene;
  const value = rollingUpdate?.maxUnavailable ?? cloneSetDefault.maxUnavailable;
  const isStopped = update.stop.kind === 'budget' && update.numbers.updateMax <= 0;
  if (!(isStopped || scale.spared.length > 0) || !roundsToZero(value, limits.maxUnavailable)) return undefined;
  return wait('BudgetRoundsToZero', scale.spared, `maxUnavailable ${value} of ${limits.replicas} pods`);
}

function budgetSpent({ scene, scale, update }: Situation): Wait | undefined {
  if (update.stop.kind !== 'budget' && scale.spared.length === 0) return undefined;
  const spenders = scene.counted.filter(({ isAvailable, isSpecified }) => !isAvailable || isSpecified);
  return wait('BudgetSpent', spenders);
}

function scaleLimited({ scene, scale }: Situation): Wait | undefined {
  const { up, upLimit } = scale.numbers;
  if (up <= upLimit) return undefined;
  return wait(
    'ScaleLimited',
    scene.counted.filter(({ isAvailable }) => !isAvailable),
  );
}

/** CS-46. */
function podTerminating({ scale }: Situation): Wait | undefined {
  if (scale.awaited.length === 0) return undefined;
  return waitFor('PodTerminating', scale.awaited.map(podRef), cloneSetWaits.PodTerminating);
}

function noFreeInstanceIds({ scale }: Situation): Wait | undefined {
  return scale.withoutId > 0 ? wait('NoFreeInstanceIds') : undefined;
}

function notScheduled({ scene }: Situation): Wait | undefined {
  const pods = scene.counted.filter(({ pod }) => !pod.spec.nodeName);
  return pods.length > 0 ? wait('NotScheduled', pods) : undefined;
}

function notReady({ scene }: Situation): Wait | undefined {
  const pods = scene.counted.filter(({ isAvailable, availableAtMs }) => !isAvailable && availableAtMs === undefined);
  return pods.length > 0 ? wait('NotReady', pods) : undefined;
}

function minReadySeconds({ scene }: Situation): Wait | undefined {
  const pods = scene.counted.filter(({ availableAtMs }) => availableAtMs !== undefined);
  return pods.length > 0 ? wait('MinReadySeconds', pods) : undefined;
}

/** The wait for a reason, with its remedy and what else is known about it. */
function wait(reason: CloneSetWaitReason, pods: readonly FleetPod[] = [], detail?: string): Wait {
  const remedy = cloneSetWaits[reason];
  const unblock = detail ? `${remedy}; ${detail}` : remedy;
  return waitFor(reason, pods.map(podRef), shortened(unblock, mostBytes));
}

/** A wait travels through histories. */
const mostBytes = 900;
