import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Event } from '../../api/core/event.ts';
import type { Pod } from '../../api/core/pod.ts';
import { lifecycleMark } from '../../api/fleet/lifecycle.ts';
import { type StatefulSet, statefulSets } from '../../api/stateful-set/types.ts';
import type { Cluster } from '../support/cluster.ts';
import { isServing, neverFewerReady, watchFleet } from '../support/fleet-watch.ts';
import { describeTogether } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { type Autoscaler, autoscalers } from './autoscaler.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  local = await localCluster();
  ({ cluster } = local);
});

afterAll(async () => {
  await local?.close();
});

const newImage = 'busybox:1.35';
const deletionCost = 'controller.kubernetes.io/pod-deletion-cost';

/** A StatefulSet of a sample in a namespace of its own, with all that has happened to its pods. */
interface Applied {
  readonly namespace: string;
  /** By name, those that are not being deleted. */
  pods(): ReadonlyMap<string, Pod>;
  /** As it was last, also when it is gone. */
  last(pod: string): Pod | undefined;
  /** Whether the pod was like that at some time. */
  hasShown(pod: string, holds: (pod: Pod) => boolean): boolean;
  /** The names of pods in the order in which they got the new image. */
  readonly updated: readonly string[];
  neverFewerReady(least: number): void;
  patch(spec: object): Promise<void>;
  /** Waits until there are these pods, all ready, and the status counts them. */
  untilPods(...names: readonly string[]): Promise<void>;
  exec(pod: string, ...command: readonly string[]): Promise<void>;
}

async function apply(file: string, name: string): Promise<Applied> {
  const namespace = await cluster.newNamespace();
  const seen: Pod[] = [];
  const updated: string[] = [];
  const watch = await watchFleet(cluster.kube, namespace, (pod) => {
    const { metadata, spec } = pod;
    seen.push(pod);
    if (spec.containers[0]?.image === newImage && !updated.includes(metadata.name)) updated.push(metadata.name);
  });
  await local.applySample(file, namespace);
  const ref = { namespace, name };
  const pods = () => new Map([...watch.pods].filter(([, { metadata }]) => metadata.deletionTimestamp === undefined));
  return {
    namespace,
    updated,
    pods,
    last: (name) => seen.findLast(({ metadata }) => metadata.name === name),
    hasShown: (name, holds) => seen.some((pod) => pod.metadata.name === name && holds(pod)),
    neverFewerReady: (least) => neverFewerReady(watch, least),
    async patch(spec) {
      await cluster.kube.patch(statefulSets, ref, 'merge', { spec });
    },
    async untilPods(...names) {
      await waitFor(`the pods ${names.join(', ')}`, async (see) => {
        const { metadata, status } = await cluster.kube.get<StatefulSet>(statefulSets, ref);
        see({ status, pods: [...watch.pods.keys()] });
        const areThere = watch.pods.size === names.length && names.every((one) => watch.pods.has(one));
        const isCounted = status?.observedGeneration === metadata.generation && status?.readyReplicas === names.length;
        return areThere && isCounted && [...pods().values()].filter(isServing).length === names.length;
      });
    },
    async exec(pod, ...command) {
      await local.ok(['exec', pod, '-n', namespace, '--', ...command]);
    },
  };
}

function uidsOf(applied: Applied): Readonly<Record<string, string>> {
  return Object.fromEntries([...applied.pods()].map(([name, { metadata }]) => [name, metadata.uid]));
}

function statusOf(pod: Pod | undefined, container: string) {
  const { containerStatuses = [], initContainerStatuses = [] } = pod?.status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find(({ name }) => name === container);
}

/** How often each container has been started again, by pod and container: a loaded kubelet does it, too. */
function restartsOf(applied: Applied): Readonly<Record<string, number>> {
  const counts = [...applied.pods()].flatMap(([pod, { status }]) => {
    const all = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])];
    return all.map(({ name, restartCount }) => [`${pod}/${name}`, restartCount] as const);
  });
  return Object.fromEntries(counts);
}

function endOf(pod: Pod | undefined, container: string) {
  const { exitCode, finishedAt = '' } = statusOf(pod, container)?.state?.terminated ?? {};
  return { exitCode, at: Date.parse(finishedAt) };
}

