// ImagePullJob and ImageListPullJob: one image, or many, on many nodes.
//
// Each field has one writer; every write carries the resourceVersion of the object that it was decided on.
//
//   metadata.finalizers         admission adds it to a job with pull secrets, the watcher removes it when they are released
//   spec                        the user
//   status.conditions Paused, Aborted
//                               the workflow `pullOnNodes`, through the cluster worker: commands of operators
//   status.conditions Retrying  True: the same; False: the watcher, after it has updated the NodeImages
//   rest of status              the watcher

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

/** A job in the shape of v1beta1, the only one used internally. */
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

/** The spec of a list without its images: the part that each of its jobs gets. */
export type ImagePullJobTemplate = Omit<ImageListPullJobSpec, 'images'>;

/** The resource of jobs. */
export const imagePullJobs = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'imagepulljobs',
  kind: 'ImagePullJob',
  namespaced: true,
} as const satisfies Resource;

/** The resource of lists. */
export const imageListPullJobs = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'imagelistpulljobs',
  kind: 'ImageListPullJob',
  namespaced: true,
} as const satisfies Resource;

/** On a job until the copies of its Secrets are released. */
export const pullSecretFinalizer = 'apps.kruise.io/deletion-protection';

/** On a list and its jobs: the template from which the job was created (ILP-4). */
export const templateHashLabel = 'controller-revision-hash';

/** Whether the job has completed. That is final. */
export function isFinished(job: { readonly status?: { readonly completionTime?: string } }): boolean {
  return job.status?.completionTime !== undefined;
}

/** Whether the job completes by itself: type `Always`, which is also the default. */
export function endsByItself({ spec }: { readonly spec: Pick<ImagePullJobSpec, 'completionPolicy'> }): boolean {
  return spec.completionPolicy.type !== 'Never';
}

/** How many nodes may pull at the same time; 1 when the value is absent or invalid. */
export function parallelismOf({ spec }: { readonly spec: Pick<ImagePullJobSpec, 'parallelism'> }): number {
  const { parallelism } = spec;
  const count = typeof parallelism === 'string' ? parseInt32(parallelism) : parallelism;
  return count !== undefined && count >= 0 ? count : 1;
}

/** The reference to a job on the tags that it requested (IPJ-16). */
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

/** The commands of operators in the conditions. */
export function steeringOf({ status }: Pick<ImagePullJob, 'status'>): {
  readonly paused: boolean;
  readonly retrying: boolean;
  /** The name of the operator. */
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
