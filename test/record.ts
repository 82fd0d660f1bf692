/**
 * `npm run record`: plays one scenario for each branch of each workflow on a real API server and a real Temporal, and
 * saves the histories in test/replay/histories/<workflow>/<branch>.json, from where `npm test -- replay` replays them.
 * `npm run record -- rollOut` records one workflow, `npm run record -- rollOut paused` those of its scenarios whose name
 * contains the word. Histories of releases (docs/histories.md) are never recorded again.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import { restartContainersId, restartContainersType } from '../api/container-recreate-request/operation.ts';
import { kubeResource } from '../api/core/well-known.ts';
import { changedSignal } from '../api/engine/operations.ts';
import { rollOutType } from '../api/fleet/operation.ts';
import { pullOnNodesType } from '../api/image-pull-job/operation.ts';
import { terminateSidecarsType } from '../api/job-sidecar-termination.ts';
import { pullImagesType } from '../api/node-image/operation.ts';
import type { PerOperation } from '../api/operations.ts';
import { swapSidecarType } from '../api/sidecar-set/swap.ts';
import { repository } from '../deploy/local/instance.ts';
import { withPlatform } from './runner/platform.ts';
import { operationOn, podWithEnvironment, setGate, setTier } from './support/environment.ts';
import { type Gate, newGate } from './support/gate.ts';
import { recordedHistory } from './support/history.ts';
import { type JobOptions, marks, startJob, type TestJob } from './support/jobs.ts';
import { NodePlayer, type PlayedPod, type PodOptions } from './support/kubelet-player.ts';
import { startPlayedSwaps } from './support/played-swaps.ts';
import { pullImagesScenarios, pullOnNodesScenarios } from './support/recorded-pulls.ts';
import { rollOutScenarios } from './support/recorded-roll-outs.ts';
import { swapScenarios } from './support/recorded-swaps.ts';
import type { RequestOptions, TestRequest } from './support/requests.ts';
import { startRollOuts } from './support/trivial-roll-outs.ts';
import { waitFor } from './support/wait.ts';
import { startWindlass, type Windlass } from './support/windlass.ts';

/** Plays one scenario to its end, and answers the runs to keep, by branch. */
type Scenario = (windlass: Windlass) => Promise<Readonly<Record<string, WorkflowHandle>>>;

const instance = 'record';

/** How many scenarios are played at once: most of their time they wait. */
const atOnce = 8;
const histories = join(repository, 'test/replay/histories');

/** Both containers of a pod are asked for; what the first one takes is in the hands of the scenario. */
interface Play {
  readonly pod: PlayedPod;
  readonly request: TestRequest;
  readonly stopped: Gate;
  readonly ready: Gate;
}

async function play(
  windlass: Windlass,
  options: Partial<RequestOptions> & { readonly podOptions?: Partial<PodOptions>; readonly stopFails?: string } = {},
): Promise<Play> {
  const { podOptions = {}, stopFails, ...rest } = options;
  const [stopped, ready] = [newGate(), newGate()];
  const pod = await windlass.runPod(options.containers ?? ['app', 'proxy'], podOptions);
  const script = { stopTakes: stopped.opened, readyTakes: ready.opened };
  pod.script('app', stopFails === undefined ? script : { ...script, stopFails });
  const request = await windlass.request({ pod, containers: ['app', 'proxy'], ...rest });
  return { pod, request, stopped, ready };
}

/** Plays until the first container is stopped and not ready. */
async function playToTheMiddle(windlass: Windlass, options: Parameters<typeof play>[1] = {}): Promise<Play> {
  const strategy = { orderedRecreate: true, ...options.strategy };
  const begun = await play(windlass, { ...options, strategy });
  begun.stopped.open();
  await begun.request.waitsFor('ContainerNotReady');
  return begun;
}

/** Plays without hindrance. */
async function playThrough(windlass: Windlass, options: Parameters<typeof play>[1] = {}): Promise<WorkflowHandle> {
  const { request, stopped, ready } = await play(windlass, options);
  stopped.open();
  ready.open();
  await request.ended();
  return request.operation;
}

