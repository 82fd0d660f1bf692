import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import { swapAnnotation, swapSidecarId } from '../../api/sidecar-set/swap.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { closedAs } from '../support/closed.ts';
import { describeAlone } from '../support/groups.ts';
import { summariesOf } from '../support/history.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

const windlass = useWindlass();

const hot = (image: string) => [
  {
    ...{ name: 'mesh', image },
    upgradeStrategy: { upgradeType: 'HotUpgrade', hotUpgradeEmptyImage: 'busybox:empty' },
  },
];

/** A SidecarSet with one hot-upgrade sidecar, one pod, and a kubelet that is played. */
class HotSidecars {
  readonly name = `set-${randomUUID().slice(0, 8)}`;
  readonly namespace: string;
  podUid = '';

  constructor(namespace: string) {
    this.namespace = namespace;
  }

  static async create(annotations: Readonly<Record<string, string>> = {}): Promise<HotSidecars> {
    const { cluster } = windlass();
    const sidecars = new HotSidecars(await cluster.newNamespace());
    const { name, namespace } = sidecars;
    await cluster.kube.create<SidecarSet>(sidecarSets, {
      metadata: { name, annotations },
      spec: {
        selector: { matchLabels: { app: 'web' } },
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        containers: hot('busybox:1.35'),
      },
    });
    await waitFor('the revision', async () => (await sidecars.set()).status?.latestRevision);
    await sidecars.#createPod();
    await sidecars.until('the pod to be ready', async () => (await sidecars.set()).status?.updatedReadyPods === 1);
    return sidecars;
  }

  /** The webhook hears of the SidecarSet a moment after it was created. */
  async #createPod(): Promise<void> {
    const { kube } = windlass().cluster;
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
    return windlass().cluster.kube.get<SidecarSet>(sidecarSets, { name: this.name });
  }

  async patch(body: JsonObject): Promise<void> {
    await windlass().cluster.kube.patch<SidecarSet>(sidecarSets, { name: this.name }, 'merge', body);
  }

  pod(): Promise<Pod> {
    return windlass().cluster.kube.get<Pod>(kubeResource.pods, { namespace: this.namespace, name: 'web-0' });
  }

  async images(): Promise<Readonly<Record<string, string>>> {
    const { spec } = await this.pod();
    return Object.fromEntries(spec.containers.map(({ name, image = '' }) => [name, image]));
  }

  get handle() {
    return windlass().client.workflow.getHandle(swapSidecarId(this.podUid));
  }

  /** Starts the containers whose image has changed; those with a broken image do not get ready. */
  async #kubelet(): Promise<void> {
    const { spec, status } = await this.pod();
    const before = status?.containerStatuses ?? [];
    const containerStatuses = spec.containers.map(({ name, image = '' }) => {
      return running(
        name,
        image,
        before.find((state) => state.name === name),
      );
    });
    if (JSON.stringify(before.map(stateOf)) === JSON.stringify(containerStatuses.map(stateOf))) return;
    const is = containerStatuses.every(({ ready }) => ready) ? 'True' : 'False';
    const ready = { type: 'Ready', status: is, lastTransitionTime: '2026-01-01T00:00:00Z' };
    const body = { status: { phase: 'Running', conditions: [ready], containerStatuses } };
    const ref = { namespace: this.namespace, name: 'web-0' };
    await windlass().cluster.kube.patch(kubeResource.pods, ref, 'strategic', body as never, { subresource: 'status' });
  }

  /** Plays the kubelet until this holds. */
  async until(what: string, holds: () => Promise<unknown>): Promise<void> {
    await waitFor(what, async () => {
      await this.#kubelet();
      return await holds();
    });
  }

  async delete(): Promise<void> {
    await windlass().cluster.kube.delete(sidecarSets, { name: this.name });
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

const withImage = (image: string) => ({ spec: { containers: hot(image) } });

describeAlone('swaps of sidecars in a real API server with a real Temporal', () => {
  it('SHU-32, SHU-41: the roll-out starts the swap, whose history says what it does, and which leaves an idle container', async () => {
    const sidecars = await HotSidecars.create();
    await sidecars.patch(withImage('busybox:1.36'));
    await sidecars.until('the swap', async () => (await sidecars.images())['mesh-1'] === 'busybox:empty');
    await sidecars.until('the end', async () => (await sidecars.handle.describe()).status.name === 'COMPLETED');
    expect(await sidecars.images()).toMatchObject({ 'mesh-1': 'busybox:empty', 'mesh-2': 'busybox:1.36' });
    const { annotations = {} } = (await sidecars.pod()).metadata;
    expect(annotations[hotMark.working]).toBe('{"mesh":"mesh-2"}');
    expect(annotations[`${hotMark.version}mesh-1`]).toBe('0');
    expect(summariesOf(await sidecars.handle.fetchHistory()).filter((text) => !text.startsWith('look'))).toEqual([
      'write busybox:1.36 into web-0 mesh-2',
      'wait until mesh-2 of web-0 is ready',
      'reset mesh-1 of web-0',
      'wait until mesh-1 of web-0 is idle',
    ]);
    await sidecars.until('the counts', async () => (await sidecars.set()).status?.updatedReadyPods === 1);
    await sidecars.delete();
  }, 120_000);

  it('SHU-63: a swap that is not over in time is undone, and the old version has served all the time', async () => {
    const sidecars = await HotSidecars.create({ [swapAnnotation.deadline]: '3s' });
    await sidecars.patch(withImage('busybox:broken'));
    await sidecars.until('the write', async () => (await sidecars.images())['mesh-2'] === 'busybox:broken');
    await sidecars.until('the undo', async () => (await sidecars.images())['mesh-2'] === 'busybox:empty');
    await sidecars.until('the end', async () => (await sidecars.handle.describe()).status.name !== 'RUNNING');
    expect(await closedAs(sidecars.handle)).toBe('FAILED');
    expect(await sidecars.images()).toMatchObject({ 'mesh-1': 'busybox:1.35', 'mesh-2': 'busybox:empty' });
    expect((await sidecars.pod()).metadata.annotations?.[hotMark.working]).toBe('{"mesh":"mesh-1"}');
    await sidecars.delete();
  }, 120_000);

  it('SHU-43: a paused SidecarSet holds the reset back until it is unpaused', async () => {
    const sidecars = await HotSidecars.create();
    await sidecars.patch(withImage('busybox:broken'));
    await sidecars.until('the write', async () => (await sidecars.images())['mesh-2'] === 'busybox:broken');
    await sidecars.patch({ spec: { updateStrategy: { paused: true } } });
    await sidecars.handle.signal('abort', { by: 'ann' });
    await sidecars.until('the wait', async () => {
      const { searchAttributes } = await sidecars.handle.describe();
      return searchAttributes.WindlassReason?.[0] === 'Paused';
    });
    expect((await sidecars.images())['mesh-2']).toBe('busybox:broken');
    await sidecars.patch({ spec: { updateStrategy: { paused: false } } });
    await sidecars.until('the undo', async () => (await sidecars.images())['mesh-2'] === 'busybox:empty');
    await sidecars.until('the end', async () => (await sidecars.handle.describe()).status.name === 'FAILED');
    await sidecars.delete();
  }, 120_000);
});
