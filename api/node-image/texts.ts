// The reasons and messages of NodeImages.

import { type WaitFacts, waitOf } from '../core/wait-of.ts';

/** Texts of `message`, verbatim OpenKruise's, because scripts compare them. */
export const pullMessage = {
  unanswered: 'node has not responded for a long time',
  deadlineExceeded: 'pulling exceeds the activeDeadlineSeconds',
  /** `by` as given by the operator, or the identity of the signal's sender. */
  aborted: (by: string) => `aborted by ${by}`,
  skipped: (by: string) => `skipped by ${by}`,
} as const;

/** Reasons of `status.waitingFor`, with what a person can do. */
export const pullWaits = {
  NodeSilent: 'Bring the node and its daemon back; a pull that the node does not answer within ten minutes fails',
  RuntimeUnreachable: 'Bring the container runtime of the node back; the pull then continues automatically',
  ApiUnreachable: 'Bring the API server back; the pull then continues automatically',
  BackingOff: 'Nothing to do: it is retried automatically, or at once after the signal retry',
  Pulling: 'Nothing to do: the node is pulling',
  Paused: 'Signal resume, or abort',
  Denied: 'Grant the missing permission or quota: it is retried automatically, or at once after the signal retry',
  Parked: 'Fix the rejected object or what rejects it: it is retried automatically, or at once after the signal retry',
  EngineSilent: 'Bring Temporal back; the pull then continues automatically',
  EngineNoWorkers: 'Bring the cluster workers back; the pull then continues automatically',
  EngineNoFleetWorker: 'Bring the leading watcher and Temporal together again; the pull then continues automatically',
  EngineNoDaemon: 'Bring the daemon of the node back; the pull then continues automatically',
  EngineStuck: 'Terminate its workflow; the pull then continues automatically',
} as const;
export type PullWaitReason = keyof typeof pullWaits;

/** A wait, with the remedy for its reason. */
export function pullWait(reason: PullWaitReason, facts: WaitFacts) {
  return waitOf(pullWaits, reason, facts);
}
