import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { PullInput, PullResult } from '../../activities/cri/pull-contract.ts';
import { changedSignal, queues } from '../../api/engine/operations.ts';
import { type PullJobOperation, pullOnNodesId, pullOnNodesType } from '../../api/image-pull-job/operation.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { pullImagesId } from '../../api/node-image/operation.ts';
import { type ImageTag, type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { type Gate, newGate } from './gate.ts';
import { NodePlayer } from './kubelet-player.ts';
import { waitFor as waitForShortly } from './wait.ts';
import { startWindlass, type Windlass } from './windlass.ts';

/** Windlass without a controller of jobs: the scenarios signal the operations themselves. */
export function startPullJobs(instance: string): Promise<Windlass> {
  return startWindlass({ instance, watcher: false });
}

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
  const operation = windlass.client.workflow.getHandle(pullImagesId(created.metadata.uid));
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

/** A job without a controller, and its operation. */
async function playJob(windlass: Windlass) {
  const namespace = await windlass.cluster.newNamespace();
  const created = await windlass.cluster.kube.create<ImagePullJob>(imagePullJobs, {
    metadata: { namespace, name: 'pull' },
    spec: { image: 'app:1', completionPolicy: { type: 'Never' } },
  });
  const job = { namespace, name: 'pull', uid: created.metadata.uid };
  const argument: PullJobOperation = { job };
  const operation = await windlass.client.workflow.signalWithStart(pullOnNodesType, {
    workflowId: pullOnNodesId(job.uid),
    taskQueue: queues.cluster,
    args: [argument],
    signal: changedSignal,
    signalArgs: [null],
  });
  const condition = async (type: string, status: string) => {
    await waitFor(`condition ${type} to be ${status}`, async (see) => {
      const live = see(await windlass.cluster.kube.get<ImagePullJob>(imagePullJobs, job));
      return live.status?.conditions?.some((found) => found.type === type && found.status === status);
    });
  };
  return {
    operation,
    condition,
    async finish() {
      const body = { status: { completionTime: new Date().toISOString().replace(/\.\d+Z$/, 'Z') } };
      await windlass.cluster.kube.patch(imagePullJobs, job, 'merge', body, { subresource: 'status' });
      await operation.signal(changedSignal, null);
      await operation.result();
      return operation;
    },
    async remove() {
      await windlass.cluster.kube.delete(imagePullJobs, job);
      await operation.signal(changedSignal, null);
      await operation.result();
      return operation;
    },
  };
}

/** One scenario for each branch of `pullOnNodes`. */
export const pullOnNodesScenarios: Readonly<Record<string, Scenario>> = {
  async steered(windlass) {
    const { operation, condition, finish } = await playJob(windlass);
    await operation.signal('pause');
    await condition('Paused', 'True');
    await operation.signal('resume', { by: 'ann' });
    await condition('Paused', 'False');
    await operation.signal('retry', { by: 'ann' });
    await condition('Retrying', 'True');
    return { steered: await finish() };
  },

  async aborted(windlass) {
    const { operation, condition, finish } = await playJob(windlass);
    await operation.signal('abort', { by: 'ann' });
    await condition('Aborted', 'True');
    return { aborted: await finish() };
  },

  async cancelled(windlass) {
    const { operation, condition, finish } = await playJob(windlass);
    await operation.cancel();
    await condition('Aborted', 'True');
    return { cancelled: await finish() };
  },

  withdrawn: async (windlass) => ({ withdrawn: await (await playJob(windlass)).remove() }),
};
