/**
 * Images that a roll-out waits for before its first step: on how many of the nodes they have to be, and on which they are.
 * The same for workloads and for SidecarSets; which images and nodes, and who pulls them, is decided by each.
 */
import { countOf, type IntOrPercent } from '../../api/base/int-or-percent.ts';
import type { JsonObject } from '../../api/base/json.ts';
import { compareGoStrings } from '../../api/base/json-go.ts';
import { familiarImage } from '../../api/core/familiar-image.ts';
import { apiVersionOf } from '../../api/core/meta.ts';
import { preDownloadDefault } from '../../api/fleet/pre-download.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { imagePullJobs } from '../../api/image-pull-job/types.ts';
import { currentTagStatus, findTag, type NodeImage, outcomeOf } from '../../api/node-image/types.ts';
import { type Wait, waitFor } from '../decision.ts';
import { mostWaitBytes, shortened } from '../text-size.ts';

/** A container whose image differs in a revision. */
export interface ChangedImage {
  readonly container: string;
  readonly image: string;
}

/** The progress of the images that a roll-out waits for. */
export interface Prefetch {
  /** They are on enough nodes. */
  readonly isReached: boolean;
  /** By name: nodes with pods of another revision that have all the images, and those that lack one. */
  readonly ready: readonly string[];
  readonly missing: readonly string[];
  /** The nodes in `missing` on which a pull has failed. */
  readonly failed: readonly string[];
  /** Containers whose images are missing and have not failed on some node: those need a job. */
  readonly open: readonly string[];
  /** On how many nodes they should be. */
  readonly wanted: number;
}

/** How far these images are on these nodes. A node may be named more than once; one without an entry is not waited for. */
export function prefetchProgress(
  images: readonly ChangedImage[],
  {
    nodes: names,
    nodeImages,
    share,
  }: {
    readonly nodes: readonly string[];
    /** By node; undefined for one that has no NodeImage yet. */
    readonly nodeImages: ReadonlyMap<string, NodeImage | undefined>;
    readonly share: IntOrPercent;
  },
): Prefetch {
  const nodes = [...new Set(names)]
    .filter((node) => nodeImages.has(node))
    .sort(compareGoStrings)
    .map((node) => ({ node, pulls: images.map((changed) => pullOn(nodeImages.get(node), changed)) }));
  const named = (is: (pulls: readonly (PullState | undefined)[]) => boolean) =>
    nodes.filter(({ pulls }) => is(pulls)).map(({ node }) => node);
  const isReady = (pulls: readonly (PullState | undefined)[]) => pulls.every((state) => state === 'Succeeded');
  const ready = named(isReady);
  const wanted = Math.min(countOf(share, nodes.length, 'up') ?? 0, nodes.length);
  return {
    isReached: ready.length >= wanted,
    ready,
    missing: named((pulls) => !isReady(pulls)),
    failed: named((pulls) => pulls.includes('Failed')),
    open: images.filter((_, at) => nodes.some(({ pulls }) => pulls[at] === 'open')).map(({ container }) => container),
    wanted,
  };
}

/** `open`: it has not ended, or was not requested. */
type PullState = 'Succeeded' | 'Failed' | 'open';

/** Undefined while the node has no NodeImage yet. */
function pullOn(nodeImage: NodeImage | undefined, { image }: ChangedImage): PullState | undefined {
  const familiar = familiarImage(image);
  if (nodeImage === undefined || familiar === undefined) return undefined;
  const tag = findTag(nodeImage, familiar.name, familiar.tag);
  return (tag && outcomeOf(currentTagStatus(nodeImage, { name: familiar.name, tag }))) ?? 'open';
}

/** The number of the revision: an older one that returns has another number, and waits again. */
export function prefetchedMark({ revision }: Pick<ControllerRevision, 'revision'>): string {
  return String(revision);
}

/** The wait for these images, with what can be done about it. */
export function imageNotReadyWait({ missing, failed, ready, wanted }: Prefetch, remedy: string): Wait {
  const nodes = missing.length + ready.length;
  const detail = `new images are on ${ready.length} of ${nodes} nodes, and are needed on ${wanted}`;
  const failures = failed.length === 0 ? '' : `; they could not be pulled on ${failed.slice(0, 3).join(', ')}`;
  const blockedBy = missing.map((node) => `node/${node}`);
  return waitFor('ImageNotReady', blockedBy, shortened(`${remedy}; ${detail}${failures}`, mostWaitBytes));
}

/** The job that pulls the image of a container of a revision. */
export function aheadJobName(
  { metadata }: { readonly metadata: { readonly name: string } },
  { container }: Pick<ChangedImage, 'container'>,
): string {
  return `${metadata.name}-${container}`;
}

/** A job that pulls an image before a roll-out needs it (CS-102): one retry on a node, and gone ten minutes after its end. */
export function aheadJob(
  metadata: JsonObject,
  { image, where, parallelism, timeoutSeconds, secrets }: AheadJob,
): JsonObject {
  return {
    apiVersion: apiVersionOf(imagePullJobs),
    kind: imagePullJobs.kind,
    metadata,
    spec: {
      image,
      ...where,
      parallelism: parallelism ?? preDownloadDefault.imagePreDownloadParallelism,
      pullPolicy: {
        timeoutSeconds: timeoutSeconds ?? preDownloadDefault.imagePreDownloadTimeoutSeconds,
        backoffLimit: 1,
      },
      completionPolicy: { type: 'Always', ttlSecondsAfterFinished: 600 },
      ...(secrets.length > 0 && { pullSecrets: secrets }),
    },
  };
}

interface AheadJob {
  readonly image: string;
  /** `podSelector` or `selector`, and what else only such jobs have. */
  readonly where: JsonObject;
  /** Absent: the default. */
  readonly parallelism: IntOrPercent | undefined;
  readonly timeoutSeconds: number | undefined;
  /** Names of pull secrets in the namespace of the job. */
  readonly secrets: readonly string[];
}
