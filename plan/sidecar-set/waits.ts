/** What the roll-out of a SidecarSet can wait for, in the order in which it is reported. */
import type { EngineReason } from '../../api/engine/engine-trouble.ts';
import type { Order } from '../../api/fleet/roll-out-orders.ts';
import { type SidecarSetWaitReason, sidecarSetWaits } from '../../api/sidecar-set/texts.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { type Rule, type Wait, waitFor } from '../decision.ts';
import { imageNotReadyWait } from '../fleet/prefetch.ts';
import { refusalOf, refusedFor } from '../fleet/refused-updates.ts';
import { failureText, noPermitAfterMs, notKept, notWritten } from '../fleet/waits.ts';
import { joinedDetails, troubleIn } from '../pod-trouble.ts';
import { nothingYet, startingLast } from '../starting.ts';
import { mostWaitBytes, shortened } from '../text-size.ts';
import type { ClassifiedPod } from './classify.ts';
import type { SidecarSetFailures } from './input.ts';
import { doingOf, isSwapping } from './named-pods.ts';
import { namesInPod } from './pods.ts';
import { isSkipped, nameOf, podRef, progressOf, type SidecarSetScene, updatedPods } from './scene.ts';
import type { UpdatePlan } from './update.ts';

/** A pass after its decisions. */
export interface SidecarSetSituation {
  readonly scene: SidecarSetScene;
  readonly update: UpdatePlan;
}

/** In order of precedence: what only a person can end comes before what ends by itself. */
export const sidecarSetRules: readonly Rule<SidecarSetSituation>[] = [
  paused,
  aborted,
  pausedByOperator,
  engineSilent,
  engineNoWorkers,
  engineNoFleetWorker,
  engineStuck,
  cannotUpdate,
  imageNotReady,
  noPermit,
  budgetRoundsToZero,
  budgetSpent,
  cannotChange,
  sidecarsSwapping,
  updateInProgress,
  notConsistent,
  skipped,
  undone,
  partitionReached,
];

/** Every reason that holds now, in the order of the rules. */
export function allWaits(situation: SidecarSetSituation): readonly Wait[] {
  return sidecarSetRules.flatMap((rule) => rule(situation) ?? []);
}

/** Whether pods are to be updated, besides those that an operator leaves out. */
export function isUpdateLeft({ update }: Pick<SidecarSetSituation, 'update'>): boolean {
  return update.demand.line.length + update.inProgress.length > 0;
}

function paused({ update }: SidecarSetSituation): Wait | undefined {
  return update.stop === 'pausedBySpec' ? wait('Paused') : undefined;
}

function aborted({ scene, update }: SidecarSetSituation): Wait | undefined {
  const order = scene.orders?.aborted;
  return order && isUpdateLeft({ update }) ? wait('Aborted', [], orderedBy(order, scene)) : undefined;
}

/** The roll-out may have received the command before this watcher has. */
function pausedByOperator({ scene, update }: SidecarSetSituation): Wait | undefined {
  const { paused: order, undo } = scene.orders ?? {};
  const isLeft = isUpdateLeft({ update });
  if (order && isLeft) return wait('PausedByOperator', [], orderedBy(order, scene));
  if (undo && scene.isUndoLost && isLeft) {
    return wait('PausedByOperator', [], `${notKept(undo)}; ${orderedBy(undo, scene)}`);
  }
  return undefined;
}

function engineSilent(situation: SidecarSetSituation): Wait | undefined {
  return engineTrouble(situation, 'EngineSilent');
}

function engineNoWorkers(situation: SidecarSetSituation): Wait | undefined {
  return engineTrouble(situation, 'EngineNoWorkers');
}

function engineNoFleetWorker(situation: SidecarSetSituation): Wait | undefined {
  return engineTrouble(situation, 'EngineNoFleetWorker');
}

function engineStuck(situation: SidecarSetSituation): Wait | undefined {
  return engineTrouble(situation, 'EngineStuck');
}

/** Of a roll-out that is to continue. */
function engineTrouble({ scene, update }: SidecarSetSituation, reason: EngineReason): Wait | undefined {
  const { engine } = scene.input;
  if (!isUpdateLeft({ update }) || engine?.reason !== reason || scene.input.permit?.isAsked) return undefined;
  return waitFor(reason, engine.blockedBy, engine.unblock ?? sidecarSetWaits[reason]);
}

