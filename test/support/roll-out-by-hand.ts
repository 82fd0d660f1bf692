import { randomUUID } from 'node:crypto';
import { defaultPayloadConverter } from '@temporalio/common';
import proto from '@temporalio/proto';
import { type PodBatch, podsOf } from '../../workflows/plan/fleet/batch.ts';
import { type BatchInHistory, batchesIn, type History } from './history.ts';
import type { RollOuts, TrivialRollOut } from './trivial-roll-outs.ts';
import { waitFor } from './wait.ts';

const { PendingActivityState, WorkflowTaskFailedCause } = proto.temporal.api.enums.v1;

/** Failures of workflow tasks that Temporal causes: a reset, the end of a run by hand, a signal that came in between. */
const harmlessCauses: readonly unknown[] = [
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
];

export type FleetActivity = 'fleet.v1.chooseBatch' | 'fleet.v1.carryOutBatch';

/** What people can do to a roll-out with `temporal`. */
export function byHand({ client, cluster }: Pick<RollOuts, 'client' | 'cluster'>, rollOut: TrivialRollOut) {
  const { workflowService } = client;
  const { workflowId } = rollOut.handle;
  const namespace = 'default';
  const identity = 'operator@test';

  return {
    /** The IDs of the activities of this type that have not ended. */
    pending,
    /** The ID of the first of them, once it is being executed. */
    async started(type: FleetActivity): Promise<string> {
      return await waitFor(`${type} to be under way`, async (see) => {
        const { raw } = await rollOut.handle.describe();
        const found = see(raw.pendingActivities)?.find(
          ({ activityType, lastStartedTime }) => activityType?.name === type && lastStartedTime,
        );
        return found?.activityId ?? '';
      });
    },
    /** Resolves once the attempt that was under way has ended. */
    async pause(id: string): Promise<void> {
      await workflowService.pauseActivity({ namespace, identity, execution: { workflowId }, id, reason: 'by hand' });
      await waitFor(`activity ${id} to be paused`, async (see) => {
        const { raw } = await rollOut.handle.describe();
        const found = see(raw.pendingActivities)?.find(({ activityId }) => activityId === id);
        return found?.state === PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED;
      });
    },
    async unpause(id: string): Promise<void> {
      await workflowService.unpauseActivity({ namespace, identity, execution: { workflowId }, id });
    },
    async resetActivity(id: string): Promise<void> {
      await workflowService.resetActivity({ namespace, identity, execution: { workflowId }, id });
    },
    async fail(activityId: string, nonRetryable: boolean): Promise<void> {
      const failure = { message: 'failed by hand', applicationFailureInfo: { nonRetryable } };
      await workflowService.respondActivityTaskFailedById({ namespace, workflowId, activityId, identity, failure });
    },
    async complete(activityId: string, value: unknown): Promise<void> {
      const result = { payloads: [defaultPayloadConverter.toPayload(value)] };
      await workflowService.respondActivityTaskCompletedById({ namespace, workflowId, activityId, identity, result });
    },
    /** Resets a run to an event of it. Answers the ID of the new run. */
    async reset(runId: string, workflowTaskFinishEventId: EventId): Promise<string> {
      const { runId: next } = await workflowService.resetWorkflowExecution({
        namespace,
        workflowExecution: { workflowId, runId },
        workflowTaskFinishEventId,
        reason: 'by hand',
        requestId: randomUUID(),
      });
      if (!next) throw new Error('a reset begins a run');
      return next;
    },
    /** The names of the pods whose restart to this revision was written, in order. */
    restarted: (revision = 'new') =>
      cluster.writes.flatMap((write) =>
        write.uid === rollOut.uid && write.kind === 'restart' && write.revision === revision ? [write.name] : [],
      ),
  };

  async function pending(type: FleetActivity): Promise<readonly string[]> {
    const { raw } = await rollOut.handle.describe();
    return (raw.pendingActivities ?? []).flatMap(({ activityId, activityType }) =>
      activityType?.name === type && activityId ? [activityId] : [],
    );
  }
}

type EventId = NonNullable<NonNullable<History['events']>[number]['eventId']>;

/** The events to which a run can be reset. */
export function resetPoints({ events }: History): readonly EventId[] {
  return (events ?? []).flatMap(({ eventId, workflowTaskCompletedEventAttributes: completed }) =>
    completed && eventId ? [eventId] : [],
  );
}

