/**
 * One look at a SidecarSet and what follows from it (SCS-132): its content is stored, what is surplus deleted, the status
 * written, pods that cannot be updated are marked, and pods are updated under the permit of its roll-out.
 *
 * A SidecarSet keeps no pods of its own: it changes those of others, and none is created, deleted or recreated for it.
 */
import { sameJson } from '../../api/base/json.ts';
import { ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { sidecarSetEvent } from '../../api/sidecar-set/texts.ts';
import { isNotUpdate, type SidecarSetStatus } from '../../api/sidecar-set/types.ts';
import { firstWait } from '../decision.ts';
import { batchOf } from '../fleet/batch.ts';
import { question, type RollOutWanted, type Standing } from '../fleet/permit.ts';
import type { Choice } from '../fleet/planner.ts';
import { asSeen } from '../fleet/pods.ts';
import { isOrdersAnnotationRead, keptOrders, toldOrders, withoutOrdersAnnotation } from '../fleet/roll-out-orders.ts';
import { dueByStarting } from '../starting.ts';
import { waitingSince } from '../waiting-since.ts';
import type { ClassifiedPod } from './classify.ts';
import type { SidecarSetInput, SidecarSetPlan, SidecarSetStep } from './input.ts';
import { isSwapping, namedPods } from './named-pods.ts';
import { planPrefetch } from './prefetch.ts';
import { isSkipped, isUpdating, progressOf, type SidecarSetScene, sidecarSetScene, updatedPods } from './scene.ts';
import { sidecarSetStatus } from './status.ts';
import { planSwaps } from './swaps.ts';
import { previousContent } from './undo.ts';
import { planUpdate } from './update.ts';
import { upgradableWrite } from './upgradable.ts';
import {
  containerConflict,
  isUpdateLeft,
  lacksPermit,
  noPermitInMs,
  type SidecarSetSituation,
  sidecarSetRules,
} from './waits.ts';

/** So many pods are marked as not upgradable in one pass; the next one follows at once. */
export const mostMarked = 256;

/** Decides what to do about a SidecarSet now. */
export function planSidecarSet(input: SidecarSetInput): SidecarSetPlan & { readonly situation?: SidecarSetSituation } {
  const scene = sidecarSetScene(input);
  const update = planUpdate(scene);
  const situation = { scene, update };
  if (input.owner.metadata.deletionTimestamp !== undefined) return { ...ended, rollOut: rollOutOf(situation) };
  const { revisions } = scene;
  const status = statusOf(situation);
  const report: readonly SidecarSetStep[] = sameJson(input.owner.status, status)
    ? []
    : [{ kind: 'writeStatus', status }];
  const due = [
    // Once it has been reported, there is nothing to look at any more.
    noPermitInMs(situation) ?? 0,
    ...dueByStarting(status.waitingFor, scene.pods).map((atMs) => atMs - input.nowMs),
  ].filter((inMs) => inMs > 0);
  const swaps = planSwaps(scene, update);
  const moved: readonly SidecarSetStep[] = isOrdersAnnotationRead(scene.owner)
    ? [{ kind: 'writeOwner', patch: withoutOrdersAnnotation }]
    : [];
  const upkeep = [
    ...revisions.register,
    ...revisions.forget,
    ...report,
    ...swaps.steps,
    ...notUpgradable(scene, status),
  ];
  return {
    upkeep: [...upkeep, ...planPrefetch(scene, update.demand, update.prefetch), ...moved],
    swaps,
    disruption: update.disruption,
    trials: update.trials,
    standing: standingOf(situation),
    ...namedPods(scene, update),
    ...(due.length > 0 && { againInMs: Math.min(...due) }),
    situation,
    rollOut: rollOutOf(situation),
    lacksPermit: lacksPermit(update),
  };
}

/** SCS-8: what is being deleted is left alone, and rolls nothing out any more. */
const ended = { upkeep: [], disruption: [], standing: { kind: 'withdrawn' } } as const;

/** What a roll-out that has no pods in flight is told when it asks which ones go next. */
export function chooseSidecarBatch(input: SidecarSetInput): Choice {
  const { situation, standing } = planSidecarSet({ ...input, permit: question });
  if (standing.kind === 'pods') return { kind: 'pods', batch: batchOf(standing.revision, standing.pods) };
  const wait = situation && isUpdateLeft(situation) ? firstWait(sidecarSetRules, situation) : undefined;
  return wait ? { kind: 'wait', wait } : { kind: 'done' };
}

/** What it waits for is not said of one that updates no running pods, as its status is not kept up (SCS-131a). */
function statusOf(situation: SidecarSetSituation): SidecarSetStatus {
  const { owner, input, revisions, now } = situation.scene;
  const facts = {
    pods: input.pods,
    latestRevision: revisions.latest,
    collisionCount: owner.status?.collisionCount ?? 0,
  };
  const counts = sidecarSetStatus(owner, facts);
  const wait = isNotUpdate(owner.spec.updateStrategy)
    ? undefined
    : (firstWait(sidecarSetRules, situation) ?? containerConflict(situation));
  const rollOut = ordersLeft(situation.scene);
  return {
    ...counts,
    ...(wait && { waitingFor: waitingSince(owner.status?.waitingFor, wait, now) }),
    ...(rollOut && { rollOut }),
  };
}

/** SCS-191, SCS-132 step 9: pods that cannot be updated are marked before any pod is updated, and counted in an Event. */
function notUpgradable(scene: SidecarSetScene, { updatedPods: updated, matchedPods }: SidecarSetStatus) {
  const { paused } = scene.owner.spec.updateStrategy ?? {};
  if (!isUpdating(scene) || paused || updated >= matchedPods) return [];
  const found = scene.pods.filter(({ place }) => place.kind === 'notUpgradable');
  const marks = found.flatMap(({ pod }): readonly SidecarSetStep[] => {
    const write = upgradableWrite(pod, scene.target.setName, false, scene.now);
    return write === undefined ? [] : [{ kind: 'writeCondition', pod: asSeen(pod), write }];
  });
  const event: readonly SidecarSetStep[] =
    found.length > 0 ? [{ kind: 'event', event: sidecarSetEvent.notUpgradable(found.length) }] : [];
  return [...marks.slice(0, mostMarked), ...event];
}

function ordersLeft(scene: SidecarSetScene): RollOutOrders | undefined {
  return keptOrders(scene.owner, { revision: scene.revisions.latest, isRolledOut: isRolledOut(scene) });
}

function isRolledOut({ isUndo, pods }: SidecarSetScene): boolean {
  return !isUndo && pods.every(({ place }) => place.kind === 'updated');
}

/** How the permit of the pass stands. */
function standingOf(situation: SidecarSetSituation): Standing {
  const { scene, update } = situation;
  if (scene.input.permit === undefined) return { kind: 'working' };
  const updated = updatedPods(scene);
  const done = { kind: 'allDone', summary: progressOf(scene) } as const;
  if (!isUpdating(scene)) return done;
  const [next, ...others] = update.candidates;
  if (next) {
    const more = update.stop === 'batchFull';
    return { kind: 'pods', revision: scene.target.revision, pods: [next, ...others], more };
  }
  // What has failed and is tried again is no work that anybody can wait for.
  if (update.disruption.length > 0 && scene.input.failures === undefined) return { kind: 'working' };
  // Pods that are not ready for other reasons are not waited for: their update is through.
  const isDone = (found: ClassifiedPod) => isSkipped(found, scene) || (found.isConsistent && !isSwapping(found, scene));
  if (!isUpdateLeft(situation) && updated.every(isDone)) return done;
  if (scene.orders?.aborted) return { kind: 'aborted', summary: progressOf(scene) };
  const wait = firstWait(sidecarSetRules, situation);
  return wait ? { kind: 'waiting', wait } : { kind: 'working' };
}

function rollOutOf(situation: SidecarSetSituation): RollOutWanted {
  const { scene } = situation;
  const { owner, revisions, pods } = scene;
  const orders = toldOrders(scene.input.held?.orders ?? ordersOf(owner), scene.isUndoLost);
  return {
    facts: {
      generation: owner.metadata.generation ?? 0,
      revision: revisions.latest,
      replicas: pods.length,
      ...previousContent(scene),
      ...(orders && { orders }),
    },
    isWanted: isUpdating(scene) && !scene.orders?.aborted && isUpdateLeft(situation),
    isRolledOut: isRolledOut(scene),
  };
}
