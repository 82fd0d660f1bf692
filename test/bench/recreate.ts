import { setTimeout as delay } from 'node:timers/promises';
import { crr } from '../../api/container-recreate-request.ts';
import { kubeResource } from '../../api/well-known.ts';
import type { BenchCluster } from './cluster.ts';
import { type Figure, sample, single } from './figures.ts';

/** How long a request takes beside the bare stop of a container, with fresh containers for every sample. */
export async function recreateFigures(cluster: BenchCluster, samples: number): Promise<readonly Figure[]> {
  let number = 0;
  const nextName = (): string => `bench-${Date.now().toString(36)}-${number++}`;

  async function request(containers: number): Promise<number> {
    const pod = await cluster.readyPod(nextName(), containers);
    await randomPhase();
    const took = await cluster.recreate(pod);
    await cluster.remove(crr, pod.metadata.name);
    await cluster.remove(kubeResource.pods, pod.metadata.name);
    return took;
  }

  /** What nobody can be faster than: the runtime's stop, and the kubelet's start until the pod's status says ready. */
  async function bare(containers: number): Promise<number> {
    const pod = await cluster.readyPod(nextName(), containers);
    await randomPhase();
    const startedAt = performance.now();
    for (const { name, containerID = '' } of pod.status?.containerStatuses ?? []) {
      await cluster.runtime.stopContainer(containerID.split('://')[1] ?? '', 1);
      await cluster.podIs(pod.metadata.uid, `container ${name} runs again`, ({ status }) => {
        const now = status?.containerStatuses?.find((container) => container.name === name);
        return now?.ready === true && now.containerID !== containerID;
      });
    }
    const took = performance.now() - startedAt;
    await cluster.remove(kubeResource.pods, pod.metadata.name);
    return took;
  }

  return [
    await sample('bare: CRI stop → pod status shows the new container ready', samples, () => bare(1)),
    await sample('bare: the same for three containers, one after the other', samples, () => bare(3)),
    await sample('one container: request created → Completed', samples, () => request(1)),
    await sample('three in order: request created → Completed', samples, () => request(3)),
  ];
}

/**
 * The kubelet looks at its containers once a second, and a pod is seen to be ready right after such a look. Without a
 * pause of random length every stop would come at the same, worst moment.
 */
async function randomPhase(): Promise<void> {
  await delay(Math.random() * 1000);
}

/** Many requests at once: 10 for each of 20 pods of 10 containers, each for one container. */
export async function crowdFigures(cluster: BenchCluster): Promise<readonly Figure[]> {
  const prefix = `crowd-${Date.now().toString(36)}`;
  const names = Array.from({ length: 20 }, (_, index) => `${prefix}-${index}`);
  const pods = await Promise.all(names.map((name) => cluster.readyPod(name, 10)));
  const startedAt = performance.now();
  const requests = pods.flatMap((pod) =>
    pod.spec.containers.map(async ({ name }) => {
      const part = { ...pod, spec: { ...pod.spec, containers: [{ name }] } };
      await cluster.recreate(part, `${pod.metadata.name}-${name}`);
    }),
  );
  await Promise.all(requests);
  const seconds = (performance.now() - startedAt) / 1000;
  await Promise.all(names.map((name) => cluster.remove(kubeResource.pods, name)));
  return [single('200 requests at once over 20 pods of 10 containers, until the last has ended: seconds', seconds)];
}
