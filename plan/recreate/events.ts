/** The events of a ContainerRecreateRequest, and their effect on the progress. */
import { recreateMessage } from '../../api/container-recreate-request/texts.ts';
import type { RefusalReason } from '../../api/core/failure.ts';
import type { Wait } from '../decision.ts';
import { shortened } from '../text-size.ts';
import {
  type Command,
  type ContainerBefore,
  type ContainerProgress,
  containerMessageBytes,
  containerNamed,
  type End,
  isAnswered,
  isSettled,
  type Progress,
  positionIn,
  type RecreateOrder,
  unidentifiedSkipper,
} from './model.ts';
import type { Action } from './next.ts';

/** A step that takes time and may fail. */
export type RecreateStep = 'look' | 'record' | 'stop' | 'await' | 'drain';

/** Something that has become known. */
export type RecreateEvent =
  | { readonly kind: 'looked'; readonly containers: readonly string[]; readonly instances: readonly SeenInstance[] }
  | { readonly kind: 'noRuntime'; readonly message: string }
  /** The node answers, but its container runtime does not. */
  | { readonly kind: 'runtimeAway'; readonly message: string }
  | {
      readonly kind: 'nodeSilent';
      readonly during: RecreateStep;
      readonly container?: string;
    }
  | { readonly kind: 'drained' }
  /** The instance in the status: the first one that was recorded there. */
  | { readonly kind: 'targetRecorded'; readonly container: string; readonly containerId: string }
  | {
      readonly kind: 'stopEnded';
      readonly container: string;
      readonly result:
        | { readonly kind: 'stopped' }
        | { readonly kind: 'alreadyGone' }
        | { readonly kind: 'noRuntime'; readonly message: string }
        | { readonly kind: 'failed'; readonly message: string };
    }
  | {
      readonly kind: 'awaitEnded';
      readonly container: string;
      readonly result:
        | { readonly kind: 'ready'; readonly containerId: string; readonly restartCount: number }
        | { readonly kind: 'changed'; readonly isYoung: boolean; readonly trouble?: string }
        | { readonly kind: 'podGone' };
    }
  /** The stop in progress has taken longer than `momentMs`. */
  | { readonly kind: 'stopIsLong' }
  /** A step had no effect, for a reason that has passed or will be looked at: it is due again. */
  | {
      readonly kind: 'interrupted';
      readonly during: RecreateStep;
      readonly container?: string;
    }
  /** A step was rejected for good. `during` can be retried by a person. */
  | {
      readonly kind: 'refused';
      readonly during: RecreateStep;
      readonly container?: string;
      readonly reason: RefusalReason;
      readonly message: string;
    }
  /** A rejected step is due again: its reason may have been fixed. */
  | { readonly kind: 'tryAgain' }
  | { readonly kind: 'podGone' }
  /** The pod has ended: what is stopped, or has ended with it, stays down (CRR-46). */
  | { readonly kind: 'podFinished' }
  | { readonly kind: 'withdrawn' }
  | { readonly kind: 'deadline' }
  | { readonly kind: 'command'; readonly command: Command }
  | { readonly kind: 'commandIdentified'; readonly id: number; readonly by: string };

/** An instance as the node saw it. */
export interface SeenInstance {
  readonly name: string;
  readonly id: string;
  readonly state: 'created' | 'running' | 'exited' | 'unknown';
  readonly restartCount: number;
}

/** The progress of a request when a run continues it: what its status says, and what has not been looked at yet. */
export function newProgress(request: {
  readonly order: RecreateOrder;
  readonly phase: Progress['phase'];
  readonly containers: readonly ContainerBefore[];
  readonly waitingFor?: Wait;
}): Progress {
  const paused = request.waitingFor?.reason === 'Paused';
  return endWhenSettled({
    order: request.order,
    phase: request.phase,
    containers: request.containers.map((container) =>
      markDownWhenStopOnly(request.order, {
        ...container,
        seen: false,
        ...(container.targetId === undefined ? {} : { targetRecorded: true }),
      }),
    ),
    nodeSilent: false,
    drain: request.order.unreadyGraceSeconds === undefined ? 'none' : 'due',
    paused,
    ...(paused && request.waitingFor ? { pauseNote: request.waitingFor.unblock } : {}),
    commands: [],
    inFlight: { looking: false, awaiting: [] },
  });
}

