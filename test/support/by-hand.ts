import { randomUUID } from 'node:crypto';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import proto from '@temporalio/proto';
import { searchAttributes } from '../../api/engine/operations.ts';
import type { ActivityName } from '../../workflows/shared/results.ts';
import type { History } from './history.ts';
import { waitFor } from './wait.ts';

const { PendingActivityState, WorkflowTaskFailedCause } = proto.temporal.api.enums.v1;

/** Failures of workflow tasks that Temporal causes: a reset, the end of a run by hand, a signal that came in between. */
const harmlessCauses: readonly unknown[] = [
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
];

/** An activity that has not ended. */
export interface ActivityByHand {
  readonly id: string;
  readonly type: string;
  /** An attempt of it is under way. */
  readonly isBegun: boolean;
  readonly isPaused: boolean;
}

/** What people can do to an operation with `temporal`. */
export function operatorOn(client: Client, workflowId: string) {
  const { workflowService } = client;
  const { namespace } = client.options;
  const identity = 'operator@test';
  const execution = { workflowId };
  const handle = client.workflow.getHandle(workflowId);

  return {
    /** The operation in any run. */
    handle,
    /** The ID of the latest run. */
    runId: async (): Promise<string> => (await handle.describe()).runId,
    activities,
    isPending,
    /** Resolves once the attempt that was under way has ended. */
    async pause(id: string): Promise<void> {
      await workflowService.pauseActivity({ namespace, identity, execution, id, reason: 'by hand' });
      await waitFor(`activity ${id} to be paused`, async (see) => {
        const found = see(await activities()).find((activity) => activity.id === id);
        return !found || found.isPaused;
      });
    },
    async unpause(id: string): Promise<void> {
      await workflowService.unpauseActivity({ namespace, identity, execution, id });
    },
    async resetActivity(id: string): Promise<void> {
      await workflowService.resetActivity({ namespace, identity, execution, id });
    },
    /** Temporal finds the activity only while an attempt is under way. One that has ended is left alone. */
    async fail(activityId: string, nonRetryable: boolean): Promise<void> {
      const failure = { message: 'failed by hand', applicationFailureInfo: { nonRetryable } };
      await waitFor(`activity ${activityId} to be failed`, async () => {
        if (!(await isPending(activityId))) return true;
        return workflowService.respondActivityTaskFailedById({ namespace, workflowId, activityId, identity, failure });
      });
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
    /**
     * Waits until this has happened and no run is open, however the last one has ended. One that is parked is told to
     * retry.
     */
    async ended(over: Promise<unknown>): Promise<void> {
      let isOver = false;
      const waiting = over.then(() => {
        isOver = true;
      });
      const ending = waitFor(`${workflowId} to end`, async (see) => {
        const { status, searchAttributes: found } = await handle.describe();
        const reason = found[searchAttributes.reason]?.[0];
        see([status.name, reason, isOver]);
        if (status.name !== 'RUNNING') return isOver;
        // it may have ended in between
        if (reason === 'Parked') await handle.signal('retry', { by: 'ann' }).catch(() => undefined);
        return false;
      });
      await Promise.all([waiting, ending]);
    },
    /** The histories of all runs of the workflow ID, once so many are known. */
    async histories(runs: number): Promise<readonly History[]> {
      const ids = await waitFor(`${runs} runs of ${workflowId}`, async (see) => {
        const found: string[] = [];
        for await (const { runId } of client.workflow.list({ query: `WorkflowId="${workflowId}"` })) found.push(runId);
        return see(found).length >= runs ? found : undefined;
      });
      return await Promise.all(ids.map((runId) => client.workflow.getHandle(workflowId, runId).fetchHistory()));
    },
  };

  async function isPending(id: string): Promise<boolean> {
    return (await activities()).some((activity) => activity.id === id);
  }

  async function activities(): Promise<readonly ActivityByHand[]> {
    const { raw } = await handle.describe();
    return (raw.pendingActivities ?? []).map(({ activityId, activityType, state }) => ({
      id: activityId ?? '',
      type: activityType?.name ?? '',
      isBegun: state === PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
      isPaused: state === PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED,
    }));
  }
}

/** The same, with its activities by their type. */
export function activitiesByHand(client: Client, { workflowId }: Pick<WorkflowHandle, 'workflowId'>) {
  const operator = operatorOn(client, workflowId);
  return {
    ...operator,
    /** The IDs of the activities of this type that have not ended. */
    async pending(type: ActivityName): Promise<readonly string[]> {
      return (await operator.activities()).flatMap((activity) => (activity.type === type ? [activity.id] : []));
    },
    /** The ID of the first of them, once it is being executed. */
    async started(type: ActivityName): Promise<string> {
      return await waitFor(`${type} to be under way`, async (see) => {
        const found = see(await operator.activities()).find((activity) => activity.type === type && activity.isBegun);
        return found?.id ?? '';
      });
    },
  };
}

export type Operator = ReturnType<typeof operatorOn>;

/** The ID of an event of a history. */
export type EventId = NonNullable<NonNullable<History['events']>[number]['eventId']>;

/** The events to which a run can be reset. */
export function resetPoints({ events }: History): readonly EventId[] {
  return (events ?? []).flatMap(({ eventId, workflowTaskCompletedEventAttributes: completed }) =>
    completed && eventId ? [eventId] : [],
  );
}

/** Workflow tasks of a run that have failed by themselves. */
export function failedTasks({ events }: History): readonly string[] {
  return (events ?? []).flatMap(({ workflowTaskFailedEventAttributes: failed }) =>
    failed && !harmlessCauses.includes(failed.cause)
      ? [`a workflow task has failed, cause ${failed.cause}: ${failed.failure?.message}`]
      : [],
  );
}
