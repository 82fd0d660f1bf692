/**
 * How far a ContainerRecreateRequest has come, as a plain value.
 *
 * A request is a walk over its containers in list order (CRR-36…41). A container that still runs the instance it ran
 * when the request was made is stopped; the kubelet starts the next instance; the container has succeeded when that
 * instance is ready and has run long enough. Stops never overlap (CRR-40): an ordered request also waits for each
 * container to succeed before it goes on, an unordered one lets the starts overlap.
 *
 * The whole walk is a fold. `applyEvent` (events.ts) takes what has become known into the progress, `nextActions`
 * (next.ts) says what should be under way now, `recreateStatus` (status.ts) says what is reported to users. None of them
 * knows Temporal, the API server or a clock.
 */
import type {
  ContainerRecreatePhase,
  FailurePolicy,
  RecreatePhase,
} from '../../../api/container-recreate-request/types.ts';
import type { RefusalReason } from '../../../api/core/failure.ts';

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
  /** What the status said about a pause that an earlier run has received. */
  readonly pauseNote?: string;
  readonly commands: readonly Command[];
  /** A refusal that a person has to fix before the step is tried again. */
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

/** What a status tells of one container. */
export type ContainerBefore = Omit<
  ContainerProgress,
  'seen' | 'hasGone' | 'targetRecorded' | 'isYoung' | 'replacement' | 'isDown'
>;

/** How many containers one look at the node covers: their IDs have to fit into a history event. */
export const lookWindow = 12;

/** A stop that is over sooner is reported together with what follows it, and the node is not asked whether it answers. */
export const momentMs = 250;

/** In JSON; texts of containers come from runtimes and people, and travel through histories. */
export const containerMessageBytes = 700;

/** Where the walk stands: what the next stop would be, or why there is none. */
export type Position =
  | { readonly kind: 'unseen'; readonly container: ContainerProgress }
  | { readonly kind: 'missing'; readonly container: ContainerProgress }
  | { readonly kind: 'stop'; readonly container: ContainerProgress }
  | { readonly kind: 'hold' }
  | { readonly kind: 'over' };

export function positionIn(progress: Progress): Position {
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

/** Whether nothing more happens to a container. */
export function isSettled({ phase, skippedBy, isDown = false }: ContainerProgress): boolean {
  return phase === 'Succeeded' || phase === 'Failed' || skippedBy !== undefined || isDown;
}

/** CRR-12, CRR-31: whether anybody on the node has ever said anything about this request. */
export function isAnswered({ phase }: Progress): boolean {
  return phase === 'Recreating' || phase === 'Completed';
}

/** Whether all there is to tell of is a stop that has only just begun: most are over before anybody has read of them. */
export function isMomentary({ inFlight: { stopping }, longStop, end }: Progress): boolean {
  return stopping !== undefined && stopping !== longStop && end === undefined;
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

export function containerNamed({ containers }: Progress, name: string): ContainerProgress | undefined {
  return containers.find((container) => container.name === name);
}

/** Stands for a name that is still being looked up. */
export function unidentifiedSkipper(id: number): string {
  return `#${id}`;
}
