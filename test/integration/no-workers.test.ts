import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { nodeImages } from '../../api/node-image/types.ts';
import { servedBy } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { outcomeOf } from '../support/requests.ts';
import { type RunningRole, type RunningWatcher, startWatcher, startWorker } from '../support/roles.ts';
import { startTemporal, type TemporalServer } from '../support/temporal-server.ts';
import { waitFor } from '../support/wait.ts';
import { startWindlass, type Windlass } from '../support/windlass.ts';

/** Otherwise the server lists a stopped worker for minutes. */
const settings = ['frontend.enableCancelWorkerPollsOnShutdown=true'];

let temporal: TemporalServer;
let windlass: Windlass;
let watcher: RunningWatcher | undefined;
let worker: RunningRole | undefined;

beforeAll(async () => {
  temporal = await startTemporal(settings);
  windlass = await startWindlass({ temporalAddress: temporal.address, watcher: false, worker: false });
  watcher = await startWatcher(windlass);
});

afterAll(async () => {
  await Promise.all([watcher?.stop(), worker?.stop()]);
  await windlass?.stop();
  await temporal?.stop();
});

async function stopWorker(): Promise<void> {
  await worker?.stop();
  worker = undefined;
}

describeAlone('requests while no cluster worker polls', () => {
  it('say EngineNoWorkers, and are carried out when a worker comes', async () => {
    const pod = await windlass.runPod(['app']);
    const request = await windlass.request({ pod, containers: ['app'] });
    const waiting = await request.waitsFor('EngineNoWorkers');
    expect(waiting.status?.waitingFor).toMatchObject({ blockedBy: ['taskqueue/cluster'], blockedCount: 1 });
    expect(waiting.status?.waitingFor?.unblock).toContain('(Deployment windlass-worker');
    expect(waiting.status?.waitingFor?.unblock).toContain('polls queue "cluster" of Temporal namespace "default"');

    worker = await startWorker(windlass, { isMadeCurrent: false });
    const status = await request.ended();
    expect(outcomeOf(status)).toMatchObject({ type: 'Complete' });
    expect(status.waitingFor).toBeUndefined();
  });

  it('say so in the middle, and continue with what they waited for before', async () => {
    worker ??= await startWorker(windlass, { isMadeCurrent: false });
    const { request, ready } = await inTheMiddle(windlass);
    await stopWorker();
    await request.waitsFor('EngineNoWorkers');

    worker = await startWorker(windlass, { isMadeCurrent: false });
    await request.waitsFor('ContainerNotReady');
    ready();
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
  });
});

/** A CloneSet of one pod, and a job that pulls on the node of these tests. */
async function fleetAndJob() {
  const { cluster, node } = windlass;
  await Promise.all([cloneSets, imagePullJobs, nodeImages].map((resource) => servedBy(cluster, resource)));
  const ref = { namespace: await cluster.newNamespace(), name: 'web' };
  const labels = { app: 'web' };
  const containers = (image: string) => ({ template: { spec: { containers: [{ name: 'app', image }] } } });
  const { template } = containers('app:1');
  const spec = { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, ...template } };
  await cluster.kube.create(cloneSets, { metadata: ref, spec });
  const until = <T extends KubeObject>(resource: Resource, what: string, holds: (live: T) => unknown) =>
    waitFor(what, async (see) => {
      const live = see(await cluster.kube.get<T>(resource, ref));
      return holds(live) ? live : undefined;
    });
  await until<CloneSet>(cloneSets, 'the pod', ({ status }) => status?.updatedReplicas === 1);
  await cluster.kube.create(nodeImages, { metadata: { name: node.ref.name }, spec: {} });
  return {
    async ask() {
      await cluster.kube.patch(cloneSets, ref, 'merge', { spec: containers('app:2') });
      const selector = { names: [node.ref.name] };
      await cluster.kube.create(imagePullJobs, { metadata: ref, spec: { image: 'app:2', selector } });
    },
    async waitFor(reason: string) {
      const isSo = ({ status }: CloneSet | ImagePullJob) => status?.waitingFor?.reason === reason;
      return await Promise.all([
        until<CloneSet>(cloneSets, `the CloneSet to say ${reason}`, isSo),
        until<ImagePullJob>(imagePullJobs, `the job to say ${reason}`, isSo),
      ]);
    },
    async done() {
      await Promise.all([
        until<CloneSet>(cloneSets, 'the pod to be updated', ({ status }) => status?.updatedReplicas === 1),
        until<ImagePullJob>(imagePullJobs, 'the image to be pulled', ({ status }) => status?.succeeded === 1),
      ]);
    },
  };
}

describeAlone('while the daemon of a node and the worker of queue fleet are down', () => {
  it('objects say EngineNoDaemon and EngineNoFleetWorker, also before they have begun, and continue when both are back', async () => {
    worker ??= await startWorker(windlass, { isMadeCurrent: false });
    const { request, ready } = await inTheMiddle(windlass);
    const pod = await windlass.runPod(['app']);
    const fleets = await fleetAndJob();
    await Promise.all([windlass.node.stopDaemon(), watcher?.stopFleetWorker()]);
    await fleets.ask();
    const other = await windlass.request({ pod, containers: ['app'] });
    const waiting = await Promise.all([request, other].map((each) => each.waitsFor('EngineNoDaemon')));
    for (const { status } of waiting) expect(status?.waitingFor?.blockedBy).toEqual([`node/${windlass.node.ref.name}`]);
    for (const { status } of await fleets.waitFor('EngineNoFleetWorker')) {
      expect(status?.waitingFor).toMatchObject({
        blockedBy: ['taskqueue/fleet'],
        unblock: expect.stringMatching(
          /\(Deployment windlass-watcher.*nobody has served queue "fleet" of Temporal namespace "default" since 20/,
        ),
      });
    }

    watcher?.startFleetWorker();
    await windlass.node.startDaemon(windlass.connection);
    await request.waitsFor('ContainerNotReady');
    ready();
    for (const status of await Promise.all([request.ended(), other.ended()])) {
      expect(outcomeOf(status)).toMatchObject({ type: 'Complete' });
      expect(status.waitingFor).toBeUndefined();
    }
    await fleets.done();
  });
});
