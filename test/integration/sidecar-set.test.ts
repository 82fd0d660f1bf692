import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { expect, it } from '@jest/globals';
import { type JsonObject, objectOr, sameJson } from '../../api/base/json.ts';
import type { LabelSelector } from '../../api/core/label-selector.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { installation, kubeResource } from '../../api/core/well-known.ts';
import { selectsPod } from '../../api/sidecar-set/injection/choose.ts';
import { type SidecarSelection, sidecarSelectionName, sidecarSelections } from '../../api/sidecar-set/selection.ts';
import { type SidecarSet, sidecarSets, sidecarSetsV1alpha1 } from '../../api/sidecar-set/types.ts';
import { podWebhook } from '../../api/webhooks.ts';
import { KubeError } from '../../kube/failures.ts';
import { describeAlone } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

const windlass = useWindlass({ worker: false });

const sidecar = { name: 'log', image: 'busybox:1.36' };

/** A SidecarSet for the pods of one namespace. */
async function newSet(namespace: string, spec: JsonObject = {}, annotations: JsonObject = {}): Promise<SidecarSet> {
  const { kube } = windlass().cluster;
  return await kube.create<SidecarSet>(sidecarSets, {
    metadata: { name: `set-${randomUUID().slice(0, 8)}`, annotations },
    spec: {
      selector: { matchLabels: { app: 'web' } },
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
      containers: [sidecar],
      ...spec,
    },
  });
}

function newPod(
  namespace: string,
  labels: Record<string, string> = { app: 'web' },
  { annotations = {}, env = [], nodeName }: Written = {},
): Promise<Pod> {
  return windlass().cluster.kube.create<Pod>(kubeResource.pods, {
    metadata: { generateName: 'web-', namespace, labels, annotations },
    spec: {
      ...{ automountServiceAccountToken: false, containers: [{ name: 'app', image: 'busybox:1.36', env }] },
      ...(nodeName !== undefined && { nodeName }),
    },
  });
}

/** What a user may write on a pod besides. */
interface Written {
  readonly annotations?: Record<string, string>;
  readonly env?: readonly object[];
  readonly nodeName?: string;
}

async function refused(call: Promise<unknown>): Promise<KubeError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof KubeError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

const containersOf = ({ spec }: Pod) => spec.containers.map(({ name }) => name);

/** The first pod that a SidecarSet has changed: the webhook hears of it a moment after it was created. */
async function injectedPod(namespace: string): Promise<Pod> {
  return await waitFor('an injected pod', async (see) => {
    const pod = see(await newPod(namespace).catch((error: unknown) => String(error)));
    return typeof pod !== 'string' && pod.spec.containers.length > 1 && pod;
  });
}

/** The webhook writes what the policy of the API server reads a moment after the SidecarSets have changed. */
async function areSelected(sets: readonly SidecarSet[]): Promise<void> {
  await waitFor('the SidecarSelection', async (see) => {
    const found = see(
      await windlass().cluster.find<SidecarSelection>(sidecarSelections, { name: sidecarSelectionName }),
    );
    const names = found?.spec.sidecarSets.map(({ name }) => name) ?? [];
    return sets.every(({ metadata }) => names.includes(metadata.name));
  });
}

