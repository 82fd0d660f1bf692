/**
 * Which pods of a CloneSet are brought to the wanted revision now, and how (CS-50…59, LC-20…30).
 *
 * The pods to be updated stand in a line: those that wait for their deletion or their hook already, then the rest in
 * update order. The walk along the line ends at the first pod for which the budget has no room. A start takes a permit;
 * only pods that have been held for their update, and are free now, go on without one.
 */

import { sameJson } from '../../../api/base/json.ts';
import { cloneSetDefault, cloneSetMark } from '../../../api/cloneset/types.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { type ControllerRevision, revisionLabels, revisionOfPod } from '../../../api/fleet/revision.ts';
import { inPlaceReadinessGate, inPlaceReason } from '../../../api/in-place/annotations.ts';
import { isInGrace } from '../../../api/in-place/grace.ts';
import {
  budgetRetryMs,
  decideInPlace,
  type InPlaceDecision,
  type PodWrite,
  type RecreateCause,
  startInPlace,
} from '../fleet/in-place/update.ts';
import { beforeUpdate, enter, stateMetadata, stateWithoutUpdate } from '../fleet/lifecycle.ts';
import type { Intention } from '../fleet/steps.ts';
import type { Numbers } from './counts.ts';
import { asSeen, countedPods, type FleetPod, first, inOrder } from './fleet.ts';
import { type Prefetch, prefetchOf } from './pre-download.ts';
import { writes } from './scale.ts';
import { batchRoom, isAtGoal, type Scene, scaleNumbers, updateNumbers } from './scene.ts';
import { updateOrder } from './update-order.ts';

/** Why no further pod is updated now. */
export type UpdateStop =
  /** No pod is to be updated. */
  | { readonly kind: 'done' }
  | { readonly kind: 'onDelete' }
  | { readonly kind: 'paused'; readonly by: 'spec' | 'operator' }
  | { readonly kind: 'noPermit' }
  /** The permit, or the pass, is for no more pods than have been started. */
  | { readonly kind: 'batchFull' }
  /** All that are left have been started, or are to be left out. */
  | { readonly kind: 'started' }
  /** The budget has no room for this pod. */
  | { readonly kind: 'budget'; readonly pod: FleetPod }
  /** Its images are not yet on as many nodes as the set asks for. */
  | { readonly kind: 'imageNotReady'; readonly prefetch: Prefetch }
  /** A budget of somebody else has refused it. */
  | { readonly kind: 'refused'; readonly pod: FleetPod; readonly by: string }
  /** It may not be recreated, and cannot be updated in place. */
  | { readonly kind: 'impossible'; readonly pod: FleetPod; readonly because: RecreateCause };

export interface UpdatePlan {
  /** Starts that were granted before, and pods that are not to be updated after all. */
  readonly upkeep: readonly Intention[];
  readonly disruption: readonly Intention[];
  readonly numbers: Numbers;
  readonly stop: UpdateStop;
}

/** What to start now. `busy` names pods that are written already in this pass. */
export function planUpdate(scene: Scene, busy: ReadonlySet<string>): UpdatePlan {
  const numbers = updateNumbers(scene);
  const idle = { upkeep: [], disruption: [], numbers };
  if (scene.isOnDelete) {
    return { ...idle, upkeep: backFromHold(scene, [], busy), stop: { kind: 'onDelete' } };
  }
  if (numbers.updateNum === 0) return { ...idle, upkeep: backFromHold(scene, [], busy), stop: { kind: 'done' } };
  if (scene.rollingUpdate?.paused) return { ...idle, stop: { kind: 'paused', by: 'spec' } };

  const { marked, line } = updateLine(scene, numbers);
  const walk = walkAlong(line, { scene, numbers, busy, marked });
  return { ...walk, upkeep: [...walk.upkeep, ...backFromHold(scene, line, busy)], numbers };
}

