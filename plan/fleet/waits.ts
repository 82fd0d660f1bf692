/**
 * What any workload, or its roll-out, can wait for. Each rule is one reason; the status reports the first that holds,
 * `explain` all of them. A kind puts these rules and its own into their order: what only a person can end comes before what
 * ends by itself.
 */

import { objectOr } from '../../api/base/json.ts';
import type { FailureType } from '../../api/core/failure.ts';
import type { EngineReason } from '../../api/engine/engine-trouble.ts';
import { withGrant } from '../../api/engine/missing-right.ts';
import { type LifecycleHook, marksMissing, marksOn } from '../../api/fleet/lifecycle.ts';
import { isAtRevision, revisionMark } from '../../api/fleet/revision.ts';
import type { Order } from '../../api/fleet/roll-out-orders.ts';
import { unprovidedMounts } from '../../api/fleet/unprovided-mounts.ts';
import { type Rule, type Wait, waitFor } from '../decision.ts';
import { joinedDetails, troubleIn } from '../pod-trouble.ts';
import { nothingYet, startingLast } from '../starting.ts';
import { listed, mostWaitBytes, shortened } from '../text-size.ts';
import type { InPlaceWait, RecreateCause } from './in-place/update.ts';
import type { FleetFailures, FleetInput } from './input.ts';
import type { FleetSituation } from './kind.ts';
import { beforeDelete, beforeUpdate } from './lifecycle.ts';
import { type FleetPod, podRef } from './pods.ts';
import { imageNotReadyWait } from './prefetch.ts';
import { isGeneralFor, refusalOf, refusedFor } from './refused-updates.ts';
import {
  type FleetScene,
  type FleetWaitReason,
  isAtGoal,
  isInDoubt,
  nextRevision,
  progressOf,
  skippedPods,
  volumesOf,
} from './scene.ts';
import { isHeld } from './update.ts';

/** Every reason that holds now, in the order of the rules. */
export function allWaits<Situation>(rules: readonly Rule<Situation>[], situation: Situation): readonly Wait[] {
  return rules.flatMap((rule) => rule(situation) ?? []);
}

// Rules that every kind has next to each other. Between the groups a kind puts its own.

/** Somebody, or something that has to be there, has stopped it. */
export const stopped: readonly Rule<FleetSituation>[] = [
  paused,
  aborted,
  pausedByOperator,
  engineSilent,
  engineNoWorkers,
  engineNoFleetWorker,
  engineStuck,
  cannotCreate,
  cannotDelete,
  cannotUpdate,
];

/** A pod cannot continue, or is held. */
export const held: readonly Rule<FleetSituation>[] = [
  podUnreadable,
  inPlaceImpossible,
  refusedByBudget,
  hookBeforeDelete,
  hookBeforeUpdate,
  hookAfterUpdate,
  hookBeforeNormal,
];

/** An update in place has begun. */
export const changing: readonly Rule<FleetSituation>[] = [
  batchNotReady,
  engineNoDaemon,
  containersNotSwapped,
  draining,
  gracePeriod,
];

/** There is no room, or nothing more is to be done. */
export const last: readonly Rule<FleetSituation>[] = [
  imageNotReady,
  noPermit,
  budgetSpent,
  notReady,
  minReadySeconds,
  onDelete,
  skipped,
  undone,
  partitionReached,
];

// A person has decided so.

export function paused({ scene, update }: FleetSituation): Wait | undefined {
  return update.stop.kind === 'paused' && update.stop.by === 'spec' ? wait(scene, 'Paused') : undefined;
}

export function aborted({ scene, update }: FleetSituation): Wait | undefined {
  const order = scene.orders?.aborted;
  return order && update.demand.left !== 0 ? wait(scene, 'Aborted', [], orderedBy(order, scene)) : undefined;
}