describeAlone('a SidecarSet in a real API server', () => {
  it('is stored with defaults and hashes, and shown in both versions', async () => {
    const { cluster } = windlass();
    const namespace = await cluster.newNamespace();
    const name = `old-${randomUUID().slice(0, 8)}`;
    await cluster.kube.create(sidecarSetsV1alpha1, {
      metadata: { name, labels: { 'apps.kruise.io/sidecarset-custom-version': '1' } },
      spec: { namespace, selector: { matchLabels: { app: 'old' } }, containers: [sidecar] },
    });
    const stored = await cluster.kube.get<SidecarSet>(sidecarSets, { name });
    expect(stored.spec).toMatchObject({
      customVersion: '1',
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
      containers: [
        { name: 'log', podInjectPolicy: 'BeforeAppContainer', upgradeStrategy: { upgradeType: 'ColdUpgrade' } },
      ],
      updateStrategy: { type: 'RollingUpdate', partition: 0, maxUnavailable: 1 },
    });
    expect(stored.metadata.annotations?.['kruise.io/sidecarset-hash']).toHaveLength(64);
    const old = await cluster.kube.get<SidecarSet>(sidecarSetsV1alpha1, { name });
    expect(old.metadata.labels).toEqual({ 'apps.kruise.io/sidecarset-custom-version': '1' });
    expect(objectOr(old.spec)).not.toHaveProperty('customVersion');
    await cluster.kube.delete(sidecarSets, { name });
  });

  it('SCS-252, SCS-256, SCS-260: is refused with the path of the field', async () => {
    const namespace = await windlass().cluster.newNamespace();
    const odd = [{ ...sidecar, volumeMounts: [{ name: 'none', mountPath: '/x' }] }];
    expect((await refused(newSet(namespace, { containers: odd }))).message).toContain(
      'spec.containers[0].volumeMounts[0].name',
    );
    const resourcesPolicy = { targetContainersMode: 'average', resourcesExpr: { limits: { cpu: 'cpu' } } };
    const policy = await refused(newSet(namespace, { containers: [{ ...sidecar, resourcesPolicy }] }));
    expect(policy.message).toContain('spec.containers[0].resourcesPolicy.targetContainersMode');
    const first = await newSet(namespace);
    const conflict = await refused(newSet(namespace));
    expect(conflict.message).toContain(`spec.containers[0].name`);
    expect(conflict.message).toContain(`container log already exist in ${first.metadata.name}`);
    await windlass().cluster.kube.delete(sidecarSets, { name: first.metadata.name });
  });

  it('SCS-5: is injected into new pods that it selects, and into no others', async () => {
    const { cluster } = windlass();
    const namespace = await cluster.newNamespace();
    const before = await newPod(namespace);
    const set = await newSet(namespace, {
      volumes: [{ name: 'v' }],
      containers: [{ ...sidecar, volumeMounts: [{ name: 'v', mountPath: '/v' }] }],
    });
    const pod = await injectedPod(namespace);
    expect(containersOf(pod)).toEqual(['log', 'app']);
    expect(pod.metadata.annotations?.['kruise.io/sidecarset-injected-list']).toBe(set.metadata.name);
    expect(containersOf(await newPod(namespace, { app: 'other' }))).toEqual(['app']);
    const { name } = before.metadata;
    await cluster.kube.patch(kubeResource.pods, { namespace, name }, 'merge', { metadata: { labels: { a: 'b' } } });
    expect(containersOf(await cluster.kube.get<Pod>(kubeResource.pods, { namespace, name }))).toEqual(['app']);
    await cluster.kube.delete(sidecarSets, { name: set.metadata.name });
  });

  it('SCS-8, SCS-205: has a revision that it owns, is gone at once when it is deleted, and leaves its pods alone', async () => {
    const { cluster } = windlass();
    const namespace = await cluster.newNamespace();
    const { metadata } = await newSet(namespace);
    const { name } = metadata;
    const latest = await waitFor('the revision', async (see) => {
      return see((await cluster.kube.get<SidecarSet>(sidecarSets, { name })).status)?.latestRevision;
    });
    const ref = { namespace: 'kruise-system', name: latest };
    expect(await cluster.find(kubeResource.controllerRevisions, ref)).toMatchObject({
      metadata: {
        labels: { 'kruise.io/sidecarset-name': name },
        ownerReferences: [{ uid: metadata.uid, controller: true }],
      },
    });
    const pod = await injectedPod(namespace);
    await waitFor('the count', async (see) => {
      return see((await cluster.kube.get<SidecarSet>(sidecarSets, { name })).status)?.matchedPods === 1;
    });
    await cluster.kube.delete(sidecarSets, { name });
    expect(await cluster.find(sidecarSets, { name })).toBeUndefined();
    const left = await cluster.kube.get<Pod>(kubeResource.pods, { namespace, name: pod.metadata.name });
    expect(containersOf(left)).toEqual(['log', 'app']);
  });

  it('SCS-33, SCS-68: rejects the pods that it cannot be injected into, and no other pod', async () => {
    const { cluster } = windlass();
    const namespace = await cluster.newNamespace();
    const resourcesPolicy = { targetContainersMode: 'sum', resourcesExpr: { requests: { cpu: 'cpu*cpu' } } };
    const set = await newSet(namespace, { containers: [{ ...sidecar, resourcesPolicy }] });
    const why = await waitFor('the refusal', async (see) => {
      const error = see(await refused(newPod(namespace)).catch(() => undefined));
      return error?.status === 500 && error.message;
    });
    expect(why).toContain(`Cannot inject SidecarSet "${set.metadata.name}": expression "cpu*cpu" for cpu`);
    const others = await Promise.all(Array.from({ length: 40 }, () => newPod(namespace, { app: 'other' })));
    expect(others.map(containersOf)).toEqual(others.map(() => ['app']));
    await cluster.kube.delete(sidecarSets, { name: set.metadata.name });
  });
});

