import { afterEach, describe, expect, it } from '@jest/globals';
import { type CloneSet, cloneSets } from '../../api/cloneset.ts';
import type { Pod } from '../../api/pod.ts';
import { kubeResource } from '../../api/well-known.ts';
import { cloneSetController } from '../../watcher/kinds/cloneset.ts';
import { cloneSet, newPodOf, newRevisionOfSet, nowMs } from '../support/cloneset-world.ts';
import { MemoryCluster } from '../support/memory-kube-client.ts';
import { waitFor } from '../support/wait.ts';
import { type RunningController, runController } from '../support/watcher-house.ts';

const drain = 'example.com/drain';
const running: RunningController[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

/** A set of these pods, all of its present revision, and the controller that keeps it. */
async function run(set: CloneSet, pods: readonly Pod[], gates = ''): Promise<RunningController> {
  const cluster = new MemoryCluster();
  cluster.put(cloneSets, set as never);
  cluster.put(kubeResource.controllerRevisions, newRevisionOfSet as never);
  for (const pod of pods) cluster.put(kubeResource.pods, pod as never);
  const controller = await runController(cloneSetController, { cluster, gates, now: () => nowMs });
  running.push(controller);
  return controller;
}

function statusIn({ cluster }: RunningController): CloneSet['status'] {
  const set = cluster.look(cloneSets, { namespace: 'shop', name: 'web' }) as unknown as CloneSet;
  return set.status;
}

describe('the controller of CloneSets', () => {
  it('CS-89: decides when it has seen all that is there, and so makes no pod twice', async () => {
    const pods = ['web-a', 'web-b', 'web-c', 'web-d'].map((name) => newPodOf(name));
    const controller = await run(cloneSet(), pods);
    await waitFor('the missing pod', () => controller.cluster.calls.some((call) => call.startsWith('create pods')));
    await waitFor('the status', () => statusIn(controller)?.replicas === 5);
    const created = controller.writes.filter(({ verb, plural }) => verb === 'create' && plural === 'pods');
    expect(created).toHaveLength(1);
  });

  it.each(['', 'CloneSetEventHandlerOptimization=true'])(
    'CS-88, LC-64: looks again when labels, marks or readiness of a pod change (gates "%s")',
    async (gates) => {
      const lifecycle = { preDelete: { finalizersHandler: [drain] } };
      const set = cloneSet({ replicas: 1, lifecycle });
      const held = newPodOf('web-a', { state: 'Normal', finalizers: [drain] });
      const controller = await run(set, [held], gates);
      await waitFor('the pod to be counted', () => statusIn(controller)?.readyReplicas === 1);
      const { cluster } = controller;

      cluster.put(
        kubeResource.pods,
        newPodOf('web-a', { state: 'Normal', finalizers: [drain], ready: false }) as never,
      );
      await waitFor('its readiness to be seen', () => statusIn(controller)?.readyReplicas === 0);
      const named = { state: 'Normal', finalizers: [drain], ready: false, specified: true } as const;
      cluster.put(kubeResource.pods, newPodOf('web-a', named) as never);
      await waitFor('its label to be seen', () => statusIn(controller)?.waitingFor?.reason === 'HookBeforeDelete');
      const free = { ...named, finalizers: [], state: 'PreparingDelete' } as const;
      cluster.put(kubeResource.pods, newPodOf('web-a', free) as never);
      await waitFor('its mark to be seen gone', () => controller.writes.some(({ verb }) => verb === 'delete'));
    },
  );
});
