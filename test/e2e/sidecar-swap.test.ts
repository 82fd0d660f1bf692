import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import { swapSidecarId } from '../../api/sidecar-set/swap.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { describeAlone } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { sampleFor } from './sidecar-manifests.ts';

let cluster: LocalCluster;

beforeAll(async () => {
  cluster = await localCluster();
});

afterAll(async () => {
  await cluster.close();
});

// It is cluster-scoped, and would be injected into pods of later tests.
afterEach(async () => {
  await cluster.ok(['delete', 'sidecarset', 'mesh', '--ignore-not-found']);
});

const empty = 'busybox:1.36';
/** The same image under two names: the kubelet restarts a container for either. */
const [old, fresh] = ['busybox:1.35', 'docker.io/library/busybox:1.35'] as const;

/** The sample with this image, for the pods of one namespace. */
async function setOf(namespace: string, image: string): Promise<string> {
  return (await sampleFor(namespace, 'sidecar-hot-upgrade.yaml')).replace(`image: ${old}`, `image: ${image}`);
}

/** The containers of the sidecar that run an image that works. */
function servingIn({ status }: Pod): readonly string[] {
  return (status?.containerStatuses ?? [])
    .filter(({ name, image, state }) => name.startsWith('mesh-') && state?.running && !image?.endsWith(empty))
    .map(({ name }) => name);
}

describeAlone('a hot-upgrade sidecar', () => {
  it('SHU-30, SHU-41, SHU-81, SHU-82, SHU-86: is swapped in running pods, one pod at a time, and one of its containers always serves', async () => {
    const namespace = await cluster.newNamespace();
    const found = async () =>
      JSON.parse(await cluster.ok(['get', 'sidecarset', 'mesh', '-o', 'json'])) as SidecarSet & KubeObject;
    const podsNow = async () => {
      const list = await cluster.ok(['get', 'pods', '-n', namespace, '-l', 'app=hot', '-o', 'json']);
      return (JSON.parse(list) as { readonly items: readonly Pod[] }).items;
    };
    await cluster.ok(['apply', '-f', '-'], await setOf(namespace, old));
    await waitFor('its revision', async (see) => see((await found()).status)?.latestRevision);
    await cluster.applySample('deployment-hot.yaml', namespace);
    await cluster.ok(['rollout', 'status', 'deployment/hot', '-n', namespace, '--timeout=5m']);
    const before = await podsNow();
    expect(before).toHaveLength(3);

    /** Applies an image, and looks at the pods until all of them have been swapped. */
    const swap = async (image: string, working: string) => {
      const withoutOne: string[] = [];
      await cluster.ok(['apply', '-f', '-'], await setOf(namespace, image));
      await waitFor(`swaps to ${working}`, async (see) => {
        const pods = await podsNow();
        withoutOne.push(...pods.filter((pod) => servingIn(pod).length === 0).map(({ metadata }) => metadata.name));
        const { status, metadata } = see(await found());
        const isCounted = status?.observedGeneration === metadata.generation;
        return isCounted && status?.updatedReadyPods === before.length;
      });
      expect(withoutOne).toEqual([]);
      const pods = await podsNow();
      for (const pod of pods) {
        expect(servingIn(pod)).toEqual([working]);
        expect(pod.metadata.annotations?.[hotMark.working]).toBe(JSON.stringify({ mesh: working }));
      }
      return pods;
    };

    const swapped = await swap(fresh, 'mesh-2');
    expect(swapped.map(({ metadata }) => metadata.uid)).toEqual(before.map(({ metadata }) => metadata.uid));
    for (const pod of swapped) {
      const restarts = pod.status?.containerStatuses?.map(({ name, restartCount }) => [name, restartCount]) ?? [];
      expect(Object.fromEntries(restarts)).toEqual({ app: 0, 'mesh-1': 1, 'mesh-2': 1 });
      const version = pod.metadata.annotations?.[`${hotMark.version}mesh-2`];
      const told = await cluster.ok([
        'exec',
        pod.metadata.name,
        '-n',
        namespace,
        '-c',
        'app',
        '--',
        'cat',
        '/shared/serving',
      ]);
      // the new one has seen the first version beside its own
      expect(told.trim()).toBe(`${version} 1`);
    }

    const again = await swap(old, 'mesh-1');
    for (const { metadata } of again) {
      const run = cluster.temporal.workflow.getHandle(swapSidecarId(metadata));
      await waitFor('the end of the swap', async (see) => see((await run.describe()).status.name) === 'COMPLETED');
    }
  });
});