export function pausedByOperator({ scene, update }: FleetSituation): Wait | undefined {
  const { paused: order, undo } = scene.orders ?? {};
  const isLeft = update.demand.left !== 0;
  if (order && isLeft) return wait(scene, 'PausedByOperator', [], orderedBy(order, scene));
  if (undo && scene.isUndoLost && isLeft) {
    return wait(scene, 'PausedByOperator', [], `${notKept(undo)}; ${orderedBy(undo, scene)}`);
  }
  return undefined;
}

export function undone({ scene, scale, update }: FleetSituation): Wait | undefined {
  const order = scene.orders?.undo;
  const isThrough = update.stop.kind === 'done' && scale.missing + scale.surplus === 0;
  return order && scene.isUndo && isThrough ? wait(scene, 'Undone', [], orderedBy(order, scene)) : undefined;
}

/** Pods would be updated to what the operator has taken back. */
export function notKept({ to }: { readonly to: string }): string {
  return `the update is undone, and revision ${to} is not kept any more, so no pod can go back to it`;
}

/** That an order holds in the memory of the watcher only, and why. */
export function notWritten({ held }: Pick<FleetInput<unknown>, 'held'>): string {
  return held?.because === undefined ? '' : `; it could not be written into the object yet: ${held.because}`;
}

/** Who said so, and what had been changed. */
function orderedBy({ by, at }: Order, scene: FleetScene): string {
  const who = by === '' ? 'an operator' : by;
  return `${progressOf(scene)}; ordered by ${who}${at === '' ? '' : ` at ${at}`}${notWritten(scene.input)}`;
}

export function onDelete({ scene, update }: FleetSituation): Wait | undefined {
  const old = scene.counted.filter((pod) => !isAtGoal(scene, pod));
  return update.stop.kind === 'onDelete' && old.length > 0 ? wait(scene, 'OnDelete', old) : undefined;
}

export function partitionReached({ scene, update }: FleetSituation): Wait | undefined {
  const { keeps, isLeftOut = () => false } = update.demand;
  const old = scene.counted.filter((pod) => !isAtGoal(scene, pod) && !isLeftOut(pod));
  const isReached = update.stop.kind === 'done' && keeps > 0 && old.length > 0;
  return isReached ? wait(scene, 'PartitionReached', old) : undefined;
}

export function skipped({ scene, update }: FleetSituation): Wait | undefined {
  const skip = skippedPods(scene);
  const left = scene.counted.filter((pod) => skip.has(pod.name) && !isAtGoal(scene, pod));
  return update.stop.kind === 'started' && left.length > 0 ? wait(scene, 'Skipped', left) : undefined;
}

// Something else is away, or refuses.

export function engineSilent(situation: FleetSituation): Wait | undefined {
  return engineTrouble(situation, 'EngineSilent');
}

export function engineNoWorkers(situation: FleetSituation): Wait | undefined {
  return engineTrouble(situation, 'EngineNoWorkers');
}

export function engineNoFleetWorker(situation: FleetSituation): Wait | undefined {
  return engineTrouble(situation, 'EngineNoFleetWorker');
}

export function engineStuck(situation: FleetSituation): Wait | undefined {
  return engineTrouble(situation, 'EngineStuck');
}

/** Of a roll-out that is to continue. */
function engineTrouble({ scene, update }: FleetSituation, reason: EngineReason): Wait | undefined {
  const { engine } = scene.input;
  const { permit } = scene.input;
  const isWanted = update.demand.left !== 0 && !scene.strategy.isOnDelete && !permit?.isAsked;
  if (!isWanted || engine?.reason !== reason) return undefined;
  return waitFor(reason, engine.blockedBy, engine.unblock ?? scene.texts[reason]);
}

export function noPermit(situation: FleetSituation): Wait | undefined {
  const { scene, update } = situation;
  const inMs = noPermitInMs(situation);
  const isLong = inMs === undefined ? update.stop.kind === 'noPermit' : inMs <= 0;
  return isLong ? wait(scene, 'NoPermit') : undefined;
}

/** When the wait for a permit is to be reported; undefined while nothing waits for one. */
export function noPermitInMs(situation: FleetSituation): number | undefined {
  const { scene } = situation;
  const { withoutPermitSinceMs, nowMs } = scene.input;
  if (!lacksPermit(situation) || withoutPermitSinceMs === undefined) return undefined;
  return withoutPermitSinceMs + noPermitAfterMs - nowMs;
}

