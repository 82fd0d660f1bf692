import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { CloneSet } from '../../api/cloneset/types.ts';
import type { Event } from '../../api/core/event.ts';
import type { Container, Pod } from '../../api/core/pod.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { type DaemonSet, daemonSets } from '../../api/daemon-set/types.ts';
import { searchAttributes } from '../../api/engine/operations.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import { type StatefulSet, statefulSets } from '../../api/stateful-set/types.ts';
import { busyboxImage } from '../../deploy/local/base-images.ts';
import { ensureDebianTools } from '../../deploy/local/debian.ts';
import { fileEntry, type LayerEntry } from '../../deploy/local/images.ts';
import { silentProgress } from '../../deploy/local/progress.ts';
import { newGate } from '../support/gate.ts';
import { describeAlone, describeProof } from '../support/groups.ts';
import { TestRegistry } from '../support/test-registry.ts';
import { waitFor } from '../support/wait.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';
import { reachableByNodes } from './reachable-registry.ts';

let cluster: LocalCluster;
let host: string;
let files: readonly LayerEntry[];
/** The same with a shell and its tools, as the images of the samples have them. */
let shell: readonly LayerEntry[];
const registry = new TestRegistry();
const preDownload = '--feature-gates=PreDownloadImageForInPlaceUpdate=true,PreDownloadImageForDaemonSetUpdate=true';

beforeAll(async () => {
  cluster = await localCluster();
  const debian = await ensureDebianTools(silentProgress);
  files = [fileEntry('bin/busybox', debian.busybox)];
  shell = (await busyboxImage(debian, 'catalog')).layers.flat();
  await registry.start();
  host = reachableByNodes(registry.port);
  await waitFor('a NodeImage for each node', async (see) => {
    const names = see(await cluster.ok(['get', 'nodeimages', '-o', 'name'])).split('\n');
    return ['node-1', 'node-2'].every((name) => names.includes(`nodeimage.apps.kruise.io/${name}`));
  });
  await cluster.part.start('watcher', [preDownload]);
});

afterAll(async () => {
  await cluster.part.stop('watcher');
  await cluster.part.start('watcher');
  await registry.stop();
  await cluster.close();
});

const replicas = 4;

/** A CloneSet of four pods that are spread over both nodes. */
function manifest(image: string, annotations: Readonly<Record<string, string>> = {}): object {
  const labels = { app: 'web' };
  const spread = { topologyKey: 'kubernetes.io/hostname', maxSkew: 1, whenUnsatisfiable: 'DoNotSchedule' };
  const container = {
    name: 'app',
    image,
    command: ['/bin/busybox', 'sleep', '99999'],
    imagePullPolicy: 'IfNotPresent',
  };
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'CloneSet',
    metadata: { name: 'web', annotations },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      updateStrategy: {
        rollingUpdate: {
          podUpdatePolicy: 'InPlaceIfPossible',
          maxUnavailable: 1,
          inPlaceUpdateStrategy: { imagePreDownloadParallelism: 2 },
        },
      },
      template: {
        metadata: { labels },
        spec: {
          terminationGracePeriodSeconds: 1,
          topologySpreadConstraints: [{ ...spread, labelSelector: { matchLabels: labels } }],
          containers: [container],
        },
      },
    },
  };
}

async function apply(namespace: string, set: object): Promise<void> {
  await cluster.ok(['apply', '-n', namespace, '-f', '-'], JSON.stringify(set));
}

async function itemsOf<T>(kind: string, namespace: string): Promise<readonly T[]> {
  const text = await cluster.ok(['get', kind, '-n', namespace, '-o', 'json']);
  return (JSON.parse(text) as { readonly items: readonly T[] }).items;
}

async function until(namespace: string, what: string, holds: (set: CloneSet) => boolean): Promise<CloneSet> {
  return await untilHolds(() => cluster.get<CloneSet>('cloneset', namespace, 'web'), what, holds);
}

/** Waits until the status is about the current spec and the object fulfils a condition. */
async function untilHolds<Owner extends CloneSet | StatefulSet | DaemonSet>(
  read: () => Promise<Owner>,
  what: string,
  holds: (set: Owner) => boolean,
): Promise<Owner> {
  return await waitFor(what, async (see) => {
    const set = await read();
    see(set.status);
    return set.status?.observedGeneration === set.metadata.generation && holds(set) && set;
  });
}

function updated({ status }: CloneSet): boolean {
  return status?.updatedReadyReplicas === replicas;
}