async function itemsOf<T>(kind: string, namespace: string): Promise<readonly T[]> {
  return (JSON.parse(await local.ok(['get', kind, '-n', namespace, '-o', 'json'])) as { readonly items: T[] }).items;
}

describeTogether('the samples of StatefulSets', () => {
  it.concurrent('AS-13, AS-42, AS-50, AS-54: rooms without players, as their probe shows, are updated first, and others are deleted once they have none', async () => {
    const game = await apply('stateful-set-game-rooms.yaml', 'rooms');
    await game.untilPods('rooms-0', 'rooms-1', 'rooms-2', 'rooms-3');
    await Promise.all(['rooms-1', 'rooms-3'].map((room) => game.exec(room, 'touch', '/state/players')));
    const untilIdle = async (...rooms: readonly string[]): Promise<void> => {
      await waitFor(`players in all rooms but ${rooms.join(', ')}`, (see) => {
        const shown = [...game.pods()].map(
          ([
            name,
            {
              metadata: { labels, annotations },
            },
          ]) => [name, labels?.['game.example/idle'], annotations?.[deletionCost]],
        );
        return see(shown).every(([name = '', idle, cost]) =>
          rooms.includes(name) ? idle === 'true' && cost === '-10' : idle === undefined && cost === '10',
        );
      });
    };
    await untilIdle('rooms-0', 'rooms-2');
    const [before, restarts] = [uidsOf(game), restartsOf(game)];
    game.neverFewerReady(0);

    const { spec } = await cluster.kube.get<StatefulSet>(statefulSets, { namespace: game.namespace, name: 'rooms' });
    const { containers } = spec.template.spec as { readonly containers: readonly object[] };
    const template = { spec: { containers: containers.map((room) => ({ ...room, image: newImage })) } };
    await game.patch({ template, updateStrategy: { rollingUpdate: { partition: 2 } } });
    await waitFor('the idle rooms to be updated', () => game.updated.length === 2);
    await game.untilPods('rooms-0', 'rooms-1', 'rooms-2', 'rooms-3');
    expect(game.updated).toEqual(['rooms-2', 'rooms-0']);

    await game.exec('rooms-1', 'rm', '/state/players');
    await untilIdle('rooms-0', 'rooms-1', 'rooms-2');
    await game.patch({ updateStrategy: { rollingUpdate: { partition: 0 } } });
    await waitFor('all rooms to be updated', () => game.updated.length === 4);
    await game.untilPods('rooms-0', 'rooms-1', 'rooms-2', 'rooms-3');
    expect(game.updated).toEqual(['rooms-2', 'rooms-0', 'rooms-1', 'rooms-3']);
    game.neverFewerReady(3);
    expect(uidsOf(game)).toEqual(before);
    for (const [room, count] of Object.entries(restartsOf(game)))
      expect([room, count]).toEqual([room, (restarts[room] ?? 0) + 1]);

    // without players now, rooms-1 is given up, and not the highest ordinal
    await game.patch({ replicas: 3, reserveOrdinals: [1] });
    await game.untilPods('rooms-0', 'rooms-2', 'rooms-3');
    const { 'rooms-1': _, ...kept } = before;
    expect(uidsOf(game)).toEqual(kept);

    // rooms-3 has players still
    await game.patch({ replicas: 2 });
    await waitFor('rooms-3 to be about to go', (see) => {
      const { labels } = see(game.pods().get('rooms-3')?.metadata) ?? {};
      return labels?.[lifecycleMark.state] === 'PreparingDelete';
    });
    await game.exec('rooms-3', 'rm', '/state/players');
    await game.untilPods('rooms-0', 'rooms-2');
    const shown = (pod: Pod) =>
      pod.metadata.deletionTimestamp !== undefined && 'game.example/busy' in (pod.metadata.labels ?? {});
    expect(game.hasShown('rooms-3', shown)).toBe(false);
  });

  it.concurrent('AS-12, AS-41: an autoscaler raises and lowers the replicas by the scale subresource, and ordinals follow', async () => {
    const game = await apply('stateful-set-game-rooms.yaml', 'rooms');
    await game.patch({ reserveOrdinals: [1] });
    await game.untilPods('rooms-0', 'rooms-2', 'rooms-3', 'rooms-4');
    const before = uidsOf(game);
    await local.applySample('stateful-set-autoscaler.yaml', game.namespace);
    await game.untilPods('rooms-0', 'rooms-2', 'rooms-3', 'rooms-4', 'rooms-5');
    expect(uidsOf(game)).toMatchObject(before);

    const ref = { namespace: game.namespace, name: 'rooms' };
    // there are no metrics in this cluster: that they are missing is reported only once replicas and selector are read
    const says = async (replicas: number): Promise<void> => {
      await waitFor('the autoscaler to count the pods', async (see) => {
        const { status } = see(await cluster.kube.get<Autoscaler>(autoscalers, ref));
        const reasonOf = (type: string, is: string) =>
          status?.conditions?.find((one) => one.type === type && one.status === is)?.reason;
        const isRead = reasonOf('AbleToScale', 'True') === 'SucceededGetScale';
        return (
          isRead &&
          reasonOf('ScalingActive', 'False') === 'FailedGetResourceMetric' &&
          status?.currentReplicas === replicas
        );
      });
    };
    await says(5);
    await cluster.kube.patch(autoscalers, ref, 'merge', { spec: { minReplicas: 1, maxReplicas: 3 } });
    await game.untilPods('rooms-0', 'rooms-2', 'rooms-3');
    await says(3);
    const { 'rooms-4': _, ...kept } = before;
    expect(uidsOf(game)).toEqual(kept);
  });

  it.concurrent('JST-1: pods that run for good keep a marked sidecar when their main container exits, and end a native one last', async () => {
    const orders = await apply('stateful-set-with-sidecars.yaml', 'orders-db');
    const { namespace } = orders;
    await orders.untilPods('orders-db-0', 'orders-db-1');
    const before = restartsOf(orders);
    const after = { ...before, 'orders-db-0/db': (before['orders-db-0/db'] ?? 0) + 1 };
    // kubectl may lose the connection before it has the answer; what follows shows whether the container has exited
    await orders.exec('orders-db-0', 'kill', '1').catch(() => undefined);
    await waitFor('the database to run again', (see) => {
      const { restartCount, ready } = see(statusOf(orders.last('orders-db-0'), 'db')) ?? {};
      return restartCount === after['orders-db-0/db'] && ready;
    });
    expect(orders.hasShown('orders-db-0', (pod) => endOf(pod, 'db').exitCode === 0)).toBe(true);
    // a Job that comes after that shows that sidecars are stopped in this cluster
    const jobs = await cluster.newNamespace();
    await local.applySample('job-with-sidecar.yaml', jobs);
    await local.ok(['wait', '--for=condition=Complete', 'job/report', '-n', jobs, '--timeout=300s']);
    expect(await itemsOf('crr', jobs)).toHaveLength(1);
    expect(await itemsOf('crr', namespace)).toEqual([]);
    const events = await itemsOf<Event>('events', namespace);
    expect(events.filter(({ reason }) => reason === 'SidecarTerminator')).toEqual([]);
    expect(restartsOf(orders)).toEqual(after);

    await orders.patch({ replicas: 1 });
    await orders.untilPods('orders-db-0');
    const ended = orders.last('orders-db-1');
    const [db, proxy] = [endOf(ended, 'db'), endOf(ended, 'proxy')];
    expect([db.exitCode, proxy.exitCode]).toEqual([0, 0]);
    expect(proxy.at).toBeGreaterThanOrEqual(db.at);
  });

  it.concurrent('JST-1: a StatefulSet of pods that run to completion is refused', async () => {
    const orders = await cluster.newNamespace();
    for (const restartPolicy of ['Never', 'OnFailure']) {
      const { code, stderr } = await local.kubectl(
        ['create', '-n', orders, '-f', '-'],
        JSON.stringify({
          apiVersion: 'apps.kruise.io/v1beta1',
          kind: 'StatefulSet',
          metadata: { name: 'orders-db' },
          spec: {
            selector: { matchLabels: { app: 'orders-db' } },
            template: {
              metadata: { labels: { app: 'orders-db' } },
              spec: { restartPolicy, containers: [{ name: 'db', image: newImage }] },
            },
          },
        }),
      );
      expect(code).not.toBe(0);
      expect(stderr).toMatch(/spec\.template\.spec\.restartPolicy.*Always/s);
    }
  });
});
