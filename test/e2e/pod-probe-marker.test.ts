import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { type ContainerProbeState, type NodePodProbe, nodePodProbe } from '../../api/node-pod-probe/types.ts';
import type { PodProbeMarker } from '../../api/pod-probe-marker/types.ts';
import { createKubeClient } from '../../kube/client.ts';
import { type See, waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster, sample } from './local-cluster.ts';

let cluster: LocalCluster;

beforeAll(async () => {
  cluster = await localCluster();
});

afterAll(async () => {
  await cluster.close();
});

const cost = 'controller.kubernetes.io/pod-deletion-cost';

/** The sample pod `room` in a namespace of its own, with the marker, ready and with a result of each probe. */
async function probedRoom(): Promise<{ namespace: string; pod: Pod }> {
  const namespace = await cluster.newNamespace();
  await cluster.applySample('pod-game-room.yaml', namespace);
  await cluster.applySample('pod-probe-marker.yaml', namespace);
  await cluster.readyPod(namespace, 'room-1');
  return { namespace, pod: await roomIs(namespace, { idle: 'True', web: 'True', open: 'True' }) };
}

type Results = Readonly<Partial<Record<'idle' | 'web' | 'open', string>>>;

/** Waits until the pod shows these results as conditions. */
async function roomIs(namespace: string, wanted: Results): Promise<Pod> {
  return await waitFor(`the room to be ${JSON.stringify(wanted)}`, async (see) => {
    const pod = await cluster.get<Pod>('pod', namespace, 'room-1');
    const shown = see(resultsOf(pod));
    return Object.entries(wanted).every(([name, is]) => shown[name] === is) && pod;
  });
}

function resultsOf(pod: Pod): Readonly<Record<string, string>> {
  const ours = (pod.status?.conditions ?? []).filter(({ type }) => type.startsWith('game.example/'));
  return Object.fromEntries(ours.map(({ type, status }) => [type.slice('game.example/'.length), status]));
}

/** Waits until the pod shows the message of a probe. */
async function saysInRoom(namespace: string, name: string, message: string | RegExp): Promise<void> {
  await waitFor(`probe ${name} to say ${message}`, async (see) => {
    const said = see(conditionOf(await cluster.get<Pod>('pod', namespace, 'room-1'), name))?.message ?? '';
    return typeof message === 'string' ? said === message : message.test(said);
  });
}

function conditionOf(pod: Pod, name: string) {
  return pod.status?.conditions?.find(({ type }) => type === `game.example/${name}`);
}

async function inRoom(namespace: string, ...command: readonly string[]): Promise<void> {
  await cluster.ok(['exec', 'room-1', '-n', namespace, '--', ...command]);
}

/** What the NodePodProbe of the node contains about this pod. */
async function listed(pod: Pod): Promise<{ probes: readonly string[]; states: readonly ContainerProbeState[] }> {
  const name = pod.spec.nodeName ?? '';
  const list = JSON.parse(await cluster.ok(['get', 'nodepodprobe', name, '-o', 'json'])) as NodePodProbe;
  const mine = <T extends { readonly uid: string }>(entries: readonly T[] | undefined) =>
    entries?.find(({ uid }) => uid === pod.metadata.uid);
  return {
    probes: mine(list.spec.podProbes)?.probes?.map((probe) => probe.name) ?? [],
    states: mine(list.status?.podProbeStatuses)?.probeStates ?? [],
  };
}

interface ProbeEvent {
  readonly metadata: { readonly resourceVersion: string };
  readonly reason: string;
  /** Absent: empty. */
  readonly message?: string;
  readonly source: { readonly component: string; readonly host: string };
  readonly involvedObject: { readonly fieldPath: string };
}

/** The Events of the node's daemon about the pod, in order: there is one sender. */
async function eventsOf(namespace: string): Promise<readonly ProbeEvent[]> {
  const text = await cluster.ok(['get', 'events', '-n', namespace, '-o', 'json']);
  const { items } = JSON.parse(text) as { items: readonly ProbeEvent[] };
  return items
    .filter(({ source }) => source.component === 'kruise-daemon-podprobe')
    .toSorted((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion));
}

function saying({ reason, message = '' }: ProbeEvent): string {
  return `${reason}: ${message}`;
}

