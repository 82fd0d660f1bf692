import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { bundleWorkflowCode, Worker, type WorkflowBundleWithSourceMap } from '@temporalio/worker';
import type { ContainerRecreateRequestStatus } from '../../api/container-recreate-request/types.ts';
import { changedSignal, queues } from '../../api/engine/operations.ts';
import { dataConverter } from '../../process/payload-limit.ts';
import { expectStops } from '../support/expect-stops.ts';
import { describeAlone } from '../support/groups.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { outcomeOf, type TestRequest } from '../support/requests.ts';
import { type RunningRole, startWatcher, startWorker, type WatcherMeans } from '../support/roles.ts';
import { startTemporal, type TemporalServer } from '../support/temporal-server.ts';
import { waitFor } from '../support/wait.ts';
import { startWindlass, type Windlass } from '../support/windlass.ts';

/** Failures are reported and retried sooner than in production. Without versioning any worker may take any run. */
const settings = [
  'system.enableDeploymentVersions=false',
  'system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=2',
  'history.defaultWorkflowTaskTimeout="2s"',
  'history.workflowTaskRetryMaxInterval="1s"',
];

/** A full pass every second, and a short patience. Tests of what never happens would wait too long otherwise. */
const impatient = ['--full-pass-period=1s', '--engine-stuck-after=2s'];
const patient = ['--full-pass-period=1s', '--engine-stuck-after=1h'];

let brokenCode: Promise<WorkflowBundleWithSourceMap>;
let temporal: TemporalServer;
let windlass: Windlass;
const running: { watcher?: RunningRole; worker?: RunningRole } = {};

beforeAll(async () => {
  const workflowsPath = fileURLToPath(new URL('../support/broken-workflows.ts', import.meta.url));
  brokenCode = bundleWorkflowCode({ workflowsPath });
  temporal = await startTemporal(settings);
  windlass = await startWindlass({ temporalAddress: temporal.address, watcher: false, worker: false });
});

afterAll(async () => {
  await Promise.all([running.watcher?.stop(), running.worker?.stop()]);
  await windlass?.stop();
  await temporal?.stop();
});

/** Makes this watcher the only one. */
async function watch(means: WatcherMeans): Promise<void> {
  await running.watcher?.stop();
  running.watcher = await startWatcher(windlass, { build: 'test', ...means });
}

/** Makes this worker the only one of its queue. */
async function work(start: () => Promise<RunningRole>): Promise<void> {
  await running.worker?.stop();
  running.worker = await start();
}

const ours = () => startWorker(windlass);

/** A worker whose workflow code cannot continue our runs. It runs no activities. */
async function broken(): Promise<RunningRole> {
  const worker = await Worker.create({
    connection: windlass.connection,
    taskQueue: queues.cluster,
    dataConverter,
    workflowBundle: await brokenCode,
  });
  const ends = worker.run();
  return {
    async stop() {
      worker.shutdown();
      await ends;
    },
  };
}

async function runOf({ operation }: TestRequest) {
  const { runId, memo, raw } = await operation.describe();
  return { runId, memo: memo ?? {}, attempt: raw.pendingWorkflowTask?.attempt ?? 0 };
}

async function closingReasonOf({ workflowId }: TestRequest, runId: string): Promise<string | null | undefined> {
  const { events = [] } = await windlass.client.workflow.getHandle(workflowId, runId).fetchHistory();
  return events?.at(-1)?.workflowExecutionTerminatedEventAttributes?.reason;
}

function saysStuck({ waitingFor }: ContainerRecreateRequestStatus, anew: boolean): boolean {
  return waitingFor?.reason === 'EngineStuck' && waitingFor.unblock.includes('although it was started again') === anew;
}

describeAlone('a run whose workflow task fails again and again', () => {
  it('is reported on its object until workers can run it, and then continues', async () => {
    await watch({ options: patient });
    await work(ours);
    const { request, pod, ready } = await inTheMiddle(windlass);
    const { runId } = await runOf(request);

    await work(broken);
    await request.operation.signal(changedSignal, null);
    const stuck = await request.waitsFor('EngineStuck');
    expect(stuck.status).toMatchObject({
      phase: 'Recreating',
      waitingFor: { blockedBy: [`workflow/${request.workflowId}`] },
    });
    expect(stuck.status?.waitingFor?.unblock).toContain(
      `temporal workflow terminate --namespace default --workflow-id ${request.workflowId}`,
    );

    await work(ours);
    await request.waitsFor('ContainerNotReady');
    ready();
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expectStops(windlass.node.stopsOf(pod), ['app', 'proxy']);
    expect(await runOf(request)).toMatchObject({ runId });
  });

  it('is terminated and restarted, once per build, whichever watcher leads', async () => {
    await watch({ options: impatient });
    await work(ours);
    const { request, pod, ready } = await inTheMiddle(windlass);
    const first = await runOf(request);
    expect(first.memo).not.toHaveProperty('begunAnew');

    await work(broken);
    await request.operation.signal(changedSignal, null);
    const second = await waitFor('the run to begin anew', async (see) => {
      const now = see(await runOf(request));
      return now.runId === first.runId ? undefined : now;
    });
    expect(second.memo).toMatchObject({ build: 'test', begunAnew: 'test' });
    expect(await closingReasonOf(request, first.runId)).toMatch(
      /^Stuck for 2 s: .*; it is started again, once for build test$/,
    );
    await request.until('said to be stuck again', (status) => saysStuck(status, true));

    // nothing more is done for this build, by any leader, however often it fails
    await watch({ options: impatient });
    const { attempt } = await runOf(request);
    await waitFor('more failures', async (see) => see(await runOf(request)).attempt >= attempt + 2);
    expect(await runOf(request)).toMatchObject({ runId: second.runId });
    expect((await request.read())?.status?.waitingFor?.reason).toBe('EngineStuck');

    // another build may be able to
    await watch({ options: impatient, build: 'next' });
    const third = await waitFor('the run to begin anew', async (see) => {
      const now = see(await runOf(request));
      return now.runId === second.runId ? undefined : now;
    });
    expect(third.memo).toMatchObject({ build: 'next', begunAnew: 'next' });
    await request.until('said to be stuck again', (status) => saysStuck(status, true));

    await work(ours);
    await request.waitsFor('ContainerNotReady');
    ready();
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expectStops(windlass.node.stopsOf(pod), ['app', 'proxy']);
    expect(await runOf(request)).toMatchObject({ runId: third.runId });
  });
});
