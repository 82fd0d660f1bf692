import { afterEach, describe, expect, it } from '@jest/globals';
import type { Taint } from '../../api/core/node.ts';
import { nodeOf, type Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { type DaemonSet, daemonSets } from '../../api/daemon-set/types.ts';
import { daemonSetController } from '../../watcher/kinds/daemon-set/controller.ts';
import { FailedPods } from '../../watcher/kinds/daemon-set/failed-pods.ts';
import { concernedBy } from '../../watcher/kinds/daemon-set/node-changes.ts';
import { type ControllerContextOptions, type RunningController, runController } from '../support/controller-context.ts';
import { fresh, node, nodes, now, old, pod, pods, set, template, uid } from '../support/daemon-set-world.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { waitFor } from '../support/wait.ts';

const running: RunningController[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

const nowMs = Date.parse(now);
const upToDate = { of: fresh };
const maintenance: Taint = { key: 'maintenance', effect: 'NoSchedule' };
const evacuation: Taint = { key: 'maintenance', effect: 'NoExecute' };

/** A DaemonSet with these nodes and pods, and its controller. */
async function run(
  owner: DaemonSet,
  given: { readonly nodes: readonly ReturnType<typeof node>[]; readonly pods?: readonly Pod[] },
  options: ControllerContextOptions = {},
): Promise<RunningController> {
  const cluster = new MemoryCluster();
  cluster.put(daemonSets, owner);
  for (const revision of [old, fresh]) cluster.put(kubeResource.controllerRevisions, revision);
  for (const one of given.nodes) cluster.put(kubeResource.nodes, one);
  for (const one of given.pods ?? []) cluster.put(kubeResource.pods, one);
  const controller = await runController(daemonSetController, { now: () => nowMs, ...options, cluster });
  running.push(controller);
  return controller;
}

const placesIn = ({ cluster }: RunningController) =>
  cluster
    .all<Pod>(kubeResource.pods)
    .filter((one) => isControlledBy(set(), one) && one.metadata.deletionTimestamp === undefined)
    .map((one) => nodeOf(one))
    .toSorted();
const statusIn = ({ cluster }: RunningController) =>
  cluster.look<DaemonSet>(daemonSets, { namespace: 'shop', name: 'agent' })?.status;

describe('changes of nodes', () => {
  it('AD-11: a node that joins gets its pod, and one that stops to fit loses it', async () => {
    const controller = await run(set(), { nodes: nodes(1) });
    await waitFor('the first pod', () => placesIn(controller).length === 1);
    controller.cluster.put(kubeResource.nodes, node('n2'));
    await waitFor('the second pod', () => placesIn(controller).join() === 'n1,n2');
    controller.cluster.put(kubeResource.nodes, node('n1', { taints: [evacuation] }));
    await waitFor('the first pod to go', () => placesIn(controller).join() === 'n2');
  });

  it('AD-10, AD-11: the pod of a tainted node stays, and counts as misscheduled', async () => {
    const controller = await run(set(), { nodes: nodes(2), pods: pods(2, upToDate) });
    await waitFor('the status', () => statusIn(controller)?.desiredNumberScheduled === 2);
    controller.cluster.put(kubeResource.nodes, node('n1', { taints: [maintenance] }));
    await waitFor('the status', () => statusIn(controller)?.numberMisscheduled === 1);
    expect(placesIn(controller)).toEqual(['n1', 'n2']);
  });

  it('AD-11: of a node that is gone the status follows, and its pod is left to the garbage collector', async () => {
    const controller = await run(set(), { nodes: nodes(2), pods: pods(2, upToDate) });
    await waitFor('the status', () => statusIn(controller)?.desiredNumberScheduled === 2);
    controller.cluster.remove(kubeResource.nodes, { name: 'n2' });
    await waitFor('the status', () => statusIn(controller)?.desiredNumberScheduled === 1);
    expect(placesIn(controller)).toEqual(['n1', 'n2']);
  });

  it('AD-11: concern the DaemonSets that see something else in the node, and no others', () => {
    const selective = {
      ...set({ selector: { matchLabels: { stage: 'canary' } } }),
      metadata: { ...set().metadata, uid: 'b' },
    };
    const pinned = set({}, { template: template('app:2', { nodeSelector: { disk: 'ssd' } }) });
    const sets = [set(), selective, { ...pinned, metadata: { ...pinned.metadata, uid: 'c' } }];
    const plain = node('n1');
    const heard = { ...plain, metadata: { ...plain.metadata, resourceVersion: '7' }, status: { conditions: [] } };
    expect(concernedBy({ before: plain, after: heard }, sets)).toEqual([]);
    expect(concernedBy({ before: plain, after: node('n1', { labels: { rack: '7' } }) }, sets)).toEqual([]);
    expect(concernedBy({ before: plain, after: node('n1', { labels: { stage: 'canary' } }) }, sets)).toEqual(['b']);
    expect(concernedBy({ before: plain, after: node('n1', { labels: { disk: 'ssd' } }) }, sets)).toEqual(['c']);
    expect(concernedBy({ after: plain }, sets)).toEqual([uid, 'b']);
    expect(concernedBy({ before: plain, after: node('n1', { taints: [maintenance] }) }, sets)).toEqual([uid, 'b']);
  });
});

describe('pods that wait for their node', () => {
  it('AD-20: count where they are to be, also when they are not scheduled yet', async () => {
    const waiting = pod('n1', { ...upToDate, isUnscheduled: true });
    const controller = await run(set(), { nodes: nodes(1), pods: [waiting] });
    await waitFor('the status', () => statusIn(controller)?.currentNumberScheduled === 1);
    expect(controller.writes.filter(({ plural }) => plural === 'pods')).toEqual([]);
  });

  it('AD-12: are adopted where nobody controls them', async () => {
    const { ownerReferences: _, ...metadata } = pod('n1', { ...upToDate, isUnscheduled: true }).metadata;
    const orphan = { ...pod('n1', { ...upToDate, isUnscheduled: true }), metadata };
    const controller = await run(set(), { nodes: nodes(1), pods: [orphan] });
    await waitFor('the adoption', () => placesIn(controller).length === 1);
    expect(controller.writes.filter(({ plural }) => plural === 'pods').map(({ verb }) => verb)).toEqual(['patch']);
  });
});

describe('failed pods', () => {
  const failed = pod('n1', { ...upToDate, phase: 'Failed' });
  const going = { ...failed, metadata: { ...failed.metadata, deletionTimestamp: now } };

  it('AD-20: are counted once, when they are deleted, by DaemonSet and node', () => {
    let ms = nowMs;
    const seen = new FailedPods(() => ms);
    const [isThere, isGone] = [() => true, () => false];
    seen.saw({ after: failed }, isThere);
    seen.saw({ before: pod('n1', upToDate), after: going }, isThere);
    expect(seen.of(uid)).toBeUndefined();
    seen.saw({ before: failed, after: going }, isThere);
    seen.saw({ before: going }, isThere);
    expect([...(seen.of(uid) ?? [])]).toEqual([['n1', { times: 1, lastAtMs: nowMs }]]);
    ms += 60_000;
    seen.saw({ before: failed }, isThere);
    expect(seen.of(uid)?.get('n1')).toEqual({ times: 2, lastAtMs: ms });
    expect(seen.of('another')).toBeUndefined();
    seen.saw({ before: failed }, isGone);
    expect(seen.of(uid)?.get('n1')?.times).toBe(2);
    ms += 31 * 60_000;
    expect(seen.of(uid)).toBeUndefined();
  });

  it('AD-20: are replaced at once the first time, and after a pause the next', async () => {
    let ms = nowMs;
    const controller = await run(set(), { nodes: nodes(1), pods: [failed] }, { now: () => ms });
    const created = () => controller.writes.filter(({ verb, plural }) => verb === 'create' && plural === 'pods');
    const deleted = () => controller.writes.filter(({ verb, plural }) => verb === 'delete' && plural === 'pods');
    await waitFor('the new pod', () => created().length === 1);
    const [second] = controller.cluster.all<Pod>(kubeResource.pods);
    controller.cluster.put(kubeResource.pods, { ...second, status: { phase: 'Failed' } } as Pod);
    await waitFor('the pause', () => statusIn(controller)?.waitingFor?.reason === 'FailedPod');
    expect([created().length, deleted().length]).toEqual([1, 1]);
    ms += 1_500;
    await waitFor('its replacement', () => created().length === 2);
    const events = controller.cluster
      .all(kubeResource.events)
      .map((event) => (event as unknown as { reason: string }).reason);
    expect(events.filter((reason) => reason === 'FailedDaemonPod')).toHaveLength(2);
  });
});
