import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { type StatefulSet, statefulSets } from '../../api/stateful-set/types.ts';
import type { Cluster } from '../support/cluster.ts';
import { isServing } from '../support/fleet-watch.ts';
import { describeTogether } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { container, Fleet, type FleetOptions, images, restartsOf, startedAt } from './fleet.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { judgeHistory } from './roll-out-judge.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  local = await localCluster();
  ({ cluster } = local);
});

afterAll(async () => {
  await local?.close();
});

const readinessGates = [{ conditionType: inPlaceReadinessGate }];
const withVolume = {
  volumeClaimTemplates: [
    {
      metadata: { name: 'data' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
    },
  ],
};
const app = container('app', { volumeMounts: [{ name: 'data', mountPath: '/data' }] });

function fleetOf(options: FleetOptions = {}): Promise<Fleet<StatefulSet>> {
  const podSpec = { readinessGates, ...options.podSpec };
  return Fleet.create<StatefulSet>(
    { cluster, temporal: local.temporal },
    { resource: statefulSets, ...options, podSpec },
  );
}

/** The PVCs of a namespace that are not being deleted, with their UIDs. */
async function claimsIn(namespace: string): Promise<Readonly<Record<string, string>>> {
  const { items } = await cluster.kube.list<KubeObject>(kubeResource.persistentVolumeClaims, { namespace });
  const kept = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return Object.fromEntries(kept.map(({ metadata }) => [metadata.name, metadata.uid]));
}

function namesOf(fleet: Fleet<StatefulSet>): readonly string[] {
  return [...fleet.pods().keys()].toSorted((left, right) => left.localeCompare(right));
}

function uidsOf(fleet: Fleet<StatefulSet>): Readonly<Record<string, string>> {
  return Object.fromEntries([...fleet.pods()].map(([name, { metadata }]) => [name, metadata.uid]));
}

describeTogether('a StatefulSet', () => {
  it.concurrent('AS-10, AS-34, AS-82: creates its pods in order, and a lost one again under its name with its PVC', async () => {
    const fleet = await fleetOf({ spec: withVolume, containers: [app] });
    expect(namesOf(fleet)).toEqual(['web-0', 'web-1', 'web-2']);
    const [first, second, third] = ['web-0', 'web-1', 'web-2'].map((name) => fleet.pod(name));
    for (const [before, after] of [[first, second] as const, [second, third] as const]) {
      expect(startedAt(before as Pod, 'app')).toBeLessThanOrEqual(
        Date.parse((after as Pod).metadata.creationTimestamp) + 999,
      );
    }
    const claims = await claimsIn(fleet.namespace);
    expect(new Set(Object.keys(claims))).toEqual(new Set(['data-web-0', 'data-web-1', 'data-web-2']));
    const { status } = await fleet.until('the PVCs to be counted', (set) =>
      (set.status?.volumeClaims ?? []).some(({ compatibleReadyReplicas }) => compatibleReadyReplicas === 3),
    );
    expect(status).toMatchObject({
      ...{ replicas: 3, currentReplicas: 3, updatedReplicas: 3, labelSelector: 'app=web' },
      volumeClaims: [{ volumeClaimName: 'data', compatibleReplicas: 3, compatibleReadyReplicas: 3 }],
    });

    const { 'web-1': lost = '' } = uidsOf(fleet);
    await cluster.kube.delete(kubeResource.pods, { namespace: fleet.namespace, name: 'web-1' });
    await waitFor('the lost pod to be back', () => {
      const pod = fleet.pods().get('web-1');
      return pod !== undefined && pod.metadata.uid !== lost && isServing(pod);
    });
    expect(await claimsIn(fleet.namespace)).toEqual(claims);
  });

  it.concurrent('AS-60, AS-62: updates its pods in place from the highest ordinal down, one at a time', async () => {
    const fleet = await fleetOf();
    const before = fleet.identities();
    const sinceMs = Date.now();
    await fleet.update(images.new);
    await fleet.untilUpdated(3);
    expect(fleet.identities()).toEqual(before);
    const started = ['web-2', 'web-1', 'web-0'].map((name) => startedAt(fleet.pod(name), 'app'));
    expect(started).toEqual(started.toSorted((left, right) => left - right));
    expect(namesOf(fleet).map((name) => restartsOf(fleet.pod(name), 'app'))).toEqual([1, 1, 1]);
    fleet.neverFewerReady(2);
    await judgeHistory(local, fleet, sinceMs);
  });

  it.concurrent('AS-50, AS-63, AS-82: recreates the pods from the partition up, each with its PVC', async () => {
    const rollingUpdate = { podUpdatePolicy: 'ReCreate', partition: 1 };
    const fleet = await fleetOf({ spec: withVolume, containers: [app], rollingUpdate });
    const [before, claims] = [uidsOf(fleet), await claimsIn(fleet.namespace)];
    await fleet.update(images.new);
    await fleet.untilUpdated(2);
    const after = uidsOf(fleet);
    expect(after['web-0']).toBe(before['web-0']);
    expect([after['web-1'], after['web-2']]).not.toContain(before['web-1']);
    expect(fleet.ofImage(images.old)).toEqual(['web-0']);
    expect(await claimsIn(fleet.namespace)).toEqual(claims);
    fleet.neverFewerReady(2);
    await fleet.patch({ spec: { updateStrategy: { rollingUpdate: { partition: 0 } } } });
    await fleet.untilUpdated(3);
    const { status } = await fleet.get();
    expect(status?.currentRevision).toBe(status?.updateRevision);
  });

  it.concurrent('AS-13, AS-81: scales in from the highest ordinal, and what it gives up goes with its PVC', async () => {
    const spec = {
      ...withVolume,
      ...{ reserveOrdinals: [0], persistentVolumeClaimRetentionPolicy: { whenScaled: 'Delete' } },
    };
    const fleet = await fleetOf({ spec, containers: [app] });
    expect(namesOf(fleet)).toEqual(['web-1', 'web-2', 'web-3']);
    const [before, claims] = [uidsOf(fleet), await claimsIn(fleet.namespace)];
    await fleet.patch({ spec: { replicas: 2 } });
    await waitFor('the PVC to go', async () => Object.keys(await claimsIn(fleet.namespace)).length === 2);
    const { 'web-3': _, ...kept } = before;
    expect(uidsOf(fleet)).toEqual(kept);
    const { 'data-web-3': gone, ...others } = claims;
    expect(await claimsIn(fleet.namespace)).toEqual(others);

    await fleet.patch({ spec: { replicas: 3 } });
    await fleet.until('the ordinal to be back', (set) => set.status?.readyReplicas === 3);
    const again = await claimsIn(fleet.namespace);
    expect(again).toMatchObject(others);
    expect(again['data-web-3']).not.toBe(gone);
  });

  it.concurrent('AS-35, AS-37, AS-70: side by side, a pod that is named comes back without waiting for a stuck one', async () => {
    const fleet = await fleetOf({
      spec: { podManagementPolicy: 'Parallel' },
      rollingUpdate: { maxUnavailable: 2, partition: 2 },
    });
    await fleet.update('busybox:0.0');
    await fleet.until(
      'the image that does not exist',
      ({ status }) => status?.waitingFor?.reason === 'ContainersNotSwapped',
    );
    const { 'web-0': old } = uidsOf(fleet);
    const labels = { 'apps.kruise.io/specified-delete': 'true' };
    const ref = { namespace: fleet.namespace, name: 'web-0' };
    await cluster.kube.patch(kubeResource.pods, ref, 'merge', { metadata: { labels } });
    await waitFor('the named pod to be another', () => {
      const pod = fleet.pods().get('web-0');
      return pod !== undefined && pod.metadata.uid !== old && isServing(pod);
    });
    expect(fleet.ofImage(images.old)).toEqual(expect.arrayContaining(['web-0', 'web-1']));
  });

  it.concurrent('AS-34: in order, names the pod that everything waits for, which undo takes back and a newer template does not', async () => {
    const fleet = await fleetOf({ rollingUpdate: { podUpdatePolicy: 'ReCreate' } });
    const stuck = async () => {
      const { status } = await fleet.until('the pod in the way', (set) =>
        (set.status?.waitingFor?.unblock ?? '').includes('ErrImagePull'),
      );
      expect(status?.waitingFor).toMatchObject({ reason: 'OrdinalNotAvailable', blockedBy: ['pod/web-2'] });
    };
    await fleet.update('busybox:0.0');
    await stuck();
    await fleet.command('undo');
    await fleet.until('the pod to be back', ({ status }) => status?.waitingFor?.reason === 'Undone');
    expect(fleet.ofImage(images.old)).toHaveLength(3);
    fleet.neverFewerReady(2);

    await fleet.command('resume');
    await waitFor('the image that does not exist', () => fleet.ofImage('busybox:0.0').length === 1);
    await fleet.update(images.new);
    await stuck();
    expect(fleet.ofImage(images.new)).toEqual([]);
    await cluster.kube.delete(kubeResource.pods, { namespace: fleet.namespace, name: 'web-2' });
    await fleet.untilUpdated(3);
    fleet.neverFewerReady(2);
  });

  it.concurrent('AS-11: takes over the pods of a StatefulSet of Kubernetes that was deleted with --cascade=orphan', async () => {
    const namespace = await cluster.newNamespace();
    // Kubernetes' default for an image with a tag, and not OpenKruise's
    const containers = [{ ...app, imagePullPolicy: 'IfNotPresent' }];
    const spec: JsonObject = {
      replicas: 2,
      serviceName: '',
      selector: { matchLabels: { app: 'db' } },
      template: {
        metadata: { labels: { app: 'db' } },
        spec: { terminationGracePeriodSeconds: 1, containers },
      },
      ...withVolume,
    };
    const manifest = (apiVersion: string) =>
      JSON.stringify({ apiVersion, kind: 'StatefulSet', metadata: { namespace, name: 'db' }, spec });
    await local.ok(['apply', '-f', '-'], manifest('apps/v1'));
    const pods = async () => (await cluster.kube.list<Pod>(kubeResource.pods, { namespace })).items;
    await waitFor('the pods of apps/v1', async () => {
      const found = await pods();
      return found.length === 2 && found.every(isServing);
    });
    const before = (await pods()).map(({ metadata }) => metadata.uid).toSorted();
    const claims = await claimsIn(namespace);
    await local.ok(['delete', 'statefulsets.apps', 'db', '-n', namespace, '--cascade=orphan']);
    await local.ok(['apply', '-f', '-'], manifest('apps.kruise.io/v1beta1'));
    const ref = { namespace, name: 'db' };
    await waitFor('the pods to be its own', async (see) => {
      const { status } = see(await cluster.kube.get<StatefulSet>(statefulSets, ref));
      return status?.readyReplicas === 2 && status.updatedReplicas === 2 && status.observedGeneration === 1;
    });
    const taken = await pods();
    expect(taken.map(({ metadata }) => metadata.uid).toSorted()).toEqual(before);
    expect(taken.flatMap((pod) => pod.status?.containerStatuses?.map(({ restartCount }) => restartCount))).toEqual([
      0, 0,
    ]);
    for (const { metadata } of taken) {
      expect(metadata.ownerReferences).toMatchObject([{ apiVersion: 'apps.kruise.io/v1beta1', controller: true }]);
    }
    expect(await claimsIn(namespace)).toEqual(claims);
  });

  it.concurrent('deploy/samples/stateful-set.yaml comes up, and its columns are those of OpenKruise', async () => {
    const namespace = await cluster.newNamespace();
    await local.applySample('stateful-set.yaml', namespace);
    await local.ok([
      'wait',
      'asts/ledger-db',
      '-n',
      namespace,
      '--for=jsonpath={.status.availableReplicas}=3',
      '--timeout=300s',
    ]);
    const [columns, values] = (await local.ok(['get', 'asts', '-n', namespace])).split('\n');
    expect(columns?.split(/\s+/)).toEqual(['NAME', 'DESIRED', 'CURRENT', 'UPDATED', 'READY', 'AGE']);
    expect(values).toMatch(/^ledger-db\s+3\s+3\s+3\s+3\s/);
  });

  it.concurrent('AS §6: is refused with the paths of its fields, in both versions', async () => {
    const namespace = await cluster.newNamespace();
    const manifest = (apiVersion: string) =>
      JSON.stringify({
        apiVersion,
        kind: 'StatefulSet',
        metadata: { namespace, name: 'web' },
        spec: {
          selector: { matchLabels: { app: 'web' } },
          updateStrategy: { rollingUpdate: { maxUnavailable: 2, podUpdatePolicy: 'InPlaceOnly' } },
          template: { metadata: { labels: { app: 'web' } }, spec: { containers: [container('app')] } },
        },
      });
    for (const version of ['v1beta1', 'v1alpha1']) {
      const { stderr } = await local.kubectl(['apply', '-f', '-'], manifest(`apps.kruise.io/${version}`));
      expect(stderr).toMatch(/spec\.updateStrategy\.rollingUpdate\.maxUnavailable.*OrderedReady/s);
      expect(stderr).toMatch(/spec\.template\.spec\.readinessGates.*InPlaceUpdateReady/s);
    }
  });
});
