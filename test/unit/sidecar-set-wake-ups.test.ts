import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { kubeResource } from '../../api/core/well-known.ts';
import { hashAnnotation } from '../../api/sidecar-set/marks.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { sidecarSetController } from '../../watcher/kinds/sidecar-set/controller.ts';
import { type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { podWith, setUid, sidecarSet } from '../support/sidecar-world.ts';
import { waitFor } from '../support/wait.ts';

const running: RunningController[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

describe('the roll-out of a SidecarSet whose last pod is restarting', () => {
  it('is not told to ask whenever a pod comes or goes', async () => {
    const cluster = new MemoryCluster();
    const set = sidecarSet('log:1');
    cluster.put(kubeResource.namespaces, { metadata: { name: 'shop' } });
    cluster.put(sidecarSets, set as never);
    // updated, and its kubelet has not restarted the container for a week
    const noted = {
      logs: {
        revision: set.metadata.annotations?.[hashAnnotation.whole],
        updateTimestamp: '2026-01-01T00:00:00Z',
        lastContainerStatuses: { log: { imageID: 'x' } },
      },
    };
    const annotations = { 'kruise.io/sidecarset-inplace-update-state': JSON.stringify(noted) };
    const containers = [
      { name: 'log', image: 'log:9' },
      { name: 'app', image: 'app' },
    ];
    const stuck = podWith(set, 'stuck', { ready: false, annotations, containers });
    const states = (stuck.status?.containerStatuses ?? []).map((one) => ({ ...one, image: 'log:1', imageID: 'x' }));
    cluster.put(kubeResource.pods, { ...stuck, status: { ...stuck.status, containerStatuses: states } } as never);
    let told = 0;
    const controller = await runController(sidecarSetController, {
      cluster,
      starter: {
        want: () => void told++,
        tell: async () => {
          told++;
          controller.controller.fleet?.queue()?.next(setUid);
          return true;
        },
      },
    });
    running.push(controller);
    const status = () => cluster.look<SidecarSet>(sidecarSets, { name: 'logs' })?.status;
    await waitFor('the look', () => status()?.matchedPods === 1);
    const answer = controller.controller.fleet?.queue()?.next(setUid);
    expect(answer?.kind).toBe('wait');
    told = 0;
    for (let nth = 0; nth < 6; nth++) {
      cluster.put(kubeResource.pods, podWith(set, `job-${nth}`) as never);
      await delay(700);
    }
    expect(told).toBe(0);
  });
});