function cannotUpdate(situation: SidecarSetSituation): Wait | undefined {
  const { scene } = situation;
  const { failures } = scene.input;
  const failing = scene.pods.filter(
    ({ pod, place }) => place.kind === 'waiting' && failures?.pods.has(pod.metadata.uid),
  );
  if (failures && failing.length > 0) return wait('CannotUpdate', failing, textOf(failures));
  return isOnlyRefused(situation) ? refusedWait(situation) : undefined;
}

/** Of the pods that were refused, or that may not go before others were. */
function refusedWait({ scene, update }: SidecarSetSituation): Wait | undefined {
  const known = refusedFor(scene.input.refused, scene.target.revision);
  const impossible = new Set(update.impossible.map(({ pod }) => pod));
  const pods = update.refused.filter(({ pod }) => !impossible.has(pod));
  const told = pods.flatMap((found) => refusalOf(known, found)?.error ?? []);
  const error = told[0] ?? known?.error;
  if (known === undefined || pods.length === 0 || error === undefined) return undefined;
  return wait('CannotUpdate', pods, textOf({ ...error, retriedWithinMs: known.retriedWithinMs }));
}

/** Whether nothing else is waited for than pods that the API server does not let be updated. */
function isOnlyRefused({ scene, update }: SidecarSetSituation): boolean {
  const { stop, coming, candidates, inProgress } = update;
  if (stop !== 'refused' || coming.size + candidates.length + inProgress.length > 0) return false;
  return updatedPods(scene).every((found) => isSkipped(found, scene) || doingOf(found, scene) === undefined);
}

function textOf({
  message,
  type,
  ...retried
}: Pick<SidecarSetFailures, 'message' | 'type' | 'retriedWithinMs'>): string {
  return failureText({ resource: sidecarSets }, message, type, retried);
}

function imageNotReady({ update }: SidecarSetSituation): Wait | undefined {
  if (update.stop !== 'imageNotReady' || update.prefetch === undefined) return undefined;
  return imageNotReadyWait(update.prefetch, sidecarSetWaits.ImageNotReady);
}

function budgetRoundsToZero({ update }: SidecarSetSituation): Wait | undefined {
  return update.stop === 'budget' && update.demand.budget.most === 0 ? wait('BudgetRoundsToZero') : undefined;
}

function budgetSpent({ update }: SidecarSetSituation): Wait | undefined {
  const { spentBy } = update.demand.budget;
  // Spent by the pods that are begun or chosen just now, which are about to be not ready.
  if (spentBy.length === 0 && update.coming.size + update.candidates.length > 0) return undefined;
  return update.stop === 'budget' ? waitForPods('BudgetSpent', spentBy) : undefined;
}

function cannotChange({ update }: SidecarSetSituation): Wait | undefined {
  const [first] = update.impossible;
  return first && wait('CannotChange', update.impossible, `${nameOf(first.pod)}: ${first.why}`);
}

/** The operation of each swap says what it waits for. One pod is swapped for one SidecarSet after the other. */
function sidecarsSwapping({ scene, update }: SidecarSetSituation): Wait | undefined {
  const begun = scene.input.permit
    ? updatedPods(scene).filter((found) => isSwapping(found, scene) && !isSkipped(found, scene))
    : [];
  const pods = [...update.swaps, ...begun];
  if (pods.length === 0) return undefined;
  const inFront = pods.flatMap(({ pod }) => {
    const set = scene.input.inFront?.get(pod.metadata.uid);
    return set === undefined ? [] : [`SidecarSet ${set} is swapped first in ${nameOf(pod)}`];
  });
  const turns = inFront.slice(0, mostInFront).join('; ');
  return waitForPods('SidecarsSwapping', pods, { detail: turns, containers: sidecarsOf(scene) });
}

/** Of so many pods it is said whose turn it is. */
const mostInFront = 3;

function updateInProgress({ scene, update }: SidecarSetSituation): Wait | undefined {
  if (update.inProgress.length === 0) return undefined;
  return waitForPods('UpdateInProgress', update.inProgress, { containers: sidecarsOf(scene) });
}

