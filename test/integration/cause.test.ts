import { afterAll, expect, it } from '@jest/globals';
import { Client } from '@temporalio/client';
import proto from '@temporalio/proto';
import { cloneSets } from '../../api/cloneset/types.ts';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import { apiVersionOf } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { changedSignal, handOverSignal, searchAttributes } from '../../api/engine/operations.ts';
import { rollOutId } from '../../api/fleet/operation.ts';
import { pullOnNodesId } from '../../api/image-pull-job/operation.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { terminateSidecarsId } from '../../api/job-sidecar-termination.ts';
import { nodeImages } from '../../api/node-image/types.ts';
import { Starter } from '../../watcher/starter.ts';
import { podWithEnvironment, setGate, setTier } from '../support/environment.ts';
import { newGate } from '../support/gate.ts';
import { describeProof, describeTogether } from '../support/groups.ts';
import { startJob } from '../support/jobs.ts';
import { NodePlayer } from '../support/kubelet-player.ts';
import { connectToTemporal } from '../support/temporal-connection.ts';
import { startTemporal } from '../support/temporal-server.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const nodes: NodePlayer[] = [];

// before Windlass itself stops: they use its connection
afterAll(async () => {
  await Promise.all(nodes.map((node) => node.stopDaemon()));
});

const windlass = useSharedWindlass();
const keyword = proto.temporal.api.enums.v1.IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD;

/** A CloneSet that Windlass leaves alone, because it is being deleted, and that the garbage collector finds. */
async function newCloneSet(namespace: string) {
  const { kube } = windlass().cluster;
  const labels = { app: 'none' };
  const ref = { namespace, name: 'web' };
  const { metadata } = await kube.create(cloneSets, {
    metadata: { ...ref, finalizers: ['windlass.test/held'] },
    spec: {
      replicas: 0,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'app', image: 'app:1' }] } },
    },
  });
  await kube.delete(cloneSets, ref);
  const { name, uid } = metadata;
  const owner = { apiVersion: apiVersionOf(cloneSets), kind: cloneSets.kind, name, uid, controller: true };
  return {
    owner,
    rollOut: rollOutId(metadata),
    gone: async () => void (await kube.patch(cloneSets, ref, 'merge', { metadata: { finalizers: [] } })),
  };
}

/** The IDs and run IDs of the operations that this one has caused, once Temporal finds so many. */
async function causedBy(cause: string, count: number): Promise<ReadonlyMap<string, string>> {
  const query = `${searchAttributes.cause} = "${cause}" AND ExecutionStatus = "Running"`;
  return await waitFor(`${count} operations caused by ${cause}`, async (see) => {
    const found = new Map<string, string>();
    for await (const { workflowId, runId } of windlass().client.workflow.list({ query })) found.set(workflowId, runId);
    return see([...found.keys()]).length === count && found;
  });
}

