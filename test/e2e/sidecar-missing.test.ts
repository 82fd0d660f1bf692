import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { describeAlone } from '../support/groups.ts';
import { type InstalledPlugin, installPlugin } from '../support/kruise-plugin.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { sampleFor } from './sidecar-manifests.ts';

let cluster: LocalCluster;
let plugin: InstalledPlugin;

beforeAll(async () => {
  cluster = await localCluster();
  plugin = await installPlugin(cluster.kubeconfig);
});

afterAll(async () => {
  plugin.remove();
  await cluster.close();
});

// It is cluster-scoped, and would be injected into pods of later tests.
afterEach(async () => {
  await cluster.ok(['delete', 'sidecarset', 'log-reader', '--ignore-not-found']);
});

const labels = { app: 'checkout' };
const spec = {
  terminationGracePeriodSeconds: 1,
  containers: [
    {
      ...{ name: 'app', image: 'busybox:1.36', command: ['sh', '-c', 'trap exit TERM; sleep 99999 & wait'] },
      volumeMounts: [{ name: 'logs', mountPath: '/logs' }],
    },
  ],
  volumes: [{ name: 'logs', emptyDir: {} }],
};

/** A Deployment and a StatefulSet of two pods each, a budget that allows one pod to be away, and a pod of its own. */
const workloads = [
  {
    ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'checkout' } },
    spec: {
      replicas: 2,
      selector: { matchLabels: { ...labels, of: 'deployment' } },
      template: templateOf('deployment'),
    },
  },
  {
    ...{ apiVersion: 'apps/v1', kind: 'StatefulSet', metadata: { name: 'ledger' } },
    spec: {
      ...{ replicas: 2, serviceName: 'ledger', podManagementPolicy: 'Parallel' },
      ...{ selector: { matchLabels: { ...labels, of: 'set' } }, template: templateOf('set') },
    },
  },
  {
    ...{ apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', metadata: { name: 'checkout' } },
    spec: { maxUnavailable: 1, selector: { matchLabels: { of: 'deployment' } } },
  },
  { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'alone', labels }, spec },
];

function templateOf(of: string): object {
  return { metadata: { labels: { ...labels, of } }, spec };
}

describeAlone('pods that a SidecarSet has missed', () => {
  it('are named in the status, and recreated by their controllers one by one', async () => {
    const namespace = await cluster.newNamespace();
    await cluster.ok(['apply', '-n', namespace, '-f', '-'], workloads.map((one) => stringify(one)).join('---\n'));
    const pods = async () => {
      const list = await cluster.ok(['get', 'pods', '-n', namespace, '-l', 'app=checkout', '-o', 'json']);
      return (JSON.parse(list) as { readonly items: readonly Pod[] }).items;
    };
    const readyPods = (count: number) =>
      waitFor(`${count} ready pods`, async (see) => {
        const found = see((await pods()).filter(isReady));
        return found.length === count && found;
      });
    await readyPods(5);
    await cluster.ok(['apply', '-f', '-'], await sampleFor(namespace));
    const status = async () =>
      (JSON.parse(await cluster.ok(['get', 'sidecarset', 'log-reader', '-o', 'json'])) as SidecarSet & KubeObject)
        .status;
    await waitFor('the missed pods in the status', async (see) => see(await status())?.missedPods === 5);
    expect((await status())?.missedPodNames?.[0]).toBe(`${namespace}/alone`);

    const missing = (...args: readonly string[]) =>
      plugin.run(['sidecar', 'missing', 'log-reader', '-n', namespace, ...args]);
    const tried = await missing('--recreate', '--dry-run', '-o', 'json');
    expect(tried).toMatchObject({ code: 0, err: '' });
    const items = JSON.parse(tried.out).items as readonly { readonly action: string; readonly reason: string }[];
    expect(items.map(({ action, reason }) => `${action} ${reason}`).toSorted((a, b) => a.localeCompare(b))).toEqual([
      ...Array.from({ length: 4 }, () => 'evict OlderThanSidecarSet'),
      'leave OlderThanSidecarSet',
    ]);

    const done = await missing('--recreate', '--yes', '--timeout', '3m');
    expect([done.code, done.out]).toEqual([0, expect.stringMatching(/alone +- +left alone: it has no controller/)]);
    expect(done.out.match(/ recreated: /g)).toHaveLength(4);
    const after = await readyPods(5);
    const withSidecar = after.filter((pod) => pod.spec.containers.some(({ name }) => name === 'log-reader'));
    expect(withSidecar).toHaveLength(4);
    await waitFor('the status', async (see) => {
      const seen = see(await status());
      return seen?.missedPods === 1 && seen.matchedPods === 4;
    });

    // what running pods cannot take
    const change = [{ op: 'add', path: '/spec/containers/0/env', value: [{ name: 'LEVEL', value: 'debug' }] }];
    const patched = await cluster.kubectl([
      ...['patch', 'sidecarset', 'log-reader', '--type=json', '-p', JSON.stringify(change)],
    ]);
    expect(patched).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/Warning: spec\.containers\[0\]\.env: 4 running pods keep/),
    });
    const outdated = await missing('--outdated');
    expect(outdated.out.match(/its containers are older/g)).toHaveLength(4);
  });
});

function isReady({ metadata, status }: Pod): boolean {
  const ready = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True');
  return ready === true && metadata.deletionTimestamp === undefined;
}
