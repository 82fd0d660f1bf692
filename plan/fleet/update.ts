/**
 * Which pods of a workload are brought to the wanted revision now, and how (CS-50…59, LC-20…30).
 *
 * The pods to be updated stand in a line, in the order that the kind gives. At a pod for which the budget has no room, the
 * walk along the line ends, or passes over it to pods that cost nothing. A start takes a permit; pods that are out of service
 * for their update, or were held for it and are free now, continue without one, also while the roll-out is held (P-7).
 */

import { sameJson } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { podMark } from '../../api/fleet/marks.ts';
import { type ControllerRevision, revisionOfPod } from '../../api/fleet/revision.ts';
import { mostInAnswer } from '../permits/in-flight.ts';
import type { ChosenPod } from './batch.ts';
import {
  batchesOf,
  budgetRetryMs,
  decideInPlace,
  type InPlaceDecision,
  type InPlaceStart,
  isOutForUpdate,
  isOutOfService,
  type PodWrite,
  type RecreateCause,
  startInPlace,
  wholeInPlace,
} from './in-place/update.ts';
import { beforeUpdate, changeWrites, enter, stateMetadata, stateWithoutUpdate } from './lifecycle.ts';
import { first, inOrder, type PodOrder } from './order.ts';
import type { Permit, Trials } from './permit.ts';
import { writes } from './pod-writes.ts';
import { asSeen, type FleetPod } from './pods.ts';
import { prefetchOf } from './pre-download.ts';
import type { Prefetch } from './prefetch.ts';
import { isUntried, type RefusedUpdates, refusalOf, refusedFor, trialsAmong } from './refused-updates.ts';
import { type FleetScene, isAtGoal, type UpdateDemand, volumesOf } from './scene.ts';
import type { Intention, UpdateTrial } from './steps.ts';

/** The pods that are to be updated, and how far the walk along them may go now. */
export interface UpdateLine {
  /** In their order; those that are held, or out of service, for their update come first (`underWayFirst`). */
  readonly pods: readonly FleetPod[];
  /** Asked about one after the other, once: whether the budget has room for this pod, besides those before it. */
  readonly admits: (pod: FleetPod) => boolean;
  /** Whether the pods behind one that the budget has no room for are asked about. False: the walk ends there. */
  readonly passesOver: boolean;
  /** Whether a pod that is recreated is deleted at once, rather than marked for it first. Absent: none is. */
  readonly deletes?: (pod: FleetPod) => boolean;
}

/** Why no further pod is updated now. */
export type UpdateStop =
  /** No pod is to be updated. */
  | { readonly kind: 'done' }
  | { readonly kind: 'onDelete' }
  | { readonly kind: 'paused'; readonly by: 'spec' | 'operator' }
  | { readonly kind: 'noPermit' }
  /** The pass, or the answer, is for no more pods than have been started, or chosen. */
  | { readonly kind: 'batchFull' }
  /** All that are left have been started, or are to be left out. */
  | { readonly kind: 'started' }
  /** The budget has no room for this pod. */
  | { readonly kind: 'budget'; readonly pod: FleetPod }
  /** Its images are not yet on as many nodes as the workload asks for. */
  | { readonly kind: 'imageNotReady'; readonly prefetch: Prefetch }
  /** All that are left have been refused by the API server, or stand behind such pods. */
  | { readonly kind: 'writesRefused' }
  /** Another object's budget has refused it. */
  | { readonly kind: 'refused'; readonly pod: FleetPod; readonly by: string }
  /** Its PVC differs from the template in what cannot be changed (AS-92). */
  | { readonly kind: 'claimDiffers'; readonly pod: FleetPod; readonly claim: string }
  /** It may not be recreated, and cannot be updated in place. */
  | { readonly kind: 'impossible'; readonly pod: FleetPod; readonly because: RecreateCause };

/** A pod that was taken out of service for its update. */
export interface DrainedPod {
  readonly before: Pod;
  /** As it is now. */
  readonly live: Pod;
  /** The name of the revision that it is to become. */
  readonly revision: string;
}

