/**
 * One look at a CloneSet and what follows from it (CS-11): revisions, number of pods, what has begun, what may begin.
 *
 * Upkeep is done in any case. Disruption is planned under a permit only, and not while pods are still being created or
 * deleted: then the numbers are about to change. A pod is written at most once in a pass, so that every decision about it
 * is made on what is there.
 */

import { timestamp } from '../../../api/base/time.ts';
import type { CloneSet, CloneSetStatus } from '../../../api/cloneset/types.ts';
import { isControlledBy } from '../../../api/core/refs.ts';
import { ordersAnnotation, ordersOf } from '../../../api/fleet/roll-out-orders.ts';
import { firstWait } from '../decision.ts';
import type { FleetPlan, Standing } from '../fleet/permit.ts';
import { prunedOrders } from '../fleet/roll-out-orders.ts';
import type { Intention } from '../fleet/steps.ts';
import { waitingSince } from '../waiting-since.ts';
import { asSeen, countedPods, type FleetPod } from './fleet.ts';
import type { CloneSetWorld } from './input.ts';
import { asGoing, owedClaims, unusedClaims } from './pods.ts';
import { planPreDownload } from './pre-download.ts';
import { planRefresh } from './refresh.ts';
import { chooseRevisions, forgottenRevisions } from './revisions.ts';
import { isUpdateLeft } from './roll-out.ts';
import { planScale, prunedPodsToDelete, releases } from './scale.ts';
import { isAtGoal, progressOf, type Scene, sceneOf } from './scene.ts';
import { cloneSetStatus, isNews, progressDeadlineMs } from './status.ts';
import { planUpdate, retryInMs } from './update.ts';
import { cannotRecord, cloneSetRules, describeCause, noPermitInMs, type Situation } from './waits.ts';

/** Creations next to each other in the upkeep may go side by side. */
export interface CloneSetPlan extends FleetPlan<Intention> {
  /** To be written before anything else; absent when the stored one says the same. */
  readonly status?: CloneSetStatus;
  /** How it was come by, for those who explain it; absent when there was nothing to decide. */
  readonly situation?: Situation;
}

/** What all decisions of a pass share; undefined while there is nothing to decide on. */
export function sceneIn(world: CloneSetWorld): Scene | undefined {
  const looked = countedPods(world);
  const found = chooseRevisions(world);
  return looked && found.kind === 'found' ? sceneOf(world, looked.counted, found) : undefined;
}

/** Decides what to do about a CloneSet now. */
export function planCloneSet(seen: CloneSetWorld): CloneSetPlan {
  const { set } = seen;
  const controlled = seen.claims.filter((claim) => isControlledBy(set, claim));
  const owed = owedClaims(seen, controlled);
  const world = { ...seen, claims: controlled.map((claim) => (owed.includes(claim) ? asGoing(claim, seen) : claim)) };
  const looked = countedPods(world);
  if (looked === undefined) return { upkeep: [], disruption: [], standing: { kind: 'working' } }; // CS-15

  const found = chooseRevisions(world);
  if (found.kind === 'create') {
    const upkeep: readonly Intention[] = [{ kind: 'createRevision', revision: found.revision }];
    const status = unrecordedStatus(world);
    return isGoing(set) ? ended : { ...status, upkeep, disruption: [], standing: { kind: 'working' } };
  }

  const { counted, strays } = looked;
  const scene = sceneOf(world, counted, found);
  const situation = decide(scene);
  const status = cloneSetStatus(scene, newsOf(situation));
  const report = isNews(set, status) ? { status } : {};
  if (isGoing(set)) return { ...report, ...ended, situation };

  const { scale, refresh, update } = situation;
  // CS-11: while pods come and go, nothing new is disturbed; unless none has come, and none may ever come (CS-31).
  const isScaling = scale.steps.length > 0 && !world.failures?.nothingCreated;
  const starts = isScaling ? { upkeep: [], disruption: [] } : update;
  const podSteps = [...scale.steps, ...refresh.steps, ...starts.upkeep];
  return {
    ...report,
    upkeep: [
      ...found.steps,
      ...releases(set, strays),
      ...owed.map((claim) => ({ kind: 'deleteClaim', claim: asSeen(claim), ofDeletedPod: true }) as const),
      ...unusedClaims(world, counted),
      ...podSteps,
      ...scale.events,
      ...pruned(situation),
      ...forgottenRevisions(scene, found, counted),
      ...planPreDownload(scene, update.numbers),
    ],
    disruption: starts.disruption,
    standing: standingOf(situation, podSteps.length + starts.disruption.length > 0),
    ...againIn(situation, status),
    situation,
  };
}

/** All that can be said of a set before its template is recorded: why that fails. */
function unrecordedStatus(world: CloneSetWorld): Pick<CloneSetPlan, 'status'> {
  const { set, nowMs } = world;
  const wait = cannotRecord(world);
  if (wait === undefined) return {};
  const waitingFor = waitingSince(set.status?.waitingFor, wait, timestamp(nowMs));
  const status = { ...(set.status ?? noPodsYet), waitingFor };
  return isNews(set, status) ? { status } : {};
}

