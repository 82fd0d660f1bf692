import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import type { KubeClient } from '../../activities/kube/client.ts';
import { type CloneSet, cloneSets } from '../../api/cloneset.ts';
import type { JsonObject } from '../../api/json.ts';
import { rollOutId, searchAttributes } from '../../api/operations.ts';
import type { Pod } from '../../api/pod.ts';
import { ordersOf } from '../../api/roll-out-orders.ts';
import { kubeResource, windlassAnnotation } from '../../api/well-known.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { type FleetWatch, watchFleet } from '../support/fleet-watch.ts';
import type { TestPlatform } from '../support/platform.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  local = await localCluster();
  cluster = connectToCluster({ kubeconfig: local.kubeconfig } as TestPlatform);
});

afterAll(async () => {
  await cluster?.close();
  await local?.close();
});

const images = { old: 'busybox:1.35', new: 'busybox:1.36' } as const;

interface FleetOptions {
  readonly replicas?: number;
  readonly rollingUpdate?: JsonObject;
  readonly spec?: JsonObject;
  readonly template?: JsonObject;
  readonly containers?: readonly JsonObject[];
}

/** A container that runs until it is told to end. */
function container(name: string, more: JsonObject = {}): JsonObject {
  const command = ['sh', '-c', `trap 'exit 0' TERM; sleep 99999 & wait`];
  return { name, image: images.old, command, ...more };
}

/** A CloneSet in a namespace of its own, with a recorded watch of its pods. */
class Fleet {
  readonly namespace: string;
  readonly watch: FleetWatch;
  readonly uid: string;
  readonly replicas: number;

  private constructor(namespace: string, set: CloneSet, watch: FleetWatch) {
    this.namespace = namespace;
    this.watch = watch;
    this.uid = set.metadata.uid;
    this.replicas = set.spec.replicas ?? 1;
  }

