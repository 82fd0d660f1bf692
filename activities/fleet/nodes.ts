import type { ObjectRef } from '../../api/core/refs.ts';
import { imagePullJobs } from '../../api/image-pull-job/types.ts';
import type { NodesAnswer, Wave, WaveResult } from '../../plan/images/pull-waves.ts';
import type { CarriedBatches } from '../../plan/permits/in-flight.ts';
import type { NodesQuestion, WaveRequest } from '../../watcher/kinds/image-pull-job/waves.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import type { BatchKey } from '../../watcher/permits/held-batches.ts';
import { answeredAtOnce, confirmedForMs, type FleetDependencies, whileItCounts } from './permit-holder.ts';

export interface NextNodesInput {
  readonly job: ObjectRef;
  /** Nodes that have just been permitted: the leading watcher may not have their waves yet. Absent: none. */
  readonly justPermitted?: readonly string[];
  /** The waves that count. Absent: those that there are. */
  readonly carried?: CarriedBatches;
}

export interface AwaitNodesInput {
  readonly job: ObjectRef;
  /** The number of the wave. */
  readonly number: number;
  readonly nodes: Wave;
}

/** The run that asks, and its waves that count. */
export interface QuestionOfRun {
  readonly carried?: CarriedBatches & Pick<BatchKey, 'run'>;
}

/** The controller of ImagePullJobs, as far as it is needed here; none while this watcher does not lead. */
export interface NodeHolder {
  /** Which nodes of a job may go next. */
  next(uid: string, question?: NodesQuestion & QuestionOfRun): NodesAnswer;
  await(uid: string, request: WaveRequest, life: PermitLife): Promise<WaveResult>;
  /** What people see of a wave. */
  progressOf(uid: string, wave: number): unknown;
  /** Whether no node is told by a wave at present: each was, or there is no room. */
  isBegun(uid: string, wave: number): boolean;
  /** A permit that has rested counts again. */
  confirmed(uid: string): void;
}

/** Where these activities find the controller. */
export type NodeDependencies = FleetDependencies<NodeHolder>;

/** Answers which nodes of a job may go next, or why none may, from what the leading watcher knows at this moment. It tells no node. */
export function nextNodesActivity({
  queueOf,
  runId,
}: Pick<NodeDependencies, 'queueOf' | 'runId'>): (input: NextNodesInput) => Promise<NodesAnswer> {
  return async ({ job, justPermitted = [], carried }) =>
    answeredAtOnce({ queueOf }, { kind: imagePullJobs.kind, target: job, items: 'nodes' }, (holder) =>
      holder.next(job.uid, { justPermitted, ...(carried && { carried: { ...carried, run: runId() } }) }),
    );
}

/**
 * Permits the watcher to tell these nodes, as far as parallelism allows, and waits, heartbeating, until each has ended; answers also which
 * nodes may go next. The permit ends with the attempt; another one hands it in anew and finds what has been done by then.
 */
export function awaitNodesActivity(dependencies: NodeDependencies): (input: AwaitNodesInput) => Promise<WaveResult> {
  return async ({ job, number, nodes }) => {
    const of = { kind: imagePullJobs.kind, target: job, doing: `await wave ${number} of` };
    const request = { run: dependencies.runId(), number, nodes };
    return await whileItCounts(dependencies, of, (holder, life) => holder.await(job.uid, request, life), {
      holdsMs: confirmedForMs,
      progress: (holder) => holder.progressOf(job.uid, number),
      isBegun: (holder) => holder.isBegun(job.uid, number),
      confirmed: (holder) => holder.confirmed(job.uid),
    });
  };
}