/** How a roll-out is judged. */
export interface Judgement {
  /** How many runs its workflow has had. */
  readonly runs?: number;
  readonly revision?: string;
  /** Results of activities were made up, so that the history says more than was done. */
  readonly isForged?: boolean;
}

/** What is wrong with a roll-out that has ended, by what has been written to its pods and by the histories of its runs. */
export async function problemsOf(
  rollOuts: Pick<RollOuts, 'client' | 'cluster'>,
  rollOut: TrivialRollOut,
  { runs = 1, revision = 'new', isForged = false }: Judgement = {},
): Promise<readonly string[]> {
  const { cluster } = rollOuts;
  const { maxUnavailable = 0 } = cluster.fleetOf(rollOut.uid) ?? {};
  const writes = cluster.writes.filter(({ uid, kind }) => uid === rollOut.uid && kind === 'restart');
  const most = Math.max(0, ...writes.map(({ unready }) => unready));
  const restarted = byHand(rollOuts, rollOut).restarted(revision);
  const wanted = cluster.pods(rollOut.uid).map(({ name }) => name);
  const histories = await historiesOf(rollOuts, rollOut, runs);
  return [
    ...(most > maxUnavailable ? [`${most} pods were not ready at once`] : []),
    ...differences(`restarted to ${revision}`, wanted, restarted),
    ...histories.flatMap(failedTasks),
    ...(isForged ? [] : historyProblems(histories.map(batchesIn), restarted, revision)),
  ];
}

/** The histories of all runs of the workflow ID, once so many are known. */
async function historiesOf(
  { client }: Pick<RollOuts, 'client'>,
  { handle: { workflowId } }: TrivialRollOut,
  runs: number,
): Promise<readonly History[]> {
  const ids = await waitFor(`${runs} runs`, async (see) => {
    const found: string[] = [];
    for await (const { runId } of client.workflow.list({ query: `WorkflowId="${workflowId}"` })) found.push(runId);
    return see(found).length >= runs ? found : undefined;
  });
  if (ids.length > runs) throw new Error(`the workflow has had ${ids.length} runs`);
  return await Promise.all(ids.map((runId) => client.workflow.getHandle(workflowId, runId).fetchHistory()));
}

function failedTasks({ events }: History): readonly string[] {
  return (events ?? []).flatMap(({ workflowTaskFailedEventAttributes: failed }) =>
    failed && !harmlessCauses.includes(failed.cause)
      ? [`a workflow task has failed, cause ${failed.cause}: ${failed.failure?.message}`]
      : [],
  );
}

/** Of each pod a batch says that it was updated, unless no batch of this pod has come to a verdict. */
function historyProblems(
  runs: readonly (readonly BatchInHistory[])[],
  restarted: readonly string[],
  revision: string,
): readonly string[] {
  const unheard = new Set<string>();
  const named = new Set<string>();
  const updated = new Set<string>();
  const twice: string[] = [];
  for (const batches of runs) {
    const inRun = batches.filter(({ input }) => input.batch.revision === revision).flatMap(updatedBy);
    twice.push(...inRun.filter((pod, index) => inRun.indexOf(pod) !== index));
    for (const pod of inRun) updated.add(pod);
    for (const { input, verdict } of batches) {
      const heard = new Set(verdict?.pods.map(({ pod }) => pod));
      for (const name of namesOf(input.batch)) {
        named.add(name);
        if (!heard.has(name)) unheard.add(name);
      }
    }
  }
  const inDoubt = (name: string) => unheard.has(name) && !updated.has(name);
  return [
    ...twice.map((name) => `one run says twice that ${name} was updated`),
    ...restarted.filter((name) => !named.has(name)).map((name) => `no batch names ${name}, which was restarted`),
    ...differences(
      'updated according to the history',
      restarted.filter((name) => !inDoubt(name)),
      [...updated],
    ),
  ];
}

function updatedBy({ verdict }: BatchInHistory): readonly string[] {
  return (verdict?.pods ?? []).flatMap(({ pod, why }) => (why === undefined ? [pod] : []));
}

function namesOf(batch: PodBatch): readonly string[] {
  return podsOf(batch).map(({ name }) => name);
}

/** What is wanted and not found, and what is found and not wanted, or more than once. */
function differences(what: string, wanted: readonly string[], found: readonly string[]): readonly string[] {
  const times = (name: string) => found.filter((other) => other === name).length;
  return [...new Set([...wanted, ...found])].flatMap((name) => {
    const due = wanted.includes(name) ? 1 : 0;
    return times(name) === due ? [] : [`${name} was ${times(name)} times ${what}, not ${due} times`];
  });
}