  /** Applied, and all pods ready. */
  static async create(options: FleetOptions = {}): Promise<Fleet> {
    const namespace = await cluster.newNamespace();
    const { replicas = 3, containers = [container('app'), container('logger')] } = options;
    const watch = await watchFleet(cluster.kube, namespace);
    const set = await cluster.kube.create<CloneSet>(cloneSets, {
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'CloneSet',
      metadata: { namespace, name: 'web' },
      spec: {
        replicas,
        selector: { matchLabels: { app: 'web' } },
        updateStrategy: {
          rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable: 1, ...options.rollingUpdate },
        },
        ...options.spec,
        template: {
          metadata: { labels: { app: 'web' }, ...options.template },
          spec: { terminationGracePeriodSeconds: 1, containers },
        },
      },
    } as never);
    const fleet = new Fleet(namespace, set, watch);
    await fleet.until('all pods to be ready', ({ status }) => status?.readyReplicas === replicas);
    watch.take();
    for (const pod of fleet.pods().values()) {
      for (const { name, restartCount } of pod.status?.containerStatuses ?? []) {
        restartsBefore.set(`${pod.metadata.uid}/${name}`, restartCount);
      }
    }
    return fleet;
  }

  get kube(): KubeClient {
    return cluster.kube;
  }

  async get(): Promise<CloneSet> {
    return await this.kube.get<CloneSet>(cloneSets, { namespace: this.namespace, name: 'web' });
  }

  async patch(body: object): Promise<void> {
    await this.kube.patch(cloneSets, { namespace: this.namespace, name: 'web' }, 'merge', body);
  }

  /** Another image for the first container. */
  async update(image: string, more: object = {}): Promise<void> {
    const { spec } = (await this.get()).spec.template as { spec: { containers: JsonObject[] } };
    const [first, ...others] = spec.containers;
    await this.patch({ spec: { template: { spec: { containers: [{ ...first, image }, ...others] } }, ...more } });
  }

  /** Gives a command by annotation. */
  async command(text: string): Promise<void> {
    await this.patch({ metadata: { annotations: { [windlassAnnotation.command]: text } } });
  }

  /** Waits until the set is so. What the status says counts only once it is about the spec of now. */
  async until(what: string, holds: (set: CloneSet) => boolean): Promise<CloneSet> {
    return await waitFor(what, async (see) => {
      const set = await this.get();
      see({ status: set.status, orders: ordersOf(set) });
      return set.status?.observedGeneration === set.metadata.generation && holds(set) && set;
    });
  }

  async untilUpdated(pods: number): Promise<CloneSet> {
    return await this.until(
      `${pods} updated pods`,
      ({ status }) => status?.updatedReadyReplicas === pods && status.readyReplicas === this.replicas,
    );
  }

  async waitsFor(reason: string): Promise<CloneSet> {
    return await this.until(`the wait ${reason}`, ({ status }) => status?.waitingFor?.reason === reason);
  }

  /** The pods that count, by name. */
  pods(): ReadonlyMap<string, Pod> {
    return new Map([...this.watch.pods].filter(([, { metadata }]) => metadata.deletionTimestamp === undefined));
  }

  ofImage(image: string): readonly string[] {
    return [...this.pods()].flatMap(([name, { spec }]) => (spec.containers[0]?.image === image ? [name] : []));
  }

  /** What must not change when pods are updated in place, and what must. */
  identities(): Readonly<Record<string, unknown>> {
    return Object.fromEntries(
      [...this.pods()].map(([name, { metadata, spec, status }]) => [
        name,
        [metadata.uid, status?.podIP, spec.nodeName, restartsOf(this.pod(name), 'logger')],
      ]),
    );
  }

  pod(name: string): Pod {
    const pod = this.watch.pods.get(name);
    if (!pod) throw new Error(`there is no pod ${name}`);
    return pod;
  }

  /** The fewest ready pods and the most pods that there were at any moment since the last call. */
  extremes(): { readonly fewestReady: number; readonly mostPods: number } {
    const moments = this.watch.take();
    return {
      fewestReady: Math.min(...moments.map(({ ready }) => ready)),
      mostPods: Math.max(...moments.map(({ pods }) => pods)),
    };
  }

  get operation() {
    return local.temporal.workflow.getHandle(rollOutId(this.uid));
  }

  async eventSays(reason: string, message: RegExp): Promise<void> {
    await waitFor(`an Event ${reason}`, async (see) => {
      const events = see(await cluster.eventsOf(await this.get()));
      return events.some((event) => event.reason === reason && message.test(event.message));
    });
  }
}

/** How often containers had been started again before anything was asked of them: a loaded kubelet may do that. */
const restartsBefore = new Map<string, number>();

function restartsOf({ metadata, status }: Pod, name: string): number | undefined {
  const count = status?.containerStatuses?.find((container) => container.name === name)?.restartCount;
  return count === undefined ? undefined : count - (restartsBefore.get(`${metadata.uid}/${name}`) ?? 0);
}

function startedAt({ status }: Pod, name: string): number {
  const found = status?.containerStatuses?.find((container) => container.name === name);
  return Date.parse(found?.state?.running?.startedAt ?? '');
}

// Each has several waits, all run at once, and a machine may stall.
jest.setTimeout(600_000);

