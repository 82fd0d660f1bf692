import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { searchAttributes } from '../../api/engine/operations.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import type { Cluster } from '../support/cluster.ts';
import { isServing, watchFleet } from '../support/fleet-watch.ts';
import { freezeImages } from '../support/frozen-images.ts';
import { describeProof, describeTogether } from '../support/groups.ts';
import { batchesIn } from '../support/history.ts';
import { waitFor } from '../support/wait.ts';
import { container, Fleet, type FleetOptions, images, restartsOf, startedAt } from './fleet.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { judgeHistory } from './roll-out-judge.ts';

let local: LocalCluster;
let cluster: Cluster;

beforeAll(async () => {
  local = await localCluster();
  ({ cluster } = local);
});

afterAll(async () => {
  await local?.close();
});

function isOpen({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === inPlaceReadinessGate && is === 'True') ?? false;
}

/** Whether the kubelet reports another image than the pod's spec has. */
function isOutdated({ spec, status }: Pod): boolean {
  const [wanted] = spec.containers;
  const told = status?.containerStatuses?.find(({ name }) => name === wanted?.name);
  return wanted?.image !== undefined && told?.image !== undefined && !told.image.endsWith(wanted.image);
}

function fleetOf(options: FleetOptions = {}): Promise<Fleet> {
  return Fleet.create({ cluster, temporal: local.temporal }, options);
}

/** The names of the PVCs that a pod mounts. */
function claimsIn({ volumes }: JsonObject): readonly string[] {
  return listOr(volumes).flatMap((volume) => {
    const { claimName } = objectOr(objectOr(volume).persistentVolumeClaim);
    return typeof claimName === 'string' ? [claimName] : [];
  });
}

