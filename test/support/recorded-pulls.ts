import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { PullInput, PullResult } from '../../activities/cri/pull-contract.ts';
import { changedSignal, handOverSignal } from '../../api/engine/operations.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import { type ImagePullJob, type ImagePullJobSpec, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { pullImagesId } from '../../api/node-image/operation.ts';
import { type ImageTag, type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import type { ActivityName } from '../../workflows/shared/results.ts';
import { fakeNodes } from './fake-nodes.ts';
import { type Gate, newGate } from './gate.ts';
import { NodePlayer } from './kubelet-player.ts';
import { waitFor as waitForShortly } from './wait.ts';
import type { Windlass } from './windlass.ts';

/** Many scenarios start at the same time, on a machine that may be busy. */
function waitFor(...[what, probe]: Parameters<typeof waitForShortly>): ReturnType<typeof waitForShortly> {
  return waitForShortly(what, probe, { deadlineMs: 600_000 });
}

type Scenario = (windlass: Windlass) => Promise<Readonly<Record<string, WorkflowHandle>>>;

const refused: PullResult = {
  kind: 'failed',
  failure: 'registryUnreachable',
  final: false,
  message: 'connection refused',
};

/** A node with these tags of image `app`, and the answers to its pulls. */
async function play(
  windlass: Windlass,
  tags: readonly (string | ImageTag)[],
  options: { readonly pull?: (input: PullInput) => Promise<PullResult>; readonly daemon?: boolean } = {},
) {
  const player = await NodePlayer.join(windlass.cluster);
  if (options.pull) player.pull = options.pull;
  if (options.daemon !== false) await player.startDaemon(windlass.connection);
  const wanted = tags.map((tag) =>
    typeof tag === 'string'
      ? { tag, imagePullPolicy: 'IfNotPresent', pullPolicy: { ttlSecondsAfterFinished: 3_600, backoffLimit: 3 } }
      : tag,
  );
  const { name } = player.ref;
  const created = await windlass.cluster.kube.create<NodeImage>(nodeImages, {
    metadata: { name },
    spec: { images: { app: { tags: wanted } } },
  });
  const operation = windlass.client.workflow.getHandle(pullImagesId(created.metadata));
  const read = () => windlass.cluster.kube.get<NodeImage>(nodeImages, { name });
  return {
    player,
    operation,
    read,
    write: (spec: NodeImage['spec']) => windlass.cluster.kube.patch(nodeImages, { name }, 'merge', { spec }),
    async ended() {
      await waitFor('all tags to end', async (see) => {
        const { status } = see(await read());
        return status !== undefined && status.desired > 0 && status.desired === status.succeeded + status.failed;
      });
      await player.stopDaemon();
      return operation;
    },
  };
}

/** Answers attempts when the gate opens, and until then counts them. */
function held(gate: Gate): (input: PullInput) => Promise<PullResult> {
  return async ({ image }) => {
    await gate.opened;
    return { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true };
  };
}

/** One scenario for each branch of `pullImages`. */
export const pullImagesScenarios: Readonly<Record<string, Scenario>> = {
  // these take long, so they start first
  async silent(windlass) {
    const { player, ended, read } = await play(windlass, ['1'], { daemon: false });
    await waitFor(
      'the silence to be told',
      async (see) => see(await read()).status?.waitingFor?.reason === 'NodeSilent',
    );
    await player.startDaemon(windlass.connection);
    return { 'node-silent': await ended() };
  },

  async runtimeAway(windlass) {
    let isAway = true;
    const { ended, read } = await play(windlass, ['1'], {
      pull: async ({ image }) => {
        if (isAway) throw ApplicationFailure.create({ type: 'Unreachable', message: 'Cannot pull: no runtime' });
        return { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true };
      },
    });
    await waitFor(
      'it to be told',
      async (see) => see(await read()).status?.waitingFor?.reason === 'RuntimeUnreachable',
    );
    isAway = false;
    return { 'runtime-away': await ended() };
  },

  pulled: async (windlass) => ({ pulled: await (await play(windlass, ['1', '2'])).ended() }),

  async many(windlass) {
    const tags = Array.from({ length: 40 }, (_, index) => `${index}`);
    return { many: await (await play(windlass, tags)).ended() };
  },

  async failed(windlass) {
    const none: PullResult = { kind: 'failed', failure: 'notFound', final: true, message: 'not found' };
    return { failed: await (await play(windlass, ['1'], { pull: async () => none })).ended() };
  },

  async triedAgain(windlass) {
    let left = 2;
    const { ended } = await play(windlass, ['1'], {
      pull: async ({ image }) =>
        left-- > 0 ? refused : { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true },
    });
    return { 'tried-again': await ended() };
  },

  async steered(windlass) {
    const gate = newGate();
    let isBroken = true;
    const { player, operation, ended, read } = await play(windlass, ['1', '2', '3'], {
      pull: async (input) => (input.image.tag === '3' && isBroken ? refused : await held(gate)(input)),
    });
    await waitFor('the pulls', () => player.pulls.length >= 3);
    await operation.signal('pause', { by: 'ann' });
    await operation.signal('skip', { by: 'ann', target: 'app:1' });
    await waitFor('the first to be skipped', async (see) => see(await read()).status?.failed === 1);
    isBroken = false;
    await operation.signal('resume');
    await operation.signal('retry', { by: 'ann' });
    gate.open();
    return { steered: await ended() };
  },

  async aborted(windlass) {
    const { player, operation, ended } = await play(windlass, ['1'], { pull: held(newGate()) });
    await waitFor('the pull', () => player.pulls.length === 1);
    await operation.signal('abort', { by: 'ann' });
    return { aborted: await ended() };
  },

  async cancelled(windlass) {
    const { player, operation, ended } = await play(windlass, ['1'], { pull: held(newGate()) });
    await waitFor('the pull', () => player.pulls.length === 1);
    await operation.cancel();
    return { cancelled: await ended() };
  },

  async changed(windlass) {
    const gate = newGate();
    const { player, ended, read, write } = await play(windlass, ['1', '2'], {
      pull: async (input) =>
        input.version === 0 ? await held(gate)(input) : { kind: 'succeeded', imageId: 'app@2', pulled: true },
    });
    await waitFor('the pulls', () => player.pulls.length === 2);
    const { spec } = await read();
    const [first] = spec.images?.app?.tags ?? [];
    if (!first) throw new Error('there is no tag');
    await write({ images: { app: { tags: [{ ...first, version: 1 }] } } });
    return { changed: await ended() };
  },

  async withdrawn(windlass) {
    const { player, operation } = await play(windlass, ['1'], { pull: held(newGate()) });
    await waitFor('the pull', () => player.pulls.length === 1);
    await windlass.cluster.kube.delete(nodeImages, { name: player.ref.name });
    await operation.signal(changedSignal, null);
    await operation.result();
    await player.stopDaemon();
    return { withdrawn: operation };
  },
};

/** A job on nodes whose daemons the scenario plays, and its operation. */
async function playJob(windlass: Windlass, count: number, spec: Partial<ImagePullJobSpec> = {}) {
  const { kube } = windlass.cluster;
  const namespace = await windlass.cluster.newNamespace();
  const nodes = await fakeNodes(windlass.cluster, count);
  const ref = { namespace, name: 'pull' };
  const { metadata } = await kube.create<ImagePullJob>(imagePullJobs, {
    metadata: ref,
    spec: { image: 'app:1', parallelism: 2, selector: { names: nodes.names }, ...spec },
  });
  const workflowId = pullOnNodesId(metadata);
  const operation = windlass.client.workflow.getHandle(workflowId);
  await waitFor('the operation', async (see) => see(await operation.describe().catch(() => undefined)));
  return {
    nodes,
    operation,
    remove: () => kube.delete(imagePullJobs, ref),
    change: (change: Partial<ImagePullJobSpec>) => kube.patch(imagePullJobs, ref, 'merge', { spec: change }),
    async pulls(number: number) {
      await waitFor(`${number} pulls`, async (see) => see(await nodes.pulling()).length === number);
    },
    async condition(type: string, status: string) {
      await waitFor(`condition ${type} to be ${status}`, async (see) => {
        const live = see(await kube.get<ImagePullJob>(imagePullJobs, ref));
        return live.status?.conditions?.some((found) => found.type === type && found.status === status);
      });
    },
    /** Its history has reached this activity, pending or not. */
    async asks(activity: ActivityName, times = 1) {
      await waitFor(`${activity} for the ${times}. time`, async (see) => {
        const { events } = await operation.fetchHistory();
        const names = events?.map((event) => event.activityTaskScheduledEventAttributes?.activityType?.name) ?? [];
        return see(names).filter((name) => name === activity).length >= times;
      });
    },
    /** The run of now. */
    async run() {
      const { runId } = await operation.describe();
      return windlass.client.workflow.getHandle(workflowId, runId);
    },
    /** The operation, once the job has ended: it ends as the job does. */
    async ended() {
      await waitFor('the run to end', async (see) => see((await operation.describe()).status.name) !== 'RUNNING');
      return operation;
    },
  };
}

/** One scenario for each branch of `pullOnNodes`. */
export const pullOnNodesScenarios: Readonly<Record<string, Scenario>> = {
  async pulled(windlass) {
    const { nodes, ended } = await playJob(windlass, 3);
    const playing = nodes.endAll();
    const operation = await ended();
    await playing.stop();
    return { pulled: operation };
  },

  async waves(windlass) {
    const { nodes, ended } = await playJob(windlass, 45, { parallelism: 5 });
    const playing = nodes.endAll();
    const operation = await ended();
    await playing.stop();
    return { waves: operation };
  },

  async nodesFailed(windlass) {
    const { nodes, pulls, ended } = await playJob(windlass, 2);
    await pulls(2);
    const [first = '', second = ''] = nodes.names;
    await nodes.end(first, 'Failed', 'not found');
    await nodes.end(second);
    return { 'nodes-failed': await ended() };
  },

  async steered(windlass) {
    const { nodes, pulls, operation, condition, ended } = await playJob(windlass, 3);
    await pulls(2);
    await operation.signal('pause');
    await condition('Paused', 'True');
    const [first = '', second = '', third = ''] = nodes.names;
    await nodes.end(first, 'Failed', 'not found');
    await operation.signal('resume', { by: 'ann' });
    await condition('Paused', 'False');
    await pulls(2);
    await operation.signal('retry', { by: 'ann' });
    await condition('Retrying', 'False');
    await nodes.end(second);
    await nodes.end(third);
    await pulls(1);
    await nodes.end(first);
    return { steered: await ended() };
  },

  async paused(windlass) {
    const { nodes, pulls, operation, condition, asks, ended } = await playJob(windlass, 50, { parallelism: 1 });
    await pulls(1);
    await asks('fleet.v1.awaitNodes');
    await operation.signal('pause', { by: 'ann' });
    await condition('Paused', 'True');
    await waitFor('the pause', async (see) => {
      const { searchAttributes: found } = await operation.describe();
      return see(found.WindlassPhase)?.[0] === 'Paused';
    });
    await operation.signal('resume', { by: 'ann' });
    await condition('Paused', 'False');
    const playing = nodes.endAll();
    await ended();
    await playing.stop();
    return { paused: operation };
  },

  async woken(windlass) {
    const { nodes, pulls, operation, asks, change, ended } = await playJob(windlass, 2, {
      completionPolicy: { type: 'Never' },
      parallelism: 0,
    });
    const [first = '', second = ''] = nodes.names;
    await waitFor('the wait', async (see) => {
      const { searchAttributes: found } = await operation.describe();
      return see(found.WindlassReason)?.[0] === 'NoParallelism';
    });
    await change({ parallelism: 1, selector: { names: [first] } });
    await waitFor('the first', async (see) => see(await nodes.told())[first]);
    await asks('fleet.v1.awaitNodes');
    const playing = nodes.endAll();
    await pulls(0);
    await change({ selector: { names: [first, second] } });
    await waitFor('the second', async (see) => see(await nodes.told())[second]);
    await asks('fleet.v1.awaitNodes', 2);
    await pulls(0);
    await operation.signal('abort', { by: 'ann' });
    await ended();
    await playing.stop();
    return { woken: operation };
  },

  async handedOver(windlass) {
    const { nodes, pulls, run, ended, asks } = await playJob(windlass, 50, { parallelism: 1 });
    await pulls(1);
    await asks('fleet.v1.awaitNodes');
    const first = await run();
    await first.signal(handOverSignal);
    const playing = nodes.endAll();
    const operation = await ended();
    await playing.stop();
    return { 'handed-over': first, 'next-run': operation };
  },

  async aborted(windlass) {
    const { pulls, operation, ended } = await playJob(windlass, 3);
    await pulls(2);
    await operation.signal('abort', { by: 'ann' });
    return { aborted: await ended() };
  },

  async cancelled(windlass) {
    const { pulls, asks, operation, ended } = await playJob(windlass, 3);
    await pulls(2);
    await asks('fleet.v1.awaitNodes');
    await operation.cancel();
    return { cancelled: await ended() };
  },

  async withdrawn(windlass) {
    const { pulls, asks, remove, ended } = await playJob(windlass, 3);
    await pulls(2);
    await asks('fleet.v1.awaitNodes');
    await remove();
    return { withdrawn: await ended() };
  },

  async withdrawnBetweenWaves(windlass) {
    const { pulls, asks, remove, ended } = await playJob(windlass, 50, { parallelism: 1 });
    await pulls(1);
    await asks('fleet.v1.awaitNodes');
    await remove();
    return { 'withdrawn-between-waves': await ended() };
  },
};
