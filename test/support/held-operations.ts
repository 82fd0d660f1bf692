// Operations of each type on real objects, held in the middle of their work.
import { randomUUID } from 'node:crypto';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import { crr } from '../../api/container-recreate-request/types.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { pullImagesId } from '../../api/node-image/operation.ts';
import { type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { podWithEnvironment, setGate, setTier } from './environment.ts';
import { newGate } from './gate.ts';
import { holdWrites } from './held-writes.ts';
import { marks, startJob } from './jobs.ts';
import { NodePlayer, type PlayedPod } from './kubelet-player.ts';
import { waitFor } from './wait.ts';
import type { Windlass } from './windlass.ts';

/** An operation that cannot end before it is let go. */
export interface HeldOperation {
  readonly workflowId: string;
  letGo(): void | Promise<void>;
  /** Waits until its object has come to an end, whichever. */
  over(): Promise<void>;
  /** How the object has ended, in words. */
  end(): Promise<string>;
  /** What was done to containers or nodes, in order: each is to be named once. */
  done(): readonly string[];
}

/** Where an operation is held. */
export type Hold = (windlass: Windlass) => Promise<HeldOperation>;

/** A request for two containers, one after the other, whose first one is being stopped. */
export const stopping: Hold = async (windlass) => {
  const gate = newGate();
  const pod = await windlass.runPod(['app', 'proxy', 'other']);
  pod.script('app', { stopTakes: gate.opened });
  const held = await requested(windlass, pod);
  await windlass.node.begunToStop(pod, 'app');
  return { ...held, letGo: gate.open };
};

/** The same, whose first container is not ready yet. */
export const becomingReady: Hold = async (windlass) => {
  const gate = newGate();
  const pod = await windlass.runPod(['app', 'proxy', 'other']);
  pod.script('app', { readyTakes: gate.opened });
  const held = await requested(windlass, pod);
  await pod.restarted('app', 1);
  return { ...held, letGo: gate.open };
};

/** The same, whose status cannot be written. */
export const reportingRequest: Hold = async (windlass) => {
  const pod = await windlass.runPod(['app', 'proxy', 'other']);
  const letGo = await holdWrites(windlass, {
    ...{ resource: crr, subresource: 'status', operation: 'UPDATE' },
    which: `object.metadata.namespace == "${pod.ref.namespace}"`,
  });
  return { ...(await requested(windlass, pod)), letGo };
};

async function requested(windlass: Windlass, pod: PlayedPod): Promise<Omit<HeldOperation, 'letGo'>> {
  const request = await windlass.request({
    ...{ pod, containers: ['app', 'proxy'], strategy: { orderedRecreate: true } },
  });
  return {
    workflowId: request.workflowId,
    over: async () => void (await request.ended()),
    end: async () => {
      const { conditions = [], containerRecreateStates = [] } = (await request.read())?.status ?? {};
      const states = containerRecreateStates.map(({ name, phase }) => `${name} ${phase}`);
      return [...conditions.map(({ type, reason }) => `${type} ${reason}`), ...states].join(', ');
    },
    done: () => windlass.node.stopsOf(pod),
  };
}

/** A pod that is out of service for an update, whose container with an old environment is being stopped. */
export const refreshing: Hold = async (windlass) => {
  const gate = newGate();
  const pod = await podWithEnvironment(windlass);
  pod.script('app', { stopTakes: gate.opened });
  await setGate(windlass, pod, 'False');
  await setTier(windlass, pod, 'gold');
  await windlass.node.begunToStop(pod, 'app');
  return {
    workflowId: restartContainersId(pod.ref),
    letGo: gate.open,
    over: async () => await pod.reportedRestarts('app', 1),
    end: async () => ['app', 'proxy'].map((name) => `${name} ${pod.restartsOf(name)}`).join(', '),
    done: () => windlass.node.stopsOf(pod),
  };
};

/** A job whose main container has ended and whose first sidecar is being stopped; the others end at once. */
export const endingSidecars: Hold = async (windlass) => {
  const gate = newGate();
  return await endedMain(windlass, async (job) => {
    job.pod.script('proxy', { stopTakes: gate.opened });
    job.pod.exit('main');
    await windlass.node.begunToStop(job.pod, 'proxy');
    return gate.open;
  });
};

/** The same, whose request cannot be created. */
export const requestingStops: Hold = async (windlass) => {
  return await endedMain(windlass, async (job) => {
    const letGo = await holdWrites(windlass, {
      ...{ resource: crr, operation: 'CREATE' },
      which: `object.metadata.namespace == "${job.pod.ref.namespace}"`,
    });
    job.pod.exit('main');
    return letGo;
  });
};

async function endedMain(
  windlass: Windlass,
  hold: (job: Awaited<ReturnType<typeof startJob>>) => Promise<() => void | Promise<void>>,
): Promise<HeldOperation> {
  const job = await startJob(windlass, { sidecars: { proxy: [marks.stops], logger: [marks.stops] } });
  const letGo = await hold(job);
  const phase = async () => (await job.pod.read())?.status?.phase ?? 'gone';
  return {
    workflowId: job.operation.workflowId,
    letGo,
    over: async () => void (await waitFor('the end of the pod', async (see) => see(await phase()) !== 'Running')),
    end: phase,
    done: () => windlass.node.stopsOf(job.pod),
  };
}

/** A job for two nodes, one after the other, whose first one is pulling: the operation of the job. */
export const pullingForJob: Hold = async (windlass) => (await heldPull(windlass, 2)).ofJob;

/** A job for one node, which is pulling: the operation of the node. */
export const pullingOnNode: Hold = async (windlass) => (await heldPull(windlass, 1)).ofNode;

/** The same, when the node has pulled and its result cannot be written. */
export const reportingPull: Hold = async (windlass) => {
  const { ofNode, first } = await heldPull(windlass, 1);
  const ref = { name: first.ref.name };
  await waitFor('the report that it pulls', async (see) => {
    const { status } = await windlass.cluster.kube.get<NodeImage>(nodeImages, ref);
    return see(status?.pulling) === 1;
  });
  const letGo = await holdWrites(windlass, {
    ...{ resource: nodeImages, subresource: 'status', operation: 'UPDATE' },
    which: `object.metadata.name == "${ref.name}"`,
  });
  await ofNode.letGo();
  return { ...ofNode, letGo };
};

async function heldPull({ cluster, connection }: Windlass, count: number) {
  const gate = newGate();
  const players = await Promise.all(Array.from({ length: count }, () => NodePlayer.join(cluster)));
  const nodes = players.toSorted((a, b) => (a.ref.name < b.ref.name ? -1 : 1));
  const [first] = nodes;
  if (!first) throw new Error('there is no node');
  first.pull = async ({ image }) => {
    await gate.opened;
    return { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true };
  };
  for (const node of nodes) {
    await node.startDaemon(connection);
    joined.add(node);
    await cluster.kube.create(nodeImages, { metadata: { name: node.ref.name }, spec: {} });
  }
  const ref = { namespace: await cluster.newNamespace(), name: 'pull' };
  const names = nodes.map((node) => node.ref.name);
  const { metadata } = await cluster.kube.create<ImagePullJob>(imagePullJobs, {
    metadata: ref,
    spec: { image: `app-${randomUUID().slice(0, 8)}:1`, parallelism: 1, selector: { names } },
  });
  await waitFor('the pull', () => first.pulls.length > 0);
  const nodeImage = await cluster.kube.get<NodeImage>(nodeImages, { name: first.ref.name });
  const job = async () => await cluster.kube.get<ImagePullJob>(imagePullJobs, ref);
  const common = {
    letGo: gate.open,
    over: async () =>
      void (await waitFor('the job to end', async (see) => see(await job()).status?.completionTime !== undefined)),
    end: async () => {
      const { succeeded = 0, failed = 0, message = '' } = (await job()).status ?? {};
      return `${succeeded} have it, ${failed} failed: ${message}`.replaceAll(first.ref.name, 'first');
    },
    done: () => nodes.flatMap(({ pulls }, index) => pulls.map(() => `node ${index + 1}`)),
  };
  const ofJob: HeldOperation = { ...common, workflowId: pullOnNodesId(metadata) };
  const ofNode: HeldOperation = { ...common, workflowId: pullImagesId(nodeImage.metadata) };
  return { first, ofJob, ofNode };
}

/** The nodes of pulls, which use the connection of Windlass. */
const joined = new Set<NodePlayer>();

/** Stops the daemons of all nodes that pulls have joined. */
export async function stopJoinedNodes(): Promise<void> {
  await Promise.all([...joined].map((node) => node.stopDaemon()));
}
