import {
  type RestartChanged,
  type RestartOperation,
  restartContainersId,
  restartStart,
} from '../../../api/container-recreate-request/operation.ts';
import { type ContainerRecreateRequest, isCompleted } from '../../../api/container-recreate-request/types.ts';
import type { Node } from '../../../api/core/node.ts';
import { isFinished, type Pod } from '../../../api/core/pod.ts';
import { crrLabel } from '../../../api/core/well-known.ts';
import { type EngineTrouble, isEngineReason } from '../../../api/engine/engine-trouble.ts';
import { isTerminationRequest, terminateSidecarsId } from '../../../api/job-sidecar-termination.ts';
import type { Cache } from '../../../kube/cache.ts';
import { generationOf, hasBegun, podOf, podUidOf } from './request.ts';
import type { RequestPassDependencies } from './request-pass-dependencies.ts';

/** Ensures that the operation of a request whose turn has come is running. */
export function wantOperation(request: ContainerRecreateRequest, podUid: string, world: RequestPassDependencies): void {
  const operation = operationOf(request, podUid, world.nodes);
  const pod = world.pods.byUid(podUid);
  const podGone = pod === undefined || pod.metadata.deletionTimestamp !== undefined;
  const podEnded = hasEnded(pod);
  const change: RestartChanged = { operation, generation: generationOf(request) };
  const reason = request.status?.waitingFor?.reason;
  // a running operation has to restore the status that was overwritten, but not as long as it would be again at once
  const isStill = reason === 'EngineNoDaemon' && troubleOf(request, podUid, world)?.reason === reason;
  const isWrittenOver = (isEngineReason(reason) && !isStill) || (reason === 'Queued' && hasBegun(request));
  const { uid } = request.metadata;
  world.starter.want({
    ...restartStart(operation),
    change,
    inputs: JSON.stringify([uid, change.generation, podGone, podEnded, operation.node.uid, isWrittenOver]),
  });
}

/** Whether the pod has ended: the caches keep the phase of most pods only until then. */
export function hasEnded(pod: Pod | undefined): boolean {
  return pod !== undefined && (pod.status?.phase === undefined || isFinished(pod));
}

/** Why the operation of a request does not continue. The operation itself reports a node that has been silent for long. */
export function troubleOf(
  request: ContainerRecreateRequest,
  podUid: string,
  { starter, nodes }: RequestPassDependencies,
): EngineTrouble | undefined {
  const shown = request.status?.waitingFor?.reason ?? '';
  const { pod, node } = operationOf(request, podUid, nodes);
  return starter.trouble(restartContainersId(pod), shown, shown === 'NodeSilent' ? {} : { node });
}

function operationOf(request: ContainerRecreateRequest, podUid: string, nodes: Cache<Node>): RestartOperation {
  const { namespace = '', name, uid, labels } = request.metadata;
  const nodeName = labels?.[crrLabel.nodeName] ?? '';
  const pod = { ...podOf(request), uid: podUid };
  return {
    request: { namespace, name, uid },
    pod,
    // a node that is gone keeps its name in the name of the task queue, which nobody polls: that is detected as its
    // silence
    node: { name: nodeName, uid: nodes.byName('', nodeName)?.metadata.uid ?? `gone-${nodeName}` },
    ...(isTerminationRequest(request) && { cause: terminateSidecarsId(pod) }),
  };
}

/** Signals the operation of a deleted request, so that it stops no further container. */
export async function tellWithdrawn(request: ContainerRecreateRequest, world: RequestPassDependencies): Promise<void> {
  const podUid = podUidOf(request);
  if (isCompleted(request) || podUid === '') return;
  const operation = operationOf(request, podUid, world.nodes);
  const change: RestartChanged = { operation, generation: generationOf(request), withdrawn: true };
  await world.starter.tell(restartContainersId(operation.pod), change);
}
