import { describe, expect, it } from '@jest/globals';
import type { LaunchBarrier } from '../../api/container-launch-priority.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeWriter } from '../../kube/fence.ts';
import { barrierIndexes } from '../../watcher/kinds/pod/container-launch-priority/barrier.ts';
import type { LaunchPassDependencies } from '../../watcher/kinds/pod/container-launch-priority/launch-pass-dependencies.ts';
import { isOrdered, passOverLaunch } from '../../watcher/kinds/pod/container-launch-priority/pass.ts';
import { trimPod } from '../../watcher/trim.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { createdAt } from '../support/objects/metadata.ts';
import { orderedPod } from '../support/ordered-pod.ts';
import { cacheOf, conflict, unavailable } from '../support/recreate-requests.ts';

const ref = { namespace: 'shop', name: 'web' };
const barrierRef = { namespace: 'shop', name: 'web-barrier' };
const inOrder = { order: { db: 10, app: 0 } };
const completed = { 'apps.kruise.io/container-launch-priority-completed': 'true' };

function barrierOf(podUid: string | undefined, data: Record<string, string> = {}, labelled = true): LaunchBarrier {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      ...barrierRef,
      uid: `barrier-of-${podUid ?? 'nobody'}`,
      resourceVersion: '1',
      creationTimestamp: createdAt,
      ...(labelled && { labels: { 'windlass.io/launch-barrier': 'true' } }),
      ...(podUid && { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'web', uid: podUid }] }),
    },
    data,
  };
}

/** A watcher whose caches hold what there was at the beginning of each pass. */
function watcher({ pod, barrier }: { readonly pod?: Pod; readonly barrier?: LaunchBarrier }) {
  const cluster = new MemoryCluster();
  if (pod) cluster.put(kubeResource.pods, pod);
  if (barrier) cluster.put(kubeResource.configMaps, barrier);
  const calls: SeenCall[] = [];
  const reportedMissed = new Set<string>();
  let meet: (call: SeenCall) => void = () => undefined;
  const kube = cluster.client((call) => {
    calls.push(call);
    meet(call);
  }) as KubeWriter;

  const livePod = () => cluster.look<Pod>(kubeResource.pods, ref);
  const liveBarrier = () => cluster.look<LaunchBarrier>(kubeResource.configMaps, barrierRef);
  return {
    cluster,
    calls,
    writes: () => calls.filter(({ verb, plural }) => verb !== 'get' && plural !== 'events'),
    events: () => calls.filter(({ plural }) => plural === 'events').map(({ body }) => body as Record<string, unknown>),
    meeting: (hook: typeof meet) => {
      meet = hook;
    },
    annotations: () => livePod()?.metadata.annotations ?? {},
    barrier: liveBarrier,
    async pass(uid = 'pod-1') {
      const [now, known] = [livePod(), liveBarrier()];
      const isLabelled = known?.metadata.labels?.['windlass.io/launch-barrier'] !== undefined;
      const barriers = cacheOf(known && isLabelled ? [known] : [], barrierIndexes);
      const world: LaunchPassDependencies = {
        kube,
        pods: cacheOf(now ? [trimPod(now)] : []),
        barriers: {
          byName: barriers.byName.bind(barriers),
          byIndex: barriers.byIndex.bind(barriers),
          seen: async () => {},
        },
        now: () => Date.parse(createdAt),
        reportedMissed,
      };
      return await passOverLaunch(uid, world);
    },
    become(next: Pod) {
      const annotations = livePod()?.metadata.annotations;
      cluster.put(kubeResource.pods, { ...next, metadata: { ...next.metadata, ...(annotations && { annotations }) } });
    },
  };
}

