import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource, windlassAnnotation } from '../../api/core/well-known.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import { type SidecarSet, sidecarSets } from '../../api/sidecar-set/types.ts';
import { freezeImages } from '../support/frozen-images.ts';
import { describeAlone } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

const windlass = useWindlass();

/** A SidecarSet for the pods of the given namespaces, its pods, and a kubelet that is played. */
class Sidecars {
  readonly name = `set-${randomUUID().slice(0, 8)}`;
  readonly namespaces: readonly string[];
  uid = '';

  constructor(namespaces: readonly string[]) {
    this.namespaces = namespaces;
  }

  /** Two pods with the sidecar in each of two namespaces, all ready. */
  static async create(spec: JsonObject = {}): Promise<Sidecars> {
    const { cluster } = windlass();
    const sidecars = new Sidecars([await cluster.newNamespace(), await cluster.newNamespace()]);
    const { metadata } = await cluster.kube.create<SidecarSet>(sidecarSets, {
      metadata: { name: sidecars.name },
      spec: {
        selector: { matchLabels: { app: 'web' } },
        namespaceSelector: {
          matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'In', values: [...sidecars.namespaces] }],
        },
        containers: [{ name: 'log', image: 'busybox:1.35' }],
        ...spec,
      },
    });
    sidecars.uid = metadata.uid;
    await waitFor('the revision', async () => (await sidecars.set()).status?.latestRevision);
    for (const namespace of sidecars.namespaces) {
      for (const name of ['a', 'b']) await sidecars.#pod(namespace, name);
    }
    await sidecars.until('all pods to be ready', ({ status }) => status?.updatedReadyPods === 4);
    return sidecars;
  }

  /** The webhook hears of the SidecarSet a moment after it was created. */
  async #pod(namespace: string, name: string): Promise<void> {
    const { kube } = windlass().cluster;
    await waitFor('an injected pod', async () => {
      const pod = await kube
        .create<Pod>(kubeResource.pods, {
          metadata: { name, namespace, labels: { app: 'web' } },
          spec: { automountServiceAccountToken: false, containers: [{ name: 'app', image: 'busybox:1.36' }] },
        })
        .catch(() => undefined);
      if (pod && pod.spec.containers.length === 2) return true;
      if (pod) await kube.delete(kubeResource.pods, { namespace, name }, { gracePeriodSeconds: 0 });
      return false;
    });
  }

  set(): Promise<SidecarSet> {
    return windlass().cluster.kube.get<SidecarSet>(sidecarSets, { name: this.name });
  }

  patch(body: JsonObject): Promise<SidecarSet> {
    return windlass().cluster.kube.patch<SidecarSet>(sidecarSets, { name: this.name }, 'merge', body);
  }

  command(text: string): Promise<SidecarSet> {
    return this.patch({ metadata: { annotations: { [windlassAnnotation.command]: text } } });
  }

  async pods(): Promise<readonly Pod[]> {
    const { kube } = windlass().cluster;
    const lists = await Promise.all(
      this.namespaces.map((namespace) => kube.list<Pod>(kubeResource.pods, { namespace, labelSelector: 'app=web' })),
    );
    return lists.flatMap(({ items }) => items);
  }

  async images(): Promise<readonly string[]> {
    return (await this.pods()).map(({ spec }) => spec.containers.find(({ name }) => name === 'log')?.image ?? '');
  }

  /** Starts the containers whose image has changed. */
  async #kubelet(): Promise<void> {
    for (const { metadata, spec, status } of await this.pods()) {
      const before = new Map((status?.containerStatuses ?? []).map((state) => [state.name, state]));
      if (spec.containers.every(({ name, image }) => before.get(name)?.image === image)) continue;
      const containerStatuses = spec.containers.map(({ name, image = '' }) => {
        const state = before.get(name);
        if (state?.image === image) return state;
        const imageID = `example.com/${image}@sha256:${image}`;
        const restartCount = (state?.restartCount ?? -1) + 1;
        return { name, image, imageID, ready: true, restartCount, state: { running: {} } };
      });
      const ready = { type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' };
      const body = { status: { phase: 'Running', conditions: [ready], containerStatuses } };
      const { namespace = '', name } = metadata;
      await windlass().cluster.kube.patch(kubeResource.pods, { namespace, name }, 'strategic', body, {
        subresource: 'status',
      });
    }
  }

  /** Plays the kubelet until this holds. */
  async until(what: string, holds: (set: SidecarSet) => boolean | Promise<boolean>): Promise<SidecarSet> {
    return await waitFor(what, async (see) => {
      await this.#kubelet();
      const set = await this.set();
      see(set.status);
      const isObserved = set.status?.observedGeneration === set.metadata.generation;
      return isObserved && (await holds(set)) && set;
    });
  }

  get handle() {
    return windlass().client.workflow.getHandle(rollOutId(this));
  }

  async delete(): Promise<void> {
    await windlass().cluster.kube.delete(sidecarSets, { name: this.name });
  }
}

async function eventOf({ uid }: Sidecars, wanted: string) {
  return await waitFor(`Event ${wanted}`, async () => {
    const { items } = await windlass().cluster.kube.list<never>(kubeResource.events, { namespace: 'default' });
    return (items as readonly { reason: string; message: string; involvedObject: { uid: string } }[]).find(
      ({ reason, involvedObject }) => reason === wanted && involvedObject.uid === uid,
    );
  });
}

const withImage = (image: string) => ({ spec: { containers: [{ name: 'log', image }] } });