/** Applies one event to the progress. */
export function applyEvent(progress: Progress, event: RecreateEvent): Progress {
  switch (event.kind) {
    case 'looked':
      return applyLook(withNodeAnswering(progress), event);
    case 'noRuntime':
      return endWithoutRuntime(withStepOver(withNodeAnswering(progress), 'look'), event.message);
    case 'runtimeAway': {
      const runtimeAway = shortened(event.message, containerMessageBytes);
      return { ...withStepOver(withNodeAnswering(progress), 'look'), runtimeAway };
    }
    case 'nodeSilent': {
      const quiet = { ...withStepOver(progress, event.during, event.container), nodeSilent: true };
      // CRR-12: only a request without any answer from the node fails
      return progress.phase === '' && event.during === 'look' ? withEnd(quiet, { kind: 'nodeSilent' }) : quiet;
    }
    case 'drained':
      return requireNewLook({ ...progress, drain: 'done' });
    case 'targetRecorded':
      return withContainer(withStepOver(progress, 'record'), event.container, () => ({
        targetId: event.containerId,
        targetRecorded: true,
      }));
    case 'stopEnded':
      return applyStopEnd(withStepOver(withNodeAnswering(progress), 'stop'), event);
    case 'stopIsLong': {
      const { stopping } = progress.inFlight;
      return stopping === undefined ? progress : { ...progress, longStop: stopping };
    }
    case 'awaitEnded':
      return applyAwaitEnd(withStepOver(withNodeAnswering(progress), 'await', event.container), event);
    case 'interrupted':
      return withStepOver(progress, event.during, event.container);
    case 'refused': {
      const message = shortened(event.message, containerMessageBytes);
      return { ...withStepOver(progress, event.during, event.container), parked: { reason: event.reason, message } };
    }
    case 'tryAgain': {
      const { parked: _, ...free } = progress;
      return free;
    }
    case 'podFinished':
      return { ...progress, order: { ...progress.order, neverRestarts: true } };
    case 'podGone':
      return withEnd(progress, { kind: 'podGone' });
    case 'withdrawn':
      return withEnd(progress, { kind: 'withdrawn' });
    case 'deadline':
      return withEnd(progress, { kind: 'deadline' });
    case 'command':
      return applyCommand(progress, event.command);
    case 'commandIdentified':
      return {
        ...progress,
        commands: progress.commands.map((command) =>
          command.id === event.id ? { ...command, by: event.by } : command,
        ),
        containers: progress.containers.map((container) =>
          container.skippedBy === unidentifiedSkipper(event.id) ? { ...container, skippedBy: event.by } : container,
        ),
      };
  }
}

/** The progress once an action has been started, so that it is started once. */
export function markStarted(progress: Progress, action: Action): Progress {
  const { inFlight } = progress;
  switch (action.kind) {
    case 'look':
      return { ...progress, inFlight: { ...inFlight, looking: true } };
    case 'drain':
      return { ...progress, drain: 'running' };
    case 'recordTarget':
      return { ...progress, inFlight: { ...inFlight, recording: action.container } };
    case 'stop':
      return requireNewLook({ ...progress, inFlight: { ...inFlight, stopping: action.container } });
    case 'await':
      return { ...progress, inFlight: { ...inFlight, awaiting: [...inFlight.awaiting, action.container] } };
  }
}

/** The node has reported the running containers. */
function applyLook(progress: Progress, event: Extract<RecreateEvent, { kind: 'looked' }>): Progress {
  const newest = new Map(event.instances.map((instance) => [instance.name, instance]));
  const { order } = progress;
  const containers = progress.containers.map((container) => {
    if (!event.containers.includes(container.name)) return container;
    // a report about the one that is being stopped is neither before nor after the stop
    if (container.name === progress.inFlight.stopping) return container;
    const instance = newest.get(container.name);
    const after = containerAfterLook(container, instance, order.force);
    const isGone = order.stopOnly && instance === undefined && !isSettled(container);
    return markDownWhenStopOnly(order, isGone ? { ...after, phase: 'Recreating', isKilled: true } : after);
  });
  return endWhenSettled({ ...withPhaseRecreating(withStepOver(progress, 'look')), containers });
}