export interface UpdatePlan<Demand extends UpdateDemand = UpdateDemand> {
  /** Starts that were granted before, and pods that are not to be updated after all. */
  readonly upkeep: readonly Intention[];
  readonly disruption: readonly Intention[];
  /** The pods whose update `disruption` begins. */
  readonly begun: readonly FleetPod[];
  /** The pods that wait until a dry run of their update is accepted, as far as the walk came. */
  readonly refused: readonly FleetPod[];
  /** Which of these are tried now. */
  readonly trials: Trials<Intention>;
  /** Where it is asked: the pods that may go next, besides those that the permit names. */
  readonly candidates: readonly ChosenPod[];
  readonly demand: Demand;
  readonly stop: UpdateStop;
}

/**
 * What to start now. `busy` names pods that are written already in this pass. While the number of pods is not as wanted
 * (`isScaling`), it is not known yet how many are to be updated, so no pod is sent back from its hold.
 */
export function planUpdate<Demand extends UpdateDemand>(
  scene: FleetScene,
  demand: Demand,
  pass: { readonly line: () => UpdateLine; readonly busy: ReadonlySet<string>; readonly isScaling: boolean },
): UpdatePlan<Demand> {
  const idle = { upkeep: [], disruption: [], begun: [], candidates: [], refused: [], trials: noTrials, demand };
  const backFromHold = (line: readonly FleetPod[]) => (pass.isScaling ? [] : releasedFromHold(scene, line, pass.busy));
  if (scene.strategy.isOnDelete) return { ...idle, upkeep: backFromHold([]), stop: { kind: 'onDelete' } };
  if (demand.left === 0) return { ...idle, upkeep: backFromHold([]), stop: { kind: 'done' } };
  if (scene.strategy.isPaused) return { ...idle, stop: { kind: 'paused', by: 'spec' } };

  const line = pass.line();
  const walk = walkAlong(line, { scene, busy: pass.busy, isBack: demand.left < 0 });
  const refused = new Set(walk.refused);
  return { ...walk, upkeep: [...walk.upkeep, ...backFromHold(line.pods.filter((pod) => !refused.has(pod)))], demand };
}

/** Pods that are out of service for their update already are ahead, so that no other takes their place in the budget. */
export const underWayFirst: PodOrder = inOrder(first(isHeld), first(isDrained));

export function isHeld({ state }: FleetPod): boolean {
  return state === 'PreparingUpdate';
}

/** Whether the pod has been taken out of service for an update that nothing else shows yet. */
export function isDrained({ pod, state }: FleetPod): boolean {
  return state !== 'Updating' && isOutForUpdate(pod);
}

const noTrials = { steps: [], more: false } as const;

