/**
 * What the watcher does for ImagePullJobs: it chooses nodes, writes the job's wish into their NodeImages, never into more
 * at once than parallelism says, and counts what comes back. What operators command stands in the job's conditions.
 */

import { fnv1a } from '../../../api/base/fnv.ts';
import { sameJson } from '../../../api/base/json.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import { familiarImage } from '../../../api/core/familiar-image.ts';
import { isSelected } from '../../../api/core/label-selector.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { qualifiedName } from '../../../api/core/refs.ts';
import { eventComponent, kubeResource } from '../../../api/core/well-known.ts';
import { grantFor } from '../../../api/engine/missing-right.ts';
import { commandNames, queues } from '../../../api/engine/operations.ts';
import { type PullJobOperation, pullOnNodesId, pullOnNodesType } from '../../../api/image-pull-job/operation.ts';
import {
  type ImagePullJob,
  type ImagePullJobStatus,
  imageListPullJobs,
  imagePullJobs,
  isFinished,
  pullSecretFinalizer,
  steeringOf,
  tooLargeForNodes,
} from '../../../api/image-pull-job/types.ts';
import { type ImageOwner, type NodeImage, nodeImages } from '../../../api/node-image/types.ts';
import { tellEvent } from '../../../kube/events.ts';
import type { PassResult } from '../../../kube/keyed-queue.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import { countIn } from '../../../kube/object-count.ts';
import { RecentlySeen } from '../../../kube/recently-seen.ts';
import {
  jobStatus,
  meantNodes,
  type NodeStanding,
  nodesToRetry,
  nodesToTell,
  retryTold,
  standings,
} from '../../../workflows/plan/images/image-pull-job.ts';
import { imageOf, withoutWish, withRetry, withWish } from '../../../workflows/plan/images/node-image.ts';
import { shortened, summaryBytes } from '../../../workflows/plan/text-size.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { hasCommand, passOnCommand } from '../../operator-commands.ts';
import type { WantedOperation } from '../../starter.ts';
import { nodeImageIndexes, nodeImagesByOwner } from '../node-image/controller.ts';
import { NodeImageEdits } from '../node-image/edits.ts';
import {
  jobsBySecret,
  type PullSecretTimes,
  pullSecretCopies,
  pullSecretTimes,
  pullSecretTypes,
  type SyncedSecrets,
  secretKeysOf,
} from '../node-image/pull-secrets.ts';

const byImage = 'image';
const byPodNamespace = 'podNamespace';

/** The indexes of the cache of jobs. */
export const imagePullJobIndexes = {
  /** By the name under which NodeImages file the image. */
  [byImage]: (job: ImagePullJob): readonly string[] => {
    const image = familiarImage(job.spec.image);
    return image === undefined || isFinished(job) ? [] : [image.name];
  },
  /** Jobs that choose nodes by pods, by their namespace. */
  [byPodNamespace]: ({ spec, metadata }: ImagePullJob): readonly string[] =>
    spec.podSelector === undefined ? [] : [metadata.namespace ?? ''],
  [jobsBySecret]: secretKeysOf,
};

const seenWithinMs = 30_000;

/** The API server has refused a wish as it would refuse it again; something may have gone from the node by then. */
const refusedForMs = 60_000;

/** The watch of NodeImages is a moment behind. */
const unknownNodesMs = 50;

