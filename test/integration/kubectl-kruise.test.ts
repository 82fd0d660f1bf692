import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import type { JsonObject } from '../../api/base/json.ts';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { KubeError } from '../../kube/failures.ts';
import { servedBy } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import type { Said } from '../support/kruise-command.ts';
import { type InstalledPlugin, installPlugin } from '../support/kruise-plugin.ts';
import { startWatcher } from '../support/roles.ts';
import { settle } from '../support/static-fleet.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

// The plugin as installed: one file, run by Node, with a real API server with admission.
const windlass = useWindlass({ watcher: false });

let plugin: InstalledPlugin;
beforeAll(async () => {
  plugin = await installPlugin(windlass().platform.kubeconfig);
  await servedBy(windlass().cluster, cloneSets);
});
afterAll(() => plugin.remove());

const kubectlKruise = (args: readonly string[], stdin = ''): Promise<Said> => plugin.run(args, stdin);

const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: true } as const;

function manifest(change: JsonObject = {}, image = 'nginx:1.0'): JsonObject {
  const rollingUpdate = { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable: 2 };
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    metadata: { name: 'web' },
    spec: {
      replicas: 3,
      selector: { matchLabels: { app: 'web' } },
      updateStrategy: { rollingUpdate },
      template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'app', image }] } },
      ...change,
    },
  };
}

/** The API server's error when this is really created. */
async function refusalOf(namespace: string, object: JsonObject): Promise<readonly string[]> {
  const metadata = { name: 'web', namespace };
  try {
    await windlass().cluster.kube.create(cloneSets, { ...object, metadata }, { dryRun: true });
  } catch (error) {
    if (error instanceof KubeError) return error.causes.map(({ field, message }) => `${field}: ${message}`);
    throw error;
  }
  throw new Error('it was not refused');
}

describeAlone('kubectl kruise plan', () => {
  it('tells what would become of the pods that there are, and changes nothing', async () => {
    const { cluster } = windlass();
    const namespace = await cluster.newNamespace();
    const set = await cluster.kube.create<CloneSet>(cloneSets, { ...manifest(), metadata: { name: 'web', namespace } });
    const pods = await settle(cluster, set);
    const names = pods.map((pod) => pod.metadata.name);

    const same = await kubectlKruise(['plan', '-n', namespace, '-f', '-'], stringify(manifest()));
    expect(same).toMatchObject({ code: 0, err: '' });
    expect(same.out).toContain(`CloneSet ${namespace}/web: unchanged`);

    const said = await kubectlKruise(
      ['-n', namespace, 'plan', '-o', 'json', '-f', '-'],
      stringify(manifest({}, 'nginx:2')),
    );
    expect(said).toMatchObject({ code: 0, err: '' });
    const [plan] = JSON.parse(said.out).items;
    expect(plan).toMatchObject({
      exists: true,
      summary: { inPlace: 3, recreate: 0, kept: 0, create: 0, delete: 0 },
      changes: [{ path: 'spec.template.spec.containers[0].image', from: 'nginx:1.0', to: 'nginx:2' }],
      notes: [],
    });
    expect(plan.batches.flat().toSorted()).toEqual(names.toSorted());
    expect(plan.batches[0]).toHaveLength(2);

    const older: JsonObject = { ...manifest({}, 'nginx:2'), apiVersion: 'apps.kruise.io/v1alpha1' };
    const spec = { ...(older.spec as JsonObject), updateStrategy: { type: 'ReCreate' } };
    const recreate = await kubectlKruise(['plan', '-n', namespace, '-f', '-'], stringify({ ...older, spec }));
    expect(recreate).toMatchObject({ code: 0 });
    expect(recreate.out).toContain('the update strategy recreates pods');

    expect(await cluster.find<CloneSet>(cloneSets, { namespace, name: 'web' })).toMatchObject({
      metadata: { generation: 1 },
    });
  });

  it('says that all pods of a new set would be created', async () => {
    const namespace = await windlass().cluster.newNamespace();
    const said = await kubectlKruise(['plan', '-n', namespace, '-f', '-'], stringify(manifest()));
    expect(said).toMatchObject({ code: 0, err: '' });
    expect(said.out).toContain(`CloneSet ${namespace}/web: new: 3 create`);
  });

  it.each<[string, JsonObject]>([
    ['admission', { selector: { matchLabels: { app: 'other' } } }],
    ['the schema', { replicas: -1 }],
    [
      'the rules for pods',
      { template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'A_B' }] } } },
    ],
  ])('refuses what %s refuses, in the same words', async (_, change) => {
    const namespace = await windlass().cluster.newNamespace();
    const object = manifest(change);
    const said = await kubectlKruise(['plan', '-n', namespace, '-f', '-'], stringify(object));
    expect(said).toMatchObject({ code: 1, out: '' });
    for (const line of await refusalOf(namespace, object)) expect(said.err).toContain(line);
  });

  it('plans for those who may only read, without trying', async () => {
    const namespace = await windlass().cluster.newNamespace();
    await windlass().cluster.kube.create(
      { ...rbac, plural: 'rolebindings', kind: 'RoleBinding' },
      {
        metadata: { name: 'reader', namespace },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
        subjects: [{ kind: 'User', name: 'eve', apiGroup: 'rbac.authorization.k8s.io' }],
      },
    );
    const said = await kubectlKruise(['plan', '-n', namespace, '--as', 'eve', '-f', '-'], stringify(manifest()));
    // the role `view` has no right to the kind
    expect(said).toMatchObject({ code: 1, out: '' });
    expect(said.err).toContain('User "eve" cannot get resource "clonesets"');
  });
});

