import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { kubeResource, pullSecretAnnotation } from '../../api/core/well-known.ts';
import { engineStuck } from '../../api/engine/engine-trouble.ts';
import { pullOnNodesType } from '../../api/image-pull-job/operation.ts';
import {
  type ImageListPullJob,
  type ImagePullJob,
  type ImagePullJobSpec,
  imageListPullJobs,
  imagePullJobs,
} from '../../api/image-pull-job/types.ts';
import { currentTagStatus, findTag, type NodeImage, nodeImages, tagsOf } from '../../api/node-image/types.ts';
import { toKubeError } from '../../kube/failures.ts';
import type { ControllerOf } from '../../watcher/controller.ts';
import { imageListPullJobRunner } from '../../watcher/kinds/image-list-pull-job/controller.ts';
import { changedImages, imagePullJobRunner } from '../../watcher/kinds/image-pull-job/controller.ts';
import { nodeImageKeeper } from '../../watcher/kinds/node-image/controller.ts';
import type { WantedOperation } from '../../watcher/starter.ts';
import { type ControllerContextOptions, type RunningController, runController } from '../support/controller-context.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { aNode } from '../support/objects/node.ts';
import { aPod } from '../support/objects/pod.ts';
import { type PlayedPulls, playPulls } from '../support/played-pulls.ts';
import { bornAt, bornMs, endedTag, listJob, nodeImage, pullJob, tagOf } from '../support/pull-objects.ts';
import { waitFor } from '../support/wait.ts';

const gates = 'ImagePullJobGate=true';
const secretNamespace = 'kruise-daemon-config';
const running: RunningController[] = [];
const played: PlayedPulls[] = [];

afterEach(async () => {
  for (const pulls of played.splice(0)) pulls.stop();
  await Promise.all(running.splice(0).map((controller) => controller.stop()));
});

/** Runs a controller. The operations of pull jobs permit it to tell nodes, as they do in a cluster. */
async function run(...[of, options = {}]: Parameters<typeof runController>): Promise<RunningController> {
  let controller: RunningController | undefined;
  const pulls = playPulls(() => controller?.controller.nodes?.());
  const starter: ControllerContextOptions['starter'] = {
    ...options.starter,
    want(operation) {
      options.starter?.want?.(operation);
      if (operation.workflowType === pullOnNodesType) pulls.want(operation);
    },
  };
  controller = await runController(of, { gates, now: () => bornMs + 60_000, ...options, starter });
  running.push(controller);
  played.push(pulls);
  return controller;
}

function put(
  cluster: MemoryCluster,
  resource: Parameters<MemoryCluster['put']>[0],
  ...objects: readonly object[]
): void {
  for (const object of objects) cluster.put(resource, object as Parameters<MemoryCluster['put']>[1]);
}

function node(
  name: string,
  more: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly readySince?: string;
    readonly going?: boolean;
  } = {},
) {
  const { labels = { zone: 'one' }, readySince = bornAt, going = false } = more;
  const ready = { type: 'Ready', status: 'True', lastTransitionTime: readySince };
  const metadata = { name, labels, ...(going && { deletionTimestamp: bornAt }) };
  return aNode({ metadata, status: { conditions: [ready] } });
}

/** The body of an answer of the API server with only a message. */
function status(message: string): string {
  return JSON.stringify({ kind: 'Status', status: 'Failure', reason: 'InternalError', code: 500, message });
}

function imageOf(cluster: MemoryCluster, name: string): NodeImage | undefined {
  return cluster.look<NodeImage>(nodeImages, { name });
}

function jobIn(cluster: MemoryCluster, name = 'warm'): ImagePullJob | undefined {
  return cluster.look<ImagePullJob>(imagePullJobs, { namespace: 'shop', name });
}

/** The node's answer: all tags that are requested from it end like this. */
function answer(cluster: MemoryCluster, name: string, phase: 'Succeeded' | 'Failed'): void {
  const live = imageOf(cluster, name);
  if (!live) throw new Error(`no NodeImage ${name}`);
  const imageStatuses: Record<string, object> = {};
  for (const { name: image, tag } of tagsOf(live)) {
    imageStatuses[image] = { tags: [endedTag(tag.tag, phase, tag.version ?? 0)] };
  }
  put(cluster, nodeImages, { ...live, status: { desired: 1, succeeded: 0, failed: 0, pulling: 0, imageStatuses } });
}

