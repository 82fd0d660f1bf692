import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { fileEntry, type Image } from '../../deploy/local/images.ts';
import { silentProgress } from '../../deploy/local/progress.ts';
import { ensureTools, toolPath } from '../../deploy/local/tools.ts';
import type { Cluster } from '../support/cluster.ts';
import { watchFleet } from '../support/fleet-watch.ts';
import { describeProof } from '../support/groups.ts';
import { type LoadReport, steadyLoad } from '../support/steady-load.ts';
import { describeStuckConnection } from '../support/stuck-connection.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { hotPod, hotSidecarSet } from './sidecar-manifests.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  await ensureTools(silentProgress, ['socket-server']);
  local = await localCluster();
  ({ cluster } = local);
  await local.pushImages(['1', '2', '3', 'idle'].map(serverImage));
});

afterAll(async () => {
  await local?.close();
});

// It is cluster-scoped, and would be injected into pods of later tests.
afterEach(async () => {
  await local.ok(['delete', 'sidecarset', 'mesh', '--ignore-not-found']);
});

const names = ['hot-1', 'hot-2', 'hot-3', 'hot-4', 'hot-5'];
/** The longest answer. It is less than the grace period of the pods. */
const longestSeconds = 20;

/** The same program with a text by which its answers name the image. */
function serverImage(tag: string): Image {
  return {
    reference: `windlass/socket-server:${tag}`,
    layers: [
      [fileEntry('socket-server', toolPath('socket-server'))],
      [{ kind: 'file', path: 'image-version', content: Buffer.from(tag) }],
    ],
    config: {},
  };
}

function setOf(namespace: string, tag: string): string {
  const hook = (command: string) => ({ exec: { command: ['/socket-server', command] } });
  return hotSidecarSet(namespace, {
    // all at once: a swap takes as long as its old server drains
    maxUnavailable: names.length,
    emptyImage: 'windlass/socket-server:idle',
    volumes: [{ name: 'hand-over', emptyDir: {} }],
    container: {
      image: `windlass/socket-server:${tag}`,
      command: ['/socket-server', 'serve'],
      lifecycle: { postStart: hook('wait'), preStop: hook('drain') },
      volumeMounts: [{ name: 'hand-over', mountPath: '/hand-over' }],
    },
  });
}

const podOf = (name: string) => hotPod(name, { graceSeconds: 30 });

/** Whether a container of the sidecar runs, and not as the idle one. */
function isServed({ status }: Pod): boolean {
  return (status?.containerStatuses ?? []).some(
    ({ name, image, state }) => name.startsWith('mesh-') && state?.running && !image?.endsWith(':idle'),
  );
}

/** The answers of all pods with these images. */
function servedBy(...tags: readonly string[]): ReadonlySet<string> {
  return new Set(names.flatMap((name) => tags.map((tag) => `${name} ${tag}`)));
}

function serversIn({ answers }: LoadReport): ReadonlySet<string> {
  return new Set(Object.keys(answers));
}

describeProof('load', 'a hot-upgrade sidecar that hands over its listening socket', () => {
  it('SHU-41, SHU-70, SHU-81, SHU-86: loses no request and no connection while five pods are swapped twice', async () => {
    const namespace = await cluster.newNamespace();
    const found = async () =>
      JSON.parse(await local.ok(['get', 'sidecarset', 'mesh', '-o', 'json'])) as SidecarSet & KubeObject;
    await local.ok(['apply', '-f', '-'], setOf(namespace, '1'));
    await waitFor('its revision', async (see) => see((await found()).status)?.latestRevision);
    for (const name of names) await local.ok(['apply', '-n', namespace, '-f', '-'], podOf(name));
    const before = await Promise.all(names.map((name) => local.readyPod(namespace, name)));
    const { spec } = await cluster.kube.create<KubeObject & { readonly spec: { readonly clusterIP: string } }>(
      kubeResource.services,
      {
        metadata: { namespace, name: 'hot' },
        spec: { selector: { app: 'hot' }, ports: [{ port: 80, targetPort: 8080 }] },
      },
    );

    const unserved: string[] = [];
    const watch = await watchFleet(cluster.kube, namespace, (pod) => {
      if (!isServed(pod)) unserved.push(`${pod.metadata.name}: ${JSON.stringify(pod.status?.containerStatuses)}`);
    });
    const commandIn = (argv: readonly string[]) => local.commandIn('node-1', argv);
    const requests = await steadyLoad({
      urls: [`http://${spec.clusterIP}/`],
      // fewer a minute than a machine has ports, which are not free again before
      ...{ atOnce: 20, pauseMs: 50, atLeast: 10_000 },
      commandIn,
      onStuck: async (port) => {
        const connection = { kube: cluster.kube, namespace, node: 'node-1', port };
        const text = await describeStuckConnection({ ...connection, clusterIP: spec.clusterIP, inNode: local.inNode });
        process.stdout.write(`A request from port ${port} is not connected\n${text}\n`);
      },
    });
    const urls = before.map(({ status }) => `http://${status?.podIP}:8080/`);
    const connections = await steadyLoad({
      urls: urls.map((url) => `${url}?upTo=${longestSeconds}`),
      ...{ atOnce: 20, pauseMs: 0 },
      commandIn,
    });

    /** Applies an image, and waits until all pods are swapped. */
    const swap = async (tag: string, working: string) => {
      await local.ok(['apply', '-f', '-'], setOf(namespace, tag));
      await waitFor(`swaps to image ${tag}`, async (see) => {
        const { status, metadata } = see(await found());
        return status?.observedGeneration === metadata.generation && status?.updatedReadyPods === names.length;
      });
      const pods = await Promise.all(names.map((name) => local.get<Pod>('pod', namespace, name)));
      for (const { metadata } of pods)
        expect(metadata.annotations?.[hotMark.working]).toBe(JSON.stringify({ mesh: working }));
      return pods;
    };
    await swap('2', 'mesh-2');
    const after = await swap('3', 'mesh-1');
    const [short, long] = await Promise.all([requests.stop(), connections.stop()]);
    const atLast = await steadyLoad({ urls, atOnce: 1, pauseMs: 0, atLeast: urls.length, commandIn });
    const last = await atLast.stop();
    watch.stop();

    const fewestReady = Math.min(...watch.take().map(({ ready }) => ready));
    process.stdout.write(
      `${short.asked} requests, the slowest took ${short.slowestMs} ms; ${long.asked} connections of up to ` +
        `${long.slowestMs} ms; never fewer than ${fewestReady} pods ready\n`,
    );
    expect([...short.failures, ...long.failures, ...last.failures]).toEqual([]);
    expect(short.asked).toBeGreaterThanOrEqual(10_000);
    expect(serversIn(short)).toEqual(servedBy('1', '2', '3'));
    expect(serversIn(long)).toEqual(servedBy('1', '2', '3'));
    expect(serversIn(last)).toEqual(servedBy('3'));
    expect({ unserved, gaps: watch.gaps }).toEqual({ unserved: [], gaps: 0 });
    expect(after.map(({ metadata }) => metadata.uid)).toEqual(before.map(({ metadata }) => metadata.uid));
    for (const { status } of after) {
      const restarts = status?.containerStatuses?.map(({ name, restartCount }) => [name, restartCount]) ?? [];
      expect(Object.fromEntries(restarts)).toEqual({ app: 0, 'mesh-1': 2, 'mesh-2': 2 });
    }
  });
});