describeProof('slow', 'WindlassCause', () => {
  // the hand-over of the pull job takes a minute
  it.concurrent('finds the pre-download and the environment refresh of a roll-out, in every run of them', async () => {
    const { cluster, connection, client } = windlass();
    const node = await NodePlayer.join(cluster);
    nodes.push(node);
    const pulled = newGate();
    node.pull = async ({ image }) => {
      await pulled.opened;
      return { kind: 'succeeded', imageId: `${image.name}@1`, pulled: true };
    };
    await node.startDaemon(connection);
    await cluster.kube.create(nodeImages, { metadata: { name: node.ref.name }, spec: {} });
    const pod = await podWithEnvironment(windlass());
    pod.script('app', { stopFails: 'not now' });
    const { namespace } = pod.ref;
    const { owner, rollOut, gone } = await newCloneSet(namespace);
    const metadata = { ownerReferences: [owner] };
    await cluster.kube.patch(kubeResource.pods, pod.ref, 'merge', { metadata });

    const job = await cluster.kube.create<ImagePullJob>(imagePullJobs, {
      metadata: { ...metadata, namespace, name: 'ahead' },
      spec: { image: 'app:2', selector: { names: [node.ref.name] } },
    });
    await setGate(windlass(), pod, 'False');
    await setTier(windlass(), pod, 'gold');

    const ids = [pullOnNodesId(job.metadata), restartContainersId(pod.ref)];
    const runs = await causedBy(rollOut, 2);
    expect(new Set(runs.keys())).toEqual(new Set(ids));
    for (const id of ids) {
      const operation = client.workflow.getHandle(id);
      await operation.signal(handOverSignal);
      await operation.signal(changedSignal, null); // as the watcher does
    }
    await waitFor('the next runs to be found', async (see) => {
      const found = await causedBy(rollOut, 2);
      return see(ids.map((id) => found.get(id))).every((runId, index) => runId && runId !== runs.get(ids[index] ?? ''));
    });

    pulled.open();
    pod.script('app', {});
    await client.workflow.getHandle(restartContainersId(pod.ref)).signal('retry', { by: 'ann' }); // not at the next attempt
    await Promise.all(ids.map(async (id) => await client.workflow.getHandle(id).result()));
    await gone();
  });
});

describeTogether('WindlassCause', () => {
  it.concurrent('finds the restart that the termination of sidecars has requested, and no restart that a person has', async () => {
    const ended = newGate();
    const job = await startJob(windlass());
    job.pod.script('proxy', { stopTakes: ended.opened });
    job.pod.exit('main');
    const runs = await causedBy(terminateSidecarsId(job.pod.ref), 1);
    expect([...runs.keys()]).toEqual([restartContainersId(job.pod.ref)]);
    ended.open();
    await job.ended();

    const pod = await windlass().runPod(['app']);
    const request = await windlass().request({ pod, containers: ['app'] });
    await request.ended();
    const { searchAttributes: found } = await request.operation.describe();
    expect(found).toMatchObject({ WindlassName: [request.ref.name] });
    expect(found).not.toHaveProperty(searchAttributes.cause);
  });
});

describeTogether('a Temporal server that does not know WindlassCause yet', () => {
  it.concurrent('starts operations without it, and with it once it has been added', async () => {
    // else it looks for attributes that were added once in a minute
    const server = await startTemporal(['system.forceSearchAttributesCacheRefreshOnRead=true']);
    const connection = await connectToTemporal(server.address);
    const client = new Client({ connection });
    const add = async (...names: readonly string[]) =>
      await connection.operatorService.addSearchAttributes({
        namespace: 'default',
        searchAttributes: Object.fromEntries(names.map((name) => [name, keyword])),
      });
    const starter = new Starter({
      ...{ client, build: 'test', mayStart: () => true, silentAfterMs: 60_000 },
      onError: () => undefined,
      onSilence: () => undefined,
    });
    const start = async (workflowId: string) => {
      starter.want({
        ...{ workflowId, workflowType: 'none', taskQueue: 'none', argument: null, change: null },
        ...{ inputs: workflowId, summary: workflowId },
        about: { kind: 'Pod', namespace: 'shop', name: 'web', node: '', cause: 'roll-out/set-1' },
      });
      await waitFor(`${workflowId} to be sent`, () => starter.isSent(workflowId));
      return (await client.workflow.getHandle(workflowId).describe()).searchAttributes;
    };

    const { cause, ...others } = searchAttributes;
    await add(...Object.values(others));
    // it rejects any start until its caches have the others
    const first = await start('first');
    expect(first).toMatchObject({ [others.name]: ['web'] });
    expect(first).not.toHaveProperty(cause);

    await add(cause);
    await waitFor('a start with the cause', async () => {
      const found = await start(`later-${crypto.randomUUID()}`);
      return found[cause]?.[0] === 'roll-out/set-1';
    });
    await starter.stop();
    await connection.close();
    await server.stop();
  });
});