describe('NodeImages', () => {
  it('NI-1, M12: come for nodes that have been ready for a while, are no virtual ones and run Linux', async () => {
    const cluster = new MemoryCluster();
    put(
      cluster,
      kubeResource.nodes,
      node('a'),
      node('young', { readySince: '2026-11-21T10:00:40Z' }),
      node('virtual', { labels: { type: 'virtual-kubelet' } }),
      node('windows', { labels: { 'kubernetes.io/os': 'windows' } }),
      node('going', { going: true }),
      { metadata: { name: 'down' }, status: { conditions: [{ type: 'Ready', status: 'False' }] } },
    );
    const { writes } = await run(nodeImageKeeper, { cluster });
    await waitFor('the NodeImage', () => imageOf(cluster, 'a'));
    expect(writes.map(({ verb, name }) => `${verb} ${name}`)).toEqual(['create a']);
    expect(imageOf(cluster, 'a')).toMatchObject({ metadata: { labels: { zone: 'one' } }, spec: {} });
  });

  it('NI-2, NI-3: have the labels of the node, and go with it unless they are marked', async () => {
    const cluster = new MemoryCluster();
    put(cluster, kubeResource.nodes, node('a', { labels: { zone: 'two' } }));
    const fake = nodeImage('fake', {}, {}, { 'apps.kruise.io/fake-nodeimage': 'true' });
    put(cluster, nodeImages, nodeImage('a', {}, {}, { zone: 'one', own: 'x' }), nodeImage('gone'), fake);
    await run(nodeImageKeeper, { cluster });
    await waitFor('the labels', () => imageOf(cluster, 'a')?.metadata.labels?.zone === 'two');
    expect(imageOf(cluster, 'a')?.metadata.labels).toEqual({ zone: 'two' });
    await waitFor('the one without a node to go', () => imageOf(cluster, 'gone') === undefined);
    expect(imageOf(cluster, 'fake')).toBeDefined();
  });

  it('NI-3: stay while only the watch of nodes does not know yet of theirs', async () => {
    const cluster = new MemoryCluster();
    put(cluster, nodeImages, nodeImage('late', {}, {}, { zone: 'one' }));
    const uid = imageOf(cluster, 'late')?.metadata.uid;
    const { writes } = await run(nodeImageKeeper, {
      cluster,
      meet: ({ verb, plural }) => {
        if (verb === 'get' && plural === 'nodes')
          put(cluster, kubeResource.nodes, node('late', { labels: { zone: 'two' } }));
      },
    });
    await waitFor('the labels', () => imageOf(cluster, 'late')?.metadata.labels?.zone === 'two');
    expect(imageOf(cluster, 'late')?.metadata.uid).toBe(uid);
    expect(writes.filter(({ verb }) => verb === 'delete')).toEqual([]);
  });

  it('NI-5, IPJ-25: lose what only a deleted job wanted, and their operation runs while something is open', async () => {
    const cluster = new MemoryCluster();
    put(cluster, kubeResource.nodes, node('a'));
    put(cluster, imagePullJobs, pullJob());
    put(cluster, nodeImages, nodeImage('a', { nginx: [tagOf('1.27')] }, {}, { zone: 'one' }));
    const wanted: WantedOperation[] = [];
    const forgotten: string[] = [];
    const starter: ControllerContextOptions['starter'] = {
      want: (operation) => void wanted.push(operation),
      dismiss: ({ workflowId }) => void forgotten.push(workflowId),
    };
    await run(nodeImageKeeper, { cluster, starter });
    await waitFor('the operation', () => wanted.length > 0);
    expect(wanted[0]).toMatchObject({
      workflowId: 'pull-images/a/uid-a',
      workflowType: 'pullImages',
      summary: 'images of a',
      about: { kind: 'NodeImage', name: 'a', node: 'a' },
    });
    cluster.remove(imagePullJobs, { namespace: 'shop', name: 'warm' });
    await waitFor('the tag to go', () => tagsOf(imageOf(cluster, 'a') as NodeImage).length === 0);
    await waitFor('the operation to be dismissed', () => forgotten.includes('pull-images/a/uid-a'));
  });
});

describe('a NodeImage whose operation does not go on', () => {
  const workflowId = 'pull-images/a/uid-a';
  const stuck = engineStuck({ workflowId, temporalNamespace: 'default', wasBegunAnew: false });
  const keeper = async (nodeImage: NodeImage) => {
    const cluster = new MemoryCluster();
    put(cluster, kubeResource.nodes, node('a'));
    put(cluster, imagePullJobs, pullJob());
    put(cluster, nodeImages, nodeImage);
    const inputs: string[] = [];
    const starter: ControllerContextOptions['starter'] = {
      want: (operation) => void inputs.push(operation.inputs),
      trouble: (id) => (id === workflowId ? stuck : undefined),
    };
    const running = await run(nodeImageKeeper, { cluster, starter });
    return { ...running, cluster, inputs };
  };
  const open = (status: object) => {
    const live = nodeImage('a', { nginx: [tagOf('1.27')] }, {}, { zone: 'one' });
    return { ...live, status: { ...live.status, ...status } } as NodeImage;
  };
  const statusWrites = (writes: readonly { readonly body?: unknown }[]) =>
    writes.filter(({ body }) => JSON.stringify(body).includes('waitingFor'));

  it('EngineStuck: says so once, and its operation hears that its words were written over', async () => {
    const { cluster, inputs, writes } = await keeper(open({}));
    await waitFor('the wait', () => imageOf(cluster, 'a')?.status?.waitingFor !== undefined);
    expect(imageOf(cluster, 'a')?.status?.waitingFor).toMatchObject({
      reason: 'EngineStuck',
      blockedBy: [`workflow/${workflowId}`],
      unblock: stuck.unblock,
    });
    await waitFor('the operation to be told', () => new Set(inputs).size === 2);
    expect(statusWrites(writes)).toHaveLength(1);
  });

  it('EngineStuck: does not write over a pause', async () => {
    const waitingFor = { reason: 'Paused', blockedBy: [], blockedCount: 0, since: bornAt, unblock: '' };
    const { inputs, writes } = await keeper(open({ waitingFor }));
    await waitFor('a pass', () => inputs.length > 0);
    expect(statusWrites(writes)).toEqual([]);
  });
});

