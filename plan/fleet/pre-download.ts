/**
 * Pre-download of images to nodes (CS-100…104).
 *
 * A job for each image that an in-place update changes pulls it on the nodes whose pods have another revision. That is
 * decided once for each revision, and recorded on it. The roll-out does not wait for the jobs unless the workload
 * requests it: then no pod is disrupted before the images are on as many of these nodes as it says. When that is
 * reached it is recorded on the revision, too, and holds for this roll-out, whatever happens to the nodes.
 */

import { isJsonList, isJsonObject, type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { controllerReference } from '../../api/core/refs.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { preDownloadMark, prefetchShare } from '../../api/fleet/pre-download.ts';
import { type ControllerRevision, revisionMark, shortHash, templateOf } from '../../api/fleet/revision.ts';
import { type ImagePullJob, isFinished } from '../../api/image-pull-job/types.ts';
import { mostSandboxBytes } from '../../api/image-pull-job/validate.ts';
import { decideInPlace } from './in-place/decide.ts';
import { asSeen, isOfRevision } from './pods.ts';
import {
  aheadJob,
  aheadJobName,
  type ChangedImage,
  type Prefetch,
  prefetchedMark,
  prefetchProgress,
} from './prefetch.ts';
import { type FleetScene, type PreDownloadSettings, skippedPods, type UpdateDemand } from './scene.ts';
import type { Intention } from './steps.ts';

/** The images that the roll-out waits for before its first step; undefined when it waits for none. */
export function prefetchOf(scene: FleetScene): Prefetch | undefined {
  const { input, revisions, counted } = scene;
  const { update } = revisions;
  const share = prefetchShare(scene.owner);
  const isOpen = update.metadata.annotations?.[windlassAnnotation.prefetched] === prefetchedMark(update);
  if (share === undefined || isOpen || scene.isUndo || input.nodeImages === undefined || !isOn(scene)) return undefined;
  const images = changedImages(scene);
  if (images.length === 0 || !goesAhead(scene)) return undefined;

  const { nodeImages } = input;
  const skip = skippedPods(scene);
  const old = counted.filter((pod) => !isOfRevision(pod, update.metadata.name) && !skip.has(pod.name));
  const nodes = old.flatMap(({ pod }) => pod.spec.nodeName ?? []);
  return prefetchProgress(images, { nodes, nodeImages, share });
}

/** What to do about the jobs of a workload, and what to record on its revision. */
export function planPreDownload(scene: FleetScene, { left }: UpdateDemand): readonly Intention[] {
  const { input, revisions, strategy } = scene;
  const { current, update, steps } = revisions;
  const { pullJobs = [] } = input;
  // CS-104
  if (current.metadata.name === update.metadata.name) return withoutJobs(pullJobs);
  // A revision that is being written has to be read again first.
  if (!isOn(scene) || scene.isUndo || steps.length > 0) return [];

  const prefetch = left > 0 ? prefetchOf(scene) : undefined;
  return aheadSteps(scene, { prefetch, decision: decide(scene, isAwaited(prefetch)), settings: strategy.preDownload });
}

/** Whether the roll-out waits for images. */
export function isAwaited(prefetch: Prefetch | undefined): prefetch is Prefetch {
  return prefetch !== undefined && !prefetch.isReached;
}

/** The jobs that this requires, and what is recorded on the revision. */
export function aheadSteps(scene: FleetScene, { prefetch, decision, settings }: AheadDecision): readonly Intention[] {
  const { pullJobs = [] } = scene.input;
  const { update } = scene.revisions;
  const there = new Set(pullJobs.map(({ metadata }) => metadata.name));
  const spent = isAwaited(prefetch) ? spentJobs(scene, prefetch) : [];
  // A job that a roll-out waits for is recreated when it is gone: it was deleted, or its TTL has expired.
  const jobs =
    decision === 'created' || isAwaited(prefetch)
      ? changedImages(scene)
          .filter((changed) => !there.has(aheadJobName(update, changed)))
          .map((changed) => jobFor(scene, changed, settings))
      : [];
  const marks = {
    ...(decision && { labels: { [preDownloadMark[decision]]: 'true' } }),
    ...(prefetch?.isReached && { annotations: { [windlassAnnotation.prefetched]: prefetchedMark(update) } }),
  };
  const isMarking = Object.keys(marks).length > 0;
  if (spent.length > 0) return spent.map((job) => ({ kind: 'deletePullJob', job: asSeen(job) }));
  if (jobs.length > 0) {
    return [{ kind: 'preDownload', jobs, revision: asSeen(update), ...(isMarking && { marks: { metadata: marks } }) }];
  }
  return isMarking ? [{ kind: 'patchRevision', revision: asSeen(update), patch: { metadata: marks } }] : [];
}

export interface AheadDecision {
  /** The images that the roll-out waits for. Undefined: it waits for none. */
  readonly prefetch: Prefetch | undefined;
  /** What is decided about the revision now. Undefined: nothing. */
  readonly decision: keyof typeof preDownloadMark | undefined;
  readonly settings: JobSettings | undefined;
}

type JobSettings = Partial<Pick<PreDownloadSettings, 'parallelism' | 'timeoutSeconds'>>;

/** The jobs are deleted. */
export function withoutJobs(jobs: readonly ImagePullJob[]): readonly Intention[] {
  const left = jobs.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return left.map((job) => ({ kind: 'deletePullJob', job: asSeen(job) }));
}

/** Completed jobs although some nodes have not pulled yet: they are deleted, to be created again. */
function spentJobs({ input, revisions }: FleetScene, { open }: Prefetch): readonly ImagePullJob[] {
  const names = open.map((container) => aheadJobName(revisions.update, { container }));
  return (input.pullJobs ?? []).filter(
    (job) => names.includes(job.metadata.name) && isFinished(job) && job.metadata.deletionTimestamp === undefined,
  );
}

/** CS-101: the decision about this revision; undefined when it was made already, or is to be made later. */
function decide(scene: FleetScene, mustWait: boolean): keyof typeof preDownloadMark | undefined {
  const { strategy, replicas, revisions, counted } = scene;
  const { update } = revisions;
  const { labels = {} } = update.metadata;
  if (preDownloadMark.created in labels || preDownloadMark.ignored in labels) return undefined;
  if (mustWait) return 'created';

  const { minUpdatedReadyPods = 0, isOneBatch = true } = strategy.preDownload ?? {};
  const ready = counted.filter((pod) => pod.isServing && isOfRevision(pod, update.metadata.name));
  if (ready.length < minUpdatedReadyPods) return undefined;
  return replicas <= fewPods || isOneBatch || !goesAhead(scene) ? 'ignored' : 'created';
}

/** This many pods are updated before a job would help them. */
const fewPods = 3;

/** CS-100. */
function isOn({ input, ahead }: FleetScene): boolean {
  if (ahead) return ahead.isOn;
  const { PreDownloadImageForInPlaceUpdate, KruiseDaemon, ImagePullJobGate } = input.gates;
  return PreDownloadImageForInPlaceUpdate && KruiseDaemon && ImagePullJobGate;
}

/** Whether pods go from the current revision to the new one in a way for which images are pulled ahead. */
function goesAhead({ strategy, scheme, revisions, input, ahead }: FleetScene): boolean {
  if (ahead) return !strategy.isOnDelete;
  if (strategy.isOnDelete || strategy.preDownload === undefined) return false;
  const { kind } = decideInPlace({
    policy: strategy.podUpdatePolicy,
    oldRevision: revisions.current,
    newRevision: revisions.update,
    gates: input.gates,
    recreatesForClaims: scheme.recreatesForClaims(input.gates),
  });
  return kind === 'inPlace';
}

/** PRE-5. */
function changedImages({ revisions, ahead }: FleetScene): readonly ChangedImage[] {
  return ahead?.images ?? imagesBeside(revisions.update, revisions.current);
}

/** The images of a revision that another one does not have in the same container. */
export function imagesBeside(revision: ControllerRevision, other: ControllerRevision): readonly ChangedImage[] {
  const before = imagesOf(other);
  return imagesOf(revision).filter(
    ({ container, image }) => before.find((old) => old.container === container)?.image !== image,
  );
}

export function imagesOf(revision: ControllerRevision): readonly ChangedImage[] {
  const { containers } = objectOr(templateOf(revision)?.spec);
  return listOr(containers).flatMap((container) => {
    const { name, image } = objectOr(container);
    return typeof name === 'string' && typeof image === 'string' ? [{ container: name, image }] : [];
  });
}

/** CS-102, CS-103. */
function jobFor(
  { resource, owner, revisions }: FleetScene,
  changed: ChangedImage,
  settings: JobSettings = {},
): JsonObject {
  const { update } = revisions;
  const hash = shortHash(update.metadata.name);
  const template = templateOf(update) ?? {};
  const { labels, annotations } = objectOr(template.metadata);
  const { parallelism, timeoutSeconds } = settings;
  const { namespace = '' } = owner.metadata;
  const ownLabels = { ...objectOr(labels), [revisionMark.hash]: hash };
  const { matchLabels, matchExpressions = [] } = owner.spec.selector;
  const notUpdated = { key: revisionMark.podRevision, operator: 'NotIn', values: [update.metadata.name, hash] };
  const job = {
    namespace,
    name: aheadJobName(update, changed),
    labels: ownLabels,
    ownerReferences: [{ ...controllerReference(resource, owner) }],
  };
  return aheadJob(job, {
    ...{ image: changed.image, parallelism, timeoutSeconds, secrets: pullSecretsOf(template.spec) },
    where: {
      podSelector: {
        ...(matchLabels && { matchLabels }),
        matchExpressions: [...matchExpressions.map((requirement) => ({ ...requirement })), notUpdated],
      },
      ...sandboxOf(ownLabels, isJsonObject(annotations) ? annotations : undefined),
    },
  });
}

/** What a job may pass to a runtime of the pods' metadata: labels and annotations, labels alone, or neither. */
function sandboxOf(labels: JsonObject, annotations: JsonObject | undefined): JsonObject {
  const choices = [{ labels, ...(annotations && { annotations }) }, { labels }];
  const sandboxConfig = choices.find((choice) => jsonBytes(choice) <= mostSandboxBytes);
  return sandboxConfig === undefined ? {} : { sandboxConfig };
}

function pullSecretsOf(podSpec: JsonObject[string]): readonly string[] {
  const { imagePullSecrets } = objectOr(podSpec);
  if (!isJsonList(imagePullSecrets)) return [];
  return imagePullSecrets.flatMap((secret) => {
    const { name } = objectOr(secret);
    return typeof name === 'string' && name !== '' ? [name] : [];
  });
}