describeTogether('a CloneSet', () => {
  it.concurrent('updated in place keeps UID, IP, node and the other containers of its pods, and goes back so', async () => {
    const fleet = await fleetOf({ replicas: 4, rollingUpdate: { maxUnavailable: '50%' } });
    const before = fleet.identities();
    await fleet.update(images.new);
    await fleet.untilUpdated(4);
    expect(fleet.identities()).toEqual(before);
    fleet.neverFewerReady(2);
    for (const [, pod] of fleet.pods()) expect(restartsOf(pod, 'app')).toBe(1);

    expect(await fleet.operation.result()).toMatchObject({
      message: expect.stringMatching(/^4 of 4 pods are of revision web-/),
    });
    const found = await waitFor('the operation by its names', async () => {
      const query = `WindlassKind='CloneSet' AND WindlassNamespace='${fleet.namespace}' AND WindlassPhase='Completed'`;
      for await (const workflow of local.temporal.workflow.list({ query })) return workflow;
      return undefined;
    });
    expect(found.workflowId).toBe(fleet.rollOutId);
    // 40 events, and 20 for each of two batches: on a slow machine more waits are reported in between
    expect(found.historyLength).toBeLessThanOrEqual(80);

    await fleet.update(images.old);
    await fleet.untilUpdated(4);
    expect(fleet.identities()).toEqual(before);
    for (const [, pod] of fleet.pods()) expect(restartsOf(pod, 'app')).toBe(2);
  });

  it.concurrent('IPU-40: is back in service by the node of a pod, before its kubelet tells of the new container', async () => {
    const fleet = await fleetOf({ replicas: 3, rollingUpdate: { maxUnavailable: '100%' } });
    const early = new Set<string>();
    const watch = await watchFleet(fleet.kube, fleet.namespace, (pod) => {
      if (isOpen(pod) && !isServing(pod) && isOutdated(pod)) early.add(pod.metadata.name);
    });
    // a delayed node misses the next sync of its kubelet, and has its next chance in the next update
    for (let round = 1; early.size === 0 && round <= 20; round++) {
      await fleet.update(round % 2 === 1 ? images.new : images.old);
      await fleet.untilUpdated(3);
    }
    watch.stop();
    expect(early.size).toBeGreaterThan(0);
  });

  it.concurrent('updates containers of higher launch priority first', async () => {
    // the variables that admission adds for KRUISE_CONTAINER_PRIORITY
    const env = (priority: string) => ({
      env: [
        {
          name: 'KRUISE_CONTAINER_BARRIER',
          valueFrom: { configMapKeyRef: { name: 'barrier', key: `p_${priority}`, optional: true } },
        },
      ],
    });
    const fleet = await fleetOf({
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
    const fleet = await fleetOf({
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
    await fleet.until(
      'both to wait for the hook',
      ({ status }) => status?.waitingFor?.reason === 'HookAfterUpdate' && fleet.ofImage(images.new).length === 2,
    );
    await finalize(['example.com/drain']);
    await fleet.untilUpdated(2);
    await finalize([]);
  });
  it.concurrent('rolls out as far as the partition says, step by step', async () => {
    const fleet = await fleetOf({ replicas: 3, rollingUpdate: { partition: 2 } });
    await fleet.update(images.new);
    await fleet.untilUpdated(1);
    const { status } = await fleet.waitsFor('PartitionReached');
    expect(status).toMatchObject({ expectedUpdatedReplicas: 1, waitingFor: { blockedCount: 2 } });
    expect(await fleet.operation.result()).toMatchObject({ message: expect.stringMatching(/^1 of 3 pods/) });
    await fleet.patch({ spec: { updateStrategy: { rollingUpdate: { partition: '34%' } } } });
    await fleet.untilUpdated(1);
    await fleet.patch({ spec: { updateStrategy: { rollingUpdate: { partition: 0 } } } });
    await fleet.untilUpdated(3);
  });

  it.concurrent('replaces pods with surge, and never has less than are wanted', async () => {
    const rollingUpdate = { podUpdatePolicy: 'ReCreate', maxSurge: 1, maxUnavailable: 0 };
    const fleet = await fleetOf({ replicas: 3, rollingUpdate });
    const before = [...fleet.pods().keys()];
    await fleet.update(images.new);
    await fleet.untilUpdated(3);
    const { fewestReady, mostPods } = fleet.extremes();
    expect(fewestReady).toBeGreaterThanOrEqual(3);
    expect(mostPods).toBe(4);
    expect(before.filter((name) => fleet.pods().has(name))).toEqual([]);
  });

  it.concurrent('turns to a newer template without starting over', async () => {
    const fleet = await fleetOf({ replicas: 4 });
    await fleet.update(images.new);
    await waitFor('the first pod', () => fleet.ofImage(images.new).length > 0);
    await fleet.patch({ spec: { template: { metadata: { labels: { app: 'web', tier: 'front' } } } } });
    await fleet.untilUpdated(4);
    for (const [, pod] of fleet.pods()) {
      expect(pod.metadata.labels).toMatchObject({ tier: 'front' });
      expect(restartsOf(pod, 'app')).toBe(1);
    }
    fleet.neverFewerReady(3);
  });
  /** A roll-out of four pods of which the next one can never become ready: it stops at the first. */
  async function stuck(): Promise<Fleet> {
    const fleet = await fleetOf({ replicas: 4, spec: { minReadySeconds: 3600 } });
    await fleet.update(images.new);
    await waitFor('the first pod', () => fleet.ofImage(images.new).length === 1);
    return fleet;
  }

  it.concurrent('is paused by signal; lost pods come back meanwhile; goes on by resume', async () => {
    const fleet = await stuck();
    await fleet.operation.signal('pause', { by: 'ann' });
    await fleet.waitsFor('PausedByOperator');
    // the pause takes effect before the order is in the status
    await fleet.until('the one who ordered it', ({ status }) =>
      /of 4 pods are of revision web-.*ordered by ann/.test(status?.waitingFor?.unblock ?? ''),
    );
    // from now on only the pause holds it, which a manifest that knows nothing of it does not take away
    await fleet.replace({ minReadySeconds: 0 });
    await fleet.until('what has begun to end', (set) => set.status?.availableReplicas === 4);
    expect(fleet.ofImage(images.new)).toHaveLength(1);
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
    await fleet.waitsFor('Aborted');
    // the abort takes effect before the order is in the status
    await fleet.until('the one who ordered it', ({ status }) =>
      /1 of 4 pods are of revision web-.*ordered by annotation of/.test(status?.waitingFor?.unblock ?? ''),
    );
    await fleet.patch({ spec: { minReadySeconds: 0 } });
    await fleet.until('another look', (set) => set.status?.availableReplicas === 4);
    await waitFor('the end of the run', async () => (await fleet.operation.describe()).status.name === 'FAILED');
    expect(fleet.ofImage(images.new)).toHaveLength(1);
    await fleet.patch({ spec: { template: { metadata: { labels: { app: 'web', tier: 'front' } } } } });
    await fleet.untilUpdated(4);
    expect(ordersOf(await fleet.get())).toBeUndefined();
  });

  it.concurrent('is taken back in place by undo, then rolled out after all', async () => {
    const fleet = await fleetOf({ replicas: 4, spec: { minReadySeconds: 3600 } });
    const before = fleet.identities();
    await fleet.update(images.new);
    await waitFor('the first pod', () => fleet.ofImage(images.new).length === 1);
    await fleet.command('undo');
    await waitFor('the order', async () => ordersOf(await fleet.get())?.undo);
    await fleet.patch({ spec: { minReadySeconds: 0 } });
    const { status } = await fleet.waitsFor('Undone');
    expect(status?.waitingFor?.unblock).toContain('4 of 4 pods');
    await waitFor('all pods to be back', () => fleet.ofImage(images.old).length === 4);
    await fleet.until('all to be ready', (set) => set.status?.readyReplicas === 4);
    expect(fleet.identities()).toEqual(before);
    fleet.neverFewerReady(3);
    await fleet.eventSays('Undone', /Undone to revision web-\w+ by annotation of/);
    await fleet.command('resume');
    await fleet.untilUpdated(4);
    fleet.neverFewerReady(3);
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

  it.concurrent('P-7: keeps pods in service that a policy does not let be updated, says so, and goes on when it is gone', async () => {
    const fleet = await fleetOf({ replicas: 3 });
    const policy = await freezeImages(fleet.kube, fleet.namespace);
    await fleet.update(images.new);
    const { status } = await fleet.waitsFor('CannotUpdate');
    expect(status?.waitingFor?.unblock).toContain('images are frozen');
    expect(status?.waitingFor?.blockedCount).toBe(3);
    expect(status?.conditions?.find(({ type }) => type === 'FailedUpdate')?.message).toContain('images are frozen');
    await fleet.eventSays('FailedUpdatePodInPlace', /images are frozen/);
    fleet.neverFewerReady(3);
    await policy.remove();
    await fleet.untilUpdated(3);
    fleet.neverFewerReady(2);
    await fleet.operation.result();
    const batches = batchesIn(await fleet.operation.fetchHistory());
    const outcomes = batches.flatMap(({ verdict }) => verdict?.pods ?? []);
    const refused = outcomes.filter(({ why }) => why !== undefined);
    expect(refused.map(({ why }) => why)).toEqual(refused.map(() => expect.stringMatching(/^not now: refused: /)));
    expect(refused.length).toBeGreaterThanOrEqual(3);
    expect(outcomes.length - refused.length).toBe(3);
  });

  it.concurrent('says which image the kubelet cannot pull, and what a skip does not change', async () => {
    const fleet = await fleetOf({ replicas: 2 });
    const missing = 'busybox:0.0';
    await fleet.update(missing);
    const waits = (what: string, text: string) =>
      fleet.until(what, ({ status }) => status?.waitingFor?.unblock.includes(text) ?? false);
    const { status } = await waits('the reason of the kubelet', 'ErrImagePull');
    const [stopped = ''] = fleet.ofImage(missing);
    expect(status?.waitingFor).toMatchObject({
      reason: 'ContainersNotSwapped',
      blockedBy: [`pod/${stopped}`],
      unblock: expect.stringMatching(new RegExp(`; ${stopped}: app: ErrImagePull: .*${missing}.*not found`)),
    });

    const { operation } = fleet;
    await operation.signal('skip', { by: 'ann', target: 'web-nope' });
    const pods = [...fleet.pods().keys()].toSorted((a, b) => a.localeCompare(b)).join(', ');
    const refused = 'Command skip by ann has no effect: web-nope is none of its pods: it has';
    await fleet.eventSays('CommandRefused', new RegExp(`^${refused} ${pods}$`));
    await operation.signal('skip', { by: 'ann', target: stopped });
    const still = `still unavailable, and so still counted by maxUnavailable: ${stopped}`;
    await fleet.eventSays('Skipped', new RegExp(`^Skipped ${stopped} by ann; ${still}$`));
    await waits('the skipped pod', `skipped, still unavailable: ${stopped}`);
    await operation.signal('skip', { by: 'bob', target: stopped });
    await fleet.eventSays('CommandRefused', new RegExp(`skip by bob has no effect: skipped already: ${stopped}$`));
    expect(fleet.ofImage(missing)).toEqual([stopped]);

    await fleet.update(images.new);
    await fleet.untilUpdated(2);
    fleet.neverFewerReady(1);
  });
});

const volume = (name: string) => ({
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
});

/** What differs where the pods of a CloneSet have these volumes each. */
const withVolumes = (...names: readonly string[]) => ({
  volumeClaimTemplates: names.map(volume),
  containers: [container('app', { volumeMounts: names.map((name) => ({ name, mountPath: `/${name}` })) })],
});

describeTogether('a CloneSet with two volumes for each pod', () => {
  it.concurrent('CS-46, CS-73: mounts the same PVCs again when all its pods have been deleted, and leaves no other', async () => {
    const { volumeClaimTemplates, containers } = withVolumes('data', 'logs');
    const fleet = await fleetOf({
      spec: { volumeClaimTemplates, scaleStrategy: { enablePVCReuse: true } },
      containers,
    });
    const claims = async () => {
      const { items } = await cluster.kube.list(kubeResource.persistentVolumeClaims, { namespace: fleet.namespace });
      return items.map(({ metadata }) => `${metadata.name} ${metadata.uid}`).toSorted();
    };
    const uids = new Set([...fleet.pods().values()].map(({ metadata }) => metadata.uid));
    const before = {
      claims: await claims(),
      pods: [...fleet.pods().values()].map(({ metadata }) => metadata.name).toSorted((a, b) => a.localeCompare(b)),
    };
    expect(before.claims).toHaveLength(6);

    await Promise.all(
      before.pods.map((name) => cluster.kube.delete(kubeResource.pods, { namespace: fleet.namespace, name })),
    );
    const pods = await waitFor('all pods to be other ones, and ready', async (see) => {
      const { items } = await cluster.kube.list<Pod>(kubeResource.pods, { namespace: fleet.namespace });
      see(
        items.map(({ metadata, status }) => [metadata.name, metadata.uid, metadata.deletionTimestamp, status?.phase]),
      );
      return items.length === 3 && items.every((pod) => !uids.has(pod.metadata.uid) && isServing(pod)) && items;
    });
    expect(pods.map(({ metadata }) => metadata.name).toSorted()).toEqual(before.pods);
    const mounted = pods.flatMap(({ spec }) => claimsIn(spec as unknown as JsonObject));
    expect(mounted.toSorted()).toEqual(before.claims.map((claim) => claim.split(' ')[0]));
    expect(await claims()).toEqual(before.claims);
  });

  it.concurrent('CS-72: cannot create old pods without the template that they mount, says what helps, and makes no PVCs for them', async () => {
    const { volumeClaimTemplates, containers } = withVolumes('data', 'logs');
    const rollingUpdate = { partition: '100%' };
    const fleet = await fleetOf({ replicas: 1, rollingUpdate, spec: { volumeClaimTemplates }, containers });
    const { namespace } = fleet;
    const old = (await fleet.get()).status?.updateRevision;
    const given = withVolumes('logs');
    const template = { spec: { containers: given.containers } };
    const change = { spec: { volumeClaimTemplates: given.volumeClaimTemplates, template } };
    const { stderr } = await local.kubectl([
      ...['patch', 'clonesets', 'web', '-n', namespace, '--type=merge', '-p', JSON.stringify(change)],
    ]);
    expect(stderr).toContain(
      `Warning: spec.volumeClaimTemplates: without "data", which container "app" of revision ${old} mounts, ` +
        'no pod of it can be created again, and partition keeps pods there',
    );

    await fleet.patch({ spec: { replicas: 2 } });
    const { status } = await fleet.waitsFor('CannotCreate');
    expect(status?.waitingFor?.unblock).toContain(
      `revision ${old} mounts "data" in container "app", which nothing provides: add a template "data" to ` +
        `spec.volumeClaimTemplates, or lower partition, so that new pods get revision ${status?.updateRevision}; Invalid: `,
    );
    await waitFor('further tries', async (see) => {
      const events = see(await cluster.eventsOf(await fleet.get()));
      return events.filter(({ reason }) => reason === 'FailedCreate').length > 3;
    });
    await fleet.patch({ spec: { volumeClaimTemplates } });
    await fleet.until('the second pod', (set) => set.status?.readyReplicas === 2);
    // two for each of the pods, and what was made before the first refusal
    const created = await madeClaims(namespace);
    expect(created.length).toBeLessThanOrEqual(5);
  });
});

/** The calls that have made a PVC in a namespace. */
async function madeClaims(namespace: string): Promise<readonly string[]> {
  const made: string[] = [];
  const of = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  for await (const { verb, requestURI, responseStatus } of local.auditLog()) {
    const [path, query = ''] = requestURI.split('?');
    if (verb !== 'create' || path !== of || query.includes('dryRun')) continue;
    if (responseStatus?.code === 201) made.push(requestURI);
  }
  return made;
}

describeProof('slow', 'an update of twenty pods', () => {
  let fleet: Fleet;
  let restarts = 0;

  beforeAll(async () => {
    const rollingUpdate = { maxUnavailable: '20%' };
    fleet = await fleetOf({ replicas: 20, rollingUpdate, containers: [container('app')] });
  });

  /** Updates all pods during a disturbance; checked at every event of the watch. */
  async function updateDuring(disturb: (image: string) => Promise<void>): Promise<void> {
    const image = restarts % 2 === 0 ? images.new : images.old;
    const sinceMs = Date.now();
    await fleet.update(image);
    await waitFor('a few pods', () => fleet.ofImage(image).length >= 4);
    await disturb(image);
    await fleet.untilUpdated(20);
    await judgeHistory(local, fleet, sinceMs);
    restarts++;
    fleet.neverFewerReady(16);
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
    // it is limited by its budget, even if Temporal is stopped late
    await fleet.update(image, { minReadySeconds: 3600 });
    await waitFor('a few pods', () => fleet.ofImage(image).length >= 4);
    await local.part.kill('temporal');
    try {
      await later(12_000); // a permit outlives the last heartbeat that Temporal has confirmed by 10 s
      await fleet.patch({ spec: { minReadySeconds: 0 } });
      await fleet.until('what has begun to end', ({ status }) => status?.availableReplicas === 20);
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
    fleet.neverFewerReady(16);
  });
});

/** For a test that something does not happen: there is no condition to wait for. */
function later(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
