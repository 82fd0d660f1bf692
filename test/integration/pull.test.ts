import { afterAll, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/common';
import type { PullResult } from '../../activities/cri/pull-contract.ts';
import { timestamp } from '../../api/base/time.ts';
import { kubeResource, pullSecretAnnotation, windlassAnnotation } from '../../api/core/well-known.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import {
  type ImageListPullJob,
  type ImagePullJob,
  type ImagePullJobSpec,
  imageListPullJobs,
  imagePullJobs,
} from '../../api/image-pull-job/types.ts';
import { pullImagesId } from '../../api/node-image/operation.ts';
import { findTag, findTagStatus, type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { payloadLimitBytes } from '../../process/payload-limit.ts';
import type { Secret } from '../../watcher/kinds/node-image/pull-secrets.ts';
import { newGate } from '../support/gate.ts';
import { payloadsOf } from '../support/history.ts';
import { NodePlayer } from '../support/kubelet-player.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const joined: NodePlayer[] = [];

// before Windlass itself stops: they use its connection
afterAll(async () => {
  await Promise.all(joined.map((player) => player.stopDaemon()));
});

const windlass = useSharedWindlass();

/** Nodes of this test alone, each with a daemon and a NodeImage. */
async function newNodes(count: number): Promise<readonly NodePlayer[]> {
  const { cluster, connection } = windlass();
  const players = await Promise.all(Array.from({ length: count }, () => NodePlayer.join(cluster)));
  joined.push(...players);
  for (const player of players) {
    await player.startDaemon(connection);
    await cluster.kube.create(nodeImages, { metadata: { name: player.ref.name }, spec: {} });
  }
  return players.toSorted((a, b) => (a.ref.name < b.ref.name ? -1 : 1));
}

async function newJob(players: readonly NodePlayer[], spec: Partial<ImagePullJobSpec> = {}) {
  const { cluster } = windlass();
  const namespace = await cluster.newNamespace();
  const ref = { namespace, name: 'pull' };
  const names = players.map(({ ref: { name } }) => name);
  const { metadata } = await cluster.kube.create<ImagePullJob>(imagePullJobs, {
    metadata: ref,
    spec: { image: 'app:1', parallelism: 10, selector: { names }, ...spec },
  });
  const read = () => cluster.kube.get<ImagePullJob>(imagePullJobs, ref);
  return {
    ref,
    uid: metadata.uid,
    read,
    until: async (what: string, holds: (job: ImagePullJob) => unknown) =>
      await waitFor(what, async (see) => {
        const job = see(await read());
        return holds(job) ? job : undefined;
      }),
  };
}

const broken: PullResult = { kind: 'failed', failure: 'notFound', final: true, message: 'not found' };
const has = (job: ImagePullJob, type: string) =>
  job.status?.conditions?.some((condition) => condition.type === type && condition.status === 'True');

describe('an ImagePullJob', () => {
  it.concurrent('IPJ-10, IPJ-22: pulls on so many nodes at a time, and names those that failed', async () => {
    const players = await newNodes(3);
    const gate = newGate();
    const [first, second, third] = players;
    if (!first || !second || !third) throw new Error('too few nodes');
    second.pull = async () => broken;
    first.pull = async ({ image }) => {
      await gate.opened;
      return { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true };
    };
    const job = await newJob(players, { parallelism: 1 });
    await waitFor('the first', (see) => see(players.map(({ pulls }) => pulls.length))[0] === 1);
    const held = await job.until('the wait', ({ status }) => status?.waitingFor?.reason === 'Pulling');
    expect(held.status).toMatchObject({
      desired: 3,
      active: 1,
      waitingFor: { blockedBy: [`nodeimage/${first.ref.name}`] },
    });
    expect([second.pulls.length, third.pulls.length]).toEqual([0, 0]);
    gate.open();
    const ended = await job.until('the end', ({ status }) => status?.completionTime);
    expect(ended.status).toMatchObject({ succeeded: 2, failed: 1, failedNodes: [second.ref.name] });
    expect(players.map(({ pulls }) => pulls.length)).toEqual([1, 1, 1]);
  });

  it.concurrent('IPJ-20: waits for the NodeImage of a node that is ready, names the node, and goes on when it is there', async () => {
    const { cluster, connection } = windlass();
    const [known] = await newNodes(1);
    const late = await NodePlayer.join(cluster);
    joined.push(late);
    await late.startDaemon(connection);
    if (!known) throw new Error('no node');
    const readySince = (ms: number) => {
      const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime: timestamp(ms) }];
      const [ref, status] = [{ name: late.ref.name }, { conditions }];
      return cluster.kube.patch(kubeResource.nodes, ref, 'merge', { status }, { subresource: 'status' });
    };
    // in the future: on a slow machine, too, it gets no NodeImage meanwhile
    await readySince(Date.now() + 3_600_000);
    const job = await newJob([known, late]);
    const waiting = await job.until(
      'the wait',
      ({ status }) => status?.waitingFor?.reason === 'NoNodeImages' && status.succeeded === 1,
    );
    expect(waiting.status).toMatchObject({
      desired: 2,
      waitingFor: {
        blockedBy: [`node/${late.ref.name}`],
        unblock: expect.stringContaining('a node gets its NodeImage when it has been ready for a while'),
      },
    });
    expect(waiting.status?.completionTime).toBeUndefined();

    await readySince(Date.now() - 3_600_000);
    const { status } = await job.until('the end', (live) => live.status?.completionTime);
    expect(status).toMatchObject({ desired: 2, succeeded: 2, message: 'job has completed' });
    expect(late.pulls).toHaveLength(1);
  });

  it.concurrent('retries only what failed, pauses, and says at an abort which nodes have the image', async () => {
    const players = await newNodes(2);
    const [first, second] = players;
    if (!first || !second) throw new Error('too few nodes');
    let isBroken = true;
    first.pull = async ({ image }) =>
      isBroken ? broken : { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true };
    const job = await newJob(players, { completionPolicy: { type: 'Never' } });
    await job.until('one failure and one success', ({ status }) => status?.failed === 1 && status.succeeded === 1);
    isBroken = false;
    const operation = windlass().client.workflow.getHandle(pullOnNodesId({ ...job.ref, uid: job.uid }));
    await waitFor('the operation to take it', async () => {
      await operation.signal('retry', { by: 'ann' });
      return true;
    });
    await job.until('both', ({ status }) => status?.succeeded === 2);
    expect([first.pulls.length, second.pulls.length]).toEqual([2, 1]);

    const { kube } = windlass().cluster;
    const annotations = { [windlassAnnotation.command]: 'pause' };
    await kube.patch(imagePullJobs, job.ref, 'merge', { metadata: { annotations } });
    await job.until('the pause', (live) => has(live, 'Paused'));
    const [late] = await newNodes(1);
    if (!late) throw new Error('no node');
    const names = [...players, late].map(({ ref }) => ref.name);
    await kube.patch(imagePullJobs, job.ref, 'merge', { spec: { selector: { names } } });
    await job.until('three nodes', ({ status }) => status?.desired === 3 && status.waitingFor?.reason === 'Paused');
    expect(late.pulls).toEqual([]);
    await operation.signal('abort', { by: 'ann' });
    const { status } = await job.until('the end', (live) => live.status?.completionTime);
    expect(status?.message).toBe(`aborted by ann; the image is on ${first.ref.name}, ${second.ref.name}`);
    expect(late.pulls).toEqual([]);
    await expect(operation.result()).rejects.toMatchObject({ cause: { type: 'Aborted' } });
  });
});

