/**
 * One look at a workload and what follows from it (CS-11): revisions, number of pods, what has begun, what may begin.
 *
 * Upkeep is done in any case. Disruption is planned under a permit only, and not while pods are still being created or
 * deleted: then the numbers are about to change. A pod is written at most once in a pass, so that every decision about it
 * is made on what is there.
 */
import { sameJson } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { firstWait } from '../decision.ts';
import { dueByStarting } from '../starting.ts';
import { waitingSince } from '../waiting-since.ts';
import { asGoing, owedClaims } from './claims.ts';
import type { FleetInput, WorkloadPlan } from './input.ts';
import type { FleetPlanner, PassNews, ScalePlan, Situation } from './kind.ts';
import { namedPods } from './named-pods.ts';
import { adoptions, releases } from './pod-writes.ts';
import { asSeen, membersOf } from './pods.ts';
import { planPreDownload } from './pre-download.ts';
import { planRefresh } from './refresh.ts';
import { chooseRevisions, forgottenRevisions } from './revisions.ts';
import { isUpdateLeft, rollOutFacts } from './roll-out-facts.ts';
import { isOrdersAnnotationRead, keptOrders, withoutOrdersAnnotation } from './roll-out-orders.ts';
import { type FleetScene, fleetScene, isUpToDate, type UpdateDemand } from './scene.ts';
import { againInMs, standingOf } from './standing.ts';
import type { Intention } from './steps.ts';
import { type DrainedPod, isDrained, planUpdate, updateAfterDrain } from './update.ts';
import { cannotRecord, describeCause, lacksPermit, refusalIn } from './waits.ts';
import { isGoing, type Workload } from './workload.ts';

/** A plan, and how it was come by; without a situation there was nothing to decide on. */
export type FleetDecision<Status, Of> = WorkloadPlan<Status> & { readonly situation?: Of };

/** Decides what to do about a workload now. */
export function planFleet<
  Owner extends Workload,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(
  planner: FleetPlanner<Owner, Input, Scene, Scale, Demand>,
  seen: Input,
): FleetDecision<Owner['status'] & object, Situation<Scene, Scale, Demand>> {
  const { owner } = seen;
  const own = seen.claims.filter((claim) => planner.ownsClaim?.(owner, claim) ?? isControlledBy(owner, claim));
  const owed = owedClaims(seen, own);
  const input = { ...seen, claims: own.map((claim) => (owed.includes(claim) ? asGoing(claim, seen) : claim)) };
  const members = membersOf(owner, planner.membership(input), input);
  if (members === undefined) return { upkeep: [], disruption: [], standing: { kind: 'working' } }; // CS-15

  const found = chooseRevisions(planner.revisions, input);
  if (found.kind === 'create') {
    const upkeep: readonly Intention[] = [...found.steps, { kind: 'createRevision', revision: found.revision }];
    const status = unrecordedStatus(planner, input);
    return isGoing(owner) ? ended : { ...status, upkeep, disruption: [], standing: { kind: 'working' } };
  }

  const { counted, strays, adoptable } = members;
  const scene = planner.scene({ ...baseScene(planner, input, counted, found), adoptable });
  const situation = decide(planner, scene);
  const rollOut = ordersLeft(situation);
  const status = { ...planner.status(scene, newsOf(planner, situation)), ...(rollOut && { rollOut }) };
  const report = sameJson(owner.status, status) ? {} : { status };
  if (isGoing(owner)) return { ...report, ...ended, situation, ...rollOutOf(situation) };

  const { scale, refresh, update } = situation;
  const isWaiting = isScaling(scene, scale);
  const starts = isWaiting ? { upkeep: [], disruption: [] } : update;
  const podSteps = [...scale.steps, ...refresh.steps, ...starts.upkeep];
  const isActing = podSteps.length + starts.disruption.length > 0;
  return {
    ...report,
    upkeep: [
      ...found.steps,
      ...releases(owner, strays),
      ...adoptions(planner.resource, owner, adoptable),
      ...owed.map((claim) => ({ kind: 'deleteClaim', claim: asSeen(claim), ofDeletedPod: true }) as const),
      ...(planner.upkeep?.(situation) ?? []),
      ...podSteps,
      ...scale.events,
      ...pruned(planner, situation),
      ...forgottenRevisions(found, {
        target: scene.target,
        counted,
        limit: owner.spec.revisionHistoryLimit ?? revisionHistoryLimit,
        forgetsCurrent: !planner.revisions.keepsCurrent,
      }),
      ...(planner.preDownload?.(scene, update.demand) ?? planPreDownload(scene, update.demand)),
    ],
    disruption: starts.disruption,
    ...(!isWaiting && { trials: update.trials }),
    standing: standingOf(planner.rules, situation, { isActing, isScaling: isWaiting }),
    ...namedPods(situation, isWaiting),
    ...againInMs(situation, [
      ...(planner.againAtMs?.(situation, status) ?? []),
      ...dueByStarting(status.waitingFor, counted),
      // nothing tells that a request will not be carried out any more
      ...(input.unanswered?.values() ?? []),
    ]),
    situation,
    ...rollOutOf(situation),
  };
}

