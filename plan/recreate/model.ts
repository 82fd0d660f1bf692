/**
 * The progress of a ContainerRecreateRequest, as a plain value.
 *
 * A request is a walk over its containers in list order (CRR-36…41). A container that still runs the instance from the
 * creation of the request is stopped; the kubelet starts the next instance; the container has succeeded when that
 * instance is ready and has run long enough. Stops never overlap (CRR-40): an ordered request also waits for each
 * container to succeed before it continues, an unordered one lets the starts overlap.
 *
 * The whole walk is a fold. `applyEvent` (events.ts) applies an event to the progress, `nextActions` (next.ts) returns
 * what should be in progress now, `recreateStatus` (status.ts) returns what is reported to users. None of them uses
 * Temporal, the API server or a clock.
 */
import type {
  ContainerRecreatePhase,
  FailurePolicy,
  RecreatePhase,
} from '../../api/container-recreate-request/types.ts';
import type { RefusalReason } from '../../api/core/failure.ts';

/** The parts of the request that the walk needs. */
export interface RecreateOrder {
  readonly request: string;
  readonly pod: string;
  readonly ordered: boolean;
  readonly force: boolean;
  readonly failurePolicy: FailurePolicy;
  readonly graceSeconds: number;
  readonly minStartedSeconds: number;
  /** Absent: the pod stays in service until the stop. 0: it is taken out of service, without a wait. */
  readonly unreadyGraceSeconds?: number;
  /** The restart policy of the pod is `Never`, or the pod has ended: what is stopped stays stopped (CRR-46). */
  readonly neverRestarts?: boolean;
  /** Stopped containers are not expected to restart: a container is done once it has exited. */
  readonly stopOnly?: boolean;
}

/** The progress of one container of the request. */
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
  /** Whether the recorded target is in the status, for a run that continues after a crash. */
  readonly targetRecorded?: boolean;
  /** False until the node has reported what runs, and again when that report is too old to choose an instance. */
  readonly seen: boolean;
  /** The instance from the creation of the request was gone before its stop, so the node has to report what runs. */
  readonly hasGone?: boolean;
  /** Who skipped it. */
  readonly skippedBy?: string;
  /** The new instance is ready, but has not run for long enough (CRR-33). */
  readonly isYoung?: boolean;
  /** Why the kubelet does not start the next instance. Absent: it has not said so, or the instance runs. */
  readonly trouble?: string;
  /** It was stopped or is gone, and the next instance is not awaited. */
  readonly isDown?: boolean;
  /** The next instance. */
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
  /** The request itself is gone: there is no status to write. */
  | { readonly kind: 'withdrawn' };

export interface Progress {
  readonly order: RecreateOrder;
  /** The phase in the status: "" until the node has answered. */
  readonly phase: RecreatePhase;
  readonly containers: readonly ContainerProgress[];
  readonly nodeSilent: boolean;
  /** Why the node cannot report what runs; absent when it can. */
  readonly runtimeAway?: string;
  readonly drain: 'none' | 'due' | 'running' | 'done';
  readonly paused: boolean;
  /** The note in the status about a pause that an earlier run has received. */
  readonly pauseNote?: string;
  readonly commands: readonly Command[];
  /** A rejection that a person has to fix before the step is retried. */
  readonly parked?: { readonly reason: RefusalReason; readonly message: string };
  readonly inFlight: {
    readonly looking: boolean;
    readonly recording?: string;
    readonly stopping?: string;
    readonly awaiting: readonly string[];
  };
  /** The container whose stop has taken longer than `momentMs`. */
  readonly longStop?: string;
  readonly end?: End;
}

/** What a status contains about one container. */
export type ContainerBefore = Omit<
  ContainerProgress,
  'seen' | 'hasGone' | 'targetRecorded' | 'isYoung' | 'trouble' | 'replacement' | 'isDown'
>;

/** How many containers one look at the node covers: their IDs have to fit into a history event. */
export const lookWindow = 12;

/** A shorter stop is reported together with what follows it, and the node is not asked whether it answers. */
export const momentMs = 250;

/** As JSON; texts of containers come from runtimes and people, and are stored in histories. */
export const containerMessageBytes = 700;

/** The position of the walk: the next stop, or why there is none. */
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

/** CRR-12, CRR-31: whether the node has ever reported anything about this request. */
export function isAnswered({ phase }: Progress): boolean {
  return phase === 'Recreating' || phase === 'Completed';
}

/** Whether the only news is a stop that has just begun: most stops end before anybody reads of them. */
export function isMomentary({ inFlight: { stopping }, longStop, end }: Progress): boolean {
  return stopping !== undefined && stopping !== longStop && end === undefined;
}

/** Whether nothing is left to do, including waits for a stop in progress and for the name of an operator. */
export function isOver(progress: Progress): boolean {
  const { end, inFlight } = progress;
  return end !== undefined && inFlight.stopping === undefined && (end.kind === 'withdrawn' || allNamed(progress));
}

/** Whether the sender of each command is known. */
export function allNamed({ commands }: Progress): boolean {
  return commands.every(({ by }) => by !== undefined);
}

export function containerNamed({ containers }: Progress, name: string): ContainerProgress | undefined {
  return containers.find((container) => container.name === name);
}

/** A placeholder for a name that is being looked up. */
export function unidentifiedSkipper(id: number): string {
  return `#${id}`;
}