describe('a CloneSet', () => {
  it.concurrent('updated in place keeps UID, IP, node and the other containers of its pods, and goes back so', async () => {
    const fleet = await Fleet.create({ replicas: 4, rollingUpdate: { maxUnavailable: '50%' } });
    const before = fleet.identities();
    await fleet.update(images.new);
    await fleet.untilUpdated(4);
    expect(fleet.identities()).toEqual(before);
    expect(fleet.extremes().fewestReady).toBeGreaterThanOrEqual(2);
    for (const [, pod] of fleet.pods()) expect(restartsOf(pod, 'app')).toBe(1);

    expect(await fleet.operation.result()).toMatch(/^4 of 4 pods are of revision web-/);
    const found = await waitFor('the operation by its names', async () => {
      const query = `WindlassKind='CloneSet' AND WindlassNamespace='${fleet.namespace}' AND WindlassPhase='Complete'`;
      for await (const workflow of local.temporal.workflow.list({ query })) return workflow;
      return undefined;
    });
    expect(found.workflowId).toBe(rollOutId(fleet.uid));
    expect(found.historyLength).toBeLessThan(60);

    await fleet.update(images.old);
    await fleet.untilUpdated(4);
    expect(fleet.identities()).toEqual(before);
    for (const [, pod] of fleet.pods()) expect(restartsOf(pod, 'app')).toBe(2);
  });

  it.concurrent('updates containers of higher launch priority first', async () => {
    // what admission makes of KRUISE_CONTAINER_PRIORITY
    const env = (priority: string) => ({
      env: [
        {
          name: 'KRUISE_CONTAINER_BARRIER',
          valueFrom: { configMapKeyRef: { name: 'barrier', key: `p_${priority}`, optional: true } },
        },
      ],
    });
    const fleet = await Fleet.create({
      replicas: 1,
      containers: [container('app', env('0')), container('helper', env('5'))],
    });
    const containers = [
      container('app', { ...env('0'), image: images.new }),
      container('helper', { ...env('5'), image: images.new }),
    ];
    await fleet.patch({ spec: { template: { spec: { containers } } } });
    await fleet.untilUpdated(1);
    const [pod] = fleet.pods().values();
    if (!pod) throw new Error('no pod');
    expect([restartsOf(pod, 'app'), restartsOf(pod, 'helper')]).toEqual([1, 1]);
    expect(startedAt(pod, 'app')).toBeGreaterThanOrEqual(startedAt(pod, 'helper'));
    expect(pod.metadata.annotations?.['apps.kruise.io/inplace-update-state']).toContain('containerBatchesRecord');
  });

  it.concurrent('waits for hooks before and after, and names them', async () => {
    const hook = { finalizersHandler: ['example.com/drain'] };
    const fleet = await Fleet.create({
      replicas: 2,
      rollingUpdate: { maxUnavailable: 2 },
      spec: { lifecycle: { inPlaceUpdate: hook } },
      template: { finalizers: ['example.com/drain'] },
    });
    await fleet.update(images.new);
    const { status } = await fleet.waitsFor('HookBeforeUpdate');
    expect(status?.waitingFor?.unblock).toContain('example.com/drain');
    expect(fleet.ofImage(images.new)).toEqual([]);
    const finalize = async (finalizers: readonly string[]) => {
      for (const [name] of fleet.pods()) {
        const place = { namespace: fleet.namespace, name };
        await fleet.kube.patch(kubeResource.pods, place, 'merge', { metadata: { finalizers } });
      }
    };
    await finalize([]);
    await fleet.waitsFor('HookAfterUpdate');
    expect(fleet.ofImage(images.new)).toHaveLength(2);
    await finalize(['example.com/drain']);
    await fleet.untilUpdated(2);
    await finalize([]);
  });
  it.concurrent('rolls out as far as the partition says, step by step', async () => {
    const fleet = await Fleet.create({ replicas: 3, rollingUpdate: { partition: 2 } });
    await fleet.update(images.new);
    await fleet.untilUpdated(1);
    const { status } = await fleet.waitsFor('PartitionReached');
    expect(status).toMatchObject({ expectedUpdatedReplicas: 1, waitingFor: { blockedCount: 2 } });
    expect(await fleet.operation.result()).toMatch(/^1 of 3 pods/);
    await fleet.patch({ spec: { updateStrategy: { rollingUpdate: { partition: '34%' } } } });
    await fleet.untilUpdated(1);
    await fleet.patch({ spec: { updateStrategy: { rollingUpdate: { partition: 0 } } } });
    await fleet.untilUpdated(3);
  });

  it.concurrent('replaces pods with surge, and never has less than are wanted', async () => {
    const rollingUpdate = { podUpdatePolicy: 'ReCreate', maxSurge: 1, maxUnavailable: 0 };
    const fleet = await Fleet.create({ replicas: 3, rollingUpdate });
    const before = [...fleet.pods().keys()];
    await fleet.update(images.new);
    await fleet.untilUpdated(3);
    const { fewestReady, mostPods } = fleet.extremes();
    expect(fewestReady).toBeGreaterThanOrEqual(3);
    expect(mostPods).toBe(4);
    expect(before.filter((name) => fleet.pods().has(name))).toEqual([]);
  });

  it.concurrent('turns to a newer template without starting over', async () => {
    const fleet = await Fleet.create({ replicas: 4 });
    await fleet.update(images.new);
    await waitFor('the first pod', () => fleet.ofImage(images.new).length > 0);
    await fleet.patch({ spec: { template: { metadata: { labels: { app: 'web', tier: 'front' } } } } });
    await fleet.untilUpdated(4);
    for (const [, pod] of fleet.pods()) {
      expect(pod.metadata.labels).toMatchObject({ tier: 'front' });
      expect(restartsOf(pod, 'app')).toBe(1);
    }
    expect(fleet.extremes().fewestReady).toBeGreaterThanOrEqual(3);
  });
  /** A roll-out of four pods of which the next can never become ready: it stops at the first. */
  async function stuck(): Promise<Fleet> {
    const fleet = await Fleet.create({ replicas: 4, spec: { minReadySeconds: 3600 } });
    await fleet.update(images.new);
    await waitFor('the first pod', () => fleet.ofImage(images.new).length === 1);
    return fleet;
  }

  it.concurrent('is paused by signal; lost pods come back meanwhile; goes on by resume', async () => {
    const fleet = await Fleet.create({ replicas: 4 });
    await fleet.update(images.new);
    await waitFor('the operation', async () => (await fleet.operation.describe()).status.name === 'RUNNING');
    await fleet.operation.signal('pause', { by: 'ann' });
    await fleet.waitsFor('PausedByOperator');
    // the pause counts before the order stands in the set
    await fleet.until('the one who ordered it', ({ status }) =>
      /of 4 pods are of revision web-.*ordered by ann/.test(status?.waitingFor?.unblock ?? ''),
    );
    const settled = await fleet.until('what has begun to end', (set) => set.status?.readyReplicas === 4);
    const updated = settled.status?.updatedReplicas ?? 0;
    expect(updated).toBeLessThan(4);
    const [lost = ''] = fleet.ofImage(images.old);
    await fleet.kube.delete(kubeResource.pods, { namespace: fleet.namespace, name: lost });
    await fleet.until('the lost pod to come back', (set) => set.status?.readyReplicas === 4 && !fleet.pods().has(lost));
    expect((await fleet.get()).status?.updatedReplicas).toBeLessThan(4);
    await fleet.eventSays('Paused', /Paused by ann/);
    const { searchAttributes: found } = await fleet.operation.describe();
    expect(found[searchAttributes.phase]).toEqual(['Paused']);
    await fleet.operation.signal('resume', { by: 'ann' });
    await fleet.untilUpdated(4);
  });

  it.concurrent('is aborted by annotation, which outlives the workflow; a new template goes on', async () => {
    const fleet = await stuck();
    await fleet.command('abort');
    const { status } = await fleet.waitsFor('Aborted');
    expect(status?.waitingFor?.unblock).toMatch(/1 of 4 pods are of revision web-.*ordered by annotation of/);
    await fleet.operation.terminate('the test wants it');
    await fleet.patch({ spec: { minReadySeconds: 0 } });
    await fleet.until('another look', (set) => set.status?.availableReplicas === 4);
    expect(fleet.ofImage(images.new)).toHaveLength(1);
    await fleet.patch({ spec: { template: { metadata: { labels: { app: 'web', tier: 'front' } } } } });
    await fleet.untilUpdated(4);
    expect(ordersOf(await fleet.get())).toBeUndefined();
  });

  it.concurrent('is taken back in place by undo, then rolled out after all', async () => {
    const fleet = await Fleet.create({ replicas: 4 });
    const before = fleet.identities();
    await fleet.update(images.new);
    await waitFor('two pods', () => fleet.ofImage(images.new).length >= 2);
    await fleet.command('undo');
    const { status } = await fleet.waitsFor('Undone');
    expect(status?.waitingFor?.unblock).toContain('4 of 4 pods');
    await waitFor('all pods to be back', () => fleet.ofImage(images.old).length === 4);
    await fleet.until('all to be ready', (set) => set.status?.readyReplicas === 4);
    expect(fleet.identities()).toEqual(before);
    expect(fleet.extremes().fewestReady).toBeGreaterThanOrEqual(3);
    await fleet.eventSays('Undone', /Undone by annotation of/);
    await fleet.command('resume');
    await fleet.untilUpdated(4);
    expect(fleet.extremes().fewestReady).toBeGreaterThanOrEqual(3);
  });

  it.concurrent('leaves out a pod by skip, and takes it up again by retry', async () => {
    const fleet = await stuck();
    const [left = ''] = fleet.ofImage(images.old);
    await fleet.operation.signal('skip', { by: 'ann', target: left });
    await waitFor('the order', async () => ordersOf(await fleet.get())?.skip);
    await fleet.patch({ spec: { minReadySeconds: 0 } });
    const { status } = await fleet.waitsFor('Skipped');
    expect(status?.waitingFor?.blockedBy).toEqual([`pod/${left}`]);
    await waitFor('the others', (see) => see(fleet.ofImage(images.old)).join() === left);
    await fleet.command('retry');
    await fleet.untilUpdated(4);
  });
});

