import { afterEach, describe, expect, it } from '@jest/globals';
import type { Node } from '../../api/core/node.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { engineNoDaemon } from '../../api/engine/engine-trouble.ts';
import { type ContainerProbeState, type NodePodProbe, nodePodProbe } from '../../api/node-pod-probe/types.ts';
import { markerWaits } from '../../api/pod-probe-marker/texts.ts';
import { nodePodProbeFinalizer, type PodProbeMarker, podProbeMarker } from '../../api/pod-probe-marker/types.ts';
import { KubeError } from '../../kube/failures.ts';
import { podProbes } from '../../watcher/kinds/pod-probe-marker/controller.ts';
import { type ControllerContextOptions, type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { newGate } from '../support/gate.ts';
import { aNode } from '../support/objects/node.ts';
import { marker, nodeList, probe, probedPod } from '../support/pod-probes.ts';
import { conflict, unavailable } from '../support/recreate-requests.ts';
import { waitFor } from '../support/wait.ts';

const started: RunningController[] = [];

afterEach(async () => {
  for (const controller of started.splice(0)) await controller.stop();
});

function node(name = 'node-1', ready = 'True', labels: Readonly<Record<string, string>> = {}): Node {
  return aNode({ metadata: { name, labels }, status: { conditions: [{ type: 'Ready', status: ready }] } });
}

interface World {
  readonly nodes?: readonly Node[];
  readonly pods?: readonly Pod[];
  readonly markers?: readonly PodProbeMarker[];
  readonly lists?: readonly NodePodProbe[];
}

function worldOf({ nodes = [node()], pods = [probedPod()], markers = [marker()], lists = [] }: World): MemoryCluster {
  const cluster = new MemoryCluster();
  for (const one of nodes) cluster.put(kubeResource.nodes, one);
  for (const one of pods) cluster.put(kubeResource.pods, one);
  for (const one of markers) cluster.put(podProbeMarker, one);
  for (const one of lists) cluster.put(nodePodProbe, one);
  return cluster;
}

async function run(world: World = {}, options: ControllerContextOptions = {}) {
  const running = await runController(podProbes, { cluster: worldOf(world), ...options });
  started.push(running);
  const { cluster } = running;
  const list = (name = 'node-1') => cluster.look<NodePodProbe>(nodePodProbe, { name });
  const pod = (name = 'web-1') => cluster.look<Pod>(kubeResource.pods, { namespace: 'shop', name }) as Pod;
  const mark = (name = 'game') => cluster.look<PodProbeMarker>(podProbeMarker, { namespace: 'shop', name });
  const probesOf = (name = 'node-1') =>
    (list(name)?.spec.podProbes ?? []).flatMap(({ uid, probes = [] }) => probes.map((one) => `${uid} ${one.name}`));
  /** The daemon of the node reports. */
  const report = (podUid: string, ...probeStates: readonly ContainerProbeState[]) => {
    const podProbeStatuses = [{ name: podUid.slice(4), namespace: 'shop', uid: podUid, probeStates }];
    const before = list();
    if (!before) throw new Error('there is no list');
    cluster.put(nodePodProbe, { ...before, status: { podProbeStatuses } });
  };
  return { ...running, list, pod, mark, probesOf, report };
}

function state(verdict: string, name = 'game#idle', message = ''): ContainerProbeState {
  const at = '2026-01-01T00:00:20Z';
  return { name, state: verdict, message, lastProbeTime: at, lastTransitionTime: at };
}

function writesTo(writes: readonly SeenCall[], plural: string): readonly SeenCall[] {
  return writes.filter((call) => call.plural === plural);
}

/** Long enough for a pass that must not write anything. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 50));

describe('the list of a node', () => {
  it('NPP-1: is made when the node is ready, and not for virtual ones', async () => {
    const nodes = [node(), node('node-2', 'False'), node('virtual', 'True', { type: 'virtual-kubelet' })];
    const { cluster, list } = await run({ nodes, pods: [], markers: [] });
    await waitFor('the list of node-1', () => list());
    await settled();
    expect([list('node-2'), list('virtual')]).toEqual([undefined, undefined]);
    cluster.put(kubeResource.nodes, node('node-2'));
    await waitFor('the list of node-2', () => list('node-2'));
  });

  it('NPP-1, NPP-2: goes with its node', async () => {
    const { cluster, list } = await run({ lists: [nodeList(), nodeList([], undefined, 'long-gone')] });
    await waitFor('the list of a node that is gone to go', () => list('long-gone') === undefined);
    cluster.remove(kubeResource.nodes, { name: 'node-1' });
    await waitFor('the list to go', () => list() === undefined);
  });

  it('PPM-3: has all probes of all pods of the node in one write, as soon as there is a list', async () => {
    const pods = [probedPod('web-1'), probedPod('web-2'), probedPod('else', { spec: { nodeName: 'node-2' } })];
    const { probesOf, writes } = await run({ pods, nodes: [node(), node('node-2', 'False')] });
    await waitFor('two pods in the list', () => probesOf().length === 2);
    expect(probesOf()).toEqual(['uid-web-1 game#idle', 'uid-web-2 game#idle']);
    await settled();
    expect(writesTo(writes, 'nodepodprobes').map(({ verb }) => verb)).toEqual(['create', 'patch']);
  });

  it('PPM-1, PPM-2: gets a pod once it is initialized, and loses one that no longer matches', async () => {
    const starting = probedPod('web-1', { status: { conditions: [] } });
    const { cluster, probesOf, list } = await run({ pods: [starting] });
    await waitFor('the list', () => list());
    await settled();
    expect(probesOf()).toEqual([]);
    cluster.put(kubeResource.pods, probedPod());
    await waitFor('the pod in the list', () => probesOf().length === 1);
    cluster.put(kubeResource.pods, probedPod('web-1', { metadata: { labels: { app: 'db' } } }));
    await waitFor('the pod to be off the list', () => probesOf().length === 0);
  });

  it('PPM-3: a node without a list keeps no pod waiting once it has one, and the marker says what it waits for', async () => {
    const { cluster, probesOf, mark } = await run({ nodes: [node('node-1', 'False')] });
    await waitFor('the wait to be told', () => mark()?.status?.waitingFor);
    expect(mark()?.status?.waitingFor).toMatchObject({ reason: 'NodeNotReady', blockedBy: ['node/node-1'] });
    cluster.put(kubeResource.nodes, node());
    await waitFor('the pod in the list', () => probesOf().length === 1);
    await waitFor('the wait to end', () => mark()?.status?.waitingFor === undefined);
  });

  it('says that a pod without a result waits for a daemon that does not answer', async () => {
    const pods = [probedPod('web-1'), probedPod('web-2', { spec: { nodeName: 'node-2' } })];
    const silent = new Set(['node-1', 'node-2']);
    const asked = new Set<string>();
    const daemonTrouble = (name: string) => {
      asked.add(name);
      return silent.has(name) ? engineNoDaemon(name, '2026-01-01T00:00:30Z') : undefined;
    };
    const { controller, list, mark, report } = await run({ pods, nodes: [node(), node('node-2')] }, { daemonTrouble });
    await waitFor('both nodes to be named', () => mark()?.status?.waitingFor?.blockedCount === 2);
    expect(mark()?.status?.waitingFor).toMatchObject({
      reason: 'EngineNoDaemon',
      blockedBy: ['node/node-1', 'node/node-2'],
      unblock: markerWaits.EngineNoDaemon,
    });
    await waitFor('the list', () => list());
    report('uid-web-1', state('Succeeded'));
    controller.wantAll();
    await waitFor('the node without a result alone', () => mark()?.status?.waitingFor?.blockedCount === 1);
    expect(mark()?.status?.waitingFor?.unblock).toContain('the daemon of node "node-2" back (DaemonSet kruise-daemon');
    silent.clear();
    asked.clear();
    controller.wantAll();
    await waitFor('the wait to end', () => mark()?.status?.waitingFor === undefined);
    expect([...asked]).toEqual(['node-2']);
  });

  it('NPP-10, NPP-11: loses pods that end, go, or are replaced under their name', async () => {
    const pods = ['web-1', 'web-2', 'web-3'].map((name) => probedPod(name));
    const { cluster, probesOf } = await run({ pods });
    await waitFor('three pods in the list', () => probesOf().length === 3);
    cluster.put(kubeResource.pods, probedPod('web-1', { status: { phase: 'Failed' } }));
    cluster.remove(kubeResource.pods, { namespace: 'shop', name: 'web-2' });
    cluster.put(kubeResource.pods, probedPod('web-3', { metadata: { uid: 'uid-new', labels: { app: 'web' } } }));
    await waitFor('the new pod alone', () => probesOf().join() === 'uid-new game#idle');
  });

  it('PPM-2: does not count pods that have ended', async () => {
    const pods = ['web-1', 'web-2'].map((name) => probedPod(name));
    const { cluster, mark } = await run({ pods });
    await waitFor('two pods to match', () => mark()?.status?.matchedPods === 2);
    cluster.put(kubeResource.pods, probedPod('web-1', { status: { phase: 'Failed' } }));
    await waitFor('one pod to match', () => mark()?.status?.matchedPods === 1);
    cluster.put(kubeResource.pods, probedPod('web-2', { status: { phase: 'Succeeded' } }));
    await waitFor('no pod to match', () => mark()?.status?.matchedPods === 0);
  });

  it('PPM-4, PPM-6: follows the marker: probes that change, come and go', async () => {
    const { cluster, probesOf, mark, list } = await run();
    await waitFor('the probe in the list', () => probesOf().length === 1);
    await waitFor('the generation to be spread', () => mark()?.status?.observedGeneration === 1);
    const changed = marker([probe({ name: 'full', probe: { tcpSocket: { port: 1 } } })], { generation: 2 });
    cluster.put(podProbeMarker, {
      ...changed,
      status: mark()?.status,
      metadata: { ...changed.metadata, finalizers: [nodePodProbeFinalizer] },
    });
    await waitFor('the other probe alone', () => probesOf().join() === 'uid-web-1 game#full');
    await waitFor('the generation to be spread', () => mark()?.status?.observedGeneration === 2);
    expect(list()?.spec.podProbes?.[0]?.probes?.[0]?.probe).toEqual({ tcpSocket: { port: 1 } });
  });

  it('PPM-3: a marker that changes while its node is written to is spread by the next write, and not by this', async () => {
    const cluster = worldOf({});
    const isSpreading = newGate();
    const listed: string[] = [];
    let hasChanged = false;
    const meet = async ({ verb, plural, body }: SeenCall) => {
      if (verb !== 'patch') return;
      const { status } = body as Partial<PodProbeMarker>;
      if (plural === 'podprobemarkers' && status?.observedGeneration === 2) {
        const { spec } = cluster.look<NodePodProbe>(nodePodProbe, { name: 'node-1' }) as NodePodProbe;
        listed.push(...(spec.podProbes ?? []).flatMap(({ probes = [] }) => probes.map(({ name }) => name)));
      }
      if (plural === 'podprobemarkers' && status && hasChanged) isSpreading.open();
      if (plural !== 'nodepodprobes' || hasChanged) return;
      hasChanged = true;
      const changed = marker([probe({ name: 'full' })], { generation: 2 });
      const finalizers = [nodePodProbeFinalizer];
      cluster.put(podProbeMarker, { ...changed, metadata: { ...changed.metadata, finalizers } });
      await isSpreading.opened;
    };
    started.push(await runController(podProbes, { cluster, meet }));
    await waitFor('the generation to be spread', () => listed.length > 0);
    expect(listed).toEqual(['game#full']);
  });

  it('NPP-33: is written at once although the daemon reports there at the same moment', async () => {
    const cluster = worldOf({ lists: [nodeList()] });
    let reports = 0;
    const meet = ({ verb, plural, body }: SeenCall) => {
      if (verb !== 'patch' || plural !== 'nodepodprobes' || !(body as Partial<NodePodProbe>).spec) return;
      const list = cluster.look<NodePodProbe>(nodePodProbe, { name: 'node-1' }) as NodePodProbe;
      reports += 1;
      if (reports > 2) return;
      const podProbeStatuses = [{ name: `report-${reports}`, namespace: 'shop', uid: 'other' }];
      cluster.put(nodePodProbe, { ...list, status: { podProbeStatuses } });
    };
    const { probesOf, failures, mark } = await run({}, { cluster, meet });
    await waitFor('the generation to be spread', () => mark()?.status?.observedGeneration === 1);
    expect(probesOf()).toEqual(['uid-web-1 game#idle']);
    expect([reports, failures]).toEqual([3, []]);
  });

  it('H5: a marker that is too large for the list says so, and stops nobody else', async () => {
    const command = ['sh', '-c', 'x'.repeat(30_000)];
    const greedy = marker([probe({ probe: { exec: { command } }, podConditionType: 'greedy' })], { name: 'greedy' });
    const pods = Array.from({ length: 60 }, (_, index) => probedPod(`web-${index + 1}`));
    const { probesOf, mark, cluster } = await run({ pods, markers: [greedy, marker()] });
    await waitFor(
      'the probes of the other one',
      () => probesOf().filter((one) => one.endsWith(' game#idle')).length === 60,
    );
    await waitFor('the wait to be told', () => mark('greedy')?.status?.waitingFor);
    expect(mark('greedy')?.status?.waitingFor).toMatchObject({ reason: 'NodeListFull' });
    expect(mark()?.status?.waitingFor).toBeUndefined();
    for (let index = 11; index <= 60; index += 1)
      cluster.remove(kubeResource.pods, { namespace: 'shop', name: `web-${index}` });
    await waitFor('the rest to have room', () => probesOf().length === 20);
    await waitFor('the wait to end', () => mark('greedy')?.status?.waitingFor === undefined);
  });

  it('H5: a list that the API server refuses for its size is written with less of those who want most', async () => {
    const command = ['sh', '-c', 'x'.repeat(10_000)];
    const greedy = marker([probe({ probe: { exec: { command } }, podConditionType: 'greedy' })], { name: 'greedy' });
    const pods = Array.from({ length: 40 }, (_, index) => probedPod(`web-${index + 1}`));
    const sizes: number[] = [];
    const meet = ({ verb, plural, body }: SeenCall) => {
      if (verb !== 'patch' || plural !== 'nodepodprobes') return;
      sizes.push(JSON.stringify(body).length);
      if ((sizes.at(-1) ?? 0) > 150_000)
        throw new KubeError({ status: 500, message: 'etcdserver: request is too large' });
    };
    const { probesOf, mark, failures } = await run({ pods, markers: [greedy, marker()] }, { meet });
    await waitFor(
      'the probes of the other one',
      () => probesOf().filter((one) => one.endsWith(' game#idle')).length === 40,
    );
    await waitFor('the wait to be told', () => mark('greedy')?.status?.waitingFor?.reason === 'NodeListFull');
    expect(probesOf().filter((one) => one.endsWith(' greedy#idle')).length).toBeGreaterThan(2);
    expect(failures).toEqual([]);
  });

  it('NPP-11: loses a pod as soon as it is terminating', async () => {
    const { cluster, probesOf, pod } = await run({ pods: [probedPod('web-1'), probedPod('web-2')] });
    await waitFor('both pods in the list', () => probesOf().length === 2);
    const deletionTimestamp = '2026-01-01T00:00:30Z';
    cluster.put(kubeResource.pods, { ...pod(), metadata: { ...pod().metadata, deletionTimestamp } });
    await waitFor('the other pod alone', () => probesOf().join() === 'uid-web-2 game#idle');
    expect(pod().metadata.name).toBe('web-1');
  });

  it('PPM-5: names ports by looking at each pod once, and says which pod has no such port', async () => {
    const named = [probe({ probe: { tcpSocket: { port: 'game' } } })];
    const containers = [{ name: 'app', ports: [{ name: 'game', containerPort: 7777 }] }];
    const pods = [probedPod('web-1', { spec: { nodeName: 'node-1', containers } }), probedPod('web-2')];
    const reads: string[] = [];
    const meet = ({ verb, name, plural }: SeenCall) => void (verb === 'get' && plural === 'pods' && reads.push(name));
    const { list, mark, cluster } = await run({ pods, markers: [marker(named)] }, { meet });
    await waitFor('the port as a number', () => list()?.spec.podProbes?.[0]?.probes?.[0]);
    expect(list()?.spec.podProbes).toMatchObject([
      { name: 'web-1', probes: [{ probe: { tcpSocket: { port: 7777 } } }] },
    ]);
    await waitFor('the pod without it to be named', () => mark()?.status?.waitingFor);
    expect(mark()?.status?.waitingFor).toMatchObject({ reason: 'PortNotFound', blockedBy: ['pod/web-2'] });
    cluster.put(kubeResource.pods, probedPod('web-3'));
    await waitFor('another one', () => mark()?.status?.waitingFor?.blockedCount === 2);
    expect(new Set(reads)).toEqual(new Set(['web-1', 'web-2', 'web-3']));
    expect(reads).toHaveLength(3);
  });
});

describe('a marker', () => {
  it('PPM-5: keeps its wait while a new leader does not know its nodes yet', async () => {
    const marked = marker([probe({ probe: { tcpSocket: { port: 'web' } } })]);
    const since = '2026-01-01T00:00:00Z';
    const waitingFor = { reason: 'PortNotFound', blockedBy: ['pod/web-1'], blockedCount: 1, since, unblock: '' };
    const held = { ...marked.metadata, finalizers: [nodePodProbeFinalizer] };
    const status = { observedGeneration: 1, matchedPods: 1, waitingFor };
    const read = Promise.withResolvers<void>();
    const { cluster, writes, mark } = await run(
      { markers: [{ ...marked, metadata: held, status }], pods: [probedPod()], lists: [nodeList()] },
      { meet: async ({ verb, plural }) => void (verb === 'get' && plural === 'pods' && (await read.promise)) },
    );
    cluster.put(kubeResource.pods, probedPod('web-2', { spec: { nodeName: 'node-1' } }));
    await waitFor('another pod to match', () => mark()?.status?.matchedPods === 2).finally(read.resolve);
    await waitFor('both pods to be named', () => mark()?.status?.waitingFor?.blockedCount === 2);
    expect(mark()?.status?.waitingFor?.since).toBe(since);
    expect(writesTo(writes, 'podprobemarkers').map(({ body }) => JSON.stringify(body))).not.toContainEqual(
      expect.stringContaining('"waitingFor":null'),
    );
  });

  it('PPM-9: gets its finalizer and its status in the first pass', async () => {
    const nodes = [node(), node('virtual', 'True', { type: 'virtual-kubelet' })];
    const pods = [
      probedPod(),
      probedPod('virtual-1', { spec: { nodeName: 'virtual' } }),
      probedPod('lost', { spec: { nodeName: 'nowhere' } }),
      probedPod('db', { metadata: { labels: { app: 'db' } } }),
    ];
    const { mark } = await run({ nodes, pods });
    await waitFor('the status', () => mark()?.status?.observedGeneration === 1);
    expect(mark()?.metadata.finalizers).toEqual([nodePodProbeFinalizer]);
    expect(mark()?.status).toEqual({ observedGeneration: 1, matchedPods: 2 });
  });

  it('PPM-8: is held until no node has work of it, and leaves the work of others with names alike alone', async () => {
    const markers = [marker(), marker([probe({ podConditionType: 'b' })], { name: 'pregame' })];
    const { cluster, probesOf, mark } = await run({ markers });
    await waitFor('both in the list', () => probesOf().length === 2);
    await waitFor('the finalizer', () => mark()?.metadata.finalizers?.length === 1);
    const going = mark();
    if (!going) throw new Error('it is there');
    cluster.put(podProbeMarker, {
      ...going,
      metadata: { ...going.metadata, deletionTimestamp: '2026-01-01T00:00:30Z' },
    });
    await waitFor('the finalizer to be taken off', () => mark() === undefined);
    expect(probesOf()).toEqual(['uid-web-1 pregame#idle']);
  });

  it('PPM-9: no node is told of a marker that has no finalizer yet', async () => {
    const cluster = worldOf({ lists: [nodeList()] });
    const finalizer = newGate();
    const meet = async ({ verb, plural }: SeenCall) => {
      if (verb === 'patch' && plural === 'podprobemarkers') await finalizer.opened;
    };
    const { probesOf, mark } = await run({}, { cluster, meet });
    // The change of the pod triggers a pass over its node.
    cluster.put(kubeResource.pods, probedPod('web-1', { status: { podIP: '10.0.0.9' } }));
    await settled();
    expect([probesOf(), mark()?.metadata.finalizers]).toEqual([[], undefined]);
    finalizer.open();
    await waitFor('the probe in the list', () => probesOf().length === 1);
  });

  it('PPM-8a: is held until a pass that knew nothing of its deletion has ended, and no node has work of it', async () => {
    const cluster = worldOf({ lists: [nodeList()] });
    const isGoing = newGate();
    const isWriting = newGate();
    const left: string[][] = [];
    let writes = 0;
    const listed = () => {
      const { spec } = cluster.look<NodePodProbe>(nodePodProbe, { name: 'node-1' }) as NodePodProbe;
      return (spec.podProbes ?? []).flatMap(({ probes = [] }) => probes.map(({ name }) => name));
    };
    const meet = async ({ verb, plural, body }: SeenCall) => {
      if (verb !== 'patch') return;
      const { metadata, spec } = body as Partial<PodProbeMarker>;
      if (plural === 'podprobemarkers' && metadata?.finalizers?.length === 0) left.push(listed());
      if (plural !== 'nodepodprobes' || !spec) return;
      writes += 1;
      if (writes > 1) return;
      isWriting.open();
      await isGoing.opened;
    };
    const { mark } = await run({}, { cluster, meet });
    await isWriting.opened;
    const marked = mark() as PodProbeMarker;
    const deletionTimestamp = '2026-01-01T00:00:30Z';
    cluster.put(podProbeMarker, { ...marked, metadata: { ...marked.metadata, deletionTimestamp } });
    await settled();
    expect(mark()?.metadata.finalizers).toEqual([nodePodProbeFinalizer]);
    isGoing.open();
    await waitFor('the finalizer to be taken off', () => mark() === undefined);
    expect(left).toEqual([[]]);
    await settled();
    expect(listed()).toEqual([]);
  });

  it('PPM-8a: several that go together leave nothing behind on any node', async () => {
    const names = ['game', 'gate', 'guild', 'gold'];
    const nodes = ['node-1', 'node-2', 'node-3'];
    const { cluster, probesOf, mark } = await run({
      nodes: nodes.map((name) => node(name)),
      pods: nodes.map((nodeName, index) => probedPod(`web-${index}`, { spec: { nodeName } })),
      markers: names.map((name) => marker([probe({ podConditionType: name })], { name })),
    });
    await waitFor('all in the lists', () => nodes.every((name) => probesOf(name).length === names.length));
    for (const name of names) {
      const marked = mark(name) as PodProbeMarker;
      const deletionTimestamp = '2026-01-01T00:00:30Z';
      cluster.put(podProbeMarker, { ...marked, metadata: { ...marked.metadata, deletionTimestamp } });
    }
    await waitFor('all finalizers to be taken off', () => names.every((name) => mark(name) === undefined));
    expect(nodes.flatMap((name) => probesOf(name))).toEqual([]);
  });

  it('PPM-8: leaves the marks on pods when it goes', async () => {
    const { cluster, pod, report, mark, list, writes } = await run();
    await waitFor('the list', () => (list()?.spec.podProbes ?? []).length > 0);
    report('uid-web-1', state('Succeeded'));
    await waitFor('the condition', () => pod().status?.conditions?.length === 2);
    const before = writesTo(writes, 'pods').length;
    cluster.put(podProbeMarker, {
      ...(mark() as PodProbeMarker),
      metadata: { ...(mark() as PodProbeMarker).metadata, deletionTimestamp: '2026-01-01T00:00:30Z' },
    });
    await waitFor('the list to be empty', () => list()?.spec.podProbes?.length === 0);
    await settled();
    expect(writesTo(writes, 'pods')).toHaveLength(before);
  });

  it('FG-4: with its gate off nothing is probed, and it can still go', async () => {
    const going = marker(undefined, {
      deletionTimestamp: '2026-01-01T00:00:30Z',
      finalizers: ['mine', nodePodProbeFinalizer],
    });
    const { mark, list } = await run({ markers: [going] }, { gates: 'PodProbeMarkerGate=false' });
    await waitFor('the finalizer to be taken off', () => mark()?.metadata.finalizers?.length === 1);
    expect(mark()?.metadata.finalizers).toEqual(['mine']);
    expect(list()).toBeUndefined();
  });
});

describe('results', () => {
  const markerPolicy = [
    { state: 'Succeeded', labels: { idle: 'yes' }, annotations: { why: 'idle' } },
    { state: 'Failed', labels: { idle: 'no' } },
  ] as const;
  const withPolicy = marker([probe({ markerPolicy })]);

  async function listed(world: World = {}, options: ControllerContextOptions = {}) {
    const running = await run({ markers: [withPolicy], ...world }, options);
    await waitFor('the list', () => (running.list()?.spec.podProbes ?? []).length > 0);
    return running;
  }

  it('NPP-2, NPP-15: are shown in one write of the status, and only when they change', async () => {
    const { report, pod, writes } = await listed();
    report('uid-web-1', state('Succeeded', 'game#idle', 'no players'));
    await waitFor('the condition', () => pod().status?.conditions?.length === 2);
    expect(pod().status?.conditions?.[1]).toMatchObject({
      type: 'game.io/idle',
      status: 'True',
      message: 'no players',
    });
    expect(pod().metadata).toMatchObject({ labels: { app: 'web', idle: 'yes' }, annotations: { why: 'idle' } });
    expect(writesTo(writes, 'pods')).toHaveLength(1);
    report('uid-web-1', { ...state('Succeeded', 'game#idle', 'no players'), lastProbeTime: '2026-01-01T00:10:20Z' });
    await settled();
    expect(writesTo(writes, 'pods')).toHaveLength(1);

    report('uid-web-1', state('Failed'));
    await waitFor('the other label', () => pod().metadata.labels?.idle === 'no');
    expect(pod().metadata.annotations).toEqual({});
    expect(writesTo(writes, 'pods')).toHaveLength(2);
  });

  it('NPP-15a: a label never shows without the condition of the same result', async () => {
    const { report, pod, writes } = await listed();
    const said = ['yes', 'no', 'yes'];
    for (const [index, idle] of said.entries()) {
      report('uid-web-1', state(idle === 'yes' ? 'Succeeded' : 'Failed', 'game#idle', `${index}`));
      await waitFor('the condition', () => pod().status?.conditions?.[1]?.message === `${index}`);
      expect(pod().metadata.labels?.idle).toBe(idle);
    }
    expect(writesTo(writes, 'pods').map(({ body }) => Object.keys(body as object))).toEqual(
      said.map(() => ['metadata', 'status']),
    );
  });

  it('NPP-17: come to a pod without any label, too', async () => {
    const selector = { matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] };
    const { labels: _, ...metadata } = probedPod().metadata;
    const bare = { ...probedPod(), metadata };
    const { report, pod } = await listed({ pods: [bare], markers: [marker([probe({ markerPolicy })], {}, selector)] });
    report('uid-web-1', state('Succeeded'));
    await waitFor('the label', () => pod().metadata.labels?.idle === 'yes');
  });

  it('PPM-7: a changed policy takes effect at once, and what the old one wrote stays', async () => {
    const { cluster, report, pod, mark } = await listed();
    report('uid-web-1', state('Succeeded'));
    await waitFor('the label', () => pod().metadata.labels?.idle === 'yes');
    const other = marker([
      probe({ podConditionType: 'game.io/free', markerPolicy: [{ state: 'Succeeded', labels: { free: 'yes' } }] }),
    ]);
    const held = mark() as PodProbeMarker;
    cluster.put(podProbeMarker, { ...held, spec: other.spec, metadata: { ...held.metadata, generation: 2 } });
    await waitFor('the other label', () => pod().metadata.labels?.free === 'yes');
    expect(pod().metadata.labels).toEqual({ app: 'web', idle: 'yes', free: 'yes' });
    expect(pod().status?.conditions?.map(({ type }) => type)).toEqual(['Initialized', 'game.io/idle', 'game.io/free']);
  });

  it('NPP-15: are decided anew when the kubelet was faster, and tried again when the API server is away', async () => {
    let failures = 0;
    const meet = ({ verb, plural }: SeenCall) => {
      if (verb !== 'patch' || plural !== 'pods') return;
      failures += 1;
      if (failures <= 2) throw conflict();
      if (failures === 3) throw unavailable();
    };
    const { report, pod, failures: told } = await listed({}, { meet });
    report('uid-web-1', state('Succeeded'));
    await waitFor('the label', () => pod().metadata.labels?.idle === 'yes');
    expect(told).toHaveLength(1);
  });

  it('NPP-10: are not written on another pod of the same name', async () => {
    const { cluster, report, pod, list } = await listed();
    report('uid-web-1', state('Failed'));
    await waitFor('the label', () => pod().metadata.labels?.idle === 'no');
    cluster.put(kubeResource.pods, probedPod('web-1', { metadata: { uid: 'uid-new', labels: { app: 'web' } } }));
    await waitFor('the new pod in the list', () => list()?.spec.podProbes?.[0]?.uid === 'uid-new');
    await settled();
    expect(pod().metadata.labels).toEqual({ app: 'web' });
  });

  it('PPS-2, PPS-3: of pods on virtual nodes are their own conditions, and no list has them', async () => {
    const nodes = [node('virtual', 'True', { type: 'virtual-kubelet' })];
    const pods = [probedPod('web-1', { spec: { nodeName: 'virtual' } })];
    const world = { nodes, pods, markers: [withPolicy] };
    const { cluster, pod, list } = await run(world, { gates: 'EnablePodProbeMarkerOnServerless=true' });
    const said = (status: string) => ({ status: { conditions: [{ type: 'game.io/idle', status }] } });
    cluster.put(kubeResource.pods, { ...probedPod('web-1', { spec: { nodeName: 'virtual' } }), ...said('True') });
    await waitFor('the label', () => pod().metadata.labels?.idle === 'yes');
    cluster.put(kubeResource.pods, { ...pod(), ...said('False') });
    await waitFor('the other label', () => pod().metadata.labels?.idle === 'no');
    expect(pod().metadata.annotations).toEqual({ why: 'idle' });
    expect(list('virtual')).toBeUndefined();
  });

  it('PPS-3: without its gate pods on virtual nodes are left alone', async () => {
    const nodes = [node('virtual', 'True', { type: 'virtual-kubelet' })];
    const status = {
      conditions: [
        { type: 'game.io/idle', status: 'True' },
        { type: 'Initialized', status: 'True' },
      ],
    };
    const pods = [probedPod('web-1', { spec: { nodeName: 'virtual' }, status })];
    const { mark, pod } = await run({ nodes, pods, markers: [withPolicy] });
    await waitFor('the marker to have been looked at', () => mark()?.status?.matchedPods === 1);
    await settled();
    expect(pod().metadata.labels).toEqual({ app: 'web' });
  });
});
