import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createKubeClient, type KubeClient } from '../../activities/kube/client.ts';
import { inPlaceAnnotation } from '../../api/in-place-update.ts';
import type { Pod } from '../../api/pod.ts';
import type { NodeRef } from '../../api/refs.ts';
import { kubeResource } from '../../api/well-known.ts';
import { roles } from '../../deploy/local/roles.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { testPlatform } from '../support/platform.ts';
import { waitFor } from '../support/wait.ts';

const report = inPlaceAnnotation.containersMeta;
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
  // a policy works only some time after it was written
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
      (error: { type?: string }) => error.type === 'Denied',
    );
  });
});

afterAll(async () => {
  await Promise.all([cluster.close(), daemon.close(), unbound.close()]);
});

function write(body: object, { client = daemon, name = 'here', options = viaStatus as { subresource?: string } } = {}) {
  return client.patch<Pod>(kubeResource.pods, { namespace, name }, 'merge', body, options);
}

describe('what a daemon may write of pods', () => {
  it('ND-26: is the report, on the pods of its node', async () => {
    const { metadata } = await write({ metadata: { annotations: { [report]: '{"containers":[]}' } } });
    expect(metadata.annotations).toEqual({ note: 'x', [report]: '{"containers":[]}' });
    await expect(write({ metadata: { annotations: { [report]: 'again' } } })).resolves.toBeDefined();
  });

  it('ND-26: is nothing on the pods of other nodes, nor with a token of no node', async () => {
    const body = { metadata: { annotations: { [report]: 'x' } } };
    const refusal = { type: 'Denied', message: expect.stringContaining(own.name) };
    await expect(write(body, { name: 'there' })).rejects.toMatchObject(refusal);
    await expect(write(body, { client: unbound })).rejects.toMatchObject({ type: 'Denied' });
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
    await expect(write(body)).rejects.toMatchObject({ type: 'Denied' });
  });

  it('ND-26: is not the pod itself', async () => {
    const body = { metadata: { annotations: { [report]: 'x' } } };
    await expect(write(body, { options: {} })).rejects.toMatchObject({ type: 'Denied' });
  });
});
