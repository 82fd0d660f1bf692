import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { describeAlone } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster, sample } from './local-cluster.ts';
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
  await cluster.ok(['delete', 'sidecarset', 'log-reader', '--ignore-not-found']);
});

async function found(): Promise<SidecarSet & KubeObject> {
  return JSON.parse(await cluster.ok(['get', 'sidecarset', 'log-reader', '-o', 'json'])) as SidecarSet & KubeObject;
}

describeAlone('a SidecarSet', () => {
  it('SCS-6, SCS-31: adds a container that runs beside that of the pod, and is counted', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.ok(['apply', '-f', '-'], await sampleFor(namespace));
    await waitFor('its revision', async (see) => see((await found()).status)?.latestRevision);
    await cluster.applySample('pod-checkout.yaml', namespace);
    await cluster.readyPod(namespace, 'checkout-1');
    const pod = await cluster.get<Pod>('pod', namespace, 'checkout-1');
    expect(pod.spec.containers.map(({ name }) => name)).toEqual(['log-reader', 'app']);
    await waitFor('what the application has logged', async (see) => {
      return see(await cluster.ok(['logs', 'checkout-1', '-n', namespace, '-c', 'log-reader'])) !== '';
    });
    const team = ['exec', 'checkout-1', '-n', namespace, '-c', 'log-reader', '--', 'sh', '-c', 'echo $TEAM'];
    expect((await cluster.ok(team)).trim()).toBe('payments');
    const status = await waitFor('the count', async (see) => {
      const seen = see((await found()).status);
      return seen?.readyPods === 1 && seen;
    });
    expect(status).toMatchObject({ matchedPods: 1, updatedPods: 1, updatedReadyPods: 1 });
  });

  it('SCS-154, SCS-189: updates its image in running pods as far as the partition lets it, and restarts nothing else', async () => {
    const namespace = await cluster.newNamespace();
    const text = await sampleFor(namespace);
    await cluster.ok(['apply', '-f', '-'], text);
    await waitFor('its revision', async (see) => see((await found()).status)?.latestRevision);
    const checkout = await sample('pod-checkout.yaml');
    const names = ['checkout-1', 'checkout-2', 'checkout-3'];
    for (const name of names) {
      await cluster.ok(['apply', '-n', namespace, '-f', '-'], checkout.replace('name: checkout-1', `name: ${name}`));
    }
    for (const name of names) await cluster.readyPod(namespace, name);
    const podsNow = () => Promise.all(names.map((name) => cluster.get<Pod>('pod', namespace, name)));
    const before = await podsNow();

    const apply = (partition: number) => {
      const strategy = `spec:\n  updateStrategy:\n    partition: ${partition}\n`;
      const changed = text.replace('image: busybox:1.36', 'image: busybox:1.35').replace('spec:\n', strategy);
      return cluster.ok(['apply', '-f', '-'], changed);
    };
    await apply(2);
    await waitFor('the first pod', async (see) => see((await found()).status)?.updatedReadyPods === 1);
    await waitFor('the wait', async (see) => see((await found()).status)?.waitingFor?.reason === 'PartitionReached');
    const imageOf = ({ spec }: Pod) => spec.containers.find(({ name }) => name === 'log-reader')?.image;
    expect((await podsNow()).filter((pod) => imageOf(pod) === 'busybox:1.35')).toHaveLength(1);

    await apply(0);
    await waitFor('the rest', async (see) => see((await found()).status)?.updatedReadyPods === 3);
    const after = await podsNow();
    expect(after.map(({ metadata }) => metadata.uid)).toEqual(before.map(({ metadata }) => metadata.uid));
    for (const pod of after) {
      expect(imageOf(pod)).toBe('busybox:1.35');
      const restarts = pod.status?.containerStatuses?.map(({ name, restartCount }) => [name, restartCount]) ?? [];
      expect(Object.fromEntries(restarts)).toEqual({ app: 0, 'log-reader': 1 });
    }
    const { metadata } = await found();
    const run = cluster.temporal.workflow.getHandle(rollOutId(metadata));
    await waitFor('the end of the roll-out', async (see) => see((await run.describe()).status.name) === 'COMPLETED');
  });

  it('waits for its images where its annotation asks for that, and takes its jobs away', async () => {
    const namespace = await cluster.newNamespace();
    const text = (await sampleFor(namespace)).replace(
      'metadata:\n',
      'metadata:\n  annotations:\n    windlass.io/prefetch: 100%\n',
    );
    await cluster.ok(['apply', '-f', '-'], text);
    await waitFor('its revision', async (see) => see((await found()).status)?.latestRevision);
    await cluster.applySample('pod-checkout.yaml', namespace);
    await cluster.readyPod(namespace, 'checkout-1');
    await cluster.ok(['apply', '-f', '-'], text.replace('image: busybox:1.36', 'image: busybox:1.35'));
    await waitFor('the update', async (see) => {
      const { metadata, status } = await found();
      return see(status)?.updatedReadyPods === 1 && status?.observedGeneration === metadata.generation;
    });
    const revision = (await found()).status?.latestRevision ?? '';
    const mark = await cluster.ok([
      ...['get', 'controllerrevision', revision, '-n', 'kruise-system'],
      ...['-o', 'jsonpath={.metadata.annotations.windlass\\.io/prefetched}'],
    ]);
    expect(Number(mark)).toBeGreaterThan(1);
    await waitFor('the end of the jobs', async (see) => {
      const jobs = await cluster.ok(['get', 'imagepulljobs', '-n', 'kruise-system', '-o', 'name']);
      return see(jobs).trim() === '';
    });
  });

  it('SCS-3: refuses the pods that it selects while the webhook is away, and no others', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.ok(['apply', '-f', '-'], await sampleFor(namespace));
    const run = (name: string, app: string) =>
      cluster.kubectl([
        'run',
        name,
        '-n',
        namespace,
        '--image=busybox:1.36',
        `--labels=app=${app}`,
        '--',
        'sleep',
        '60',
      ]);
    await cluster.part.stop('webhook');
    try {
      const refused = await waitFor('the policy to know the SidecarSet', async (see) => {
        const answer = see(await run('refused', 'checkout'));
        if (answer.code === 0) await cluster.ok(['delete', 'pod', 'refused', '-n', namespace, '--now']);
        return answer.code !== 0 && answer;
      });
      expect(refused.stderr).toContain('SidecarSet "log-reader" was not injected');
      expect(await run('other', 'other')).toMatchObject({ code: 0 });
    } finally {
      await cluster.part.start('webhook');
    }
    await waitFor('a pod with its sidecar', async (see) => {
      const answer = see(await run('back', 'checkout'));
      if (answer.code !== 0) return false;
      const pod = await cluster.get<Pod>('pod', namespace, 'back');
      if (pod.spec.containers.length === 2) return true;
      await cluster.ok(['delete', 'pod', 'back', '-n', namespace, '--now']);
      return false;
    });
  });
});
