// ImagePullJob and ImageListPullJob: one image, or many, on many nodes.
//
// Who writes what. A field has one writer; every write carries the resourceVersion that it was decided on.
//
//   metadata.finalizers         admission adds it to a job with pull secrets, the watcher removes it when they are released
//   spec                        the user
//   status.conditions Paused, Aborted
//                               the workflow `pullOnNodes`, through the cluster worker: what an operator has commanded
//   status.conditions Retrying  True: the same; False: the watcher, once it has told the nodes
//   all else of status          the watcher

import { parseInt32 } from '../base/int-or-percent.ts';
import { findCondition } from '../core/conditions.ts';
import type { KubeObject, Resource } from '../core/meta.ts';
import { group } from '../core/well-known.ts';
import type { ImageOwner } from '../node-image/types.ts';
import type { Parsed } from '../schema/static.ts';
import type {
  imageListPullJobSpecSchema,
  imageListPullJobStatusSchema,
  imagePullJobSpecSchema,
  imagePullJobStatusSchema,
} from './schema.ts';
import { pullJobCondition } from './texts.ts';

/** A job in the shape of v1beta1, the only one inside Windlass. */
export interface ImagePullJob extends KubeObject {
  readonly spec: ImagePullJobSpec;
  readonly status?: ImagePullJobStatus;
}

/** A list of images in the shape of v1beta1. */
export interface ImageListPullJob extends KubeObject {
  readonly spec: ImageListPullJobSpec;
  readonly status?: ImageListPullJobStatus;
}

export type ImagePullJobSpec = Parsed<typeof imagePullJobSpecSchema>;
export type ImagePullJobStatus = Parsed<typeof imagePullJobStatusSchema>;
export type ImageListPullJobSpec = Parsed<typeof imageListPullJobSpecSchema>;
export type ImageListPullJobStatus = Parsed<typeof imageListPullJobStatusSchema>;

/** All of a list's spec but its images: what each of its jobs gets. */
export type ImagePullJobTemplate = Omit<ImageListPullJobSpec, 'images'>;

/** How the API server addresses jobs. */
export const imagePullJobs = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'imagepulljobs',
  kind: 'ImagePullJob',
  namespaced: true,
} as const satisfies Resource;

/** How the API server addresses lists. */
export const imageListPullJobs = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'imagelistpulljobs',
  kind: 'ImageListPullJob',
  namespaced: true,
} as const satisfies Resource;

/** Held by a job until the copies of its Secrets are released. */
export const pullSecretFinalizer = 'apps.kruise.io/deletion-protection';

/** On a list and its jobs: which template the job was made from (ILP-4). */
export const templateHashLabel = 'controller-revision-hash';

/** Whether the job has ended. It never goes on after that. */
export function isFinished(job: { readonly status?: { readonly completionTime?: string } }): boolean {
  return job.status?.completionTime !== undefined;
}

/** Whether the job ends by itself: type `Always`, which is also meant by no type. */
export function endsByItself({ spec }: { readonly spec: Pick<ImagePullJobSpec, 'completionPolicy'> }): boolean {
  return spec.completionPolicy.type !== 'Never';
}

/** How many nodes may pull at once; 1 when nothing, or nothing that makes sense, is said. */
export function parallelismOf({ spec }: { readonly spec: Pick<ImagePullJobSpec, 'parallelism'> }): number {
  const { parallelism } = spec;
  const count = typeof parallelism === 'string' ? parseInt32(parallelism) : parallelism;
  return count !== undefined && count >= 0 ? count : 1;
}

/** The mark of a job on the tags that it wants (IPJ-16). */
export function ownerOf({ metadata }: ImagePullJob): ImageOwner {
  const { namespace = '', name, uid } = metadata;
  return {
    apiVersion: `${imagePullJobs.group}/${imagePullJobs.version}`,
    kind: imagePullJobs.kind,
    namespace,
    name,
    uid,
  };
}

/** What an operator has commanded, read from the conditions. */
export function steeringOf({ status }: Pick<ImagePullJob, 'status'>): {
  readonly paused: boolean;
  readonly retrying: boolean;
  /** By whom. */
  readonly abortedBy?: string;
} {
  const isTrue = (type: string) => findCondition(status?.conditions, type)?.status === 'True';
  const aborted = findCondition(status?.conditions, pullJobCondition.aborted);
  return {
    paused: isTrue(pullJobCondition.paused),
    retrying: isTrue(pullJobCondition.retrying),
    ...(aborted?.status === 'True' && { abortedBy: aborted.message.replace(/^Aborted by /, '') }),
  };
}
