/** The next actions for a ContainerRecreateRequest. */
import { firstWait } from '../decision.ts';
import {
  type ContainerProgress,
  isAnswered,
  isMomentary,
  isSettled,
  lookWindow,
  type Position,
  type Progress,
  positionIn,
  type RecreateOrder,
} from './model.ts';
import { stopRules } from './waits.ts';

/** An action that should be in progress, and is not. */
export type Action =
  | { readonly kind: 'look'; readonly containers: readonly string[] }
  | { readonly kind: 'drain'; readonly graceSeconds: number }
  | { readonly kind: 'recordTarget'; readonly container: string; readonly containerId: string }
  | {
      readonly kind: 'stop';
      readonly container: string;
      readonly containerId: string;
      readonly graceSeconds: number;
      /** Of the instance, as far as it is known: one of more restarts is another. */
      readonly restartCount?: number;
    }
  | {
      readonly kind: 'await';
      readonly container: string;
      readonly notContainerId: string;
      readonly minStartedSeconds: number;
      /** The last known value, where it matters; the wait ends as soon as it changes. */
      readonly isYoung?: boolean;
      /** Why the kubelet does not start it, as last known; the wait ends as soon as it says something else. */
      readonly trouble: string;
    };

/** The actions that should be in progress and are not. Empty when everything possible has been started. */
export function nextActions(progress: Progress): readonly Action[] {
  if (progress.end || progress.parked) return [];
  if (progress.nodeSilent) return probesDue(progress);
  return [...awaitsDue(progress), ...stepsDueAt(positionIn(progress), progress)];
}

/** While the node is silent one question is enough, and nothing is stopped based on old data. */
function probesDue({ inFlight, containers }: Progress): readonly Action[] {
  if (inFlight.looking || inFlight.stopping !== undefined || inFlight.awaiting.length > 0) return [];
  const open = containers.filter((container) => !isSettled(container)).map(({ name }) => name);
  return [{ kind: 'look', containers: open.slice(0, lookWindow) }];
}

/** Waits for the successors of stopped instances. */
function awaitsDue({ containers, inFlight, order }: Progress): readonly Action[] {
  return containers
    .filter((container) => container.phase === 'Recreating' && container.seen && !isSettled(container))
    .filter(({ name }) => !inFlight.awaiting.includes(name))
    .map((container) => awaitOf(container, order));
}

function stepsDueAt(at: Position, progress: Progress): readonly Action[] {
  const { inFlight, order } = progress;
  switch (at.kind) {
    case 'unseen': {
      const stops = isChosenByRequest(at.container, progress) ? stepsToStop(at.container, progress) : [];
      return stops.length > 0 ? stops : looksDue(progress);
    }
    case 'missing':
      return inFlight.awaiting.includes(at.container.name) ? [] : [awaitOf(at.container, order)];
    case 'stop':
      if (isAnswered(progress)) return stepsToStop(at.container, progress);
      // a first stop may take long, and the node's answer is reported before it ends
      return isMomentary(progress) ? [] : looksDue(progress);
    case 'hold':
    case 'over':
      return [];
  }
}

function looksDue(progress: Progress): readonly Action[] {
  return progress.inFlight.looking ? [] : [{ kind: 'look', containers: unseen(progress).slice(0, lookWindow) }];
}

/** The steps to the stop of a container: the pod is taken out of service, the instance is recorded, then stopped. */
function stepsToStop(container: ContainerProgress, progress: Progress): readonly Action[] {
  const { inFlight, order } = progress;
  // CRR-40: one stop at a time
  if (inFlight.stopping !== undefined || inFlight.recording !== undefined || progress.paused) return [];
  if (progress.drain === 'due') return [{ kind: 'drain', graceSeconds: order.unreadyGraceSeconds ?? 0 }];
  return firstWait(stopRules, progress) === undefined ? [stopOf(container, progress)] : [];
}

/**
 * Whether the request itself determines which instance to stop: the node stops that one or nothing, so no look is
 * needed first. A pod is not taken out of service for a node that has not answered yet.
 */
function isChosenByRequest(container: ContainerProgress, { order, drain, runtimeAway }: Progress): boolean {
  const { phase, isKilled, hasGone, originalId } = container;
  const isKnown = !order.force && originalId !== '' && !isKilled && !hasGone;
  return isKnown && phase === 'Pending' && drain !== 'due' && runtimeAway === undefined;
}

function stopOf(container: ContainerProgress, { order }: Progress): Action {
  const containerId = container.targetId ?? container.originalId;
  if (order.force && !container.targetRecorded) return { kind: 'recordTarget', container: container.name, containerId };
  const { name, originalRestartCount: restartCount } = container;
  return {
    kind: 'stop',
    container: name,
    containerId,
    graceSeconds: order.graceSeconds,
    ...(order.force ? {} : { restartCount }),
  };
}

function awaitOf(container: ContainerProgress, order: RecreateOrder): Action {
  return {
    kind: 'await',
    container: container.name,
    notContainerId: container.targetId ?? container.originalId,
    minStartedSeconds: order.minStartedSeconds,
    ...(order.minStartedSeconds > 0 ? { isYoung: container.isYoung ?? false } : {}),
    trouble: container.trouble ?? '',
  };
}

function unseen(progress: Progress): string[] {
  return progress.containers.filter((container) => !container.seen && !isSettled(container)).map(({ name }) => name);
}
