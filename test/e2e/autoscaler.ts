import { expect } from '@jest/globals';
import { apiVersionOf, type KubeObject, type Resource } from '../../api/core/meta.ts';
import type { PodCondition } from '../../api/core/pod.ts';
import { isServing } from '../support/fleet-watch.ts';
import { serveResourceMetrics } from '../support/resource-metrics.ts';
import { waitFor } from '../support/wait.ts';
import { container, Fleet, type FleetObject, type FleetOptions } from './fleet.ts';
import type { LocalCluster } from './local-cluster.ts';

/** HorizontalPodAutoscaler: Kubernetes' controller manager carries it out. */
export const autoscalers: Resource = {
  group: 'autoscaling',
  version: 'v2',
  plural: 'horizontalpodautoscalers',
  kind: 'HorizontalPodAutoscaler',
  namespaced: true,
};

/** The fields of an autoscaler that tests read. */
export interface Autoscaler extends KubeObject {
  readonly status?: { readonly currentReplicas?: number; readonly conditions?: readonly PodCondition[] };
}

/**
 * Creates a workload of two pods and an autoscaler for it, and changes the load of the pods: there are five of them, and
 * then one.
 */
export async function followsLoad(
  { cluster, temporal, machine }: LocalCluster,
  { resource, ...options }: FleetOptions & { readonly resource: Resource },
): Promise<void> {
  const fleet = await Fleet.create<FleetObject>(
    { cluster, temporal },
    { resource, ...options, replicas: 2, containers: [container('app', { resources: { requests: { cpu: '50m' } } })] },
  );
  const { namespace } = fleet;
  const metrics = await serveResourceMetrics(cluster.kube, { namespace, address: machine });
  const untilPods = async (count: number): Promise<void> => {
    await waitFor(`${count} ready pods`, async (see) => {
      see(await cluster.kube.get(autoscalers, { namespace, name: 'web' }));
      const ready = [...fleet.pods().values()].filter(isServing).length;
      return ready === count && fleet.pods().size === count;
    });
  };
  try {
    metrics.use(namespace, 50); // half of what two pods request, which is the target
    await cluster.kube.create(autoscalers, {
      metadata: { namespace, name: 'web' },
      spec: {
        scaleTargetRef: { apiVersion: apiVersionOf(resource), kind: resource.kind, name: 'web' },
        ...{ minReplicas: 1, maxReplicas: 6 },
        metrics: [
          {
            type: 'Resource',
            resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 50 } },
          },
        ],
        // its default waits for five minutes
        behavior: { scaleDown: { stabilizationWindowSeconds: 0 } },
      },
    });
    metrics.use(namespace, 120);
    await untilPods(5);
    metrics.use(namespace, 20);
    await untilPods(1);
    const { status } = await fleet.get();
    expect(status).toMatchObject({ labelSelector: 'app=web' });
  } finally {
    await cluster.kube.delete(autoscalers, { namespace, name: 'web' }).catch(() => undefined);
    await metrics.stop();
  }
}
