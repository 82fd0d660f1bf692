import { describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import type { JsonObject } from '../../api/base/json.ts';
import { convertCloneSet } from '../../api/cloneset/convert.ts';
import { defaultCloneSet } from '../../api/cloneset/defaults.ts';
import type { CloneSet } from '../../api/cloneset/types.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { installation } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { KubeError } from '../../kube/failures.ts';
import {
  cloneSet,
  newImage,
  oldImage,
  pods,
  revisionOf,
  type SpecChange,
  template,
} from '../support/cloneset-world.ts';
import { kubectlKruise } from '../support/kruise-command.ts';
import { type Refuse, smallCluster } from '../support/small-cluster.ts';

/** As the API server holds it. */
function stored(set: CloneSet): CloneSet {
  return defaultCloneSet(set as unknown as JsonObject, parseFeatureGates()) as unknown as CloneSet;
}

/** What a user writes. */
function manifest(change: SpecChange = {}): JsonObject {
  const { apiVersion, kind, spec } = cloneSet(change);
  return { apiVersion, kind, metadata: { name: 'web' }, spec } as unknown as JsonObject;
}

const oldSpec = { template: template(oldImage) };

function shop({ spec = oldSpec, refuse }: { spec?: SpecChange; refuse?: Refuse } = {}) {
  const live = stored(cloneSet(spec));
  const revision = revisionOf(live, 1);
  const fleet = pods('o', 5, { revision: revision.metadata.name });
  const set = { ...live, status: { currentRevision: revision.metadata.name } } as unknown as CloneSet;
  return smallCluster([set, { ...revision }, ...fleet] as KubeObject[], refuse ? { refuse } : {});
}

function publishedGates(gates: string): KubeObject {
  const metadata = {
    namespace: installation.namespace,
    name: installation.recordConfigMap,
    uid: 'record',
    resourceVersion: '1',
    creationTimestamp: '',
  };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'feature-gates': gates } } as KubeObject;
}

const plan = (object: JsonObject, options: readonly string[] = [], cluster = shop()) =>
  kubectlKruise(['plan', '-f', '-', ...options], { cluster, stdin: stringify(object) });

/** Names of revisions are hashes. */
function withoutHashes(text: string): string {
  return text.replaceAll(/web-[a-z0-9]{8,10}\b/g, 'web-HASH');
}

