import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { defaultSidecarSet } from '../../api/sidecar-set/defaults.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { sidecarSetController } from '../../watcher/kinds/sidecar-set/controller.ts';
import { type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { waitFor } from '../support/wait.ts';

const running: RunningController[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

function pod(name: string, hash: string, image: string): Pod {
  const entry = { hash, sidecarSetName: 'logs', sidecarList: ['log'] };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...{ name, namespace: 'shop', uid: name, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
      labels: { app: 'web' },
      annotations: {
        'kruise.io/sidecarset-injected-list': 'logs',
        'kruise.io/sidecarset-hash': JSON.stringify({ logs: entry }),
      },
    },
    spec: {
      containers: [
        { name: 'log', image },
        { name: 'app', image: 'app' },
      ],
    },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'True' }],
      containerStatuses: ['log', 'app'].map((container) => ({ name: container, ready: true, restartCount: 0 })),
    },
  };
}

describe('the roll-out of a SidecarSet whose last pod is restarting', () => {
  it('is not told to ask whenever a pod comes or goes', async () => {
    const cluster = new MemoryCluster();
    const object = defaultSidecarSet(
      sidecarSetDraft({ metadata: { uid: 'set-uid', generation: 1 }, spec: {} }),
    ) as never;
    const hash = String(objectOr(objectOr((object as JsonObject).metadata).annotations)['kruise.io/sidecarset-hash']);
    cluster.put(kubeResource.namespaces, { metadata: { name: 'shop' } });
    cluster.put(sidecarSets, object);
    // updated, and its kubelet has not restarted the container for a week
    const stuck = pod('stuck', hash, 'log:9');
    const noted = {
      logs: {
        revision: hash,
        updateTimestamp: '2026-01-01T00:00:00Z',
        lastContainerStatuses: { log: { imageID: 'x' } },
      },
    };
    const annotations = {
      ...stuck.metadata.annotations,
      'kruise.io/sidecarset-inplace-update-state': JSON.stringify(noted),
    };
    const states = (stuck.status?.containerStatuses ?? []).map((one) => ({ ...one, ready: false, imageID: 'x' }));
    cluster.put(kubeResource.pods, {
      ...stuck,
      metadata: { ...stuck.metadata, annotations },
      status: { ...stuck.status, containerStatuses: states, conditions: [{ type: 'Ready', status: 'False' }] },
    } as never);
    let told = 0;
    const controller = await runController(sidecarSetController, {
      cluster,
      starter: {
        want: () => void told++,
        tell: async () => {
          told++;
          controller.controller.fleet?.queue()?.next('set-uid');
          return true;
        },
      },
    });
    running.push(controller);
    const status = () => cluster.look<SidecarSet>(sidecarSets, { name: 'logs' })?.status;
    await waitFor('the look', () => status()?.matchedPods === 1);
    const answer = controller.controller.fleet?.queue()?.next('set-uid');
    expect(answer?.kind).toBe('wait');
    told = 0;
    for (let nth = 0; nth < 6; nth++) {
      cluster.put(kubeResource.pods, pod(`job-${nth}`, hash, 'log:1'));
      await delay(700);
    }
    expect(told).toBe(0);
  });
});