/** CRR-35, CRR-36: what the newest instance means for a container. The first matching row wins. */
function containerAfterLook(
  container: ContainerProgress,
  instance: SeenInstance | undefined,
  force: boolean,
): ContainerProgress {
  const { message, ...rest } = container;
  const seen = { ...rest, seen: true };
  if (isSettled(container)) return { ...seen, ...(message === undefined ? {} : { message }) };
  const isReplaced = { ...seen, phase: 'Recreating', isKilled: true } as const;

  if (!instance) {
    // if a chosen instance is gone, we may have stopped it, whatever the status says
    if (container.isKilled || container.targetRecorded) return isReplaced;
    const { targetId: _, ...unknown } = seen;
    return { ...unknown, hasGone: true, phase: 'Pending', message: recreateMessage.notFoundOnNode };
  }
  if (instance.state === 'exited') return { ...isReplaced, targetId: container.targetId ?? instance.id };
  if (force && !container.isKilled) {
    // the recorded target is no longer the newest instance, so the stop has happened and only its record is missing
    if (container.targetRecorded && container.targetId !== instance.id) return isReplaced;
    return { ...seen, phase: 'Pending', targetId: instance.id };
  }

  // admission saw an older instance than the ID says when this one has been restarted more often
  const isNewer = instance.id === container.originalId && instance.restartCount > container.originalRestartCount;
  const originalId = isNewer ? '' : container.originalId;
  if (container.isKilled || instance.id !== originalId) {
    return { ...isReplaced, originalId, targetId: container.targetId ?? originalId };
  }
  return { ...seen, phase: 'Pending', targetId: instance.id };
}

/** The node has reported the result of a stop. */
function applyStopEnd(progress: Progress, event: Extract<RecreateEvent, { kind: 'stopEnded' }>): Progress {
  const { result } = event;
  if (result.kind === 'noRuntime') return endWithoutRuntime(progress, result.message);
  if (result.kind === 'alreadyGone' && containerNamed(progress, event.container)?.seen === false) {
    // it was gone before the first look: the table decides what that means
    return withContainer(progress, event.container, () => ({ hasGone: true }));
  }
  return endWhenSettled(
    withContainer(withPhaseRecreating(progress), event.container, ({ originalId, targetId = originalId }) =>
      result.kind === 'failed'
        ? {
            phase: 'Failed',
            message: shortened(recreateMessage.killFailed(result.message), containerMessageBytes),
          }
        : {
            phase: 'Recreating',
            isKilled: true,
            seen: true,
            targetId,
            ...(progress.order.stopOnly && { isDown: true }),
          },
    ),
  );
}

function endWithoutRuntime(progress: Progress, why: string): Progress {
  return withEnd(progress, { kind: 'noRuntime', message: shortened(why, containerMessageBytes) });
}

/** The node has reported the end of a wait. */
function applyAwaitEnd(progress: Progress, event: Extract<RecreateEvent, { kind: 'awaitEnded' }>): Progress {
  const { result } = event;
  if (result.kind === 'podGone') return progress; // the API server is authoritative: the request is looked at
  const container = progress.containers.find(({ name }) => name === event.container);
  if (result.kind === 'changed' && result.trouble !== undefined) {
    const trouble = shortened(result.trouble, containerMessageBytes);
    return withContainer(progress, event.container, () => ({ isYoung: false, trouble }));
  }
  // a missing container has appeared: the table decides what it means
  if (container?.phase === 'Pending') return withContainer(progress, event.container, () => ({ seen: false }));
  if (result.kind === 'changed') return withContainer(progress, event.container, () => ({ isYoung: result.isYoung }));
  return endWhenSettled(
    withContainer(progress, event.container, () => ({
      phase: 'Succeeded',
      replacement: { containerId: result.containerId, restartCount: result.restartCount },
    })),
  );
}

