import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type Cluster, connectToCluster, servedBy } from '../support/cluster.ts';
import { testPlatform } from '../support/platform.ts';
import { waitFor } from '../support/wait.ts';

// What `watcher/kinds/sidecar-set/stored-version.ts` relies on.

const definitions = kubeResource.customResourceDefinitions;
let cluster: Cluster;

beforeAll(() => {
  cluster = connectToCluster(testPlatform());
});

afterAll(async () => {
  await cluster?.close();
});

describe('a patch that changes nothing', () => {
  it('writes an object that is stored in an earlier version, once', async () => {
    const { kube } = cluster;
    const group = `g${randomUUID().slice(0, 8)}.example.test`;
    const resource: Resource = { group, version: 'v2', plural: 'widgets', kind: 'Widget', namespaced: false };
    const name = `widgets.${group}`;
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    const versions = (stored: string) =>
      ['v1', 'v2'].map((version) => ({ name: version, served: true, storage: version === stored, schema }));
    await kube.create(definitions, {
      metadata: { name },
      spec: {
        ...{ group, scope: 'Cluster', versions: versions('v1') },
        names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
      },
    });
    try {
      await servedBy(cluster, resource);
      const ref = { name: 'a' };
      const { metadata } = await kube.create<KubeObject>(resource, { metadata: ref });
      const write = async () => {
        const body = { metadata: { uid: metadata.uid } };
        const patched = await kube.patch<KubeObject>(resource, ref, 'merge', body);
        return patched.metadata.resourceVersion;
      };
      expect(await write()).toBe(metadata.resourceVersion);

      await kube.patch(definitions, { name }, 'merge', { spec: { versions: versions('v2') } });
      const rewritten = await waitFor('the object to be written', async (see) => {
        const version = see(await write());
        return version === metadata.resourceVersion ? undefined : version;
      });
      expect(await write()).toBe(rewritten);
    } finally {
      await kube.delete(definitions, { name });
    }
  });
});