/** CS-55, CS-55b, CS-56. */
function walkAlong(
  line: UpdateLine,
  pass: { readonly scene: FleetScene; readonly busy: ReadonlySet<string>; readonly isBack: boolean },
): Omit<UpdatePlan, 'demand'> {
  const { scene, busy, isBack } = pass;
  const { input, isHeldByOperator } = scene;
  const { permit } = input;
  const upkeep: Intention[] = [];
  const disruption: Intention[] = [];
  const begun: FleetPod[] = [];
  const candidates: ChosenPod[] = [];
  const refused: FleetPod[] = [];
  const target = isBack ? scene.other : scene.target;
  const known = refusedFor(input.refused, target.metadata.name);
  const startsNone = whyNoneStarts(scene, isBack);
  const stopAt = (stop: UpdateStop) => {
    const free = refused.filter((pod) => !busy.has(pod.name) && !isHeld(pod));
    return { upkeep, disruption, begun, candidates, refused, trials: trialsOf(scene, line, free, target), stop };
  };
  let heldBack: FleetPod | undefined;
  let room = input.mostStarts ?? Number.POSITIVE_INFINITY;

  const isNamedBy = namedIn(permit, target);
  for (const pod of namedFirst(line.pods, permit, isNamedBy)) {
    // AS-94: nothing but its volumes is to be changed.
    const isForVolumes = scene.volumes !== undefined && isAtGoal(scene, pod);
    const isRefused = !isForVolumes && refusalOf(known, pod) !== undefined;
    const isWaiting = isHeld(pod) || isDrained(pod);
    const hasBegun = isBegun(scene, known, pod);
    const isNamed = isNamedBy(pod);
    // What the permit is not for takes no part of the budget, unless it is asked what may go next.
    if (!isWaiting && !isNamed && !permit?.chooses) continue;
    // What was refused takes no part of it either.
    const isOpen = hasBegun || isForVolumes || (permit !== undefined && isNamed);
    if (isRefused || (!isOpen && isUntried(known, pod))) {
      if (!isWaiting && startsNone) return stopAt(startsNone);
      const decision = refused.length === 0 ? decideUpdate(scene, pod, target) : undefined;
      if (decision?.kind === 'refused') return stopAt({ kind: 'impossible', pod, because: decision.because });
      refused.push(pod);
      // where order counts it keeps its turn, with its part of the budget
      if (line.passesOver || line.admits(pod)) continue;
      break;
    }
    if (!line.admits(pod)) {
      heldBack ??= pod;
      if (line.passesOver) continue;
      break;
    }
    if (busy.has(pod.name)) continue;

    if (!hasBegun) {
      if (startsNone) return stopAt(startsNone);
      if (permit === undefined) return stopAt({ kind: 'noPermit' });
      if (isNamed ? room <= 0 : candidates.length >= mostInAnswer) return stopAt({ kind: 'batchFull' });
    }
    const refusal = input.refusals?.find((refused) => refused.pod === pod.name);
    if (refusal) return stopAt({ kind: 'refused', pod, by: refusal.by });

    const decision = isForVolumes ? undefined : decideUpdate(scene, pod, target);
    if (decision?.kind === 'refused') return stopAt({ kind: 'impossible', pod, because: decision.because });
    const volumes = volumesOf(scene, pod);
    if (!hasBegun && volumes.differs) return stopAt({ kind: 'claimDiffers', pod, claim: volumes.differs });
    const goesOn = hasBegun && decision?.kind === 'inPlace';
    // P-1: a permit to update in place is none to recreate
    const isMore = decision?.kind === 'recreate' && permit?.inPlaceOnly?.has(pod.pod.metadata.uid) === true;
    if (!goesOn && (!isNamed || isMore)) {
      // One that was held for an update in place, and has to be recreated after all, is chosen again.
      if (permit?.chooses && !isHeldByOperator) candidates.push(chosen(pod, decision));
      continue;
    }
    // AS-93: its own update waits until they are expanded
    const isExpanding = !hasBegun && volumes.due.length + volumes.resizing.length > 0;
    const steps = isExpanding ? volumes.due : decision ? startOf(scene, pod, decision, target, line) : [];
    if (goesOn) upkeep.push(...steps);
    else if (permit !== undefined && !isHeldByOperator) {
      disruption.push(...steps);
      if (steps.length > 0) begun.push(pod);
    }
    if (!hasBegun) room--;
  }
  const areInTheWay = refused.length > 0 && (!line.passesOver || heldBack === undefined);
  if (areInTheWay) return stopAt({ kind: 'writesRefused' });
  return stopAt(heldBack ? { kind: 'budget', pod: heldBack } : { kind: 'started' });
}

/** P-7: from the first write on, unless it was refused: then its pod goes back, and has to be named again. */
function isBegun({ isUndoLost }: FleetScene, refused: RefusedUpdates | undefined, pod: FleetPod): boolean {
  if (isUndoLost) return false;
  if (isHeld(pod)) return refusalOf(refused, pod) === undefined;
  return isDrained(pod) && refused?.pods.has(pod.pod.metadata.uid) !== true;
}

/** Why no pod at all may begin now. */
function whyNoneStarts(scene: FleetScene, isBack: boolean): UpdateStop | undefined {
  if (scene.isHeldByOperator) return { kind: 'paused', by: 'operator' };
  const prefetch = isBack ? undefined : prefetchOf(scene);
  return prefetch && !prefetch.isReached ? { kind: 'imageNotReady', prefetch } : undefined;
}