function applyCommand(progress: Progress, command: Command): Progress {
  const known = { ...progress, commands: [...progress.commands, command] };
  if (progress.end) return known;
  const { parked: _, ...free } = known;
  switch (command.name) {
    case 'pause':
      return { ...known, paused: true };
    case 'resume': {
      const { pauseNote: __, ...resumed } = known;
      return requireNewLook({ ...resumed, paused: false });
    }
    case 'abort':
      return withEnd(known, { kind: 'aborted', command: command.id });
    case 'retry':
      return requireNewLook({
        ...free,
        containers: free.containers.map((container) => resetWhenFailed(container, command)),
      });
    case 'skip': {
      const target =
        command.target === undefined ? containerInTheWay(progress) : containerNamed(progress, command.target);
      if (target === undefined || isSettled(target)) return known;
      return endWhenSettled(
        withContainer(free, target.name, () => ({ skippedBy: command.by ?? unidentifiedSkipper(command.id) })),
      );
    }
  }
}

/** A container that could not be stopped, as if nobody had tried. A recorded target stays: only that one may be stopped. */
function resetWhenFailed(container: ContainerProgress, { target }: Command): ContainerProgress {
  if (container.phase !== 'Failed' || (target !== undefined && target !== container.name)) return container;
  const { message: _, targetId, ...rest } = container;
  const recorded = container.targetRecorded && targetId !== undefined ? { targetId } : {};
  return { ...rest, ...recorded, phase: 'Pending', seen: false };
}

/** The container that the request waits for, according to its status. */
export function containerInTheWay(progress: Progress): ContainerProgress | undefined {
  const { inFlight, containers } = progress;
  if (inFlight.stopping !== undefined) return containerNamed(progress, inFlight.stopping);
  const at = positionIn(progress);
  if (at.kind === 'missing' || at.kind === 'stop') return at.container;
  return containers.find((container) => !isSettled(container));
}

function withContainer(
  progress: Progress,
  name: string,
  change: (container: ContainerProgress) => Partial<ContainerProgress>,
): Progress {
  return {
    ...progress,
    containers: progress.containers.map((container) =>
      container.name === name ? { ...container, ...change(container) } : container,
    ),
  };
}

/** A step has ended; one that was not successful is due again. */
function withStepOver(progress: Progress, during: RecreateStep, container?: string): Progress {
  const { stopping, recording, ...rest } = progress.inFlight;
  switch (during) {
    case 'look':
      return { ...progress, inFlight: { ...progress.inFlight, looking: false } };
    case 'record':
      return { ...progress, inFlight: { ...rest, ...(stopping === undefined ? {} : { stopping }) } };
    case 'stop':
      return { ...progress, inFlight: { ...rest, ...(recording === undefined ? {} : { recording }) } };
    case 'await':
      return {
        ...progress,
        inFlight: { ...progress.inFlight, awaiting: rest.awaiting.filter((name) => name !== container) },
      };
    case 'drain':
      return { ...progress, drain: 'due' };
  }
}

/** The node has answered. */
function withNodeAnswering(progress: Progress): Progress {
  const { runtimeAway: _, ...rest } = progress;
  return { ...rest, nodeSilent: false };
}

/** CRR-31: the node has reported something about the containers. */
function withPhaseRecreating(progress: Progress): Progress {
  return isAnswered(progress) ? progress : { ...progress, phase: 'Recreating' };
}

/**
 * Time has passed since the last look at the node. A forced stop takes the instance that runs when its turn comes
 * (CRR-36), so the node is asked again before one is chosen; the other stops compare with the instance at the creation
 * of the request.
 */
function requireNewLook(progress: Progress): Progress {
  if (!progress.order.force) return progress;
  const { stopping, recording } = progress.inFlight;
  return {
    ...progress,
    containers: progress.containers.map((container) => {
      const isChosen = container.targetRecorded || container.name === stopping || container.name === recording;
      return container.phase === 'Pending' && !isChosen ? { ...container, seen: false } : container;
    }),
  };
}

/** Where the next instance is not awaited, a container is done when its instance has exited. */
function markDownWhenStopOnly(order: RecreateOrder, container: ContainerProgress): ContainerProgress {
  return order.stopOnly && container.phase === 'Recreating' ? { ...container, isDown: true } : container;
}

/** Completes a request when all containers are settled. */
function endWhenSettled(progress: Progress): Progress {
  return !progress.end && positionIn(progress).kind === 'over' ? withEnd(progress, { kind: 'settled' }) : progress;
}

/** The first end is final: later events do not change the result of the request. */
function withEnd(progress: Progress, end: End): Progress {
  return progress.end ? progress : { ...progress, end };
}
