// Well-behaved objects of every kind, beside which others are hostile.

import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import { type ContainerRecreateRequest, crr, isCompleted } from '../../api/container-recreate-request/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type ImagePullJob, imagePullJobs, isFinished } from '../../api/image-pull-job/types.ts';
import { podProbeMarker } from '../../api/pod-probe-marker/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { waitFor } from '../support/wait.ts';
import { container } from './kinds.ts';

export interface Neighbours {
  /**
   * Uses every kind for each of them, or for so many of them, all at once, and takes back what it has changed. Resolves when
   * all is done.
   */
  exercise(some?: number): Promise<void>;
}

/** So many CloneSets of one pod in a namespace; resolves when all pods are ready. */
export async function settle(kube: KubeClient, namespace: string, count: number): Promise<Neighbours> {
  const names = Array.from({ length: count }, (_, index) => `neighbour-${index}`);
  await Promise.all(names.map((name) => kube.create(cloneSets, cloneSetOf(namespace, name))));
  await Promise.all(names.map((name) => untilReady(name, 1)));
  let round = 0;

  async function untilReady(name: string, replicas: number): Promise<void> {
    await waitFor(`CloneSet ${name} to have ${replicas} ready pods`, async (see) => {
      const { status } = see(await kube.get<CloneSet>(cloneSets, { namespace, name }));
      return status?.readyReplicas === replicas && status.replicas === replicas;
    });
  }

  async function scale(name: string, replicas: number): Promise<void> {
    await kube.patch(cloneSets, { namespace, name }, 'merge', { spec: { replicas } });
    await untilReady(name, replicas);
  }

  async function use(name: string, thing: string): Promise<void> {
    await scale(name, 2);
    const { items } = await kube.list<Pod>(kubeResource.pods, { namespace, labelSelector: `app=${name}` });
    const newest = items.toSorted((a, b) =>
      (b.metadata.creationTimestamp ?? '').localeCompare(a.metadata.creationTimestamp ?? ''),
    )[0];
    const podName = newest?.metadata.name ?? '';
    await Promise.all([
      restart(podName, thing),
      pull(thing),
      probe(
        name,
        thing,
        items.filter((pod) => pod.metadata.deletionTimestamp === undefined).map((pod) => pod.metadata.name),
      ),
    ]);
    await scale(name, 1);
  }

  async function restart(podName: string, name: string): Promise<void> {
    await kube.create(crr, { metadata: { namespace, name }, spec: { podName, containers: [{ name: 'app' }] } });
    await waitFor(`request ${name} to be completed`, async (see) => {
      return isCompleted(see(await kube.get<ContainerRecreateRequest>(crr, { namespace, name })));
    });
    await kube.delete(crr, { namespace, name });
  }

  async function pull(name: string): Promise<void> {
    // other nodes are those of hostile NodeImages, where nobody answers
    const selector = { names: ['node-1', 'node-2'] };
    const spec = { image: 'busybox:1.36', parallelism: 2, selector, completionPolicy: { type: 'Always' } };
    await kube.create(imagePullJobs, { metadata: { namespace, name }, spec });
    await waitFor(`job ${name} to be finished`, async (see) => {
      return isFinished(see(await kube.get<ImagePullJob>(imagePullJobs, { namespace, name })));
    });
    await kube.delete(imagePullJobs, { namespace, name });
  }

  async function probe(app: string, name: string, pods: readonly string[]): Promise<void> {
    const podConditionType = `neighbour.example/${name}`;
    const up = { name: 'up', containerName: 'app', probe: { exec: { command: ['true'] } }, podConditionType };
    await kube.create(podProbeMarker, {
      metadata: { namespace, name },
      spec: { selector: { matchLabels: { app } }, probes: [up] },
    });
    for (const pod of pods) {
      await waitFor(`pod ${pod} to be probed`, async (see) => {
        const { status } = see(await kube.get<Pod>(kubeResource.pods, { namespace, name: pod }));
        return status?.conditions?.some(({ type }) => type === podConditionType);
      });
    }
    await kube.delete(podProbeMarker, { namespace, name });
  }

  return {
    async exercise(some = count) {
      round++;
      await Promise.all(names.slice(0, some).map((name, index) => use(name, `round-${round}-${index}`)));
    },
  };
}

function cloneSetOf(namespace: string, name: string): object {
  const labels = { app: name };
  return {
    metadata: { namespace, name },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { terminationGracePeriodSeconds: 1, containers: [container('app')] },
      },
    },
  };
}
