import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  type ContainerRuntime,
  CriError,
  containerHashAnnotation,
  criLabel,
  type RuntimeContainer,
  restartCountAnnotation,
} from '../../activities/cri/runtime.ts';
import type { Container, ContainerStatus, Pod } from '../../api/core/pod.ts';
import { kubeResource, sidecarSetHashAnnotation } from '../../api/core/well-known.ts';
import { inPlaceAnnotation } from '../../api/in-place/annotations.ts';
import { containersMetaOf } from '../../api/in-place/containers-meta.ts';
import { envHash } from '../../api/in-place/env-hash.ts';
import { ContainerMetaReporter } from '../../daemon/container-meta/reporter.ts';
import { trimPod } from '../../daemon/pod-view.ts';
import { createCache, type WritableCache } from '../../kube/cache.ts';
import { KubeError } from '../../kube/failures.ts';
import type { PassResult } from '../../kube/keyed-queue.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { aPod } from '../support/objects/pod.ts';
import { recorded } from '../support/recorded.ts';

const meta = inPlaceAnnotation.containersMeta;
const nothingToSee = envHash([]);
const follows: Container = {
  name: 'app',
  env: [{ name: 'TIER', valueFrom: { fieldRef: { fieldPath: "metadata.labels['tier']" } } }],
};
const plain: Container = { name: 'logger' };

function statusOf(name: string, id: string): ContainerStatus {
  return { name, ready: true, restartCount: 0, containerID: `containerd://${id}` };
}

function podWith(
  overrides: { readonly metadata?: Partial<Pod['metadata']>; readonly statuses?: readonly string[] } = {},
): Pod {
  const { metadata, statuses = ['app/a0', 'logger/l0'] } = overrides;
  return aPod({
    metadata: { labels: { tier: 'gold' }, annotations: { [sidecarSetHashAnnotation]: '{}' }, ...metadata },
    spec: { containers: [follows, plain] },
    status: {
      containerStatuses: statuses.map((status) => statusOf(...(status.split('/') as [string, string]))),
    },
  });
}

/** An instance with the kubelet's annotations. */
function instance(
  name: string,
  id: string,
  overrides: Partial<RuntimeContainer> & { hash?: string; restarts?: number } = {},
) {
  const { hash = 'ff', restarts = 0, ...rest } = overrides;
  return {
    id,
    sandboxId: 's',
    state: 'running',
    createdAtNs: BigInt(restarts),
    labels: { [criLabel.containerName]: name },
    annotations: { [containerHashAnnotation]: hash, [restartCountAnnotation]: String(restarts) },
    ...rest,
  } satisfies RuntimeContainer;
}

/** A simulated node: the test controls its pods, runtime and time. */
class Node {
  readonly cluster = new MemoryCluster();
  readonly cache: WritableCache<Pod> = createCache<Pod>({
    onError: (error) => {
      throw error;
    },
  });
  readonly instances = new Map<string, RuntimeContainer>();
  /** The environment of each instance; absent: unknown. */
  readonly started = new Map<string, Readonly<Record<string, string>>>();
  readonly asked: string[] = [];
  readonly wishes: string[] = [];
  readonly writes: unknown[] = [];
  gates = { InPlaceUpdateEnvFromMetadata: true };
  isSynced = true;
  nowMs = 10_000;
  refuse: KubeError | undefined;
  runtimeDown = false;
  #pass: (podUid: string) => Promise<PassResult | undefined> = async () => undefined;

  run(...instances: readonly RuntimeContainer[]): void {
    for (const each of instances) this.instances.set(each.id, each);
  }

  start(): ContainerMetaReporter {
    const client = this.cluster.client();
    const runtime = {
      name: 'containerd',
      listContainers: async () => {
        if (this.runtimeDown) throw new CriError('unreachable', 'ListContainers', 'no connection');
        return [...this.instances.values()];
      },
      environment: async (id: string, names: readonly string[]) => {
        this.asked.push(`${id} ${names.join()}`);
        const env = this.started.get(id);
        return env && new Map(Object.entries(env));
      },
    } satisfies Partial<ContainerRuntime>;
    return new ContainerMetaReporter({
      pods: this.cache,
      isSynced: () => this.isSynced,
      runtimes: {
        named: (name) => (name === 'containerd' ? [runtime as unknown as ContainerRuntime] : []),
        absence: (name) => ({ final: true, message: `no runtime ${name}` }),
      },
      client: {
        patch: async (resource, ref, type, body, options) => {
          if (this.refuse) throw this.refuse;
          this.writes.push({ type, body, subresource: options?.subresource });
          return await client.patch(resource, ref, type, body, options);
        },
      },
      gates: this.gates,
      monotonicMs: () => this.nowMs,
      queue: (pass) => {
        this.#pass = pass;
        return { add: (key) => void this.wishes.push(key), stop: async () => undefined };
      },
    });
  }

