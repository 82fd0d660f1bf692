import { afterEach, describe, expect, it } from '@jest/globals';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { createKubeClient, type KubeClient, pathOf } from '../../kube/client.ts';
import { FakeApiServer } from '../support/fake-api/fake-api-server.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import type { ObjectStore } from '../support/fake-api/store.ts';
import { aPod } from '../support/objects/pod.ts';

const { pods, secrets } = kubeResource;
const web = { namespace: 'shop', name: 'web' };
const started: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const each of started.splice(0).toReversed()) await each.close();
});

interface Front {
  readonly store: ObjectStore;
  readonly kube: KubeClient;
}

const fronts: readonly (readonly [string, () => Promise<Front>])[] = [
  [
    'in memory',
    async () => {
      const cluster = new MemoryCluster();
      return { store: cluster.store, kube: cluster.client() };
    },
  ],
  [
    'over HTTP',
    async () => {
      const server = await FakeApiServer.start();
      const kube = createKubeClient({ credentials: server.credentials, userAgent: 'test', qps: 1e5, burst: 1e5 });
      started.push({ close: () => server.stop() }, kube);
      return { store: server.store, kube };
    },
  ],
];

/** A CloneSet, as far as an API server without schemas looks at it. */
const set = { metadata: web, spec: { replicas: 1 } };

async function namesIn(kube: KubeClient, selection: { labelSelector?: string; fieldSelector?: string }) {
  const { items } = await kube.list(pods, { namespace: 'shop', ...selection });
  return items.map(({ metadata }) => metadata.name);
}