/** The updates of which a dry run is to be made now. */
function trialsOf(
  scene: FleetScene,
  line: Deleting,
  pods: readonly FleetPod[],
  target: ControllerRevision,
): Trials<Intention> {
  const { refused } = scene.input;
  if (refused === undefined || pods.length === 0) return noTrials;
  return trialsAmong(refused, pods, (pod) => {
    const decision = decideUpdate(scene, pod, target);
    if (decision.kind === 'refused') return undefined;
    return { kind: 'tryUpdate', ...trialOf(scene, line, pod, decision, target) };
  });
}

type Deleting = Pick<UpdateLine, 'deletes'>;

function trialOf(
  scene: FleetScene,
  line: Deleting,
  fleetPod: FleetPod,
  decision: Exclude<InPlaceDecision, { kind: 'refused' }>,
  target: ControllerRevision,
): UpdateTrial {
  const { pod } = fleetPod;
  const { lifecycle } = scene.strategy;
  const of = { pod: asSeen(pod), revision: target.metadata.name };
  if (decision.kind === 'recreate' && line.deletes?.(fleetPod)) return { ...of, writes: [], deletes: true };
  // before a hook has let go, a policy may well refuse what follows
  if (decision.kind === 'recreate') {
    return { ...of, writes: [recreateMark], ...(!lifecycle?.preDelete && { deletes: true }) };
  }
  if (beforeUpdate(pod, lifecycle) !== 'start') return { ...of, writes: changeWrites(heldForUpdate(scene, pod)) };
  return { ...of, writes: wholeInPlace(inPlaceStart(scene, pod, decision, target)) };
}

function heldForUpdate({ strategy, now }: FleetScene, pod: Pod) {
  return enter('PreparingUpdate', pod, strategy.lifecycle, now);
}

function inPlaceStart(
  { input, scheme, strategy, now }: FleetScene,
  pod: Pod,
  { change }: Extract<InPlaceDecision, { kind: 'inPlace' }>,
  { metadata: { name: revision } }: ControllerRevision,
): InPlaceStart {
  const state = strategy.hasNoStates ? undefined : stateMetadata('Updating', now);
  return {
    ...{ pod, change, revision, gates: input.gates, nowMs: input.nowMs },
    labels: { ...scheme.podLabels(revision, input.gates), ...state?.labels },
    ...(state && { annotations: state.annotations }),
    graceSeconds: strategy.graceSeconds,
    canResize: input.hasResizeSubresource,
  };
}

type IsNamed = (pod: FleetPod) => boolean;

/** Whether the permit is for this pod, and for this revision. Without one it is not known yet, and asked further on. */
function namedIn(permit: Permit | undefined, { metadata }: ControllerRevision): IsNamed {
  return ({ pod }) => permit === undefined || permit.pods.get(pod.metadata.uid) === metadata.name;
}

/** Pods that a permit names have been promised their part of the budget before others are chosen. */
function namedFirst(pods: readonly FleetPod[], permit: Permit | undefined, isNamed: IsNamed): readonly FleetPod[] {
  if (!permit?.chooses || permit.pods.size === 0) return pods;
  return pods.toSorted(inOrder(first(isHeld), first(isDrained), first(isNamed)));
}

function chosen(
  { pod, name }: FleetPod,
  decision: Exclude<InPlaceDecision, { readonly kind: 'refused' }> | undefined,
): ChosenPod {
  const { namespace = '', uid } = pod.metadata;
  const containers = decision?.kind === 'inPlace' ? batchesOf(pod, decision.change) : [];
  const how = decision?.kind === 'recreate' ? { how: decision.kind } : ({ how: 'inPlace', containers } as const);
  return { namespace, name, uid, ...how };
}

