import { describe, expect, it } from '@jest/globals';
import { kubeResource, windlassAnnotation } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import { type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { validateSidecarSet } from '../../api/sidecar-set/validate.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { sidecarSetDraft } from '../support/objects/sidecar-set.ts';
import { endedTag, nodeImage, tagOf } from '../support/pull-objects.ts';
import { imagesIn, playedRollOut, podWith, setIn, sidecarSet, usePlayedSidecarSets } from '../support/sidecar-world.ts';
import { waitFor } from '../support/wait.ts';

const sidecarSetsPlayed = usePlayedSidecarSets();

function setWith(image: string, generation: number, share: string | undefined) {
  const annotations = share === undefined ? {} : { [windlassAnnotation.prefetch]: share };
  return sidecarSet(image, { generation, metadata: { annotations }, spec: { updateStrategy: { maxUnavailable: 2 } } });
}

/** Two pods of different namespaces with image log:1 on node-1, one on node-2, and a SidecarSet that asks for log:2. */
async function rollOut(share: string | undefined, gates = 'ImagePullJobGate=true') {
  const cluster = new MemoryCluster();
  for (const name of ['shop', 'other']) cluster.put(kubeResource.namespaces, { metadata: { name } });
  for (const name of ['node-1', 'node-2']) cluster.put(nodeImages, nodeImage(name));
  const before = sidecarSet('log:1');
  for (const [name, namespace, node] of [
    ['a', 'shop', 'node-1'],
    ['b', 'other', 'node-1'],
    ['c', 'shop', 'node-2'],
  ] as const) {
    const pod = podWith(before, name, { namespace });
    cluster.put(kubeResource.pods, { ...pod, spec: { ...pod.spec, nodeName: node } } as never);
  }
  cluster.put(sidecarSets, setWith('log:2', 2, share) as never);
  const controller = await sidecarSetsPlayed.run(cluster, { gates });
  const jobs = () => cluster.all<ImagePullJob>(imagePullJobs);
  // the status of jobs follows the nodes
  let active = 0;
  const tellJobs = () => {
    active++;
    for (const job of jobs()) cluster.put(imagePullJobs, { ...job, status: { ...job.status, active } } as never);
  };
  sidecarSetsPlayed.repeat(tellJobs);
  return {
    cluster,
    jobs,
    revision: () => setIn(cluster)?.status?.latestRevision ?? '',
    play: playedRollOut(controller),
    waitingFor: () => setIn(cluster)?.status?.waitingFor,
    /** The node has pulled the image, or failed to. */
    pulled(node: string, phase: 'Succeeded' | 'Failed', tag = '2') {
      const report = nodeImage(node, { log: [tagOf(tag)] }, { log: [endedTag(tag, phase)] });
      cluster.put<NodeImage>(nodeImages, report as never);
    },
  };
}

describe('images that the roll-out of a SidecarSet waits for', () => {
  it.each([
    ['without the annotation', undefined, 'ImagePullJobGate=true'],
    ['where nothing is pulled', '100%', 'ImagePullJobGate=false'],
  ])('SCS-189: are none %s', async (_, share, gates) => {
    const { play, jobs, cluster } = await rollOut(share, gates);
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(jobs()).toEqual([]);
    expect(imagesIn(cluster)).toEqual(['log:2', 'log:2', 'log:2']);
  });

  it('are pulled on the nodes of the pods before any is updated, and this is recorded', async () => {
    const { play, revision, jobs, cluster, waitingFor, pulled } = await rollOut('100%');
    const [job] = await waitFor('the job', () => jobs().length === 1 && jobs());
    expect(job).toMatchObject({
      metadata: {
        namespace: 'kruise-system',
        name: `${revision()}-log`,
        ownerReferences: [{ kind: 'SidecarSet', name: 'logs', controller: true }],
      },
      spec: {
        image: 'log:2',
        selector: { names: ['node-1', 'node-2'] },
        parallelism: 1,
        completionPolicy: { type: 'Always', ttlSecondsAfterFinished: 600 },
      },
    });
    pulled('node-1', 'Succeeded');
    await waitFor('the wait', (see) => see(waitingFor())?.blockedBy.join() === 'node/node-2');
    expect(waitingFor()).toMatchObject({
      reason: 'ImageNotReady',
      unblock: expect.stringContaining('new images are on 1 of 2 nodes, and are needed on 2'),
    });
    expect(play.ask()).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'ImageNotReady' },
    });
    expect(imagesIn(cluster)).toEqual(['log:1', 'log:1', 'log:1']);

    pulled('node-2', 'Succeeded');
    const name = revision();
    await waitFor('the record', () => {
      const stored = cluster.all<ControllerRevision>(kubeResource.controllerRevisions);
      const found = stored.find(({ metadata }) => metadata.name === name);
      return found?.metadata.annotations?.[windlassAnnotation.prefetched] === String(found?.revision);
    });
    expect(await play.run()).toMatchObject({ kind: 'done' });
    expect(imagesIn(cluster)).toEqual(['log:2', 'log:2', 'log:2']);
    await waitFor('the end of the job', () => jobs().length === 0);
  });

  it('may be missing on as many nodes as the share allows; the wait names nodes on which they could not be pulled', async () => {
    const { play, jobs, waitingFor, pulled, cluster } = await rollOut('100%');
    await waitFor('the job', () => jobs().length === 1);
    pulled('node-1', 'Succeeded');
    pulled('node-2', 'Failed');
    await waitFor('the failure', () => waitingFor()?.unblock.includes('they could not be pulled on node-2'));
    const set = setIn(cluster);
    const annotations = { ...set?.metadata.annotations, [windlassAnnotation.prefetch]: '1' };
    cluster.put(sidecarSets, { ...set, metadata: { ...set?.metadata, annotations } } as never);
    await waitFor('the wait to end', () => waitingFor()?.reason !== 'ImageNotReady');
    expect(await play.run()).toMatchObject({ kind: 'done' });
  });

  it('are others when the SidecarSet gets another image: the job of the one before goes', async () => {
    const { jobs, cluster, revision } = await rollOut('100%');
    const before = revision();
    await waitFor('the job', () => jobs().length === 1);
    cluster.put(sidecarSets, setWith('log:3', 3, '100%') as never);
    await waitFor('the job of the next', () => {
      const names = jobs().map(({ spec }) => spec.image);
      return names.length === 1 && names[0] === 'log:3';
    });
    expect(revision()).not.toBe(before);
  });

  it('are asked for by a number or a percentage', () => {
    const problems = (share: string) =>
      validateSidecarSet(sidecarSetDraft({ metadata: { annotations: { [windlassAnnotation.prefetch]: share } } }))
        .problems;
    expect(problems('80%')).toEqual([]);
    expect(problems('many')).toEqual([
      expect.objectContaining({ field: 'metadata.annotations[windlass.io/prefetch]' }),
    ]);
  });
});