/** The restart counts of a container in the pods, by pod. */
async function restartsOf(namespace: string, name: string): Promise<Readonly<Record<string, number | undefined>>> {
  const pods = await itemsOf<Pod>('pods', namespace);
  const countOf = ({ status }: Pod) => status?.containerStatuses?.find((one) => one.name === name)?.restartCount;
  return Object.fromEntries(pods.map((pod) => [pod.metadata.name, countOf(pod)]));
}

function nodesThatPulled(repository: string): number {
  return new Set(registry.callsFor(repository, 'layer').map(({ from }) => from)).size;
}

/** The kubelets' Events about pulls of this image: they pull no image that exists. */
async function pulledByKubelets(namespace: string, image: string): Promise<readonly string[]> {
  const events = await itemsOf<Event>('events', namespace);
  return events
    .filter(({ reason, message }) => reason === 'Pulling' && message.includes(image))
    .map(({ message }) => message);
}

/** The sample in a namespace of its own, with all pods ready. */
async function catalog() {
  const namespace = await cluster.newNamespace();
  const read = () => cluster.get<StatefulSet>('asts', namespace, 'catalog-db');
  await cluster.applySample('stateful-set-pre-download.yaml', namespace);
  const { spec } = await untilHolds(read, 'all pods to be ready', isUpdated);
  const { containers } = spec.template.spec as unknown as { readonly containers: readonly Container[] };
  return {
    namespace,
    until: (what: string, holds: (set: StatefulSet) => boolean) => untilHolds(read, what, holds),
    async update(image: string, rollingUpdate: object = {}) {
      const changed = containers.map((one) => (one.name === 'db' ? { ...one, image } : one));
      const patch = { template: { spec: { containers: changed } }, updateStrategy: { rollingUpdate } };
      await cluster.cluster.kube.patch(statefulSets, { namespace, name: 'catalog-db' }, 'merge', { spec: patch });
    },
  };
}

function isUpdated({ status }: StatefulSet): boolean {
  return status?.updatedReadyReplicas === 5;
}

function isOnAllNodes({ status }: DaemonSet): boolean {
  return status?.updatedNumberScheduled === 2 && status.numberReady === 2;
}

