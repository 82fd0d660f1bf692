// What people can do with `temporal` to the operation of any object, on purpose or by mistake.
import { randomUUID } from 'node:crypto';
import { isGrpcServiceError, WorkflowNotFoundError } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { searchAttributes } from '../../api/engine/operations.ts';
import type { Fault } from './faults.ts';
import type { Random } from './random.ts';
import { untilDone, type World } from './world.ts';

/** Something that is done to one workflow. */
export interface Treatment {
  readonly name: string;
  /** Answers whether there was something to do it to. */
  readonly to: (world: World, workflowId: string) => Promise<boolean>;
  /** What the person does when the fault is over. Absent: nothing. */
  readonly afterwards?: (world: World, workflowId: string) => Promise<unknown>;
}

/** `temporal workflow terminate`. */
export const terminating: Treatment = { name: 'workflow terminate', to: terminate };

/** `temporal workflow reset` to the first point or to one that chance chooses. */
export function resetting(where: 'first' | 'any', random: Random): Treatment {
  return { name: `workflow reset to ${where} point`, to: (world, id) => reset(world, id, where, random) };
}

type ActivityCommand = (world: World, workflowId: string, activityId: string) => Promise<unknown>;

const commands = {
  pause: ({ temporal }, workflowId, id) =>
    temporal.workflowService.pauseActivity({ namespace, execution: { workflowId }, id, reason: 'chaos' }),
  unpause: ({ temporal }, workflowId, id) =>
    temporal.workflowService.unpauseActivity({ namespace, execution: { workflowId }, id }),
  reset: ({ temporal }, workflowId, id) =>
    temporal.workflowService.resetActivity({ namespace, execution: { workflowId }, id }),
  fail: ({ temporal }, workflowId, activityId) =>
    temporal.workflowService.respondActivityTaskFailedById({
      ...{ namespace, workflowId, activityId },
      failure: { message: 'chaos', applicationFailureInfo: { nonRetryable: true } },
    }),
  complete: ({ temporal }, workflowId, activityId) =>
    temporal.workflowService.respondActivityTaskCompletedById({
      ...{ namespace, workflowId, activityId },
      result: { payloads: [defaultPayloadConverter.toPayload(null)] },
    }),
} as const satisfies Readonly<Record<string, ActivityCommand>>;

const namespace = 'default';

/** `temporal activity pause`, `unpause`, `reset`, `fail`, or `complete` with null, for every activity that is under way. */
export function commanding(command: keyof typeof commands): Treatment {
  return { name: `activity ${command}`, to: (world, id) => commandActivities(world, id, commands[command]) };
}

/** `temporal activity pause`, and `unpause` afterwards. */
const pausing: Treatment = { ...commanding('pause'), afterwards: commanding('unpause').to };

/** `temporal activity fail`, or `complete` with null, and `retry` where the operation has parked for that. */
function forging(command: 'fail' | 'complete'): Treatment {
  return { ...commanding(command), afterwards: retryParked };
}

/** Each treatment whose end is the usual end of the operation. */
export function allTreatments(random: Random): readonly Treatment[] {
  return [
    terminating,
    resetting('first', random),
    resetting('any', random),
    pausing,
    commanding('reset'),
    forging('fail'),
    forging('complete'),
  ];
}

/** A treatment of each of these workflows at once. */
export function treated(world: World, workflows: () => readonly string[], treatment: Treatment): Fault {
  const { name, to, afterwards } = treatment;
  let ids: readonly string[] = [];
  let times = 0;
  return {
    name,
    async inject() {
      ids = workflows();
      const done = await Promise.all(ids.map((id) => to(world, id)));
      times = done.filter(Boolean).length;
    },
    times: () => times,
    async heal() {
      await Promise.all(ids.map(async (id) => await afterwards?.(world, id)));
    },
  };
}

/** Gives a command to every activity that is under way; answers whether there was one. */
async function commandActivities(world: World, workflowId: string, command: ActivityCommand): Promise<boolean> {
  const found = await world.temporal.workflow.getHandle(workflowId).describe().catch(unlessGone);
  const ids = found?.raw.pendingActivities?.flatMap(({ activityId }) => activityId ?? []) ?? [];
  for (const id of ids) await command(world, workflowId, id).catch(unlessGone);
  return ids.length > 0;
}

/** The workflow or the activity has ended, or there was none. */
function unlessGone(error: unknown): undefined {
  const isGone = error instanceof WorkflowNotFoundError || (isGrpcServiceError(error) && error.code === notFound);
  if (!isGone) throw error;
}

const notFound = 5;

/** Ends the open run as an operator can; answers whether there was one. */
async function terminate({ temporal }: World, workflowId: string): Promise<boolean> {
  const ended = await temporal.workflow.getHandle(workflowId).terminate('chaos').catch(unlessGone);
  return ended !== undefined;
}

async function retryParked({ temporal }: World, workflowId: string): Promise<void> {
  const handle = temporal.workflow.getHandle(workflowId);
  const found = await handle.describe().catch(unlessGone);
  if (found?.status.name !== 'RUNNING' || found.searchAttributes[searchAttributes.reason]?.[0] !== 'Parked') return;
  await handle.signal('retry', { by: 'chaos' }).catch(unlessGone);
}

/** Resets the last run, open or not; answers whether there is one. */
async function reset(
  { temporal }: World,
  workflowId: string,
  where: 'first' | 'any',
  random: Random,
): Promise<boolean> {
  return await untilDone(`${workflowId} to be reset`, async () => {
    const found = await temporal.workflow.getHandle(workflowId).describe().catch(unlessGone);
    if (!found) return 'none';
    const { runId } = found;
    const { events } = await temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    const points = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
    const point = where === 'first' ? points[0] : points[random.between(0, points.length - 1)];
    if (!point?.eventId) return false;
    await temporal.workflowService.resetWorkflowExecution({
      namespace,
      workflowExecution: { workflowId, runId },
      workflowTaskFinishEventId: point.eventId,
      reason: 'chaos',
      requestId: randomUUID(),
    });
    return 'reset';
  }).then((what) => what === 'reset');
}
