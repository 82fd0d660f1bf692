/**
 * The controller of ImagePullJobs: it selects nodes, adds the job's image to their NodeImages, to no more of them at
 * the same time than its parallelism allows, and counts the results. The operation of a job permits it to tell nodes, and
 * names them. Commands of operators are in the job's conditions.
 */

import { sameJson } from '../../../api/base/json.ts';
import { familiarImage } from '../../../api/core/familiar-image.ts';
import { isSelected } from '../../../api/core/label-selector.ts';
import type { Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { pullOnNodesType } from '../../../api/image-pull-job/operation.ts';
import { type ImagePullJob, imagePullJobs, isFinished } from '../../../api/image-pull-job/types.ts';
import { type NodeImage, nodeImages } from '../../../api/node-image/types.ts';
import type { OperationState } from '../../../process/metrics.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { operationState } from '../../operation-state.ts';
import { nodeImageIndexes } from '../node-image/controller.ts';
import { NodeImageEdits } from '../node-image/edits.ts';
import {
  jobsBySecret,
  PullSecretCopies,
  type PullSecretTimes,
  pullSecretTimes,
  secretKeysOf,
} from '../node-image/pull-secrets.ts';
import { judgementNow, passOverPullJob, tellOperation } from './pass.ts';
import type { PullJobPassDependencies } from './pull-job-pass-dependencies.ts';
import { RefusedNodes } from './refused-nodes.ts';
import { WaveHolder } from './wave-holder.ts';

const byImage = 'image';
const byPodNamespace = 'podNamespace';

/** The indexes of the cache of jobs. */
export const imagePullJobIndexes = {
  /** By the image name that NodeImages use. */
  [byImage]: (job: ImagePullJob): readonly string[] => {
    const image = familiarImage(job.spec.image);
    return image === undefined || isFinished(job) ? [] : [image.name];
  },
  /** Jobs that select nodes by pods, by their namespace. */
  [byPodNamespace]: ({ spec, metadata }: ImagePullJob): readonly string[] =>
    spec.podSelector === undefined ? [] : [metadata.namespace ?? ''],
  [jobsBySecret]: secretKeysOf,
};

/** Ensures that jobs are written to nodes, counted and completed. */
export function imagePullJobRunner(
  context: ControllerContext,
  secretTimes: PullSecretTimes = pullSecretTimes,
): Controller {
  const { kube, config, now, isLeading, cache, queue } = context;
  const jobs = cache<ImagePullJob>(imagePullJobs, imagePullJobIndexes);
  const images = cache<NodeImage>(nodeImages, nodeImageIndexes);
  const nodes = cache<Node>(kubeResource.nodes);
  const pods = cache<Pod>(kubeResource.pods);
  const isOn = config.featureGates.KruiseDaemon && config.featureGates.ImagePullJobGate;
  const passes = queue('image-pull-jobs', (uid) => passOverPullJob(uid, world));
  const secretPlaces = { namespace: config.images.secretNamespace, watchedNamespace: config.namespace };
  const wake = (uid: string) => passes.add(uid);
  const pullSecrets = new PullSecretCopies({ kube, queue, now, jobs, wake, ...secretPlaces }, secretTimes);
  const newHolder = (lost: AbortSignal) =>
    new WaveHolder({
      ...{ term: { lost }, wake, remind: (uid: string) => passes.remind(uid) },
      look: (uid) => judgementNow(uid, world),
      tell: (uid, nth) => tellOperation(uid, nth, world),
    });
  let waves = newHolder(new AbortController().signal);
  const world: PullJobPassDependencies = {
    ...{
      kube,
      starter: context.starter,
      commandEvents: context.commandEvents,
      images: config.images,
      log: context.log,
      now,
      isOn,
    },
    ...{ jobs, nodeImages: images, nodes, pods, pullSecrets },
    edits: new NodeImageEdits(kube, images),
    waves: () => waves,
    refusals: new RefusedNodes(),
    secretsAgainMs: secretTimes.compareMs,
    toldUnusable: new Set(),
  };

  jobs.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    if (uid !== undefined && isLeading()) passes.add(uid);
  });
  images.onChange(({ before, after }) => {
    if (!isLeading()) return;
    if (before === undefined || after === undefined || !sameJson(before.metadata.labels, after.metadata.labels)) {
      for (const job of jobs.all()) if (!isFinished(job)) passes.add(job.metadata.uid);
      return;
    }
    // IPJ-6: a job is triggered by its own image only, not by every change of a node
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
    begin({ lost }) {
      waves = newHolder(lost);
    },
    workflowTypes: [pullOnNodesType],
    nodes: () => (isLeading() ? waves : undefined),
    operations: () => ({ kind: imagePullJobs.kind, states: [...jobs.all()].map(stateOf) }),
  };
}

function stateOf(job: ImagePullJob): OperationState {
  const { active = 0, waitingFor } = job.status ?? {};
  return operationState(isFinished(job) ? 'Completed' : active > 0 ? 'Pulling' : 'New', waitingFor);
}

/** The images of a node whose counted results have changed. */
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

/** The counted results of an image. The progress of a pull triggers no job. */
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