function noPermit(situation: SidecarSetSituation): Wait | undefined {
  const inMs = noPermitInMs(situation);
  const isLong = inMs === undefined ? situation.update.stop === 'noPermit' : inMs <= 0;
  return isLong ? wait('NoPermit') : undefined;
}

/** Whether pods may go that no permit names. */
export function lacksPermit({ stop, candidates }: Pick<UpdatePlan, 'stop' | 'candidates'>): boolean {
  return stop === 'noPermit' || candidates.length > 0;
}

/** When the wait for a permit is to be reported; undefined while nothing waits for one. */
export function noPermitInMs({ scene, update }: SidecarSetSituation): number | undefined {
  const { withoutPermitSinceMs, nowMs } = scene.input;
  if (!lacksPermit(update) || withoutPermitSinceMs === undefined) return undefined;
  return withoutPermitSinceMs + noPermitAfterMs - nowMs;
}

/** Of updated pods, as long as there is a roll-out. */
function notConsistent({ scene }: SidecarSetSituation): Wait | undefined {
  const pods = scene.input.permit
    ? updatedPods(scene).filter((found) => !found.isConsistent && !isSkipped(found, scene))
    : [];
  return pods.length > 0 ? waitForPods('NotConsistent', pods, { containers: sidecarsOf(scene) }) : undefined;
}

function skipped({ scene }: SidecarSetSituation): Wait | undefined {
  const pods = scene.pods.filter(({ pod, place }) => place.kind !== 'updated' && isSkipped({ pod }, scene));
  return pods.length > 0 ? wait('Skipped', pods) : undefined;
}

function undone({ scene, update }: SidecarSetSituation): Wait | undefined {
  const order = scene.orders?.undo;
  return order && scene.isUndo && update.stop === 'done' ? wait('Undone', [], orderedBy(order, scene)) : undefined;
}

function partitionReached({ update }: SidecarSetSituation): Wait | undefined {
  const { line, kept } = update.demand;
  return line.length === 0 && kept.length > 0 ? wait('PartitionReached', kept) : undefined;
}

/** No roll-out waits for this: it is reported where there is nothing else to report. */
export function containerConflict({ scene }: SidecarSetSituation): Wait | undefined {
  const { conflicts = [] } = scene.input;
  const others = conflicts.map((name) => `sidecarset/${name}`);
  return others.length > 0 ? waitFor('ContainerConflict', others, sidecarSetWaits.ContainerConflict) : undefined;
}

/** Who said so, and what had been changed. */
function orderedBy({ by, at }: Order, scene: SidecarSetScene): string {
  const who = by === '' ? 'an operator' : by;
  return `${progressOf(scene)}; ordered by ${who}${at === '' ? '' : ` at ${at}`}${notWritten(scene.input)}`;
}

function wait(reason: SidecarSetWaitReason, pods: readonly ClassifiedPod[] = [], detail?: string): Wait {
  const isForPods = waitsForPods.includes(reason);
  const areStarting = isForPods && pods.length > 0 && pods.every((pod) => pod.startingUntilMs !== undefined);
  const remedy = areStarting ? nothingYet : sidecarSetWaits[reason];
  const named = isForPods ? startingLast(pods) : pods;
  return waitFor(reason, named.map(podRef), shortened(detail ? `${remedy}; ${detail}` : remedy, mostWaitBytes));
}

/** Waits that end by themselves as a rule: a person acts where the pods take too long. */
const waitsForPods: readonly SidecarSetWaitReason[] = [
  'BudgetSpent',
  'SidecarsSwapping',
  'UpdateInProgress',
  'NotConsistent',
];

/** The same, with why the kubelet does not run the first of these pods of which it says that. `containers`: one of these. */
function waitForPods(
  reason: SidecarSetWaitReason,
  pods: readonly ClassifiedPod[],
  more: { readonly detail?: string; readonly containers?: readonly string[] } = {},
): Wait {
  const { detail, ...among } = more;
  const trouble = troubleIn(pods.map(({ pod }) => ({ name: nameOf(pod), pod, ...among })));
  return wait(reason, pods, joinedDetails(detail, trouble));
}

/** The containers of the SidecarSet in a pod. */
function sidecarsOf({ target }: Pick<SidecarSetScene, 'target'>): readonly string[] {
  return (target.content.containers ?? []).flatMap(namesInPod);
}