/** Whether pods may go that no permit names. None may while pods are being created or deleted. */
export function lacksPermit({ scale, update }: Pick<FleetSituation, 'scale' | 'update'>): boolean {
  return update.stop.kind === 'noPermit' || (update.candidates.length > 0 && scale.steps.length === 0);
}

/** A roll-out gives its next permit within a fraction of a second; a watcher that takes over gets it within seconds. */
export const noPermitAfterMs = 5_000;

export function cannotCreate({ scene, scale }: FleetSituation): Wait | undefined {
  const { failures } = scene.input;
  if (failures?.scale === undefined || failedScaleStep(failures, scale) !== 'create') return undefined;
  const change = changeForMount(scene, scale);
  const refusal = failureText(scene, failures.scale, failures.scaleType, failures);
  return wait(scene, 'CannotCreate', [], change ? `${change}; ${refusal}` : refusal);
}

function failedScaleStep({ scaleStep }: FleetFailures, { missing }: FleetSituation['scale']): 'create' | 'delete' {
  return scaleStep ?? (missing > 0 ? 'create' : 'delete');
}

/** What has to change for pods that mount what nothing provides; undefined: there are none. */
function changeForMount(scene: FleetScene, { steps }: FleetSituation['scale']): string | undefined {
  for (const step of steps) {
    const [mount] = step.kind === 'createPod' ? unprovidedMounts(objectOr(step.pod.spec)) : [];
    if (step.kind !== 'createPod' || mount === undefined) continue;
    const label = objectOr(objectOr(step.pod.metadata).labels)[revisionMark.podRevision];
    const { target, other, isUndo } = scene;
    const isOther = !isAtRevision(String(label), target.metadata.name);
    const { name } = (isOther ? other : target).metadata;
    const otherwise = isOther
      ? `lower partition, so that new pods get revision ${target.metadata.name}`
      : isUndo
        ? 'resume the roll-out, which takes the undo back'
        : 'remove the mount from spec.template';
    return (
      `revision ${name} mounts "${mount.volume}" in container "${mount.container}", which nothing provides: ` +
      `add a template "${mount.volume}" to spec.volumeClaimTemplates, or ${otherwise}`
    );
  }
  return undefined;
}

/** Of a workload whose template is not recorded yet, for which nothing else can be decided. */
export function cannotRecord(
  { failures }: Pick<FleetInput<unknown>, 'failures'>,
  about: Pick<FleetScene, 'texts' | 'resource'>,
): Wait | undefined {
  if (failures?.revision === undefined) return undefined;
  const detail = failureText(about, failures.revision, failures.revisionType, failures);
  return wait(about, 'CannotCreate', [], `the ControllerRevision of the template: ${detail}`);
}

export function cannotDelete({ scene, scale }: FleetSituation): Wait | undefined {
  const { failures } = scene.input;
  if (failures?.scale === undefined || failedScaleStep(failures, scale) !== 'delete') return undefined;
  return wait(scene, 'CannotDelete', [], failureText(scene, failures.scale, failures.scaleType, failures));
}

export function cannotUpdate(situation: FleetSituation): Wait | undefined {
  const { scene } = situation;
  const { failures } = scene.input;
  if (failures?.update !== undefined) {
    return wait(scene, 'CannotUpdate', [], failureText(scene, failures.update, failures.updateType, failures));
  }
  const refusal = isOnlyRefused(situation) ? refusalIn(situation) : undefined;
  if (refusal === undefined) return undefined;
  const { message, type } = refusal;
  const text = failureText(scene, message, type, refusal);
  return wait(scene, 'CannotUpdate', situation.update.refused, text);
}

