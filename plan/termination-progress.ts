/**
 * What the operation that terminates the sidecars of a pod remembers between two looks, as a fold: commands of
 * operators, and failure counts. Everything else is in the pod, and `nextTermination` decides based on it.
 */
import type { CommandAnswer, CommandName } from '../api/engine/operations.ts';
import { type TerminationStatus, terminationWaits } from '../api/job-sidecar-termination.ts';
import { type Wait, waitFor } from './decision.ts';
import type { SidecarDecision, SidecarStep } from './terminate-sidecars.ts';
import { listed, shortened } from './text-size.ts';

export interface TerminationProgress {
  /** The number of external events. A look that began with fewer may be older than the last of them. */
  readonly received: number;
  /** Absent: not paused. Empty until the sender is known. */
  readonly pausedBy?: string;
  /** Absent: not aborted. Empty until the sender is known. */
  readonly abortedBy?: string;
  /** Containers to skip; no target means the one that is waited for. */
  readonly skips: readonly SkipCommand[];
  /** An operator has requested an immediate retry. */
  readonly mayTryAgain: boolean;
  /** Whether a pause in the status counts: the status stores it in case a run is lost. */
  readonly takesPauseFromStatus: boolean;
  /** Failed stops: each pause after one is longer than the previous one. */
  readonly failures: number;
  /** Rejected steps in a row: each pause after one is longer than the previous one. */
  readonly refusals: number;
  /** The number of looks in a row without an event afterwards. */
  readonly quietLooks: number;
  /** When what failed is tried again; absent while nothing has. */
  readonly tryAgainAtMs?: number;
  /** The last step that was due, and how many times in a row it has been due since then. */
  readonly lastStep?: SidecarStep;
  readonly repeats: number;
}

/** A command `skip`. */
export interface SkipCommand {
  readonly id: number;
  readonly target?: string | undefined;
}

export type TerminationEvent =
  /** External events. */
  | { readonly kind: 'changed' }
  | {
      readonly kind: 'command';
      readonly id?: number;
      readonly name: CommandName;
      readonly target?: string | undefined;
    }
  | { readonly kind: 'commandIdentified'; readonly name: CommandName; readonly by: string }
  | { readonly kind: 'cancelled'; readonly by: string }
  /** Events of the operation itself. */
  | { readonly kind: 'looked'; readonly status: TerminationStatus }
  | { readonly kind: 'skipsReported' }
  | { readonly kind: 'waited'; readonly isQuiet: boolean }
  | { readonly kind: 'tryAgainReported'; readonly atMs: number }
  | { readonly kind: 'pauseEnded' }
  | { readonly kind: 'stepDue'; readonly step: SidecarStep }
  | { readonly kind: 'stepEnded'; readonly isRefused: boolean };

/** First and longest pause before a stop without effect is retried (JST-30). */
const tryAgainMs = { first: 10_000, most: 300_000 } as const;

/** Changes are signalled; these looks find missed ones. */
const lookAgainMs = { first: 60_000, most: 600_000 } as const;

/** The progress at the start of a run, with what the previous run has handed over. */
export function newTermination(
  before: Partial<Pick<TerminationProgress, 'failures' | 'refusals'>>,
): TerminationProgress {
  const { failures = 0, refusals = 0 } = before;
  return {
    received: 0,
    skips: [],
    mayTryAgain: false,
    takesPauseFromStatus: true,
    failures,
    refusals,
    quietLooks: 0,
    repeats: 0,
  };
}

/** Applies one event to the progress. */
export function applyTerminationEvent(progress: TerminationProgress, event: TerminationEvent): TerminationProgress {
  switch (event.kind) {
    case 'changed':
      return withReceived(progress);
    case 'command':
      return applyCommand(withReceived(progress), event);
    case 'commandIdentified':
      return {
        ...withReceived(progress),
        ...(event.name === 'pause' && progress.pausedBy === '' && { pausedBy: event.by }),
        ...(event.name === 'abort' && progress.abortedBy === '' && { abortedBy: event.by }),
      };
    case 'cancelled':
      return { ...withReceived(progress), abortedBy: event.by };
    case 'looked': {
      const isPaused = progress.takesPauseFromStatus && event.status.waitingFor?.reason === 'Paused';
      return { ...(isPaused ? withPause(progress) : progress), takesPauseFromStatus: false };
    }
    case 'skipsReported':
      return { ...progress, skips: [] };
    case 'waited':
      return { ...progress, quietLooks: event.isQuiet ? progress.quietLooks + 1 : 0 };
    case 'tryAgainReported': {
      const pauseMs = Math.min(tryAgainMs.first * 2 ** progress.failures, tryAgainMs.most);
      return { ...progress, tryAgainAtMs: progress.tryAgainAtMs ?? event.atMs + pauseMs };
    }
    case 'pauseEnded':
      return { ...progress, failures: progress.failures + 1 };
    case 'stepDue': {
      const { tryAgainAtMs: _, ...due } = progress;
      const repeats = isSameStep(event.step, progress.lastStep) ? progress.repeats + 1 : 0;
      return { ...due, mayTryAgain: false, lastStep: event.step, repeats };
    }
    case 'stepEnded':
      return { ...progress, refusals: event.isRefused ? progress.refusals + 1 : 0 };
  }
}