describeAlone('the roll-out of a SidecarSet in a real API server with a real Temporal', () => {
  it('SCS-186: updates running pods of all namespaces in place, and its history names them', async () => {
    const sidecars = await Sidecars.create();
    const before = await sidecars.pods();
    await sidecars.patch(withImage('busybox:1.36'));
    await sidecars.until('the update', ({ status }) => status?.updatedReadyPods === 4);
    const after = await sidecars.pods();
    expect(after.map(({ metadata }) => metadata.uid).toSorted()).toEqual(
      before.map(({ metadata }) => metadata.uid).toSorted(),
    );
    expect(await sidecars.images()).toEqual(Array(4).fill('busybox:1.36'));
    for (const { status, metadata } of after) {
      const restarts = Object.fromEntries(status?.containerStatuses?.map((one) => [one.name, one.restartCount]) ?? []);
      expect(restarts).toEqual({ log: 1, app: 0 });
      const condition = status?.conditions?.find(({ type }) => type === 'SidecarSetUpgradable');
      expect(condition).toMatchObject({ status: 'True', message: `{"${sidecars.name}":true}` });
      expect(metadata.annotations?.['kruise.io/sidecarset-inplace-update-state']).toContain('busybox:1.35');
    }
    await waitFor(
      'the end of the roll-out',
      async () => (await sidecars.handle.describe()).status.name === 'COMPLETED',
    );
    const events = (await sidecars.handle.fetchHistory()).events ?? [];
    const scheduled = events.flatMap(({ userMetadata }) => String(userMetadata?.summary?.data ?? ''));
    const texts = scheduled.map((data) => Buffer.from(data).toString());
    expect(texts.filter((text) => text.includes('in place'))).toHaveLength(4);
    await sidecars.delete();
  });

  it('is paused, resumed and undone by commands in an annotation; a pod is skipped by namespace and name', async () => {
    const sidecars = await Sidecars.create();
    const [, second = ''] = sidecars.namespaces;
    await sidecars.patch({ spec: { updateStrategy: { paused: true }, ...withImage('busybox:1.36').spec } });
    await sidecars.until('the wait', ({ status }) => status?.waitingFor?.reason === 'Paused');
    await sidecars.command('pause');
    await waitFor('the order', async () => ordersOf(await sidecars.set())?.paused);
    await sidecars.command(`skip ${second}/b`);
    await waitFor('the skipped pod', async () => ordersOf(await sidecars.set())?.skip?.includes(`${second}/b`));
    await sidecars.patch({ spec: { updateStrategy: { paused: false } } });
    await sidecars.until('the wait', ({ status }) => status?.waitingFor?.reason === 'PausedByOperator');
    expect(await sidecars.images()).toEqual(Array(4).fill('busybox:1.35'));
    await sidecars.command('resume');
    await sidecars.until('the others', async () => {
      return (await sidecars.images()).filter((image) => image === 'busybox:1.36').length === 3;
    });
    await sidecars.until('the wait', ({ status }) => status?.waitingFor?.reason === 'Skipped');
    await sidecars.command('undo');
    await sidecars.until('the undo', async () => (await sidecars.images()).every((image) => image === 'busybox:1.35'));
    await sidecars.until('the wait', ({ status }) => status?.waitingFor?.reason === 'Undone');
    await sidecars.delete();
  });

  it('SCS-133, P-7: pods of a namespace whose policy refuses their update make room for the others, and go when it is gone', async () => {
    const { kube } = windlass().cluster;
    const sidecars = await Sidecars.create();
    const [frozen = '', other = ''] = sidecars.namespaces;
    const policy = await freezeImages(kube, frozen);
    try {
      await sidecars.patch(withImage('busybox:1.36'));
      const { status } = await sidecars.until('the wait', (set) => set.status?.waitingFor?.reason === 'CannotUpdate');
      expect(status?.waitingFor?.blockedBy.toSorted()).toEqual([`pod/${frozen}/a`, `pod/${frozen}/b`]);
      expect(status?.waitingFor?.unblock).toContain('images are frozen');
      const imagesOf = async (namespace: string) =>
        (await sidecars.pods())
          .filter(({ metadata }) => metadata.namespace === namespace)
          .map(({ spec }) => spec.containers.find(({ name }) => name === 'log')?.image);
      expect([await imagesOf(frozen), await imagesOf(other)]).toEqual([
        ['busybox:1.35', 'busybox:1.35'],
        ['busybox:1.36', 'busybox:1.36'],
      ]);
      await waitFor(
        'no batch to be in flight',
        async () => !(await sidecars.handle.describe()).raw.pendingActivities?.length,
      );
      const told = await eventOf(sidecars, 'FailedUpdatePodInPlace');
      expect(told.message).toMatch(new RegExp(`failed to update sidecars of pod ${frozen}/[ab] .*images are frozen`));
    } finally {
      await policy.remove();
    }
    await sidecars.command('retry');
    await sidecars.until('the update', ({ status }) => status?.updatedReadyPods === 4);
    await sidecars.delete();
  });

  it('SCS-192: marks pods that cannot be updated, and an undo of more than images is refused with the field', async () => {
    const sidecars = await Sidecars.create();
    const env = [{ name: 'A', value: 'b' }];
    await sidecars.patch({ spec: { containers: [{ name: 'log', image: 'busybox:1.36', env }] } });
    await sidecars.until('the new content', ({ status }) => status?.updatedPods === 0);
    const isMarked = ({ status }: Pod) =>
      status?.conditions?.some(({ type, status: is }) => type === 'SidecarSetUpgradable' && is === 'False') === true;
    await waitFor('the marks', async () => (await sidecars.pods()).every(isMarked));
    expect(await sidecars.images()).toEqual(Array(4).fill('busybox:1.35'));
    await sidecars.command('undo');
    const event = await eventOf(sidecars, 'CommandRefused');
    expect(event.message).toContain('spec.containers[0].env');
    await sidecars.delete();
  });
});