/** Sees that jobs are told to nodes, counted and ended. */
export function imagePullJobRunner(
  context: ControllerContext,
  secretTimes: PullSecretTimes = pullSecretTimes,
): Controller {
  const { kube, starter, config, now, isLeading, cache, queue, log } = context;
  const jobs = cache<ImagePullJob>(imagePullJobs, imagePullJobIndexes);
  const images = cache<NodeImage>(nodeImages, nodeImageIndexes);
  const pods = cache<Pod>(kubeResource.pods);
  const edits = new NodeImageEdits(kube, images);
  /** Nodes whose NodeImage took no further image: their jobs go on with others meanwhile. */
  const refusals = new RecentlySeen(refusedForMs);
  const { secretNamespace } = config.images;
  const isOn = config.featureGates.KruiseDaemon && config.featureGates.ImagePullJobGate;
  const passes = queue('image-pull-jobs', async (uid) => {
    const job = jobs.byUid(uid);
    return job === undefined ? gone(uid) : await pass(job);
  });

  const wake = (uid: string) => passes.add(uid);
  const secretMeans = { kube, queue, now, jobs, wake, namespace: secretNamespace, watchedNamespace: config.namespace };
  const pullSecrets = pullSecretCopies(secretMeans, secretTimes);
  /** Of which job it was told that a Secret holds no registry credentials. */
  const toldUnusable = new Set<string>();

  jobs.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    if (uid !== undefined && isLeading()) passes.add(uid);
  });
  images.onChange(({ before, after }) => {
    if (!isLeading()) return;
    if (before === undefined || after === undefined || !sameJson(before.metadata.labels, after.metadata.labels)) {
      wantOpen();
      return;
    }
    // IPJ-6: a job is woken for what it pulls, not for everything that a node does
    for (const name of changedImages(before, after)) {
      for (const { metadata } of jobs.byIndex(byImage, name)) passes.add(metadata.uid);
    }
  });
  pods.onChange(({ before, after }) => {
    const pod = after ?? before;
    if (pod === undefined || !isLeading() || samePlace(before, after)) return;
    for (const { spec, metadata } of jobs.byIndex(byPodNamespace, pod.metadata.namespace ?? '')) {
      const isMeant = [before, after].some((seen) => seen && isSelected(spec.podSelector ?? {}, seen.metadata.labels));
      if (isMeant) passes.add(metadata.uid);
    }
  });

  return {
    wantAll() {
      for (const { metadata } of jobs.all()) passes.add(metadata.uid);
      if (isOn) pullSecrets.wantAll();
    },
    workflowTypes: [pullOnNodesType],
    operations: () => ({
      kind: imagePullJobs.kind,
      states: [...jobs.all()].map((job) => ({
        phase: isFinished(job) ? 'Completed' : (job.status?.active ?? 0) > 0 ? 'Pulling' : 'New',
        ...(job.status?.waitingFor && {
          waiting: { reason: job.status.waitingFor.reason, sinceMs: Date.parse(job.status.waitingFor.since) },
        }),
      })),
    }),
  };

  function wantOpen(): void {
    for (const job of jobs.all()) if (!isFinished(job)) passes.add(job.metadata.uid);
  }

  function gone(uid: string): undefined {
    end(uid);
    for (const key of toldUnusable) if (key.startsWith(`${uid}.`)) toldUnusable.delete(key);
    return undefined;
  }

  async function pass(job: ImagePullJob): Promise<PassResult | undefined> {
    const { metadata } = job;
    if (metadata.deletionTimestamp !== undefined) {
      end(metadata.uid);
      await release(job);
      return undefined;
    }
    const commanded = hasCommand(job) ? await command(job) : undefined;
    if (isFinished(job)) {
      end(metadata.uid);
      await release(job);
      await withdraw(job);
      return earliest(await expire(job), commanded);
    }
    if (!isOn) return undefined;
    return earliest(await carryOn(job), commanded);
  }

  /** Tells nodes, counts them, and writes down how it stands. */
  async function carryOn(job: ImagePullJob): Promise<PassResult | undefined> {
    const image = imageOf(job);
    if (image === undefined) return undefined; // admission lets none pass
    if (job.status?.startTime === undefined && !(await knowsAllNodes())) return { againInMs: unknownNodesMs };
    let secrets: SyncedSecrets = { refs: [], missing: [], unusable: [] };
    let secretTrouble: string | undefined;
    let mayTell = true;
    const tooLarge = tooLargeForNodes(job.spec);
    try {
      if (tooLarge === undefined) secrets = await pullSecrets.sync(job);
    } catch (error) {
      const type = failureTypeOf(error);
      if (type !== 'Denied' && type !== 'Invalid') throw error;
      // a right may be back in a moment, and without its Secrets a private image counts as one that does not exist
      mayTell = type !== 'Denied';
      secretTrouble = refusedSecrets(error);
      log.warn({ job: qualifiedName(metadataOf(job)), err: error }, 'Cannot copy pull Secrets');
    }

    await tellUnusable(job, secrets);

    const before = stand(job, secrets);
    const retry = nodesToRetry(job, before);
    const tell = mayTell && tooLarge === undefined ? nodesToTell(job, before) : [];
    const nowMs = now();
    const { tagTtlSeconds } = config.images;
    await Promise.all([
      ...retry.map((node) =>
        edits.edit(node, (live) => (hasFailed(job, live) ? withRetry(live, image, nowMs) : live.spec)),
      ),
      ...tell.map(async (node) => {
        const spread = Math.random();
        const wish = { job, image, secrets: secrets.refs, nowMs, tagTtlSeconds, spread, isEnded };
        try {
          await edits.edit(node, (live) => withWish(live, wish));
        } catch (error) {
          if (failureTypeOf(error) !== 'Invalid') throw error;
          refusals.add(refusalKey(job, node), now());
          log.warn({ job: qualifiedName(metadataOf(job)), node, err: error }, 'Cannot write an image to a NodeImage');
        }
      }),
    ]);

    const after = tell.length + retry.length > 0 ? stand(job, secrets) : before;
    const engine = starter.trouble(pullOnNodesId(job.metadata.uid));
    const statusContext = {
      nowMs: now(),
      ...(engine && { engine }),
      ...(secretTrouble && { secretTrouble }),
      ...(tooLarge !== undefined && { tooLarge }),
    };
    const { status, againInMs } = jobStatus(job, after, statusContext);
    const retrying = steeringOf(job).retrying && status.completionTime === undefined;
    const told = retrying ? { ...status, conditions: retryTold(status.conditions, retry.length, now()) } : status;
    await writeStatus(job, told);
    if (told.completionTime === undefined) starter.want(operationOf(job));
    return earliest(
      againInMs === undefined ? undefined : { againInMs },
      secrets.missing.length + secrets.unusable.length > 0 || secretTrouble !== undefined
        ? { againInMs: secretTimes.compareMs }
        : undefined,
    );
  }

  /** Once for each job and Secret: the pull goes on, but the Secret does nothing for it. */
  async function tellUnusable(job: ImagePullJob, { unusable }: SyncedSecrets): Promise<void> {
    for (const { name, type } of unusable) {
      const key = `${job.metadata.uid}.${fnv1a(name).toString(16)}`;
      if (toldUnusable.has(key)) continue;
      toldUnusable.add(key);
      const message = `Secret "${name}" is not used: its type is "${type}", and pulls use ${pullSecretTypes.join(' and ')}`;
      const component = eventComponent.imagePullJob;
      const text = { type: 'Warning', reason: 'PullSecretNotUsed', message } as const;
      await tellEvent(kube, { about: job, component, ...text, atMs: now(), key });
    }
  }

  function refusedSecrets(error: unknown): string {
    const why = error instanceof Error ? error.message : String(error);
    return grantFor(why) ?? `Allow the watcher to write Secrets in namespace "${secretNamespace}"; ${why}`;
  }

  /**
   * Whether as many NodeImages are known as there are. Jobs come by another watch, and one that begins while that of
   * NodeImages is behind would pass over nodes that its user has seen, or end at once without any (IPJ-20).
   */
  async function knowsAllNodes(): Promise<boolean> {
    const count = countIn(await kube.list<NodeImage>(nodeImages, { limit: 1 }));
    return count === undefined || images.size >= count;
  }

  function stand(job: ImagePullJob, secrets: SyncedSecrets): readonly NodeStanding[] {
    const image = imageOf(job);
    if (image === undefined) return [];
    const meant = meantNodes(job, {
      nodeImages: images.all(),
      byName: (name) => images.byName('', name),
      pods: () => pods.all(),
    });
    return standings(job, image, meant, secrets.refs, isEnded).map((standing) =>
      standing.state === 'unasked' && refusals.has(refusalKey(job, standing.node), now())
        ? { ...standing, isFull: true }
        : standing,
    );
  }

  function isEnded({ namespace = '', name = '', uid }: ImageOwner): boolean {
    const owner = jobs.byName(namespace, name);
    return owner !== undefined && owner.metadata.uid === uid && isFinished(owner);
  }

  function hasFailed(job: ImagePullJob, live: NodeImage): boolean {
    const image = imageOf(job);
    return image !== undefined && standings(job, image, [live], []).some(({ state }) => state === 'failed');
  }

  async function writeStatus(job: ImagePullJob, status: ImagePullJobStatus): Promise<void> {
    if (sameJson(job.status, status)) return;
    const { namespace = '', name, uid, resourceVersion } = job.metadata;
    const patch = [
      { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
      { op: 'add', path: '/status', value: status },
    ];
    const written = await unlessMovedOn(
      kube.patch<ImagePullJob>(imagePullJobs, { namespace, name }, 'json', patch, { subresource: 'status' }),
    );
    if (written) await jobs.seen(uid, written.metadata.resourceVersion, AbortSignal.timeout(seenWithinMs));
  }

  /** Its operation has nothing left to hear. */
  function end(uid: string): void {
    const workflowId = pullOnNodesId(uid);
    if (starter.isSent(workflowId)) void starter.tell(workflowId, null);
    starter.forget(workflowId);
  }

  /** IPJ-23: the copies of Secrets, and then the finalizer that says there are some. */
  async function release(job: ImagePullJob): Promise<void> {
    const { namespace = '', name, uid, resourceVersion, finalizers = [] } = job.metadata;
    if (!finalizers.includes(pullSecretFinalizer)) return;
    await pullSecrets.release(job);
    const left = finalizers.filter((finalizer) => finalizer !== pullSecretFinalizer);
    const body = { metadata: { uid, resourceVersion, finalizers: left } };
    await unlessMovedOn(kube.patch(imagePullJobs, { namespace, name }, 'merge', body));
  }

  /** An aborted job wants nothing any more of nodes that have not ended. */
  async function withdraw(job: ImagePullJob): Promise<void> {
    const image = imageOf(job);
    if (image === undefined || steeringOf(job).abortedBy === undefined) return;
    const { uid } = job.metadata;
    const open = images.byIndex(nodeImagesByOwner, uid).filter((live) => withoutWish(live, image, uid) !== live.spec);
    await Promise.all(open.map(({ metadata }) => edits.edit(metadata.name, (live) => withoutWish(live, image, uid))));
  }

  /** IPJ-23. A job of a list waits for the list, which counts it (ILP-8). */
  async function expire(job: ImagePullJob): Promise<PassResult | undefined> {
    const { spec, status, metadata } = job;
    const { ttlSecondsAfterFinished } = spec.completionPolicy;
    if (ttlSecondsAfterFinished === undefined || status?.completionTime === undefined) return undefined;
    if (metadata.ownerReferences?.some(({ kind, controller }) => controller && kind === imageListPullJobs.kind)) {
      return undefined;
    }
    const leftMs = Date.parse(status.completionTime) + ttlSecondsAfterFinished * 1_000 - now();
    if (leftMs > 0) return { againInMs: leftMs };
    const { namespace = '', name, uid } = metadata;
    await unlessMovedOn(kube.delete(imagePullJobs, { namespace, name }, { preconditions: { uid } }));
    return undefined;
  }

  async function command(job: ImagePullJob): Promise<PassResult | undefined> {
    const workflowId = pullOnNodesId(job.metadata.uid);
    const commanded = isFinished(job) ? ({ kind: 'nobody' } as const) : ({ kind: 'running', workflowId } as const);
    return await passOnCommand(job, imagePullJobs, commandNames, commanded, { kube, starter });
  }
}