/** The message of each probe of the samples, which identifies it. */
const words: Readonly<Record<'idle' | 'web' | 'open', RegExp>> = {
  idle: /^KruiseProbe(Succeeded: no players$|Failed: (game#idle: |command took))/m,
  web: /^KruiseProbe(Succeeded: welcome$|Failed: (HTTP probe|Get "))/m,
  open: /^KruiseProbe(Succeeded: game#open: |Failed: dial tcp)/m,
};

/** Before the container runs, its state may give this result for each probe. */
const early = 'KruiseProbeFailed: Container(room) is Non-running';

/** The changes of a probe in its Events: S for a success, F for a failure. */
function turnsOf(probe: keyof typeof words, events: readonly ProbeEvent[]): string {
  const own = events.filter((event) => words[probe].test(saying(event)));
  return own.map(({ reason }) => (reason === 'KruiseProbeSucceeded' ? 'S' : 'F')).join('');
}

async function markerIs(namespace: string, holds: (marker: PodProbeMarker, see: See) => unknown): Promise<void> {
  await waitFor('the marker to be like that', async (see) =>
    holds(see(await cluster.get<PodProbeMarker>('podprobemarker', namespace, 'game')), see),
  );
}

describe('the samples', () => {
  it.concurrent('show what a command, a GET and a connection find out, each time that it changes', async () => {
    const { namespace, pod } = await probedRoom();
    expect(pod.metadata.labels).toEqual({ app: 'game', 'game.example/idle': 'true' });
    expect(pod.metadata.annotations?.[cost]).toBe('-10');
    expect(conditionOf(pod, 'idle')?.message).toBe('no players\n');
    expect(conditionOf(pod, 'web')?.message).toBe('welcome\n');
    await markerIs(namespace, ({ status }) => status?.observedGeneration === 1 && status.matchedPods === 1);

    await inRoom(namespace, 'touch', '/state/players');
    const busy = await roomIs(namespace, { idle: 'False', web: 'True', open: 'True' });
    expect(busy.metadata.labels).toEqual({ app: 'game' });
    expect(busy.metadata.annotations?.[cost]).toBe('10');

    await inRoom(namespace, 'mv', '/www/index.html', '/www/away.html');
    await roomIs(namespace, { idle: 'False', web: 'False', open: 'True' });
    await saysInRoom(namespace, 'web', 'HTTP probe failed with statuscode: 404');

    await inRoom(namespace, 'mv', '/www/away.html', '/www/index.html');
    await inRoom(namespace, 'rm', '/state/players');
    const back = await roomIs(namespace, { idle: 'True', web: 'True', open: 'True' });
    expect(back.metadata.annotations?.[cost]).toBe('-10');

    await inRoom(namespace, 'killall', 'httpd');
    await roomIs(namespace, { idle: 'True', web: 'False', open: 'False' });
    await saysInRoom(namespace, 'open', /connection refused/);

    // On a busy machine results change more often: httpd listens late, or answers late. Each change has its Event.
    const events = await waitFor('an Event for each turn that this test has brought about', async (see) => {
      const told = await eventsOf(namespace);
      const { idle, web, open } = see({
        idle: turnsOf('idle', told),
        web: turnsOf('web', told),
        open: turnsOf('open', told),
      });
      return /S.*F.*S$/.test(idle) && /S.*F.*S.*F$/.test(web) && /S.*F$/.test(open) && told;
    });
    for (const event of events)
      expect(event).toMatchObject({
        source: { host: pod.spec.nodeName },
        involvedObject: { fieldPath: 'spec.containers{room}' },
      });
    const turns = (['idle', 'web', 'open'] as const).map((probe) => turnsOf(probe, events));
    for (const turn of turns) expect(turn).not.toMatch(/SS|FF/);
    const others = events.filter((event) => saying(event) === early);
    expect(others.length).toBeLessThanOrEqual(turns.length);
    expect(turns.join('')).toHaveLength(events.length - others.length);
  });

  it.concurrent('begin anew with each instance of a container and with each pod of the name', async () => {
    const { namespace, pod } = await probedRoom();
    const [before] = (await listed(pod)).states;
    // kubectl may lose the connection before it has the answer; what follows shows whether the container has exited
    await inRoom(namespace, 'kill', '1').catch(() => undefined);
    const restarted = await waitFor('results of the next instance', async (see) => {
      const { states } = see(await listed(pod));
      const isNew = states.every(({ containerID }) => containerID !== before?.containerID);
      return states.length === 3 && isNew && states.every(({ state }) => state === 'Succeeded') && states;
    });
    expect(Date.parse(restarted[0]?.lastTransitionTime ?? '')).toBeGreaterThan(
      Date.parse(before?.lastTransitionTime ?? ''),
    );

    await cluster.ok(['delete', 'pod', 'room-1', '-n', namespace]);
    await waitFor('the pod to be off the list', async (see) => {
      const { probes, states } = see(await listed(pod));
      return probes.length + states.length === 0;
    });
    await cluster.applySample('pod-game-room.yaml', namespace);
    const next = await roomIs(namespace, { idle: 'True', web: 'True', open: 'True' });
    expect(next.metadata.uid).not.toBe(pod.metadata.uid);
    expect(next.metadata.labels?.['game.example/idle']).toBe('true');
  });

  it.concurrent('follow their marker: what it says now counts, and when it goes the work goes and the marks stay', async () => {
    const { namespace, pod } = await probedRoom();
    const changed = (await sample('pod-probe-marker.yaml'))
      .replace('game.example/idle: "true"', 'game.example/free: "true"')
      .replace(/ {4}- name: open[\s\S]*$/, '');
    await cluster.ok(['apply', '-n', namespace, '-f', '-'], changed);
    await markerIs(namespace, ({ status }) => status?.observedGeneration === 2);
    expect((await listed(pod)).probes).toEqual(['game#idle', 'game#web']);
    await waitFor('the other label', async (see) => {
      const { metadata } = see(await cluster.get<Pod>('pod', namespace, 'room-1'));
      return metadata.labels?.['game.example/free'] === 'true';
    });
    await waitFor(
      'the state of what is no longer probed to go',
      async (see) => see(await listed(pod)).states.length === 2,
    );

    await cluster.ok(['delete', 'podprobemarker', 'game', '-n', namespace, '--timeout=300s']);
    expect(await listed(pod)).toMatchObject({ probes: [] });
    await inRoom(namespace, 'touch', '/state/players');
    await waitFor('its states to go', async (see) => see(await listed(pod)).states.length === 0);
    const after = await cluster.get<Pod>('pod', namespace, 'room-1');
    expect(after.metadata.labels?.['game.example/free']).toBe('true');
    expect(resultsOf(after)).toEqual({ idle: 'True', web: 'True', open: 'True' });
  });

  it.concurrent('are refused with the name of the field when they are wrong', async () => {
    const namespace = await cluster.newNamespace();
    const good = await sample('pod-probe-marker.yaml');
    const cases: readonly (readonly [string, RegExp])[] = [
      [good.replace('name: idle', 'name: id#le'), /spec\.probes\[0\]\.name/],
      [good.replace('game.example/idle\n', 'Ready\n'), /spec\.probes\[0\]\.podConditionType/],
      [good.replace('scheme: HTTP', 'host: example.com'), /spec\.probes\[1\]\.probe\.httpGet\.(host|scheme)/],
      [good.replace('state: Failed', 'state: Broken'), /markerPolicy\[1\]\.state/],
      [good.replace('failureThreshold: 2', 'failureThreshold: -1'), /failureThreshold/],
    ];
    for (const [manifest, message] of cases) {
      const { code, stderr } = await cluster.kubectl(['create', '-n', namespace, '-f', '-'], manifest);
      expect(code).not.toBe(0);
      expect(stderr).toMatch(message);
    }
    await cluster.ok(['create', '-n', namespace, '-f', '-'], good);
    const other = good.replace('app: game', 'app: other');
    const { code, stderr } = await cluster.kubectl(['apply', '-n', namespace, '-f', '-'], other);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/spec\.selector/);
  });
});

describe('the daemon', () => {
  it.concurrent('may report for its own node alone', async () => {
    const kubeconfig = join(dirname(cluster.kubeconfig), 'roles', 'daemon-node-1.kubeconfig');
    const daemon = createKubeClient({ kubeconfig, userAgent: 'e2e', qps: 10, burst: 10 });
    const report = (name: string) =>
      daemon.patch(nodePodProbe, { name }, 'merge', { status: {} }, { subresource: 'status' });
    try {
      await report('node-1');
      await expect(report('node-2')).rejects.toThrow('a daemon may only report the probes of its own node');
    } finally {
      await daemon.close();
    }
  });
});
