/**
 * How a ContainerRecreateRequest recreates the containers of one pod.
 *
 * The request is a walk over its containers in list order (CRR-36…41). A container that still runs the instance it ran
 * when the request was made is stopped; the kubelet starts the next instance; the container has succeeded when that
 * instance is ready and has run long enough. Stops never overlap (CRR-40): an ordered request also waits for each
 * container to succeed before it goes on, an unordered one lets the starts overlap.
 *
 * The whole walk is a fold: `heard` takes what has become known into the progress, `nextActions` says what should be
 * under way now, `statusOf` says what users are told. Nothing here knows Temporal, the API server or a clock.
 */
import {
  type CompleteReason,
  type FailedReason,
  type RecreateWaitReason,
  recreateMessage,
  recreateWaits,
} from '../../../api/container-recreate-request/texts.ts';
import type {
  ContainerRecreatePhase,
  ContainerRecreateState,
  ContainerStatusSnapshot,
  FailurePolicy,
  RecreatePhase,
} from '../../../api/container-recreate-request/types.ts';
import { type RefusalReason, refusalWait } from '../../../api/core/failure.ts';
import type { WaitingFor } from '../../../api/engine/waiting-for.ts';
import { firstWait, type Rule, type Wait, waitFor } from '../decision.ts';
import { shortened } from '../text-size.ts';

/** What the request asks for, as far as the walk needs it. */
export interface RecreateOrder {
  readonly request: string;
  readonly pod: string;
  readonly ordered: boolean;
  readonly force: boolean;
  readonly failurePolicy: FailurePolicy;
  readonly graceSeconds: number;
  readonly minStartedSeconds: number;
  /** Absent: the pod keeps its traffic until the stop. 0: it is taken out of service, without a wait. */
  readonly unreadyGraceSeconds?: number;
  /** The restart policy of the pod is `Never`: what is stopped stays stopped (CRR-46). */
  readonly neverRestarts?: boolean;
  /** What is stopped is not expected back: a container is done once it is down. */
  readonly stopOnly?: boolean;
}

/** One container of the request, as far as it is known. */
export interface ContainerProgress {
  readonly name: string;
  readonly phase: ContainerRecreatePhase;
  readonly isKilled: boolean;
  readonly message?: string;
  /** The instance that ran at creation, without `<runtime>://`. */
  readonly originalId: string;
  readonly originalRestartCount: number;
  /** The instance that this request stops. A forced stop records it in the status before it happens. */
  readonly targetId?: string;
  /** Whether the recorded target can be read by whoever continues after a crash. */
  readonly targetRecorded?: boolean;
  /** False until the node has said what runs, and again when that is too old to choose an instance by. */
  readonly seen: boolean;
  /** The instance of the request's creation was not there to be stopped, so that the node has to say what is. */
  readonly hasGone?: boolean;
  /** Who wanted it to be left out. */
  readonly skippedBy?: string;
  /** The new instance is ready, and all that is missing is time (CRR-33). */
  readonly isYoung?: boolean;
  /** It was stopped or is gone, and nobody waits for another instance. */
  readonly isDown?: boolean;
  /** The instance that took over. */
  readonly replacement?: { readonly containerId: string; readonly restartCount: number };
}

/** A command of an operator; `by` is absent until it is known. */
export interface Command {
  readonly id: number;
  readonly name: 'pause' | 'resume' | 'retry' | 'skip' | 'abort';
  readonly by?: string;
  readonly target?: string;
}

/** Why the request ended. */
export type End =
  | { readonly kind: 'settled' }
  | { readonly kind: 'podGone' }
  | { readonly kind: 'nodeSilent' }
  | { readonly kind: 'deadline' }
  | { readonly kind: 'noRuntime'; readonly message: string }
  | { readonly kind: 'aborted'; readonly command: number }
  /** The request itself is gone: there is nobody left to tell. */
  | { readonly kind: 'withdrawn' };