function operationOf(job: ImagePullJob): WantedOperation {
  const { namespace = '', name, uid } = job.metadata;
  const argument: PullJobOperation = { job: { namespace, name, uid } };
  return {
    workflowId: pullOnNodesId(uid),
    workflowType: pullOnNodesType,
    taskQueue: queues.cluster,
    argument,
    change: null,
    inputs: uid,
    summary: shortened(`pull ${job.spec.image} for ${namespace}/${name}`, summaryBytes),
    about: { kind: imagePullJobs.kind, namespace, name, node: '' },
  };
}

function refusalKey({ metadata }: ImagePullJob, node: string): string {
  return `${metadata.uid} ${node}`;
}

function metadataOf({ metadata: { namespace = '', name } }: ImagePullJob) {
  return { namespace, name };
}

/** The images of a node of which something has changed that is counted. */
export function changedImages(before: NodeImage, after: NodeImage): readonly string[] {
  const names = new Set(
    [before, after].flatMap(({ spec, status }) => [
      ...Object.keys(spec.images ?? {}),
      ...Object.keys(status?.imageStatuses ?? {}),
    ]),
  );
  const waits = before.status?.waitingFor?.reason !== after.status?.waitingFor?.reason;
  return [...names].filter(
    (name) =>
      waits ||
      !sameJson(before.spec.images?.[name], after.spec.images?.[name]) ||
      !sameJson(ends(before, name), ends(after, name)),
  );
}

/** What is counted of an image. How far a pull is wakes nobody. */
function ends({ status }: NodeImage, name: string): unknown {
  return status?.imageStatuses?.[name]?.tags?.map(({ progress: _, fetched: __, ...rest }) => rest);
}

function samePlace(before: Pod | undefined, after: Pod | undefined): boolean {
  return (
    before?.spec.nodeName === after?.spec.nodeName &&
    before?.status?.phase === after?.status?.phase &&
    before?.metadata.deletionTimestamp === after?.metadata.deletionTimestamp &&
    sameJson(before?.metadata.labels, after?.metadata.labels)
  );
}

function earliest(...results: readonly (PassResult | undefined)[]): PassResult | undefined {
  const times = results.flatMap((result) => result?.againInMs ?? []);
  return times.length === 0 ? undefined : { againInMs: Math.min(...times) };
}