describeAlone('a workload whose image changes', () => {
  it.concurrent('CS-101, CS-104: a CloneSet has it pulled on the nodes of its pods, by a job that goes with the update', async () => {
    registry.serve('ahead/app', { files });
    const namespace = await cluster.newNamespace();
    const image = `${host}/ahead/app:1`;
    await apply(namespace, manifest('busybox:1.36'));
    await until(namespace, 'all pods to be ready', updated);

    // paused, so that the job pulls the image and no pod does
    const paused = manifest(image) as CloneSet;
    const rollingUpdate = { ...paused.spec.updateStrategy?.rollingUpdate, paused: true };
    await apply(namespace, { ...paused, spec: { ...paused.spec, updateStrategy: { rollingUpdate } } });
    const [job] = await waitFor('the job to end', async (see) => {
      const jobs = see(await itemsOf<ImagePullJob>('imagepulljobs', namespace));
      return jobs[0]?.status?.completionTime !== undefined && jobs;
    });
    expect(job).toMatchObject({
      metadata: { ownerReferences: [{ kind: 'CloneSet', name: 'web', controller: true }] },
      spec: { image, parallelism: 2, pullPolicy: { timeoutSeconds: 300, backoffLimit: 1 } },
      status: { desired: 2, succeeded: 2, failed: 0 },
    });
    expect(nodesThatPulled('ahead/app')).toBe(2);
    const { status } = await until(namespace, 'the pause', (set) => set.status?.waitingFor?.reason === 'Paused');
    expect(status?.updatedReplicas).toBe(0);
    expect(job?.metadata.name).toBe(`${status?.updateRevision}-app`);
    await waitFor('the revision to be marked, and no other', async (see) => {
      const revisions = await itemsOf<ControllerRevision>('controllerrevisions', namespace);
      const marked = revisions.filter(({ metadata }) => metadata.labels?.['apps.kruise.io/pre-predownload-created']);
      return see(marked.map(({ metadata }) => metadata.name)).join() === status?.updateRevision;
    });
    await waitFor('the Event', async (see) => {
      const events = see(await itemsOf<Event>('events', namespace));
      return events.some(({ reason, message }) => reason === 'CreatedImagePullJob' && message.endsWith(image));
    });

    await apply(namespace, manifest(image));
    await until(namespace, 'all pods to be updated', updated);
    await waitFor('the job to go', async (see) => see(await itemsOf('imagepulljobs', namespace)).length === 0);
    expect(await pulledByKubelets(namespace, image)).toEqual([]);
  });

  it.concurrent('a CloneSet disturbs no pod before it is on the nodes, if asked to wait, and names those that lack it', async () => {
    const gate = newGate();
    registry.serve('awaited/app', { files, until: gate.opened });
    const namespace = await cluster.newNamespace();
    const annotations = { [windlassAnnotation.prefetch]: '100%' };
    await apply(namespace, manifest('busybox:1.36', annotations));
    await until(namespace, 'all pods to be ready', updated);
    const image = `${host}/awaited/app:1`;
    await apply(namespace, manifest(image, annotations));
    await waitFor('both nodes to pull', () => nodesThatPulled('awaited/app') === 2);
    const held = await until(
      namespace,
      'the wait',
      ({ status }) => status?.waitingFor?.reason === 'ImageNotReady' && status.waitingFor.blockedCount === 2,
    );
    expect(held.status?.waitingFor?.blockedBy).toEqual(['node/node-1', 'node/node-2']);
    expect(held.status).toMatchObject({ updatedReplicas: 0, readyReplicas: replicas });
    const jobs = await itemsOf<ImagePullJob>('imagepulljobs', namespace);
    const query = `${searchAttributes.cause} = "${rollOutId(held.metadata)}"`;
    await waitFor('the pre-download to be found by what has caused it', async (see) => {
      const caused: string[] = [];
      for await (const { workflowId } of cluster.temporal.workflow.list({ query })) caused.push(workflowId);
      return see(caused).join() === jobs.map(({ metadata }) => pullOnNodesId(metadata)).join();
    });
    gate.open();
    await until(namespace, 'all pods to be updated', updated);
    expect(await pulledByKubelets(namespace, image)).toEqual([]);
  });

  it.concurrent('AS-100, AS-101, PRE-3: a StatefulSet has it pulled on the nodes of its pods once the first one is updated, by a job that goes with the update', async () => {
    registry.serve('ahead/catalog', { files: shell });
    const image = `${host}/ahead/catalog:1`;
    const { namespace, until, update } = await catalog();
    const [db, exporter] = [await restartsOf(namespace, 'db'), await restartsOf(namespace, 'exporter')];

    await update(image, { partition: 4 });
    const first = await until('the first pod', ({ status }) => status?.updatedReadyReplicas === 1);
    const [job] = await waitFor('the job to end', async (see) => {
      const jobs = see(await itemsOf<ImagePullJob>('imagepulljobs', namespace));
      return jobs[0]?.status?.completionTime !== undefined && jobs;
    });
    expect(job).toMatchObject({
      metadata: {
        name: `${first.status?.updateRevision}-db`,
        ownerReferences: [{ kind: 'StatefulSet', name: 'catalog-db', controller: true }],
      },
      spec: { image, parallelism: 2, pullPolicy: { timeoutSeconds: 600, backoffLimit: 1 } },
      status: { desired: 2, succeeded: 2, failed: 0 },
    });
    expect(nodesThatPulled('ahead/catalog')).toBe(2);
    expect(await itemsOf('imagepulljobs', namespace)).toHaveLength(1);

    await update(image, { partition: 0 });
    await until('all pods to be updated', isUpdated);
    await waitFor('the job to go', async (see) => see(await itemsOf('imagepulljobs', namespace)).length === 0);
    expect(await pulledByKubelets(namespace, image)).toHaveLength(1);
    const once = Object.entries(db).map(([pod, count = Number.NaN]) => [pod, count + 1]);
    expect(await restartsOf(namespace, 'db')).toEqual(Object.fromEntries(once));
    expect(await restartsOf(namespace, 'exporter')).toEqual(exporter);
  });

  it.concurrent('a StatefulSet disturbs no pod before it is on the nodes, if asked to wait, and names those that lack it', async () => {
    const gate = newGate();
    registry.serve('awaited/catalog', { files: shell, until: gate.opened });
    const image = `${host}/awaited/catalog:1`;
    const { namespace, until, update } = await catalog();
    await cluster.ok(['annotate', 'asts', 'catalog-db', '-n', namespace, `${windlassAnnotation.prefetch}=100%`]);
    await update(image);
    const { status } = await until(
      'the wait',
      ({ status }) => status?.waitingFor?.reason === 'ImageNotReady' && status.waitingFor.blockedCount === 2,
    );
    expect(status?.waitingFor?.blockedBy).toEqual(['node/node-1', 'node/node-2']);
    expect(status).toMatchObject({ updatedReplicas: 0, readyReplicas: 5 });
    gate.open();
    await until('all pods to be updated', isUpdated);
    expect(await pulledByKubelets(namespace, image)).toEqual([]);
  });

  it.concurrent('AD-50: a DaemonSet has it on every node before the first pod is updated in place, by a job that goes with the update', async () => {
    const gate = newGate();
    registry.serve('ahead/agent', { files: shell, until: gate.opened });
    const image = `${host}/ahead/agent:1`;
    const namespace = await cluster.newNamespace();
    const read = () => cluster.get<DaemonSet>('ads', namespace, 'log-agent');
    const until = (what: string, holds: (set: DaemonSet) => boolean) => untilHolds(read, what, holds);
    await cluster.applySample('daemon-set.yaml', namespace);
    const { spec } = await until('all pods to be ready', isOnAllNodes);
    const before = await restartsOf(namespace, 'agent');
    await waitFor(
      'the job of the first revision to go',
      async (see) => see(await itemsOf('imagepulljobs', namespace)).length === 0,
    );

    const { containers } = spec.template.spec as unknown as { readonly containers: readonly Container[] };
    const patch = { template: { spec: { containers: containers.map((one) => ({ ...one, image })) } } };
    await cluster.cluster.kube.patch(daemonSets, { namespace, name: 'log-agent' }, 'merge', { spec: patch });
    const { status } = await until(
      'the wait',
      ({ status: now }) => now?.waitingFor?.reason === 'ImageNotReady' && now.waitingFor.blockedCount === 2,
    );
    expect(status?.waitingFor?.blockedBy).toEqual(['node/node-1', 'node/node-2']);
    expect(status).toMatchObject({ updatedNumberScheduled: 0, numberReady: 2 });
    const job = await waitFor(
      'its job',
      async (see) => see(await itemsOf<ImagePullJob>('imagepulljobs', namespace))[0],
    );
    expect(job).toMatchObject({
      metadata: {
        name: `log-agent-${status?.updateRevision}-agent`,
        ownerReferences: [{ kind: 'DaemonSet', name: 'log-agent', controller: true }],
      },
      spec: { image, parallelism: 10 },
    });
    gate.open();
    await until('all pods to be updated', isOnAllNodes);
    await waitFor('the job to go', async (see) => see(await itemsOf('imagepulljobs', namespace)).length === 0);
    expect(await pulledByKubelets(namespace, image)).toEqual([]);
    const once = Object.entries(before).map(([pod, count = Number.NaN]) => [pod, count + 1]);
    expect(await restartsOf(namespace, 'agent')).toEqual(Object.fromEntries(once));
  });
});