/** How many unused revisions are kept where the workload does not say (Kubernetes' own default). */
const revisionHistoryLimit = 10;

/** What all decisions about a workload share; undefined while there is nothing to decide on. */
export function sceneIn<
  Owner extends Workload,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(planner: FleetPlanner<Owner, Input, Scene, Scale, Demand>, input: Input): Scene | undefined {
  const members = membersOf(input.owner, planner.membership(input), input);
  const found = chooseRevisions(planner.revisions, input);
  if (members === undefined || found.kind !== 'found') return undefined;
  return planner.scene(baseScene(planner, input, members.counted, found));
}

/** Gives the function that works out the writes of an update for a pod that is out of service by now. */
export function afterDrain<
  Owner extends Workload,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(planner: FleetPlanner<Owner, Input, Scene, Scale, Demand>, input: Input) {
  const scene = sceneIn(planner, input);
  if (scene === undefined) return undefined;
  const membership = planner.membership(input);
  const { owner, nowMs } = input;
  const asMember = (pod: Pod) => membersOf(owner, membership, { pods: [pod], nowMs })?.counted[0];
  return (drained: DrainedPod) => updateAfterDrain(scene, drained, asMember);
}

/** The scene as far as all kinds have it. */
export function baseScene<Owner extends Workload, Input extends FleetInput<Owner>>(
  planner: Pick<FleetPlanner<Owner, Input>, 'resource' | 'revisions' | 'texts' | 'strategy' | 'replicas'>,
  input: Input,
  counted: FleetScene['counted'],
  revisions: FleetScene['revisions'],
): FleetScene<Owner, Input> {
  const { resource, texts } = planner;
  const [strategy, replicas] = [planner.strategy(input), planner.replicas(input)];
  return fleetScene({ input, counted, revisions, resource, scheme: planner.revisions, texts, strategy, replicas });
}

function decide<
  Owner extends Workload,
  Input extends FleetInput<Owner>,
  Scene extends FleetScene<Owner, Input>,
  Scale extends ScalePlan,
  Demand extends UpdateDemand,
>(planner: FleetPlanner<Owner, Input, Scene, Scale, Demand>, scene: Scene): Situation<Scene, Scale, Demand> {
  const scale = planner.scale(scene);
  const demand = planner.demand(scene);
  const refresh = planRefresh(scene, { busy: podsIn(scale.steps), isTakenBack: demand.left < 0 });
  // P-7: the update of a pod that is out of service for it is finished, rather than that it is put back
  const drained = isScaling(scene, scale) ? [] : scene.counted.filter(isDrained);
  const update = planUpdate(scene, demand, {
    line: () => planner.line(scene, demand),
    busy: podsIn([...scale.steps, ...without(refresh.steps, new Set(drained.map(({ name }) => name)))]),
    isScaling: scale.missing + scale.surplus > 0,
  });
  const written = podsIn([...update.upkeep, ...update.disruption]);
  const steps = drained.length === 0 ? refresh.steps : without(refresh.steps, written);
  return { scene, scale, refresh: { ...refresh, steps }, update };
}

