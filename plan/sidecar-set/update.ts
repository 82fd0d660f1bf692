/**
 * Which pods of a SidecarSet are updated now, and which may go next (SCS-157, SCS-132 step 9).
 *
 * The waiting pods stand in a line, as far as the partition lets them go. Pods that a permit names have been promised
 * their part of the budget, so they come first, also while their update gets no answer, as it may have been made. One that was
 * refused is passed over until a dry run of its update is accepted (P-7).
 * The walk along the line ends at the first pod for which the budget has no room. A pod with a sidecar that is swapped
 * under traffic takes its part of the budget, too; it is written when its operation has handed in the first step.
 */

import type { Pod } from '../../api/core/pod.ts';
import type { ChosenPod } from '../fleet/batch.ts';
import type { PodWrite } from '../fleet/in-place/update.ts';
import type { Trials } from '../fleet/permit.ts';
import { asSeen } from '../fleet/pods.ts';
import type { Prefetch } from '../fleet/prefetch.ts';
import { isUntried, refusalOf, refusedFor, trialsAmong } from '../fleet/refused-updates.ts';
import { mostInAnswer } from '../permits/in-flight.ts';
import { admission, type UpdateDemand, updateDemand } from './budget.ts';
import type { ClassifiedPod } from './classify.ts';
import type { SidecarSetInput, SidecarSetStep } from './input.ts';
import { prefetchOf } from './prefetch.ts';
import { classifiedPods, isInDoubt, isSkipped, isUpdating, type SidecarSetScene } from './scene.ts';
import { annotationProblem, notingRestarts } from './update-marks.ts';
import { type SidecarChange, type SidecarWrite, sidecarChange, sidecarWrite } from './write.ts';

/** The most pods that one pass updates, so that all else of the SidecarSet is looked at in between. */
export const mostInPass = 16;

/** While the updates of so many pods fail, no further pod of their namespace is chosen, or of any. */
export const mostFailing = 5;
export const mostFailingInAll = 25;

/** Why no further pod is updated now. */
export type UpdateStop =
  /** No pod is to be updated. */
  | 'done'
  | 'pausedBySpec'
  | 'pausedByOperator'
  | 'noPermit'
  /** The pass, or the batch, is full. */
  | 'batchFull'
  | 'budget'
  /** The new images are not yet on as many nodes as the SidecarSet asks for. */
  | 'imageNotReady'
  /** Too many updates get no answer. */
  | 'failing'
  /** All that are left have been refused by the API server. */
  | 'refused'
  /** All that are left are under way. */
  | 'started';

/** How a pod gets its content. */
export type PodDecision =
  | { readonly kind: 'update'; readonly containers: readonly string[] }
  /** It has a sidecar that is swapped under traffic. */
  | { readonly kind: 'swap'; readonly containers: readonly string[] }
  /** An earlier update has to finish first. */
  | { readonly kind: 'inProgress' }
  | { readonly kind: 'impossible'; readonly why: string };

export interface ImpossiblePod extends ClassifiedPod {
  readonly why: string;
}

export interface UpdatePlan {
  readonly demand: UpdateDemand;
  readonly disruption: readonly SidecarSetStep[];
  /** UIDs of the pods whose update begins in this pass, or in the next. */
  readonly coming: ReadonlySet<string>;
  /** Of a permit that chooses: the pods that may go next, besides those that it names. */
  readonly candidates: readonly ChosenPod[];
  /** Pods whose swap may begin. */
  readonly swaps: readonly ClassifiedPod[];
  /** Pods that cannot be written. */
  readonly impossible: readonly ImpossiblePod[];
  /** Pods that wait until a dry run of their update is accepted, as far as the walk came. */
  readonly refused: readonly ClassifiedPod[];
  /** The dry runs that are made now. */
  readonly trials: Trials<SidecarSetStep>;
  /** Pods of which an earlier update is not finished. */
  readonly inProgress: readonly ClassifiedPod[];
  readonly stop: UpdateStop;
  /** The images that the roll-out waits for. Absent: it waits for none. */
  readonly prefetch?: Prefetch;
}

export function planUpdate(scene: SidecarSetScene): UpdatePlan {
  const demand = updateDemand(
    scene.target,
    scene.pods,
    (found) => isSkipped(found, scene),
    (found) => isInDoubt(found, scene),
  );
  if (!isUpdating(scene)) return { ...nothing(demand), stop: 'done' };
  const inProgress = scene.pods.filter(({ place }) => place.kind === 'inProgress');
  const idle = { ...nothing(demand), inProgress };
  if (demand.line.length === 0) return { ...idle, stop: 'done' };
  if (scene.owner.spec.updateStrategy?.paused) return { ...idle, stop: 'pausedBySpec' };
  const prefetch = prefetchOf(scene, demand);
  const walk = walkAlong(scene, demand, prefetch);
  return { ...walk, ...(prefetch && { prefetch }), demand, inProgress: [...inProgress, ...walk.inProgress] };
}

