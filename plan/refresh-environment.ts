/**
 * How the containers of one pod get the environment that its labels and annotations define.
 *
 * There is no request and no order: all instances with an old environment are stopped at once, and the kubelet starts
 * the next ones. The instances are derived from the pod, so each look decides afresh. Only two things are remembered:
 * what this run has stopped already, since the pod shows that later, and the commands of operators.
 */
import type { CommandAnswer } from '../api/engine/operations.ts';
import { type Wait, waitFor } from './decision.ts';
import type { Command } from './recreate/model.ts';
import { listed, shortened } from './text-size.ts';

/** An instance that runs with an old environment. */
export interface StaleInstance {
  readonly name: string;
  /** Prefix of the container ID, without `://`. */
  readonly runtime: string;
  /** Without `<runtime>://`. */
  readonly containerId: string;
}

/** The environment of a pod, as a look found it. */
export type EnvironmentSeen =
  | { readonly kind: 'gone' }
  | {
      readonly kind: 'seen';
      readonly instances: readonly StaleInstance[];
      /** Whether there are more than these. */
      readonly more: boolean;
    };

/** Why a stop had no effect; the reason of the wait. */
export type RefreshTrouble = 'NodeSilent' | 'RuntimeUnreachable' | 'StopFailed' | 'Denied' | 'Parked' | 'PodChanged';

export interface RefreshProgress {
  readonly pod: string;
  readonly pausedBy?: string;
  readonly aborted: boolean;
  /** Containers that an operator has skipped. */
  readonly skipped: readonly string[];
  /** Container IDs. */
  readonly stopped: readonly string[];
  /** Failed stops so far; each makes the pause before the next attempt longer. */
  readonly failures: number;
  /** Absent while the next attempt is due. */
  readonly trouble?: { readonly reason: RefreshTrouble; readonly message: string };
}

/** An event. */
export type RefreshEvent =
  | {
      readonly kind: 'command';
      readonly command: { readonly name: Command['name']; readonly by?: string; readonly target?: string };
    }
  /** The instance no longer runs, whoever stopped it. */
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

/** Texts come from runtimes and people, and are stored in histories. */
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

/** Applies one event to the progress. */
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

/** The next step for a pod in this state. */
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
  // a pod with more stale containers than fit into a look: the next look contains the rest
  if (left.length === 0) {
    const waitingFor = waitFor('ContainersStarting', [`pod/${pod}`], unblocking.ContainersStarting);
    return { kind: 'wait', waitingFor, againInMs: refreshRetryMs.first };
  }
  return { kind: 'stop', instances: left };
}

/** What becomes of a command, for its Event. */
export function answerToRefresh(
  { pausedBy, skipped, trouble }: RefreshProgress,
  { name, target }: Extract<RefreshEvent, { kind: 'command' }>['command'],
  seen: EnvironmentSeen,
): CommandAnswer {
  const stale = seen.kind === 'seen' ? [...new Set(seen.instances.map((instance) => instance.name))] : [];
  const isMore = seen.kind === 'seen' && seen.more;
  switch (name) {
    case 'pause':
    case 'abort':
      return {};
    case 'resume':
      return pausedBy === undefined ? { refused: 'the refresh is not paused' } : {};
    case 'retry': {
      const again = skipped.filter((container) => target === undefined || container === target);
      if (target !== undefined && again.length === 0 && trouble === undefined) {
        return { refused: `container "${target}" is not skipped${ofWhich('skipped', skipped)}` };
      }
      return again.length > 0 ? { target: listed(again, 200) } : {};
    }
    case 'skip':
      if (target === undefined) {
        return { refused: `all containers are restarted at once, so it needs a target${ofWhich('left', stale)}` };
      }
      if (skipped.includes(target)) return { refused: `container "${target}" is skipped already` };
      if (stale.includes(target) || isMore) return {};
      return { refused: `container "${target}" does not run with an old environment${ofWhich('left', stale)}` };
  }
}

function ofWhich(what: string, names: readonly string[]): string {
  return names.length === 0 ? '' : `; ${what}: ${listed(names, 200)}`;
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
      return {
        ...withoutTrouble(progress),
        failures: 0,
        skipped: target === undefined ? [] : progress.skipped.filter((container) => container !== target),
      };
    case 'skip':
      // a skip without a target has no meaning: all of them are stopped at once
      return target === undefined ? progress : { ...progress, skipped: [...progress.skipped, target] };
    case 'abort':
      return { ...progress, aborted: true };
  }
}

function withoutTrouble(progress: RefreshProgress): RefreshProgress {
  const { trouble: _, ...free } = progress;
  return free;
}
