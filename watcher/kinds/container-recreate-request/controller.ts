/**
 * The controller of ContainerRecreateRequests. It works pod by pod: one pass looks at all requests of one pod, starts
 * the operation of the first one, reports the wait of the others, and releases what completed ones hold.
 *
 * The same operation refreshes the environment of the pod, for which there is no request. It goes before requests that
 * have not begun: it takes no longer than a stop, and the condition that they wait for may never hold with the old
 * environment.
 */

import { restartContainersType } from '../../../api/container-recreate-request/operation.ts';
import { type ContainerRecreateRequest, crr } from '../../../api/container-recreate-request/types.ts';
import type { Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { operationState } from '../../operation-state.ts';
import { isEnvironmentStale } from '../pod/environment-refresh.ts';
import { hasEnded, tellWithdrawn } from './operation.ts';
import { passOverRequests, requestIndexes, requestsByPod } from './pass.ts';
import { podUidOf } from './request.ts';
import type { RequestPassDependencies } from './request-pass-dependencies.ts';

/** Ensures that the requests of each pod are carried out one after the other, and that completed ones hold nothing. */
export function recreateRequests({
  kube,
  starter,
  commandEvents,
  config,
  now,
  isLeading,
  cache,
  queue,
}: ControllerContext): Controller {
  const requests = cache<ContainerRecreateRequest>(crr, requestIndexes);
  const pods = cache<Pod>(kubeResource.pods);
  const nodes = cache<Node>(kubeResource.nodes);
  const gates = config.featureGates;
  const world: RequestPassDependencies = { kube, requests, pods, nodes, starter, commandEvents, gates, now };
  const passes = queue('requests', (podUid) => passOverRequests(podUid, world));
  const wantAll = () => {
    for (const request of requests.all()) passes.add(podUidOf(request));
    for (const pod of pods.all()) if (isEnvironmentStale(pod, gates)) passes.add(pod.metadata.uid);
  };

  requests.onChange(({ before, after }) => {
    const request = after ?? before;
    if (!request || !isLeading()) return;
    passes.add(podUidOf(request));
    if (before && isGoing(after) && !isGoing(before)) void tellWithdrawn(before, world);
  });
  pods.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    if (uid === undefined || !isLeading()) return;
    const isEnding = isGoing(after) || hasEnded(before) !== hasEnded(after);
    const concernsRequests = isEnding && requests.byIndex(requestsByPod, uid).length > 0;
    if (concernsRequests || isEnvironmentStale(before, gates) || isEnvironmentStale(after, gates)) passes.add(uid);
  });
  nodes.onChange(({ before, after }) => {
    // rare: a node was created, deleted, or recreated
    if (isLeading() && before?.metadata.uid !== after?.metadata.uid) wantAll();
  });
  return {
    wantAll,
    workflowTypes: [restartContainersType],
    operations: () => ({
      kind: crr.kind,
      states: [...requests.all()].map(({ status }) => operationState(status?.phase || 'New', status?.waitingFor)),
    }),
  };
}

function isGoing(object: { readonly metadata: { readonly deletionTimestamp?: string } } | undefined): boolean {
  return object === undefined || object.metadata.deletionTimestamp !== undefined;
}
