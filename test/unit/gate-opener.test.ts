import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  type ContainerRuntime,
  containerHashAnnotation,
  criLabel,
  type RuntimeContainer,
} from '../../activities/cri/runtime.ts';
import type { Container, Pod, PodCondition } from '../../api/core/pod.ts';
import { inPlaceAnnotation, inPlaceReadinessGate, inPlaceReason } from '../../api/in-place/annotations.ts';
import { plainHash } from '../../api/in-place/containers-meta.ts';
import { formatGrace } from '../../api/in-place/grace.ts';
import { formatState, type InPlaceState } from '../../api/in-place/state.ts';
import { noWork } from '../../api/in-place/work.ts';
import { GateOpener } from '../../daemon/in-place-gate/opener.ts';
import { isOpeningDue } from '../../daemon/in-place-gate/opening.ts';
import { trimPod } from '../../daemon/pod-view.ts';
import { createCache, type WritableCache } from '../../kube/cache.ts';
import { KubeError } from '../../kube/failures.ts';
import type { PassResult } from '../../kube/keyed-queue.ts';
import { aPod } from '../support/objects/pod.ts';

const drainedAt = '2026-01-01T00:00:10Z';
const app: Container = { name: 'app', image: 'shop:2' };
const logger: Container = { name: 'logger', image: 'log:1' };
const held: PodCondition = {
  type: inPlaceReadinessGate,
  status: 'False',
  reason: inPlaceReason,
  lastTransitionTime: drainedAt,
};
const unready: PodCondition = { type: 'Ready', status: 'False' };

/** A written update of the image of `app`, which the kubelet has begun to apply. */
const swapping: InPlaceState = {
  revision: 'web-2',
  updateTimestamp: drainedAt,
  lastContainerStatuses: { app: { imageID: 'shop@sha256:1' } },
  updateEnvFromMetadata: false,
  updateResources: false,
  updateImages: true,
  next: noWork,
  requiredReady: [],
  batches: [{ timestamp: drainedAt, containers: ['app'] }],
};

interface Facts {
  readonly name?: string;
  readonly metadata?: Partial<Pod['metadata']>;
  readonly state?: Partial<InPlaceState> | undefined;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly conditions?: readonly PodCondition[];
  readonly observedGeneration?: number | undefined;
}

/** The pod as trimmed by the daemon. */
function podWith(facts: Facts = {}): Pod {
  const { name = 'web', conditions = [held, unready] } = facts;
  const observedGeneration = 'observedGeneration' in facts ? facts.observedGeneration : 2;
  const state = 'state' in facts ? facts.state : {};
  const pod = aPod({
    metadata: {
      name,
      uid: `${name}-uid`,
      resourceVersion: '7',
      generation: 2,
      ownerReferences: [
        { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: 'set', controller: true },
      ],
      annotations: {
        ...(state && { [inPlaceAnnotation.state]: formatState({ ...swapping, ...state }) }),
        ...facts.annotations,
      },
      ...facts.metadata,
    },
    spec: { nodeName: 'node-1', containers: [app, logger] },
    status: {
      ...(observedGeneration !== undefined && { observedGeneration }),
      conditions,
      containerStatuses: ['app', 'logger'].map((container) => ({
        name: container,
        ready: true,
        restartCount: 0,
        containerID: `containerd://${name}-${container}-0`,
      })),
    },
  });
  return trimPod(pod, { DaemonWatchingPod: true });
}

/** An instance that the kubelet has started from this container. */
function started(pod: Pod, container: Container, count: number, state: RuntimeContainer['state'] = 'running') {
  return {
    id: `${pod.metadata.name}-${container.name}-${count}`,
    sandboxId: 'sandbox',
    state,
    createdAtNs: BigInt(count),
    labels: { [criLabel.containerName]: container.name, [criLabel.podUid]: pod.metadata.uid },
    annotations: { [containerHashAnnotation]: plainHash(container).toString(16) },
  } satisfies RuntimeContainer;
}

const before: Container = { ...app, image: 'shop:1' };

