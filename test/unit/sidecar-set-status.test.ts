import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import {
  isConsistent,
  isManaged,
  isSidecarReady,
  recordedHash,
  recordedRevision,
} from '../../plan/sidecar-set/pods.ts';
import { sidecarSetStatus } from '../../plan/sidecar-set/status.ts';
import { trimPod } from '../../watcher/trim.ts';
import { recorded } from '../support/recorded.ts';

const labels = { rec: 'yes', 'kubernetes.io/metadata.name': 'rec' };
const cold = recorded<SidecarSet>('sidecarset-1-injected-v1beta1');
const hot = recorded<SidecarSet>('sidecarset-hot-1-injected');
const podsOf = (name: string) => recorded<readonly Pod[]>(name);
const [coldPod] = podsOf('sidecarset-1-injected-pods') as readonly [Pod];
const [hotPod] = podsOf('sidecarset-hot-1-injected-pods') as readonly [Pod];

const withAnnotations = (pod: Pod, annotations: Record<string, string>): Pod => ({
  ...pod,
  metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, ...annotations } },
});

describe('the status of a SidecarSet', () => {
  it.each([
    ['sidecarset-1-injected-v1beta1', 'sidecarset-1-injected-pods'],
    ['sidecarset-2-partition-1-v1beta1', 'sidecarset-2-partition-1-pods'],
    ['sidecarset-3-updated-v1beta1', 'sidecarset-3-updated-pods'],
    ['sidecarset-hot-1-injected', 'sidecarset-hot-1-injected-pods'],
  ])('is what OpenKruise recorded, with what the watcher keeps of the pods: %s', (setName, podsName) => {
    const set = recorded<SidecarSet>(setName);
    const own = podsOf(podsName);
    // as pods of a workload that is not of the suite, of which less is kept
    const foreign = own.map((pod) => ({
      ...pod,
      metadata: {
        ...pod.metadata,
        ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'x', uid: 'x', controller: true }],
      },
      spec: { ...pod.spec, readinessGates: [] },
    }));
    for (const pods of [own, own.map(trimPod), foreign.map(trimPod)]) {
      const managed = pods.filter((pod) => isManaged(set, pod, labels));
      const facts = { pods: managed, latestRevision: set.status?.latestRevision ?? '', collisionCount: 0 };
      expect(sidecarSetStatus(set, facts)).toEqual(set.status);
    }
  });
});

