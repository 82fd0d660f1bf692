import { fnv1a } from '../../../api/base/fnv.ts';
import { restartContainersId, restartContainersType } from '../../../api/container-recreate-request/operation.ts';
import { endedRequest, recreateWaits } from '../../../api/container-recreate-request/texts.ts';
import {
  type ContainerRecreateRequest,
  crr,
  isCompleted,
  isFilled,
} from '../../../api/container-recreate-request/types.ts';
import { eventComponent } from '../../../api/core/well-known.ts';
import { operationLock } from '../../../api/engine/operation-id.ts';
import { commandNames } from '../../../api/engine/operations.ts';
import { tellEvent } from '../../../kube/events.ts';
import { earliest, type PassResult } from '../../../kube/keyed-queue.ts';
import { type RequestQueue, requestQueue } from '../../../plan/recreate/request-queue.ts';
import { deleteExpired } from '../../expiry.ts';
import { type Commanded, passOnCommand } from '../../operator-commands.ts';
import type { WantedOperation } from '../../starter.ts';
import { environmentRefresh } from '../pod/environment-refresh.ts';
import { fill } from './fill.ts';
import { wantOperation } from './operation.ts';
import { obeyInQueue, writeWaits } from './queue.ts';
import { holds, release } from './release.ts';
import { hasBegun, podOf, podUidOf } from './request.ts';
import type { RequestPassDependencies } from './request-pass-dependencies.ts';

/** The index of requests by the UID of their pod. */
export const requestsByPod = 'podUid';

/** Index functions of the cache of requests. */
export const requestIndexes = {
  [requestsByPod]: (request: ContainerRecreateRequest): readonly string[] => [podUidOf(request)],
};

/**
 * One pass over all requests of one pod. Everything that does not need Temporal comes first, so that it works without
 * Temporal.
 */
export async function passOverRequests(
  podUid: string,
  world: RequestPassDependencies,
): Promise<PassResult | undefined> {
  const requests = world.requests.byIndex(requestsByPod, podUid);
  const open = requestQueue(requests);
  const refresh = hasBegun(open.first) ? undefined : environmentRefresh(world.pods.byUid(podUid), world);
  const queue = refresh ? { behind: open.first ? [open.first, ...open.behind] : [] } : open;

  if (refresh) world.starter.want(refresh);
  else if (queue.first && isFilled(queue.first)) wantOperation(queue.first, podUid, world);
  else if (!queue.first) world.starter.forget(operationLock(restartContainersType, podUid));

  const inFront = refresh
    ? { blockedBy: [`pod/${refresh.about.name}`], unblock: await tellOfRefresh(refresh, podUid, world) }
    : { blockedBy: [`crr/${queue.first?.metadata.name ?? ''}`] };
  const due = [await writeWaits(queue, inFront, world)];
  await Promise.all(requests.filter(holds).map((request) => release(request, world)));
  due.push(await removeExpired(requests, world));
  for (const request of requests) {
    const commanded = commandedOf(request, queue, restartContainersId(podOf(request)), world);
    due.push(await passOnCommand(request, crr, commandNames, () => commanded, world));
  }
  await fill(queue, podUid, world);
  return earliest(...due);
}

/** The receiver of a command about this request. While a request waits for its turn, no workflow works on it. */
function commandedOf(
  request: ContainerRecreateRequest,
  { first, behind }: RequestQueue,
  workflowId: string,
  world: RequestPassDependencies,
): Commanded {
  // the run may still be that of the previous request: it keeps the command for the next one
  if (request === first) return { kind: 'running', workflowId, request: request.metadata.uid };
  if (!behind.includes(request)) return { kind: 'nobody', why: endedRequest(request) };
  return { kind: 'here', obey: async (command) => await obeyInQueue(request, command, world) };
}

const behindRefresh = 'Nothing to do: containers of the pod are restarted for an update in place';

/**
 * Returns what a person can do about an environment refresh that requests wait for. The refresh has no object of its
 * own, so its trouble is reported by an Event on the pod.
 */
async function tellOfRefresh(
  { workflowId }: WantedOperation,
  podUid: string,
  { pods, nodes, kube, starter, now }: RequestPassDependencies,
): Promise<string> {
  const pod = pods.byUid(podUid);
  const node = nodes.byName('', pod?.spec.nodeName ?? '')?.metadata;
  const trouble = starter.trouble(workflowId, undefined, { ...(node && { node }) });
  if (trouble === undefined || pod === undefined) return behindRefresh;
  const message = trouble.unblock ?? recreateWaits[trouble.reason];
  await tellEvent(kube, {
    about: { apiVersion: 'v1', kind: 'Pod', metadata: pod.metadata },
    component: eventComponent.recreate,
    ...{ type: 'Warning', reason: trouble.reason, message },
    atMs: now(),
    key: fnv1a(`${podUid} ${message}`).toString(16),
  });
  return message;
}

/** Deletes requests that have outlived their TTL, and returns when the next one will have. */
async function removeExpired(
  requests: readonly ContainerRecreateRequest[],
  world: RequestPassDependencies,
): Promise<PassResult | undefined> {
  const due: (PassResult | undefined)[] = [];
  for (const request of requests) {
    if (!isCompleted(request) || request.metadata.deletionTimestamp !== undefined) continue;
    const { ttlSecondsAfterFinished: ttlSeconds } = request.spec;
    const lifetime = { ttlSeconds, completionTime: request.status?.completionTime };
    due.push(await deleteExpired(request, crr, lifetime, world));
  }
  return earliest(...due);
}