describe('an update of twenty pods', () => {
  let fleet: Fleet;
  let restarts = 0;

  beforeAll(async () => {
    const rollingUpdate = { maxUnavailable: '20%' };
    fleet = await Fleet.create({ replicas: 20, rollingUpdate, containers: [container('app')] });
  });

  /** Updates all pods while somebody disturbs; judged by every event of the watch. */
  async function updateDuring(disturb: (image: string) => Promise<void>): Promise<void> {
    const image = restarts % 2 === 0 ? images.new : images.old;
    await fleet.update(image);
    await waitFor('a few pods', () => fleet.ofImage(image).length >= 4);
    await disturb(image);
    await fleet.untilUpdated(20);
    restarts++;
    expect(fleet.extremes().fewestReady).toBeGreaterThanOrEqual(16);
    expect([...fleet.pods().values()].map((pod) => restartsOf(pod, 'app'))).toEqual(Array(20).fill(restarts));
  }

  it.each(['watcher', 'worker'])('survives the death of the %s within the budget, each pod once', async (part) => {
    const before = fleet.identities();
    await updateDuring(async () => {
      await local.part.kill(part);
      await local.part.start(part);
    });
    expect(fleet.identities()).toEqual(before);
  });

  it('survives a watcher that is frozen for longer than its lease', async () => {
    await updateDuring(async () => {
      local.part.freeze('watcher');
      await later(20_000);
      local.part.thaw('watcher');
    });
  });

  it('disturbs no further pod while Temporal is away, replaces those that are lost, and goes on afterwards', async () => {
    const image = restarts % 2 === 0 ? images.new : images.old;
    await fleet.update(image);
    await waitFor('a few pods', () => fleet.ofImage(image).length >= 4);
    await local.part.kill('temporal');
    try {
      await later(12_000); // a permit outlives the last heartbeat that Temporal has confirmed by 10 s
      await fleet.until('what has begun to end', ({ status }) => status?.readyReplicas === 20);
      const updated = fleet.ofImage(image).length;
      const [lost = ''] = [...fleet.pods().keys()].filter((name) => !fleet.ofImage(image).includes(name));
      await fleet.kube.delete(kubeResource.pods, { namespace: fleet.namespace, name: lost });
      await waitFor('the pod to be replaced', () => fleet.pods().size === 20 && !fleet.pods().has(lost));
      await fleet.until('the new pod to be ready', ({ status }) => status?.readyReplicas === 20);
      expect(fleet.ofImage(image)).toHaveLength(updated + 1);
    } finally {
      await local.part.start('temporal');
    }
    await fleet.untilUpdated(20);
    expect(fleet.extremes().fewestReady).toBeGreaterThanOrEqual(16);
  });
});

/** For what has to be seen not to happen: there is nothing to wait for. */
function later(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