describe('the pods of a SidecarSet', () => {
  it('SCS-6: are active, selected, marked, and have every container', () => {
    expect(isManaged(cold, coldPod, labels)).toBe(true);
    expect(isManaged(cold, coldPod, {})).toBe(false);
    expect(isManaged(cold, coldPod, undefined)).toBe(false);
    expect(isManaged(cold, { ...coldPod, status: { ...coldPod.status, phase: 'Failed' } }, labels)).toBe(false);
    expect(isManaged(cold, withAnnotations(coldPod, { 'kruise.io/sidecarset-injected-list': 'colder' }), labels)).toBe(
      false,
    );
    const relabelled = { ...coldPod, metadata: { ...coldPod.metadata, labels: { app: 'x' } } };
    expect(isManaged(cold, relabelled, labels)).toBe(false);
    const without = { ...coldPod, spec: { ...coldPod.spec, containers: coldPod.spec.containers.slice(1) } };
    expect(isManaged(cold, without, labels)).toBe(false);
  });

  it('SCS-7: are those that it selects now', () => {
    const changed = { ...cold, spec: { ...cold.spec, selector: { matchLabels: { app: 'other' } } } };
    expect(isManaged(changed, coldPod, labels)).toBe(false);
    const relabelled = { ...coldPod, metadata: { ...coldPod.metadata, labels: { app: 'other' } } };
    expect(isManaged(changed, relabelled, labels)).toBe(true);
  });

  it('SCS-221: are counted by their hash with native sidecars, too', () => {
    const initContainers = [{ name: 'native', image: 'native:2', restartPolicy: 'Always' }];
    const native: SidecarSet = { ...cold, spec: { ...cold.spec, containers: [], initContainers } };
    const facts = { pods: [coldPod], latestRevision: 'x', collisionCount: 0 };
    expect(isManaged(native, coldPod, labels)).toBe(true);
    expect(sidecarSetStatus(native, facts)).toMatchObject({ matchedPods: 1, updatedPods: 1, readyPods: 1 });
    const next = { ...native, metadata: { ...native.metadata, annotations: {} } };
    expect(sidecarSetStatus(next, facts)).toMatchObject({ matchedPods: 1, updatedPods: 0 });
  });

  it('SHU-14: have both containers of a hot-upgrade sidecar, and its entry', () => {
    expect(isManaged(hot, hotPod, labels)).toBe(true);
    const working = 'kruise.io/sidecarset-working-hotupgrade-container';
    expect(isManaged(hot, withAnnotations(hotPod, { [working]: '{}' }), labels)).toBe(false);
    expect(isManaged(hot, withAnnotations(hotPod, { [working]: 'no JSON' }), labels)).toBe(false);
  });

  it('SCS-153: are ready with the idle container at the empty image', () => {
    expect(isSidecarReady(hot, hotPod)).toBe(true);
    const swapping = withAnnotations(hotPod, {
      'kruise.io/sidecarset-working-hotupgrade-container': '{"mesh":"mesh-2"}',
    });
    expect(isSidecarReady(hot, swapping)).toBe(false);
    const unready = { ...hotPod, status: { ...hotPod.status, conditions: [{ type: 'Ready', status: 'False' }] } };
    expect(isSidecarReady(hot, unready)).toBe(false);
    expect(isSidecarReady(hot, { ...hotPod, metadata: { ...hotPod.metadata, deletionTimestamp: 'x' } })).toBe(false);
  });

  it('reads hashes in the present form and in the old one', () => {
    expect(recordedHash(coldPod, 'cold')).toBe(cold.metadata.annotations?.['kruise.io/sidecarset-hash']);
    expect(recordedRevision(coldPod, 'cold')).toBe('cold-6cbcfff5b7');
    const old = withAnnotations(coldPod, { 'kruise.io/sidecarset-hash': '{"cold":"abc"}' });
    expect([recordedHash(old, 'cold'), recordedRevision(old, 'cold')]).toEqual(['abc', undefined]);
    expect(recordedHash(withAnnotations(coldPod, { 'kruise.io/sidecarset-hash': '{' }), 'cold')).toBeUndefined();
  });

  it('SCS-190: are consistent unless a recorded image still runs', () => {
    expect(isConsistent(cold, coldPod)).toBe(true);
    const { image = '', imageID = '' } = coldPod.status?.containerStatuses?.find(({ name }) => name === 'logger') ?? {};
    const state = (id: string) =>
      withAnnotations(coldPod, {
        'kruise.io/sidecarset-inplace-update-state': JSON.stringify({
          cold: { lastContainerStatuses: { logger: { imageID: id } } },
        }),
      });
    // The kubelet reports the full name of the image.
    expect(image).not.toBe('busybox:1.32');
    expect(isConsistent(cold, state(imageID))).toBe(false);
    expect(isConsistent(cold, state('other'))).toBe(true);
    const starting = { ...coldPod, status: { ...coldPod.status, containerStatuses: [] } };
    expect(isConsistent(cold, starting)).toBe(false);
  });

  it('SCS-190: with digests are consistent when they are the same', () => {
    const digest = 'docker.io/library/busybox@sha256:f751dc9830fa5e2b777c972e6558145a86dbb15b475afcd3a57af3634a0ee4a1';
    const at = (image: string): Pod => ({
      ...coldPod,
      spec: {
        ...coldPod.spec,
        containers: coldPod.spec.containers.map((one) => (one.name === 'logger' ? { ...one, image } : one)),
      },
    });
    expect(isConsistent(cold, at(digest))).toBe(true);
    expect(isConsistent(cold, at(digest.replace('docker.io/library/', '')))).toBe(false);
  });
});
