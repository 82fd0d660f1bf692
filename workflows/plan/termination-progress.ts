/**
 * What the operation that ends the sidecars of a pod remembers between two looks, as a fold: what operators want, and how
 * often something failed. All else stands on the pod, and `nextTermination` decides on that.
 */
import type { CommandName } from '../../api/engine/operations.ts';
import { type TerminationStatus, terminationWaits } from '../../api/job-sidecar-termination.ts';
import { type Wait, waitFor } from './decision.ts';
import type { SidecarDecision, SidecarStep } from './terminate-sidecars.ts';

export interface TerminationProgress {
  /** How many events came from outside. A look that began when there were fewer may be older than the last of them. */
  readonly received: number;
  /** Absent: not paused. Empty until it is known who did. */
  readonly pausedBy?: string;
  /** Absent: not aborted. Empty until it is known who did. */
  readonly abortedBy?: string;
  /** Containers to leave out; undefined stands for the one that is in the way. */
  readonly skips: readonly (string | undefined)[];
  /** An operator wants what failed to be tried again now. */
  readonly mayTryAgain: boolean;
  /** Whether a pause in the status counts: the status is what keeps it when a run is lost. */
  readonly takesPauseFromStatus: boolean;
  /** Stops that failed: each pause after one is longer than the one before. */
  readonly failures: number;
  /** Steps that were refused in a row: each pause after one is longer than the one before. */
  readonly refusals: number;
  /** Looks in a row after which nothing came. */
  readonly quietLooks: number;
  /** When what failed is tried again; absent while nothing has. */
  readonly tryAgainAtMs?: number;
  /** The last step that was due, and how often it has been due since without effect. */
  readonly lastStep?: SidecarStep;
  readonly repeats: number;
}

export type TerminationEvent =
  /** From outside. */
  | { readonly kind: 'changed' }
  | { readonly kind: 'command'; readonly name: CommandName; readonly target?: string | undefined }
  | { readonly kind: 'commandIdentified'; readonly name: CommandName; readonly by: string }
  | { readonly kind: 'cancelled'; readonly by: string }
  /** From the operation itself. */
  | { readonly kind: 'looked'; readonly status: TerminationStatus }
  | { readonly kind: 'skipsReported' }
  | { readonly kind: 'waited'; readonly isQuiet: boolean }
  | { readonly kind: 'tryAgainReported'; readonly atMs: number }
  | { readonly kind: 'pauseEnded' }
  | { readonly kind: 'stepDue'; readonly step: SidecarStep }
  | { readonly kind: 'stepEnded'; readonly isRefused: boolean };

/** First and longest pause before a stop that did not work is tried again (JST-30). */
const tryAgainMs = { first: 10_000, most: 300_000 } as const;

/** Changes are signalled; this finds those that were not. */
const lookAgainMs = { first: 60_000, most: 600_000 } as const;

/** Where a run begins, with what the run before has left. */
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

/** Folds one event into the progress. */
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

/** What operators want to be done before anything else; undefined when they want nothing. */
export type TerminationOrder =
  | { readonly kind: 'skip'; readonly skipped: readonly string[] }
  | { readonly kind: 'abort' }
  | { readonly kind: 'pause'; readonly waitingFor: Wait };

/** The first order that is to be obeyed. */
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

/** The containers to leave out, those that the status names already first. */
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

/** The pause before the next look, while nothing comes. */
export function lookAgainPauseMs({ quietLooks }: TerminationProgress): number {
  return Math.min(lookAgainMs.first * 2 ** quietLooks, lookAgainMs.most);
}

/** The pause before a step that had no effect: it is not repeated all the time, whatever the reason may be. */
export function repeatPauseMs({ repeats }: TerminationProgress): number {
  return repeats === 0 ? 0 : Math.min(1_000 * 2 ** repeats, lookAgainMs.first);
}