/** Whether nothing else is waited for than pods that the API server does not let be updated, and those behind them. */
function isOnlyRefused({ scene, refresh, update }: FleetSituation): boolean {
  const { refused, begun, candidates, stop, demand } = update;
  if (stop.kind !== 'writesRefused' || begun.length + candidates.length + refresh.underWay.length > 0) return false;
  const own = new Set(refused);
  const skip = skippedPods(scene);
  return scene.counted.every((pod) => {
    const isUnderWay = isHeld(pod) || (!pod.isAvailable && !demand.concerns(pod) && !skip.has(pod.name));
    return !isUnderWay || own.has(pod);
  });
}

/** What the API server has said of pods that it does not let be updated, of the first of them if it can. */
export function refusalIn({ scene, update }: Pick<FleetSituation, 'scene' | 'update'>) {
  const { input, counted } = scene;
  const { demand } = update;
  const known = refusedFor(input.refused, nextRevision(scene, demand).metadata.name);
  if (known === undefined || demand.left === 0) return undefined;
  const skip = skippedPods(scene);
  const left = counted.filter((pod) => demand.concerns(pod) && !skip.has(pod.name));
  const refused = left.find((pod) => refusalOf(known, pod)?.error);
  const error = refused
    ? refusalOf(known, refused)?.error
    : left.some((pod) => isGeneralFor(known, pod))
      ? known.error
      : undefined;
  return error && { ...error, retriedWithinMs: known.retriedWithinMs };
}

/** Why it failed, what has to be granted where that is it, and when it is tried again where that takes its time. */
export function failureText(
  { resource }: Pick<FleetScene, 'resource'>,
  message: string,
  type: FailureType | undefined,
  { retriedWithinMs = 0 }: NonNullable<FleetInput<unknown>['failures']>,
): string {
  const minutes = Math.ceil(retriedWithinMs / 60_000);
  const told = `${type === undefined ? '' : `${type}: `}${withGrant(shortened(message, longestMessageBytes))}`;
  return minutes <= 1
    ? told
    : `${told}; retried within ${minutes} minutes, and at once when the ${resource.kind} changes`;
}

/** Leaves room for what follows the message. */
const longestMessageBytes = 400;

export function refusedByBudget({ scene, update }: FleetSituation): Wait | undefined {
  if (update.stop.kind !== 'refused') return undefined;
  const { pod, by } = update.stop;
  return waitFor('RefusedByBudget', [by, podRef(pod)], scene.texts.RefusedByBudget);
}

// A pod cannot continue.

export function podUnreadable({ scene, refresh }: FleetSituation): Wait | undefined {
  const [first] = refresh.broken;
  if (first === undefined) return undefined;
  const pods = refresh.broken.map(({ pod }) => pod);
  return wait(scene, 'PodUnreadable', pods, first.message);
}

export function inPlaceImpossible({ scene, update }: FleetSituation): Wait | undefined {
  if (update.stop.kind !== 'impossible') return undefined;
  const { pod, because } = update.stop;
  return wait(scene, 'InPlaceImpossible', [pod], describeCause(because));
}

/** Why a pod cannot be updated in place, with the field if it is one: `spec.template.spec.hostNetwork needs a new pod`. */
export function describeCause({ path, reason }: RecreateCause): string {
  return path === '' ? recreateTexts[reason] : `${path} ${recreateTexts[reason]}`;
}

const recreateTexts = {
  PolicyRecreates: 'the update strategy recreates pods',
  NoReadinessGate: 'the pod has no readiness gate for updates in place',
  NoOldRevision: 'the revision of the pod is gone',
  UnreadableRevision: 'the revision of the pod cannot be read',
  FieldNeedsNewPod: 'needs a new pod',
  ResizeIsOff: 'changes in place only with feature gate InPlaceWorkloadVerticalScaling',
  QosClassChanges: 'changes the QoS class of the pod',
  ClaimTemplatesChanged: 'has changed, which needs a new pod by feature gate RecreatePodWhenChangeVCTInCloneSetGate',
} as const satisfies Record<RecreateCause['reason'], string>;

