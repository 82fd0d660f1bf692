/**
 * How the containers of one pod get the environment that its labels and annotations ask for.
 *
 * There is no request and no walk: whatever runs with an old environment is stopped, all at once, and the kubelet starts
 * it anew. The pod itself says which instances these are, so each look decides afresh; all that is remembered is what
 * this run has stopped already, since the pod shows that a moment later, and what a person has said.
 */
import { type Wait, waitFor } from './decision.ts';
import type { Command } from './recreate/model.ts';
import { shortened } from './text-size.ts';

/** An instance that runs with an old environment. */
export interface StaleInstance {
  readonly name: string;
  /** Prefix of the container ID, without `://`. */
  readonly runtime: string;
  /** Without `<runtime>://`. */
  readonly containerId: string;
}

/** What the pod shows. */
export type EnvironmentSeen =
  | { readonly kind: 'gone' }
  | {
      readonly kind: 'seen';
      readonly instances: readonly StaleInstance[];
      /** Whether there are more than these. */
      readonly more: boolean;
    };

/** Why a stop came to nothing, in words that people read as the reason of the wait. */
export type RefreshTrouble = 'NodeSilent' | 'RuntimeUnreachable' | 'StopFailed' | 'Denied' | 'Parked' | 'PodChanged';

export interface RefreshProgress {
  readonly pod: string;
  readonly pausedBy?: string;
  readonly aborted: boolean;
  /** Containers that a person wants to be left out. */
  readonly skipped: readonly string[];
  /** Container IDs. */
  readonly stopped: readonly string[];
  /** So far; each makes the pause before the next attempt longer. */
  readonly failures: number;
  /** Absent while the next attempt is due. */
  readonly trouble?: { readonly reason: RefreshTrouble; readonly message: string };
}

/** Something that has become known. */
export type RefreshEvent =
  | {
      readonly kind: 'command';
      readonly command: { readonly name: Command['name']; readonly by?: string; readonly target?: string };
    }
  /** The instance does not run any more, whoever stopped it. */
  | { readonly kind: 'stopped'; readonly containerId: string }
  | { readonly kind: 'failed'; readonly reason: RefreshTrouble; readonly message: string }
  /** The pause after a failure is over. */
  | { readonly kind: 'tryAgain' };

export type RefreshDecision =
  | { readonly kind: 'stop'; readonly instances: readonly StaleInstance[] }
  | {
      readonly kind: 'wait';
      readonly waitingFor: Wait;
      /** Absent: until there is an event. */
      readonly againInMs?: number;
    }
  | { readonly kind: 'done' };

/** First and longest pause after a failure; it doubles in between (ND-5.3). */
export const refreshRetryMs = { first: 3_000, most: 600_000 } as const;

/** Texts come from runtimes and people, and travel through histories. */
const mostMessageBytes = 700;

const unblocking: Readonly<Record<RefreshTrouble | 'Paused' | 'ContainersStarting', string>> = {
  Paused: 'Signal resume',
  NodeSilent: 'Bring back the daemon of the node, or delete the pod',
  RuntimeUnreachable: 'Fix the container runtime of the node',
  StopFailed: 'Fix the container runtime of the node, or delete the pod',
  Denied: 'Grant the missing permission or quota: it is retried automatically',
  Parked: 'Fix the rejected object or what rejects it',
  PodChanged: 'Nothing to do: the pod is read again',
  ContainersStarting: 'Nothing to do: the kubelet starts the containers that have been stopped',
};

/** Nothing done yet. */
export function newRefresh(pod: string): RefreshProgress {
  return { pod, aborted: false, skipped: [], stopped: [], failures: 0 };
}

/** Folds one event into the progress. */
export function applyRefreshEvent(progress: RefreshProgress, event: RefreshEvent): RefreshProgress {
  switch (event.kind) {
    case 'command':
      return applyCommand(progress, event.command);
    case 'stopped':
      return { ...progress, stopped: [...progress.stopped, event.containerId] };
    case 'failed': {
      const trouble = { reason: event.reason, message: shortened(event.message, mostMessageBytes) };
      return { ...progress, failures: progress.failures + 1, trouble };
    }
    case 'tryAgain':
      return withoutTrouble(progress);
  }
}

/** What is to be done about what the pod shows. */
export function nextRefresh(progress: RefreshProgress, seen: EnvironmentSeen): RefreshDecision {
  if (progress.aborted || seen.kind === 'gone') return { kind: 'done' };
  const left = seen.instances.filter(
    ({ name, containerId }) => !progress.skipped.includes(name) && !progress.stopped.includes(containerId),
  );
  if (left.length === 0 && !seen.more) return { kind: 'done' };

  const { pausedBy, trouble, failures, pod } = progress;
  const blockedBy = left.map(({ name }) => `container/${name}`);
  if (pausedBy !== undefined) {
    const by = pausedBy === '' ? '' : `; paused by ${pausedBy}`;
    return { kind: 'wait', waitingFor: waitFor('Paused', [], `${unblocking.Paused}${by}`) };
  }
  if (trouble) {
    const againInMs = Math.min(refreshRetryMs.first * 2 ** (failures - 1), refreshRetryMs.most);
    const blocked = trouble.reason === 'NodeSilent' ? [`pod/${pod}`] : blockedBy;
    const unblock = `${unblocking[trouble.reason]}; ${trouble.message}`;
    return { kind: 'wait', waitingFor: waitFor(trouble.reason, blocked, unblock), againInMs };
  }
  // a pod of so many stale containers that a look does not hold them all: the next shows the rest
  if (left.length === 0) {
    const waitingFor = waitFor('ContainersStarting', [`pod/${pod}`], unblocking.ContainersStarting);
    return { kind: 'wait', waitingFor, againInMs: refreshRetryMs.first };
  }
  return { kind: 'stop', instances: left };
}

function applyCommand(
  progress: RefreshProgress,
  { name, by = '', target }: Extract<RefreshEvent, { kind: 'command' }>['command'],
): RefreshProgress {
  switch (name) {
    case 'pause':
      return { ...progress, pausedBy: by };
    case 'resume': {
      const { pausedBy: _, ...running } = progress;
      return running;
    }
    case 'retry':
      return { ...withoutTrouble(progress), failures: 0, skipped: [] };
    case 'skip':
      // without a target there is nothing that it could mean: all of them are stopped at once
      return target === undefined ? progress : { ...progress, skipped: [...progress.skipped, target] };
    case 'abort':
      return { ...progress, aborted: true };
  }
}

function withoutTrouble(progress: RefreshProgress): RefreshProgress {
  const { trouble: _, ...free } = progress;
  return free;
}
