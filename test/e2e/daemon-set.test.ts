import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { isFinished, type Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type DaemonSet, daemonSetMark, daemonSets, terminationComplete } from '../../api/daemon-set/types.ts';
import { lifecycleMark } from '../../api/fleet/lifecycle.ts';
import { podMark } from '../../api/fleet/marks.ts';
import type { Cluster } from '../support/cluster.ts';
import { isServing } from '../support/fleet-watch.ts';
import { describeTogether } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { container, Fleet, type FleetOptions, images, restartsOf } from './fleet.ts';
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

const nodes = ['node-1', 'node-2'] as const;
const app = container('app');
const onlyApp = { containers: [app] } as const;

function fleetOf(options: FleetOptions = {}): Promise<Fleet<DaemonSet>> {
  return Fleet.create<DaemonSet>(
    { cluster, temporal: local.temporal },
    { resource: daemonSets, replicas: nodes.length, ...options },
  );
}

/** The pods that are not being deleted, by node. */
function podsOf(fleet: Fleet<DaemonSet>): Readonly<Record<string, Pod>> {
  return Object.fromEntries([...fleet.pods().values()].map((pod) => [pod.spec.nodeName ?? '', pod]));
}

function onNode(fleet: Fleet<DaemonSet>, node: string): Pod {
  const pod = podsOf(fleet)[node];
  if (!pod) throw new Error(`there is no pod on ${node}`);
  return pod;
}

const uidsOf = (fleet: Fleet<DaemonSet>) =>
  Object.fromEntries(Object.entries(podsOf(fleet)).map(([node, { metadata }]) => [node, metadata.uid]));
const imagesOf = (fleet: Fleet<DaemonSet>) =>
  Object.fromEntries(Object.entries(podsOf(fleet)).map(([node, { spec }]) => [node, spec.containers[0]?.image]));

/** Gives the nodes a label of this test alone. */
async function label(key: string, ofNodes: Readonly<Record<string, string | null>>): Promise<void> {
  for (const [name, value] of Object.entries(ofNodes)) {
    await cluster.kube.patch(kubeResource.nodes, { name }, 'merge', { metadata: { labels: { [key]: value } } });
  }
}