export interface Progress {
  readonly order: RecreateOrder;
  /** What the status said last: "" until the node has answered. */
  readonly phase: RecreatePhase;
  readonly containers: readonly ContainerProgress[];
  readonly nodeSilent: boolean;
  /** Why the node cannot say what runs, while that is so. */
  readonly runtimeAway?: string;
  readonly drain: 'none' | 'due' | 'running' | 'done';
  readonly paused: boolean;
  /** What the status said about a pause that an earlier run was told of. */
  readonly pauseNote?: string;
  readonly commands: readonly Command[];
  /** A refusal that a person has to mend before the step is tried again. */
  readonly parked?: { readonly reason: RefusalReason; readonly message: string };
  readonly inFlight: {
    readonly looking: boolean;
    readonly recording?: string;
    readonly stopping?: string;
    readonly awaiting: readonly string[];
  };
  /** The container whose stop has gone on for longer than `momentMs`. */
  readonly longStop?: string;
  readonly end?: End;
}

/** Something that has become known. */
export type News =
  | { readonly kind: 'looked'; readonly containers: readonly string[]; readonly instances: readonly SeenInstance[] }
  | { readonly kind: 'noRuntime'; readonly message: string }
  /** The node answers, its container runtime does not. */
  | { readonly kind: 'runtimeAway'; readonly message: string }
  | {
      readonly kind: 'nodeSilent';
      readonly during: 'look' | 'record' | 'stop' | 'await' | 'drain';
      readonly container?: string;
    }
  | { readonly kind: 'drained' }
  /** The instance that stands in the status: the first that was recorded there. */
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
        | { readonly kind: 'changed'; readonly isYoung: boolean }
        | { readonly kind: 'podGone' };
    }
  /** The stop that is under way has gone on for longer than `momentMs`. */
  | { readonly kind: 'stopIsLong' }
  /** A step came to nothing, for a reason that has passed or will be looked at: it is simply due again. */
  | {
      readonly kind: 'interrupted';
      readonly during: 'look' | 'record' | 'stop' | 'await' | 'drain';
      readonly container?: string;
    }
  /** A step was refused for good. `during` can be tried again by a person. */
  | {
      readonly kind: 'refused';
      readonly during: 'look' | 'record' | 'stop' | 'await' | 'drain';
      readonly container?: string;
      readonly reason: RefusalReason;
      readonly message: string;
    }
  /** What was refused is due again: perhaps it has been mended, or was never meant. */
  | { readonly kind: 'tryAgain' }
  | { readonly kind: 'podGone' }
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

/** Something that should be under way now and is not. */
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
      /** What is known about it, where it matters; the wait ends as soon as that has changed. */
      readonly isYoung?: boolean;
    };

/** A stop that is over sooner is told of together with what follows it, and nobody asks the node whether it answers. */
export const momentMs = 250;

/** How many containers one look at the node covers: their IDs have to fit into a history event. */
export const lookWindow = 12;

/** Texts come from runtimes and people; in JSON they take at most so many bytes, because they travel through histories. */
const mostBytes = { containerMessage: 700, wait: 900, outcome: 1500 } as const;

/** What a status tells of one container. */
export type ContainerBefore = Omit<
  ContainerProgress,
  'seen' | 'hasGone' | 'targetRecorded' | 'isYoung' | 'replacement' | 'isDown'
>;

