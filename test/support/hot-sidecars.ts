import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../api/base/json.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import type { PodRef } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { swapSidecarId } from '../../api/sidecar-set/swap.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { waitFor } from './wait.ts';
import type { Windlass } from './windlass.ts';

/** The one sidecar with this image. */
export const hotSidecar = (image: string) => [
  {
    ...{ name: 'mesh', image },
    upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'busybox:empty' },
  },
];

/** A SidecarSet with one hot-upgrade sidecar, one pod, and a kubelet that is played. */
export class HotSidecars {
  readonly #windlass: Windlass;
  readonly name = `set-${randomUUID().slice(0, 8)}`;
  readonly namespace: string;
  podUid = '';

  /** What the kubelet does not run yet; it goes on with what it ran before. */
  starts: (container: string, image: string) => boolean = () => true;

  constructor(windlass: Windlass, namespace: string) {
    this.#windlass = windlass;
    this.namespace = namespace;
  }

  static async create(windlass: Windlass, annotations: Readonly<Record<string, string>> = {}): Promise<HotSidecars> {
    const { cluster } = windlass;
    const sidecars = new HotSidecars(windlass, await cluster.newNamespace());
    const { name, namespace } = sidecars;
    await cluster.kube.create<SidecarSet>(sidecarSets, {
      metadata: { name, annotations },
      spec: {
        selector: { matchLabels: { app: 'web' } },
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        containers: hotSidecar('busybox:1.35'),
      },
    });
    await waitFor('the revision', async () => (await sidecars.set()).status?.latestRevision);
    await sidecars.#createPod();
    await sidecars.until('the pod to be ready', async () => (await sidecars.set()).status?.updatedReadyPods === 1);
    return sidecars;
  }

  /** The webhook hears of the SidecarSet a moment after it was created. */
  async #createPod(): Promise<void> {
    const { kube } = this.#windlass.cluster;
    const { namespace } = this;
    this.podUid = await waitFor('an injected pod', async () => {
      const pod = await kube
        .create<Pod>(kubeResource.pods, {
          metadata: { name: 'web-0', namespace, labels: { app: 'web' } },
          spec: { automountServiceAccountToken: false, containers: [{ name: 'app', image: 'busybox:1.36' }] },
        })
        .catch(() => undefined);
      if (pod && pod.spec.containers.length === 3) return pod.metadata.uid;
      if (pod) await kube.delete(kubeResource.pods, { namespace, name: 'web-0' }, { gracePeriodSeconds: 0 });
      return false;
    });
  }

  set(): Promise<SidecarSet> {
    return this.#windlass.cluster.kube.get<SidecarSet>(sidecarSets, { name: this.name });
  }

  async patch(body: JsonObject): Promise<void> {
    await this.#windlass.cluster.kube.patch<SidecarSet>(sidecarSets, { name: this.name }, 'merge', body);
  }

  get podRef(): PodRef {
    return { namespace: this.namespace, name: 'web-0', uid: this.podUid };
  }

  pod(): Promise<Pod> {
    return this.#windlass.cluster.kube.get<Pod>(kubeResource.pods, { namespace: this.namespace, name: 'web-0' });
  }

  async images(): Promise<Readonly<Record<string, string>>> {
    const { spec } = await this.pod();
    return Object.fromEntries(spec.containers.map(({ name, image = '' }) => [name, image]));
  }

  get handle() {
    return this.#windlass.client.workflow.getHandle(swapSidecarId(this.podRef));
  }

  /** Starts the containers whose image has changed; those with a broken image do not get ready. */
  async kubelet(): Promise<void> {
    const { spec, status } = await this.pod();
    const before = status?.containerStatuses ?? [];
    const containerStatuses = spec.containers.map(({ name, image = '' }) => {
      const state = before.find((one) => one.name === name);
      return state !== undefined && !this.starts(name, image) ? state : running(name, image, state);
    });
    if (JSON.stringify(before.map(stateOf)) === JSON.stringify(containerStatuses.map(stateOf))) return;
    const is = containerStatuses.every(({ ready }) => ready) ? 'True' : 'False';
    const ready = { type: 'Ready', status: is, lastTransitionTime: '2026-01-01T00:00:00Z' };
    const body = { status: { phase: 'Running', conditions: [ready], containerStatuses } };
    const ref = { namespace: this.namespace, name: 'web-0' };
    await this.#windlass.cluster.kube.patch(kubeResource.pods, ref, 'strategic', body as never, {
      subresource: 'status',
    });
  }

  /** Plays the kubelet until this holds. */
  async until(what: string, holds: () => Promise<unknown>): Promise<void> {
    await waitFor(what, async () => {
      await this.kubelet();
      return await holds();
    });
  }

  async delete(): Promise<void> {
    await this.#windlass.cluster.kube.delete(sidecarSets, { name: this.name });
  }
}

function running(name: string, image: string, before: ContainerStatus | undefined): ContainerStatus {
  if (before?.image === image && before.ready) return before;
  const restartCount = before?.restartCount ?? -1;
  if (image === 'busybox:broken') {
    const state = { waiting: { reason: 'ImagePullBackOff' } };
    return { ...before, name, restartCount, ready: false, state };
  }
  const startedAt = new Date().toISOString();
  const imageID = `example.com/busybox@sha256:${image}`;
  return { name, image, imageID, ready: true, restartCount: restartCount + 1, state: { running: { startedAt } } };
}

const stateOf = ({ name, image, ready }: ContainerStatus) => [name, image, ready];

/** A change of the image. */
export const withImage = (image: string) => ({ spec: { containers: hotSidecar(image) } });
