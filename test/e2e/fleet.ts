import type { Client } from '@temporalio/client';
import type { JsonObject } from '../../api/base/json.ts';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { PodTemplate } from '../../api/core/pod-template.ts';
import { kubeResource, windlassAnnotation } from '../../api/core/well-known.ts';
import { daemonSets } from '../../api/daemon-set/types.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { ordersOf, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { type KubeClient, pathOf } from '../../kube/client.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import type { Cluster } from '../support/cluster.ts';
import { type FleetWatch, neverFewerReady, watchFleet } from '../support/fleet-watch.ts';
import { waitFor } from '../support/wait.ts';

/** Two images that differ in their digest, and in nothing else that matters. */
export const images = { old: 'busybox:1.35', new: 'busybox:1.36' } as const;

/** The parts of a workload that are the same in every kind. */
export interface FleetObject extends KubeObject {
  readonly spec: { readonly replicas?: number; readonly template: PodTemplate };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly readyReplicas?: number;
    readonly updatedReadyReplicas?: number;
    /** Of a DaemonSet. */
    readonly numberReady?: number;
    readonly updatedNumberScheduled?: number;
    readonly waitingFor?: { readonly reason: string; readonly unblock?: string };
    readonly rollOut?: RollOutOrders;
  };
}

/** How many of its pods the status calls ready. */
export function readyIn(status: FleetObject['status']): number | undefined {
  return status?.readyReplicas ?? status?.numberReady;
}

/** And updated, of those that are ready where the kind says so. */
export function updatedIn(status: FleetObject['status']): number | undefined {
  return status?.updatedReadyReplicas ?? status?.updatedNumberScheduled;
}

/** Whether the nodes say how many pods there are. */
function goesByNodes({ kind }: Resource): boolean {
  return kind === daemonSets.kind;
}

/** How a fleet differs from three pods of two containers of a CloneSet that are updated in place, one at a time. */
export interface FleetOptions {
  readonly resource?: Resource;
  /** Of a DaemonSet: how many nodes it finds. */
  readonly replicas?: number;
  readonly rollingUpdate?: JsonObject;
  readonly spec?: JsonObject;
  readonly template?: JsonObject;
  readonly containers?: readonly JsonObject[];
  readonly podSpec?: JsonObject;
}

/** A container that runs until it is stopped. */
export function container(name: string, more: JsonObject = {}): JsonObject {
  const command = ['sh', '-c', `trap 'exit 0' TERM; sleep 99999 & wait`];
  return { name, image: images.old, command, ...more };
}

/** The environment of fleets. */
export interface FleetWorld {
  readonly cluster: Cluster;
  readonly temporal: Client;
}

/** A workload `web` in a namespace of its own, with a recorded watch of its pods. */
export class Fleet<Owner extends FleetObject = CloneSet> {
  readonly #world: FleetWorld;
  readonly #resource: Resource;
  readonly namespace: string;
  readonly watch: FleetWatch;
  readonly uid: string;
  readonly replicas: number;

  private constructor(
    world: FleetWorld,
    namespace: string,
    {
      resource,
      set,
      watch,
      replicas,
    }: {
      readonly resource: Resource;
      readonly set: FleetObject;
      readonly watch: FleetWatch;
      readonly replicas: number;
    },
  ) {
    this.#world = world;
    this.#resource = resource;
    this.namespace = namespace;
    this.watch = watch;
    this.uid = set.metadata.uid;
    this.replicas = replicas;
  }

  /** Applies the workload, and waits until all pods are ready. */
  static async create<Owner extends FleetObject = CloneSet>(
    world: FleetWorld,
    options: FleetOptions = {},
  ): Promise<Fleet<Owner>> {
    const { cluster } = world;
    const { resource = cloneSets } = options;
    const namespace = await cluster.newNamespace();
    const { replicas = 3, containers = [container('app'), container('logger')] } = options;
    const watch = await watchFleet(cluster.kube, namespace);
    const set = await cluster.kube.create<FleetObject>(resource, {
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: { namespace, name: 'web' },
      spec: {
        ...(goesByNodes(resource) ? {} : { replicas }),
        selector: { matchLabels: { app: 'web' } },
        updateStrategy: {
          rollingUpdate: {
            [goesByNodes(resource) ? 'rollingUpdateType' : 'podUpdatePolicy']: 'InPlaceIfPossible',
            maxUnavailable: 1,
            ...options.rollingUpdate,
          },
        },
        ...options.spec,
        template: {
          metadata: { labels: { app: 'web' }, ...options.template },
          spec: { terminationGracePeriodSeconds: 1, containers, ...options.podSpec },
        },
      },
    } as never);
    const fleet = new Fleet<Owner>(world, namespace, { resource, set, watch, replicas });
    await fleet.until('all pods to be ready', ({ status }) => readyIn(status) === replicas);
    watch.take();
    for (const pod of fleet.pods().values()) {
      for (const { name, restartCount } of pod.status?.containerStatuses ?? []) {
        restartsBefore.set(`${pod.metadata.uid}/${name}`, restartCount);
      }
    }
    return fleet;
  }

