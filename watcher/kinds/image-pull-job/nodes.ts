/** A job and its nodes: which ones it selects, the progress of each, and what is written into their NodeImages. */

import { failureTypeOf } from '../../../api/core/failure.ts';
import type { Resource } from '../../../api/core/meta.ts';
import { qualifiedName } from '../../../api/core/refs.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { type ImagePullJob, isFinished, steeringOf } from '../../../api/image-pull-job/types.ts';
import { type ImageOwner, type NodeImage, nodeImages, type PullSecretRef } from '../../../api/node-image/types.ts';
import { countIn } from '../../../kube/object-count.ts';
import {
  meantNodes,
  type NodeStanding,
  nodesWithoutNodeImage,
  standings,
} from '../../../plan/images/image-pull-job.ts';
import { imageOf, withoutWish, withRetry, withWish } from '../../../plan/images/node-image.ts';
import { nodeImagesByOwner } from '../node-image/controller.ts';
import type { PullJobPassDependencies } from './pull-job-pass-dependencies.ts';
import type { JobSecrets } from './secrets.ts';

/**
 * Whether the caches hold as many NodeImages, nodes and pods as exist. Jobs arrive by another watch, and a job that begins
 * while the watches of these lag behind would skip nodes that its user has seen, or complete at once without any (IPJ-20).
 */
export async function knowsAllNodes(job: ImagePullJob, world: PullJobPassDependencies): Promise<boolean> {
  const { kube } = world;
  const { namespace = '', creationTimestamp } = job.metadata;
  const counts = async (resource: Resource, known: () => number, selection: { readonly namespace?: string } = {}) => {
    const count = countIn(await kube.list(resource, { ...selection, limit: 1 }));
    return count === undefined || known() >= count;
  };
  // where pods come all the time the cache is never level with the API server, and a job does not wait for those after it
  const mayWait = world.now() < Date.parse(creationTimestamp) + mostLagMs;
  const all = await Promise.all([
    counts(nodeImages, () => world.nodeImages.size),
    counts(kubeResource.nodes, () => world.nodes.size),
    job.spec.podSelector === undefined ||
      !mayWait ||
      counts(kubeResource.pods, () => podsIn(namespace, world), { namespace }),
  ]);
  return all.every(Boolean);
}

/** A watch that lags behind for longer is no reason to hold up a job. */
const mostLagMs = 10_000;

function podsIn(namespace: string, { pods }: PullJobPassDependencies): number {
  let found = 0;
  for (const { metadata } of pods.all()) if (metadata.namespace === namespace) found++;
  return found;
}

/** The progress of each node of the job, according to the caches. */
export function standingsNow(
  job: ImagePullJob,
  { refs }: Pick<JobSecrets, 'refs'>,
  world: PullJobPassDependencies,
): readonly NodeStanding[] {
  const image = imageOf(job);
  if (image === undefined) return [];
  const meant = meantNodes(job, {
    nodeImages: world.nodeImages.all(),
    byName: (name) => world.nodeImages.byName('', name),
    pods: () => world.pods.all(),
  });
  const asked = standings(job, image, meant, refs, endedIn(world)).map((standing) =>
    standing.state === 'unasked' && world.refusals.has(refusalKey(job, standing.node), world.now())
      ? { ...standing, held: 'full' as const }
      : standing,
  );
  const coming = nodesWithoutNodeImage(job, {
    nodes: world.nodes.all(),
    hasNodeImage: (name) => world.nodeImages.byName('', name) !== undefined,
    pods: () => world.pods.all(),
  });
  return [
    ...asked,
    ...coming.map((node) => ({ node, state: 'unasked', lacksSecret: false, held: 'noNodeImage' }) as const),
  ];
}

/**
 * Writes into NodeImages: in `retry`, failed images are pulled again; in `tell`, the job is added as long as it may be.
 */
export async function writeToNodes(
  job: ImagePullJob,
  nodes: {
    readonly retry: readonly string[];
    readonly tell: readonly string[];
    /** Asked again right before a node is told. */
    readonly mayTell: (node: string) => boolean;
    readonly secrets: readonly PullSecretRef[];
  },
  world: PullJobPassDependencies,
): Promise<void> {
  const image = imageOf(job);
  if (image === undefined) return;
  const nowMs = world.now();
  const wish = { job, image, secrets: nodes.secrets, nowMs, isEnded: endedIn(world) };
  const { tagTtlSeconds } = world.images;
  const waves = world.waves().of(job.metadata.uid);
  await Promise.all([
    ...nodes.retry.map((node) =>
      world.edits.edit(node, (live) => {
        if (stateOn(live, job) !== 'failed') return live.spec;
        waves.begins(node, world.now());
        return withRetry(live, image, nowMs);
      }),
    ),
    ...nodes.tell.map(async (node) => {
      const spread = Math.random();
      let mayTell = false;
      try {
        await world.edits.edit(node, (live) => {
          mayTell = nodes.mayTell(node);
          if (!mayTell) return live.spec;
          if (stateOn(live, job) === 'unasked') waves.begins(node, world.now());
          return withWish(live, { ...wish, tagTtlSeconds, spread });
        });
        if (mayTell) world.refusals.forget(refusalKey(job, node));
      } catch (error) {
        if (failureTypeOf(error) !== 'Invalid') throw error;
        world.refusals.add(refusalKey(job, node), world.now());
        const fields = { job: qualifiedName(job.metadata), node, err: error };
        world.log.warn(fields, 'Cannot write an image to a NodeImage');
      }
    }),
  ]);
}

/** Removes an aborted job from the NodeImages whose pull has not ended. */
export async function withdraw(
  job: ImagePullJob,
  { nodeImages: known, edits }: PullJobPassDependencies,
): Promise<void> {
  const image = imageOf(job);
  if (image === undefined || steeringOf(job).abortedBy === undefined) return;
  const { uid } = job.metadata;
  const open = known.byIndex(nodeImagesByOwner, uid).filter((live) => withoutWish(live, image, uid) !== live.spec);
  await Promise.all(open.map(({ metadata }) => edits.edit(metadata.name, (live) => withoutWish(live, image, uid))));
}

/** Whether the job that owns a tag has ended. */
function endedIn({ jobs }: PullJobPassDependencies): (owner: ImageOwner) => boolean {
  return ({ namespace = '', name = '', uid }) => {
    const owner = jobs.byName(namespace, name);
    return owner !== undefined && owner.metadata.uid === uid && isFinished(owner);
  };
}

function stateOn(live: NodeImage, job: ImagePullJob): NodeStanding['state'] | undefined {
  const image = imageOf(job);
  return image && standings(job, image, [live], [])[0]?.state;
}

function refusalKey({ metadata }: ImagePullJob, node: string): string {
  return `${metadata.uid} ${node}`;
}