describeAlone('while the webhook is away', () => {
  it('SCS-3: pods that a SidecarSet selects are refused unless it ignores that, and all others start', async () => {
    const { cluster, stopWebhook, restartWebhook } = windlass();
    const [strict, lenient] = await Promise.all([cluster.newNamespace(), cluster.newNamespace()]);
    const sets = [await newSet(strict), await newSet(lenient, {}, { 'windlass.io/injection-failure': 'Ignore' })];
    await Promise.all([injectedPod(strict), injectedPod(lenient), areSelected(sets.slice(0, 1))]);
    await stopWebhook();
    try {
      // the API server hears of the SidecarSet by a watch of its own
      const { status, message } = await waitFor('a refusal by the policy', () => refused(newPod(strict)));
      expect([status, message]).toEqual([
        403,
        expect.stringContaining(`SidecarSet "${sets[0]?.metadata.name}" was not injected`),
      ]);
      expect(containersOf(await newPod(lenient))).toEqual(['app']);
      const list = { 'kruise.io/sidecarset-injected-list': String(sets[0]?.metadata.name) };
      const env = [{ name: 'IS_INJECTED', value: 'true' }];
      // neither the annotation nor the variable of injected pods is enough
      const other = { 'kruise.io/sidecarset-injected-list': 'other' };
      const long = { 'kruise.io/sidecarset-injected-list': 'other,'.repeat(500) };
      for (const written of [
        { annotations: list },
        { env },
        ...[other, long].map((annotations) => ({ annotations, env })),
      ]) {
        expect((await refused(newPod(strict, { app: 'web' }, written))).message).toContain('was not injected');
      }
      // nor more labels than the API server evaluates expressions over
      for (const [count, app] of [
        ...[2_000, 30_000].map((most) => [most, 'web'] as const),
        [30_000, 'other'] as const,
      ]) {
        const many = Object.fromEntries(Array.from({ length: count }, (_, index) => [`l${index}`, '']));
        const { message: why } = await refused(newPod(strict, { ...many, app }, { annotations: list }));
        expect(why).toContain('a pod with so many labels cannot be checked for missing sidecars: give it at most 1000');
      }
      expect(containersOf(await newPod(strict, { app: 'web' }, { annotations: list, env }))).toEqual(['app']);
      const mirror = { annotations: { 'kubernetes.io/config.mirror': 'x' }, nodeName: 'none' };
      expect(containersOf(await newPod(strict, { app: 'web' }, mirror))).toEqual(['app']);
      const others = await Promise.all(Array.from({ length: 40 }, () => newPod(strict, { app: 'other' })));
      expect(others).toHaveLength(40);
    } finally {
      await restartWebhook([]);
      for (const { metadata } of sets) await cluster.kube.delete(sidecarSets, { name: metadata.name });
    }
    // by now the selection contains the SidecarSet no longer
    expect(containersOf(await waitFor('a pod without it', () => newPod(strict)))).toEqual(['app']);
  });

  it('SCS-1: the API server selects pods by labels and namespaces as the webhook does', async () => {
    const { cluster, stopWebhook, restartWebhook } = windlass();
    const rule = (key: string, operator: string, ...values: readonly string[]) => ({
      matchExpressions: [{ key, operator, ...(values.length > 0 && { values }) }],
    });
    const name = 'kubernetes.io/metadata.name';
    const byLabels: readonly LabelSelector[] = [
      ...[{ matchLabels: { app: 'a', tier: 'x' } }, rule('app', 'In', 'a', 'b'), rule('app', 'NotIn', 'a')],
      ...[
        rule('app', 'Exists'),
        rule('app', 'DoesNotExist'),
        { matchLabels: { app: 'a' }, ...rule('tier', 'NotIn', 'x') },
      ],
    ];
    const byNamespace: readonly ((namespace: string) => LabelSelector)[] = [
      ...[(own: string) => rule(name, 'In', own, 'x'), (own: string) => rule(name, 'NotIn', own)],
      ...[() => rule(name, 'Exists'), () => rule(name, 'DoesNotExist'), () => ({ matchLabels: { [name]: 'x' } })],
    ];
    const pods = [{ app: 'a' }, { app: 'a', tier: 'x' }, { app: 'b' }, { other: 'x' }, {}];
    const selections = [
      ...byLabels.map((selector) => ({ pods, selector, inNamespace: (own: string) => rule(name, 'In', own) })),
      ...byNamespace.map((inNamespace, index) => {
        const labels = { [`case-${index}`]: 'x' };
        return { pods: [labels, {}], selector: { matchLabels: labels }, inNamespace };
      }),
    ];
    const cases = await Promise.all(
      selections.map(async ({ inNamespace, ...given }, index) => {
        const namespace = await cluster.newNamespace();
        const [selector, namespaceSelector] = [given.selector, inNamespace(namespace)];
        const containers = [{ ...sidecar, name: `log-${index}` }];
        const set = await newSet(namespace, { selector, namespaceSelector, containers } as unknown as JsonObject);
        const expected = given.pods.map((labels) =>
          selectsPod(set, { labels, namespaceLabels: { [name]: namespace } }),
        );
        return { namespace, set, pods: given.pods, expected };
      }),
    );
    await areSelected(cases.map(({ set }) => set));
    await stopWebhook();
    try {
      for (const { namespace, set, expected, ...of } of cases) {
        await waitFor(`the API server to select by ${JSON.stringify(set.spec)}`, async (see) => {
          return sameJson(see(await Promise.all(of.pods.map((labels) => isRefused(namespace, labels)))), expected);
        });
      }
    } finally {
      await restartWebhook([]);
      for (const { set } of cases) await cluster.kube.delete(sidecarSets, { name: set.metadata.name });
    }
  });

  it('SCS-3: the same where it accepts connections and never answers, when its time is up', async () => {
    const { cluster, stopWebhook, restartWebhook } = windlass();
    const [strict, lenient] = await Promise.all([cluster.newNamespace(), cluster.newNamespace()]);
    const sets = [await newSet(strict), await newSet(lenient, {}, { 'windlass.io/injection-failure': 'Ignore' })];
    await Promise.all([injectedPod(strict), injectedPod(lenient)]);
    await stopWebhook();
    const silent = await listenSilently(await webhookAddress());
    try {
      const others = Array.from({ length: 40 }, () => newPod(strict, { app: 'other' }));
      const [{ status, message }, ignoring, ...ordinary] = await Promise.all([
        refused(newPod(strict)),
        newPod(lenient),
        ...others,
      ]);
      expect([status, message]).toEqual([
        403,
        expect.stringContaining(`SidecarSet "${sets[0]?.metadata.name}" was not injected`),
      ]);
      expect([ignoring, ...ordinary].map(containersOf)).toEqual(Array.from({ length: 41 }, () => ['app']));
      expect(silent.connections()).toBeGreaterThan(0);
    } finally {
      await silent.stop();
      await restartWebhook([]);
      for (const { metadata } of sets) await cluster.kube.delete(sidecarSets, { name: metadata.name });
    }
  });
});