describe('ImagePullJobs', () => {
  function nodesOf(cluster: MemoryCluster, ...names: readonly string[]): void {
    put(cluster, nodeImages, ...names.map((name) => nodeImage(name, {}, {}, { zone: 'one' })));
  }
  const asked = (cluster: MemoryCluster, name: string) => {
    const live = imageOf(cluster, name);
    const tag = live && findTag(live, 'nginx', '1.27');
    return tag !== undefined && live !== undefined && currentTagStatus(live, { name: 'nginx', tag }) === undefined;
  };

  it('EngineStuck: say that their own operation does not go on', async () => {
    const cluster = new MemoryCluster();
    nodesOf(cluster, 'a');
    put(cluster, imagePullJobs, pullJob());
    const workflowId = 'pull-on-nodes/shop/warm/job-1';
    const stuck = engineStuck({ workflowId, temporalNamespace: 'default', wasBegunAnew: false });
    const trouble = (id: string) => (id === workflowId ? stuck : undefined);
    await run(imagePullJobRunner, { cluster, starter: { trouble } });
    await waitFor('the wait', () => jobIn(cluster)?.status?.waitingFor?.reason === 'EngineStuck');
    expect(jobIn(cluster)?.status?.waitingFor?.unblock).toBe(stuck.unblock);
  });

  it('IPJ-20: do not end without nodes of which the watch has not told yet', async () => {
    const cluster = new MemoryCluster();
    put(cluster, imagePullJobs, pullJob());
    // it is created after the list, and the watch delivers it a moment later
    const late = () => imageOf(cluster, 'late') ?? put(cluster, nodeImages, nodeImage('late'));
    const meet: ControllerContextOptions['meet'] = ({ verb, plural }) =>
      void (verb === 'list' && plural === 'nodeimages' && late());
    await run(imagePullJobRunner, { cluster, meet });
    await waitFor('the job to ask the node', () => asked(cluster, 'late'));
    expect(jobIn(cluster)?.status?.completionTime).toBeUndefined();
  });

  it('IPJ-1, IPJ-20: do not end without pods and nodes of which the watch has not told yet', async () => {
    const late = {
      pods: (cluster: MemoryCluster) =>
        cluster.put(
          kubeResource.pods,
          aPod({ metadata: { name: 'late', uid: 'late' }, spec: { nodeName: 'a' }, status: { phase: 'Running' } }),
        ),
      nodes: (cluster: MemoryCluster) => put(cluster, kubeResource.nodes, node('late')),
    };
    const runWith = async (spec: Partial<ImagePullJobSpec>, resource: keyof typeof late) => {
      const cluster = new MemoryCluster();
      if (resource === 'pods') nodesOf(cluster, 'a');
      put(cluster, imagePullJobs, pullJob(spec));
      let isCome = false;
      const meet: ControllerContextOptions['meet'] = ({ verb, plural }) => {
        if (isCome || verb !== 'list' || plural !== resource) return;
        isCome = true;
        late[resource](cluster);
      };
      await run(imagePullJobRunner, { cluster, meet, now: () => bornMs });
      return cluster;
    };
    const ofPods = await runWith({ podSelector: {} }, 'pods');
    await waitFor('the job to ask the node of the pod', () => asked(ofPods, 'a'));
    const ofNodes = await runWith({}, 'nodes');
    await waitFor('the job to wait', () => jobIn(ofNodes)?.status?.waitingFor?.reason === 'NoNodeImages');
    for (const cluster of [ofPods, ofNodes]) expect(jobIn(cluster)?.status?.completionTime).toBeUndefined();
  });

  it('IPJ-10, IPJ-17, IPJ-20: tell node after node, count them, and end', async () => {
    const cluster = new MemoryCluster();
    nodesOf(cluster, 'a', 'b', 'c');
    put(cluster, imagePullJobs, pullJob({ parallelism: 2 }));
    const wanted: string[] = [];
    const { failures } = await run(imagePullJobRunner, {
      cluster,
      starter: { want: ({ workflowId }) => void wanted.push(workflowId) },
    });
    await waitFor('the first two', () => asked(cluster, 'a') && asked(cluster, 'b'));
    await waitFor('the status', () => jobIn(cluster)?.status?.active === 2);
    expect(findTag(imageOf(cluster, 'c') as NodeImage, 'nginx', '1.27')).toBeUndefined();
    expect(wanted).toContain('pull-on-nodes/shop/warm/job-1');

    answer(cluster, 'a', 'Succeeded');
    await waitFor('the third', () => asked(cluster, 'c'));
    answer(cluster, 'b', 'Failed');
    answer(cluster, 'c', 'Succeeded');
    await waitFor('the end', () => jobIn(cluster)?.status?.completionTime);
    expect(jobIn(cluster)?.status).toMatchObject({
      desired: 3,
      succeeded: 2,
      failed: 1,
      failedNodes: ['b'],
      active: 0,
    });
    expect(failures).toEqual([]);
  });

  it('H4: one that the API server refuses for a node holds up no other, and goes on with other nodes', async () => {
    const cluster = new MemoryCluster();
    nodesOf(cluster, 'a', 'b');
    const large = pullJob({ image: 'large:1', parallelism: 1 });
    put(
      cluster,
      imagePullJobs,
      { ...large, metadata: { ...large.metadata, name: 'large', uid: 'job-large' } },
      pullJob({ parallelism: 2 }),
    );
    // node a rejects the first job, as if its object were full
    const meet: ControllerContextOptions['meet'] = ({ verb, plural, name, body }) => {
      if (verb !== 'patch' || plural !== 'nodeimages' || name !== 'a') return;
      if (JSON.stringify(body).includes('large')) {
        throw toKubeError('PATCH nodeimages', 500, status('etcdserver: request is too large'));
      }
    };
    await run(imagePullJobRunner, { cluster, meet });
    await waitFor('the other job on the node', () => asked(cluster, 'a'));
    const onB = () => imageOf(cluster, 'b')?.spec.images?.large;
    await waitFor('the refused job on another node', () => onB());
    answer(cluster, 'b', 'Succeeded');
    const waiting = await waitFor('the reason', () => {
      const { waitingFor } = jobIn(cluster, 'large')?.status ?? {};
      return waitingFor?.reason === 'NodesFull' && waitingFor;
    });
    expect(waiting).toMatchObject({ blockedBy: ['nodeimage/a'], blockedCount: 1 });
    expect(imageOf(cluster, 'a')?.spec.images).not.toHaveProperty('large');
  });

  it('C1: one that was stored with too long an image says so, and asks no node', async () => {
    const cluster = new MemoryCluster();
    nodesOf(cluster, 'a');
    put(cluster, imagePullJobs, pullJob({ image: 'a'.repeat(3_600), pullSecrets: ['s'] }));
    const summaries: string[] = [];
    await run(imagePullJobRunner, { cluster, starter: { want: ({ summary }) => void summaries.push(summary) } });
    await waitFor('the reason', () => jobIn(cluster)?.status?.waitingFor?.reason === 'TooLarge');
    expect(imageOf(cluster, 'a')?.spec).toEqual({ images: {} });
    expect(cluster.calls.filter((call) => /^(get|create) secrets/.test(call))).toEqual([]);
    expect(summaries.filter((summary) => Buffer.byteLength(summary) > 180)).toEqual([]);
  });

  it('IPJ-5: mean nodes that come later, until they have ended', async () => {
    const cluster = new MemoryCluster();
    nodesOf(cluster, 'a');
    put(cluster, imagePullJobs, pullJob({ parallelism: 5 }));
    await run(imagePullJobRunner, { cluster });
    await waitFor('the first', () => asked(cluster, 'a'));
    nodesOf(cluster, 'b');
    await waitFor('the second', () => asked(cluster, 'b'));
    await waitFor('both', () => jobIn(cluster)?.status?.desired === 2);
  });

  it('IPJ-6: are woken for the image that they pull, and not for another', async () => {
    const cluster = new MemoryCluster();
    nodesOf(cluster, 'a');
    put(cluster, imagePullJobs, pullJob());
    const { writes } = await run(imagePullJobRunner, { cluster });
    await waitFor('the status', () => jobIn(cluster)?.status?.active === 1);
    const before = writes.length;
    const live = imageOf(cluster, 'a') as NodeImage;
    put(cluster, nodeImages, { ...live, spec: { images: { ...live.spec.images, redis: { tags: [tagOf('7')] } } } });
    answer(cluster, 'a', 'Succeeded');
    await waitFor('the end', () => jobIn(cluster)?.status?.completionTime);
    expect(writes.slice(before).filter(({ plural }) => plural === 'nodeimages')).toEqual([]);
  });

  it('IPJ-6: are not woken by how far a pull is', () => {
    const at = (status: object) => nodeImage('a', {}, { nginx: [{ tag: '1', phase: 'Pulling', ...status }] });
    expect(changedImages(at({}), at({ progress: 28, fetched: '34 of 120 MB in 12 s' }))).toEqual([]);
    expect(changedImages(at({ progress: 28 }), at({ progress: 28, message: 'no' }))).toEqual(['nginx']);
  });

  it('IPJ-23: are deleted when their TTL is over, those of a list by the list', async () => {
    const cluster = new MemoryCluster();
    const status = { desired: 0, active: 0, succeeded: 0, failed: 0, completionTime: bornAt };
    const policy = { completionPolicy: { type: 'Always', ttlSecondsAfterFinished: 30 } };
    const { metadata } = pullJob();
    const owner = { apiVersion: 'x', kind: 'ImageListPullJob', name: 'l', uid: 'l', controller: true };
    put(
      cluster,
      imagePullJobs,
      pullJob(policy, { status }),
      pullJob(policy, { status, metadata: { ...metadata, name: 'listed', uid: 'job-2', ownerReferences: [owner] } }),
    );
    await run(imagePullJobRunner, { cluster });
    await waitFor('the deletion', () => jobIn(cluster) === undefined);
    expect(jobIn(cluster, 'listed')).toBeDefined();
  });

  it('do nothing while their gate is off, and still release what they hold when they go', async () => {
    const cluster = new MemoryCluster();
    nodesOf(cluster, 'a');
    const { metadata } = pullJob();
    const going = {
      ...metadata,
      name: 'going',
      uid: 'job-2',
      deletionTimestamp: bornAt,
      finalizers: ['apps.kruise.io/deletion-protection', 'x'],
    };
    put(cluster, imagePullJobs, pullJob(), pullJob({ pullSecrets: ['s'] }, { metadata: going }));
    await run(imagePullJobRunner, { cluster, gates: '' });
    await waitFor('the finalizer to go', () => jobIn(cluster, 'going')?.metadata.finalizers?.length === 1);
    expect(jobIn(cluster)?.status).toBeUndefined();
    expect(asked(cluster, 'a')).toBe(false);
  });

  describe('with pull Secrets', () => {
    const source = {
      metadata: {
        namespace: 'shop',
        name: 'credentials',
        labels: { team: 'x' },
        annotations: { 'kubectl.kubernetes.io/last-applied-configuration': 'secret', 'shop/note': 'y' },
      },
      type: 'kubernetes.io/dockerconfigjson',
      data: { '.dockerconfigjson': 'e30=' },
    };
    const secretsIn = async (cluster: MemoryCluster) => {
      const { items } = await cluster.client().list(kubeResource.secrets, { namespace: secretNamespace });
      return items as unknown as (typeof source & { metadata: { annotations?: Record<string, string> } })[];
    };
    const referencesOf = (secret: Awaited<ReturnType<typeof secretsIn>>[number] | undefined) =>
      secret?.metadata.annotations?.[pullSecretAnnotation.references];
    const quick: ControllerOf = (context) => imagePullJobRunner(context, { compareMs: 50, releasedMs: 300 });
    /** A clock that advances, from a minute after the creation of the objects on. */
    const passing = () => {
      const startedAtMs = performance.now();
      return () => bornMs + 60_000 + Math.round(performance.now() - startedAtMs);
    };
    const nameOfCopy = /^credentials-[0-9a-f]{16}$/;
    const neverJob = (name: string, uid: string) =>
      pullJob(
        { pullSecrets: ['credentials'], completionPolicy: { type: 'Never' } },
        { metadata: { ...pullJob().metadata, name, uid, finalizers } },
      );
    const finalizers = ['apps.kruise.io/deletion-protection'];
    const named = (name: string, uid: string) =>
      pullJob({ pullSecrets: ['credentials'] }, { metadata: { ...pullJob().metadata, name, uid, finalizers } });

    it('SEC-1, SEC-3, SEC-5: share one copy that daemons may read, which goes with the last of them', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, source);
      put(cluster, imagePullJobs, named('one', 'job-1'), named('two', 'job-2'));
      const { failures } = await run(quick, { cluster, now: passing() });
      const copy = await waitFor('the copy for both', async (see) => {
        const [first, ...others] = see(await secretsIn(cluster));
        if (others.length > 0) throw new Error('two copies');
        return referencesOf(first) === 'shop/one,shop/two' && first;
      });
      expect(copy).toMatchObject({ type: source.type, data: source.data });
      expect(copy.metadata.name).toMatch(nameOfCopy);
      expect(JSON.stringify(copy)).not.toContain('last-applied');
      await waitFor('the node to be told', () => imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets?.length === 1);
      expect(imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets).toEqual([
        { namespace: secretNamespace, name: copy.metadata.name, mode: 'batch' },
      ]);

      await waitFor(
        'both owners',
        () => findTag(imageOf(cluster, 'a') as NodeImage, 'nginx', '1.27')?.ownerReferences?.length === 2,
      );
      answer(cluster, 'a', 'Succeeded');
      await waitFor('the copy to go', async () => (await secretsIn(cluster)).length === 0);
      await waitFor('the finalizers to go', () =>
        ['one', 'two'].every((name) => (jobIn(cluster, name)?.metadata.finalizers ?? []).length === 0),
      );
      // several jobs write one copy: whoever comes second looks again
      expect(
        failures.filter((failure) => !/modified|AlreadyExists|Conflict|rejected|Invalid \(HTTP 422\)/.test(failure)),
      ).toEqual([]);
    });

    it('SEC-2: of the namespace that daemons read uses them as they are', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      const { metadata } = pullJob();
      put(
        cluster,
        imagePullJobs,
        pullJob({ pullSecrets: ['own'] }, { metadata: { ...metadata, namespace: secretNamespace } }),
      );
      const own = { ...source, metadata: { namespace: secretNamespace, name: 'own' } };
      put(cluster, kubeResource.secrets, own);
      await run(quick, { cluster });
      await waitFor('the node to be told', () => imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets?.length === 1);
      expect(imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets).toEqual([
        { namespace: secretNamespace, name: 'own' },
      ]);
      expect(await secretsIn(cluster)).toMatchObject([{ metadata: own.metadata }]);
    });

    it('SEC-4, SEC-6: of that namespace they are named from when they are there, so that nodes need not forget them', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      const metadata = { ...pullJob().metadata, namespace: secretNamespace };
      put(cluster, imagePullJobs, pullJob({ pullSecrets: ['own'] }, { metadata }));
      await run(quick, { cluster });
      await waitFor('the node to be told', () => asked(cluster, 'a'));
      expect(imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets).toBeUndefined();
      put(cluster, kubeResource.secrets, { ...source, metadata: { namespace: secretNamespace, name: 'own' } });
      await waitFor('the Secret', () => imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets?.length === 1);
    });

    it('SEC-6: nodes forget a Secret that is gone, unless it is a shared copy', async () => {
      const cluster = new MemoryCluster();
      put(cluster, kubeResource.nodes, node('a'));
      const there = { namespace: secretNamespace, name: 'there' };
      put(cluster, kubeResource.secrets, { ...source, metadata: there });
      const copy = { namespace: secretNamespace, name: 'copy-0abc12', mode: 'batch' } as const;
      const live = nodeImage('a', { nginx: [tagOf('1.27', { ownerReferences: [] })] }, {}, { zone: 'one' });
      const entry = { ...live.spec.images?.nginx, pullSecrets: [{ ...there, name: 'gone' }, there, copy] };
      put(cluster, nodeImages, { ...live, spec: { images: { nginx: entry } } });
      let nowMs = bornMs + 60_000;
      const { controller } = await run(nodeImageKeeper, { cluster, now: () => nowMs });
      const secretsOfNode = () => imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets;
      await waitFor('the one to go', () => secretsOfNode()?.length === 2);
      expect(secretsOfNode()).toEqual([there, copy]);

      cluster.remove(kubeResource.secrets, there);
      nowMs += 61_000;
      controller.wantAll();
      await waitFor('the other to go', () => secretsOfNode()?.length === 1);
      expect(secretsOfNode()).toEqual([copy]);
      expect(tagsOf(imageOf(cluster, 'a') as NodeImage)).toHaveLength(1);
    });

    it('C1: of thousands of Secrets a pass asks for some, and later ones for the others', async () => {
      const cluster = new MemoryCluster();
      put(cluster, kubeResource.nodes, node('a'));
      const live = nodeImage('a', { nginx: [tagOf('1.27', { ownerReferences: [] })] }, {}, { zone: 'one' });
      const pullSecrets = Array.from({ length: 600 }, (_, index) => ({ namespace: 'shop', name: `gone-${index}` }));
      put(cluster, nodeImages, { ...live, spec: { images: { nginx: { ...live.spec.images?.nginx, pullSecrets } } } });
      const left: number[] = [];
      let asked = 0;
      await run(nodeImageKeeper, {
        cluster,
        now: () => bornMs + 60_000,
        meet: ({ verb, plural }) => {
          if (plural === 'secrets' && verb === 'get') asked += 1;
          if (plural === 'nodeimages' && verb === 'patch') left.push(asked);
          return undefined;
        },
      });
      const secretsOfNode = () => imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets;
      await waitFor('all to go', () => secretsOfNode() === undefined);
      expect(left).toEqual([256, 512, 600]);
    });

    it('SEC-4: wait for a right on Secrets that is missing, and say which, before a node pulls without them', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, source);
      put(cluster, imagePullJobs, named('one', 'job-1'));
      let isAllowed = false;
      const denied = {
        kind: 'Status',
        reason: 'Forbidden',
        message:
          'secrets is forbidden: User "system:serviceaccount:kruise-system:windlass-watcher" cannot create resource ' +
          '"secrets" in API group "" in the namespace "kruise-daemon-config"',
      };
      const { failures } = await run(quick, {
        cluster,
        meet: ({ verb, plural }) => {
          if (plural !== 'secrets' || verb !== 'create' || isAllowed) return;
          throw toKubeError('POST /api/v1/namespaces/kruise-daemon-config/secrets', 403, JSON.stringify(denied));
        },
      });
      await waitFor('the wait', () => jobIn(cluster, 'one')?.status?.waitingFor?.reason === 'SecretRefused');
      expect(jobIn(cluster, 'one')?.status?.waitingFor?.unblock).toMatch(
        /^Allow ServiceAccount "kruise-system\/windlass-watcher" to create secrets in namespace "kruise-daemon-config"/,
      );
      expect(asked(cluster, 'a')).toBe(false);
      isAllowed = true;
      await waitFor('the node to be told', () => asked(cluster, 'a'));
      expect(imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets).toHaveLength(1);
      expect(failures).toEqual([]);
    });

    it('SEC-4, SEC-7: go on without one that is missing, tell of it when it comes, and copy what changes', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, imagePullJobs, named('one', 'job-1'));
      const { controller } = await run(quick, { cluster });
      await waitFor('the node to be told', () => asked(cluster, 'a'));
      expect(imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets).toBeUndefined();
      put(cluster, kubeResource.secrets, source);
      await waitFor('the Secret', () => imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets?.length === 1);
      expect(findTag(imageOf(cluster, 'a') as NodeImage, 'nginx', '1.27')?.version).toBe(0);

      put(cluster, kubeResource.secrets, { ...source, data: { '.dockerconfigjson': 'e31=' } });
      controller.wantAll();
      await waitFor('the change', async () => (await secretsIn(cluster))[0]?.data['.dockerconfigjson'] === 'e31=');
    });

    it('SEC-7: a Secret that changes reaches its copy when all nodes of a job of type Never have pulled', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, source);
      put(cluster, imagePullJobs, neverJob('one', 'job-1'), neverJob('two', 'job-2'));
      const { writes } = await run(quick, { cluster });
      await waitFor('the copy', async () => referencesOf((await secretsIn(cluster))[0]) === 'shop/one,shop/two');
      await waitFor(
        'both owners',
        () => findTag(imageOf(cluster, 'a') as NodeImage, 'nginx', '1.27')?.ownerReferences?.length === 2,
      );
      answer(cluster, 'a', 'Succeeded');
      await waitFor('the pulls', () => ['one', 'two'].every((name) => jobIn(cluster, name)?.status?.succeeded === 1));
      const changed = { ...source, data: { '.dockerconfigjson': 'e31=' } };
      put(cluster, kubeResource.secrets, changed);
      const [copy] = await waitFor('the change', async (see) => {
        const found = see(await secretsIn(cluster));
        return found[0]?.data['.dockerconfigjson'] === 'e31=' && found;
      });

      // a manual change of a copy is reverted, too
      const edited = { ...copy, data: { '.dockerconfigjson': 'e32=' } };
      put(cluster, kubeResource.secrets, edited as typeof source);
      await waitFor('the repair', async () => (await secretsIn(cluster))[0]?.data['.dockerconfigjson'] === 'e31=');
      cluster.remove(kubeResource.secrets, { namespace: secretNamespace, name: copy?.metadata.name ?? '' });
      await waitFor('another', async () => referencesOf((await secretsIn(cluster))[0]) === 'shop/one,shop/two');
      expect((await secretsIn(cluster)).map(({ metadata }) => metadata.name)).toEqual([copy?.metadata.name]);
      const before = writes.filter(({ plural }) => plural === 'secrets').length;
      await pause(300);
      expect(writes.filter(({ plural }) => plural === 'secrets')).toHaveLength(before);
    });

    it('SEC-5: a job that has released a copy stays in it for a while, and the copy goes with the last', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, source);
      put(cluster, imagePullJobs, named('one', 'job-1'));
      let nowMs = bornMs + 60_000;
      const { writes } = await run(quick, { cluster, now: () => nowMs });
      const references = async () => referencesOf((await secretsIn(cluster))[0]);
      const secretWrites = () => writes.filter(({ plural, verb }) => plural === 'secrets' && verb !== 'create').length;
      await waitFor('the copy', async (see) => see(await references()) === 'shop/one');
      const [copy] = await secretsIn(cluster);
      answer(cluster, 'a', 'Succeeded');
      await pause(400);
      expect([await references(), secretWrites()]).toEqual(['shop/one', 0]);
      nowMs += 200;
      put(cluster, imagePullJobs, neverJob('two', 'job-2'));
      await waitFor('the next job', async (see) => see(await references()) === 'shop/one,shop/two');
      nowMs += 200;
      await waitFor('the first to go', async (see) => see(await references()) === 'shop/two');
      const going = { ...neverJob('two', 'job-2').metadata, deletionTimestamp: bornAt };
      put(cluster, imagePullJobs, { ...neverJob('two', 'job-2'), metadata: going });
      const before = secretWrites();
      await pause(400);
      expect([await references(), secretWrites()]).toEqual(['shop/two', before]);
      expect((await secretsIn(cluster)).map(({ metadata }) => metadata.name)).toEqual([copy?.metadata.name]);
      nowMs += 300;
      await waitFor('the copy to go', async () => (await secretsIn(cluster)).length === 0);
      expect(secretWrites()).toBe(before + 1);
    });

    it('SEC-5: takes copies away that nobody needs, whoever left them, and jobs off them that are gone', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, source);
      put(cluster, imagePullJobs, neverJob('one', 'job-1'));
      const left = (name: string, references: string, key: string) => ({
        ...source,
        metadata: {
          namespace: secretNamespace,
          name,
          annotations: { [pullSecretAnnotation.sourceKey]: key, [pullSecretAnnotation.references]: references },
        },
      });
      put(
        cluster,
        kubeResource.secrets,
        left('nobodys-0abc12', '', 'shop/nobodys'),
        left('old-0abc12', 'shop/gone', 'shop/old'),
        left('credentials-0abc12', 'shop/gone,shop/one', 'shop/credentials'),
        { ...source, metadata: { namespace: secretNamespace, name: 'by-hand' } },
      );
      const { controller } = await run(quick, { cluster, now: passing() });
      controller.wantAll();
      const found = await waitFor('only two to be left', async (see) => {
        const secrets = see(await secretsIn(cluster));
        return secrets.length === 2 && secrets.some((secret) => referencesOf(secret) === 'shop/one') && secrets;
      });
      expect(new Set(found.map(({ metadata }) => metadata.name))).toEqual(new Set(['by-hand', 'credentials-0abc12']));
    });

    it('M7: a copy has nothing of what the tenant wrote beside the credentials, also one of an older version', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, source, { ...source, metadata: { ...source.metadata, name: 'other' } });
      const key = { [pullSecretAnnotation.sourceKey]: 'shop/other', 'shop/note': 'y' };
      const metadata = { namespace: secretNamespace, name: 'other-0abc12', labels: { team: 'x' }, annotations: key };
      put(cluster, kubeResource.secrets, { ...source, metadata });
      put(cluster, imagePullJobs, {
        ...neverJob('one', 'job-1'),
        spec: { ...neverJob('one', 'job-1').spec, pullSecrets: ['credentials', 'other'] },
      });
      await run(quick, { cluster });
      const found = await waitFor('both copies', async (see) => {
        const secrets = see(await secretsIn(cluster));
        return secrets.length === 2 && secrets.every((secret) => referencesOf(secret) === 'shop/one') && secrets;
      });
      for (const {
        metadata: { labels = {}, annotations = {} },
      } of found) {
        expect(labels).toEqual({});
        expect(new Set(Object.keys(annotations))).toEqual(new Set(Object.values(pullSecretAnnotation)));
      }
      expect(found.map(({ metadata: { name } }) => name)).toContain('other-0abc12');
    });

    it('M7: a Secret of another type is not copied, and an Event says why it is not used', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, { ...source, type: 'Opaque' });
      put(cluster, imagePullJobs, neverJob('one', 'job-1'));
      const { controller, writes } = await run(quick, { cluster });
      await waitFor('the node to be told', () => asked(cluster, 'a'));
      expect(await secretsIn(cluster)).toEqual([]);
      const { items } = await cluster.client().list(kubeResource.events, { namespace: 'shop' });
      expect(items).toMatchObject([
        {
          type: 'Warning',
          reason: 'PullSecretNotUsed',
          message:
            'Secret "credentials" is not used: its type is "Opaque", and pulls use kubernetes.io/dockerconfigjson ' +
            'and kubernetes.io/dockercfg',
        },
      ]);
      controller.wantAll();
      cluster.remove(kubeResource.secrets, source.metadata);
      put(cluster, kubeResource.secrets, source);
      await waitFor('the copy', async () => referencesOf((await secretsIn(cluster))[0]) === 'shop/one');
      expect(writes.filter(({ verb, plural }) => verb === 'create' && plural === 'events')).toHaveLength(1);
    });

    it('M7: a foreign Secret under the name of a copy makes the copy take the next name', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, source);
      put(cluster, imagePullJobs, neverJob('one', 'job-1'));
      const taken: string[] = [];
      await run(quick, {
        cluster,
        meet: ({ verb, plural, name }) => {
          if (verb !== 'create' || plural !== 'secrets' || taken.length === 2) return;
          taken.push(name);
          put(cluster, kubeResource.secrets, { ...source, metadata: { namespace: secretNamespace, name } });
        },
      });
      const copy = await waitFor('the copy', async (see) =>
        see(await secretsIn(cluster)).find((secret) => referencesOf(secret) === 'shop/one'),
      );
      expect(copy.metadata.name).toMatch(nameOfCopy);
      expect(new Set([...taken, copy.metadata.name]).size).toBe(3);
      await waitFor('the node', () => imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets?.length === 1);
      expect(imageOf(cluster, 'a')?.spec.images?.nginx?.pullSecrets).toMatchObject([{ name: copy.metadata.name }]);
    });

    it('SEC-3: a Secret made anew with the other type is copied anew, and the old copy goes', async () => {
      const cluster = new MemoryCluster();
      nodesOf(cluster, 'a');
      put(cluster, kubeResource.secrets, source);
      put(cluster, imagePullJobs, neverJob('one', 'job-1'), neverJob('two', 'job-2'));
      await run(quick, { cluster });
      const both = async (see: <T>(seen: T) => T, type: string) => {
        const secrets = see(await secretsIn(cluster));
        return (
          secrets.length === 1 &&
          secrets[0]?.type === type &&
          referencesOf(secrets[0]) === 'shop/one,shop/two' &&
          secrets
        );
      };
      const [before] = await waitFor('the copy', (see) => both(see, source.type));
      const type = 'kubernetes.io/dockercfg';
      cluster.remove(kubeResource.secrets, source.metadata);
      put(cluster, kubeResource.secrets, { ...source, type, data: { '.dockercfg': 'e30=' } });
      const [after] = await waitFor('the new copy', (see) => both(see, type));
      expect(after?.metadata.name).not.toBe(before?.metadata.name);
    });
  });
});

