// The reasons and messages of ImagePullJobs and ImageListPullJobs.

import { endIn } from '../core/conditions.ts';
import { type WaitFacts, waitOf } from '../core/wait-of.ts';
import { endedBefore } from '../engine/operations.ts';

/** The conditions that commands of operators set; in addition there are `Complete` and `Failed`. */
export const pullJobCondition = { paused: 'Paused', retrying: 'Retrying', aborted: 'Aborted' } as const;

/** Reasons of `Failed`. */
export type PullJobFailedReason = 'NodesFailed' | 'DeadlineExceeded' | 'Aborted';

/** Texts of `status.message`, verbatim OpenKruise's, because scripts compare them. */
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
  NoNodeImages:
    'Nothing to do: a node gets its NodeImage when it has been ready for a while (--nodeimage-creation-delay, 30 s)',
  NoNodes: 'Nothing to do: no node matches yet; a job of type Never continues when one does',
  EngineSilent: 'Bring Temporal back; the job then continues automatically',
  EngineNoWorkers: 'Bring the cluster workers back; the job then continues automatically',
  EngineNoFleetWorker: 'Bring the leading watcher and Temporal together again; the job then continues automatically',
  EngineNoDaemon: 'Bring the daemon of the node back; the job then continues automatically',
  EngineStuck: 'Look at what these NodeImages wait for; the job continues when they do',
  JobRefused: 'Fix the spec: the API server rejects a job for one of the images',
  TooLarge: 'Make the field smaller; the job is then passed on to the nodes',
  SecretRefused: 'Fix what rejects the copies of the pull Secrets; they are retried automatically',
} as const;
export type PullJobWaitReason = keyof typeof pullJobWaits;

/** Why a command about a job that has ended is refused. */
export function endedPullJob({ status }: { readonly status?: { readonly conditions?: Conditions } }): string {
  const instead = 'create another job, or delete and create this one, to pull the image again';
  return endedBefore('job', { end: endIn(status?.conditions), instead });
}

type Conditions = Parameters<typeof endIn>[0];

/** A wait, with the remedy for its reason. */
export function pullJobWait(reason: PullJobWaitReason, facts: WaitFacts) {
  return waitOf(pullJobWaits, reason, facts);
}