function nothing(demand: UpdateDemand): Omit<UpdatePlan, 'stop'> {
  return {
    ...{ demand, disruption: [], coming: new Set(), candidates: [] },
    ...{ swaps: [], impossible: [], inProgress: [], refused: [], trials: noTrials },
  };
}

const noTrials = { steps: [], more: false } as const;

function walkAlong(
  scene: SidecarSetScene,
  demand: UpdateDemand,
  prefetch: Prefetch | undefined,
): Omit<UpdatePlan, 'demand' | 'prefetch'> {
  const { target, input } = scene;
  const { permit } = input;
  const isNamedBy = namedIn(scene);
  const turn = inTurn(scene, demand);
  const failing = failingIn(turn, input);
  let isHeldBack = false;
  const admits = admission(demand.budget);
  const disruption: SidecarSetStep[] = [];
  const coming = new Set<string>();
  const candidates: ChosenPod[] = [];
  const apart = { swaps: [] as ClassifiedPod[], impossible: [] as ImpossiblePod[], inProgress: [] as ClassifiedPod[] };
  const refused: ClassifiedPod[] = [];
  const known = refusedFor(input.refused, target.revision);
  const stopAt = (stop: UpdateStop) => {
    const trials = trialsOf(scene, refused);
    return { disruption, coming, candidates, ...apart, refused, trials, stop };
  };
  const startsNone = whyNoneStarts(scene, prefetch);

  for (const found of turn) {
    const { pod, isSidecarReady } = found;
    const isNamed = isNamedBy(pod);
    const isTriedAgain = isFailing(pod, input);
    if (!isNamed && !isTriedAgain && failing.areTooMany(pod)) {
      isHeldBack = true;
      continue;
    }
    const decision = decisionOf(sidecarChange(target, pod));
    if (decision.kind === 'inProgress') apart.inProgress.push(found);
    else if (decision.kind === 'impossible') apart.impossible.push({ ...found, why: decision.why });
    // What the permit is not for takes no part of the budget, unless it is asked what may go next.
    if (decision.kind === 'inProgress' || decision.kind === 'impossible') continue;
    if (permit && !isNamed && !permit.chooses) continue;
    const refusal = refusalOf(known, found);
    if (refusal || (isUntried(known, found) && !isNamed)) {
      if (startsNone) return stopAt(startsNone);
      if (refusal?.error?.isImpossible) apart.impossible.push({ ...found, why: refusal.error.message });
      refused.push(found);
      continue;
    }
    if (!admits(found)) return stopAt('budget');
    if (startsNone) return stopAt(startsNone);
    if (permit === undefined) return stopAt('noPermit');
    if (isNamed) {
      coming.add(pod.metadata.uid);
      if (decision.kind === 'swap') apart.swaps.push(found);
      // one that fails would begin with its first try again if it was not planned
      if (disruption.length >= mostInPass && !isTriedAgain) continue;
      if (decision.kind === 'swap') {
        const isHandedIn = input.swaps?.get(pod.metadata.uid) === 'begin';
        const { revision } = target;
        if (isHandedIn) disruption.push({ kind: 'swapSidecars', pod: asSeen(pod), step: 'begin', revision });
        continue;
      }
      const step = { pod: asSeen(pod), revision: target.revision, isFree: !isSidecarReady };
      disruption.push({ kind: 'updateSidecars', ...step });
      continue;
    }
    if (candidates.length >= mostInAnswer) return stopAt('batchFull');
    candidates.push(chosen(pod, decision.containers));
  }
  if (isHeldBack) return stopAt('failing');
  return stopAt(refused.length > 0 ? 'refused' : 'started');
}

/** Why no pod at all may begin now. */
function whyNoneStarts({ isHeldByOperator }: SidecarSetScene, prefetch: Prefetch | undefined): UpdateStop | undefined {
  if (isHeldByOperator) return 'pausedByOperator';
  return prefetch?.isReached === false ? 'imageNotReady' : undefined;
}

