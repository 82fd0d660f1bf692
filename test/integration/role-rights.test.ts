import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type Role, roles } from '../../deploy/local/roles.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import { testPlatform } from '../support/platform.ts';
import { waitFor } from '../support/wait.ts';

// Limits of the rights of worker and watcher that RBAC cannot express: the policies of deploy/rbac.
const quickExit = 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE';
const since = '2026-01-01T00:00:00Z';
const later = '2026-11-22T12:00:00Z';
const asStatus = { subresource: 'status' } as const;
const refused = {
  type: 'Invalid',
  message: expect.stringMatching(/denied request: .*the (worker|watcher) may (only|not) /),
};

let cluster: Cluster;
let namespace: string;
let worker: KubeClient;
let watcher: KubeClient;

async function as(role: Role): Promise<KubeClient> {
  return createKubeClient({
    kubeconfig: await testPlatform().accessOf(role),
    userAgent: 'windlass-test',
    qps: 100,
    burst: 100,
  });
}

beforeAll(async () => {
  const platform = testPlatform();
  await platform.install();
  cluster = connectToCluster(platform);
  namespace = await cluster.newNamespace();
  [worker, watcher] = await Promise.all([as(roles.worker), as(roles.watcher)]);
  const node = await cluster.newNode();
  await cluster.kube.create(kubeResource.pods, {
    metadata: { namespace, name: 'job', labels: { app: 'job' }, annotations: { note: 'x' }, finalizers: ['test/keep'] },
    spec: {
      nodeName: node.metadata.name,
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      containers: [
        { name: 'main', image: 'busybox:1.36' },
        {
          ...{ name: 'proxy', image: 'proxy:1' },
          env: [
            { name: quickExit, value: 'exit:0' },
            { name: 'KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE', value: 'true' },
          ],
        },
      ],
    },
  });
  await cluster.kube.patch(
    kubeResource.pods,
    { namespace, name: 'job' },
    'merge',
    {
      status: {
        phase: 'Running',
        podIP: '10.9.9.9',
        podIPs: [{ ip: '10.9.9.9' }],
        conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: since }],
      },
    },
    asStatus,
  );
  // policies take effect some time after they were written
  await waitFor('the policies to hold', async () => {
    const tries = [label(worker, {}), label(watcher, {}), writeConfigMap('else')];
    const results = await Promise.allSettled(tries);
    return results.every((result) => result.status === 'rejected' && result.reason.type === 'Invalid');
  });
});
afterAll(async () => {
  await cluster.kube.patch(kubeResource.pods, { namespace, name: 'job' }, 'merge', { metadata: { finalizers: null } });
  await Promise.all([cluster.close(), worker.close(), watcher.close()]);
});

function label(client: KubeClient, options: { subresource?: string }): Promise<Pod> {
  return client.patch<Pod>(
    kubeResource.pods,
    { namespace, name: 'job' },
    'merge',
    { metadata: { labels: { app: 'else' } } },
    options,
  );
}

function patch(body: unknown, options: { subresource?: string } = {}, type: 'merge' | 'json' = 'merge'): Promise<Pod> {
  return worker.patch<Pod>(kubeResource.pods, { namespace, name: 'job' }, type, body, options);
}

describeAlone('H10: what the worker may write of pods', () => {
  const image = (index: number, value: string) => [{ op: 'replace', path: `/spec/containers/${index}/image`, value }];

  it('JST-11: is the image that a sidecar itself names for its end', async () => {
    await expect(patch(image(1, 'exit:0'), {}, 'json')).resolves.toBeDefined();
  });

  it('is its key on the readiness gate, the end of sidecars, and annotations of both, through the status', async () => {
    const conditions = [
      { type: 'Ready', status: 'False', lastTransitionTime: since },
      { type: 'KruisePodReady', status: 'False', lastTransitionTime: since },
      { type: 'SidecarTerminated', status: 'True', lastTransitionTime: since },
    ];
    const annotations = {
      'windlass.io/planned-restart': '{}',
      'windlass.io/sidecar-termination': '{}',
      'windlass.io/sidecars-left-behind': since,
    };
    await expect(patch({ metadata: { annotations }, status: { conditions } }, asStatus)).resolves.toMatchObject({
      metadata: { annotations: { note: 'x', ...annotations } },
    });
    const gone = { metadata: { annotations: { 'windlass.io/sidecar-termination': null } } };
    await expect(patch(gone, asStatus)).resolves.toBeDefined();
    await expect(patch({ status: { phase: 'Succeeded' } }, asStatus)).resolves.toBeDefined();
  });

  it.each([
    ['another image of a sidecar', image(1, 'mine:1')],
    ['that image for another container', image(0, 'exit:0')],
    ['the grace', [{ op: 'add', path: '/spec/activeDeadlineSeconds', value: 1 }]],
    ['a toleration', [{ op: 'add', path: '/spec/tolerations/-', value: { key: 'x', operator: 'Exists' } }]],
    [
      'an annotation in the pod itself',
      [{ op: 'add', path: '/metadata/annotations/windlass.io~1planned-restart', value: 'x' }],
    ],
    ['a finalizer', [{ op: 'remove', path: '/metadata/finalizers' }]],
  ])('is not %s', async (_, body) => {
    await expect(patch(body, {}, 'json')).rejects.toMatchObject(refused);
  });

  it.each([
    ['another annotation', { metadata: { annotations: { note: 'y' } } }],
    ['an annotation away', { metadata: { annotations: { note: null } } }],
    ['a label', { metadata: { labels: { app: 'else' } } }],
    [
      'that the pod is ready',
      { status: { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: later }] } },
    ],
    ['a condition away', { status: { conditions: [] } }],
    ['an address', { status: { podIP: '10.0.0.7', podIPs: [{ ip: '10.0.0.7' }] } }],
    ['a reason', { status: { reason: 'Evicted' } }],
  ])('is not %s through the status', async (_, body) => {
    await expect(patch(body, asStatus)).rejects.toMatchObject(refused);
  });

  it('JST-22: is not the phase of a pod whose sidecars all count', async () => {
    await cluster.kube.create(kubeResource.pods, {
      metadata: { namespace, name: 'other' },
      spec: { automountServiceAccountToken: false, containers: [{ name: 'main', image: 'busybox:1.36' }] },
    });
    const ref = { namespace, name: 'other' };
    const write = (status: object) => worker.patch(kubeResource.pods, ref, 'merge', { status } as never, asStatus);
    await expect(write({ phase: 'Failed' })).rejects.toMatchObject(refused);
    const conditions = [{ type: 'KruisePodReady', status: 'False', lastTransitionTime: since }];
    await expect(write({ conditions })).resolves.toBeDefined();
  });
});

