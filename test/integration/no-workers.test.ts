import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { describeAlone } from '../support/groups.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { outcomeOf } from '../support/requests.ts';
import { type RunningRole, startWatcher, startWorker } from '../support/roles.ts';
import { startTemporal, type TemporalServer } from '../support/temporal-server.ts';
import { startWindlass, type Windlass } from '../support/windlass.ts';

/** Otherwise the server lists a stopped worker for minutes. */
const settings = ['frontend.enableCancelWorkerPollsOnShutdown=true'];

let temporal: TemporalServer;
let windlass: Windlass;
let watcher: RunningRole | undefined;
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

describeAlone('requests while the daemon of their node is down', () => {
  it('say EngineNoDaemon, also before they have begun, and continue when it is back', async () => {
    worker ??= await startWorker(windlass, { isMadeCurrent: false });
    const { request, ready } = await inTheMiddle(windlass);
    const pod = await windlass.runPod(['app']);
    await windlass.node.stopDaemon();
    const other = await windlass.request({ pod, containers: ['app'] });
    const waiting = await Promise.all([request, other].map((each) => each.waitsFor('EngineNoDaemon')));
    for (const { status } of waiting) expect(status?.waitingFor?.blockedBy).toEqual([`node/${windlass.node.ref.name}`]);

    await windlass.node.startDaemon(windlass.connection);
    await request.waitsFor('ContainerNotReady');
    ready();
    for (const status of await Promise.all([request.ended(), other.ended()])) {
      expect(outcomeOf(status)).toMatchObject({ type: 'Complete' });
      expect(status.waitingFor).toBeUndefined();
    }
  });
});