export function hookBeforeDelete({ scene }: FleetSituation): Wait | undefined {
  const { lifecycle } = scene.strategy;
  const held = scene.counted.filter(
    ({ pod, state }) => state === 'PreparingDelete' && beforeDelete(pod, lifecycle) === 'wait',
  );
  return hookWait(scene, 'HookBeforeDelete', held, marksOn, lifecycle?.preDelete);
}

export function hookBeforeUpdate({ scene }: FleetSituation): Wait | undefined {
  const { lifecycle } = scene.strategy;
  const held = scene.counted.filter(
    ({ pod, state }) => state === 'PreparingUpdate' && beforeUpdate(pod, lifecycle) === 'wait',
  );
  return hookWait(scene, 'HookBeforeUpdate', held, marksOn, lifecycle?.inPlaceUpdate);
}

export function hookAfterUpdate({ scene }: FleetSituation): Wait | undefined {
  return hookWaitIn(scene, 'Updated', 'HookAfterUpdate', scene.strategy.lifecycle?.inPlaceUpdate);
}

export function hookBeforeNormal({ scene }: FleetSituation): Wait | undefined {
  return hookWaitIn(scene, 'PreparingNormal', 'HookBeforeNormal', scene.strategy.lifecycle?.preNormal);
}

function hookWaitIn(
  scene: FleetScene,
  state: FleetPod['state'],
  reason: FleetWaitReason,
  hook: LifecycleHook | undefined,
): Wait | undefined {
  const held = scene.counted.filter((pod) => pod.state === state && marksMissing(hook, pod.pod).length > 0);
  return hookWait(scene, reason, held, marksMissing, hook);
}

function hookWait(
  scene: FleetScene,
  reason: FleetWaitReason,
  held: readonly FleetPod[],
  marks: typeof marksOn,
  hook: LifecycleHook | undefined,
): Wait | undefined {
  if (held.length === 0) return undefined;
  const names = new Set(held.flatMap(({ pod }) => marks(hook, pod)));
  return wait(scene, reason, held, [...names].join(', '));
}

// An update has begun and is not through.

export function batchNotReady(situation: FleetSituation): Wait | undefined {
  return underWay(situation, 'BatchNotReady', ['BatchNotReady']);
}

/** Of pods that need a report or a restart by the daemon of their node. */
export function engineNoDaemon({ scene, refresh }: FleetSituation): Wait | undefined {
  const troubles = refresh.underWay
    .filter(({ waitingFor: { reason } }) => reason === 'NotReported' || reason === 'EnvironmentNotRefreshed')
    .map(({ pod }) => scene.input.daemonTrouble?.(pod.pod))
    .filter((trouble) => trouble?.reason === 'EngineNoDaemon');
  const [first] = troubles;
  if (first === undefined) return undefined;
  const nodes = new Set(troubles.flatMap((trouble) => trouble?.blockedBy ?? []));
  return waitFor(first.reason, [...nodes], first.unblock ?? scene.texts[first.reason]);
}

export function containersNotSwapped(situation: FleetSituation): Wait | undefined {
  return underWay(situation, 'ContainersNotSwapped', [
    'ImageNotSwapped',
    'NotResized',
    'EnvironmentNotRefreshed',
    'NotReported',
    'NotObserved',
  ]);
}

export function draining(situation: FleetSituation): Wait | undefined {
  return underWay(situation, 'Draining', ['Draining']);
}

export function gracePeriod(situation: FleetSituation): Wait | undefined {
  return underWay(situation, 'GracePeriod', ['GracePeriod']);
}