function writeConfigMap(name: string, labels: object = { 'windlass.io/launch-barrier': 'true' }, at = namespace) {
  const metadata = { namespace: at, name, labels };
  return watcher.create(kubeResource.configMaps, { metadata, data: { p_1: 'true' } }, { dryRun: true });
}

describeAlone('H10: what the watcher may write of ConfigMaps', () => {
  it('is the barrier of a pod, and what it publishes', async () => {
    await expect(writeConfigMap('web-0-barrier')).resolves.toBeDefined();
    const ref = { namespace: 'kruise-system', name: 'windlass-installation' };
    await cluster.kube.delete(kubeResource.configMaps, ref).catch(() => undefined);
    await expect(writeConfigMap(ref.name, {}, ref.namespace)).resolves.toBeDefined();
    await cluster.kube.create(kubeResource.configMaps, { metadata: ref, data: {} }).catch(() => undefined);
    const body = { data: { 'temporal-address': '127.0.0.1:1' } };
    await expect(watcher.patch(kubeResource.configMaps, ref, 'merge', body, { dryRun: true })).resolves.toBeDefined();
  });

  it('CLP-23: is a barrier that somebody else has left, which it labels or removes', async () => {
    const ref = { namespace, name: 'left-barrier' };
    await cluster.kube.create(kubeResource.configMaps, { metadata: ref, data: {} });
    const labels = { 'windlass.io/launch-barrier': 'true' };
    await expect(watcher.patch(kubeResource.configMaps, ref, 'merge', { metadata: { labels } })).resolves.toBeDefined();
    await expect(watcher.delete(kubeResource.configMaps, ref)).resolves.toBeUndefined();
  });

  it('is no other', async () => {
    await expect(writeConfigMap('kube-root-ca.crt')).rejects.toMatchObject(refused);
    await expect(writeConfigMap('web-0-barrier', {})).rejects.toMatchObject(refused);
    await expect(writeConfigMap('windlass-installation')).rejects.toMatchObject(refused);
    await cluster.kube.create(kubeResource.configMaps, { metadata: { namespace, name: 'app' }, data: {} });
    const ref = { namespace, name: 'app' };
    const body = { metadata: { labels: { 'windlass.io/launch-barrier': 'true' } }, data: { a: 'b' } };
    await expect(watcher.patch(kubeResource.configMaps, ref, 'merge', body)).rejects.toMatchObject(refused);
    await expect(watcher.delete(kubeResource.configMaps, ref)).rejects.toMatchObject(refused);
  });
});