  get kube(): KubeClient {
    return this.#world.cluster.kube;
  }

  async get(): Promise<Owner> {
    return await this.kube.get<Owner>(this.#resource, { namespace: this.namespace, name: 'web' });
  }

  async patch(body: object): Promise<void> {
    await this.kube.patch(this.#resource, { namespace: this.namespace, name: 'web' }, 'merge', body);
  }

  /** As `kubectl replace`: what is not in the manifest, such as labels, annotations and status, is not sent. */
  async replace(change: object): Promise<void> {
    await despiteConflicts(async () => {
      const { apiVersion, kind, spec, metadata } = await this.get();
      const ref = { namespace: this.namespace, name: metadata.name };
      const { resourceVersion } = metadata;
      const body = { apiVersion, kind, metadata: { ...ref, resourceVersion }, spec: { ...spec, ...change } };
      await this.kube.request('PUT', pathOf(this.#resource, ref), { body });
    });
  }

  /** Changes the image of the first container. */
  async update(image: string, more: object = {}): Promise<void> {
    const { spec } = (await this.get()).spec.template as { spec: { containers: JsonObject[] } };
    const [first, ...others] = spec.containers;
    await this.patch({ spec: { template: { spec: { containers: [{ ...first, image }, ...others] } }, ...more } });
  }

  /** Gives a command by annotation. */
  async command(text: string): Promise<void> {
    await this.patch({ metadata: { annotations: { [windlassAnnotation.command]: text } } });
  }

  /**
   * Waits until the workload fulfils a condition, and the recorded watch of its pods shows it, too. The status counts
   * only when it is about the current spec.
   */
  async until(what: string, holds: (set: Owner) => boolean): Promise<Owner> {
    const found = await waitFor(what, async (see) => {
      const set = await this.get();
      see({ status: set.status, orders: ordersOf(set) });
      return set.status?.observedGeneration === set.metadata.generation && holds(set) && set;
    });
    await waitFor('the watch of the pods to catch up', async () => {
      const { items } = await this.kube.list<Pod>(kubeResource.pods, { namespace: this.namespace });
      const seen = this.watch.pods;
      const isSeen = ({ metadata }: Pod) =>
        Number(seen.get(metadata.name)?.metadata.resourceVersion ?? 0) >= Number(metadata.resourceVersion);
      return seen.size === items.length && items.every(isSeen);
    });
    return found;
  }

  async untilUpdated(pods: number): Promise<Owner> {
    return await this.until(
      `${pods} updated pods`,
      ({ status }) => updatedIn(status) === pods && readyIn(status) === this.replicas,
    );
  }

  async waitsFor(reason: string): Promise<Owner> {
    return await this.until(`the wait ${reason}`, ({ status }) => status?.waitingFor?.reason === reason);
  }

  /** The pods that count, by name. */
  pods(): ReadonlyMap<string, Pod> {
    return new Map([...this.watch.pods].filter(([, { metadata }]) => metadata.deletionTimestamp === undefined));
  }

  ofImage(image: string): readonly string[] {
    return [...this.pods()].flatMap(([name, { spec }]) => (spec.containers[0]?.image === image ? [name] : []));
  }

  /** What must not change in an in-place update, and what must. */
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

  /** The minimum number of ready pods and the maximum number of pods since the last call. */
  extremes(): { readonly fewestReady: number; readonly mostPods: number } {
    const moments = this.watch.take();
    return {
      fewestReady: Math.min(...moments.map(({ ready }) => ready)),
      mostPods: Math.max(...moments.map(({ pods }) => pods)),
    };
  }

  /** See the function. */
  neverFewerReady(least: number): void {
    neverFewerReady(this.watch, least);
  }

  get rollOutId(): string {
    return rollOutId({ namespace: this.namespace, name: 'web', uid: this.uid });
  }

  get operation() {
    return this.#world.temporal.workflow.getHandle(this.rollOutId);
  }

  async eventSays(reason: string, message: RegExp): Promise<void> {
    await waitFor(`an Event ${reason}`, async (see) => {
      const events = see(await this.#world.cluster.eventsOf(await this.get()));
      return events.some((event) => event.reason === reason && message.test(event.message));
    });
  }
}

/** Restart counts from before the test: a loaded kubelet may restart containers. */
const restartsBefore = new Map<string, number>();

/** How often a container of this pod has been started again since its fleet was complete. */
export function restartsOf({ metadata, status }: Pod, name: string): number | undefined {
  const count = status?.containerStatuses?.find((container) => container.name === name)?.restartCount;
  return count === undefined ? undefined : count - (restartsBefore.get(`${metadata.uid}/${name}`) ?? 0);
}

/** When a container of this pod was started, in milliseconds. */
export function startedAt({ status }: Pod, name: string): number {
  const found = status?.containerStatuses?.find((container) => container.name === name);
  return Date.parse(found?.state?.running?.startedAt ?? '');
}
