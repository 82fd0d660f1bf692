// The reasons and messages of ImagePullJobs and ImageListPullJobs.

import { blockedByLimit, type WaitingFor } from '../engine/waiting-for.ts';

/** What an operator has commanded, as conditions; beside them stand `Complete` and `Failed`. */
export const pullJobCondition = { paused: 'Paused', retrying: 'Retrying', aborted: 'Aborted' } as const;

/** Reasons of `Complete`. */
export const pullJobCompleteReasons = ['ImagePulled'] as const;

/** Reasons of `Failed`. */
export const pullJobFailedReasons = ['NodesFailed', 'DeadlineExceeded', 'Aborted'] as const;
export type PullJobFailedReason = (typeof pullJobFailedReasons)[number];

/** Texts of `status.message`, word for word as scripts know them. */
export const pullJobMessage = {
  noProgress: 'job is running, no progress',
  progress: (percent: number) => `job is running, progress ${percent.toFixed(1)}%`,
  completed: 'job has completed',
  deadlineExceeded: 'job exceeds activeDeadlineSeconds',
  aborted: (by: string, nodes: string) => `aborted by ${by}; the image is on ${nodes}`,
} as const;

/** Reasons of `status.waitingFor`, with what a person can do. */
export const pullJobWaits = {
  Pulling: 'Nothing to do: these nodes are pulling; the status of each NodeImage says what its node waits for',
  NodeSilent: 'Bring these nodes and their daemons back; a pull that a node does not answer within ten minutes fails',
  Paused: 'Signal resume, or abort',
  NoParallelism: 'Set parallelism above 0',
  NodesFull:
    'Nothing to do: these nodes pull the image once other pulls there have ended; or delete ImagePullJobs of the namespace, or NodeImage tags, that are no longer needed',
  NoNodes: 'Nothing to do: no node matches yet; a job of type Never continues when one does',
  EngineSilent: 'Bring Temporal back; the job then continues automatically',
  EngineStuck: 'Look at what these NodeImages wait for; the job continues when they do',
  JobRefused: 'Fix the spec: the API server rejects a job for one of the images',
  TooLarge: 'Make the field smaller; the job is then passed on to the nodes',
  SecretRefused: 'Fix what rejects the copies of the pull Secrets; they are retried automatically',
} as const;
export type PullJobWaitReason = keyof typeof pullJobWaits;

/** A wait, with the remedy that belongs to its reason. */
export function pullJobWait(
  reason: PullJobWaitReason,
  facts: { readonly blockedBy: readonly string[]; readonly since: string; readonly unblock?: string },
): WaitingFor & { readonly reason: PullJobWaitReason } {
  return {
    reason,
    blockedBy: facts.blockedBy.slice(0, blockedByLimit),
    blockedCount: facts.blockedBy.length,
    since: facts.since,
    unblock: facts.unblock ?? pullJobWaits[reason],
  };
}
