/**
 * Ensures that an operation runs for each pod whose main containers have completed and whose sidecars have not. All of
 * that is in the pod, so a watcher that was away has missed nothing (JST-33). Commands of operators are in the pod,
 * too: it is the only object of the feature that everybody who runs pods can write.
 */

import { sameJson } from '../../../../api/base/json.ts';
import { timestamp } from '../../../../api/base/time.ts';
import type { ContainerRecreateRequest } from '../../../../api/container-recreate-request/types.ts';
import type { Node } from '../../../../api/core/node.ts';
import { isVirtual } from '../../../../api/core/node.ts';
import type { Pod } from '../../../../api/core/pod.ts';
import { kubeResource } from '../../../../api/core/well-known.ts';
import { type EngineTrouble, isEngineReason } from '../../../../api/engine/engine-trouble.ts';
import { operationLock } from '../../../../api/engine/operation-id.ts';
import { commandNames, queues } from '../../../../api/engine/operations.ts';
import {
  endsItsSidecars,
  isTerminationDue,
  isTerminationToCome,
  type SidecarOperation,
  sidecarsOf,
  type TerminationStatus,
  terminateSidecarsId,
  terminateSidecarsType,
  terminationMark,
  terminationRequestName,
  terminationStatusOf,
  terminationWaits,
} from '../../../../api/job-sidecar-termination.ts';
import type { Cache } from '../../../../kube/cache.ts';
import type { KubeClient } from '../../../../kube/client.ts';
import type { PassResult } from '../../../../kube/keyed-queue.ts';
import { unlessMovedOn } from '../../../../kube/moved-on.ts';
import { waitFor } from '../../../../plan/decision.ts';
import { waitingSince } from '../../../../plan/waiting-since.ts';
import { type CommandEvents, passOnCommand } from '../../../operator-commands.ts';
import type { Starter, WantedOperation } from '../../../starter.ts';

export interface TerminationPassDependencies {
  readonly kube: Pick<KubeClient, 'patch' | 'create'>;
  readonly pods: Pick<Cache<Pod>, 'byUid'>;
  readonly requests: Pick<Cache<ContainerRecreateRequest>, 'byName'>;
  readonly nodes: Pick<Cache<Node>, 'byName'>;
  readonly starter: Pick<Starter, 'want' | 'forget' | 'tell' | 'command' | 'isSent' | 'trouble'>;
  readonly commandEvents: CommandEvents;
  readonly now: () => number;
  /** UIDs of the pods for which an operation was requested in this term. */
  readonly wanted: Set<string>;
}

const noneLeft =
  'the termination of the sidecars of this pod has ended, or was aborted; delete the pod to end what still runs';

/** One pass over the sidecars of one pod: an operation runs exactly while there is something to terminate. */
export async function passOverSidecars(
  podUid: string,
  world: TerminationPassDependencies,
): Promise<PassResult | undefined> {
  const { pods, requests, nodes, starter, wanted } = world;
  const pod = pods.byUid(podUid);
  if (pod === undefined || !isTerminationDue(pod)) {
    const lock = operationLock(terminateSidecarsType, podUid);
    const told = wanted.delete(podUid) && starter.tell(lock, null); // it looks, and ends
    starter.forget(lock);
    await told;
    if (pod === undefined || !endsItsSidecars(pod)) return undefined;
    await reportTrouble(pod, undefined, world);
    const receiver = isTerminationToCome(pod)
      ? ({ kind: 'later' } as const)
      : { kind: 'nobody' as const, why: noneLeft };
    return await passOnCommand(pod, kubeResource.pods, commandNames, () => receiver, world);
  }
  const workflowId = terminateSidecarsId(pod.metadata);
  const { namespace = '', name } = pod.metadata;
  const nodeName = pod.spec.nodeName ?? '';
  const request = requests.byName(namespace, terminationRequestName(podUid));
  const operation: SidecarOperation = { pod: { namespace, name, uid: podUid } };
  wanted.add(podUid);
  const wantedOperation: WantedOperation = {
    workflowId,
    workflowType: terminateSidecarsType,
    taskQueue: queues.cluster,
    argument: operation,
    change: null,
    inputs: JSON.stringify([inputsOf(pod), nodeOf(nodes.byName('', nodeName)), requestOf(request)]),
    summary: `end sidecars of pod ${namespace}/${name}`,
    about: { kind: 'Pod', namespace, name, node: nodeName },
  };
  // a pause that was annotated beforehand is delivered before anything is stopped
  const commanded = { kind: 'started', operation: wantedOperation } as const;
  const again = await passOnCommand(pod, kubeResource.pods, commandNames, () => commanded, world);
  starter.want(wantedOperation);
  const shown = terminationStatusOf(pod).waitingFor?.reason ?? '';
  await reportTrouble(pod, starter.trouble(workflowId, shown), world);
  return again;
}

/**
 * Writes on the pod why Temporal does not continue its operation. A running operation overwrites it; where no operation
 * is needed any more it is removed here.
 */
async function reportTrouble(
  pod: Pod,
  trouble: EngineTrouble | undefined,
  { kube, now }: Pick<TerminationPassDependencies, 'kube' | 'now'>,
): Promise<void> {
  const { waitingFor: known, ...status } = terminationStatusOf(pod);
  // a pause stays visible: the annotation stores it in case the operation is restarted
  if (trouble ? known?.reason === 'Paused' : !isEngineReason(known?.reason) || isTerminationDue(pod)) return;
  const wait =
    trouble && waitFor(trouble.reason, trouble.blockedBy, trouble.unblock ?? terminationWaits[trouble.reason]);
  const waitingFor = wait && waitingSince(known, wait, timestamp(now()));
  if (sameJson(known, waitingFor)) return;
  const changed: TerminationStatus = { ...status, ...(waitingFor && { waitingFor }) };
  const text = Object.keys(changed).length === 0 ? null : JSON.stringify(changed);
  const { namespace = '', name, uid, resourceVersion } = pod.metadata;
  const body = { metadata: { uid, resourceVersion, annotations: { [terminationMark.status]: text } } };
  const patch = kube.patch(kubeResource.pods, { namespace, name }, 'merge', body, { subresource: 'status' });
  await unlessMovedOn(patch);
}

/** The fields of the pod that decisions are based on. */
function inputsOf(pod: Pod): unknown {
  const { skipped, waitingFor } = terminationStatusOf(pod);
  const images = sidecarsOf(pod).map(
    ({ name }) => pod.spec.containers.find((container) => container.name === name)?.image,
  );
  const containers = pod.status?.containerStatuses?.map(({ name, containerID, state }) => [name, containerID, state]);
  // an operation that continues has to restore the status that was overwritten
  return [pod.status?.phase, containers, images, skipped, isEngineReason(waitingFor?.reason)];
}

function nodeOf(node: Node | undefined): unknown {
  return node && [node.metadata.uid, isVirtual(node)];
}

function requestOf(request: ContainerRecreateRequest | undefined): unknown {
  return request && [request.metadata.uid, request.status?.phase === 'Completed'];
}
