import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { eventBody } from '../../api/core/event.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import { eventComponent, kubeResource } from '../../api/core/well-known.ts';
import { inPlaceAnnotation, inPlaceReadinessGate, inPlaceReason } from '../../api/in-place/annotations.ts';
import { type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { roles } from '../../deploy/local/roles.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import { testPlatform } from '../support/platform.ts';
import { waitFor } from '../support/wait.ts';
import { startWindlass, type Windlass } from '../support/windlass.ts';

const report = inPlaceAnnotation.containersMeta;
const running = { name: 'app', image: 'busybox:1.36', imageID: '', ready: true, restartCount: 0 };
const viaStatus = { subresource: 'status' } as const;

let cluster: Cluster;
let namespace: string;
let own: NodeRef;
let other: NodeRef;
let daemon: KubeClient;
let unbound: KubeClient;

/** With the token of a daemon, bound to this node. */
async function daemonOn(node?: NodeRef): Promise<KubeClient> {
  const kubeconfig = await testPlatform().accessOf(roles.daemon, node);
  return createKubeClient({ kubeconfig, userAgent: 'windlass-test', qps: 100, burst: 100 });
}

async function podOn(node: NodeRef, name: string): Promise<Pod> {
  const metadata = { namespace, name, labels: { app: 'web' }, annotations: { note: 'x' }, finalizers: ['test/keep'] };
  const containers = [{ name: 'app', image: 'busybox:1.36' }];
  const spec = { nodeName: node.name, automountServiceAccountToken: false, containers };
  return await cluster.kube.create<Pod>(kubeResource.pods, { metadata, spec });
}

beforeAll(async () => {
  const platform = testPlatform();
  await platform.install();
  cluster = connectToCluster(platform);
  namespace = await cluster.newNamespace();
  const [first, second] = await Promise.all([cluster.newNode(), cluster.newNode()]);
  own = { name: first.metadata.name, uid: first.metadata.uid };
  other = { name: second.metadata.name, uid: second.metadata.uid };
  daemon = await daemonOn(own);
  unbound = await daemonOn();
  await Promise.all([podOn(own, 'here'), podOn(other, 'there')]);
  // a policy takes effect some time after it was written
  await waitFor('the policy to hold', async () => {
    const pod = { namespace, name: 'there' };
    const write = daemon.patch(
      kubeResource.pods,
      pod,
      'merge',
      { metadata: { annotations: { [report]: 'x' } } },
      viaStatus,
    );
    return await write.then(
      () => false,
      (error: { type?: string }) => error.type === 'Invalid',
    );
  });
});

afterAll(async () => {
  await Promise.all([cluster.close(), daemon.close(), unbound.close()]);
});

function write(body: object, { client = daemon, name = 'here', options = viaStatus as { subresource?: string } } = {}) {
  return client.patch<Pod>(kubeResource.pods, { namespace, name }, 'merge', body, options);
}

describeAlone('what a daemon may write of NodeImages', () => {
  const tag = { tag: '1', phase: 'Pulling', version: 3, startTime: '2026-01-01T00:00:00Z', progress: 0 };
  const counts = { desired: 1, succeeded: 0, failed: 0, pulling: 1, waiting: 0 };
  const status = { ...counts, imageStatuses: { 'r.io/team/app': { tags: [tag] } } };
  const at = '/status/imageStatuses/r.io~1team~1app/tags/0';
  const told = [
    { op: 'test', path: `${at}/tag`, value: '1' },
    { op: 'add', path: `${at}/progress`, value: 28 },
    { op: 'add', path: `${at}/fetched`, value: '34 of 120 MB in 12 s' },
  ];
  const patch = (body: readonly object[], name = own.name, options: { subresource?: string } = viaStatus) =>
    daemon.patch<NodeImage>(nodeImages, { name }, 'json', body, options);

  let windlass: Windlass;

  beforeAll(async () => {
    windlass = await startWindlass({ watcher: false, worker: false }); // for admission
    for (const { name } of [own, other]) {
      await cluster.kube.create(nodeImages, { metadata: { name }, spec: {} });
      await cluster.kube.patch(nodeImages, { name }, 'merge', { status }, viaStatus);
    }
    await waitFor('the policy to hold', async () =>
      patch(told, other.name).then(
        () => false,
        (error: { type?: string }) => error.type === 'Invalid',
      ),
    );
  });
  afterAll(() => windlass.stop());

  it('NP-5: is how far the pulls of its node are', async () => {
    const after = await patch(told);
    expect(after.status).toMatchObject({
      ...counts,
      imageStatuses: { 'r.io/team/app': { tags: [{ ...tag, progress: 28, fetched: '34 of 120 MB in 12 s' }] } },
    });
  });

  it('NP-5: is nothing of the pulls of other nodes', async () => {
    const refusal = { type: 'Invalid', message: expect.stringContaining(own.name) };
    await expect(patch(told, other.name)).rejects.toMatchObject(refusal);
  });

  it.each([
    ['the phase', { op: 'add', path: `${at}/phase`, value: 'Succeeded' }],
    ['the image', { op: 'add', path: `${at}/imageID`, value: 'x@sha256:1' }],
    ['the message', { op: 'add', path: `${at}/message`, value: 'x' }],
    ['the end', { op: 'add', path: `${at}/completionTime`, value: '2026-01-01T00:00:00Z' }],
    ['the version', { op: 'add', path: `${at}/version`, value: 4 }],
    ['another tag', { op: 'add', path: `${at.slice(0, -1)}-`, value: { tag: '2', phase: 'Pulling' } }],
    ['another image', { op: 'add', path: '/status/imageStatuses/else', value: { tags: [] } }],
    ['an image away', { op: 'remove', path: '/status/imageStatuses/r.io~1team~1app' }],
    ['the counts', { op: 'add', path: '/status/succeeded', value: 1 }],
    ['what was decided on', { op: 'add', path: '/status/observedGeneration', value: 7 }],
  ])('NP-5: is not %s', async (_, change) => {
    await expect(patch([change])).rejects.toMatchObject({ type: 'Invalid' });
  });

  it('NP-5: is not what the node is to have', async () => {
    const body = [{ op: 'add', path: '/spec', value: { images: {} } }];
    await expect(patch(body, own.name, {})).rejects.toMatchObject({ type: 'Denied' });
  });
});

describeAlone('what a daemon may write of pods', () => {
  it('ND-26: is the report, on the pods of its node', async () => {
    const { metadata } = await write({ metadata: { annotations: { [report]: '{"containers":[]}' } } });
    expect(metadata.annotations).toEqual({ note: 'x', [report]: '{"containers":[]}' });
    await expect(write({ metadata: { annotations: { [report]: 'again' } } })).resolves.toBeDefined();
  });

  it('ND-26: is nothing on the pods of other nodes, nor with a token of no node', async () => {
    const body = { metadata: { annotations: { [report]: 'x' } } };
    const refusal = { type: 'Invalid', message: expect.stringContaining(own.name) };
    await expect(write(body, { name: 'there' })).rejects.toMatchObject(refusal);
    await expect(write(body, { client: unbound })).rejects.toMatchObject({ type: 'Invalid' });
  });

  it.each([
    ['another annotation', { metadata: { annotations: { else: 'x' } } }],
    ['an annotation of others', { metadata: { annotations: { note: 'y' } } }],
    ['an annotation away', { metadata: { annotations: { note: null } } }],
    ['a label', { metadata: { labels: { app: 'else' } } }],
    ['all labels away', { metadata: { labels: null } }],
    ['the finalizers', { metadata: { finalizers: [] } }],
    ['a condition', { status: { conditions: [{ type: 'Ready', status: 'True' }] } }],
    ['the phase', { status: { phase: 'Succeeded' } }],
  ])('ND-26: is not %s', async (_, body) => {
    await expect(write(body)).rejects.toMatchObject({ type: 'Invalid' });
  });

  describeAlone('IPU-40: of the gate of an update in place', () => {
    const since = '2026-01-01T00:00:00Z';
    const held = { type: inPlaceReadinessGate, status: 'False', reason: inPlaceReason, lastTransitionTime: since };
    const unready = { type: 'Ready', status: 'False', lastTransitionTime: since };
    const open = { type: inPlaceReadinessGate, status: 'True', reason: null, message: null, lastTransitionTime: since };
    const asKubelet = (conditions: readonly object[]) =>
      write({ status: { phase: 'Running', conditions } }, { client: cluster.kube });
    const openWith = (status: object) =>
      daemon.patch<Pod>(kubeResource.pods, { namespace, name: 'here' }, 'strategic', { status }, viaStatus);

    it('is that it is open', async () => {
      await asKubelet([held, unready]);
      const after = await openWith({ conditions: [open] });
      expect(after.status?.conditions).toEqual(
        expect.arrayContaining([
          { type: inPlaceReadinessGate, status: 'True', lastTransitionTime: since, lastProbeTime: null },
          expect.objectContaining(unready),
        ]),
      );
      expect(after.status?.conditions).toHaveLength(2);
    });

    it('is nothing while nobody has closed it for an update', async () => {
      await asKubelet([unready]);
      await expect(openWith({ conditions: [open] })).rejects.toMatchObject({ type: 'Invalid' });
      await asKubelet([{ ...held, reason: 'ByHand' }, unready]);
      await expect(openWith({ conditions: [open] })).rejects.toMatchObject({ type: 'Invalid' });
      await asKubelet([{ ...open, reason: 'x' }, unready]);
      await expect(openWith({ conditions: [open] })).rejects.toMatchObject({ type: 'Invalid' });
    });

    it.each([
      ['that it is closed', { conditions: [{ ...held, message: 'x' }] }],
      ['a word more', { conditions: [{ ...open, message: 'x' }] }],
      ['that the pod is ready', { conditions: [open, { type: 'Ready', status: 'True' }] }],
      ['another condition', { conditions: [open, { type: 'Other', status: 'True' }] }],
      ['another condition away', { conditions: [open, { type: 'Ready', $patch: 'delete' }] }],
      ['the phase', { conditions: [open], phase: 'Succeeded' }],
      ['an address', { conditions: [open], podIP: '10.0.0.9' }],
      ['what the kubelet has seen', { conditions: [open], observedGeneration: 9 }],
      ['a container', { conditions: [open], containerStatuses: [] }],
    ])('is not %s', async (_, status) => {
      await asKubelet([held, unready]);
      await write({ status: { containerStatuses: [running], podIP: '10.0.0.1' } }, { client: cluster.kube });
      await expect(openWith(status)).rejects.toMatchObject({ type: 'Invalid' });
    });
  });

  it('ND-26: is not the pod itself', async () => {
    const body = { metadata: { annotations: { [report]: 'x' } } };
    await expect(write(body, { options: {} })).rejects.toMatchObject({ type: 'Denied' });
  });
});

describeAlone('what a daemon may say in Events', () => {
  const event = (about: { kind: string; namespace: string; name: string }, node = own.name) => ({
    ...eventBody({
      about: {
        apiVersion: 'v1',
        kind: about.kind,
        metadata: { ...about, uid: 'x', resourceVersion: '', creationTimestamp: '' },
      },
      component: eventComponent.featureGates,
      host: node,
      type: 'Warning',
      reason: 'FeatureGatesDiffer',
      message: 'x',
      atMs: Date.now(),
      key: randomUUID(),
    }),
    reportingInstance: node,
  });
  const record = { kind: 'ConfigMap', namespace: 'kruise-system', name: 'windlass-installation' };

  it('FG-1: is that its feature gates differ from those which the leading watcher has published', async () => {
    await expect(daemon.create(kubeResource.events, event(record))).resolves.toBeDefined();
    await cluster.kube.create(kubeResource.configMaps, { metadata: record, data: {} }).catch(() => undefined);
    await expect(daemon.get(kubeResource.configMaps, record)).resolves.toBeDefined();
  });

  it('is nothing about other ConfigMaps, nor for other nodes', async () => {
    const refused = { type: 'Invalid' };
    const another = { ...record, name: 'kruise-configuration' };
    await expect(daemon.create(kubeResource.events, event(another))).rejects.toMatchObject(refused);
    await expect(daemon.create(kubeResource.events, event({ ...record, namespace }))).rejects.toMatchObject(refused);
    await expect(daemon.create(kubeResource.events, event(record, other.name))).rejects.toMatchObject(refused);
    await expect(daemon.get(kubeResource.configMaps, another)).rejects.toMatchObject({ type: 'Denied' });
  });
});
