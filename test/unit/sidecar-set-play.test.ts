import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { KubeError } from '../../kube/failures.ts';
import { sidecarSetController } from '../../watcher/kinds/sidecar-set/controller.ts';
import { runController } from '../support/controller-context.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import '../support/property-seed.ts';
import { playedRollOut, podWith, setIn, sidecarSet, upgradableOf } from '../support/sidecar-world.ts';
import { waitFor } from '../support/wait.ts';

/** What somebody does to a pod while it is updated. */
type Deed = 'kubelet' | 'owner' | 'note' | 'unready' | 'fill' | 'empty';

/** A pod with the statuses of some of its containers as the kubelet reports them after it has started them. */
function started(pod: Pod, name: string): Pod {
  const image = pod.spec.containers.find((container) => container.name === name)?.image ?? '';
  const containerStatuses = pod.status?.containerStatuses?.map((state) =>
    state.name !== name || state.image === image
      ? state
      : { ...state, image, imageID: `sha256:${image}`, restartCount: state.restartCount + 1 },
  );
  return { ...pod, status: { ...pod.status, ...(containerStatuses && { containerStatuses }) } };
}

const imageOf = ({ spec }: Pod, name: string) => spec.containers.find((container) => container.name === name)?.image;
const stateOf = ({ status }: Pod, name: string) => status?.containerStatuses?.find((state) => state.name === name);

function withReady(pod: Pod, ready: boolean): Pod {
  const conditions = [
    ...(pod.status?.conditions ?? []).filter(({ type }) => type !== 'Ready'),
    { type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: '2026-01-01T00:00:00Z' },
  ];
  return { ...pod, status: { ...pod.status, conditions } };
}

/** So much that no update can be written, or nothing. */
function withFiller(pod: Pod, filler: string): Pod {
  return { ...pod, metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, filler } } };
}

/** Does one deed to a pod, as another writer does it: to the newest version. */
function act(cluster: MemoryCluster, name: string, deed: Deed): void {
  const pod = cluster.look<Pod>(kubeResource.pods, { namespace: 'shop', name });
  if (pod === undefined) return;
  cluster.put(kubeResource.pods, changed(pod, deed) as never);
}

function changed(pod: Pod, deed: Deed): Pod {
  switch (deed) {
    case 'kubelet':
      return withReady(started(started(pod, 'log'), 'app'), true);
    case 'owner': {
      // the update in place of its workload
      const containers = pod.spec.containers.map((one) => (one.name === 'app' ? { ...one, image: 'app:2' } : one));
      return { ...pod, spec: { ...pod.spec, containers } };
    }
    case 'note': {
      const note = String(Number(pod.metadata.annotations?.note ?? 0) + 1);
      return { ...pod, metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, note } } };
    }
    case 'unready':
      return withReady(pod, false);
    case 'fill':
      return withFiller(pod, 'x'.repeat(261_000));
    case 'empty':
      return withFiller(pod, '');
  }
}

const names = ['a', 'b', 'c', 'd', 'e', 'f'];
const deeds = fc.array(
  fc.tuple(
    fc.constantFrom(...names),
    fc.constantFrom<Deed>('kubelet', 'kubelet', 'owner', 'note', 'unready', 'fill', 'empty'),
  ),
  { minLength: 20, maxLength: 60 },
);

describe('a SidecarSet and a workload that update the same pods at once', () => {
  it('SCS-157, SCS-186, SCS-187: keep the budget, lose nothing of each other, and restart each sidecar once', async () => {
    await fc.assert(
      fc.asyncProperty(deeds, fc.integer({ min: 1, max: 3 }), fc.nat(4), async (play, maxUnavailable, refusedOf5) => {
        const cluster = new MemoryCluster();
        cluster.put(kubeResource.namespaces, { metadata: { name: 'shop' } });
        const old = sidecarSet('log:1');
        for (const name of names) cluster.put(kubeResource.pods, podWith(old, name) as never);
        const spec = { updateStrategy: { maxUnavailable } };
        cluster.put(sidecarSets, sidecarSet('log:2', { generation: 2, spec }) as never);
        const broken: string[] = [];
        const free = new Set<string>();
        let writes = 0;
        let isPlaying = true;
        const controller = await runController(sidecarSetController, {
          cluster,
          meet({ plural, verb, name, body }, { isDryRun }) {
            if (plural !== 'pods' || verb !== 'patch' || !('spec' in (body as object))) return;
            // a webhook that refuses some of what is written
            if (isPlaying && writes++ % 5 < refusedOf5) throw new KubeError({ status: 422, message: 'denied' });
            if (isDryRun) return;
            const pods = cluster.all<Pod>(kubeResource.pods);
            const isReady = (pod: Pod) =>
              pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
            const target = pods.find(({ metadata }) => metadata.name === name);
            if (target && !isReady(target)) free.add(name);
            // What others do to a pod at this moment nobody can know; what was written is known.
            const isDown = (pod: Pod) => imageOf(pod, 'log') === 'log:2' && stateOf(pod, 'log')?.image !== 'log:2';
            const down = pods.filter((pod) => isDown(pod) && !free.has(pod.metadata.name));
            if (target && isReady(target) && down.length >= maxUnavailable)
              broken.push(`${name} beside ${down.map(({ metadata }) => metadata.name)}`);
          },
        });
        try {
          await waitFor('the status', () => setIn(cluster)?.status?.observedGeneration === 2);
          const end = playedRollOut(controller).run();
          for (const [name, deed] of play) {
            act(cluster, name, deed);
            await delay(2);
          }
          isPlaying = false;
          for (const name of names) act(cluster, name, 'empty');
          const edited = setIn(cluster);
          cluster.put(sidecarSets, { ...edited, metadata: { ...edited?.metadata, generation: 3 } } as never);
          const finished = setInterval(() => {
            for (const name of names) act(cluster, name, 'kubelet');
          }, 10);
          expect((await end).kind).toBe('done');
          clearInterval(finished);
          const notes = (name: string) => play.filter(([who, deed]) => who === name && deed === 'note').length;
          const owned = (name: string) => play.some(([who, deed]) => who === name && deed === 'owner');
          for (const pod of cluster.all<Pod>(kubeResource.pods)) {
            const { name } = pod.metadata;
            expect([imageOf(pod, 'log'), stateOf(pod, 'log')?.restartCount]).toEqual(['log:2', 1]);
            expect(imageOf(pod, 'app')).toBe(owned(name) ? 'app:2' : 'app:1');
            expect(Number(pod.metadata.annotations?.note ?? 0)).toBe(notes(name));
            expect(upgradableOf(pod)).toEqual({ logs: true });
            expect(pod.metadata.annotations?.['kruise.io/sidecarset-inplace-update-state']).toContain('sha256:log:1');
          }
          expect(broken).toEqual([]);
        } finally {
          await controller.stop();
        }
      }),
      { numRuns: 8 },
    );
  });
});