describe('kubectl kruise plan', () => {
  it('shows each pod with its batch and the containers that change', async () => {
    const said = await plan(manifest({ rollingUpdate: { maxUnavailable: 2 } }));
    expect(said).toMatchObject({ code: 0, err: '' });
    expect(withoutHashes(said.out)).toBe(
      [
        'CloneSet shop/web: 5 in place; 3 batches of at most 2',
        '',
        'Revision web-HASH -> web-HASH',
        '',
        'Changes',
        '  spec.template.spec.containers[0].image: nginx:1.0 -> nginx:1.1',
        '  spec.updateStrategy.rollingUpdate.maxUnavailable: 1 -> 2',
        '',
        'BATCH   POD      ACTION     WHY',
        '1       web-o1   in place   containers main',
        '1       web-o2   in place   containers main',
        '2       web-o3   in place   containers main',
        '2       web-o4   in place   containers main',
        '3       web-o5   in place   containers main',
        '',
      ].join('\n'),
    );
  });

  it('names the field that forces new pods, the partition that keeps some, and what waits for paused', async () => {
    const spec = { template: template(newImage, { hostNetwork: true }) };
    const said = await plan(manifest({ ...spec, rollingUpdate: { partition: 3, paused: true } }));
    expect(withoutHashes(said.out)).toBe(
      [
        'CloneSet shop/web: 2 recreate, 3 kept; 2 batches of at most 1',
        '',
        'Revision web-HASH -> web-HASH',
        '',
        'Changes',
        '  spec.template.spec.containers[0].image: nginx:1.0 -> nginx:1.1',
        '  spec.template.spec.hostNetwork: true (new)',
        '  spec.updateStrategy.rollingUpdate.partition: 0 -> 3',
        '  spec.updateStrategy.rollingUpdate.paused: true (new)',
        '',
        'Notes',
        '  paused is true: nothing starts until it is false',
        '',
        'BATCH   POD      ACTION     WHY',
        '1       web-o1   recreate   spec.template.spec.hostNetwork needs a new pod',
        '2       web-o2   recreate   spec.template.spec.hostNetwork needs a new pod',
        '-       web-o3   kept       kept by the partition',
        '-       web-o4   kept       kept by the partition',
        '-       web-o5   kept       kept by the partition',
        '',
      ].join('\n'),
    );
  });

  it('prints no values of the environment, of whichever container, also where that is new or gone', async () => {
    const env = (value: string) => [{ name: 'PASSWORD', value }];
    const main = { name: 'main', image: newImage };
    const spec = (containers: readonly object[], more: object = {}) => ({
      template: template(newImage, { containers, ...more }),
    });
    const changed = (before: SpecChange, after: SpecChange) =>
      plan(manifest(after), ['-o', 'json'], shop({ spec: before })).then(({ out }) => JSON.parse(out).items[0].changes);
    const all = [
      await changed(spec([main]), spec([main, { name: 'new', image: newImage, env: env('secret-1') }])),
      await changed(spec([main]), spec([main], { initContainers: [{ ...main, name: 'i', env: env('secret-2') }] })),
      await changed(
        spec([main], { initContainers: [{ ...main, name: 'i', env: env('secret-3') }] }),
        spec([main], { initContainers: [{ ...main, name: 'i', env: env('secret-4') }] }),
      ),
      await changed(spec([main, { name: 'gone', image: newImage, env: env('secret-5') }]), spec([main])),
      await changed(spec([main]), spec([{ ...main, env: env('secret-6') }])),
    ];
    expect(JSON.stringify(all)).not.toContain('secret');
    expect(all[0]).toMatchObject([
      { path: 'spec.template.spec.containers[1]', to: { name: 'new', image: newImage, env: [{ name: 'PASSWORD' }] } },
    ]);
    expect(all[2]).toEqual([{ path: 'spec.template.spec.initContainers[0].env[0].value' }]);
    expect(all[4]).toEqual([{ path: 'spec.template.spec.containers[0].env' }]);
  });

  it('shows surge pods, and the old ones that are deleted for them', async () => {
    const said = await plan(manifest({ rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }));
    const lines = withoutHashes(said.out).split('\n');
    expect(lines[0]).toBe('CloneSet shop/web: 1 create, 1 delete, 4 in place; 4 batches of at most 1');
    expect(lines).toEqual(
      expect.arrayContaining([
        '  maxSurge 1: new pods are created first',
        '-       (1 new)   create     of revision web-HASH',
        '-       web-o5    delete     more pods than replicas',
        '4       web-o4    in place   containers main',
      ]),
    );
  });

  it('says that all pods of a set that is not there would be created', async () => {
    const said = await plan(manifest(), [], smallCluster([]));
    expect(said).toMatchObject({ code: 0, err: '' });
    expect(withoutHashes(said.out)).toBe(
      [
        'CloneSet shop/web: new: 5 create',
        '',
        'Revision web-HASH',
        '',
        'BATCH   POD       ACTION   WHY',
        '-       (5 new)   create   of revision web-HASH',
        '',
      ].join('\n'),
    );
  });

  it('plans a set of the most replicas that there can be', async () => {
    const said = await plan(manifest({ replicas: 2 ** 31 - 1 }), ['-o', 'json'], smallCluster([]));
    const { summary, pods: rows } = JSON.parse(said.out).items[0];
    expect(summary).toMatchObject({ create: 2 ** 31 - 1 });
    expect(rows).toMatchObject([{ count: 2 ** 31 - 1, action: 'create', reason: 'Missing' }]);
  });

  it('says unchanged when nothing is', async () => {
    const said = await plan(manifest(oldSpec));
    expect(said.out.split('\n')[0]).toBe('CloneSet shop/web: unchanged');
    expect(said.code).toBe(0);
  });

  it('removes surplus pods first and updates those that are left', async () => {
    const said = await plan(manifest({ replicas: 3 }), ['-o', 'json']);
    const { summary, pods: rows } = JSON.parse(said.out).items[0];
    expect(summary).toEqual({ create: 0, delete: 2, inPlace: 3, recreate: 0, impossible: 0, kept: 0 });
    expect(rows.filter((row: { action: string }) => row.action === 'delete')).toMatchObject([
      { pod: 'web-o1', reason: 'Surplus' },
      { pod: 'web-o2', reason: 'Surplus' },
    ]);
  });

  it('makes what is missing in the new revision, or in the old one as far as the partition wants it', async () => {
    const summary = async (spec: SpecChange) =>
      JSON.parse((await plan(manifest(spec), ['-o', 'json'])).out).items[0].summary;
    expect(await summary({ replicas: 8 })).toMatchObject({ create: 3, inPlace: 5, kept: 0 });
    expect(await summary({ replicas: 8, rollingUpdate: { partition: 5 } })).toMatchObject({ create: 3, kept: 5 });
    expect(await summary({ replicas: 8, rollingUpdate: { partition: 8 } })).toMatchObject({ create: 3, kept: 5 });
  });

  it('replaces pods that are named, and only deletes them when replicas goes down by as many', async () => {
    const scaleStrategy = { podsToDelete: ['web-o4'] };
    const summary = async (spec: SpecChange) =>
      JSON.parse((await plan(manifest({ ...oldSpec, ...spec }), ['-o', 'json'])).out).items[0].summary;
    expect(await summary({ scaleStrategy })).toMatchObject({ create: 1, delete: 1, kept: 4 });
    expect(await summary({ scaleStrategy, replicas: 4 })).toMatchObject({ create: 0, delete: 1, kept: 4 });
  });

  it('takes v1alpha1, and leaves other kinds out', async () => {
    const older = convertCloneSet(manifest(), 'apps.kruise.io/v1alpha1')?.object ?? {};
    const live = convertCloneSet(stored(cloneSet(oldSpec)) as unknown as JsonObject, 'apps.kruise.io/v1alpha1')?.object;
    const cluster = smallCluster([live as unknown as KubeObject]);
    const text = `${stringify(older)}---\n${stringify({ apiVersion: 'v1', kind: 'Service', metadata: { name: 's' } })}`;
    const said = await kubectlKruise(['plan', '-f', '-', '-o', 'yaml'], { cluster, stdin: text });
    expect(said.err).toBe(
      'note: skipped Service "s" of v1: only CloneSets, SidecarSets, StatefulSets and DaemonSets of apps.kruise.io are planned\n',
    );
    expect(said.code).toBe(0);
    expect(said.out).toContain('path: spec.template.spec.containers[0].image');
    expect(cluster.calls).toContain('patch clonesets/web');
  });

  it('merges as apply does: what the manifest does not say stays, and what it no longer says goes', async () => {
    const applied = JSON.stringify(manifest({ ...oldSpec, minReadySeconds: 7 }));
    const live = stored(
      cloneSet(
        { ...oldSpec, replicas: 9, minReadySeconds: 7 },
        { metadata: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': applied } } },
      ),
    );
    const { spec, ...rest } = manifest(oldSpec);
    const { replicas: _, ...withoutReplicas } = spec as JsonObject;
    const said = await plan({ ...rest, spec: withoutReplicas }, ['-o', 'json'], smallCluster([live]));
    const { changes } = JSON.parse(said.out).items[0];
    // replicas was applied once, so leaving it out means the default
    expect(changes).toEqual([
      { path: 'spec.replicas', from: 9, to: 1 },
      { path: 'spec.minReadySeconds', from: 7 },
    ]);
    const fresh = stored(cloneSet({ ...oldSpec, replicas: 9 }));
    const kept = await plan({ ...rest, spec: withoutReplicas }, ['-o', 'json'], smallCluster([fresh]));
    expect(JSON.parse(kept.out).items[0].changes).toEqual([]);
  });

  it.each(['constructor', 'toString'])('adds and removes a label called %s like any other', async (key) => {
    const label = (value: string) => ({ template: template(oldImage, {}, { labels: { app: 'web', [key]: value } }) });
    const path = `spec.template.metadata.labels.${key}`;
    const changes = async (object: JsonObject, cluster: ReturnType<typeof shop>) =>
      JSON.parse((await plan(object, ['-o', 'json'], cluster)).out).items[0].changes;
    expect(await changes(manifest(label('x')), smallCluster([stored(cloneSet(oldSpec))]))).toEqual([{ path, to: 'x' }]);
    const applied = JSON.stringify(manifest(label('x')));
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': applied };
    const live = stored(cloneSet(label('x'), { metadata: { annotations } }));
    expect(await changes(manifest(oldSpec), smallCluster([live]))).toEqual([{ path, from: 'x' }]);
    const other = { template: template(oldImage, {}, { labels: { app: 'web', team: 'a' } }) };
    expect(await changes(manifest(other), smallCluster([live]))).toEqual([
      { path, from: 'x' },
      { path: 'spec.template.metadata.labels.team', to: 'a' },
    ]);
  });

  it('refuses an invalid set in the words of admission, plans the others, and ends with 1', async () => {
    const bad = { ...manifest({ replicas: -1, rollingUpdate: { partition: -1 } }), metadata: { name: 'bad' } };
    const text = `${stringify(bad)}---\n${stringify(manifest())}`;
    const said = await kubectlKruise(['plan', '-f', '-'], { cluster: shop(), stdin: text });
    expect(said.code).toBe(1);
    expect(said.out).toContain('CloneSet shop/web: 5 in place');
    expect(said.err).toContain('error: CloneSet "shop/bad" is invalid:\n* spec.replicas: Invalid value: -1: ');
    expect(said.err).toContain('* spec.updateStrategy');
  });

  it('passes on what the API server refuses, with its fields', async () => {
    const causes = [{ field: 'spec.template.spec.containers[0].name', message: 'Required value' }];
    const invalid = await plan(
      manifest(),
      [],
      shop({ refuse: () => new KubeError({ status: 422, message: 'is invalid', causes }) }),
    );
    expect(invalid).toMatchObject({ code: 1, out: '' });
    expect(invalid.err).toBe(
      'error: CloneSet "shop/web" is invalid: spec.template.spec.containers[0].name: Required value\n',
    );
  });

  it('goes by the feature gates that the leading watcher has published, unless others are given', async () => {
    const asking = (cpu: string) => ({
      template: template(oldImage, {
        containers: [{ name: 'main', image: oldImage, resources: { requests: { cpu } } }],
      }),
    });
    const cluster = shop({ spec: asking('100m') });
    const after = manifest(asking('200m'));
    const planned = async (options: readonly string[] = []) =>
      /\d+ (in place|recreate)/.exec((await plan(after, options, cluster)).out)?.[0];
    expect(await planned()).toBe('5 recreate');
    cluster.put(publishedGates('InPlaceWorkloadVerticalScaling=true,OfAnotherVersion=true'));
    expect(await planned()).toBe('5 in place');
    expect(await planned(['--feature-gates', 'InPlaceWorkloadVerticalScaling=false'])).toBe('5 recreate');
  });

  it('plans on its own, and says so, when the user may not write or admission is away', async () => {
    const message = 'clonesets.apps.kruise.io "web" is forbidden: User "eve" cannot patch resource "clonesets"';
    for (const status of [403, 500]) {
      const said = await plan(manifest(), [], shop({ refuse: () => new KubeError({ status, message }) }));
      expect(said.code).toBe(0);
      expect(said.out).toContain(`no dry run on the API server, checked by the plugin only: ${message}`);
    }
  });

  it.each([
    [['plan'], "required option '-f, --filename <file>' not specified"],
    [['plan', '-f', '/does/not/exist'], 'the path "/does/not/exist" does not exist'],
    [['plan', '-f', '-', '-o', 'wide'], 'is invalid. Allowed choices are table, name, json, yaml.'],
    [['plan', '-f', '-', '--feature-gates', 'Nonsense=true'], 'unknown feature gate "Nonsense"'],
    [
      ['plan', '-f', '-'],
      'no CloneSet, SidecarSet, StatefulSet or DaemonSet of apps.kruise.io among the objects given',
    ],
  ])('%j is an error with exit code 1', async (args, message) => {
    const said = await kubectlKruise(args, { cluster: shop(), stdin: '' });
    expect(said).toMatchObject({ code: 1, out: '' });
    expect(said.err).toContain('error: ');
    expect(said.err).toContain(message);
  });

  it('accepts global flags before the command, and _ for - in their names', async () => {
    const said = await kubectlKruise(['-n', 'shop', '--request_timeout=5s', 'plan', '-f', '-'], {
      cluster: shop(),
      stdin: stringify(manifest(oldSpec)),
    });
    expect(said.code).toBe(0);
  });

  it.each([
    ['true', 0, ''],
    ['false', 0, ''],
    ['maybe', 1, 'error: invalid argument "maybe" for "--insecure-skip-tls-verify" flag: must be true or false\n'],
  ])('takes switches with a value as kubectl does: =%s', async (value, code, err) => {
    const options = [`--insecure-skip-tls-verify=${value}`, '--recursive=true', '--disable-compression=false'];
    expect(await plan(manifest(oldSpec), options)).toMatchObject({ code, err });
  });

  it('KK section 6: leads from a wrong flag to the help of its command', async () => {
    for (const command of ['plan', 'explain']) {
      const said = await kubectlKruise([command, '--nonsense'], { cluster: shop() });
      expect(said).toMatchObject({ code: 1, out: '' });
      expect(said.err).toContain(`See 'kubectl kruise ${command} -h' for help and examples`);
    }
    expect((await kubectlKruise(['nonsense'], { cluster: shop() })).err).toContain("See 'kubectl kruise -h'");
  });

  it('names in its help each kind that it plans', async () => {
    const { out } = await kubectlKruise(['plan', '--help'], { cluster: smallCluster([]) });
    expect(out.replaceAll(/\s+/g, ' ')).toContain(
      'applying these CloneSets, SidecarSets, StatefulSets and DaemonSets of apps.kruise.io would do',
    );
  });

  it('refuses an object of another namespace than the one that was given', async () => {
    const object = { ...manifest(), metadata: { name: 'web', namespace: 'other' } };
    expect((await plan(object, ['-n', 'shop'])).err).toContain('does not match the namespace "shop"');
  });
});