/** The run that is under way now. */
async function currentRun({ client }: Windlass, { operation, workflowId }: TestRequest): Promise<WorkflowHandle> {
  const { runId } = await operation.describe();
  return client.workflow.getHandle(workflowId, runId);
}

const restarts: Readonly<Record<string, Scenario>> = {
  // these two take a minute, so they begin first
  async daemonAway(windlass) {
    const own = await NodePlayer.join(windlass.cluster);
    await own.startDaemon(windlass.connection);
    const namespace = await windlass.cluster.newNamespace();
    const pod = await own.runPod({ namespace, containers: ['app', 'proxy'] });
    const stopped = newGate();
    pod.script('app', { stopTakes: stopped.opened });
    const request = await windlass.request({ pod, containers: ['app', 'proxy'] });
    await own.begunToStop(pod, 'app');
    await own.stopDaemon();
    stopped.open();
    // longer than the node may leave a step lying
    await request.waitsFor('NodeSilent');
    await own.startDaemon(windlass.connection);
    await request.ended();
    await own.stopDaemon();
    return { 'daemon-away': request.operation };
  },

  async nodeSilent(windlass) {
    const silent = await NodePlayer.join(windlass.cluster);
    const namespace = await windlass.cluster.newNamespace();
    const pod = await silent.runPod({ namespace, containers: ['app'] });
    const request = await windlass.request({ pod, containers: ['app'] });
    await request.ended();
    return { 'node-silent': request.operation };
  },
  ordered: async (windlass) => ({ ordered: await playThrough(windlass, { strategy: { orderedRecreate: true } }) }),
  unordered: async (windlass) => ({ unordered: await playThrough(windlass) }),
  forced: async (windlass) => ({
    forced: await playThrough(windlass, { strategy: { orderedRecreate: true, forceRecreate: true } }),
  }),
  minStarted: async (windlass) => ({
    'min-started': await playThrough(windlass, { strategy: { minStartedSeconds: 1 } }),
  }),
  stopFailed: async (windlass) => ({
    'stop-failed': await playThrough(windlass, { stopFails: 'context deadline exceeded' }),
  }),
  stopFailedIgnored: async (windlass) => ({
    'stop-failed-ignored': await playThrough(windlass, {
      stopFails: 'context deadline exceeded',
      strategy: { failurePolicy: 'Ignore' },
    }),
  }),
  noRuntime: async (windlass) => ({ 'no-runtime': await playThrough(windlass, { podOptions: { runtime: 'docker' } }) }),

  async manyContainers(windlass) {
    const containers = Array.from({ length: 15 }, (_, index) => `app-${index}`);
    return { 'many-containers': await playThrough(windlass, { containers }) };
  },

  async drained(windlass) {
    const pod = await windlass.runPod(['app'], { gate: true });
    const request = await windlass.request({
      pod,
      containers: ['app'],
      strategy: { unreadyGracePeriodSeconds: 1 },
    });
    await request.ended();
    return { drained: request.operation };
  },

  async delayed(windlass) {
    return { delayed: await playThrough(windlass, { strategy: { unreadyGracePeriodSeconds: 1 } }) };
  },

  async replaced(windlass) {
    const { request, pod, stopped, ready } = await play(windlass, { containers: ['app', 'proxy', 'logger'] });
    await windlass.node.begunToStop(pod, 'app');
    const behind = await windlass.request({ pod, containers: ['logger'] });
    await behind.waitsFor('Queued');
    const first = await currentRun(windlass, request);
    await pod.crash('logger');
    stopped.open();
    ready.open();
    await behind.ended();
    return { 'handed-over': first, replaced: behind.operation };
  },

  async deadline(windlass) {
    const { request, pod, stopped, ready } = await play(windlass, { activeDeadlineSeconds: 15 });
    await windlass.node.begunToStop(pod, 'app');
    await request.ended();
    stopped.open();
    await request.untilContainer('app', 'Recreating');
    ready.open();
    return { 'deadline-during-stop': request.operation };
  },

  async deadlineWhileWaiting(windlass) {
    const { request, ready } = await playToTheMiddle(windlass, { activeDeadlineSeconds: 15 });
    await request.ended();
    ready.open();
    return { 'deadline-while-waiting': request.operation };
  },

  async aborted(windlass) {
    const { request, ready } = await playToTheMiddle(windlass);
    await request.operation.signal('abort', { by: 'ann' });
    await request.ended();
    ready.open();
    return { aborted: request.operation };
  },

  async abortedWithoutName(windlass) {
    const { request, ready } = await playToTheMiddle(windlass);
    await request.operation.signal('abort');
    await request.ended();
    ready.open();
    return { 'aborted-without-name': request.operation };
  },

  async cancelled(windlass) {
    const { request, ready } = await playToTheMiddle(windlass);
    await request.operation.cancel();
    await request.ended();
    ready.open();
    return { cancelled: request.operation };
  },

  async paused(windlass) {
    const { request, ready } = await playToTheMiddle(windlass);
    await request.operation.signal('pause', null);
    ready.open();
    await request.untilContainer('app', 'Succeeded');
    await request.waitsFor('Paused');
    await request.operation.signal('resume', { by: 'ann' });
    await request.ended();
    return { paused: request.operation };
  },

  async skipped(windlass) {
    const { request, ready } = await playToTheMiddle(windlass);
    await request.operation.signal('skip', 'that one');
    await request.ended();
    ready.open();
    return { skipped: request.operation };
  },

  async retried(windlass) {
    const { request, pod, stopped, ready } = await play(windlass, {
      stopFails: 'context deadline exceeded',
      strategy: { failurePolicy: 'Ignore', forceRecreate: true },
    });
    pod.script('proxy', { readyTakes: ready.opened });
    stopped.open();
    await request.untilContainer('app', 'Failed');
    await request.untilContainer('proxy', 'Recreating');
    pod.script('app', {});
    await request.operation.signal('retry', { by: 'ann', target: 'app' });
    await request.untilContainer('app', 'Succeeded');
    ready.open();
    await request.ended();
    return { retried: request.operation };
  },

  async podGone(windlass) {
    const { request, pod, ready } = await playToTheMiddle(windlass);
    await pod.delete();
    await request.ended();
    ready.open();
    return { 'pod-gone': request.operation };
  },

  async withdrawn(windlass) {
    const { request, pod, stopped, ready } = await play(windlass);
    await windlass.node.begunToStop(pod, 'app');
    await request.delete();
    await request.gone();
    stopped.open();
    ready.open();
    return { withdrawn: request.operation };
  },

  async reset(windlass) {
    const { request, ready } = await playToTheMiddle(windlass, { strategy: { forceRecreate: true } });
    await request.resetToStart();
    ready.open();
    await request.ended();
    return { reset: request.operation };
  },

  async sidecarsStopOnly(windlass) {
    const job = await startJob(windlass, { sidecars: { a: [marks.stops], b: [marks.stops] } });
    job.pod.exit('main');
    await job.ended();
    return { 'stop-only': windlass.client.workflow.getHandle(restartContainersId(job.pod.ref)) };
  },

  async terminated(windlass) {
    const { request, ready } = await playToTheMiddle(windlass, { strategy: { forceRecreate: true } });
    const first = await currentRun(windlass, request);
    await first.terminate('by hand');
    ready.open();
    await request.ended();
    return { terminated: first, 'taken-up-again': request.operation };
  },

  async environment(windlass) {
    const pod = await podWithEnvironment(windlass);
    await setGate(windlass, pod, 'False');
    await setTier(windlass, pod, 'gold');
    await restarted(pod, 'app');
    return { environment: operationOn(windlass, pod) };
  },

  async environmentRefused(windlass) {
    const pod = await podWithEnvironment(windlass);
    pod.script('app', { stopFails: 'permission denied' });
    await setGate(windlass, pod, 'False');
    await setTier(windlass, pod, 'gold');
    const operation = operationOn(windlass, pod);
    await showsReason(operation, 'StopFailed');
    await operation.signal('pause');
    await showsReason(operation, 'Paused');
    pod.script('app', {});
    await operation.signal('resume', { by: 'ann' });
    await restarted(pod, 'app');
    return { 'environment-refused': operation };
  },

  async environmentAborted(windlass) {
    const pod = await podWithEnvironment(windlass);
    pod.script('app', { stopFails: 'permission denied' });
    await setGate(windlass, pod, 'False');
    await setTier(windlass, pod, 'gold');
    const operation = operationOn(windlass, pod);
    await showsReason(operation, 'StopFailed');
    const { runId } = await operation.describe();
    // nothing is old any more, so nobody begins anew
    await setTier(windlass, pod, 'silver');
    await operation.signal('abort', { by: 'ann' });
    return { 'environment-aborted': windlass.client.workflow.getHandle(operation.workflowId, runId) };
  },

  async environmentAfterRequest(windlass) {
    const pod = await podWithEnvironment(windlass);
    const ready = newGate();
    pod.script('proxy', { readyTakes: ready.opened });
    const request = await windlass.request({ pod, containers: ['proxy'] });
    await request.waitsFor('ContainerNotReady');
    const first = await currentRun(windlass, request);
    const operation = { refresh: 'environment', pod: pod.ref, node: windlass.node.ref } as const;
    await first.signal(changedSignal, { operation, generation: 1 });
    await setGate(windlass, pod, 'False');
    await setTier(windlass, pod, 'gold');
    ready.open();
    await restarted(pod, 'app');
    return { 'handed-over-to-environment': first, 'environment-after-request': request.operation };
  },
};

