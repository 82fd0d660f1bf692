import { describe, expect, it } from '@jest/globals';
import { cloneSets } from '../../api/cloneset/types.ts';
import { formatSelector, parseSelector } from '../../api/core/label-selector.ts';
import { apiVersionOf, type OwnerReference, type Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { KubeError, toKubeError } from '../../kube/failures.ts';
import { Owners, type OwnersOptions, ownersKeptMs, type ReadOwner } from '../../kube/owners.ts';
import { type Meet, MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { newGate } from '../support/gate.ts';
import { waitFor } from '../support/wait.ts';

const { deployments, replicaSets, statefulSets, replicationControllers } = kubeResource;
const kind = (name: string, plural: string): Resource => ({
  ...{ group: 'argoproj.io', version: 'v1alpha1', kind: name, plural, namespaced: true },
});
const rollouts = kind('Rollout', 'rollouts');
const games = kind('Game', 'games');
const selector = { matchLabels: { app: 'web' } };

/** A reference to the object of this name, whose UID is `<kind>/<name>`. */
function by(resource: Resource, name = 'web', uid = `${resource.kind}/${name}`): OwnerReference {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, name, uid, controller: true };
}

interface World {
  readonly meet?: Meet;
  readonly options?: Partial<OwnersOptions>;
}

function world({ meet, options }: World = {}) {
  const cluster = new MemoryCluster();
  let nowMs = 0;
  const owners = new Owners({ kube: cluster.client(meet), now: () => nowMs, ...options });
  const put = (resource: Resource, replicas?: number, above?: OwnerReference, more: object = {}) =>
    cluster.put(resource, {
      metadata: {
        ...{ namespace: 'shop', name: 'web', uid: `${resource.kind}/web`, ...more },
        ...(above && { ownerReferences: [above] }),
      },
      spec: { ...(replicas !== undefined && { replicas }), selector },
    });
  const pass = (ms: number) => {
    nowMs += ms;
  };
  return { cluster, owners, put, pass };
}

const chain = (owners: readonly ReadOwner[]) =>
  owners.map(({ kind: of, replicas, isGone }) => [of, replicas, ...(isGone ? ['gone'] : [])]);

describe('the owners of an object', () => {
  it('PUB-10: are read up to the last one, of kinds that are built in or ours directly', async () => {
    const { owners, put } = world();
    put(replicaSets, 9, by(deployments));
    put(deployments, 3);
    expect(chain(await owners.from(by(replicaSets), 'shop'))).toEqual([
      ['ReplicaSet', 9],
      ['Deployment', 3],
    ]);
    for (const resource of [statefulSets, replicationControllers, cloneSets]) {
      put(resource, 4);
      expect(await owners.from(by(resource), 'shop')).toMatchObject([{ kind: resource.kind, replicas: 4 }]);
    }
  });

  it('PUB-11: of other kinds have the replicas and the selector of their scale subresource', async () => {
    const { cluster, owners, put } = world();
    cluster.serve(rollouts, { hasScale: true });
    put(replicaSets, 9, by(rollouts));
    cluster.put(rollouts, {
      metadata: { namespace: 'shop', name: 'web', uid: 'Rollout/web' },
      spec: { replicas: 0 },
      status: { selector: 'app=web,tier in (a,b)' },
    });
    const [, rollout] = await owners.from(by(replicaSets), 'shop');
    expect(rollout).toMatchObject({ kind: 'Rollout', replicas: 0, isGone: false, isKnownKind: false });
    expect(formatSelector(rollout?.selector ?? {})).toBe('app in (web),tier in (a,b)');
  });

  it('PUB-12: have no replicas without that subresource, and are an error where the kind is unknown', async () => {
    const { cluster, owners, put } = world();
    cluster.serve(games);
    put(games, 5);
    expect(chain(await owners.from(by(games), 'shop'))).toEqual([['Game', undefined]]);
    await expect(owners.from(by(rollouts), 'shop')).rejects.toThrow(
      'Cannot read Rollout of argoproj.io/v1alpha1: the API server does not know this kind',
    );
    for (const apiVersion of ['', '../../api/v1', 'a/b/c', 'v1?limit=1']) {
      await expect(owners.named({ apiVersion, kind: 'Secret', name: 'x' }, 'shop')).rejects.toThrow('does not know');
    }
  });

  it('PUB-14: of kinds that are named for it have their own replicas', async () => {
    const { cluster, owners, put } = world({ options: { hasOwnReplicas: ({ kind: of }) => of === 'Game' } });
    cluster.serve(games);
    put(games, 5);
    expect(chain(await owners.from(by(games), 'shop'))).toEqual([['Game', 5]]);
  });

  it('PUB-11, PUB-13a: are gone when they are being deleted, do not exist, or have another UID', async () => {
    const { owners, put } = world();
    put(replicaSets, 1, by(deployments, 'web', 'earlier'));
    put(deployments, 3);
    put(statefulSets, 2, undefined, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    expect(chain(await owners.from(by(replicaSets), 'shop'))).toEqual([
      ['ReplicaSet', 1],
      ['Deployment', undefined, 'gone'],
    ]);
    expect(chain(await owners.from(by(statefulSets), 'shop'))).toEqual([['StatefulSet', 2, 'gone']]);
    expect(chain(await owners.from(by(deployments, 'no'), 'shop'))).toEqual([['Deployment', undefined, 'gone']]);
    expect(await owners.named(by(deployments, 'no'), 'shop')).toBeUndefined();
    expect(await owners.named(by(deployments, 'web', 'whatever'), 'shop')).toMatchObject({ uid: 'Deployment/web' });
  });

  it('are not read above the one that is enough', async () => {
    const { cluster, owners, put } = world();
    put(replicaSets, 9, by(rollouts));
    const climbs = (_: ReadOwner, next: OwnerReference) => next.kind === 'Deployment';
    expect(chain(await owners.from(by(replicaSets), 'shop', climbs))).toEqual([['ReplicaSet', 9]]);
    expect(cluster.calls).toEqual(['get replicasets/web']);
    expect(await owners.from(undefined, 'shop')).toEqual([]);
  });

  it('end where they own one another, and after eight', async () => {
    const { owners, put, cluster } = world();
    put(deployments, 1, by(replicaSets));
    put(replicaSets, 1, by(deployments));
    expect(await owners.from(by(replicaSets), 'shop')).toHaveLength(2);
    for (let at = 0; at < 20; at++) {
      const ownerReferences = [by(statefulSets, `s-${at + 1}`)];
      const metadata = { namespace: 'shop', name: `s-${at}`, uid: `StatefulSet/s-${at}`, ownerReferences };
      cluster.put(statefulSets, { metadata, spec: {} });
    }
    expect(await owners.from(by(statefulSets, 's-0'), 'shop')).toHaveLength(8);
  });

  it('say which right is missing', async () => {
    const refused = `deployments.apps "web" is forbidden: User "system:serviceaccount:kruise-system:windlass-watcher" cannot get resource "deployments" in API group "apps" in the namespace "shop"`;
    const body = JSON.stringify({ kind: 'Status', reason: 'Forbidden', message: refused });
    const { owners } = world({
      meet: () => {
        throw toKubeError('GET', 403, body);
      },
    });
    await expect(owners.named(by(deployments), 'shop')).rejects.toMatchObject({
      type: 'Denied',
      message: expect.stringContaining(
        'Cannot read Deployment "shop/web": Allow ServiceAccount "kruise-system/windlass-watcher" to get deployments of apps in namespace "shop"',
      ),
    });
  });
});

describe('what was read of owners', () => {
  it('is read once by those who ask at the same time, and kept for a short time', async () => {
    const gate = newGate();
    const { cluster, owners, put, pass } = world({ meet: () => gate.opened });
    put(deployments, 3);
    const asked = [owners.named(by(deployments), 'shop'), owners.from(by(deployments), 'shop')];
    gate.open();
    await Promise.all(asked);
    put(deployments, 4);
    pass(ownersKeptMs - 1);
    expect(await owners.named(by(deployments), 'shop')).toMatchObject({ replicas: 3, readAtMs: 0 });
    expect(cluster.calls).toHaveLength(1);
    pass(1);
    expect(await owners.named(by(deployments), 'shop')).toMatchObject({ replicas: 4, readAtMs: ownersKeptMs });
  });

  it('is not kept where there was nothing, nor after a failure', async () => {
    let fails = true;
    const { owners, put } = world({
      meet: () => {
        if (fails) throw new KubeError({ status: 503, message: 'not now' });
      },
    });
    await expect(owners.named(by(deployments), 'shop')).rejects.toMatchObject({ type: 'Unreachable' });
    fails = false;
    expect(await owners.named(by(deployments), 'shop')).toBeUndefined();
    put(deployments, 3);
    expect(await owners.named(by(deployments), 'shop')).toMatchObject({ replicas: 3 });
  });

  it('is not used again once it is known that the object has changed', async () => {
    const gate = newGate();
    let isShut = false;
    const { cluster, owners, put } = world({
      meet: async () => {
        if (isShut) await gate.opened;
      },
    });
    put(deployments, 3);
    await owners.named(by(deployments), 'shop');
    put(deployments, 4);
    owners.forget(deployments, 'shop', 'web');
    isShut = true;
    const before = owners.named(by(deployments), 'shop');
    await waitFor('the read', () => cluster.calls.length === 2);
    owners.forget(deployments, 'shop', 'web');
    const after = owners.named(by(deployments), 'shop');
    gate.open();
    expect(await Promise.all([before, after])).toMatchObject([{ replicas: 4 }, { replicas: 4 }]);
    expect(cluster.calls).toHaveLength(3);
  });

  it('counts less than what a cache has', async () => {
    let cached: object | undefined;
    const { cluster, owners, put } = world({ options: { cached: () => cached as never } });
    put(deployments, 3);
    expect(await owners.named(by(deployments), 'shop')).toMatchObject({ replicas: 3 });
    cached = { metadata: { name: 'web', uid: 'Deployment/web' }, spec: { replicas: 5 } };
    expect(await owners.named(by(deployments), 'shop')).toMatchObject({ replicas: 5 });
    expect(cluster.calls).toHaveLength(1);
  });

  it('is limited in time, in one read and in the whole walk', async () => {
    const silent = world({ options: { withinMs: 20 }, meet: () => new Promise((resolve) => setTimeout(resolve, 40)) });
    silent.put(deployments, 3);
    await expect(silent.owners.named(by(deployments), 'shop')).rejects.toMatchObject({ type: 'Unreachable' });

    const slow = world({ meet: () => slow.pass(3_000) });
    slow.put(replicaSets, 1, by(deployments));
    slow.put(deployments, 1, by(statefulSets));
    await expect(slow.owners.from(by(replicaSets), 'shop')).rejects.toThrow(
      'Cannot read StatefulSet "shop/web": the API server did not answer in time',
    );
  });
});

describe('the text of a selector', () => {
  it.each([
    ['app=web', { key: 'app', operator: 'In', values: ['web'] }],
    ['app == web', { key: 'app', operator: 'In', values: ['web'] }],
    ['a.io/b!=', { key: 'a.io/b', operator: 'NotIn', values: [''] }],
    ['tier in (a, b)', { key: 'tier', operator: 'In', values: ['a', 'b'] }],
    ['tier notin(a)', { key: 'tier', operator: 'NotIn', values: ['a'] }],
    ['tier', { key: 'tier', operator: 'Exists' }],
    ['!tier', { key: 'tier', operator: 'DoesNotExist' }],
  ])('%s is read', (text, requirement) => {
    expect(parseSelector(text)).toEqual({ matchExpressions: [requirement] });
    expect(parseSelector(`x=y,${text},z`)?.matchExpressions?.[1]).toEqual(requirement);
  });

  it('is malformed without a key or a bracket, and when nobody writes one as long', () => {
    for (const text of ['=web', 'a b', 'a in (b', '!a=b', 'a=b c', `${'a('.repeat(3_000)}`]) {
      expect(parseSelector(text)).toBeUndefined();
    }
    expect(parseSelector('')).toEqual({ matchExpressions: [] });
  });
});
