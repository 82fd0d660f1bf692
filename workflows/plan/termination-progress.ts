/**
 * What the operation that terminates the sidecars of a pod remembers between two looks, as a fold: commands of
 * operators, and failure counts. Everything else is in the pod, and `nextTermination` decides based on it.
 */
import type { CommandName } from '../../api/engine/operations.ts';
import { type TerminationStatus, terminationWaits } from '../../api/job-sidecar-termination.ts';
import { type Wait, waitFor } from './decision.ts';
import type { SidecarDecision, SidecarStep } from './terminate-sidecars.ts';

export interface TerminationProgress {
  /** The number of external events. A look that began with fewer may be older than the last of them. */
  readonly received: number;
  /** Absent: not paused. Empty until the sender is known. */
  readonly pausedBy?: string;
  /** Absent: not aborted. Empty until the sender is known. */
  readonly abortedBy?: string;
  /** Containers to skip; undefined means the one that is waited for. */
  readonly skips: readonly (string | undefined)[];
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

export type TerminationEvent =
  /** External events. */
  | { readonly kind: 'changed' }
  | { readonly kind: 'command'; readonly name: CommandName; readonly target?: string | undefined }
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
  { name, target }: Extract<TerminationEvent, { kind: 'command' }>,
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
      return { ...progress, skips: [...progress.skips, target] };
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
  | { readonly kind: 'skip'; readonly skipped: readonly string[] }
  | { readonly kind: 'abort' }
  | { readonly kind: 'pause'; readonly waitingFor: Wait };

/** The first order to carry out. */
export function nextOrder(
  { skips, abortedBy, pausedBy }: TerminationProgress,
  decision: Exclude<SidecarDecision, { kind: 'done' }>,
  status: TerminationStatus,
): TerminationOrder | undefined {
  if (skips.length > 0) return { kind: 'skip', skipped: withSkips(skips, decision, status) };
  if (abortedBy !== undefined) return { kind: 'abort' };
  if (pausedBy === undefined) return undefined;
  const by = pausedBy === '' ? '' : `; paused by ${pausedBy}`;
  return { kind: 'pause', waitingFor: waitFor('Paused', [], `${terminationWaits.Paused}${by}`) };
}

/** The containers to skip, those in the status first. */
function withSkips(
  skips: TerminationProgress['skips'],
  decision: Exclude<SidecarDecision, { kind: 'done' }>,
  status: TerminationStatus,
): readonly string[] {
  const blocked = 'step' in decision ? decision.step.containers : containersIn(decision.waitingFor);
  const skipped = new Set(status.skipped);
  for (const target of skips) {
    const name = target ?? blocked.find((one) => !skipped.has(one));
    if (name !== undefined) skipped.add(name);
  }
  return [...skipped];
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