describe('a pod whose gate is for the daemon to open', () => {
  it('IPU-40: is one that is out of service for new images, which its kubelet has begun to start', () => {
    expect(isOpeningDue(podWith())).toBe(true);
    expect(isOpeningDue(podWith({ state: { updateTimestamp: '2026-01-01T00:00:11Z' } }))).toBe(true);
  });

  const open: PodCondition = { type: inPlaceReadinessGate, status: 'True' };
  const grace = formatGrace({
    revision: 'web-2',
    graceSeconds: 5,
    change: { ...noWork, updateEnvFromMetadata: false },
  });
  const later = { ...noWork, images: { logger: 'log:2' } };
  const cases: readonly (readonly [string, Facts])[] = [
    ['is going', { metadata: { deletionTimestamp: drainedAt } }],
    ['is in service', { conditions: [open, unready] }],
    ['is out of service for another reason', { conditions: [{ ...held, reason: 'ByHand' }, unready] }],
    ['has no gate', { conditions: [unready] }],
    ['is still called ready', { conditions: [held, { type: 'Ready', status: 'True' }] }],
    ['has not been looked at by its kubelet since', { observedGeneration: 1 }],
    ['has a kubelet that does not tell what it has looked at', { observedGeneration: undefined }],
    ['has no record of an update', { state: undefined }],
    ['has a record that nobody can read', { annotations: { [inPlaceAnnotation.state]: '{' } }],
    ['is in its grace period', { annotations: { [inPlaceAnnotation.grace]: grace } }],
    ['has batches to come', { state: { next: later } }],
    ['waits for an environment', { state: { updateEnvFromMetadata: true } }],
    ['waits for amounts', { state: { updateResources: true } }],
    ['gets no image', { state: { updateImages: false } }],
    [
      'went out of service for an update after the recorded one',
      { state: { updateTimestamp: '2026-01-01T00:00:09Z' } },
    ],
    [
      'went out of service nobody knows when',
      { conditions: [{ type: held.type, status: 'False', reason: inPlaceReason }] },
    ],
    ['is of no kind of ours', { metadata: { ownerReferences: [] } }],
  ];
  it.each(cases)('IPU-40: is none that %s', (_, facts) => {
    expect(isOpeningDue(podWith(facts))).toBe(false);
  });
});

/** A simulated node: the test controls its pods, runtime and time. */
class Node {
  readonly cache: WritableCache<Pod> = createCache<Pod>({
    onError: (error) => {
      throw error;
    },
  });
  containers: readonly RuntimeContainer[] = [];
  readonly writes: { readonly name: string; readonly type: string; readonly body: unknown }[] = [];
  readonly looks: { readonly key: string; readonly inMs: number }[] = [];
  lists = 0;
  listTakesMs = 0;
  nowMs = 1_000;
  onWrite: () => void = () => undefined;
  readonly opener: GateOpener;
  #pass: (runtime: string) => Promise<PassResult | undefined> = async () => undefined;

  constructor() {
    const runtime = {
      name: 'containerd',
      listContainers: async () => {
        this.lists++;
        this.nowMs += this.listTakesMs;
        return this.containers;
      },
    } satisfies Partial<ContainerRuntime>;
    this.opener = new GateOpener({
      pods: this.cache,
      runtimes: {
        named: (name) => (name === 'containerd' ? [runtime as unknown as ContainerRuntime] : []),
        absence: (name) => ({ final: true, message: `no runtime ${name}` }),
      },
      client: {
        patch: async (_resource, { name }, type, body, options) => {
          this.writes.push({ name, type: `${type} ${options?.subresource}`, body });
          this.onWrite();
          return undefined as never;
        },
      },
      queue: (pass) => {
        this.#pass = pass;
        return { addAfter: (key, inMs) => void this.looks.push({ key, inMs }), stop: async () => undefined };
      },
      clock: { nowMs: () => Date.parse(drainedAt) + 1_500, monotonicMs: () => this.nowMs },
      log: { debug: () => undefined },
    });
  }

  show(pod: Pod): void {
    this.cache.apply('MODIFIED', pod);
  }

  async look(): Promise<PassResult | undefined> {
    return await this.#pass('containerd');
  }
}

