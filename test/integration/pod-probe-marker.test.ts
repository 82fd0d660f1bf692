import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type NodePodProbe, nodePodProbe } from '../../api/node-pod-probe/types.ts';
import { type PodProbeMarker, podProbeMarker, serverlessAnnotation } from '../../api/pod-probe-marker/types.ts';
import { describeAlone } from '../support/groups.ts';
import { marker } from '../support/pod-probes.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

const windlass = useWindlass({ worker: false });

const containers = [{ name: 'app', image: 'busybox:1.36' }];

async function newMarker(namespace: string): Promise<PodProbeMarker> {
  const { spec } = marker();
  return await windlass().cluster.kube.create<PodProbeMarker>(podProbeMarker, {
    metadata: { name: 'game', namespace },
    spec,
  });
}

describeAlone('a marker on a real API server', () => {
  it('is spread to the node of a pod, and what is reported there shows on the pod', async () => {
    const { cluster } = windlass();
    const { kube } = cluster;
    const namespace = await cluster.newNamespace();
    const node = await cluster.newNode();
    const { name: nodeName } = node.metadata;
    const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
    await kube.patch(kubeResource.nodes, { name: nodeName }, 'merge', { status: ready }, { subresource: 'status' });
    const pod = await kube.create<Pod>(kubeResource.pods, {
      metadata: { name: 'web-1', namespace, labels: { app: 'web' } },
      spec: { nodeName, containers },
    });
    const { uid } = pod.metadata;
    const ref = { namespace, name: 'web-1' };
    const initialized = { podIP: '10.0.0.7', conditions: [{ type: 'Initialized', status: 'True' }] };
    await kube.patch(kubeResource.pods, ref, 'merge', { status: initialized }, { subresource: 'status' });
    await newMarker(namespace);

    await waitFor('the pod on the list of its node', async (see) => {
      const list = see(await cluster.find<NodePodProbe>(nodePodProbe, { name: nodeName }));
      return list?.spec.podProbes?.some((entry) => entry.uid === uid && entry.IP === '10.0.0.7');
    });
    await waitFor('the status of the marker', async (see) => {
      const { status } = see(await kube.get<PodProbeMarker>(podProbeMarker, { namespace, name: 'game' }));
      return status?.observedGeneration === 1 && status.matchedPods === 1;
    });

    const at = '2026-01-01T00:00:20Z';
    const state = { name: 'game#idle', state: 'Succeeded', message: 'fine', lastProbeTime: at, lastTransitionTime: at };
    const status = { podProbeStatuses: [{ name: 'web-1', namespace, uid, probeStates: [state] }] };
    await kube.patch(nodePodProbe, { name: nodeName }, 'merge', { status }, { subresource: 'status' });
    await waitFor('the condition', async (see) => {
      const { status: now } = see(await kube.get<Pod>(kubeResource.pods, ref));
      return now?.conditions?.some(({ type, message }) => type === 'game.io/idle' && message === 'fine');
    });

    await kube.delete(podProbeMarker, { namespace, name: 'game' });
    await waitFor('the marker to go', async () => !(await cluster.find(podProbeMarker, { namespace, name: 'game' })));
    expect((await cluster.find<NodePodProbe>(nodePodProbe, { name: nodeName }))?.spec.podProbes ?? []).toEqual([]);
    await kube.delete(kubeResource.nodes, { name: nodeName });
    await waitFor('the list to go with its node', async () => !(await cluster.find(nodePodProbe, { name: nodeName })));
  });
});

describeAlone('with the gate for virtual nodes', () => {
  const gates = 'EnablePodProbeMarkerOnServerless=true';

  beforeAll(async () => {
    await windlass().platform.install(gates);
    await windlass().restartWebhook([`--feature-gates=${gates}`]);
  });

  afterAll(async () => {
    await windlass().restartWebhook([]);
    await windlass().platform.install();
  });

  it('PPS-1: new pods of namespaces with a marker carry its probes, and others are left as they are', async () => {
    const { cluster } = windlass();
    const [marked, other] = await Promise.all([cluster.newNamespace(), cluster.newNamespace()]);
    const tryIn = (namespace: string) =>
      cluster.kube.create<Pod>(
        kubeResource.pods,
        { metadata: { generateName: 'web-', namespace, labels: { app: 'web' } }, spec: { containers } },
        { dryRun: true },
      );
    await newMarker(marked);
    const pod = await waitFor('a new pod with the probes', async (see) => {
      const tried = see(await tryIn(marked));
      return tried.metadata.annotations?.[serverlessAnnotation.markers] === 'game' && tried;
    });
    expect(JSON.parse(pod.metadata.annotations?.[serverlessAnnotation.probes] ?? '')).toMatchObject([{ name: 'idle' }]);
    expect((await tryIn(other)).metadata.annotations).toBeUndefined();
  });
});
