// What people can do, on purpose or by mistake, to the operations and objects of pods with requests.
import { randomUUID } from 'node:crypto';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import { crr } from '../../api/container-recreate-request/types.ts';
import type { Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { isGone } from '../../kube/failures.ts';
import { act, type Fault } from './faults.ts';
import type { Random } from './random.ts';
import type { RecreateRequests } from './subjects/recreate-requests.ts';
import type { RecreatedPod } from './subjects/recreated-pod.ts';
import { untilDone, type World } from './world.ts';

/** Something that is done to one pod, its requests or its operation; answers whether there was something to do it to. */
export interface Act {
  readonly name: string;
  readonly to: (world: World, pod: RecreatedPod) => Promise<boolean>;
}

/** `temporal workflow terminate`. */
export const terminating: Act = { name: 'workflow terminate', to: terminate };

/** `temporal workflow reset` to the first point or to one that chance chooses. */
export function resetting(where: 'first' | 'any', random: Random): Act {
  return { name: `workflow reset to ${where} point`, to: (world, pod) => reset(world, pod, where, random) };
}

/** `temporal activity pause`, `unpause` or `reset`, for every activity that is under way. */
export function commanding(command: 'pause' | 'unpause' | 'reset'): Act {
  return { name: `activity ${command}`, to: (world, pod) => commandActivities(world, pod, command) };
}

/** `kubectl delete` of the requests. */
export const deletingRequests: Act = {
  name: 'requests deleted',
  async to({ kube }, pod) {
    // the last one first: otherwise it would begin in between
    for (const { name } of pod.plan.requests.toReversed()) await deleted(kube, crr, { ...namespaceOf(pod), name });
    pod.withdrawn();
    return true;
  },
};

/** `kubectl delete pod`. */
export const deletingPod: Act = {
  name: 'pods deleted',
  async to({ kube }, pod) {
    await deleted(kube, kubeResource.pods, { ...namespaceOf(pod), name: pod.plan.name });
    return true;
  },
};

/** Does it to each of these pods at once, when all requests are there whose turn has come. */
export function toEach(
  world: World,
  requests: RecreateRequests,
  { name, to }: Act,
  pods: readonly RecreatedPod[] = requests.pods,
): Fault {
  return act(name, async () => {
    await requests.created();
    const done = await Promise.all(pods.map((pod) => to(world, pod)));
    return done.filter(Boolean).length;
  });
}

/** `kubectl delete namespace`. */
export function namespaceDeleted(requests: RecreateRequests): Fault {
  let gone: Promise<void> = Promise.resolve();
  return {
    name: 'namespace deleted',
    async inject() {
      await requests.created();
      gone = requests.deleteNamespace();
    },
    heal: () => gone,
  };
}

function namespaceOf({ namespace }: RecreatedPod): { readonly namespace: string } {
  return { namespace };
}

async function deleted(
  kube: World['kube'],
  resource: Resource,
  ref: { readonly namespace: string; readonly name: string },
): Promise<void> {
  await kube.delete(resource, ref).catch((error: unknown) => {
    if (!isGone(error)) throw error;
  });
}

/** Gives a command to every activity that is under way; answers whether there was one. */
async function commandActivities(
  { temporal }: World,
  { uid }: RecreatedPod,
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

/** Ends the open run of the pod's operation as an operator can; answers whether there was one. */
async function terminate({ temporal }: World, { uid }: RecreatedPod): Promise<boolean> {
  try {
    await temporal.workflow.getHandle(restartContainersId(uid)).terminate('chaos');
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return false; // it has ended
    throw error;
  }
}

/** Resets the last run of the pod's operation, open or not; answers whether there is one. */
async function reset(
  { temporal }: World,
  { uid }: RecreatedPod,
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