describe.each(fronts)('the fake API server %s', (_, open) => {
  it('lists by labels and fields, and refuses selectors that cannot be read', async () => {
    const { store, kube } = await open();
    const labelled = { a: { app: 'web', tier: 'x' }, b: { app: 'web' }, c: { app: 'db', tier: 'y' }, d: {} };
    for (const [name, labels] of Object.entries(labelled)) {
      store.put(pathOf(pods), aPod({ metadata: { name, uid: name, labels }, spec: { nodeName: `on-${name}` } }));
    }
    const cases: readonly (readonly [string, string])[] = [
      ['app=web', 'ab'],
      ['app==web,tier', 'a'],
      ['app!=web', 'cd'],
      ['tier in (x, y)', 'ac'],
      ['tier notin (x),app', 'bc'],
      ['!tier', 'bd'],
      ['', 'abcd'],
    ];
    for (const [labelSelector, names] of cases) expect(await namesIn(kube, { labelSelector })).toEqual([...names]);
    expect(await namesIn(kube, { fieldSelector: 'metadata.name=b' })).toEqual(['b']);
    expect(await namesIn(kube, { fieldSelector: 'spec.nodeName=on-c,status.phase!=Failed' })).toEqual(['c']);
    await expect(kube.list(pods, { labelSelector: 'tier in x' })).rejects.toMatchObject({ status: 400 });
    await expect(kube.list(cloneSets, { fieldSelector: 'spec.replicas=1' })).rejects.toMatchObject({ status: 400 });
  });

  it('lists in pages of one version, which are gone once it is compacted', async () => {
    const { store, kube } = await open();
    for (const name of ['c', 'a', 'b']) store.put(pathOf(pods), { metadata: { namespace: 'shop', name } });
    const first = await kube.list(pods, { limit: 2 });
    expect(first).toMatchObject({ items: [{ metadata: { name: 'a' } }, {}], remainingItemCount: 1 });
    store.remove({ collection: pathOf(pods), namespace: 'shop', name: 'c' });
    const rest = await kube.list(pods, { limit: 2, continue: first.continue });
    expect(rest).toMatchObject({ items: [{ metadata: { name: 'c' } }], resourceVersion: first.resourceVersion });
    store.compact();
    await expect(kube.list(pods, { continue: first.continue })).rejects.toMatchObject({ status: 410 });
  });

  it('tells a watch of all that has happened since its version, as its selector sees it', async () => {
    const { store, kube } = await open();
    const put = (name: string, app: string) =>
      store.put(pathOf(pods), { metadata: { namespace: 'shop', name, labels: { app } } });
    put('gone', 'web');
    put('leaves', 'web');
    const { resourceVersion } = await kube.list(pods);
    store.remove({ collection: pathOf(pods), namespace: 'shop', name: 'gone' });
    put('leaves', 'db');
    put('other', 'db');
    put('comes', 'web');
    const seen: string[] = [];
    const stop = new AbortController();
    const watch = kube.watch(pods, { resourceVersion, labelSelector: 'app=web', signal: stop.signal });
    for await (const event of watch) {
      if (event.type !== 'BOOKMARK') seen.push(`${event.type} ${event.object.metadata.name}`);
      if (seen.length === 3) break;
    }
    expect(seen).toEqual(['DELETED gone', 'DELETED leaves', 'ADDED comes']);
    store.compact();
    const late = (async () => {
      for await (const event of kube.watch(pods, { resourceVersion })) seen.push(event.type);
    })();
    await expect(late).rejects.toMatchObject({ status: 410 });
  });

  it('gives a new object its identity, and takes none that no API server takes', async () => {
    const { kube } = await open();
    const tried = await kube.create(cloneSets, set, { dryRun: true });
    const made = await kube.create(cloneSets, { ...set, metadata: { ...web, uid: 'mine' }, status: { replicas: 7 } });
    expect(made).toMatchObject({ kind: 'CloneSet', metadata: { generation: 1 }, spec: { replicas: 1 } });
    expect(made).not.toHaveProperty('status');
    expect(['mine', tried.metadata.uid]).not.toContain(made.metadata.uid);
    await expect(kube.create(cloneSets, set)).rejects.toMatchObject({ reason: 'AlreadyExists' });
    const refused = [
      { name: 'Web' },
      { name: 'w', labels: { app: 'a b' } },
      { name: 'w', labels: { app: 'x'.repeat(64) } },
      { name: 'w', annotations: { long: 'x'.repeat(300_000) } },
    ];
    for (const metadata of refused) {
      const creation = kube.create(cloneSets, { ...set, metadata: { namespace: 'shop', ...metadata } });
      await expect(creation).rejects.toMatchObject({ status: 422, type: 'Invalid' });
    }
  });

  it('writes a status through its subresource alone, and nothing else of a custom resource with it', async () => {
    const { kube } = await open();
    await kube.create(cloneSets, set);
    const change = { metadata: { labels: { a: 'b' } }, spec: { replicas: 2 }, status: { replicas: 2 } };
    const status = { subresource: 'status' };
    const through = await kube.patch(cloneSets, web, 'merge', change, status);
    expect(through).toMatchObject({ metadata: { generation: 1 }, spec: { replicas: 1 }, status: { replicas: 2 } });
    expect(through.metadata.labels).toBeUndefined();
    const guarded = { metadata: { uid: 'other' }, status: { replicas: 2 } };
    await expect(kube.patch(cloneSets, web, 'merge', guarded, status)).resolves.toEqual(through);
    const past = await kube.patch(cloneSets, web, 'merge', { ...change, status: { replicas: 3 } });
    expect(past).toMatchObject({ metadata: { generation: 2, ...change.metadata }, status: { replicas: 2 } });
    const again = await kube.patch(cloneSets, web, 'merge', change);
    expect(again.metadata.resourceVersion).toBe(past.metadata.resourceVersion);

    await kube.create(pods, { metadata: web, spec: { containers: [] } });
    const pod = await kube.patch(pods, web, 'merge', { ...change, status: { phase: 'Running' } }, status);
    expect(pod).toMatchObject({ metadata: change.metadata, spec: { containers: [] }, status: { phase: 'Running' } });
    expect(pod).not.toHaveProperty('spec.replicas');
    await expect(kube.patch(secrets, web, 'merge', {}, status)).rejects.toMatchObject({ status: 404 });
  });

  it('refuses writes on another version and on another object', async () => {
    const { kube } = await open();
    const { metadata } = await kube.create(cloneSets, set);
    const patch = (change: object) => kube.patch(cloneSets, web, 'merge', { metadata: change });
    await patch({ uid: metadata.uid, resourceVersion: metadata.resourceVersion, labels: { a: 'b' } });
    await expect(patch({ resourceVersion: metadata.resourceVersion })).rejects.toMatchObject({ type: 'Conflict' });
    await expect(patch({ uid: 'other' })).rejects.toMatchObject({ status: 422, type: 'Superseded' });
    const test = [{ op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion }];
    await expect(kube.patch(cloneSets, web, 'json', test)).rejects.toMatchObject({ status: 422, type: 'Conflict' });
    const remove = (preconditions: object) => kube.delete(cloneSets, web, { preconditions });
    await expect(remove({ uid: 'other' })).rejects.toMatchObject({ status: 409, type: 'Superseded' });
    const { resourceVersion } = metadata;
    await expect(remove({ uid: metadata.uid, resourceVersion })).rejects.toMatchObject({ type: 'Conflict' });
    await remove({ uid: metadata.uid });
    await expect(remove({})).rejects.toMatchObject({ status: 404, type: 'Superseded' });
  });

  it('merges strategically by the keys of the lists of a pod, and not at all in custom resources', async () => {
    const { store, kube } = await open();
    const owner = { apiVersion: 'v1', kind: 'X', name: 'x' };
    store.put(pathOf(pods), {
      metadata: { ...web, finalizers: ['a', 'b'], ownerReferences: ['1', '2'].map((uid) => ({ ...owner, uid })) },
      spec: { containers: ['app', 'side'].map((name) => ({ name, image: 'old', args: ['x'] })) },
      status: { conditions: [{ type: 'A', status: 'True' }], containerStatuses: [{ name: 'app' }, { name: 'side' }] },
    });
    const metadata = {
      ownerReferences: [{ $patch: 'delete', uid: '1' }],
      '$deleteFromPrimitiveList/finalizers': ['a'],
    };
    const spec = { containers: [{ name: 'side', image: 'new' }] };
    expect(await kube.patch(pods, web, 'strategic', { metadata, spec })).toMatchObject({
      metadata: { finalizers: ['b'], ownerReferences: [{ uid: '2' }] },
      spec: { containers: [{ image: 'old' }, { image: 'new', args: ['x'] }] },
    });
    const status = { conditions: [{ type: 'B', status: 'True' }], containerStatuses: [{ name: 'side' }] };
    expect(await kube.patch(pods, web, 'strategic', { status }, { subresource: 'status' })).toMatchObject({
      status: { conditions: [{ type: 'A' }, { type: 'B' }], containerStatuses: [{ name: 'side' }] },
    });
    await kube.create(cloneSets, set);
    await expect(kube.patch(cloneSets, web, 'strategic', {})).rejects.toMatchObject({ status: 415 });
  });

  it('keeps what is deleted until its finalizers are off and its kubelet has ended it', async () => {
    const { store, kube } = await open();
    const isThere = (resource: Resource) => store.find({ collection: pathOf(resource), ...web }) !== undefined;
    await kube.create(cloneSets, { ...set, metadata: { ...web, finalizers: ['mine'] } });
    await kube.delete(cloneSets, web);
    const held = await kube.get<KubeObject>(cloneSets, web);
    expect(held.metadata).toMatchObject({ deletionTimestamp: expect.any(String), generation: 2 });
    const finalizers = (...names: string[]) => kube.patch(cloneSets, web, 'merge', { metadata: { finalizers: names } });
    await expect(finalizers('mine', 'late')).rejects.toMatchObject({ status: 422 });
    await finalizers();
    expect(isThere(cloneSets)).toBe(false);

    store.put(pathOf(pods), aPod({ spec: { nodeName: 'node-1' } }));
    await kube.delete(pods, web);
    expect((await kube.get(pods, web)).metadata.deletionTimestamp).toBe('2026-01-01T00:00:30Z');
    await kube.delete(pods, web, { gracePeriodSeconds: 0 });
    expect(isThere(pods)).toBe(false);
    store.put(pathOf(pods), aPod());
    await kube.delete(pods, web);
    expect(isThere(pods)).toBe(false);
  });

  it('changes of the spec of a pod its images, and its amounts through their subresource', async () => {
    const { store, kube } = await open();
    store.put(pathOf(pods), aPod({ spec: { containers: [{ name: 'app', image: 'app:1' }] } }));
    const write = (container: object, options = {}) =>
      kube.patch(pods, web, 'strategic', { spec: { containers: [{ name: 'app', ...container }] } }, options);
    const resources = { limits: { cpu: '1' } };
    expect(await write({ image: 'app:2' })).toMatchObject({ spec: { containers: [{ image: 'app:2' }] } });
    await expect(write({ resources })).rejects.toMatchObject({ status: 422 });
    expect(await write({ resources }, { subresource: 'resize' })).toMatchObject({
      spec: { containers: [{ resources }] },
    });
    const dropped = await write({ image: 'app:3' }, { subresource: 'resize' });
    expect(dropped).toMatchObject({ spec: { containers: [{ image: 'app:2', resources }] } });
    await expect(write({ env: [{ name: 'A', value: 'b' }] })).rejects.toMatchObject({ status: 422 });
  });
});