describe('a pass over an ordered pod', () => {
  it('CLP-10, CLP-12: makes the barrier of a new pod, owned by it, with the key of those that come first', async () => {
    const context = watcher({ pod: orderedPod(inOrder) });
    await context.pass();
    expect(context.barrier()).toMatchObject({
      metadata: {
        labels: { 'windlass.io/launch-barrier': 'true', 'app.kubernetes.io/managed-by': 'windlass' },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'web', uid: 'pod-1' }],
      },
      data: { p_10: 'true' },
    });
    expect(context.barrier()?.metadata.ownerReferences?.[0]).not.toHaveProperty('controller');
    expect(JSON.parse(context.annotations()['windlass.io/container-launch'] ?? '')).toMatchObject({
      waitingFor: { reason: 'ContainerNotReady', blockedBy: ['container/db'], since: createdAt },
    });
    expect(context.annotations()).not.toHaveProperty(Object.keys(completed)[0] ?? '');
  });

  it('CLP-13: publishes the next key once the container is ready, and marks the pod when it was the last', async () => {
    const context = watcher({ pod: orderedPod({ order: { log: -1, app: 0, db: 10 } }) });
    await context.pass();
    context.become(orderedPod({ order: { log: -1, app: 0, db: 10 }, now: { db: 'running' } }));
    const before = context.writes().length;
    await context.pass();
    expect(context.writes()).toHaveLength(before);

    context.become(orderedPod({ order: { log: -1, app: 0, db: 10 }, now: { db: 'ready' } }));
    await context.pass();
    expect(context.barrier()?.data).toEqual({ p_10: 'true', p_0: 'true' });
    expect(context.annotations()['windlass.io/container-launch']).toContain('container/app');

    context.become(orderedPod({ order: { log: -1, app: 0, db: 10 }, now: { db: 'ready', app: 'ready' } }));
    await context.pass();
    expect(context.barrier()?.data).toEqual({ p_10: 'true', p_0: 'true', 'p_-1': 'true' });
    expect(context.annotations()).toEqual(completed);
    const done = context.calls.length;
    await context.pass();
    expect(context.calls).toHaveLength(done);
  });

  it('tells the order in the words of people, and each release; none of it is a warning', async () => {
    const context = watcher({ pod: orderedPod(inOrder) });
    await context.pass();
    context.become(orderedPod({ ...inOrder, now: { db: 'ready' } }));
    await context.pass();
    await context.pass();
    expect(context.events()).toMatchObject([
      {
        type: 'Normal',
        reason: 'LaunchOrdered',
        message:
          'Containers start in this order, each when those before it are ready: db; app. ' +
          'Until then a container shows CreateContainerConfigError, which is expected',
      },
      { type: 'Normal', reason: 'LaunchReleased', message: 'The containers before are ready: app may start' },
    ]);
  });

  it('CLP-12: takes a barrier that is there without our label, and labels it', async () => {
    const context = watcher({
      pod: orderedPod({ ...inOrder, now: { db: 'ready' } }),
      barrier: barrierOf('pod-1', { p_10: 'true' }, false),
    });
    await context.pass();
    expect(context.barrier()?.data).toEqual({ p_10: 'true', p_0: 'true' });
    expect(context.barrier()?.metadata.labels).toMatchObject({ 'windlass.io/launch-barrier': 'true' });
  });

  it('CLP-23: replaces the barrier that an earlier pod of the same name has left, labelled or not', async () => {
    for (const labelled of [true, false]) {
      const left = barrierOf('pod-0', { p_10: 'true', p_0: 'true' }, labelled);
      const context = watcher({ pod: orderedPod(inOrder), barrier: left });
      await context.pass().catch(() => undefined);
      await context.pass();
      expect(context.barrier()?.data).toEqual({ p_10: 'true' });
      expect(context.barrier()?.metadata.ownerReferences?.[0]?.uid).toBe('pod-1');
    }
  });

  it.each([true, false])(
    'L7: leaves a ConfigMap of this name that is no barrier as it is, labelled or not, and says so: %s',
    async (labelled) => {
      const foreign = [
        barrierOf(undefined, { mine: 'x', p_10: 'true' }, labelled),
        { ...barrierOf('pod-0', { mine: 'x' }, labelled) },
      ] as const;
      const { metadata } = foreign[1];
      const ofAnother = {
        ...foreign[1],
        metadata: { ...metadata, ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'agent', uid: 'pod-0' }] },
      };
      for (const barrier of [foreign[0], ofAnother]) {
        const context = watcher({ pod: orderedPod(inOrder), barrier });
        expect(await context.pass()).toEqual({ againInMs: 10_000 });
        expect(context.barrier()).toMatchObject({ data: barrier.data });
        expect(context.barrier()?.metadata).toMatchObject({ uid: barrier.metadata.uid });
        expect(context.barrier()?.metadata.labels).toEqual(barrier.metadata.labels);
        expect(JSON.parse(context.annotations()['windlass.io/container-launch'] ?? '')).toMatchObject({
          waitingFor: { reason: 'BarrierNameTaken', blockedBy: ['configmap/web-barrier'] },
        });
        expect(context.annotations()).not.toHaveProperty('apps.kruise.io/container-launch-priority-completed');

        context.cluster.remove(kubeResource.configMaps, barrierRef);
        await context.pass();
        expect(context.barrier()).toMatchObject({
          data: { p_10: 'true' },
          metadata: { ownerReferences: [{ uid: 'pod-1' }] },
        });
      }
    },
  );

  it('L7: publishes the very key that a container waits for', async () => {
    const pod = orderedPod({ ...inOrder, now: { db: 'ready' } });
    const byHand = JSON.parse(JSON.stringify(pod).replace('"p_10"', '"p_0010"')) as Pod;
    const context = watcher({ pod: byHand });
    await context.pass();
    expect(context.barrier()?.data).toEqual({ p_0010: 'true', p_0: 'true' });
    const before = context.writes().length;
    await context.pass();
    expect(context.writes()).toHaveLength(before);
  });

  it('CLP-21, CLP-22: a barrier that was deleted comes back with every key, also when all had started', async () => {
    const pod = orderedPod({ ...inOrder, now: { db: undefined, app: 'ready' }, annotations: completed });
    const context = watcher({ pod });
    await context.pass();
    expect(context.barrier()?.data).toEqual({ p_10: 'true', p_0: 'true' });
    expect(context.writes()).toHaveLength(1);
    expect(context.events()).toEqual([]);
  });

  it('CLP-20: the restart of a container changes nothing', async () => {
    const barrier = barrierOf('pod-1', { p_10: 'true', p_0: 'true' });
    const pod = orderedPod({ ...inOrder, now: { db: { exitCode: 1 }, app: 'ready' }, annotations: completed });
    const context = watcher({ pod, barrier });
    await context.pass();
    expect(context.calls).toEqual([]);
  });

  it('CLP-25: removes the barrier of a pod that is gone, and that of no other', async () => {
    const context = watcher({ barrier: barrierOf('pod-1', { p_10: 'true' }) });
    await context.pass('pod-2');
    expect(context.barrier()).toBeDefined();
    await context.pass('pod-1');
    expect(context.barrier()).toBeUndefined();
  });

  it.each([
    ['is being deleted', orderedPod({ ...inOrder, metadata: { deletionTimestamp: createdAt } })],
    ['has finished', orderedPod({ ...inOrder, phase: 'Failed' })],
    ['has no order', { ...orderedPod(inOrder), spec: { containers: [{ name: 'app' }, { name: 'db' }] } }],
  ])('CLP-10: does nothing for a pod that %s', async (_what, pod) => {
    const context = watcher({ pod });
    expect(await context.pass()).toBeUndefined();
    expect(context.calls).toEqual([]);
  });

  it('looks again soon when somebody else wrote the pod first, and fails when the API server does', async () => {
    const context = watcher({ pod: orderedPod(inOrder) });
    context.meeting(({ plural }) => {
      if (plural === 'pods') throw conflict();
    });
    expect(await context.pass()).toMatchObject({ againInMs: expect.any(Number) });
    expect(context.events()).toMatchObject([{ reason: 'LaunchOrdered' }]);
    context.meeting(() => {
      throw unavailable();
    });
    await expect(context.pass()).rejects.toThrow('etcd is away');
  });

  it('CLP-24: a watcher that comes back goes on where the pod is', async () => {
    const context = watcher({
      pod: orderedPod({ order: { log: -1, app: 0, db: 10 }, now: { db: 'ready', app: 'ready' } }),
      barrier: barrierOf('pod-1', { p_10: 'true', p_0: 'true' }),
    });
    await context.pass();
    expect(context.barrier()?.data).toHaveProperty('p_-1');
    expect(context.annotations()).toEqual(completed);
  });

  it('says once of a pod that admission has missed that it starts without order', async () => {
    const pod: Pod = {
      ...orderedPod({ order: {}, annotations: { 'apps.kruise.io/container-launch-priority': 'Ordered' } }),
      spec: { containers: [{ name: 'db' }, { name: 'app' }] },
    };
    expect(isOrdered(trimPod(pod))).toBe(true);
    const context = watcher({ pod });
    await context.pass();
    await context.pass();
    expect(context.events()).toMatchObject([{ type: 'Warning', reason: 'LaunchOrderMissed' }]);
    expect(context.writes()).toEqual([]);
    expect(isOrdered(trimPod({ ...pod, status: { phase: 'Running' } }))).toBe(false);
  });
});