describe('a pull Secret', () => {
  const ofDaemons = 'kruise-daemon-config';
  const type = 'kubernetes.io/dockerconfigjson';
  const data = (user: string) => ({
    '.dockerconfigjson': btoa(JSON.stringify({ auths: { 'r.io': { auth: btoa(user) } } })),
  });
  const copyOf = async (namespace: string, name: string): Promise<Secret | undefined> => {
    const { items } = await windlass().cluster.kube.list<Secret>(kubeResource.secrets, { namespace: ofDaemons });
    return items.find(
      ({ metadata }) => metadata.annotations?.[pullSecretAnnotation.sourceKey] === `${namespace}/${name}`,
    );
  };

  it.concurrent('SEC-7, SEC-5, M7: reaches its copy for as long as a job names it, which stays a moment for the next', async () => {
    const players = await newNodes(1);
    const { kube } = windlass().cluster;
    const ref = { namespace: await windlass().cluster.newNamespace(), name: 'credentials' };
    const metadata = { ...ref, labels: { team: 'x' }, annotations: { note: 'y' } };
    await kube.create(kubeResource.secrets, { metadata, type, data: data('ann:a') });
    const names = players.map(({ ref: { name } }) => name);
    const spec = { image: 'app:1', selector: { names }, pullSecrets: [ref.name, 'opaque'] };
    await kube.create(kubeResource.secrets, { metadata: { ...ref, name: 'opaque' }, data: { key: btoa('x') } });
    const never = { namespace: ref.namespace, name: 'never' };
    await kube.create(imagePullJobs, { metadata: never, spec: { ...spec, completionPolicy: { type: 'Never' } } });
    await waitFor('the pull', async (see) => {
      const { status } = see(await kube.get<ImagePullJob>(imagePullJobs, never));
      return status?.succeeded === 1 && status.active === 0;
    });
    const copy = await copyOf(ref.namespace, ref.name);
    expect(copy).toMatchObject({
      type,
      data: data('ann:a'),
      metadata: { name: expect.stringMatching(/-[0-9a-f]{16}$/) },
    });
    expect([copy?.metadata.labels, copy?.metadata.annotations?.note]).toEqual([undefined, undefined]);
    expect(await copyOf(ref.namespace, 'opaque')).toBeUndefined();

    await kube.patch(kubeResource.secrets, ref, 'merge', { data: data('ann:b') });
    await waitFor('the change', async (see) => {
      expect(see(await copyOf(ref.namespace, ref.name))?.data).toEqual(data('ann:b'));
      return true;
    });

    await kube.delete(imagePullJobs, never);
    const next = { namespace: ref.namespace, name: 'next' };
    await kube.create(imagePullJobs, { metadata: next, spec });
    await waitFor(
      'the next job',
      async (see) => see(await kube.get<ImagePullJob>(imagePullJobs, next)).status?.completionTime,
    );
    expect((await copyOf(ref.namespace, ref.name))?.metadata.uid).toBe(copy?.metadata.uid);
    await waitFor('the copy to go', async (see) => see(await copyOf(ref.namespace, ref.name)) === undefined);
  });
});

