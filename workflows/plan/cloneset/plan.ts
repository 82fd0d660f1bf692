/**
 * One look at a CloneSet and what follows from it (CS-11): revisions, number of pods, what has begun, what may begin.
 *
 * Upkeep is done in any case. Disruption is planned under a permit only, and not while pods are still being created or
 * deleted: then the numbers are about to change. A pod is written at most once in a pass, so that every decision about it
 * is made on what is there.
 */
import type { CloneSet, CloneSetStatus } from '../../../api/cloneset.ts';
import { firstWait } from '../decision.ts';
import type { FleetPlan, Standing } from '../fleet-permit.ts';
import { countedPods, type FleetPod, isControlledBy } from './fleet.ts';
import { isAtGoal, replicasOf, type Scene, sceneOf } from './goal.ts';
import { unusedClaims } from './pods.ts';
import { planRefresh } from './refresh.ts';
import { chooseRevisions, forgottenRevisions } from './revisions.ts';
import { planScale, prunedPodsToDelete, releases } from './scale.ts';
import { cloneSetStatus, isNews, progressDeadlineMs } from './status.ts';
import { planUpdate, retryInMs } from './update.ts';
import { cloneSetRules, describeCause, type Situation } from './waits.ts';
import type { CloneSetWorld, Intention } from './world.ts';

/** Creations next to each other in the upkeep may go side by side. */
export interface CloneSetPlan extends FleetPlan<Intention> {
  /** To be written before anything else; absent when the stored one says the same. */
  readonly status?: CloneSetStatus;
  /** How it was come by, for those who explain it; absent when there was nothing to decide. */
  readonly situation?: Situation;
}

/** Decides what to do about a CloneSet now. */
export function planCloneSet(seen: CloneSetWorld): CloneSetPlan {
  const { set } = seen;
  const world = { ...seen, claims: seen.claims.filter((claim) => isControlledBy(set, claim)) };
  const looked = countedPods(world);
  if (looked === undefined) return { upkeep: [], disruption: [], standing: { kind: 'working' } }; // CS-15

  const found = chooseRevisions(world);
  if (found.kind === 'create') {
    const upkeep: readonly Intention[] = [{ kind: 'createRevision', revision: found.revision }];
    return isGoing(set) ? ended : { upkeep, disruption: [], standing: { kind: 'working' } };
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
      ...unusedClaims(world, counted),
      ...podSteps,
      ...scale.events,
      ...pruned(scene),
      ...forgottenRevisions(world, found, counted),
    ],
    disruption: starts.disruption,
    standing: standingOf(situation, podSteps.length + starts.disruption.length > 0),
    ...againIn(situation, status),
    situation,
  };
}

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

function pruned(scene: Scene): readonly Intention[] {
  const patch = prunedPodsToDelete(scene);
  return patch ? [{ kind: 'writeSet', patch }] : [];
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
  const { scene, update, scale } = situation;
  const { world, permit, counted, limits } = scene;
  if (world.permit === undefined) return { kind: 'working' };
  if (permit === undefined) return { kind: 'superseded' };
  // What has failed and is tried again is no work that anybody can wait for.
  if (isActing && world.failures === undefined) return { kind: 'working' };

  const isLeftOut = ({ name }: FleetPod) => permit.skip.includes(name);
  const isGood = (pod: FleetPod) => pod.isAvailable || isLeftOut(pod);
  const arrived = counted.filter((pod) => isAtGoal(scene, pod));
  const settled = counted.length === limits.replicas && scale.numbers.up + scale.numbers.down === 0;
  const isDone = settled && counted.every((pod) => isGood(pod) && (isAtGoal(scene, pod) || isLeftOut(pod)));
  const summary = summaryOf(scene, arrived.length);
  if (isDone) return { kind: 'allDone', summary };

  const wanted = limits.replicas - limits.partition;
  const good = arrived.filter(isGood).length;
  if (update.numbers.updateNum > 0 && permit.batch < wanted && good >= permit.batch) {
    return { kind: 'batchDone', summary };
  }
  const wait = firstWait(cloneSetRules, situation);
  return wait ? { kind: 'waiting', wait } : { kind: 'working' };
}

function summaryOf({ set, target }: Scene, arrived: number): string {
  return `${arrived} of ${replicasOf(set)} pods are of revision ${target.metadata.name}`;
}

function againIn({ scene, refresh, update }: Situation, status: CloneSetStatus): { readonly againInMs?: number } {
  const { counted, world, set } = scene;
  const deadlineMs = progressDeadlineMs(set, status);
  const due = [
    ...counted.map(({ availableAtMs }) => availableAtMs),
    // CS-90: a second later, since it has to be over
    deadlineMs === undefined ? undefined : deadlineMs + 1000,
  ].flatMap((atMs) => (atMs === undefined ? [] : [atMs - world.nowMs]));
  const waits = [...due, refresh.againInMs, retryInMs(update.stop)].filter((ms) => ms !== undefined);
  return waits.length === 0 ? {} : { againInMs: Math.max(Math.min(...waits), 0) };
}
