// Many images, each with a job of its own: which jobs there should be, and how their state determines that of the list.

import { fnv1a } from '../../api/base/fnv.ts';
import { sameJson } from '../../api/base/json.ts';
import { goJsonSorted } from '../../api/base/json-go.ts';
import { timestamp } from '../../api/base/time.ts';
import { endCondition, withCondition } from '../../api/core/conditions.ts';
import type { RefusalReason } from '../../api/core/failure.ts';
import { longestReference } from '../../api/core/image-reference.ts';
import { withGrant } from '../../api/engine/missing-right.ts';
import { pullJobWait } from '../../api/image-pull-job/texts.ts';
import {
  endsByItself,
  type ImageListPullJob,
  type ImageListPullJobStatus,
  type ImagePullJob,
  type ImagePullJobTemplate,
  imageListPullJobs,
  isFinished,
  templateHashLabel,
} from '../../api/image-pull-job/types.ts';
import { shortened } from '../text-size.ts';
import { waitingSince } from '../waiting-since.ts';

/** The spec without images. */
export function templateOf({ spec }: Pick<ImageListPullJob, 'spec'>): ImagePullJobTemplate {
  const { images: _, ...template } = spec;
  return template;
}

/** Identifies a template: jobs of another one are recreated (ILP-4). */
export function templateHash(list: Pick<ImageListPullJob, 'spec'>): string {
  return fnv1a(goJsonSorted(templateOf(list)))
    .toString(16)
    .padStart(8, '0');
}

/** What to do about the jobs of a list. */
export interface ListSteps {
  readonly create: readonly ImagePullJobDraft[];
  readonly remove: readonly ImagePullJob[];
  /** Jobs that stay, one for each image that has one. */
  readonly kept: readonly ImagePullJob[];
}

/** A job before the API server has seen it. */
export interface ImagePullJobDraft {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly ownerReferences: readonly object[];
  };
  readonly spec: ImagePullJob['spec'];
}

/** Compares the existing jobs of a list with the desired ones (ILP-1, ILP-3, ILP-4). */
export function listSteps(list: ImageListPullJob, children: readonly ImagePullJob[]): ListSteps {
  const hash = templateHash(list);
  const present = children.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const kept = new Map<string, ImagePullJob>();
  const remove: ImagePullJob[] = [];
  for (const child of present) {
    const { image } = child.spec;
    const isWanted = list.spec.images.includes(image) && !kept.has(image) && isOfTemplate(list, hash, child);
    if (isWanted) kept.set(image, child);
    else remove.push(child);
  }
  // with the name of a job that is still being deleted, it could not be created
  const names = new Set(children.map(({ metadata }) => metadata.name));
  const create = list.spec.images
    .filter((image) => !kept.has(image))
    .map((image) => draftOf(list, hash, image))
    .filter(({ metadata }) => !names.has(metadata.name));
  return { create, remove, kept: [...kept.values()] };
}

function isOfTemplate(list: ImageListPullJob, hash: string, { metadata, spec }: ImagePullJob): boolean {
  const label = metadata.labels?.[templateHashLabel];
  if (label !== undefined) return label === hash;
  const { image: _, imagePullPolicy, ...rest } = spec;
  const { imagePullPolicy: wanted = 'IfNotPresent', ...template } = templateOf(list);
  return imagePullPolicy === wanted && sameJson(rest, template);
}

/** The name is the same for the same image and template, so that it is created only once. */
function draftOf(list: ImageListPullJob, hash: string, image: string): ImagePullJobDraft {
  const { namespace = '', name, uid } = list.metadata;
  const mark = fnv1a(`${uid} ${hash} ${image}`).toString(36).padStart(7, '0');
  return {
    metadata: {
      name: `${name.slice(0, 240)}-${mark}`,
      namespace,
      labels: { ...list.metadata.labels, [templateHashLabel]: hash },
      ownerReferences: [
        {
          apiVersion: `${imageListPullJobs.group}/${imageListPullJobs.version}`,
          kind: imageListPullJobs.kind,
          name,
          uid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: { ...templateOf(list), image },
  };
}

/** Why the API server rejects the job for one of the images. */
export interface JobRefusal {
  readonly reason: RefusalReason;
  readonly message: string;
}

/** The status of the list, from its jobs. */
export function listStatus(
  list: ImageListPullJob,
  children: readonly ImagePullJob[],
  context: { readonly nowMs: number; readonly refusal?: JobRefusal; readonly refused?: readonly string[] },
): ImageListPullJobStatus {
  const now = timestamp(context.nowMs);
  const before = list.status;
  const begun = children.flatMap(({ metadata, spec, status }) =>
    status?.startTime === undefined ? [] : [{ name: metadata.name, image: spec.image, status }],
  );
  const ended = begun.filter(({ status }) => status.desired === status.failed + status.succeeded);
  const counts = {
    desired: list.spec.images.length,
    active: begun.filter(({ status }) => status.active > 0).length,
    completed: ended.length,
    succeeded: begun.filter(({ status }) => status.desired === status.succeeded).length,
  };
  const failedImageStatuses = begun
    .filter(({ status }) => status.failed > 0)
    .map(({ name, image }) => ({
      imagePullJob: name,
      name: image,
      message: `Please check for details which nodes failed by 'kubectl get ImagePullJob ${name}'.`,
    }));
  const isDone = endsByItself(list) && counts.desired === children.filter(isFinished).length;
  const conditions = before?.conditions ?? [];
  const shared = {
    startTime: before?.startTime ?? now,
    ...counts,
    ...(failedImageStatuses.length > 0 && { failedImageStatuses }),
    observedGeneration: list.metadata.generation ?? 0,
  };
  if (isDone) {
    const message = `${counts.succeeded} of ${counts.desired} images are on every node`;
    const hasFailed = counts.succeeded < counts.desired;
    const end = hasFailed
      ? ({ type: endCondition.failed, status: 'True', reason: 'ImagesFailed', message } as const)
      : ({ type: endCondition.complete, status: 'True', reason: 'ImagesPulled', message } as const);
    return { ...shared, completionTime: now, conditions: withCondition(conditions, end, now) };
  }
  const open = children.filter((child) => !isFinished(child)).map(({ metadata }) => `imagepulljob/${metadata.name}`);
  const wait =
    context.refusal === undefined
      ? pullJobWait('Pulling', {
          blockedBy: open,
          since: now,
          unblock: 'Nothing to do: these jobs are pulling; the status of each says what it waits for',
        })
      : pullJobWait('JobRefused', {
          blockedBy: (context.refused ?? []).map((image) => shortened(`image/${image}`, longestReference.whole)),
          since: now,
          unblock:
            context.refusal.reason === 'Denied'
              ? withGrant(context.refusal.message)
              : `Fix the spec: ${context.refusal.message}`,
        });
  return {
    ...shared,
    ...(conditions.length > 0 && { conditions }),
    waitingFor: waitingSince(before?.waitingFor, wait, now),
  };
}
