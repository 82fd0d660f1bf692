import { describe, expect, it } from '@jest/globals';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import { podView, trimPod } from '../../daemon/pod-view.ts';
import { createCache } from '../../kube/cache.ts';
import { KubeError } from '../../kube/failures.ts';
import { aPod } from '../support/objects/pod.ts';

function pod(uid: string, overrides: { resourceVersion?: string; ready?: boolean } = {}): Pod {
  const { resourceVersion = '1', ready = false } = overrides;
  return aPod({
    metadata: { name: 'web-7', uid, resourceVersion },
    spec: { nodeName: 'node-1', containers: [{ name: 'app', image: 'shop:1' }] },
    status: {
      podIP: '10.0.0.7',
      phase: 'Running',
      containerStatuses: [{ name: 'app', ready, restartCount: 2, containerID: 'containerd://app-2', image: 'shop:1' }],
    },
  });
}

function view(get: () => Promise<KubeObject> = async () => pod('pod-1')) {
  const onError = (error: unknown) => {
    throw error;
  };
  const cache = createCache<Pod>({ onError });
  const client = { get: <T extends KubeObject>() => get() as Promise<T> };
  return { cache, pods: podView({ cache, isSynced: () => true, lastOutage: () => undefined, client }) };
}

describe('the pods of a node', () => {
  it('call back on changes of one pod, for as long as somebody watches it', () => {
    const { cache, pods } = view();
    const calls: string[] = [];
    const unwatch = pods.watch('pod-1', () => calls.push('first'));
    pods.watch('pod-1', () => calls.push('second'));

    cache.apply('ADDED', pod('pod-1'));
    cache.apply('ADDED', { ...pod('pod-2'), metadata: { ...pod('pod-2').metadata, name: 'other' } });
    expect(pods.pod('pod-1')?.metadata.uid).toBe('pod-1');
    expect(calls).toEqual(['first', 'second']);
    unwatch();
    unwatch();
    cache.apply('MODIFIED', pod('pod-1', { resourceVersion: '2', ready: true }));
    expect(calls).toEqual(['first', 'second', 'second']);
    cache.apply('DELETED', pod('pod-1', { resourceVersion: '3' }));
    expect(calls).toEqual(['first', 'second', 'second', 'second']);
    expect(pods.pod('pod-1')).toBeUndefined();
  });

  it('are gone when the API server knows none of this name, or another one', async () => {
    const ref = { namespace: 'shop', name: 'web-7', uid: 'pod-1' };
    const missing = new KubeError({ status: 404, reason: 'NotFound', message: 'pods "web-7" not found' });
    await expect(view().pods.isGone(ref)).resolves.toBe(false);
    await expect(view(async () => pod('pod-2')).pods.isGone(ref)).resolves.toBe(true);
    await expect(view(() => Promise.reject(missing)).pods.isGone(ref)).resolves.toBe(true);
    const away = new KubeError({ status: 0, message: 'connection refused' });
    await expect(view(() => Promise.reject(away)).pods.isGone(ref)).rejects.toBe(away);
  });

  it('are kept without what the daemon does not read', () => {
    const whole = pod('pod-1', { ready: true });
    const noisy: Pod = {
      ...whole,
      metadata: { ...whole.metadata, labels: { app: 'web' }, annotations: { big: 'x' }, deletionTimestamp: 'soon' },
    };
    expect(trimPod(noisy, { DaemonWatchingPod: true })).toEqual({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...whole.metadata, deletionTimestamp: 'soon' },
      spec: { nodeName: 'node-1', containers: [] },
      status: {
        podIP: '10.0.0.7',
        containerStatuses: [{ name: 'app', ready: true, restartCount: 2, containerID: 'containerd://app-2' }],
      },
    });
  });

  it('ND-20: are kept with what the reports need where the daemon reports, and no value of a variable', () => {
    const whole = pod('pod-1');
    const follows = { name: 'TIER', valueFrom: { fieldRef: { fieldPath: "metadata.labels['tier']" } } };
    const noted = { name: 'NOTE', valueFrom: { fieldRef: { fieldPath: "metadata.annotations['note']" } } };
    const owner = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'set', controller: true };
    const env = [{ name: 'TOKEN', value: 'hidden' }, follows, noted, { name: 'TIER', value: 'hiding' }];
    const reported: Pod = {
      ...whole,
      metadata: {
        ...whole.metadata,
        labels: { app: 'web', tier: 'gold' },
        annotations: { note: 'x', big: 'y', [inPlaceAnnotation.containersMeta]: '{}' },
        ownerReferences: [owner, { ...owner, uid: 'other', controller: false }],
      },
      spec: { ...whole.spec, containers: [{ name: 'app', image: 'shop:1', env }, { name: 'logger' }] },
    };
    const kept = trimPod(reported, { DaemonWatchingPod: true });
    expect(kept.metadata).toMatchObject({ labels: { tier: 'gold' }, ownerReferences: [{ uid: 'set' }] });
    expect(kept.metadata.annotations).toEqual({ note: 'x', [inPlaceAnnotation.containersMeta]: '{}' });
    expect(kept.spec.containers).toEqual([
      { name: 'app', env: [follows, noted, { name: 'TIER' }] },
      { name: 'logger' },
    ]);
    expect(JSON.stringify(kept)).not.toMatch(/hid/);

    const off = trimPod(reported, { DaemonWatchingPod: false });
    expect(off.spec.containers).toEqual([]);
    expect(off.metadata).not.toHaveProperty('annotations');
  });
});