  /** Stores the pod, and shows it in the watch. */
  show(pod: Pod): void {
    this.cluster.put(kubeResource.pods, pod);
    this.sync();
  }

  /** Shows the stored pods in the watch. */
  sync(): void {
    const live = this.live();
    if (live) this.cache.apply('MODIFIED', trimPod(live, { DaemonWatchingPod: true }));
  }

  live(): Pod | undefined {
    return this.cluster.look(kubeResource.pods, { namespace: 'shop', name: 'web' }) as Pod | undefined;
  }

  report(): string | undefined {
    return this.live()?.metadata.annotations?.[meta];
  }

  async pass(): Promise<PassResult | undefined> {
    return await this.#pass('pod-1');
  }
}

let node: Node;

beforeEach(() => {
  node = new Node();
  node.run(instance('app', 'a0', { hash: '19fd2eec' }), instance('logger', 'l0'));
  node.started.set('a0', { TIER: 'gold' });
  node.start();
});

const goldHash = envHash([{ name: 'TIER', value: 'gold' }]);

describe('which pods are reported on', () => {
  it('ND-20, IPU-45: those that a kind of the suite controls, or a SidecarSet was put into', () => {
    const owner = {
      apiVersion: 'apps.kruise.io/v1alpha1',
      kind: 'CloneSet',
      name: 'web',
      uid: 'set',
      controller: true,
    };
    const ownerships: readonly Partial<Pod['metadata']>[] = [
      { annotations: {}, ownerReferences: [owner] },
      { annotations: { [sidecarSetHashAnnotation]: '' } },
      { annotations: {}, ownerReferences: [{ ...owner, controller: false }] },
      { annotations: {}, ownerReferences: [{ ...owner, apiVersion: 'apps/v1', kind: 'ReplicaSet' }] },
      { annotations: {} },
    ];
    for (const [index, metadata] of ownerships.entries()) {
      node.show(podWith({ metadata: { ...metadata, uid: `pod-${index}`, name: `web-${index}` } }));
      const name = { namespace: 'shop', name: `web-${index}` };
      const live = node.cluster.look<Pod>(kubeResource.pods, name) as Pod;
      node.cache.apply('MODIFIED', trimPod(live, { DaemonWatchingPod: true }));
    }
    expect(node.wishes).toEqual(['pod-0', 'pod-1']);
  });

  it('ND-21, IPU-45: at the start those that have a report already; the others once they change', () => {
    node.isSynced = false;
    node.show(podWith());
    expect(node.wishes).toEqual([]);
    const stale = { [sidecarSetHashAnnotation]: '', [meta]: '{"containers":[]}' };
    node.cache.apply(
      'ADDED',
      podWith({ metadata: { uid: 'pod-2', name: 'other', annotations: stale, resourceVersion: '500' } }),
    );
    expect(node.wishes).toEqual(['pod-2']);
    node.isSynced = true;
    node.show(podWith({ metadata: { labels: { tier: 'silver' } } }));
    expect(node.wishes).toEqual(['pod-2', 'pod-1']);
  });

  it('ND-22, IPU-46: when containers and entries differ, or an environment is not known', async () => {
    node.show(podWith());
    await node.pass();
    node.wishes.length = 0;
    node.sync();
    node.show(podWith({ metadata: { annotations: node.live()?.metadata.annotations ?? {}, labels: { tier: 'x' } } }));
    expect(node.wishes).toEqual([]);

    const annotations = node.live()?.metadata.annotations ?? {};
    node.show(podWith({ metadata: { annotations }, statuses: ['app/a1', 'logger/l0'] }));
    expect(node.wishes).toEqual(['pod-1']);
    node.show(podWith({ metadata: { annotations }, statuses: ['app/a0'] }));
    expect(node.wishes).toHaveLength(2);
    node.show(podWith({ metadata: { annotations: { ...annotations, [meta]: 'nonsense' } } }));
    expect(node.wishes).toHaveLength(3);
    const unknown = (annotations[meta] ?? '').replace(`,"extractedEnvFromMetadataHash":${goldHash}`, '');
    expect(unknown).not.toBe(annotations[meta]);
    node.show(podWith({ metadata: { annotations: { ...annotations, [meta]: unknown } } }));
    expect(node.wishes).toHaveLength(4);
  });

  it('ND-23: not those that go, nor those of which nothing has been started; one that has started is enough', async () => {
    node.show(podWith({ statuses: [] }));
    node.show(podWith({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }));
    expect(node.wishes).toEqual([]);
    await node.pass();
    expect(node.writes).toEqual([]);

    const begun = podWith();
    const [, second] = begun.status?.containerStatuses ?? [];
    const statuses = [{ name: 'app', ready: false, restartCount: 0 }, ...(second ? [second] : [])];
    node.show({ ...begun, status: { containerStatuses: statuses } });
    expect(node.wishes).toEqual(['pod-1']);
    await node.pass();
    expect(containersMetaOf(node.live() as Pod)?.map(({ name }) => name)).toEqual(['logger']);
  });
});