/** Whether this pod can go to a revision in place, and by what change (IPU-1…13). */
export function decideUpdate(
  { revisions, strategy, scheme, input }: FleetScene,
  { pod, revision }: FleetPod,
  target: ControllerRevision,
): InPlaceDecision {
  return decideInPlace({
    policy: strategy.podUpdatePolicy,
    ...(strategy.needsGate && { needsGate: true }),
    oldRevision: revisionOfPod(revision, revisions.all),
    newRevision: target,
    gates: input.gates,
    recreatesForClaims: scheme.recreatesForClaims(input.gates),
    pod,
    history: revisions.all,
  });
}

/**
 * The writes of an update whose drain is over, for the pod as it is by then. Undefined when it is no longer the pod that
 * was drained for this: the next look decides again. `asMember` looks at a single pod.
 */
export function updateAfterDrain(
  scene: FleetScene,
  { before, live, revision }: DrainedPod,
  asMember: (pod: Pod) => FleetPod | undefined,
): readonly PodWrite[] | undefined {
  const [was, is] = [asMember(before), asMember(live)];
  const target = scene.revisions.all.find(({ metadata }) => metadata.name === revision);
  if (was === undefined || is === undefined || target === undefined) return undefined;
  const isSame =
    before.metadata.uid === live.metadata.uid &&
    was.revision === is.revision &&
    was.state === is.state &&
    was.isSpecified === is.isSpecified &&
    sameJson(before.spec, live.spec);
  if (!isSame) return undefined;
  const decision = decideUpdate(scene, is, target);
  if (decision.kind !== 'inPlace') return undefined;
  const [step] = startOf(scene, is, decision, target);
  return step?.kind === 'updatePod' && isOutOfService(is.pod) ? step.writes : undefined;
}

function startOf(
  scene: FleetScene,
  pod: FleetPod,
  decision: Exclude<InPlaceDecision, { kind: 'refused' }>,
  target: ControllerRevision,
  line: Deleting = {},
): readonly Intention[] {
  const revision = target.metadata.name;
  if (decision.kind === 'recreate') {
    const of = { kind: 'recreatePod', pod: asSeen(pod.pod), revision } as const;
    if (line.deletes?.(pod)) return [of];
    return [{ ...of, mark: { write: recreateMark, trial: trialOf(scene, line, pod, decision, target) } }];
  }
  switch (beforeUpdate(pod.pod, scene.strategy.lifecycle)) {
    case 'wait':
      return [];
    case 'prepare':
      return writes(pod, 'prepareUpdate', heldForUpdate(scene, pod.pod)).map((step) =>
        step.kind === 'writePod' ? { ...step, revision } : step,
      );
    case 'start': {
      const start = inPlaceStart(scene, pod.pod, decision, target);
      const { drain, writes: all } = startInPlace(start);
      const isMore = drain !== undefined || all.length > 1 || start.graceSeconds > 0;
      const trial = isMore && { trial: trialOf(scene, line, pod, decision, target) };
      return [{ kind: 'updatePod', pod: asSeen(pod.pod), revision, ...(drain && { drain }), writes: all, ...trial }];
    }
  }
}

const recreateMark: PodWrite = {
  kind: 'pod',
  patch: { metadata: { labels: { [podMark.specifiedDelete]: 'true' } } },
};

/**
 * Pods that were asked to prepare for an update which is no longer wanted, since the partition was raised or an operator
 * leaves them out, or which was refused: they go back to work, and do not wait for ever (LC-27, P-7).
 */
function releasedFromHold(
  { counted, strategy, now }: FleetScene,
  line: readonly FleetPod[],
  busy: ReadonlySet<string>,
): readonly Intention[] {
  const { lifecycle } = strategy;
  const held = counted.filter((pod) => isHeld(pod) && !pod.isSpecified && !busy.has(pod.name) && !line.includes(pod));
  return held.flatMap((pod) =>
    writes(pod, 'refresh', enter(stateWithoutUpdate(pod.pod, lifecycle), pod.pod, lifecycle, now)),
  );
}

/** When to ask again after a budget has refused a pod. */
export function retryInMs({ kind }: UpdateStop): number | undefined {
  return kind === 'refused' ? budgetRetryMs : undefined;
}