/** Whether the API server refuses such a pod. */
async function isRefused(namespace: string, labels: Record<string, string>): Promise<boolean> {
  const pod = {
    metadata: { name: 'web', namespace, labels },
    spec: { containers: [{ name: 'app', image: 'busybox:1.36' }] },
  };
  try {
    await windlass().cluster.kube.create(kubeResource.pods, pod, { dryRun: true });
    return false;
  } catch (error) {
    if (error instanceof KubeError && error.message.includes('was not injected')) return true;
    throw error;
  }
}

/** Where the API server reaches the pod webhook. */
async function webhookAddress(): Promise<URL> {
  const configurations = {
    ...{ group: 'admissionregistration.k8s.io', version: 'v1', namespaced: false },
    ...{ plural: 'mutatingwebhookconfigurations', kind: 'MutatingWebhookConfiguration' },
  };
  const found = await windlass().cluster.kube.get<KubeObject & { readonly webhooks: readonly JsonObject[] }>(
    configurations,
    { name: installation.mutatingWebhookConfiguration },
  );
  const ofPods = found.webhooks.find(({ name }) => name === podWebhook.name);
  return new URL(String(objectOr(ofPods?.clientConfig).url));
}

/** Accepts connections there, and never sends a byte. */
async function listenSilently({ hostname, port }: URL) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => sockets.add(socket.on('error', () => undefined)));
  server.listen(Number(port), hostname);
  await once(server, 'listening');
  return {
    connections: () => sockets.size,
    async stop() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