describe('the report', () => {
  it('ND-24, ND-25, IPU-47: is, byte for byte, what OpenKruise has written for the same containers', async () => {
    const moments = ['1-created', '3-updating', '4-updated'].map((moment) => `cloneset-${moment}-pods`);
    const pods = moments.flatMap((moment) => recorded<readonly Pod[]>(moment));
    expect(pods).toHaveLength(9);
    for (const pod of pods) {
      const { [meta]: theirs = '', ...annotations } = pod.metadata.annotations ?? {};
      const metadata = { ...pod.metadata, namespace: 'shop', name: 'web', uid: 'pod-1', annotations };
      const own = new Node();
      for (const { name, containerID, restartCount, plainHash } of containersMetaOf(pod) ?? []) {
        const id = containerID.split('://')[1] ?? '';
        own.run(instance(name, id, { hash: plainHash.toString(16), restarts: restartCount }));
        own.started.set(id, { TEAM: restartCount === 0 ? 'a' : 'b' });
      }
      own.start();
      own.show({ ...pod, metadata });
      await own.pass();
      expect(own.report()).toBe(theirs);
    }
  });

  it('ND-26: goes through the status, into exactly the version of the pod that it was made from', async () => {
    node.show(podWith());
    const { resourceVersion } = node.live()?.metadata ?? {};
    expect(await node.pass()).toBeUndefined();
    const text = node.report() ?? '';
    const annotations = { [meta]: text };
    expect(node.writes).toEqual([
      { type: 'merge', subresource: 'status', body: { metadata: { uid: 'pod-1', resourceVersion, annotations } } },
    ]);
    expect(JSON.parse(text)).toMatchObject({
      containers: [
        { name: 'app', containerID: 'containerd://a0', hashes: { plainHash: 0x19fd2eec } },
        { name: 'logger', hashes: { extractedEnvFromMetadataHash: nothingToSee } },
      ],
    });
  });

  it('ND-24: keeps an entry as it is while its instance is the same, and leaves out what the runtime lacks', async () => {
    node.show(podWith());
    await node.pass();
    node.nowMs += 5_000;
    const annotations = node.live()?.metadata.annotations ?? {};
    const before = containersMetaOf(node.live() as Pod) ?? [];
    node.instances.clear();
    node.run(instance('app', 'a0', { hash: '1', restarts: 7 }), instance('app', 'a-older', { createdAtNs: -1n }));
    node.show(podWith({ metadata: { annotations }, statuses: ['app/a0', 'logger/l1'] }));
    await node.pass();
    expect(containersMetaOf(node.live() as Pod)).toEqual(before.slice(0, 1));
    expect(node.asked).toEqual(['a0 TIER']);
  });

  it('ND-24: speaks of the newest instance, although the status may lag behind', async () => {
    node.run(instance('app', 'a1', { restarts: 1, state: 'exited' }));
    node.started.set('a1', { TIER: 'gold' });
    node.show(podWith());
    await node.pass();
    expect(containersMetaOf(node.live() as Pod)?.[0]).toMatchObject({
      containerID: 'containerd://a1',
      restartCount: 1,
      envHash: goldHash,
    });
  });

  it('ND-25, IPU-47: asks again every 3 s while nobody tells the environment, and then writes only what is new', async () => {
    node.started.clear();
    node.show(podWith());
    expect(await node.pass()).toEqual({ againInMs: 3_000 });
    expect(containersMetaOf(node.live() as Pod)?.map(({ envHash: hash }) => hash)).toEqual([0, nothingToSee]);
    node.sync();
    node.nowMs += 3_000;
    expect(await node.pass()).toEqual({ againInMs: 3_000 });
    expect(node.writes).toHaveLength(1);

    node.started.set('a0', {});
    node.nowMs += 3_000;
    expect(await node.pass()).toBeUndefined();
    const empty = envHash([{ name: 'TIER', value: '' }]);
    expect(containersMetaOf(node.live() as Pod)?.[0]?.envHash).toBe(empty);
  });

  it('ND-25: does not go on asking for an instance that has ended', async () => {
    node.started.clear();
    node.run(instance('app', 'a0', { state: 'exited' }));
    node.show(podWith());
    expect(await node.pass()).toBeUndefined();
  });

  it('ND-25: takes a variable that a later one hides for one that nothing would change', async () => {
    const hidden: Container = { ...follows, env: [...(follows.env ?? []), { name: 'TIER', value: 'fixed' }] };
    node.started.set('a0', { TIER: 'fixed' });
    node.show({ ...podWith(), spec: { containers: [hidden, plain] } });
    await node.pass();
    expect(containersMetaOf(node.live() as Pod)?.[0]?.envHash).toBe(goldHash);
  });

  it('ND-25: has no hash of environments while the feature gate is off, and gets them when it is on', async () => {
    const off = new Node();
    off.gates = { InPlaceUpdateEnvFromMetadata: false };
    off.run(...node.instances.values());
    off.start();
    off.show(podWith());
    expect(await off.pass()).toEqual({ againInMs: 1_000 });
    off.nowMs += 1_000;
    expect(await off.pass()).toBeUndefined();
    expect(off.report()).not.toContain('extractedEnvFromMetadataHash');
    expect(off.asked).toEqual([]);

    const annotations = off.live()?.metadata.annotations ?? {};
    node.show(podWith({ metadata: { annotations } }));
    await node.pass();
    expect(containersMetaOf(node.live() as Pod)?.map(({ envHash: hash }) => hash)).toEqual([goldHash, nothingToSee]);
  });
});

