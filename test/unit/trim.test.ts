import { describe, expect, it } from '@jest/globals';
import { barrierEnv } from '../../api/container-launch-priority.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource, podReadinessGate } from '../../api/core/well-known.ts';
import { trimOf, trimPod } from '../../watcher/trim.ts';
import { createdAt } from '../support/objects/metadata.ts';
import { gatedPod } from '../support/recreate-requests.ts';

const ready = { type: 'Ready', status: 'False' };

describe('a ConfigMap with the label of barriers', () => {
  const owner = (name: string) => ({ apiVersion: 'v1', kind: 'Pod', name, uid: `uid-${name}`, controller: false });
  const trimmed = (owners: readonly object[], data: Record<string, string>) => {
    const metadata = {
      namespace: 'shop',
      name: 'web-barrier',
      uid: 'u',
      resourceVersion: '1',
      creationTimestamp: createdAt,
    };
    const annotations = { long: 'x'.repeat(1_000) };
    return trimOf(kubeResource.configMaps)?.({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { ...metadata, annotations, ownerReferences: owners },
      data,
      binaryData: { p_1: 'eA==' },
      immutable: true,
    } as never);
  };

  it('H7: keeps the priorities that it publishes, and nothing else of what it holds', () => {
    const data = {
      p_10: 'true',
      'p_-1': 'true',
      p_007: 'true',
      p_1: 'yes',
      p_1e21: 'true',
      'p_-': 'true',
      other: 'x'.repeat(1_000_000),
    };
    expect(trimmed([owner('web')], data)).toEqual({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        namespace: 'shop',
        name: 'web-barrier',
        uid: 'u',
        resourceVersion: '1',
        creationTimestamp: createdAt,
        ownerReferences: [owner('web')],
      },
      data: { p_10: 'true', 'p_-1': 'true', p_007: 'true' },
    });
  });

  it('H7: keeps no key of one that is no barrier, and no more of any than a pod can have', () => {
    const many = Object.fromEntries(Array.from({ length: 80_000 }, (_, at) => [`p_${at}`, 'true']));
    expect(trimmed([owner('other')], many)).toMatchObject({ data: {}, metadata: { ownerReferences: [] } });
    expect(JSON.stringify(trimmed([owner('web')], many)).length).toBeLessThan(20_000);
    expect(
      JSON.stringify(
        trimmed(
          Array.from({ length: 1_000 }, () => owner('x'.repeat(200))),
          {},
        ),
      ).length,
    ).toBeLessThan(1_000);
  });
});