describe('ImageListPullJobs', () => {
  const jobsOf = async (cluster: MemoryCluster) => {
    const { items } = await cluster.client().list<ImagePullJob>(imagePullJobs, { namespace: 'shop' });
    return items;
  };

  it('ILP-1, ILP-2, ILP-5: get their jobs, end with them, and then change nothing any more', async () => {
    const cluster = new MemoryCluster();
    const images = ['a:1', 'b:1', 'c:1', 'd:1'];
    put(cluster, imageListPullJobs, listJob(images));
    const { writes } = await run(imageListPullJobRunner, { cluster });
    await waitFor('the jobs', async () => (await jobsOf(cluster)).length === 4);
    const list = () =>
      cluster.look<ImageListPullJob>(imageListPullJobs, { namespace: 'shop', name: 'tools' }) as ImageListPullJob;
    await waitFor('the status', () => list().status?.desired === 4);
    for (const job of await jobsOf(cluster)) {
      const status = { desired: 1, active: 0, succeeded: 1, failed: 0, startTime: bornAt, completionTime: bornAt };
      put(cluster, imagePullJobs, { ...job, status });
    }
    await waitFor('the end', () => list().status?.completionTime);
    expect(list().status).toMatchObject({ desired: 4, completed: 4, succeeded: 4 });
    const created = writes.filter(({ plural, verb }) => plural === 'imagepulljobs' && verb === 'create').length;
    put(cluster, imageListPullJobs, { ...list(), spec: { ...list().spec, images: ['z:1'] } });
    await waitFor('the change to be seen', () => list().spec.images.length === 1);
    expect(writes.filter(({ plural, verb }) => plural === 'imagepulljobs' && verb === 'create')).toHaveLength(created);
    expect(await jobsOf(cluster)).toHaveLength(4);
  });
});