describe('the writes of a report', () => {
  it('IPU-46: are at least a second apart for each pod', async () => {
    node.show(podWith());
    await node.pass();
    const annotations = node.live()?.metadata.annotations ?? {};
    node.run(instance('logger', 'l1', { restarts: 1 }));
    node.nowMs += 400;
    node.show(podWith({ metadata: { annotations }, statuses: ['app/a0', 'logger/l1'] }));
    expect(await node.pass()).toEqual({ againInMs: 600 });
    node.nowMs += 600;
    await node.pass();
    expect(node.writes).toHaveLength(2);
  });

  it('ND-23: wait for a second where no environment follows the pod, for the kubelet has a pass to make meanwhile', async () => {
    const still = { ...podWith(), spec: { containers: [{ name: 'app' }, plain] } };
    node.show(still);
    expect(await node.pass()).toEqual({ againInMs: 1_000 });
    node.nowMs += 300;
    node.show({ ...still, metadata: { ...still.metadata, labels: { tier: 'silver' } } });
    expect(await node.pass()).toEqual({ againInMs: 700 });
    node.nowMs += 700;
    await node.pass();
    expect(node.writes).toHaveLength(1);
    expect(containersMetaOf(node.live() as Pod)?.map(({ name }) => name)).toEqual(['app', 'logger']);
  });

  it('are left out when the pod has changed meanwhile, is another one, or is gone', async () => {
    node.show(podWith());
    node.cluster.put(kubeResource.pods, { ...podWith(), status: {} });
    expect(await node.pass()).toBeUndefined();
    node.refuse = new KubeError({ status: 404, reason: 'NotFound', message: 'pods "web" not found' });
    expect(await node.pass()).toBeUndefined();
    expect(node.report()).toBeUndefined();
  });

  it('are tried again by the queue when the runtime or the API server does not answer', async () => {
    node.show(podWith());
    node.runtimeDown = true;
    await expect(node.pass()).rejects.toThrow('no connection');
    node.runtimeDown = false;
    node.refuse = new KubeError({ status: 0, message: 'connection refused' });
    await expect(node.pass()).rejects.toThrow('connection refused');
    node.refuse = undefined;
    await node.pass();
    expect(node.writes).toHaveLength(1);
  });

  it('say which runtime is missing', async () => {
    const pod = podWith();
    const statuses = pod.status?.containerStatuses?.map((status) => ({ ...status, containerID: 'docker://x' })) ?? [];
    node.show({ ...pod, status: { containerStatuses: statuses } });
    await expect(node.pass()).rejects.toThrow('Cannot report the containers of pod "shop/web": no runtime docker');
  });
});