/** The updates of which a dry run is to be made now. */
function trialsOf({ input, target }: SidecarSetScene, pods: readonly ClassifiedPod[]): Trials<SidecarSetStep> {
  const { refused } = input;
  if (refused === undefined || pods.length === 0) return noTrials;
  return trialsAmong(refused, pods, ({ pod }) => {
    const isSwap = decisionOf(sidecarChange(target, pod)).kind === 'swap';
    return { kind: 'tryUpdate', pod: asSeen(pod), revision: target.revision, isSwap } as const;
  });
}

/** The pods of which the update gets no answer and is tried again. */
function failingIn(turn: readonly ClassifiedPod[], input: SidecarSetInput) {
  const of = new Map<string | undefined, number>();
  const failing = turn.filter(({ pod }) => isFailing(pod, input));
  for (const { pod } of failing) of.set(pod.metadata.namespace, (of.get(pod.metadata.namespace) ?? 0) + 1);
  const areTooMany = ({ metadata }: Pod) =>
    failing.length >= mostFailingInAll || (of.get(metadata.namespace) ?? 0) >= mostFailing;
  return { areTooMany };
}

function isFailing({ metadata }: Pod, { failures }: SidecarSetInput): boolean {
  return failures?.pods.has(metadata.uid) === true;
}

/** Whether the permit is for this pod, and for the revision that it is to get now. */
function namedIn({ input, target }: SidecarSetScene): (pod: Pod) => boolean {
  return ({ metadata }) => input.permit?.pods.get(metadata.uid) === target.revision;
}

/**
 * The line with those ahead of which an update may still be made, then the named ones; and of these, as of the others, those that
 * fail at the end.
 */
function inTurn(scene: SidecarSetScene, { line }: UpdateDemand): readonly ClassifiedPod[] {
  const { pods, input } = scene;
  const isNamedBy = namedIn(scene);
  const isNamed = ({ pod }: ClassifiedPod) => isNamedBy(pod);
  const inLine = new Set(line);
  // One that was promised its turn keeps it, though others have come ahead of it since.
  const promised = pods.filter((found) => isNamed(found) && !inLine.has(found) && found.place.kind === 'waiting');
  const mayGo = [...line.filter(isNamed), ...promised, ...line.filter((found) => !isNamed(found))].slice(
    0,
    line.length,
  );
  const placeOf = (found: ClassifiedPod) => {
    if (isInDoubt(found, scene)) return -1;
    return (isNamed(found) ? 0 : 2) + (isFailing(found.pod, input) ? 1 : 0);
  };
  return mayGo.toSorted((one, other) => placeOf(one) - placeOf(other));
}

/** What a write means for the pod. */
export function decisionOf(write: SidecarWrite | SidecarChange): PodDecision {
  switch (write.kind) {
    case 'change':
    case 'write': {
      const isSwap = write.containers.some(({ hot }) => hot !== undefined);
      return { kind: isSwap ? 'swap' : 'update', containers: write.containers.map(({ name }) => name) };
    }
    case 'nothing':
      return { kind: 'update', containers: [] };
    case 'inProgress':
      return { kind: 'inProgress' };
    case 'impossible':
      return write;
  }
}

function chosen({ metadata }: Pod, containers: readonly string[]): ChosenPod {
  const { namespace = '', name, uid } = metadata;
  return { namespace, name, uid, how: 'inPlace', containers: containers.length > 0 ? [containers] : [] };
}

/** What a pod that has been read afresh gets. */
export type FreshWrite =
  | { readonly kind: 'write'; readonly write: PodWrite }
  /** It is at its goal, or it is not its turn any more. */
  | { readonly kind: 'nothing' }
  | { readonly kind: 'impossible'; readonly why: string };

/** The write for a pod as it is now. `isFree`: it is written only while it is not ready (SCS-157a). */
export function freshWrite(scene: SidecarSetScene, live: Pod, isFree: boolean): FreshWrite {
  const [found] = classifiedPods(scene, [live]);
  if (found?.place.kind !== 'waiting' || (isFree && found.isSidecarReady)) return { kind: 'nothing' };
  const write = sidecarWrite(scene.target, live, scene.now);
  const decision = decisionOf(write);
  if (decision.kind === 'impossible') return decision;
  if (decision.kind !== 'update' || write.kind !== 'write') return { kind: 'nothing' };
  const noted =
    decision.containers.length === 0 ? write.write : notingRestarts(write.write, live, decision.containers, scene.now);
  return fitting(live, noted);
}

/** The write, if it leaves annotations that can be kept. */
export function fitting(live: Pod, write: PodWrite): FreshWrite {
  const why = annotationProblem(live, write);
  return why === undefined ? { kind: 'write', write } : { kind: 'impossible', why };
}