describeTogether('a DaemonSet', () => {
  it.concurrent('AD-10, AD-11, AD-20, AD-39: has a pod on each node that fits, also when nodes change', async () => {
    const key = 'daemon-set.example/disk';
    await label(key, { 'node-1': 'ssd', 'node-2': null });
    const fleet = await fleetOf({ ...onlyApp, replicas: 1, podSpec: { nodeSelector: { [key]: 'ssd' } } });
    expect(Object.keys(podsOf(fleet))).toEqual(['node-1']);
    await label(key, { 'node-2': 'ssd' });
    await fleet.until('a pod on the second node', ({ status }) => status?.numberReady === 2);
    const { 'node-2': kept } = uidsOf(fleet);
    await label(key, { 'node-1': 'hdd' });
    const { status } = await fleet.until('the first node to lose its pod', (set) => {
      return set.status?.desiredNumberScheduled === 1 && set.status.numberMisscheduled === 0;
    });
    await waitFor('the pod to be gone', () => fleet.watch.pods.size === 1);
    expect(uidsOf(fleet)).toEqual({ 'node-2': kept });
    expect(status).toMatchObject({ currentNumberScheduled: 1, numberReady: 1, numberAvailable: 1 });

    await cluster.kube.delete(kubeResource.pods, {
      namespace: fleet.namespace,
      name: onNode(fleet, 'node-2').metadata.name,
    });
    await waitFor('the lost pod to be replaced', () => {
      const pod = podsOf(fleet)['node-2'];
      return pod !== undefined && pod.metadata.uid !== kept && isServing(pod);
    });
    await label(key, { 'node-1': null, 'node-2': null });
    await waitFor('all pods to go', () => fleet.watch.pods.size === 0);
  });

  it.concurrent('AD-20: a node gets a new pod once the old one is gone, or has ended, as an annotation says', async () => {
    const fleet = await fleetOf(onlyApp);
    const { metadata } = onNode(fleet, 'node-2');
    const held = { namespace: fleet.namespace, name: metadata.name };
    const hold = (finalizers: readonly string[]) =>
      cluster.kube.patch(kubeResource.pods, held, 'merge', { metadata: { finalizers: [...finalizers] } });
    await hold(['daemon-set.example/hold']);
    await cluster.kube.delete(kubeResource.pods, held);
    await waitFor('its containers to end', () => {
      const pod = fleet.watch.pods.get(metadata.name);
      return pod !== undefined && isFinished(pod);
    });
    await fleet.waitsFor('PodTerminating');
    expect(Object.keys(podsOf(fleet))).toEqual(['node-1']);
    await fleet.patch({
      metadata: { annotations: { [daemonSetMark.podReplacementPolicy]: terminationComplete } },
    });
    await fleet.until('a new pod beside the one that has ended', ({ status }) => status?.numberAvailable === 2);
    expect(fleet.watch.pods.size).toBe(3);
    await hold([]);
    await waitFor('the old pod to be gone', () => fleet.watch.pods.size === 2);
  });

  it.concurrent('AD-32, AD-34: updates its pods in place, one node at a time', async () => {
    const fleet = await fleetOf();
    const before = fleet.identities();
    const sinceMs = Date.now();
    await fleet.update(images.new);
    await fleet.untilUpdated(2);
    expect(fleet.identities()).toEqual(before);
    expect(nodes.map((node) => restartsOf(onNode(fleet, node), 'app'))).toEqual([1, 1]);
    fleet.neverFewerReady(1);
    await judgeHistory(local, fleet, sinceMs);
  });

  it.concurrent('AD-17, AD-31: recreates the pods of the last nodes down to the partition; one that is lost behind it comes back new', async () => {
    const fleet = await fleetOf({ ...onlyApp, rollingUpdate: { rollingUpdateType: 'Standard', partition: 1 } });
    const before = uidsOf(fleet);
    await fleet.update(images.new);
    await fleet.untilUpdated(1);
    await fleet.waitsFor('PartitionReached');
    expect(imagesOf(fleet)).toEqual({ 'node-1': images.old, 'node-2': images.new });
    expect(uidsOf(fleet)['node-1']).toBe(before['node-1']);
    fleet.neverFewerReady(1);
    await cluster.kube.delete(kubeResource.pods, {
      namespace: fleet.namespace,
      name: onNode(fleet, 'node-1').metadata.name,
    });
    await fleet.untilUpdated(2);
    expect(imagesOf(fleet)).toEqual({ 'node-1': images.new, 'node-2': images.new });
  });

  it.concurrent('AD-35, AD-35a, AD-36: surging, the old pod of a node goes as soon as the new one has been ready for minReadySeconds', async () => {
    const rollingUpdate = { rollingUpdateType: 'Standard', maxSurge: 1, maxUnavailable: 0 };
    const fleet = await fleetOf({ ...onlyApp, rollingUpdate, spec: { minReadySeconds: 3 } });
    await fleet.until('all to be available', ({ status }) => status?.numberAvailable === 2);
    await fleet.update(images.new);
    await fleet.untilUpdated(2);
    await waitFor('the old pods to be gone', () => fleet.watch.pods.size === 2);
    expect(imagesOf(fleet)).toEqual({ 'node-1': images.new, 'node-2': images.new });
    const { fewestReady, mostPods } = fleet.extremes();
    expect(fewestReady).toBeGreaterThanOrEqual(2);
    expect(mostPods).toBeLessThanOrEqual(3);
  });

  it.concurrent('AD-35: surging, a template that goes back takes back what was begun, and costs no pod', async () => {
    const rollingUpdate = { rollingUpdateType: 'Standard', maxSurge: '100%', maxUnavailable: 0 };
    const fleet = await fleetOf({ ...onlyApp, rollingUpdate });
    const before = uidsOf(fleet);
    await fleet.update('busybox:0.0');
    await waitFor('new pods beside the old ones', () => fleet.watch.pods.size === 4);
    await fleet.update(images.old);
    await fleet.untilUpdated(2);
    await waitFor('the new pods to be gone', () => fleet.watch.pods.size === 2);
    expect(uidsOf(fleet)).toEqual(before);
    const labels = nodes.map((node) => onNode(fleet, node).metadata.labels?.[podMark.specifiedDelete]);
    expect(labels).toEqual([undefined, undefined]);
    fleet.neverFewerReady(2);
  });

  it.concurrent('AD-24, AD-32a: with a hook, one pod is held before its deletion, and no other until it is replaced', async () => {
    const mark = 'example.com/busy';
    const fleet = await fleetOf({
      ...onlyApp,
      rollingUpdate: { rollingUpdateType: 'Standard' },
      spec: { lifecycle: { preDelete: { labelsHandler: { [mark]: 'true' } } } },
      template: { labels: { app: 'web', [mark]: 'true' } },
    });
    await fleet.update(images.new);
    const held = () =>
      Object.entries(podsOf(fleet)).filter(
        ([, { metadata }]) => metadata.labels?.[lifecycleMark.state] === 'PreparingDelete',
      );
    for (const node of ['node-2', 'node-1']) {
      await fleet.waitsFor('HookBeforeDelete');
      await waitFor(`the pod of ${node} to be held`, (see) => {
        see(held().map(([name]) => name));
        return held().length === 1 && held()[0]?.[0] === node && fleet.watch.pods.size === 2;
      });
      const { name } = onNode(fleet, node).metadata;
      const labels = { [mark]: null };
      await cluster.kube.patch(kubeResource.pods, { namespace: fleet.namespace, name }, 'merge', {
        metadata: { labels },
      });
      await waitFor(`a new pod on ${node}`, () => {
        const pod = podsOf(fleet)[node];
        return pod?.spec.containers[0]?.image === images.new && isServing(pod);
      });
    }
    fleet.neverFewerReady(1);
  });

  it.concurrent('AD-31, AD-38: updates only the nodes that the selector of the update selects, and says which are left', async () => {
    const key = 'daemon-set.example/stage';
    await label(key, { 'node-1': 'canary', 'node-2': null });
    const fleet = await fleetOf({ ...onlyApp, rollingUpdate: { selector: { matchLabels: { [key]: 'canary' } } } });
    await fleet.update(images.new);
    const { status } = await fleet.until('the others to be named', (set) => {
      return set.status?.waitingFor?.reason === 'NodeNotSelected';
    });
    expect(status?.waitingFor?.blockedBy).toEqual(['node/node-2']);
    expect(imagesOf(fleet)).toEqual({ 'node-1': images.new, 'node-2': images.old });
    await label(key, { 'node-1': null, 'node-2': 'canary' });
    await fleet.untilUpdated(2);
    expect(imagesOf(fleet)).toEqual({ 'node-1': images.new, 'node-2': images.new });
    await label(key, { 'node-2': null });
  });

  it.concurrent('takes pods back on undo, and goes on with resume', async () => {
    const fleet = await fleetOf({ ...onlyApp, rollingUpdate: { rollingUpdateType: 'Standard' } });
    await fleet.update('busybox:0.0');
    await fleet.until('the image that does not exist', (set) =>
      (set.status?.waitingFor?.unblock ?? '').includes('ErrImagePull'),
    );
    fleet.neverFewerReady(1);
    await fleet.command('undo');
    await fleet.until('the pod to be back', ({ status }) => status?.waitingFor?.reason === 'Undone');
    await waitFor('both to serve', () => [...fleet.pods().values()].filter(isServing).length === 2);
    expect(imagesOf(fleet)).toEqual({ 'node-1': images.old, 'node-2': images.old });
    await fleet.update(images.new);
    await fleet.command('resume');
    await fleet.untilUpdated(2);
  });

  it.concurrent('AD-12: takes over the pods of a DaemonSet of Kubernetes that was deleted with --cascade=orphan', async () => {
    const namespace = await cluster.newNamespace();
    const metadata = { namespace, name: 'agent' };
    const apply = async (apiVersion: string, spec: JsonObject) => {
      await local.ok(['apply', '-f', '-'], JSON.stringify({ apiVersion, kind: 'DaemonSet', metadata, spec }));
    };
    const podsNow = async () => (await cluster.kube.list<Pod>(kubeResource.pods, { namespace })).items;
    const identities = async () =>
      (await podsNow()).map((pod) => [
        pod.metadata.uid,
        pod.spec.nodeName,
        pod.status?.containerStatuses?.[0]?.restartCount,
      ]);
    const selector = { matchLabels: { app: 'agent' } };
    const podSpec = { terminationGracePeriodSeconds: 1, containers: [app] };
    await apply('apps/v1', { selector, template: { metadata: { labels: selector.matchLabels }, spec: podSpec } });
    await waitFor('its pods', async () => (await podsNow()).filter(isServing).length === 2);
    const before = await identities();
    const theirs = await local.get<DaemonSet>('daemonsets.apps', namespace, 'agent');
    await local.ok(['delete', 'daemonsets.apps', 'agent', '-n', namespace, '--cascade=orphan']);
    await apply('apps.kruise.io/v1beta1', { selector, template: theirs.spec.template as JsonObject });
    await waitFor('the pods to be counted', async (see) => {
      const { status } = await cluster.kube.get<DaemonSet>(daemonSets, metadata);
      see(status);
      return status?.numberReady === 2 && status.updatedNumberScheduled === 2;
    });
    expect(await identities()).toEqual(before);
  });
});