/** CS-11: while pods come and go, nothing new is disturbed; unless none has come, and none may ever come (CS-31). */
function isScaling({ input }: FleetScene, { steps }: ScalePlan): boolean {
  return steps.length > 0 && !input.failures?.nothingCreated;
}

/** The steps without those of these pods. */
function without(steps: readonly Intention[], pods: ReadonlySet<string>): readonly Intention[] {
  return steps.filter((step) => ![...podsIn([step])].some((name) => pods.has(name)));
}

/** All that can be said of a workload before its template is recorded: why that fails. */
function unrecordedStatus<Owner extends Workload, Input extends FleetInput<Owner>>(
  { texts, resource, emptyStatus }: Pick<FleetPlanner<Owner, Input>, 'texts' | 'resource' | 'emptyStatus'>,
  { owner, failures, nowMs }: Input,
): { readonly status?: Owner['status'] & object } {
  const wait = cannotRecord({ ...(failures && { failures }) }, { texts, resource });
  if (wait === undefined) return {};
  const waitingFor = waitingSince(owner.status?.waitingFor, wait, timestamp(nowMs));
  const status = { ...(owner.status ?? emptyStatus), waitingFor } as Owner['status'] & object;
  return sameJson(owner.status, status) ? {} : { status };
}

/** CS-12: what is being deleted is left to the garbage collector, and rolls nothing out any more. */
const ended = { upkeep: [], disruption: [], standing: { kind: 'withdrawn' } } as const;

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

function pruned<Scene extends FleetScene>(
  planner: { readonly prunedSpec?: (scene: Scene) => ReturnType<NonNullable<FleetPlanner<Workload>['prunedSpec']>> },
  { scene }: Pick<Situation<Scene>, 'scene'>,
): readonly Intention[] {
  const spec = planner.prunedSpec?.(scene);
  const isRead = isOrdersAnnotationRead(scene.owner);
  return spec || isRead ? [{ kind: 'writeOwner', patch: { ...spec, ...(isRead && withoutOrdersAnnotation) } }] : [];
}

function ordersLeft(situation: Pick<Situation, 'scene' | 'scale'>): RollOutOrders | undefined {
  const { owner, revisions } = situation.scene;
  return keptOrders(owner, { revision: revisions.update.metadata.name, isRolledOut: isRolledOut(situation) });
}

function isRolledOut({ scene, scale }: Pick<Situation, 'scene' | 'scale'>): boolean {
  return scale.isSettled && !scene.isUndo && scene.counted.every((pod) => isUpToDate(scene, pod));
}

function newsOf<Of extends Situation>(
  planner: { readonly rules: readonly ((situation: Of) => PassNews['wait'])[] },
  situation: Of,
): PassNews {
  const { failures } = situation.scene.input;
  const scaleFailure = failures?.scale;
  const updateFailure = failures?.update ?? failureIn(situation) ?? refusalIn(situation)?.message;
  const wait = firstWait(planner.rules, situation);
  return {
    ...(scaleFailure !== undefined && { scaleFailure }),
    ...(updateFailure !== undefined && { updateFailure }),
    ...(wait && { wait }),
  };
}

/** IPU-8, IPU-28, AS-92: what cannot be done, without an attempt. */
function failureIn({ refresh, update }: Situation): string | undefined {
  const [broken] = refresh.broken;
  if (broken) return broken.message;
  if (update.stop.kind === 'claimDiffers') {
    return `can not patch pvc ${update.stop.claim}: contains diff other than spec resource, wait pvc to be deleted`;
  }
  if (update.stop.kind !== 'impossible') return undefined;
  const { pod, because } = update.stop;
  return `find Pod ${pod.name} update strategy is InPlaceOnly but can not update in-place: ${describeCause(because)}`;
}

function rollOutOf(situation: Situation): Pick<WorkloadPlan<unknown>, 'rollOut' | 'lacksPermit'> {
  return {
    lacksPermit: lacksPermit(situation),
    rollOut: {
      facts: rollOutFacts(situation),
      isWanted: !isGoing(situation.scene.owner) && !situation.scene.orders?.aborted && isUpdateLeft(situation),
      isRolledOut: isRolledOut(situation),
    },
  };
}
