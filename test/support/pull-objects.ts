import type { ImageListPullJob, ImagePullJob, ImagePullJobSpec } from '../../api/image-pull-job/types.ts';
import type { ImageTag, ImageTagStatus, NodeImage } from '../../api/node-image/types.ts';
import { metadataOf } from './objects/metadata.ts';

/** The creation time of all objects in these tests. */
export const bornAt = '2026-11-21T10:00:00Z';
export const bornMs = Date.parse(bornAt);

/** A job of namespace `shop` for `nginx:1.27` on all nodes. */
export function pullJob(spec: Partial<ImagePullJobSpec> = {}, more: Partial<ImagePullJob> = {}): ImagePullJob {
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'ImagePullJob',
    metadata: metadataOf(
      { namespace: 'shop', name: 'warm', uid: 'job-1' },
      { generation: 1, creationTimestamp: bornAt },
    ),
    spec: {
      image: 'nginx:1.27',
      imagePullPolicy: 'IfNotPresent',
      pullPolicy: { timeoutSeconds: 600, backoffLimit: 3 },
      completionPolicy: { type: 'Always' },
      ...spec,
    },
    ...more,
  };
}

/** A list of namespace `shop`. */
export function listJob(images: readonly string[], more: Partial<ImageListPullJob> = {}): ImageListPullJob {
  const { metadata, spec } = pullJob();
  const { image: _, imagePullPolicy: __, ...template } = spec;
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'ImageListPullJob',
    metadata: { ...metadata, name: 'tools', uid: 'list-1' },
    spec: { ...template, images },
    ...more,
  };
}

/** A NodeImage; `tags` by image. */
export function nodeImage(
  name: string,
  tags: Readonly<Record<string, readonly ImageTag[]>> = {},
  statuses: Readonly<Record<string, readonly ImageTagStatus[]>> = {},
  labels?: Readonly<Record<string, string>>,
): NodeImage {
  const images = Object.fromEntries(Object.entries(tags).map(([image, list]) => [image, { tags: list }]));
  const imageStatuses = Object.fromEntries(Object.entries(statuses).map(([image, list]) => [image, { tags: list }]));
  return {
    apiVersion: 'apps.kruise.io/v1beta1',
    kind: 'NodeImage',
    metadata: metadataOf(
      { name, uid: `uid-${name}` },
      { generation: 1, creationTimestamp: bornAt, ...(labels && { labels }) },
    ),
    spec: { images },
    status: { desired: 0, succeeded: 0, failed: 0, pulling: 0, imageStatuses },
  };
}

/** A tag that a job owns. */
export function tagOf(tag: string, more: Partial<ImageTag> = {}): ImageTag {
  return {
    tag,
    version: 0,
    createdAt: bornAt,
    imagePullPolicy: 'IfNotPresent',
    pullPolicy: { timeoutSeconds: 600, backoffLimit: 3, ttlSecondsAfterFinished: 300 },
    ownerReferences: [{ kind: 'ImagePullJob', namespace: 'shop', name: 'warm', uid: 'job-1' }],
    ...more,
  };
}

/** The status of a completed tag. */
export function endedTag(tag: string, phase: 'Succeeded' | 'Failed', version = 0): ImageTagStatus {
  return { tag, phase, version, startTime: bornAt, completionTime: bornAt };
}