async function restarted(pod: PlayedPod, container: string): Promise<void> {
  await waitFor(`${container} to be restarted`, () => pod.restartsOf(container) === 1);
}

async function showsReason(operation: WorkflowHandle, reason: string): Promise<void> {
  await waitFor(`the operation to wait for ${reason}`, async (see) => {
    const { searchAttributes } = await operation.describe();
    return see(searchAttributes.WindlassReason)?.[0] === reason;
  });
}

/** A job whose sidecar the runtime refuses to stop. */
async function stuckJob(windlass: Windlass, options: JobOptions = {}): Promise<TestJob> {
  const job = await startJob(windlass, options);
  for (const name of Object.keys(options.sidecars ?? { proxy: [] })) job.pod.script(name, { stopFails: 'not now' });
  job.pod.exit('main');
  await job.waitsFor('StopFailed');
  return job;
}

const terminations: Readonly<Record<string, Scenario>> = {
  async sidecarsStopped(windlass) {
    const job = await startJob(windlass, { sidecars: { a: [marks.stops], b: [marks.stops] } });
    job.pod.exit('main');
    await job.ended();
    return { stopped: job.operation };
  },

  async sidecarsIgnored(windlass) {
    const job = await startJob(windlass, { sidecars: { a: [marks.stops], b: [marks.stops, marks.ignored] } });
    job.pod.exit('main');
    await job.ended();
    return { 'exit-code-ignored': job.operation };
  },

  async sidecarsSwapped(windlass) {
    const node = await NodePlayer.join(windlass.cluster);
    const labels = { type: 'virtual-kubelet' };
    await windlass.cluster.kube.patch(kubeResource.nodes, { name: node.ref.name }, 'merge', { metadata: { labels } });
    const job = await startJob(windlass, { node, sidecars: { proxy: [marks.image] } });
    job.pod.exit('main');
    await job.waitsFor('QuickExitPending');
    job.pod.exit('proxy');
    await job.ended();
    return { swapped: job.operation };
  },

  async sidecarsRetried(windlass) {
    const job = await stuckJob(windlass);
    job.pod.script('proxy', {});
    await job.operation.signal('retry', { by: 'ann' });
    await job.ended();
    return { retried: job.operation };
  },

  async sidecarsTriedAgain(windlass) {
    const job = await stuckJob(windlass);
    job.pod.script('proxy', {});
    await job.ended();
    return { 'tried-again': job.operation };
  },

  async sidecarsPaused(windlass) {
    const job = await stuckJob(windlass);
    await job.operation.signal('pause');
    await job.waitsFor('Paused');
    job.pod.script('proxy', {});
    await job.operation.signal('retry', { by: 'ann' });
    await job.operation.signal('resume', { by: 'ann' });
    await job.ended();
    return { paused: job.operation };
  },

  async sidecarsSkipped(windlass) {
    const job = await stuckJob(windlass, { sidecars: { a: [marks.stops], b: [marks.stops] } });
    await job.operation.signal('skip', { by: 'ann', target: 'a' });
    await job.operation.signal('skip', { by: 'ann' });
    await job.ended();
    return { skipped: job.operation };
  },

  async sidecarsAborted(windlass) {
    const job = await stuckJob(windlass);
    await job.operation.signal('abort');
    await job.ended('FAILED');
    return { aborted: job.operation };
  },

  async sidecarsCancelled(windlass) {
    const job = await stuckJob(windlass);
    await job.operation.cancel();
    await job.ended('CANCELLED');
    return { cancelled: job.operation };
  },

  async sidecarsPodGone(windlass) {
    const job = await stuckJob(windlass);
    await job.pod.delete();
    await job.ended();
    return { 'pod-gone': job.operation };
  },
};

