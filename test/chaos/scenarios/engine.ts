// What an operator can do to a workflow behind our back.
import { randomUUID } from 'node:crypto';
import { restartContainersId } from '../../../api/container-recreate-request/operation.ts';
import type { Scenario } from '../campaign.ts';
import { withFlags } from '../faults.ts';
import { Fleet } from '../fleet.ts';
import type { Random } from '../random.ts';
import { atTheMoment, eachStep } from '../steps.ts';
import type { Subject } from '../subject.ts';
import { seconds, untilDone, type World } from '../world.ts';

/** `temporal workflow terminate` and `temporal workflow reset`, at each step. */
export const engineScenarios: readonly Scenario[] = [
  {
    name: 'terminate',
    about: 'temporal workflow terminate at each step, and again after it',
    async run(world, random, report) {
      // what was terminated is started again by the next full pass, which comes every minute otherwise
      const undo = await withFlags(world, 'watcher', ['--full-pass-period=5s']);
      try {
        const fleet = await Fleet.create(world, [...eachStep(), ...eachStep({ forceRecreate: true }).map(renamed)]);
        await fleet.hold();
        await fleet.tellWhere();
        for (let round = 1; round <= 2; round += 1) {
          const terminated = await all(fleet, (subject) => terminate(world, subject));
          for (let count = 0; count < terminated; count += 1) report.fault('workflow terminate');
          await seconds(random.between(3, 9));
        }
        fleet.release();
        await seconds(random.between(0, 2));
        const terminated = await all(fleet, (subject) => terminate(world, subject));
        for (let count = 0; count < terminated; count += 1) report.fault('workflow terminate');
        await fleet.completed();
        await fleet.judge(report);
        await fleet.judge(report);
        report.outcome('Completed', fleet.subjects.flatMap(({ plan }) => plan.requests).length);
        await fleet.remove();
      } finally {
        await undo();
      }
    },
  },
  {
    name: 'reset',
    about: 'temporal workflow reset to earlier points at each step, and after the end',
    async run(world, random, report) {
      const undo = await withFlags(world, 'watcher', ['--full-pass-period=5s']);
      const resetAll = async (fleet: Fleet, where: 'first' | 'any'): Promise<void> => {
        const count = await all(fleet, (subject) => reset(world, subject, where, random));
        for (let index = 0; index < count; index += 1) report.fault(`workflow reset to ${where} point`);
      };
      try {
        const plans = [...eachStep(), ...eachStep({ forceRecreate: true }).map(renamed), ...atTheMoment()];
        const fleet = await Fleet.create(world, plans);
        await fleet.hold();
        await fleet.tellWhere();
        await fleet.request('justBefore');
        await fleet.request('meanwhile');
        await resetAll(fleet, 'first');
        await seconds(random.between(2, 6));
        await resetAll(fleet, 'any');
        await seconds(random.between(2, 6));
        fleet.release();
        await seconds(random.between(0, 3));
        await resetAll(fleet, 'any');
        await fleet.completed();
        await fleet.judge(report);
        // everything is over, and now it is made to begin again
        await resetAll(fleet, 'any');
        await seconds(5);
        await resetAll(fleet, 'first');
        await seconds(5);
        await fleet.judge(report);
        report.outcome('Completed', fleet.subjects.flatMap(({ plan }) => plan.requests).length);
        await fleet.remove();
      } finally {
        await undo();
      }
    },
  },
  {
    name: 'activity-commands',
    about: 'temporal activity pause, unpause and reset of whatever is under way at each step',
    async run(world, random, report) {
      const fleet = await Fleet.create(world, eachStep());
      await fleet.hold();
      await fleet.tellWhere();
      for (const command of ['pause', 'unpause', 'reset', 'pause', 'reset', 'unpause'] as const) {
        const count = await all(fleet, (subject) => commandActivities(world, subject, command));
        for (let index = 0; index < count; index += 1) report.fault(`activity ${command}`);
        await seconds(random.between(3, 8));
      }
      fleet.release();
      await fleet.completed();
      await fleet.judge(report);
      await fleet.judge(report);
      report.outcome('Completed', fleet.subjects.flatMap(({ plan }) => plan.requests).length);
      await fleet.remove();
    },
  },
];

/** Gives a command to every activity that is under way; answers whether there was one. */
async function commandActivities(
  { temporal }: World,
  { uid }: Subject,
  command: 'pause' | 'unpause' | 'reset',
): Promise<boolean> {
  const workflowId = restartContainersId(uid);
  const { raw } = await temporal.workflow.getHandle(workflowId).describe();
  const ids = raw.pendingActivities?.flatMap(({ activityId }) => activityId ?? []) ?? [];
  const { workflowService } = temporal;
  for (const id of ids) {
    const target = { namespace: 'default', execution: { workflowId }, id };
    try {
      if (command === 'pause') await workflowService.pauseActivity({ ...target, reason: 'chaos' });
      else if (command === 'unpause') await workflowService.unpauseActivity(target);
      else await workflowService.resetActivity(target);
    } catch (error) {
      if (!isGoneActivity(error)) throw error;
    }
  }
  return ids.length > 0;
}

/** It has ended in between. */
function isGoneActivity(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 5;
}

function renamed(plan: Subject['plan']): Subject['plan'] {
  return {
    ...plan,
    name: `${plan.name}-forced`,
    step: `${plan.step} (forced)`,
    requests: plan.requests.map((request) => ({ ...request, name: `${request.name}-forced` })),
  };
}

/** Does it for each, and counts for how many there was something to do. */
async function all(fleet: Fleet, act: (subject: Subject) => Promise<boolean>): Promise<number> {
  const done = await Promise.all(fleet.subjects.map(act));
  return done.filter(Boolean).length;
}

/** Ends the open run of the pod's operation as an operator can; answers whether there was one. */
export async function terminate({ temporal }: World, { uid }: Subject): Promise<boolean> {
  try {
    await temporal.workflow.getHandle(restartContainersId(uid)).terminate('chaos');
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return false; // it has ended
    throw error;
  }
}

/** Resets the last run of the pod's operation, open or not; answers whether there is one. */
export async function reset(
  { temporal }: World,
  { uid }: Subject,
  where: 'first' | 'any',
  random: Random,
): Promise<boolean> {
  const workflowId = restartContainersId(uid);
  return await untilDone(`${workflowId} to be reset`, async () => {
    const handle = temporal.workflow.getHandle(workflowId);
    const { runId } = await handle.describe();
    const { events } = await temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    const points = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
    const point = where === 'first' ? points[0] : points[random.between(0, points.length - 1)];
    if (!point?.eventId) return false;
    await temporal.workflowService.resetWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId, runId },
      workflowTaskFinishEventId: point.eventId,
      reason: 'chaos',
      requestId: randomUUID(),
    });
    return true;
  });
}
