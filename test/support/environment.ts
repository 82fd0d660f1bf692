import type { WorkflowHandle } from '@temporalio/client';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import type { PlayedPod } from './kubelet-player.ts';
import type { Windlass } from './windlass.ts';

/** A pod whose container `app` has the label `tier`, which is `silver`, in its environment; `proxy` has not. */
export async function podWithEnvironment(windlass: Windlass): Promise<PlayedPod> {
  const follows = { app: "metadata.labels['tier']" };
  return await windlass.runPod(['app', 'proxy'], { follows, labels: { tier: 'silver' } });
}

/** Takes the pod out of service for an update, or puts it back into service. */
export async function setGate({ cluster }: Windlass, { ref }: PlayedPod, status: 'True' | 'False'): Promise<void> {
  const body = { status: { conditions: [{ type: inPlaceReadinessGate, status }] } };
  await cluster.kube.patch(kubeResource.pods, ref, 'strategic', body, { subresource: 'status' });
}

export async function setTier({ cluster }: Windlass, { ref }: PlayedPod, tier: string): Promise<void> {
  await cluster.kube.patch(kubeResource.pods, ref, 'merge', { metadata: { labels: { tier } } });
}

/** The operation that stops containers of this pod, in any run. */
export function operationOn({ client }: Windlass, { ref }: PlayedPod): WorkflowHandle {
  return client.workflow.getHandle(restartContainersId(ref));
}