function underWay(
  { scene, refresh }: FleetSituation,
  reason: FleetWaitReason,
  kinds: readonly InPlaceWait['reason'][],
): Wait | undefined {
  const found = refresh.underWay.filter(({ waitingFor }) => kinds.includes(waitingFor.reason));
  const [first] = found;
  if (first === undefined) return undefined;
  const lacks = underWayTexts[first.waitingFor.reason];
  const waited = found.map(({ pod, waitingFor }) => ({ ...pod, containers: waitingFor.containers }));
  const detail = lacks && `${lacks}: ${first.waitingFor.containers.join(', ')}`;
  return waitInUpdate(scene, reason, waited, detail);
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

export function imageNotReady({ scene, update }: FleetSituation): Wait | undefined {
  if (update.stop.kind !== 'imageNotReady') return undefined;
  return imageNotReadyWait(update.stop.prefetch, scene.texts.ImageNotReady);
}

export function budgetSpent({ scene, scale, update }: FleetSituation): Wait | undefined {
  if (update.stop.kind !== 'budget' && scale.spared.length === 0) return undefined;
  const isSpent = (pod: FleetPod) => pod.isSpecified || isInDoubt(scene, pod) || volumesOf(scene, pod).spendsBudget;
  const spenders = scene.counted.filter((pod) => !pod.isAvailable || isSpent(pod));
  // Spent by the pods that are begun or chosen just now, which are about to be unavailable.
  if (spenders.length === 0 && update.begun.length + update.candidates.length > 0) return undefined;
  return waitInUpdate(scene, 'BudgetSpent', spenders);
}

export function notScheduled({ scene }: FleetSituation): Wait | undefined {
  const pods = scene.counted.filter(({ pod }) => !pod.spec.nodeName);
  return pods.length > 0 ? waitInUpdate(scene, 'NotScheduled', pods) : undefined;
}

export function notReady({ scene }: FleetSituation): Wait | undefined {
  const pods = scene.counted.filter(({ isAvailable, availableAtMs }) => !isAvailable && availableAtMs === undefined);
  return pods.length > 0 ? waitInUpdate(scene, 'NotReady', pods) : undefined;
}

export function minReadySeconds({ scene }: FleetSituation): Wait | undefined {
  const pods = scene.counted.filter(({ availableAtMs }) => availableAtMs !== undefined);
  return pods.length > 0 ? waitInUpdate(scene, 'MinReadySeconds', pods) : undefined;
}

/** As `waitForPods`, with those that operators have skipped: that alone makes none available. */
function waitInUpdate(scene: FleetScene, reason: FleetWaitReason, pods: readonly WaitedPod[], detail?: string): Wait {
  const skip = skippedPods(scene);
  const names = pods.filter(({ name, isAvailable }) => skip.has(name) && !isAvailable).map(({ name }) => name);
  const skipped = names.length > 0 ? `skipped, still unavailable: ${listed(names, 200)}` : undefined;
  return waitForPods(scene, reason, pods, joinedDetails(detail, skipped));
}

/** `containers`: those that are waited for. Absent: all. */
type WaitedPod = FleetPod & { readonly containers?: readonly string[] };

/** The wait for a reason, with its remedy and what else is known about it. */
export function wait<Reason extends string>(
  { texts }: { readonly texts: Readonly<Record<Reason, string>> },
  reason: Reason,
  pods: readonly FleetPod[] = [],
  detail?: string,
): Wait {
  const isForPods = waitsForPods.includes(reason);
  const unavailable = isForPods ? pods.filter(({ isAvailable }) => !isAvailable) : [];
  const areStarting = unavailable.length > 0 && unavailable.every((pod) => pod.startingUntilMs !== undefined);
  const remedy = areStarting ? nothingYet : texts[reason];
  const unblock = detail ? `${remedy}; ${detail}` : remedy;
  const named = isForPods ? startingLast(pods) : pods;
  return waitFor(reason, named.map(podRef), shortened(unblock, mostWaitBytes));
}

/** Waits that end by themselves as a rule: a person acts where the pods take too long. */
const waitsForPods: readonly string[] = [
  ...['NotScheduled', 'NotReady', 'BudgetSpent', 'ScaleLimited', 'OrdinalNotAvailable'],
  ...['ContainersNotSwapped', 'BatchNotReady'],
];

/** The same for pods that are not available, with why the kubelet does not run the first of those of which it says that. */
export function waitForPods<Reason extends string>(
  about: { readonly texts: Readonly<Record<Reason, string>> },
  reason: Reason,
  pods: readonly WaitedPod[],
  detail?: string,
): Wait {
  return wait(about, reason, pods, joinedDetails(detail, troubleIn(pods)));
}