/** CS-51: as many pods as are to be updated: those that are to be deleted and will come anew, and those in their turn. */
export function updateLine(
  scene: Scene,
  { updateNum }: Numbers,
): { readonly marked: readonly FleetPod[]; readonly line: readonly FleetPod[] } {
  const { counted, coming, permit, orders, rollingUpdate = {} } = scene;
  const skip = new Set([...(permit?.skip ?? []), ...(orders?.skip ?? [])]);
  const candidates = counted.filter(
    (pod) => isAtGoal(scene, pod) === updateNum < 0 && pod.state !== 'PreparingDelete' && !isInGrace(pod.pod),
  );
  const marked = candidates.filter(({ isSpecified }) => isSpecified);
  const left = candidates.filter(({ name, isSpecified }) => !isSpecified && !skip.has(name));
  // Those that are out of service for their update already are ahead, so that nobody takes their place in the budget.
  const line = updateOrder(left, counted, rollingUpdate, coming).toSorted(inOrder(first(isHeld), first(isDrained)));
  return { marked, line: line.slice(0, Math.max(Math.abs(updateNum) - marked.length, 0)) };
}

function isHeld({ state }: FleetPod): boolean {
  return state === 'PreparingUpdate';
}

/** Whether the pod has been taken out of service for an update which nothing else tells of yet. */
function isDrained(pod: FleetPod): boolean {
  return isOutOfService(pod) && pod.state !== 'Updating';
}

function isOutOfService({ pod }: FleetPod): boolean {
  const gate = pod.status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
  return gate?.status === 'False' && gate.reason === inPlaceReason;
}

/** CS-55, CS-56. */
function walkAlong(
  line: readonly FleetPod[],
  pass: {
    readonly scene: Scene;
    readonly numbers: Numbers;
    readonly busy: ReadonlySet<string>;
    readonly marked: readonly FleetPod[];
  },
): Omit<UpdatePlan, 'numbers'> {
  const { scene, busy, marked } = pass;
  const { updateNum, updateMax } = pass.numbers;
  const { world, counted, permit } = scene;
  const isBack = updateNum < 0;
  const upkeep: Intention[] = [];
  const disruption: Intention[] = [];
  const stopAt = (stop: UpdateStop) => ({ upkeep, disruption, stop });

  const down = counted.filter(({ isAvailable }) => !isAvailable);
  const downAtTarget = down.filter((pod) => isAtGoal(scene, pod) !== isBack).length;
  // What is to be deleted is as good as gone for pods that are available. It must not hold back those that are down: their
  // update may be what brings them up again, and as long as they are down nobody is deleted.
  let unavailable = down.length + marked.filter(({ isAvailable }) => isAvailable).length;
  let room = Math.min(
    isBack ? Number.POSITIVE_INFINITY : batchRoom(scene),
    world.mostStarts ?? Number.POSITIVE_INFINITY,
  );
  const prefetch = isBack ? undefined : prefetchOf(scene);

  for (const [ahead, pod] of line.entries()) {
    const taken = downAtTarget + ahead + (pod.isAvailable ? marked.length : 0);
    if (taken >= updateMax) return stopAt({ kind: 'budget', pod });
    if (pod.isAvailable) {
      if (unavailable >= updateMax) return stopAt({ kind: 'budget', pod });
      unavailable++;
    }
    if (busy.has(pod.name)) continue;

    const hasBegun = isHeld(pod);
    if (!hasBegun && permit?.paused) return stopAt({ kind: 'paused', by: 'operator' });
    if (!hasBegun && prefetch && !prefetch.isReached) return stopAt({ kind: 'imageNotReady', prefetch });
    if (!hasBegun && permit === undefined) return stopAt({ kind: 'noPermit' });
    if (!hasBegun && room <= 0) return stopAt({ kind: 'batchFull' });
    const refusal = world.refusals?.find((refused) => refused.pod === pod.name);
    if (refusal) return stopAt({ kind: 'refused', pod, by: refusal.by });

    const decision = decideUpdate(scene, pod, isBack ? scene.other : scene.target);
    if (decision.kind === 'refused') return stopAt({ kind: 'impossible', pod, because: decision.because });
    const steps = startOf(scene, pod, decision, isBack ? scene.other : scene.target);
    if (hasBegun && decision.kind === 'inPlace') upkeep.push(...steps);
    else if (permit !== undefined && !permit.paused) disruption.push(...steps);
    if (!hasBegun) room--;
  }
  return stopAt({ kind: 'started' });
}