function applyCommand(
  progress: TerminationProgress,
  { id = 0, name, target }: Extract<TerminationEvent, { kind: 'command' }>,
): TerminationProgress {
  switch (name) {
    case 'pause':
      return withPause(progress);
    case 'resume': {
      const { pausedBy: _, ...running } = progress;
      return { ...running, takesPauseFromStatus: false };
    }
    case 'retry':
      return { ...progress, mayTryAgain: true };
    case 'skip':
      return { ...progress, skips: [...progress.skips, { id, target }] };
    case 'abort':
      return { ...progress, abortedBy: progress.abortedBy ?? '' };
    default:
      return progress;
  }
}

function withReceived(progress: TerminationProgress): TerminationProgress {
  return { ...progress, received: progress.received + 1 };
}

function withPause(progress: TerminationProgress): TerminationProgress {
  return { ...progress, pausedBy: progress.pausedBy ?? '' };
}

function isSameStep(left: SidecarStep, right: SidecarStep | undefined): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

/** What operators want to be done before anything else; undefined when there is nothing. */
export type TerminationOrder =
  | {
      readonly kind: 'skip';
      /** All that are skipped then. */
      readonly skipped: readonly string[];
      /** What becomes of each command, by its ID. */
      readonly answers: readonly { readonly id: number; readonly answer: CommandAnswer }[];
    }
  | { readonly kind: 'abort' }
  | { readonly kind: 'pause'; readonly waitingFor: Wait };

/** The first order to carry out. `sidecars`: the names of all that the pod has; absent: unknown. */
export function nextOrder(
  { skips, abortedBy, pausedBy }: TerminationProgress,
  decision: Exclude<SidecarDecision, { kind: 'done' }>,
  status: TerminationStatus,
  sidecars?: readonly string[],
): TerminationOrder | undefined {
  if (skips.length > 0) return orderToSkip(skips, decision, status, sidecars);
  if (abortedBy !== undefined) return { kind: 'abort' };
  if (pausedBy === undefined) return undefined;
  const by = pausedBy === '' ? '' : `; paused by ${pausedBy}`;
  return { kind: 'pause', waitingFor: waitFor('Paused', [], `${terminationWaits.Paused}${by}`) };
}

/** The containers in the status come first. */
function orderToSkip(
  skips: readonly SkipCommand[],
  decision: Exclude<SidecarDecision, { kind: 'done' }>,
  status: TerminationStatus,
  sidecars: readonly string[] | undefined,
): TerminationOrder {
  const blocked = 'step' in decision ? decision.step.containers : containersIn(decision.waitingFor);
  const skipped = new Set(status.skipped);
  const answers = skips.map(({ id, target }) => {
    const name = target ?? blocked.find((one) => !skipped.has(one));
    const refused = name === undefined ? nothingToSkip : refusalToSkip(name, skipped, sidecars);
    if (name !== undefined && refused === undefined) skipped.add(name);
    return { id, answer: refused === undefined ? { target: name } : { refused } };
  });
  return { kind: 'skip', skipped: [...skipped], answers };
}

const nothingToSkip = 'it has no target, and no sidecar is waited for';

function refusalToSkip(
  name: string,
  skipped: ReadonlySet<string>,
  sidecars: readonly string[] | undefined,
): string | undefined {
  if (skipped.has(name)) return `sidecar "${name}" is skipped already`;
  if (sidecars === undefined || sidecars.includes(name)) return undefined;
  return `container "${shortened(name, 150)}" is not a sidecar that ends with the pod, which has ${listed(sidecars, 150)}`;
}

/** What becomes of a command other than `skip`, for its Event. */
export function answerToTermination(
  { pausedBy, takesPauseFromStatus }: TerminationProgress,
  name: CommandName,
): CommandAnswer {
  return name === 'resume' && pausedBy === undefined && !takesPauseFromStatus
    ? { refused: 'the termination of the sidecars is not paused' }
    : {};
}

function containersIn({ blockedBy }: Wait): readonly string[] {
  return blockedBy.flatMap((blocker) => (blocker.startsWith('container/') ? blocker.slice('container/'.length) : []));
}

/** The pause before the next look without an event. */
export function lookAgainPauseMs({ quietLooks }: TerminationProgress): number {
  return Math.min(lookAgainMs.first * 2 ** quietLooks, lookAgainMs.most);
}

/** The pause before a step that had no effect is repeated, whatever the reason is. */
export function repeatPauseMs({ repeats }: TerminationProgress): number {
  return repeats === 0 ? 0 : Math.min(1_000 * 2 ** repeats, lookAgainMs.first);
}
