import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type BenchCluster, benchNamespace } from './cluster.ts';
import { type Figure, sample } from './figures.ts';

/**
 * How long a job's pod takes to succeed from the moment when its status shows the end of its main container: with the
 * sidecar marked, and beside it with the sidecar stopped at once through the runtime, which nobody can be faster than.
 */
export async function sidecarFigures(cluster: BenchCluster, samples: number): Promise<readonly Figure[]> {
  let number = 0;

  async function succeed(isMarked: boolean): Promise<number> {
    const name = `job-${Date.now().toString(36)}-${number++}`;
    const { metadata } = await cluster.kube.create<Pod>(kubeResource.pods, jobPod(name, cluster.node, isMarked));
    let sidecar = '';
    await cluster.podIs(metadata.uid, `the main container of ${name} has ended`, (pod) => {
      sidecar = statusOf(pod, 'proxy')?.containerID?.split('://')[1] ?? '';
      return statusOf(pod, 'main')?.state?.terminated !== undefined && sidecar !== '';
    });
    const startedAt = performance.now();
    if (!isMarked) await cluster.runtime.stopContainer(sidecar, 1);
    await cluster.podIs(metadata.uid, `pod ${name} has succeeded`, ({ status }) => status?.phase === 'Succeeded');
    const took = performance.now() - startedAt;
    await cluster.remove(kubeResource.pods, name);
    return took;
  }

  return [
    await sample('bare: CRI stop of the sidecar → pod Succeeded', samples, () => succeed(false)),
    await sample('marked: the main container’s end → pod Succeeded', samples, () => succeed(true)),
  ];
}

function statusOf({ status }: Pod, name: string): ContainerStatus | undefined {
  return status?.containerStatuses?.find((container) => container.name === name);
}

function jobPod(name: string, nodeName: string, isMarked: boolean): object {
  const container = (of: string, script: string) => ({
    name: of,
    image: 'busybox:1.36',
    command: ['sh', '-c', script],
  });
  const env = isMarked ? [{ name: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT', value: 'true' }] : [];
  // ends at another moment each time: the kubelet looks once a second
  const main = container('main', `sleep ${(1 + Math.random()).toFixed(3)}`);
  const proxy = { ...container('proxy', "trap 'exit 0' TERM; sleep 99999 & wait"), env };
  return {
    metadata: { name, namespace: benchNamespace },
    spec: { nodeName, restartPolicy: 'Never', terminationGracePeriodSeconds: 1, containers: [main, proxy] },
  };
}