describe('a NodeImage', () => {
  it.concurrent('NP-2: that a person writes is pulled, once for each version, and its runtime is waited for', async () => {
    const [player] = await newNodes(1);
    if (!player) throw new Error('no node');
    const { kube } = windlass().cluster;
    const { name } = player.ref;
    let isAway = true;
    player.pull = async ({ image }) => {
      if (isAway) throw ApplicationFailure.create({ type: 'Unreachable', message: 'Cannot pull: no socket' });
      return { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true };
    };
    const tag = { tag: '1', imagePullPolicy: 'IfNotPresent', pullPolicy: { ttlSecondsAfterFinished: 3_600 } };
    const write = (version: number) =>
      kube.patch(nodeImages, { name }, 'merge', { spec: { images: { app: { tags: [{ ...tag, version }] } } } });
    await write(0);
    const until = async (what: string, holds: (nodeImage: NodeImage) => unknown) =>
      await waitFor(what, async (see) => holds(see(await kube.get<NodeImage>(nodeImages, { name }))));
    await until('the wait', ({ status }) => status?.waitingFor?.reason === 'RuntimeUnreachable');
    isAway = false;
    await until('the success', ({ status }) => status?.succeeded === 1 && status.waitingFor === undefined);
    const before = player.pulls.length;
    await write(1);
    await until(
      'the next version',
      (live) => findTagStatus(live, 'app', '1')?.version === 1 && live.status?.succeeded === 1,
    );
    expect(player.pulls.length).toBe(before + 1);
    const { metadata } = await kube.get<NodeImage>(nodeImages, { name });
    await windlass().client.workflow.getHandle(pullImagesId(metadata)).result();
  });

  it.concurrent('C2: of fifteen images by digest goes on after its registry was away, in small payloads', async () => {
    const [player] = await newNodes(1);
    if (!player) throw new Error('no node');
    const { cluster, client } = windlass();
    const { name } = player.ref;
    let isAway = true;
    const message = `failed to resolve reference: ${'unexpected status from HEAD request: 503 Service Unavailable '.repeat(9)}`;
    player.pull = async ({ image }) =>
      isAway
        ? { kind: 'failed', failure: 'registryUnreachable', final: false, message }
        : { kind: 'succeeded', imageId: `${image.name}@${image.tag}`, pulled: true };
    const pullPolicy = { ttlSecondsAfterFinished: 3_600, backoffLimit: 50 };
    const images = Object.fromEntries(
      Array.from({ length: 15 }, (_, index) => [
        `123456789012.dkr.ecr.eu-central-1.amazonaws.com/team-${index}/some-service-with-a-name`,
        { tags: [{ tag: `sha256:${String(index).padStart(64, 'a')}`, imagePullPolicy: 'IfNotPresent', pullPolicy }] },
      ]),
    );
    await cluster.kube.patch(nodeImages, { name }, 'merge', { spec: { images } });
    const until = async (what: string, holds: (nodeImage: NodeImage) => unknown) =>
      await waitFor(what, async (see) => {
        const live = see(await cluster.kube.get<NodeImage>(nodeImages, { name }));
        return holds(live) ? live : undefined;
      });
    const { metadata } = await until('all of them to back off', ({ status }) => {
      return status?.waitingFor?.reason === 'BackingOff' && status.waitingFor.blockedCount === 15;
    });
    const operation = client.workflow.getHandle(pullImagesId(metadata));
    isAway = false;
    await operation.signal('retry', { by: 'ann' });
    await until('all of them to be there', ({ status }) => status?.succeeded === 15);
    await operation.result();
    const payloads = payloadsOf(await operation.fetchHistory());
    expect(payloads.filter(({ bytes }) => bytes > payloadLimitBytes)).toEqual([]);
  });

  it.concurrent('IPJ-25: loses what only a deleted job wanted, and the pull of it stops', async () => {
    const players = await newNodes(1);
    const [player] = players;
    if (!player) throw new Error('no node');
    player.pull = () => newGate().opened.then(() => broken);
    const job = await newJob(players);
    await waitFor('the pull', () => player.pulls.length === 1);
    await windlass().cluster.kube.delete(imagePullJobs, job.ref);
    const nodeImage = await waitFor('the tag to go', async (see) => {
      const live = see(await windlass().cluster.kube.get<NodeImage>(nodeImages, { name: player.ref.name }));
      return findTag(live, 'app', '1') === undefined && live;
    });
    await windlass().client.workflow.getHandle(pullImagesId(nodeImage.metadata)).result();
  });

  it.concurrent('pulls anew what was wanted, pulled and given up before, while another pull goes on', async () => {
    const players = await newNodes(1);
    const [player] = players;
    if (!player) throw new Error('no node');
    const gate = newGate();
    player.pull = async ({ image }) => {
      if (image.name === 'slow') await gate.opened;
      return { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true };
    };
    const slow = await newJob(players, { image: 'slow:1' });
    await waitFor('the slow pull', () => player.pulls.length === 1);
    for (const round of ['first', 'second']) {
      const job = await newJob(players);
      await job.until(`the end of the ${round} job`, ({ status }) => status?.succeeded === 1);
      const { kube } = windlass().cluster;
      await kube.delete(imagePullJobs, job.ref);
      await waitFor('its tag to go, and what was said of it', async (see) => {
        const live = see(await kube.get<NodeImage>(nodeImages, { name: player.ref.name }));
        return findTag(live, 'app', '1') === undefined && findTagStatus(live, 'app', '1') === undefined;
      });
    }
    gate.open();
    await slow.until('the end of the slow one', ({ status }) => status?.succeeded === 1);
  });
});

describe('an ImageListPullJob', () => {
  it.concurrent('ILP-1: of 50 images pulls each once on each node, in a short history', async () => {
    const players = await newNodes(2);
    const { cluster, client } = windlass();
    const namespace = await cluster.newNamespace();
    const images = Array.from({ length: 50 }, (_, index) => `app-${index}:1`);
    const names = players.map(({ ref }) => ref.name);
    await cluster.kube.create(imageListPullJobs, {
      metadata: { namespace, name: 'list' },
      spec: { images, parallelism: 2, selector: { names } },
    });
    await waitFor('the list to end', async (see) => {
      const { status } = see(await cluster.kube.get<ImageListPullJob>(imageListPullJobs, { namespace, name: 'list' }));
      return status?.completionTime !== undefined && status.succeeded === 50;
    });
    for (const player of players) {
      expect(new Set(player.pulls.map(({ image }) => image.name)).size).toBe(50);
      expect(player.pulls).toHaveLength(50);
      const { metadata } = await cluster.kube.get<NodeImage>(nodeImages, { name: player.ref.name });
      const history = await client.workflow.getHandle(pullImagesId(metadata)).fetchHistory();
      expect(history.events?.length).toBeLessThan(1_500);
    }
  });
});