/** Where a request stands when a run takes it up: what its status says, and what nobody has looked at yet. */
export function newProgress(request: {
  readonly order: RecreateOrder;
  readonly phase: Progress['phase'];
  readonly containers: readonly ContainerBefore[];
  readonly waitingFor?: Wait;
}): Progress {
  const paused = request.waitingFor?.reason === 'Paused';
  return settled({
    order: request.order,
    phase: request.phase,
    containers: request.containers.map((container) =>
      downed(request.order, {
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

/** Takes one piece of news into the progress. */
export function heard(progress: Progress, news: News): Progress {
  switch (news.kind) {
    case 'looked':
      return afterLook(answered(progress), news);
    case 'noRuntime':
      return withoutRuntime(idle(answered(progress), 'look'), news.message);
    case 'runtimeAway': {
      const runtimeAway = shortened(news.message, mostBytes.containerMessage);
      return { ...idle(answered(progress), 'look'), runtimeAway };
    }
    case 'nodeSilent': {
      const quiet = { ...idle(progress, news.during, news.container), nodeSilent: true };
      // CRR-12: only a request that nobody on the node has ever answered is given up
      return progress.phase === '' && news.during === 'look' ? ended(quiet, { kind: 'nodeSilent' }) : quiet;
    }
    case 'drained':
      return outdated({ ...progress, drain: 'done' });
    case 'targetRecorded':
      return changed(idle(progress, 'record'), news.container, () => ({
        targetId: news.containerId,
        targetRecorded: true,
      }));
    case 'stopEnded':
      return afterStop(idle(answered(progress), 'stop'), news);
    case 'stopIsLong': {
      const { stopping } = progress.inFlight;
      return stopping === undefined ? progress : { ...progress, longStop: stopping };
    }
    case 'awaitEnded':
      return afterAwait(idle(answered(progress), 'await', news.container), news);
    case 'interrupted':
      return idle(progress, news.during, news.container);
    case 'refused': {
      const message = shortened(news.message, mostBytes.containerMessage);
      return { ...idle(progress, news.during, news.container), parked: { reason: news.reason, message } };
    }
    case 'tryAgain': {
      const { parked: _, ...free } = progress;
      return free;
    }
    case 'podGone':
      return ended(progress, { kind: 'podGone' });
    case 'withdrawn':
      return ended(progress, { kind: 'withdrawn' });
    case 'deadline':
      return ended(progress, { kind: 'deadline' });
    case 'command':
      return obeyed(progress, news.command);
    case 'commandIdentified':
      return {
        ...progress,
        commands: progress.commands.map((command) => (command.id === news.id ? { ...command, by: news.by } : command)),
        containers: progress.containers.map((container) =>
          container.skippedBy === pendingName(news.id) ? { ...container, skippedBy: news.by } : container,
        ),
      };
  }
}

/** What should be under way now and is not. Empty while everything that can be done has been started. */
export function nextActions(progress: Progress): readonly Action[] {
  if (progress.end || progress.parked) return [];
  if (progress.nodeSilent) return probes(progress);
  return [...awaits(progress), ...stepsAt(walk(progress), progress)];
}

/** While the node is silent one question is enough, and nothing is stopped on what was known before. */
function probes({ inFlight, containers }: Progress): readonly Action[] {
  if (inFlight.looking || inFlight.stopping !== undefined || inFlight.awaiting.length > 0) return [];
  const open = containers.filter((container) => !isSettled(container)).map(({ name }) => name);
  return [{ kind: 'look', containers: open.slice(0, lookWindow) }];
}

function awaits({ containers, inFlight, order }: Progress): readonly Action[] {
  return containers
    .filter((container) => container.phase === 'Recreating' && container.seen && !isSettled(container))
    .filter(({ name }) => !inFlight.awaiting.includes(name))
    .map((container) => awaitOf(container, order));
}

function stepsAt(at: Position, progress: Progress): readonly Action[] {
  const { inFlight, order } = progress;
  switch (at.kind) {
    case 'unseen': {
      const stops = isChosenByRequest(at.container, progress) ? stepsToStop(at.container, progress) : [];
      return stops.length > 0 ? stops : looks(progress);
    }
    case 'missing':
      return inFlight.awaiting.includes(at.container.name) ? [] : [awaitOf(at.container, order)];
    case 'stop':
      if (isAnswered(progress)) return stepsToStop(at.container, progress);
      // a first stop may take long, and that the node has answered is told before it ends
      return isMomentary(progress) ? [] : looks(progress);
    case 'hold':
    case 'over':
      return [];
  }
}

function looks(progress: Progress): readonly Action[] {
  return progress.inFlight.looking ? [] : [{ kind: 'look', containers: unseen(progress).slice(0, lookWindow) }];
}

/** CRR-12, CRR-31: whether anybody on the node has ever said anything about this request. */
function isAnswered({ phase }: Progress): boolean {
  return phase === 'Recreating' || phase === 'Completed';
}

/** Whether all there is to tell of is a stop that has only just begun: most are over before anybody has read of them. */
export function isMomentary({ inFlight: { stopping }, longStop, end }: Progress): boolean {
  return stopping !== undefined && stopping !== longStop && end === undefined;
}

function stepsToStop(container: ContainerProgress, progress: Progress): readonly Action[] {
  const { inFlight, order } = progress;
  // CRR-40: one stop at a time
  if (inFlight.stopping !== undefined || inFlight.recording !== undefined || progress.paused) return [];
  if (progress.drain === 'due') return [{ kind: 'drain', graceSeconds: order.unreadyGraceSeconds ?? 0 }];
  return firstWait(stopRules, progress) === undefined ? [stopOf(container, progress)] : [];
}

/**
 * Whether the request itself says which instance to stop: the node stops that one or nothing, so the stop need not wait
 * for a look at it. A pod is not taken out of service for a node that has not answered yet.
 */
function isChosenByRequest(container: ContainerProgress, { order, drain, runtimeAway }: Progress): boolean {
  const { phase, isKilled, hasGone, originalId } = container;
  const isKnown = !order.force && originalId !== '' && !isKilled && !hasGone;
  return isKnown && phase === 'Pending' && drain !== 'due' && runtimeAway === undefined;
}

/** The progress once an action has been started, so that it is started once. */
export function started(progress: Progress, action: Action): Progress {
  const { inFlight } = progress;
  switch (action.kind) {
    case 'look':
      return { ...progress, inFlight: { ...inFlight, looking: true } };
    case 'drain':
      return { ...progress, drain: 'running' };
    case 'recordTarget':
      return { ...progress, inFlight: { ...inFlight, recording: action.container } };
    case 'stop':
      return outdated({ ...progress, inFlight: { ...inFlight, stopping: action.container } });
    case 'await':
      return { ...progress, inFlight: { ...inFlight, awaiting: [...inFlight.awaiting, action.container] } };
  }
}

/** Whether nothing is left to do, not even to wait for a stop that has begun or for the name of an operator. */
export function isOver(progress: Progress): boolean {
  const { end, inFlight } = progress;
  return end !== undefined && inFlight.stopping === undefined && (end.kind === 'withdrawn' || allNamed(progress));
}

/** Whether it is known who gave each command. */
export function allNamed({ commands }: Progress): boolean {
  return commands.every(({ by }) => by !== undefined);
}

/** How the request went, in the form of its last condition. */
export type RecreateOutcome =
  | { readonly type: 'Complete'; readonly reason: CompleteReason; readonly message: string }
  | { readonly type: 'Failed'; readonly reason: FailedReason; readonly message: string };

/** What users are told. Times are added by whoever knows the clock. */
export interface RecreateStatus {
  readonly phase: RecreatePhase;
  readonly message: string;
  readonly states: readonly ContainerRecreateState[];
  readonly snapshot: readonly ContainerStatusSnapshot[];
  readonly condition?: RecreateOutcome;
  readonly waitingFor?: Wait;
}

/** The status of the request, of which the runtime prefix is part of every container ID. */
export function statusOf(progress: Progress, runtime: string): RecreateStatus {
  const end = toldEnd(progress);
  const waitingFor = waitOf(progress);
  const begun = progress.phase === 'Recreating';
  return {
    phase: end ? 'Completed' : progress.phase,
    message: end ? messageOf(end, progress) : '',
    states: progress.containers.filter((container) => begun || isSettled(container)).map(stateOf),
    snapshot: progress.containers.flatMap((container) =>
      container.replacement
        ? {
            name: container.name,
            ready: true,
            restartCount: container.replacement.restartCount,
            containerID: `${runtime}://${container.replacement.containerId}`,
          }
        : [],
    ),
    ...(end ? { condition: conditionOf(end, progress) } : {}),
    ...(waitingFor && !end ? { waitingFor } : {}),
  };
}

/** The end as users may hear of it. What is written once stays, so the name of who aborted has to be known by then. */
function toldEnd({ end, commands }: Progress): Exclude<End, { kind: 'withdrawn' }> | undefined {
  if (end === undefined || end.kind === 'withdrawn') return undefined;
  const isNamed = end.kind !== 'aborted' || commands.find(({ id }) => id === end.command)?.by !== undefined;
  return isNamed ? end : undefined;
}

/** Asked before a stop, in this order; the first that answers holds it back. */
export const stopRules: readonly Rule<Progress>[] = [paused, draining];

function paused(progress: Progress): Wait | undefined {
  if (!progress.paused) return undefined;
  const by = progress.commands.findLast((command) => command.name === 'pause')?.by;
  return wait('Paused', [], by === undefined ? progress.pauseNote : `${recreateWaits.Paused}; paused by ${by}`);
}

function draining(progress: Progress): Wait | undefined {
  if (progress.drain !== 'due' && progress.drain !== 'running') return undefined;
  return wait('Draining', [`pod/${progress.order.pod}`]);
}

/**
 * What the request waits for, most pressing first. A pause comes before all else, because the status is where the next
 * run learns of it.
 */
function waitOf(progress: Progress): Wait | undefined {
  const { parked, inFlight, order, runtimeAway } = progress;
  const pause = paused(progress);
  if (pause) return pause;
  if (parked) {
    const reason = refusalWait(parked.reason);
    return wait(reason, [`pod/${order.pod}`], `${recreateWaits[reason]}; ${parked.message}`);
  }
  if (progress.nodeSilent) return wait('NodeSilent', [`pod/${order.pod}`]);
  if (runtimeAway !== undefined) {
    return wait('RuntimeUnreachable', [`pod/${order.pod}`], `${recreateWaits.RuntimeUnreachable}; ${runtimeAway}`);
  }
  // told once the node has answered: a first stop may begin earlier
  if (inFlight.stopping !== undefined && isAnswered(progress)) {
    return wait('Stopping', [`container/${inFlight.stopping}`]);
  }

  const at = walk(progress);
  if (at.kind === 'stop') return firstWait(stopRules, progress);
  if (at.kind === 'missing') return wait('ContainerNotFound', [`container/${at.container.name}`]);

  const starting = progress.containers.filter((container) => container.phase === 'Recreating' && !isSettled(container));
  if (starting.length === 0) return undefined;
  const unready = starting.filter(({ isYoung }) => !isYoung);
  if (unready.length === 0) return wait('MinStartedSeconds', starting.map(blocker));
  return wait(order.neverRestarts ? 'PodFinished' : 'ContainerNotReady', unready.map(blocker));
}

function blocker({ name }: ContainerProgress): string {
  return `container/${name}`;
}

function wait(reason: RecreateWaitReason, blockedBy: readonly string[], unblock: string = recreateWaits[reason]): Wait {
  return waitFor(reason, blockedBy, shortened(unblock, mostBytes.wait));
}

/** Where the walk stands: what the next stop would be, or why there is none. */
type Position =
  | { readonly kind: 'unseen'; readonly container: ContainerProgress }
  | { readonly kind: 'missing'; readonly container: ContainerProgress }
  | { readonly kind: 'stop'; readonly container: ContainerProgress }
  | { readonly kind: 'hold' }
  | { readonly kind: 'over' };

function walk(progress: Progress): Position {
  const { order, containers, inFlight } = progress;
  for (const container of containers) {
    if (container.skippedBy !== undefined || container.phase === 'Succeeded') continue;
    if (container.phase === 'Failed') {
      if (order.failurePolicy === 'Ignore') continue;
      return { kind: 'over' }; // CRR-37
    }
    if (container.name === inFlight.stopping) return { kind: 'stop', container };
    if (!container.seen) return { kind: 'unseen', container };
    if (container.phase === 'Recreating') {
      if (order.ordered && !container.isDown) return { kind: 'hold' }; // CRR-38
      continue;
    }
    return container.targetId === undefined ? { kind: 'missing', container } : { kind: 'stop', container }; // CRR-39
  }
  return containers.every(isSettled) ? { kind: 'over' } : { kind: 'hold' };
}

/** CRR-35, CRR-36: what the newest instance says about a container. The first line that fits wins. */
function evaluate(container: ContainerProgress, instance: SeenInstance | undefined, force: boolean): ContainerProgress {
  const { message: told, ...rest } = container;
  const seen = { ...rest, seen: true };
  if (isSettled(container)) return { ...seen, ...(told === undefined ? {} : { message: told }) };
  const isReplaced = { ...seen, phase: 'Recreating', isKilled: true } as const;

  if (!instance) {
    // one that was chosen and is gone may have been stopped by us, whatever the status says
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

function afterLook(progress: Progress, news: Extract<News, { kind: 'looked' }>): Progress {
  const newest = new Map(news.instances.map((instance) => [instance.name, instance]));
  const { order } = progress;
  const containers = progress.containers.map((container) => {
    if (!news.containers.includes(container.name)) return container;
    // what it saw of the one that is being stopped is neither before nor after
    if (container.name === progress.inFlight.stopping) return container;
    const instance = newest.get(container.name);
    const after = evaluate(container, instance, order.force);
    const isGone = order.stopOnly && instance === undefined && !isSettled(container);
    return downed(order, isGone ? { ...after, phase: 'Recreating', isKilled: true } : after);
  });
  return settled({ ...recreating(idle(progress, 'look')), containers });
}

function afterStop(progress: Progress, news: Extract<News, { kind: 'stopEnded' }>): Progress {
  const { result } = news;
  if (result.kind === 'noRuntime') return withoutRuntime(progress, result.message);
  if (result.kind === 'alreadyGone' && named(progress, news.container)?.seen === false) {
    // it went before anybody looked: the table decides what that means
    return changed(progress, news.container, () => ({ hasGone: true }));
  }
  return settled(
    changed(recreating(progress), news.container, ({ originalId, targetId = originalId }) =>
      result.kind === 'failed'
        ? {
            phase: 'Failed',
            message: shortened(recreateMessage.killFailed(result.message), mostBytes.containerMessage),
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

function withoutRuntime(progress: Progress, why: string): Progress {
  return ended(progress, { kind: 'noRuntime', message: shortened(why, mostBytes.containerMessage) });
}

/** Where nobody waits for the next instance, a container is done with the one that it had. */
function downed(order: RecreateOrder, container: ContainerProgress): ContainerProgress {
  return order.stopOnly && container.phase === 'Recreating' ? { ...container, isDown: true } : container;
}

function afterAwait(progress: Progress, news: Extract<News, { kind: 'awaitEnded' }>): Progress {
  const { result } = news;
  if (result.kind === 'podGone') return progress; // the API server has the last word on that: the request is looked at
  const container = progress.containers.find(({ name }) => name === news.container);
  // a container that was missing has appeared: the table decides what it means
  if (container?.phase === 'Pending') return changed(progress, news.container, () => ({ seen: false }));
  if (result.kind === 'changed') return changed(progress, news.container, () => ({ isYoung: result.isYoung }));
  return settled(
    changed(progress, news.container, () => ({
      phase: 'Succeeded',
      replacement: { containerId: result.containerId, restartCount: result.restartCount },
    })),
  );
}

function obeyed(progress: Progress, command: Command): Progress {
  const known = { ...progress, commands: [...progress.commands, command] };
  if (progress.end) return known;
  const { parked: _, ...free } = known;
  switch (command.name) {
    case 'pause':
      return { ...known, paused: true };
    case 'resume': {
      const { pauseNote: __, ...resumed } = known;
      return outdated({ ...resumed, paused: false });
    }
    case 'abort':
      return ended(known, { kind: 'aborted', command: command.id });
    case 'retry':
      return outdated({ ...free, containers: free.containers.map((container) => retried(container, command)) });
    case 'skip': {
      const target = command.target === undefined ? current(progress) : named(progress, command.target);
      if (target === undefined || isSettled(target)) return known;
      return settled(changed(free, target.name, () => ({ skippedBy: command.by ?? pendingName(command.id) })));
    }
  }
}

/** A container that could not be stopped, as if nobody had tried. A recorded target stays: only that one may be stopped. */
function retried(container: ContainerProgress, { target }: Command): ContainerProgress {
  if (container.phase !== 'Failed' || (target !== undefined && target !== container.name)) return container;
  const { message: _, targetId, ...rest } = container;
  const recorded = container.targetRecorded && targetId !== undefined ? { targetId } : {};
  return { ...rest, ...recorded, phase: 'Pending', seen: false };
}

/** The container that holds the request, as the status tells it. */
function current(progress: Progress): ContainerProgress | undefined {
  const { inFlight, containers } = progress;
  if (inFlight.stopping !== undefined) return named(progress, inFlight.stopping);
  const at = walk(progress);
  if (at.kind === 'missing' || at.kind === 'stop') return at.container;
  return containers.find((container) => !isSettled(container));
}

function named({ containers }: Progress, name: string): ContainerProgress | undefined {
  return containers.find((container) => container.name === name);
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
  };
}

function stateOf(container: ContainerProgress): ContainerRecreateState {
  const message = container.skippedBy !== undefined ? skippedMessage(container.skippedBy) : container.message;
  return {
    name: container.name,
    phase: container.phase,
    ...(message ? { message } : {}),
    ...(container.isKilled ? { isKilled: true } : {}),
    ...(container.targetRecorded && container.targetId ? { targetContainerID: container.targetId } : {}),
  };
}

const skippedPrefix = 'skipped by ';

/** What the state of a container says that somebody had left out. */
export function skippedMessage(by: string): string {
  return shortened(`${skippedPrefix}${nameOf(by)}`, mostBytes.containerMessage);
}

/** Who had this container left out, as its state tells it; undefined when nobody had. */
export function skipperOf(state: ContainerRecreateState): string | undefined {
  const isSkipped = state.phase !== 'Succeeded' && state.message?.startsWith(skippedPrefix);
  return isSkipped ? state.message?.slice(skippedPrefix.length) : undefined;
}

function messageOf(end: Exclude<End, { kind: 'withdrawn' }>, progress: Progress): string {
  switch (end.kind) {
    case 'settled':
      return '';
    case 'podGone':
      return recreateMessage.podGone;
    case 'nodeSilent':
      return recreateMessage.nodeSilent;
    case 'deadline':
      return recreateMessage.deadlineExceeded;
    case 'noRuntime':
      return recreateMessage.runtimeNotFound(end.message);
    case 'aborted':
      return recreateMessage.aborted(abortedBy(end, progress));
  }
}

function conditionOf(end: Exclude<End, { kind: 'withdrawn' }>, progress: Progress): RecreateOutcome {
  const outcome = outcomeOf(end, progress);
  return { ...outcome, message: shortened(outcome.message, mostBytes.outcome) };
}

function outcomeOf(end: Exclude<End, { kind: 'withdrawn' }>, progress: Progress): RecreateOutcome {
  const { containers, order } = progress;
  const isDone = ({ phase, isDown }: ContainerProgress) => phase === 'Succeeded' || isDown;
  const succeeded = containers.filter(isDone).length;
  const open = containers.filter((container) => !isDone(container)).map(({ name }) => `"${name}"`);
  const verb = order.stopOnly ? 'stopped' : 'recreated';
  const done = `${succeeded} of ${containers.length} containers of pod "${order.pod}" were ${verb}`;
  const left = open.length > 0 ? `; not ${listed(open)}` : '';
  switch (end.kind) {
    case 'settled': {
      const failed = containers.filter(({ phase, skippedBy }) => phase === 'Failed' && skippedBy === undefined);
      const why = failed.map(({ name, message }) => `; "${name}": ${message ?? ''}`).join('');
      if (failed.length === 0 || order.failurePolicy === 'Ignore') {
        const reason = order.stopOnly ? 'ContainersStopped' : 'ContainersRecreated';
        return { type: 'Complete', reason, message: `${done}${left}${why}` };
      }
      return { type: 'Failed', reason: 'StopFailed', message: `${done}${left}${why}` };
    }
    case 'podGone':
      return { type: 'Failed', reason: 'PodGone', message: `${done}, then the pod went away${left}` };
    case 'nodeSilent':
      return {
        type: 'Failed',
        reason: 'NodeSilent',
        message: `No daemon answered for the node of pod "${order.pod}"${left}`,
      };
    case 'deadline':
      return { type: 'Failed', reason: 'DeadlineExceeded', message: `${done} before activeDeadlineSeconds${left}` };
    case 'noRuntime':
      return { type: 'Failed', reason: 'RuntimeNotFound', message: `${end.message}${left}` };
    case 'aborted':
      return { type: 'Failed', reason: 'Aborted', message: `Aborted by ${abortedBy(end, progress)}: ${done}${left}` };
  }
}

/** The first ten, and how many more. */
function listed(names: readonly string[]): string {
  const more = names.length > 10 ? ` and ${names.length - 10} more` : '';
  return `${names.slice(0, 10).join(', ')}${more}`;
}

function abortedBy(end: Extract<End, { kind: 'aborted' }>, progress: Progress): string {
  return progress.commands.find(({ id }) => id === end.command)?.by ?? 'an operator';
}

/** Completes a walk that has come to its end. */
function settled(progress: Progress): Progress {
  return !progress.end && walk(progress).kind === 'over' ? ended(progress, { kind: 'settled' }) : progress;
}

/** The first end stands: what happens later cannot change how the request went. */
function ended(progress: Progress, end: End): Progress {
  return progress.end ? progress : { ...progress, end };
}

/** CRR-31: the node has said something about the containers. */
function recreating(progress: Progress): Progress {
  return isAnswered(progress) ? progress : { ...progress, phase: 'Recreating' };
}

/** The node has answered. */
function answered(progress: Progress): Progress {
  const { runtimeAway: _, ...rest } = progress;
  return { ...rest, nodeSilent: false };
}

/**
 * Time has passed since the node was asked. A forced stop takes the instance that runs when its turn comes (CRR-36), so
 * the node is asked again before one is chosen; the others are told apart by the instance of the request's creation.
 */
function outdated(progress: Progress): Progress {
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

function isSettled({ phase, skippedBy, isDown = false }: ContainerProgress): boolean {
  return phase === 'Succeeded' || phase === 'Failed' || skippedBy !== undefined || isDown;
}

function unseen(progress: Progress): string[] {
  return progress.containers.filter((container) => !container.seen && !isSettled(container)).map(({ name }) => name);
}

function changed(
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

function idle(
  progress: Progress,
  during: 'look' | 'record' | 'stop' | 'await' | 'drain',
  container?: string,
): Progress {
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

/** Stands for a name that is still being looked up. */
function pendingName(id: number): string {
  return `#${id}`;
}

function nameOf(skippedBy: string): string {
  return skippedBy.startsWith('#') ? 'an operator' : skippedBy;
}

/** The same wait keeps the time at which it began. */
export function waitingSince(
  before: WaitingFor | undefined,
  now: Wait | undefined,
  at: string,
): WaitingFor | undefined {
  if (!now) return undefined;
  const same = before !== undefined && before.reason === now.reason && before.blockedBy.join() === now.blockedBy.join();
  return { ...now, since: same ? before.since : at };
}