describeProof('slow', 'a CloneSet whose image changes', () => {
  it('waits on, and goes on, when worker and watcher are killed meanwhile', async () => {
    const gate = newGate();
    const repository = 'survived/app';
    registry.serve(repository, { files, until: gate.opened });
    const namespace = await cluster.newNamespace();
    const annotations = { [windlassAnnotation.prefetch]: '100%' };
    await apply(namespace, manifest('busybox:1.36', annotations));
    const before = await until(namespace, 'all pods to be ready', updated);
    await apply(namespace, manifest(`${host}/${repository}:1`, annotations));
    const isHeld = ({ status }: CloneSet) =>
      status?.waitingFor?.reason === 'ImageNotReady' && status.waitingFor.blockedCount === 2;
    const held = await until(namespace, 'the wait', isHeld);
    await waitFor('both nodes to pull', () => registry.callsFor(repository, 'layer').length === 2);

    for (const [part, flags] of [
      ['worker', []],
      ['watcher', [preDownload]],
    ] as const) {
      await cluster.part.kill(part);
      await cluster.part.start(part, flags);
      const after = await until(namespace, 'the wait to be told still', isHeld);
      expect(after.status?.waitingFor?.since).toBe(held.status?.waitingFor?.since);
      expect(after.status).toMatchObject({ updatedReplicas: 0, readyReplicas: replicas });
    }

    gate.open();
    const done = await until(namespace, 'all pods to be updated', updated);
    expect(done.status?.currentRevision).not.toBe(before.status?.currentRevision);
    expect(registry.callsFor(repository, 'layer')).toHaveLength(2);
    await waitFor('the job to go', async (see) => see(await itemsOf('imagepulljobs', namespace)).length === 0);
  });
});