describeAlone('H10: what the watcher may write of pods', () => {
  const owner = (kind: string, controller: boolean, apiVersion = 'apps.kruise.io/v1beta1') => [
    { apiVersion, kind, name: 'web', uid: 'f0d0b0a0-0000-4000-8000-000000000000', controller },
  ];
  const create = (ownerReferences: readonly object[], at = namespace) =>
    watcher.create(
      kubeResource.pods,
      {
        metadata: { namespace: at, name: 'web-a', ownerReferences },
        spec: { automountServiceAccountToken: false, containers: [{ name: 'app', image: 'busybox:1.36' }] },
      },
      { dryRun: true },
    );

  it('is those that a CloneSet or a StatefulSet of ours controls', async () => {
    await expect(create(owner('CloneSet', true))).resolves.toBeDefined();
    await expect(create(owner('StatefulSet', true))).resolves.toBeDefined();
  });

  it('is the annotation windlass.io/command of any pod, which it removes', async () => {
    const ref = { namespace, name: 'job' };
    const command = { metadata: { annotations: { 'windlass.io/command': 'pause' } } };
    await cluster.kube.patch(kubeResource.pods, ref, 'merge', command);
    const write = (annotations: object, more: object = {}) =>
      watcher.patch(kubeResource.pods, ref, 'merge', { metadata: { annotations, ...more } });
    await expect(write({ note: null })).rejects.toMatchObject(refused);
    await expect(write({ 'windlass.io/command': 'abort' })).rejects.toMatchObject(refused);
    await expect(write({ 'windlass.io/command': null }, { labels: { app: 'else' } })).rejects.toMatchObject(refused);
    await expect(write({ 'windlass.io/command': null })).resolves.toBeDefined();
  });

  it('SCS-185: is the image of an injected sidecar, and annotations, of a pod that lists a SidecarSet', async () => {
    const listed = { 'kruise.io/sidecarset-injected-list': 'logs' };
    const cpu = (requested: string) => ({ requests: { cpu: requested } });
    const injected = { name: 'log', image: 'log:1', env: [{ name: 'IS_INJECTED', value: 'true' }] };
    const newPod = (name: string, annotations: Record<string, string>) =>
      cluster.kube.create<Pod>(kubeResource.pods, {
        metadata: { namespace, name, annotations, labels: { app: 'web' } },
        spec: {
          automountServiceAccountToken: false,
          containers: [injected, { name: 'app', image: 'app:1', resources: cpu('10m') }],
        },
      });
    await newPod('injected', listed);
    await newPod('plain', {});
    const write = (name: string, image: string, metadata: object = {}, container = 'log', more: object = {}) => {
      const body = { metadata, spec: { containers: [{ name: container, image }], ...more } };
      return watcher.patch(kubeResource.pods, { namespace, name }, 'strategic', body as never, { dryRun: true });
    };
    await expect(write('injected', 'log:2', { annotations: { note: 'y' } })).resolves.toBeDefined();
    await expect(write('injected', 'app:2', {}, 'app')).rejects.toMatchObject(refused);
    await expect(write('injected', 'log:2', { labels: { app: 'else' } })).rejects.toMatchObject(refused);
    const resize = { spec: { containers: [{ name: 'app', resources: cpu('20m') }] } };
    const ofResize = { dryRun: true, subresource: 'resize' } as const;
    const injectedRef = { namespace, name: 'injected' };
    await expect(watcher.patch(kubeResource.pods, injectedRef, 'strategic', resize, ofResize)).rejects.toMatchObject(
      refused,
    );
    // of what the API server lets be changed: it ends the pod
    const deadline = { activeDeadlineSeconds: 1 };
    await expect(write('injected', 'log:2', {}, 'log', deadline)).rejects.toMatchObject(refused);
    await expect(write('injected', 'log:2', { finalizers: ['test/x'] })).rejects.toMatchObject(refused);
    const unlisted = { annotations: { 'kruise.io/sidecarset-injected-list': null } };
    await expect(write('injected', 'log:2', unlisted)).rejects.toMatchObject(refused);
    await expect(write('plain', 'log:2')).rejects.toMatchObject(refused);
    await expect(watcher.delete(kubeResource.pods, { namespace, name: 'injected' })).rejects.toMatchObject(refused);
  });

  it('is none that nobody or something else controls', async () => {
    await expect(create([])).rejects.toMatchObject(refused);
    await expect(create(owner('CloneSet', false))).rejects.toMatchObject(refused);
    await expect(create(owner('CloneSet', true, 'example.com/v1'))).rejects.toMatchObject(refused);
    await expect(create(owner('ReplicaSet', true, 'apps/v1'))).rejects.toMatchObject(refused);
    await expect(create(owner('StatefulSet', true, 'apps/v1'))).rejects.toMatchObject(refused);
    const ref = { namespace, name: 'job' };
    await expect(watcher.delete(kubeResource.pods, ref)).rejects.toMatchObject(refused);
    const owned = { metadata: { ownerReferences: owner('CloneSet', true) } };
    await expect(watcher.patch(kubeResource.pods, ref, 'merge', owned)).rejects.toMatchObject(refused);
  });

  it('is none in the namespace of Windlass, unless somebody allows it there', async () => {
    await expect(create(owner('CloneSet', true), 'kruise-system')).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('windlass.io/workloads=allowed'),
    });
    await expect(create(owner('CloneSet', true), 'kube-system')).resolves.toBeDefined();
    const allow = (value: string | null) =>
      cluster.kube.patch<KubeObject>(kubeResource.namespaces, { name: 'kruise-system' }, 'merge', {
        metadata: { labels: { 'windlass.io/workloads': value } },
      });
    await allow('allowed');
    try {
      await waitFor('the label to be seen', () =>
        create(owner('CloneSet', true), 'kruise-system').then(
          () => true,
          () => false,
        ),
      );
    } finally {
      await allow(null);
    }
  });
});
