import { afterEach, describe, expect, it } from '@jest/globals';
import { pullOnNodesType } from '../../api/image-pull-job/operation.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { findTag, type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { imagePullJobRunner } from '../../watcher/kinds/image-pull-job/controller.ts';
import { type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { newLife, type PlayedPulls, playPulls } from '../support/played-pulls.ts';
import { bornMs, endedTag, nodeImage, pullJob } from '../support/pull-objects.ts';
import { waitFor } from '../support/wait.ts';

const uid = 'job-1';
const running: RunningController[] = [];
const played: PlayedPulls[] = [];

afterEach(async () => {
  for (const pulls of played.splice(0)) pulls.stop();
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

/** A job on these nodes and its controller; the test plays the operation, unless it is played as in a cluster. */
async function play(names: readonly string[], spec: Partial<ImagePullJob['spec']>, { hasOperation = false } = {}) {
  const cluster = new MemoryCluster();
  for (const name of names) cluster.put(nodeImages, nodeImage(name));
  cluster.put(imagePullJobs, pullJob(spec));
  const told: (string | null)[] = [];
  let controller: RunningController | undefined;
  const pulls = playPulls(() => controller?.controller.nodes?.());
  played.push(pulls);
  controller = await runController(imagePullJobRunner, {
    cluster,
    gates: 'ImagePullJobGate=true',
    now: () => bornMs + 60_000,
    starter: {
      want: (operation) => {
        if (hasOperation && operation.workflowType === pullOnNodesType) pulls.want(operation);
      },
      tell: async (workflowId) => {
        if (hasOperation) pulls.tell(uid);
        return told.push(workflowId) > 0;
      },
      isSent: () => hasOperation,
    },
  });
  running.push(controller);
  const tagOn = (name: string) => {
    const live = cluster.look<NodeImage>(nodeImages, { name });
    return live && findTag(live, 'nginx', '1.27');
  };
  return {
    cluster,
    told,
    holder: () => {
      const holder = controller?.controller.nodes?.();
      if (!holder) throw new Error('the controller does not lead');
      return holder;
    },
    operation: () => pulls.of(uid),
    have: () => names.filter((name) => tagOn(name) !== undefined),
    writes: (name: string) => controller?.writes.filter((write) => write.name === name).length,
    job: () => cluster.look<ImagePullJob>(imagePullJobs, { namespace: 'shop', name: 'warm' }),
    end(name: string, phase: 'Succeeded' | 'Failed' = 'Succeeded') {
      const live = cluster.look<NodeImage>(nodeImages, { name });
      if (!live) throw new Error(`no NodeImage ${name}`);
      const imageStatuses = { nginx: { tags: [endedTag('1.27', phase, tagOn(name)?.version ?? 0)] } };
      cluster.put(nodeImages, { ...live, status: { desired: 1, succeeded: 0, failed: 0, pulling: 0, imageStatuses } });
    },
    async counts(what: string, holds: (status: NonNullable<ImagePullJob['status']>) => boolean) {
      await waitFor(what, (see) => {
        const { status } = see(cluster.look<ImagePullJob>(imagePullJobs, { namespace: 'shop', name: 'warm' })) ?? {};
        return status !== undefined && holds(status);
      });
    },
  };
}

describe('a pull job without its operation', () => {
  it('IPJ-10: starts its first nodes, counts them, and tells no further one', async () => {
    const job = await play(['a', 'b', 'c'], { parallelism: 2 });
    await job.counts('the first two', ({ active }) => active === 2);
    job.end('a');
    job.end('b', 'Failed');
    await job.counts('both ends', ({ succeeded, failed }) => succeeded === 1 && failed === 1);
    expect(job.have()).toEqual(['a', 'b']);
    expect(job.job()?.status?.completionTime).toBeUndefined();
  });

  it('tells the nodes of a wave, and none after the activity of the wave has ended', async () => {
    const job = await play(['a', 'b', 'c'], { parallelism: 1 });
    await job.counts('the first', ({ active }) => active === 1);
    const life = newLife();
    const wave = job.holder().await(uid, { number: 1, nodes: ['a', 'b', 'c'] }, life);
    job.end('a');
    await waitFor('the second', () => job.have().includes('b'));
    life.end('Temporal has started another attempt of the activity');
    await expect(wave).rejects.toThrow('another attempt');
    job.end('b');
    await job.counts('two ends', ({ succeeded }) => succeeded === 2);
    expect(job.have()).toEqual(['a', 'b']);
  });

  it('P-2: answers at once which nodes go next, and tells none before they are permitted', async () => {
    const job = await play(['a', 'b', 'c'], { parallelism: 1 });
    await job.counts('the first', ({ active }) => active === 1);
    const told = { image: 'nginx:1.27', of: 3, order: { term: expect.any(String), nth: expect.any(Number) } };
    const anew = { carried: { run: 'one', numbers: [], next: 1 } };
    expect(job.holder().next(uid, anew)).toEqual({
      ...{ kind: 'nodes', waves: [['a', 'b', 'c']], more: false, ended: 0 },
      ...told,
    });
    job.end('a');
    await job.counts('the end', ({ succeeded }) => succeeded === 1);
    expect(job.have()).toEqual(['a']);
    const justPermitted = { justPermitted: ['a', 'b', 'c'], carried: { run: 'one', numbers: [1], next: 2 } };
    expect(job.holder().next(uid, justPermitted)).toEqual({ kind: 'nothing', ended: 1, ...told });
  });
});

describe('a pull job with its operation', () => {
  it('names each node once, tells it once, and hears of the end without being asked', async () => {
    const names = Array.from({ length: 45 }, (_, index) => `n${String(index).padStart(2, '0')}`);
    const job = await play(names, { parallelism: 3 }, { hasOperation: true });
    for (const name of names) {
      await waitFor(`${name} to be told`, () => job.have().includes(name));
      job.end(name, name === 'n07' ? 'Failed' : 'Succeeded');
    }
    await job.counts('the end', ({ completionTime }) => completionTime !== undefined);
    await waitFor('the outcomes', () => job.operation()?.outcomes.size === 2);
    const outcomes = [...(job.operation()?.outcomes.values() ?? [])].flatMap(({ nodes }) => nodes);
    expect(outcomes.map(({ node }) => node).toSorted()).toEqual(names);
    expect(outcomes.filter(({ why }) => why !== undefined).map(({ node }) => node)).toEqual(['n07']);
    expect(names.map((name) => job.writes(name))).toEqual(names.map(() => 1));
    // the results of the last waves have said so
    expect(job.operation()?.progress().end).toMatchObject({ reason: 'NodesFailed' });
    expect(job.told).toEqual([]);
  });

  it('names nodes that were told first and have ended before it began', async () => {
    const job = await play(['a', 'b'], { parallelism: 2 });
    await job.counts('both', ({ active }) => active === 2);
    job.end('a');
    job.end('b');
    await job.counts('the end', ({ completionTime }) => completionTime !== undefined);
    const anew = { carried: { run: 'one', numbers: [], next: 1 } };
    expect(job.holder().next(uid, anew)).toMatchObject({ kind: 'nodes', waves: [['a', 'b']], more: false });
    const { nodes, next } = await job.holder().await(uid, { run: 'one', number: 1, nodes: ['a', 'b'] }, newLife());
    expect(nodes).toEqual(['a', 'b'].map((node) => ({ node, at: expect.any(String), ms: expect.any(Number) })));
    expect(next).toMatchObject({ kind: 'done', end: { failed: false, reason: 'ImagePulled' } });
  });
});