/** What plays the scenarios of one workflow. */
type Played<Stage> = Readonly<Record<string, (stage: Stage) => Promise<Readonly<Record<string, WorkflowHandle>>>>>;

async function record(folder: string, name: string, runs: Readonly<Record<string, WorkflowHandle>>): Promise<void> {
  for (const [branch, operation] of Object.entries(runs)) {
    await waitFor(`the run of ${branch} to be over`, async (see) => {
      const { status } = await operation.describe();
      return see(status.name) !== 'RUNNING';
    });
    writeFileSync(join(folder, `${branch}.json`), await recordedHistory(operation));
    console.log(`${name}: ${branch}.json`);
  }
}

/** Records the scenarios whose name contains the word, several at once. One that fails leaves the others alone. */
async function recordAll<Stage extends { stop(): Promise<void> }>(
  workflow: string,
  scenarios: Played<Stage>,
  start: () => Promise<Stage>,
  word: string,
): Promise<void> {
  const folder = join(histories, workflow);
  const left = Object.entries(scenarios)
    .filter(([name]) => name.includes(word))
    .values();
  // what is not recorded any more is not replayed any more
  if (word === '') rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });

  async function recordNext(stage: Stage): Promise<void> {
    for (let next = left.next(); !next.done; next = left.next()) {
      const [name, scenario] = next.value;
      try {
        await record(folder, name, await scenario(stage));
      } catch (error) {
        process.exitCode = 1;
        console.error(`${name}: ${error instanceof Error ? error.message : error}`);
      }
    }
  }
  const stage = await start();
  try {
    await Promise.all(Array.from({ length: atOnce }, () => recordNext(stage)));
  } finally {
    await stage.stop();
  }
}

const [workflow = '', word = ''] = process.argv.slice(2);
await withPlatform({ instance, nodes: 0, windlass: false, keep: process.env.WINDLASS_KEEP === '1' }, async () => {
  const recorders: PerOperation<() => Promise<void>> = {
    restartContainers: () => recordAll(restartContainersType, restarts, () => startWindlass({ instance }), word),
    terminateSidecars: () => recordAll(terminateSidecarsType, terminations, () => startWindlass({ instance }), word),
    pullImages: () => recordAll(pullImagesType, pullImagesScenarios, () => startWindlass({ instance }), word),
    pullOnNodes: () => recordAll(pullOnNodesType, pullOnNodesScenarios, () => startWindlass({ instance }), word),
    rollOut: () => recordAll(rollOutType, rollOutScenarios, () => startRollOuts({ instance }), word),
    swapSidecar: () => recordAll(swapSidecarType, swapScenarios, startPlayedSwaps, word),
  };
  for (const [type, recordOne] of Object.entries(recorders)) {
    if (workflow === '' || workflow === type) await recordOne();
  }
});