describe('the gates that a daemon opens', () => {
  let node: Node;
  const web = podWith();
  const swapped = [started(web, before, 0, 'exited'), started(web, app, 1), started(web, logger, 0)];
  const refusal = (status: number, reason: string) => new KubeError({ status, reason, message: reason });

  beforeEach(() => {
    node = new Node();
  });

  it('IPU-40: are those of pods whose new containers run before the kubelet tells of them', async () => {
    node.show(web);
    expect(node.looks).toEqual([{ key: 'containerd', inMs: 25 }]);
    node.containers = [started(web, before, 0), started(web, logger, 0)];
    await expect(node.look()).resolves.toEqual({ againInMs: 25 });
    expect(node.writes).toEqual([]);

    node.containers = swapped;
    await node.look();
    const condition = {
      type: inPlaceReadinessGate,
      status: 'True',
      reason: null,
      message: null,
      lastTransitionTime: '2026-01-01T00:00:11Z',
    };
    const body = { metadata: { uid: 'web-uid', resourceVersion: '7' }, status: { conditions: [condition] } };
    expect(node.writes).toEqual([{ name: 'web', type: 'strategic status', body }]);
  });

  it.each([
    ['the new container has not started', [started(web, app, 1, 'created'), started(web, logger, 0)]],
    ['the new container has ended', [started(web, app, 1, 'exited'), started(web, logger, 0)]],
    ['another image was started', [started(web, { ...app, image: 'shop:3' }, 1), started(web, logger, 0)]],
    ['another container does not run', [started(web, app, 1), started(web, logger, 0, 'exited')]],
    ['another container is not there', [started(web, app, 1)]],
    ['the containers are those of another pod', [started(podWith({ name: 'other' }), app, 1), started(web, logger, 0)]],
    ['the kubelet has told of all', [started(web, app, 0), started(web, logger, 0)]],
  ])('IPU-37: stay closed while %s', async (_, containers) => {
    node.show(web);
    node.containers = containers;
    await node.look();
    expect(node.writes).toEqual([]);
  });

  it('take one list of the runtime for all pods, and none when nothing is swapped', async () => {
    const other = podWith({ name: 'other', metadata: { resourceVersion: '8' } });
    node.show(web);
    node.show(other);
    node.containers = [...swapped, started(other, app, 1), started(other, logger, 0)];
    await node.look();
    expect(node.lists).toBe(1);
    expect(node.writes.map(({ name }) => name)).toEqual(['web', 'other']);

    await expect(node.look()).resolves.toBeUndefined();
    expect(node.lists).toBe(1);
    node.show(podWith({ metadata: { resourceVersion: '9' }, conditions: [] }));
    node.cache.apply('DELETED', { ...other, metadata: { ...other.metadata, resourceVersion: '10' } });
    await expect(node.look()).resolves.toBeUndefined();
    expect(node.lists).toBe(1);
  });

  it('are looked for less often where the runtime is slow, and where images are pulled', async () => {
    node.show(web);
    node.listTakesMs = 40;
    await expect(node.look()).resolves.toEqual({ againInMs: 200 });
    node.nowMs += 5_000;
    await expect(node.look()).resolves.toEqual({ againInMs: 500 });
  });

  it('IPU-40: are left as they are in a pod that has changed meanwhile, until that is seen', async () => {
    node.show(web);
    node.containers = swapped;
    node.onWrite = () => {
      throw refusal(409, 'Conflict');
    };
    await node.look();
    await node.look();
    expect(node.writes).toHaveLength(1);

    // the change arrives during the write
    node.onWrite = () => {
      node.show(podWith({ metadata: { resourceVersion: '9' } }));
      throw refusal(409, 'Conflict');
    };
    node.show(podWith({ metadata: { resourceVersion: '8' } }));
    await node.look();
    node.onWrite = () => undefined;
    await node.look();
    expect(node.writes).toHaveLength(3);
    expect(node.writes[2]?.body).toMatchObject({ metadata: { resourceVersion: '9' } });
  });

  it('are tried again after a refusal that may pass', async () => {
    node.show(web);
    node.containers = swapped;
    node.onWrite = () => {
      throw refusal(503, 'ServiceUnavailable');
    };
    await expect(node.look()).rejects.toThrow('ServiceUnavailable');
    node.onWrite = () => undefined;
    await node.look();
    expect(node.writes).toHaveLength(2);
  });

  it('are left alone after stop', async () => {
    await node.opener.stop();
    node.show(web);
    expect(node.looks).toEqual([]);
  });
});