describe('trimPod', () => {
  it('keeps what the passes read, and nothing else', () => {
    const pod = gatedPod({
      metadata: { labels: { app: 'web' }, annotations: { long: 'text' } },
      spec: {
        containers: [{ name: 'app' }],
        nodeName: 'node-1',
        readinessGates: [{ conditionType: 'else' }, { conditionType: podReadinessGate }],
      },
    });
    expect(trimPod(pod)).toEqual({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        namespace: 'shop',
        name: 'web',
        uid: 'pod-1',
        resourceVersion: '1',
        creationTimestamp: createdAt,
        labels: { app: 'web' },
      },
      spec: { containers: [], nodeName: 'node-1', readinessGates: [{ conditionType: podReadinessGate }] },
      status: { conditions: [{ type: podReadinessGate, status: 'True' }] },
    });
  });

  it("keeps of a pod that a marker may select what that is decided on, and conditions that are not the kubelet's own", () => {
    const conditions = ['PodScheduled', 'Initialized', 'game.io/idle', 'Ready', 'ContainersReady'].map((type) => ({
      type,
      status: 'True',
    }));
    const pod = gatedPod({
      metadata: { labels: { app: 'web' } },
      spec: { containers: [], nodeName: 'node-1' },
      status: { phase: 'Running', podIP: '10.0.0.1', conditions },
    });
    expect(trimPod(pod)).toMatchObject({
      metadata: { labels: { app: 'web' } },
      spec: { nodeName: 'node-1' },
      status: { phase: 'Running', podIP: '10.0.0.1', conditions: [{ type: 'Initialized' }, { type: 'game.io/idle' }] },
    });
    const ended = trimPod({ ...pod, status: { ...pod.status, phase: 'Succeeded' } });
    expect(ended.metadata).not.toHaveProperty('labels');
    expect(ended.spec).not.toHaveProperty('nodeName');
  });

  it('keeps only the identity and the deletion of a pod without the gate', () => {
    const plain = trimPod(
      gatedPod({
        metadata: { deletionTimestamp: createdAt },
        spec: { containers: [], readinessGates: [] },
        status: { conditions: [ready] },
      }),
    );
    expect(plain).not.toHaveProperty('status');
    expect(plain.spec).toEqual({ containers: [] });
    expect(plain.metadata.deletionTimestamp).toBe(createdAt);
  });

  it('keeps of a pod that is marked its marks and how its containers are, and no other variables', () => {
    const hold = barrierEnv('web', 5);
    const priority = { name: 'KRUISE_CONTAINER_PRIORITY', value: '5' };
    const terminated = { exitCode: 1, reason: 'Error', message: 'long' };
    const trimmed = trimPod(
      gatedPod({
        metadata: { annotations: { 'apps.kruise.io/container-launch-priority': 'Ordered', long: 'text' } },
        spec: {
          nodeName: 'node-1',
          restartPolicy: 'Never',
          containers: [
            { name: 'app', image: 'nginx:1', env: [{ name: 'TOKEN', value: 'hidden' }, priority, hold] },
            { name: 'log' },
          ],
        },
        status: {
          phase: 'Pending',
          podIP: '10.0.0.1',
          containerStatuses: [
            {
              name: 'app',
              ready: false,
              restartCount: 1,
              containerID: 'containerd://1',
              image: 'x',
              state: { terminated },
            },
          ],
        },
      }),
    );
    expect(trimmed.metadata.annotations).toEqual({ 'apps.kruise.io/container-launch-priority': 'Ordered' });
    expect(trimmed.spec).toEqual({
      nodeName: 'node-1',
      restartPolicy: 'Never',
      containers: [{ name: 'app', image: 'nginx:1', env: [priority, hold] }, { name: 'log' }],
      readinessGates: [{ conditionType: podReadinessGate }],
    });
    expect(trimmed.status).toEqual({
      phase: 'Pending',
      podIP: '10.0.0.1',
      containerStatuses: [
        {
          name: 'app',
          ready: false,
          restartCount: 1,
          containerID: 'containerd://1',
          state: { terminated: { exitCode: 1 } },
        },
      ],
      conditions: trimPod(gatedPod()).status?.conditions,
    });
  });

  it('keeps of a pod with sidecars the command that somebody has left, and who has', () => {
    const mark = { name: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT', value: 'true' };
    const annotations = { 'windlass.io/command': 'pause', note: 'x' };
    const owner = {
      manager: 'kubectl-annotate',
      fieldsV1: { 'f:metadata': { 'f:annotations': { 'f:windlass.io/command': {} } } },
    };
    const managedFields = [{ manager: 'kubelet', fieldsV1: { 'f:status': {} } }, owner];
    const spec = { restartPolicy: 'Never', containers: [{ name: 'proxy', env: [mark] }] };
    const { metadata } = trimPod(gatedPod({ metadata: { annotations, managedFields }, spec }));
    expect(metadata).toMatchObject({ annotations: { 'windlass.io/command': 'pause' }, managedFields: [owner] });
    expect(metadata.managedFields).toHaveLength(1);
    expect(trimPod(gatedPod({ metadata: { managedFields }, spec })).metadata).not.toHaveProperty('managedFields');
  });

  it('keeps of a pod that a kind of ours controls what its planner reads, and no plain values of variables', () => {
    const owner = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'set', controller: true };
    const fromLabel = { name: 'TIER', valueFrom: { fieldRef: { fieldPath: "metadata.labels['tier']" } } };
    const secret = { name: 'TOKEN', value: 'hidden' };
    const status = { phase: 'Running', podIP: '10.0.0.1', conditions: [ready], containerStatuses: [] };
    const trimmed = trimPod(
      gatedPod({
        metadata: { labels: { tier: 'gold' }, annotations: { note: 'x' }, ownerReferences: [owner] },
        spec: { nodeName: 'node-1', containers: [{ name: 'app', image: 'nginx:1', env: [secret, fromLabel] }] },
        status,
      }),
    );
    expect(trimmed).toMatchObject({
      metadata: { labels: { tier: 'gold' }, annotations: { note: 'x' }, ownerReferences: [owner] },
      spec: { nodeName: 'node-1', containers: [{ name: 'app', image: 'nginx:1', env: [fromLabel] }] },
      status: { phase: 'Running', conditions: [ready], containerStatuses: [] },
    });
    expect(JSON.stringify(trimmed)).not.toContain('hidden');
    expect(trimmed.status).toHaveProperty('podIP');
  });
});

describe('trimOf', () => {
  it('keeps of nodes that they are there, their labels and whether they are ready, and leaves other kinds as they are', () => {
    const node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { ...gatedPod().metadata, labels: { zone: 'a' } },
      spec: {},
      status: {
        conditions: [
          { type: 'Ready', status: 'True', message: 'x' },
          { type: 'Other', status: 'True' },
        ],
      },
    };
    const trimmed = trimOf(kubeResource.nodes)?.(node);
    expect(trimmed).not.toHaveProperty('spec');
    expect(trimmed?.metadata.labels).toEqual({ zone: 'a' });
    expect(trimmed).toMatchObject({ status: { conditions: [{ type: 'Ready', status: 'True' }] } });
    expect(trimOf(kubeResource.pods)?.(gatedPod() as Pod)).toEqual(trimPod(gatedPod()));
    expect(trimOf(kubeResource.secrets)).toBeUndefined();
  });
});