describeAlone('kubectl kruise explain', () => {
  it('explains a set without Temporal', async () => {
    const { cluster } = windlass();
    const ref = { namespace: 'kruise-system', name: 'windlass-installation' };
    await cluster.kube.delete(kubeResource.configMaps, ref).catch(() => undefined); // another file may have left it
    const namespace = await cluster.newNamespace();
    const set = await cluster.kube.create<CloneSet>(cloneSets, { ...manifest(), metadata: { name: 'web', namespace } });
    await settle(cluster, set);
    const said = await kubectlKruise(['explain', 'clone/web', '-n', namespace]);
    expect(said).toMatchObject({ code: 0, err: '' });
    expect(said.out).toContain('3 of 3 pods updated, 3 of 3 available');
    expect(said.out).toContain('set the address of Temporal by --temporal-address or WINDLASS_TEMPORAL_ADDRESS');
  });

  it('finds Temporal where the leading watcher says, and gives the status to those who may not read that', async () => {
    const { cluster, platform, client, connection } = windlass();
    const namespace = await cluster.newNamespace();
    await cluster.kube.create<CloneSet>(cloneSets, {
      ...manifest({ replicas: 0 }),
      metadata: { name: 'web', namespace },
    });
    const ref = { namespace: 'kruise-system', name: 'windlass-installation' };
    await cluster.kube
      .patch(kubeResource.configMaps, ref, 'json', [
        { op: 'add', path: '/data/temporal-address', value: '127.0.0.1:1' },
      ])
      .catch(() => undefined); // there is none yet
    const watcher = await startWatcher({ platform, client, connection });
    try {
      const record = await waitFor('the watcher to say where Temporal is', async () => {
        const found = await cluster.find<KubeObject & { data: Record<string, string> }>(kubeResource.configMaps, ref);
        return found?.data['temporal-address'] === platform.temporalAddress ? found : undefined;
      });
      expect(record.data).toEqual({
        'temporal-address': platform.temporalAddress,
        'temporal-namespace': 'default',
        'temporal-tls': 'false',
        'feature-gates': expect.stringContaining('SidecarTerminator=true'),
      });
      await waitFor('the watcher to look at the CloneSet', async (see) => {
        const found = see(await cluster.find<CloneSet>(cloneSets, { namespace, name: 'web' }));
        return found?.status?.observedGeneration !== undefined;
      });
    } finally {
      await watcher.stop();
    }
    const said = await kubectlKruise(['explain', 'clone/web', '-n', namespace]);
    expect(said).toMatchObject({ code: 0, err: '' });
    expect(said.out).toMatch(/Operation roll-out\/\S+: (Temporal has no run of it|(running|completed) for)/);
    const rules = [
      { apiGroups: ['apps.kruise.io'], resources: ['clonesets'], verbs: ['get'] },
      { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
      { apiGroups: ['apps'], resources: ['controllerrevisions'], verbs: ['list'] },
    ];
    const metadata = { name: 'reader', namespace };
    const roleRef = { apiGroup: rbac.group, kind: 'Role', name: 'reader' };
    const subjects = [{ kind: 'User', name: 'eve', apiGroup: rbac.group }];
    await cluster.kube.create({ ...rbac, plural: 'roles', kind: 'Role' }, { metadata, rules });
    await cluster.kube.create(
      { ...rbac, plural: 'rolebindings', kind: 'RoleBinding' },
      { metadata, roleRef, subjects },
    );
    const asEve = await kubectlKruise(['explain', 'clone/web', '-n', namespace, '--as', 'eve']);
    expect(asEve).toMatchObject({ code: 0, err: '' });
    expect(asEve.out).toContain('0 of 0 pods updated');
    expect(asEve.out).toContain(
      'Cannot read ConfigMap "kruise-system/windlass-installation", which has the address of Temporal',
    );
    expect(asEve.out).toContain('set the address of Temporal by --temporal-address or WINDLASS_TEMPORAL_ADDRESS');
  });

  it('explains a set with a Temporal that knows of no roll-out, and one that is not there', async () => {
    const { cluster, platform } = windlass();
    const namespace = await cluster.newNamespace();
    const set = await cluster.kube.create<CloneSet>(cloneSets, { ...manifest(), metadata: { name: 'web', namespace } });
    await settle(cluster, set);
    const at = (address: string) =>
      kubectlKruise(['explain', 'clone/web', '-n', namespace, '--temporal-address', address]);
    expect((await at(platform.temporalAddress)).out).toContain('Temporal has no run of it');
    const away = await at('127.0.0.1:1');
    expect(away.code).toBe(1);
    expect(away.err).toContain('Cannot query Temporal at 127.0.0.1:1: ');
    expect(away.out).toContain(`CloneSet ${namespace}/web: `);
  });
});