const noPodsYet = {
  replicas: 0,
  readyReplicas: 0,
  availableReplicas: 0,
  updatedReplicas: 0,
  updatedReadyReplicas: 0,
} as const;

/** CS-12: what is being deleted is left to the garbage collector, and rolls nothing out any more. */
const ended: CloneSetPlan = { upkeep: [], disruption: [], standing: { kind: 'superseded' } };

function decide(scene: Scene): Situation {
  const scale = planScale(scene);
  const refresh = planRefresh(scene, podsIn(scale.steps));
  const update = planUpdate(scene, podsIn([...scale.steps, ...refresh.steps]));
  return { scene, scale, refresh, update };
}

function podsIn(steps: readonly Intention[]): ReadonlySet<string> {
  return new Set(
    steps.flatMap((step) => {
      switch (step.kind) {
        case 'deletePod':
        case 'writePod':
        case 'updatePod':
        case 'recreatePod':
          return [step.pod.name];
        default:
          return [];
      }
    }),
  );
}

function isGoing({ metadata }: CloneSet): boolean {
  return metadata.deletionTimestamp !== undefined;
}

function pruned(situation: Situation): readonly Intention[] {
  const { scene } = situation;
  const named = prunedPodsToDelete(scene);
  const revision = scene.revisions.update.metadata.name;
  const isRolledOut = isSettled(situation) && !scene.isUndo && scene.counted.every((pod) => isAtGoal(scene, pod));
  const orders = prunedOrders(ordersOf(scene.set), { revision, isRolledOut });
  if (!named && !orders) return [];
  const patch = { ...named, ...(orders && { metadata: { annotations: ordersAnnotation(orders.orders) } }) };
  return [{ kind: 'writeOwner', patch }];
}

function newsOf(situation: Situation) {
  const { world } = situation.scene;
  const scaleFailure = world.failures?.scale;
  const updateFailure = world.failures?.update ?? failureIn(situation);
  const wait = firstWait(cloneSetRules, situation);
  return {
    ...(scaleFailure !== undefined && { scaleFailure }),
    ...(updateFailure !== undefined && { updateFailure }),
    ...(wait && { wait }),
  };
}

/** IPU-8, IPU-28: what cannot be done, without anybody having tried. */
function failureIn({ refresh, update }: Situation): string | undefined {
  const [broken] = refresh.broken;
  if (broken) return broken.message;
  if (update.stop.kind !== 'impossible') return undefined;
  const { pod, because } = update.stop;
  return `find Pod ${pod.name} update strategy is InPlaceOnly but can not update in-place: ${describeCause(because)}`;
}

function standingOf(situation: Situation, isActing: boolean): Standing {
  const { scene, update } = situation;
  const { world, permit, counted, limits } = scene;
  if (world.permit === undefined) return { kind: 'working' };
  if (permit === undefined || scene.isOnDelete) return { kind: 'superseded' };

  const isGood = ({ name, isAvailable }: FleetPod) => isAvailable || permit.skip.includes(name);
  const arrived = counted.filter((pod) => isAtGoal(scene, pod));
  const good = arrived.filter(isGood).length;
  const verdict = { summary: progressOf(scene), arrived: arrived.length };
  const milestone = permit.milestone ?? permit.batch;
  const isPast = update.numbers.updateNum > 0 && milestone < limits.replicas - limits.partition && good >= milestone;
  // Told even while the next pods are begun, which goes on and on.
  if (isPast && permit.milestone !== undefined) return { kind: 'batchDone', ...verdict };
  // What has failed and is tried again is no work that anybody can wait for.
  if (isActing && world.failures === undefined) return { kind: 'working' };

  const isDone = isSettled(situation) && !isUpdateLeft(situation) && good === arrived.length;
  if (isDone) return { kind: 'allDone', ...verdict };
  if (isPast) return { kind: 'batchDone', ...verdict };
  const wait = firstWait(cloneSetRules, situation);
  return wait ? { kind: 'waiting', wait } : { kind: 'working' };
}

/** Whether there are as many pods as there should be. */
function isSettled({ scene, scale }: Situation): boolean {
  return scene.counted.length === scene.limits.replicas && scale.numbers.up + scale.numbers.down === 0;
}

function againIn(situation: Situation, status: CloneSetStatus): { readonly againInMs?: number } {
  const { scene, scale, refresh, update } = situation;
  const { counted, world, set } = scene;
  const deadlineMs = progressDeadlineMs(set, status);
  const due = [
    ...counted.map(({ availableAtMs }) => availableAtMs),
    ...scale.awaited.map(({ untilMs }) => untilMs),
    // CS-90: a second later, since it has to be over
    deadlineMs === undefined ? undefined : deadlineMs + 1000,
  ].flatMap((atMs) => (atMs === undefined ? [] : [atMs - world.nowMs]));
  const noPermitMs = noPermitInMs(situation);
  const waits = [
    ...due,
    refresh.againInMs,
    retryInMs(update.stop),
    // once it has been told, there is nothing to look at any more
    noPermitMs !== undefined && noPermitMs > 0 ? noPermitMs : undefined,
  ].filter((ms) => ms !== undefined);
  return waits.length === 0 ? {} : { againInMs: Math.max(Math.min(...waits), 0) };
}