/** Whether this pod can go to a revision in place, and by what change (IPU-1…13). */
export function decideUpdate(scene: Scene, { pod, revision }: FleetPod, target: ControllerRevision): InPlaceDecision {
  const { revisions, rollingUpdate, world } = scene;
  return decideInPlace({
    policy: rollingUpdate?.podUpdatePolicy ?? cloneSetDefault.podUpdatePolicy,
    oldRevision: revisionOfPod(revision, revisions.all),
    newRevision: target,
    gates: world.gates,
    pod,
    history: revisions.all,
  });
}

/**
 * The writes of an update whose drain is over, for the pod as it is by then. Undefined when it is no longer the pod that
 * was drained for this: the next look decides anew.
 */
export function updateAfterDrain(
  scene: Scene,
  { before, live, revision }: { readonly before: Pod; readonly live: Pod; readonly revision: string },
): readonly PodWrite[] | undefined {
  const { set, world, revisions } = scene;
  const [was, is] = [before, live].map((pod) => countedPods({ set, pods: [pod], nowMs: world.nowMs })?.counted[0]);
  const target = revisions.all.find(({ metadata }) => metadata.name === revision);
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
  return step?.kind === 'updatePod' && isOutOfService(is) ? step.writes : undefined;
}

function startOf(
  scene: Scene,
  pod: FleetPod,
  decision: Exclude<InPlaceDecision, { kind: 'refused' }>,
  target: ControllerRevision,
): readonly Intention[] {
  const { world, set, now, rollingUpdate } = scene;
  const { lifecycle } = set.spec;
  const revision = target.metadata.name;
  if (decision.kind === 'recreate') {
    const patch = { metadata: { labels: { [cloneSetMark.specifiedDelete]: 'true' } } };
    return [{ kind: 'recreatePod', pod: asSeen(pod.pod), revision, writes: [{ kind: 'pod', patch }] }];
  }
  switch (beforeUpdate(pod.pod, lifecycle)) {
    case 'wait':
      return [];
    case 'prepare':
      return writes(pod, 'prepareUpdate', enter('PreparingUpdate', pod.pod, lifecycle, now));
    case 'start': {
      const { labels, annotations } = stateMetadata('Updating', now);
      const { drain, writes: all } = startInPlace({
        pod: pod.pod,
        change: decision.change,
        revision,
        labels: { ...revisionLabels(revision, world.gates), ...labels },
        annotations,
        graceSeconds: rollingUpdate?.inPlaceUpdateStrategy?.gracePeriodSeconds ?? 0,
        nowMs: world.nowMs,
        gates: world.gates,
        canResize: world.hasResizeSubresource,
      });
      return [{ kind: 'updatePod', pod: asSeen(pod.pod), revision, ...(drain && { drain }), writes: all }];
    }
  }
}

/**
 * Pods that were asked to prepare for an update which is no longer wanted, since the partition was raised or an operator
 * leaves them out: they go back to work, and do not wait for ever (LC-27). Not while pods are missing or too many, because
 * then nobody knows yet how many are to be updated.
 */
function backFromHold(scene: Scene, line: readonly FleetPod[], busy: ReadonlySet<string>): readonly Intention[] {
  const { counted, set, now } = scene;
  const { lifecycle } = set.spec;
  const held = counted.filter((pod) => isHeld(pod) && !pod.isSpecified && !busy.has(pod.name) && !line.includes(pod));
  if (held.length === 0) return [];
  const { up, down } = scaleNumbers(scene);
  if (up + down > 0) return [];
  return held.flatMap((pod) =>
    writes(pod, 'refresh', enter(stateWithoutUpdate(pod.pod, lifecycle), pod.pod, lifecycle, now)),
  );
}

/** When to ask again after a budget has refused a pod. */
export function retryInMs({ kind }: UpdateStop): number | undefined {
  return kind === 'refused' ? budgetRetryMs : undefined;
}
