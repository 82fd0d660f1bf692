import { describe, expect, it } from '@jest/globals';
import { cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject, OwnerReference } from '../../api/core/meta.ts';
import { createCache } from '../../kube/cache.ts';
import { isOfFleet, orphanIndex, orphansIn, ownedBy, ownedIndex, ownerIn } from '../../watcher/fleet/owned.ts';
import { trimPod } from '../../watcher/trim.ts';

const other = { group: 'apps.kruise.io', kind: 'StatefulSet' };

function object(name: string, owner?: Partial<OwnerReference>): KubeObject {
  const reference = {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    name: 'web',
    uid: 'set',
    controller: true,
  };
  return {
    ...{ apiVersion: 'v1', kind: 'Pod' },
    metadata: {
      ...{ name, namespace: 'shop', uid: name, resourceVersion: '1', creationTimestamp: '' },
      ...(owner && { ownerReferences: [{ ...reference, ...owner }] }),
    },
  };
}

const pods = {
  mine: object('mine', {}),
  older: object('older', { apiVersion: 'apps.kruise.io/v1alpha1' }),
  native: object('native', { apiVersion: 'apps/v1', kind: 'StatefulSet' }),
  ofOtherGroup: object('of-other-group', { apiVersion: 'apps.example.com/v1' }),
  uncontrolled: object('uncontrolled', { controller: false }),
  orphan: object('orphan'),
};

function filled(indexes: object) {
  const cache = createCache<KubeObject>({ indexes: { ...indexes }, onError: () => undefined });
  cache.replace(Object.values(pods), '9');
  return cache;
}

describe('what workloads own', () => {
  const names = (objects: readonly KubeObject[]) => objects.map(({ metadata }) => metadata.name).toSorted();

  it('is found by kind and UID, in whatever version the reference is', () => {
    const cache = filled(ownedIndex);
    expect(names(ownedBy(cache, cloneSets, 'set'))).toEqual(['mine', 'older']);
    expect(ownedBy(cache, other, 'set')).toEqual([]);
    expect(ownedBy(cache, cloneSets, 'other')).toEqual([]);
  });

  it('tells pods of workloads that are rolled out from those of others', () => {
    expect([pods.mine, pods.older].map(isOfFleet)).toEqual([true, true]);
    expect([pods.native, pods.ofOtherGroup, pods.uncontrolled, pods.orphan].some(isOfFleet)).toBe(false);
  });

  it('and objects without a controller are found by their namespace', () => {
    const cache = filled(orphanIndex);
    expect(names(orphansIn(cache, 'shop'))).toEqual(['orphan', 'uncontrolled']);
    expect(orphansIn(cache, 'bank')).toEqual([]);
  });

  it('is no orphan although its owner references are trimmed', () => {
    const foreign = object('foreign', { apiVersion: 'apps/v1', kind: 'ReplicaSet' });
    const trimmed = trimPod({ ...foreign, spec: { containers: [] } });
    const cache = createCache<KubeObject>({ indexes: { ...orphanIndex, ...ownedIndex }, onError: () => undefined });
    cache.replace([trimmed], '9');
    expect(orphansIn(cache, 'shop')).toEqual([]);
    expect(cache.byIndex('owner', '//')).toEqual([]);
  });

  it('names its owner of a kind', () => {
    expect(ownerIn(pods.mine, cloneSets)).toBe('set');
    expect(ownerIn(pods.mine, other)).toBeUndefined();
    expect(ownerIn(undefined, cloneSets)).toBeUndefined();
  });

  it('cannot be looked up in two ways under one name', () => {
    const cache = filled(ownedIndex);
    cache.addIndex('owner', ownedIndex.owner);
    expect(() => cache.addIndex('owner', () => [])).toThrow('There is an index "owner" already');
  });
});
