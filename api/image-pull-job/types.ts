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

import { isInt32, parseInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import { jsonBytes } from '../base/json-bytes.ts';
import { findCondition } from '../core/conditions.ts';
import { familiarImage } from '../core/familiar-image.ts';
import { type FieldProblem, forbidden, invalid, notSupported, required } from '../core/field-problem.ts';
import { referenceTooLong } from '../core/image-reference.ts';
import { type LabelRequirement, labelMatcher } from '../core/label-selector.ts';
import type { KubeObject, Resource } from '../core/meta.ts';
import { group } from '../core/well-known.ts';
import { blockedByLimit, type WaitingFor } from '../engine/waiting-for.ts';
import { type ImageOwner, pullDefault } from '../node-image/types.ts';
import type { Parsed } from '../schema/static.ts';
import type {
  imageListPullJobSpecSchema,
  imageListPullJobStatusSchema,
  imagePullJobSpecSchema,
  imagePullJobStatusSchema,
} from './schema.ts';

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

// --------------------------------------------------------------------------------------------------- reasons and texts

/** What an operator has commanded, as conditions; beside them stand `Complete` and `Failed`. */
export const pullJobCondition = { paused: 'Paused', retrying: 'Retrying', aborted: 'Aborted' } as const;

/** Reasons of `Complete`. */
export const pullJobCompleteReasons = ['ImagePulled'] as const;

/** Reasons of `Failed`. */
export const pullJobFailedReasons = ['NodesFailed', 'DeadlineExceeded', 'Aborted'] as const;
export type PullJobFailedReason = (typeof pullJobFailedReasons)[number];

/** Texts of `status.message`, word for word as scripts know them. */
export const pullJobMessage = {
  noProgress: 'job is running, no progress',
  progress: (percent: number) => `job is running, progress ${percent.toFixed(1)}%`,
  completed: 'job has completed',
  deadlineExceeded: 'job exceeds activeDeadlineSeconds',
  aborted: (by: string, nodes: string) => `aborted by ${by}; the image is on ${nodes}`,
} as const;

/** Reasons of `status.waitingFor`, with what a person can do. */
export const pullJobWaits = {
  Pulling: 'Nothing to do: these nodes are pulling; the status of each NodeImage says what its node waits for',
  NodeSilent: 'Bring these nodes and their daemons back; a pull that a node does not answer within ten minutes fails',
  Paused: 'Signal resume, or abort',
  NoParallelism: 'Set parallelism above 0',
  NodesFull:
    'Nothing to do: these nodes pull the image once other pulls there have ended; or delete ImagePullJobs of the namespace, or NodeImage tags, that are no longer needed',
  NoNodes: 'Nothing to do: no node matches yet; a job of type Never continues when one does',
  EngineSilent: 'Bring Temporal back; the job then continues automatically',
  EngineStuck: 'Look at what these NodeImages wait for; the job continues when they do',
  JobRefused: 'Fix the spec: the API server rejects a job for one of the images',
  TooLarge: 'Make the field smaller; the job is then passed on to the nodes',
  SecretRefused: 'Fix what rejects the copies of the pull Secrets; they are retried automatically',
} as const;
export type PullJobWaitReason = keyof typeof pullJobWaits;

/** A wait, with the remedy that belongs to its reason. */
export function pullJobWait(
  reason: PullJobWaitReason,
  facts: { readonly blockedBy: readonly string[]; readonly since: string; readonly unblock?: string },
): WaitingFor & { readonly reason: PullJobWaitReason } {
  return {
    reason,
    blockedBy: facts.blockedBy.slice(0, blockedByLimit),
    blockedCount: facts.blockedBy.length,
    since: facts.since,
    unblock: facts.unblock ?? pullJobWaits[reason],
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

// ------------------------------------------------------------------------------------------------------------ admission

/** Fills what the schema fills, too, so that what follows sees the whole; and the finalizer where it will be needed. */
export function defaultPullJob(object: JsonObject, isNew: boolean): JsonObject {
  const filled = defaultTemplate(object, true);
  const named = listOr(objectOr(filled.spec).pullSecrets).length > 0;
  if (!isNew || !named) return filled;
  const metadata = objectOr(filled.metadata);
  const finalizers = listOr(metadata.finalizers);
  if (finalizers.includes(pullSecretFinalizer)) return filled;
  return { ...filled, metadata: { ...metadata, finalizers: [...finalizers, pullSecretFinalizer] } };
}

/** The same for a list, which hands imagePullPolicy on as it is. */
export function defaultListPullJob(object: JsonObject): JsonObject {
  return defaultTemplate(object, false);
}

function defaultTemplate(object: JsonObject, withImagePullPolicy: boolean): JsonObject {
  const { spec } = object;
  if (!isJsonObject(spec)) return object;
  const pullPolicy = spec.pullPolicy ?? {};
  const completionPolicy = spec.completionPolicy ?? {};
  const type = isJsonObject(completionPolicy) ? completionPolicy.type : undefined;
  return {
    ...object,
    spec: {
      ...spec,
      pullPolicy: isJsonObject(pullPolicy) ? { ...pullDefault, ...withoutNulls(pullPolicy) } : pullPolicy,
      completionPolicy: isJsonObject(completionPolicy)
        ? { ...completionPolicy, type: type === '' || isAbsent(type) ? 'Always' : type }
        : completionPolicy,
      ...(withImagePullPolicy &&
        (spec.imagePullPolicy === '' || isAbsent(spec.imagePullPolicy)) && { imagePullPolicy: 'IfNotPresent' }),
    },
  };
}

function withoutNulls(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => !isAbsent(value)));
}

/**
 * Every problem of a job at once, each with its field path; an empty list means valid. What was too large `before` and is
 * as it was may stay so.
 */
export function validatePullJob(object: JsonObject, before?: JsonObject): readonly FieldProblem[] {
  const [spec, had] = [objectOr(object.spec), objectOr(before?.spec)];
  return [
    ...imageProblems('spec.image', spec.image, new Set([had.image])),
    ...templateProblems(spec, had),
    ...deadlineProblems(spec),
  ];
}

/** The most bytes as JSON that a job hands to a container runtime: they are copied to each of its nodes. */
export const mostSandboxBytes = 4_096;

/** A job names no more Secrets than these: each is read, copied, and named on each of its nodes. */
export const mostPullSecrets = 64;

/** Why a job that was stored so cannot be told to nodes: with the field, and what is possible. */
export function tooLargeForNodes({ image, sandboxConfig, pullSecrets = [] }: ImagePullJobSpec): string | undefined {
  const why = referenceTooLong(image, familiarImage(image)?.name);
  if (why !== undefined) return `spec.image: ${why}`;
  if (pullSecrets.length > mostPullSecrets) return `spec.pullSecrets: ${tooManySecrets(mostPullSecrets)}`;
  const bytes = jsonBytes(sandboxConfig);
  return bytes > mostSandboxBytes ? `spec.sandboxConfig: ${sandboxTooLarge(bytes)}` : undefined;
}

function tooManySecrets(most: number): string {
  return `must not have more than ${most} items`;
}

function sandboxTooLarge(bytes: number): string {
  return `labels and annotations must not have more than ${mostSandboxBytes} bytes together, and have ${bytes}`;
}

/** What a change of a job may not do. */
export function validatePullJobUpdate(before: JsonObject, after: JsonObject): readonly FieldProblem[] {
  const [had, has] = [objectOr(before.spec).pullSecrets ?? [], objectOr(after.spec).pullSecrets ?? []];
  return sameJson(had, has) ? [] : [forbidden('spec.pullSecrets', 'spec.pullSecrets is immutable')];
}

/** A list names no more images than these. */
export const mostListedImages = 255;

/** Every problem of a list at once. What was too large `before` and is as it was may stay so. */
export function validateListPullJob(object: JsonObject, before?: JsonObject): readonly FieldProblem[] {
  const spec = objectOr(object.spec);
  const images = listOr(spec.images);
  const had = new Set(listOr(objectOr(before?.spec).images));
  return [
    ...(images.length === 0 ? [required('spec.images', 'image can not be empty')] : []),
    ...(images.length > Math.max(mostListedImages, listOr(objectOr(before?.spec).images).length)
      ? [invalid('spec.images', images.length, `the maximum number of images cannot > ${mostListedImages}`)]
      : []),
    ...(new Set(images).size < images.length
      ? [invalid('spec.images', images, 'images cannot have duplicate values')]
      : []),
    ...images.flatMap((image, index) => imageProblems(`spec.images[${index}]`, image, had)),
    ...templateProblems(spec, objectOr(before?.spec)),
  ];
}

/** `before`: images that were there already, which may be longer than what can be asked for today. */
function imageProblems(
  path: string,
  image: Json | undefined,
  before: { readonly has: (image: Json) => boolean },
): readonly FieldProblem[] {
  if (isAbsent(image) || image === '') return [required(path, 'image can not be empty')];
  if (typeof image !== 'string') return [invalid(path, image, `invalid image ${String(image)}`)];
  if (before.has(image)) return [];
  const tooLong = referenceTooLong(image);
  if (tooLong !== undefined) return [invalid(path, `${image.slice(0, 64)}…`, tooLong)];
  const familiar = familiarImage(image);
  if (familiar === undefined) return [invalid(path, image, `invalid image ${image}`)];
  const longName = referenceTooLong(image, familiar.name);
  return longName === undefined ? [] : [invalid(path, image, longName)];
}

function sandboxProblems(sandbox: Json | undefined, before: Json | undefined): readonly FieldProblem[] {
  const bytes = jsonBytes(sandbox);
  if (bytes <= mostSandboxBytes || sameJson(sandbox, before)) return [];
  return [invalid('spec.sandboxConfig', `${bytes} bytes`, sandboxTooLarge(bytes))];
}

function templateProblems(spec: JsonObject, before: JsonObject): readonly FieldProblem[] {
  return [
    ...sandboxProblems(spec.sandboxConfig, before.sandboxConfig),
    ...secretProblems(listOr(spec.pullSecrets).length, listOr(before.pullSecrets).length),
    ...selectorProblems(spec.selector),
    ...podSelectorProblems(spec.podSelector, spec.selector),
    ...parallelismProblems(spec.parallelism),
    ...completionProblems(objectOr(spec.completionPolicy)),
  ];
}

function secretProblems(count: number, before: number): readonly FieldProblem[] {
  if (count <= Math.max(mostPullSecrets, before)) return [];
  return [invalid('spec.pullSecrets', count, tooManySecrets(mostPullSecrets))];
}

function selectorProblems(selector: Json | undefined): readonly FieldProblem[] {
  const path = 'spec.selector';
  if (!isJsonObject(selector)) return [];
  const hasLabels = !isAbsent(selector.matchLabels) || !isAbsent(selector.matchExpressions);
  if (isAbsent(selector.names)) return labelProblems(path, selector, 'invalid selector');
  if (hasLabels) return [invalid(path, selector, 'can not set both names and labelSelector in this spec.selector')];
  const names = listOr(selector.names);
  return new Set(names).size < names.length ? [invalid(path, names, 'duplicated name in selector names')] : [];
}

function podSelectorProblems(podSelector: Json | undefined, selector: Json | undefined): readonly FieldProblem[] {
  const path = 'spec.podSelector';
  if (!isJsonObject(podSelector)) return [];
  if (isJsonObject(selector)) return [invalid('spec', null, 'can not set both selector and podSelector')];
  return labelProblems(path, podSelector, 'invalid podSelector');
}

function labelProblems(path: string, selector: JsonObject, what: string): readonly FieldProblem[] {
  const matchLabels = objectOr(selector.matchLabels) as Readonly<Record<string, string>>;
  const matchExpressions = listOr(selector.matchExpressions).flatMap((requirement) =>
    isRequirement(requirement) ? [requirement] : [],
  );
  if (labelMatcher({ matchLabels, matchExpressions }) !== undefined) return [];
  const operators = 'In and NotIn need values, Exists and DoesNotExist take none';
  return [invalid(path, selector, `${what}: ${operators}`)];
}

function isRequirement(value: unknown): value is LabelRequirement {
  return isJsonObject(value) && typeof value.key === 'string' && typeof value.operator === 'string';
}

function parallelismProblems(parallelism: Json | undefined): readonly FieldProblem[] {
  const path = 'spec.parallelism';
  if (isAbsent(parallelism)) return [];
  if (typeof parallelism === 'string' && parallelism.endsWith('%')) {
    return [invalid(path, parallelism, 'parallelism does not support percentage value')];
  }
  const count = typeof parallelism === 'string' ? parseInt32(parallelism) : parallelism;
  if (!isInt32(count))
    return [invalid(path, parallelism, 'parallelism must be a valid integer: it does not fit into 32 bits')];
  return count < 0 ? [invalid(path, parallelism, 'parallelism must be non-negative')] : [];
}

function completionProblems(policy: JsonObject): readonly FieldProblem[] {
  const path = 'spec.completionPolicy';
  switch (policy.type) {
    case 'Always':
      return [];
    case 'Never':
      return isAbsent(policy.activeDeadlineSeconds) && isAbsent(policy.ttlSecondsAfterFinished)
        ? []
        : [
            invalid(
              path,
              policy,
              'activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always CompletionPolicyType',
            ),
          ];
    default: {
      const { message, ...problem } = notSupported(`${path}.type`, policy.type, ['Always', 'Never']);
      return [{ ...problem, message: `${message}: unknown type of completionPolicy: ${String(policy.type)}` }];
    }
  }
}

function deadlineProblems(spec: JsonObject): readonly FieldProblem[] {
  const { activeDeadlineSeconds } = objectOr(spec.completionPolicy);
  const { timeoutSeconds } = objectOr(spec.pullPolicy);
  const timeout = typeof timeoutSeconds === 'number' ? timeoutSeconds : pullDefault.timeoutSeconds;
  if (typeof activeDeadlineSeconds !== 'number' || activeDeadlineSeconds >= timeout) return [];
  const path = 'spec.completionPolicy.activeDeadlineSeconds';
  const text = 'completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds(default 600)';
  return [invalid(path, activeDeadlineSeconds, text)];
}
