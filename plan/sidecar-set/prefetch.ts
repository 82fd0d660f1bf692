/**
 * Images that the roll-out of a SidecarSet waits for, where its annotation asks for that: no sidecar is restarted or swapped
 * before the new images are on so many of the nodes. By default nothing is pre-downloaded (SCS-189).
 *
 * The jobs are in the namespace of the revisions, one for each image, and name the nodes: the pods of a SidecarSet may be in
 * many namespaces. When enough nodes have the images, that is recorded on the revision and holds for this roll-out.
 */

import { parseInt32 } from '../../api/base/int-or-percent.ts';
import { isJsonObject, type JsonObject, listOr } from '../../api/base/json.ts';
import { controllerReference } from '../../api/core/refs.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { preDownloadAnnotation, prefetchShare } from '../../api/fleet/pre-download.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { isFinished } from '../../api/image-pull-job/types.ts';
import { sidecarSetLabel } from '../../api/sidecar-set/marks.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { asSeen } from '../fleet/pods.ts';
import {
  aheadJob,
  aheadJobName,
  type ChangedImage,
  type Prefetch,
  prefetchedMark,
  prefetchProgress,
} from '../fleet/prefetch.ts';
import type { UpdateDemand } from './budget.ts';
import type { SidecarSetStep } from './input.ts';
import { namesInPod } from './pods.ts';
import { isUpdating, named, type SidecarSetScene } from './scene.ts';

/** The images that the roll-out waits for, and where they are; undefined when it waits for none, or does not any more. */
export function prefetchOf(scene: SidecarSetScene, { line }: Pick<UpdateDemand, 'line'>): Prefetch | undefined {
  const { nodeImages } = scene.input;
  const share = prefetchShare(scene.owner);
  if (share === undefined || nodeImages === undefined || scene.isUndo || isRecorded(scene)) return undefined;
  const images = changedImages(scene, { line });
  if (images.length === 0) return undefined;
  const nodes = line.flatMap(({ pod }) => pod.spec.nodeName ?? []);
  return prefetchProgress(images, { nodes, nodeImages, share });
}

/** What to do about the jobs, and what to record on the revision. */
export function planPrefetch(
  scene: SidecarSetScene,
  demand: Pick<UpdateDemand, 'line'>,
  prefetch: Prefetch | undefined,
): readonly SidecarSetStep[] {
  const present = (scene.input.pullJobs ?? []).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const isWanted =
    isUpdating(scene) && !scene.isUndo && demand.line.length > 0 && prefetchShare(scene.owner) !== undefined;
  const images = isWanted ? changedImages(scene, demand) : [];
  const names = new Set(images.map((changed) => jobName(scene, changed)));
  const spent = new Set(
    prefetch?.isReached === false ? prefetch.open.map((container) => jobName(scene, { container })) : [],
  );
  const surplus = present.filter(
    (job) => !names.has(job.metadata.name) || (spent.has(job.metadata.name) && isFinished(job)),
  );
  if (surplus.length > 0) return surplus.map((job) => ({ kind: 'deletePullJob', job: asSeen(job) }));
  if (prefetch === undefined) return [];
  if (prefetch.isReached) return record(scene);
  const there = new Set(scene.input.pullJobs?.map(({ metadata }) => metadata.name));
  return images
    .filter((changed) => !there.has(jobName(scene, changed)))
    .map((changed) => ({ kind: 'createPullJob', job: jobFor(scene, changed, prefetch.missing) }));
}

function revisionOf({ revisions, target }: SidecarSetScene): ControllerRevision | undefined {
  return named(revisions.history, target.revision);
}

function isRecorded(scene: SidecarSetScene): boolean {
  const revision = revisionOf(scene);
  const mark = revision?.metadata.annotations?.[windlassAnnotation.prefetched];
  return revision !== undefined && mark === prefetchedMark(revision);
}

/** A revision that is not stored yet is recorded in a later pass. */
function record(scene: SidecarSetScene): readonly SidecarSetStep[] {
  const revision = revisionOf(scene);
  if (revision === undefined) return [];
  const patch = { metadata: { annotations: { [windlassAnnotation.prefetched]: prefetchedMark(revision) } } };
  return [{ kind: 'patchRevision', revision: asSeen(revision), patch }];
}

/** The images of sidecars that some of these pods do not have. A hot-upgrade sidecar has its image in one of two containers. */
function changedImages({ target }: SidecarSetScene, { line }: Pick<UpdateDemand, 'line'>): readonly ChangedImage[] {
  return listOr(target.content.containers).flatMap((container) => {
    if (!isJsonObject(container)) return [];
    const { name, image } = container;
    if (typeof name !== 'string' || typeof image !== 'string') return [];
    const names = namesInPod(container);
    const isMissing = line.some(
      ({ pod }) => !pod.spec.containers.some((one) => names.includes(one.name) && one.image === image),
    );
    return isMissing ? [{ container: name, image }] : [];
  });
}

function jobName({ target }: SidecarSetScene, changed: Pick<ChangedImage, 'container'>): string {
  return aheadJobName({ metadata: { name: target.revision } }, changed);
}

function jobFor(scene: SidecarSetScene, changed: ChangedImage, nodes: readonly string[]): JsonObject {
  const { owner, input } = scene;
  const { annotations = {}, name } = owner.metadata;
  const setting = (key: string) => parseInt32(annotations[key] ?? '');
  const job = {
    namespace: input.revisionNamespace,
    name: jobName(scene, changed),
    labels: { [sidecarSetLabel.name]: name },
    ownerReferences: [{ ...controllerReference(sidecarSets, owner) }],
  };
  return aheadJob(job, {
    image: changed.image,
    where: { selector: { names: [...nodes] } },
    parallelism: setting(preDownloadAnnotation.imagePreDownloadParallelism),
    timeoutSeconds: setting(preDownloadAnnotation.imagePreDownloadTimeoutSeconds),
    secrets: (owner.spec.imagePullSecrets ?? []).flatMap((secret) => secret.name ?? []),
  });
}
