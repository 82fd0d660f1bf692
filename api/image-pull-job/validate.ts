// What admission rejects in ImagePullJobs and ImageListPullJobs, and when a stored one is too large for nodes.

import { isInt32, parseInt32 } from '../base/int-or-percent.ts';
import { isAbsent, isJsonObject, type Json, type JsonObject, listOr, objectOr, sameJson } from '../base/json.ts';
import { jsonBytes } from '../base/json-bytes.ts';
import { familiarImage } from '../core/familiar-image.ts';
import { type FieldError, forbidden, invalid, notSupported, required } from '../core/field-error.ts';
import { referenceTooLong } from '../core/image-reference.ts';
import { type LabelRequirement, labelMatcher } from '../core/label-selector.ts';
import { pullDefault } from '../node-image/defaults.ts';
import type { ImagePullJobSpec } from './types.ts';

/**
 * All problems of a job, each with its field path; empty means valid. What was too large `before` may stay unchanged.
 */
export function validatePullJob(object: JsonObject, before?: JsonObject): readonly FieldError[] {
  const [spec, had] = [objectOr(object.spec), objectOr(before?.spec)];
  return [
    ...imageProblems('spec.image', spec.image, new Set([had.image])),
    ...templateProblems(spec, had),
    ...deadlineProblems(spec),
  ];
}

/** The maximum size as JSON of what a job passes to the container runtime: it is copied to each of its nodes. */
export const mostSandboxBytes = 4_096;

/** The maximum number of Secrets of a job: each is read, copied, and named on each of its nodes. */
export const mostPullSecrets = 64;

/** Why a stored job cannot be written to nodes: the field and the limit. */
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

/** The problems of a change of a job. */
export function validatePullJobUpdate(before: JsonObject, after: JsonObject): readonly FieldError[] {
  const [had, has] = [objectOr(before.spec).pullSecrets ?? [], objectOr(after.spec).pullSecrets ?? []];
  return sameJson(had, has) ? [] : [forbidden('spec.pullSecrets', 'spec.pullSecrets is immutable')];
}

/** The maximum number of images of a list. */
export const mostListedImages = 255;

/** All problems of a list. What was too large `before` may stay unchanged. */
export function validateListPullJob(object: JsonObject, before?: JsonObject): readonly FieldError[] {
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

/** `before`: images that were there already, which may be longer than the limit. */
function imageProblems(
  path: string,
  image: Json | undefined,
  before: { readonly has: (image: Json) => boolean },
): readonly FieldError[] {
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

function sandboxProblems(sandbox: Json | undefined, before: Json | undefined): readonly FieldError[] {
  const bytes = jsonBytes(sandbox);
  if (bytes <= mostSandboxBytes || sameJson(sandbox, before)) return [];
  return [invalid('spec.sandboxConfig', `${bytes} bytes`, sandboxTooLarge(bytes))];
}

function templateProblems(spec: JsonObject, before: JsonObject): readonly FieldError[] {
  return [
    ...sandboxProblems(spec.sandboxConfig, before.sandboxConfig),
    ...secretProblems(listOr(spec.pullSecrets).length, listOr(before.pullSecrets).length),
    ...nodeSelectorProblems(spec.selector),
    ...podSelectorProblems(spec.podSelector, spec.selector),
    ...parallelismProblems(spec.parallelism),
    ...completionProblems(objectOr(spec.completionPolicy)),
  ];
}

function secretProblems(count: number, before: number): readonly FieldError[] {
  if (count <= Math.max(mostPullSecrets, before)) return [];
  return [invalid('spec.pullSecrets', count, tooManySecrets(mostPullSecrets))];
}

function nodeSelectorProblems(selector: Json | undefined): readonly FieldError[] {
  const path = 'spec.selector';
  if (!isJsonObject(selector)) return [];
  const hasLabels = !isAbsent(selector.matchLabels) || !isAbsent(selector.matchExpressions);
  if (isAbsent(selector.names)) return labelProblems(path, selector, 'invalid selector');
  if (hasLabels) return [invalid(path, selector, 'can not set both names and labelSelector in this spec.selector')];
  const names = listOr(selector.names);
  return new Set(names).size < names.length ? [invalid(path, names, 'duplicated name in selector names')] : [];
}

function podSelectorProblems(podSelector: Json | undefined, selector: Json | undefined): readonly FieldError[] {
  const path = 'spec.podSelector';
  if (!isJsonObject(podSelector)) return [];
  if (isJsonObject(selector)) return [invalid('spec', null, 'can not set both selector and podSelector')];
  return labelProblems(path, podSelector, 'invalid podSelector');
}

function labelProblems(path: string, selector: JsonObject, what: string): readonly FieldError[] {
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

function parallelismProblems(parallelism: Json | undefined): readonly FieldError[] {
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

function completionProblems(policy: JsonObject): readonly FieldError[] {
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
      const { detail, ...error } = notSupported(`${path}.type`, policy.type, ['Always', 'Never']);
      return [{ ...error, detail: `${detail}: unknown type of completionPolicy: ${String(policy.type)}` }];
    }
  }
}

function deadlineProblems(spec: JsonObject): readonly FieldError[] {
  const { activeDeadlineSeconds } = objectOr(spec.completionPolicy);
  const { timeoutSeconds } = objectOr(spec.pullPolicy);
  const timeout = typeof timeoutSeconds === 'number' ? timeoutSeconds : pullDefault.timeoutSeconds;
  if (typeof activeDeadlineSeconds !== 'number' || activeDeadlineSeconds >= timeout) return [];
  const path = 'spec.completionPolicy.activeDeadlineSeconds';
  const text = 'completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds(default 600)';
  return [invalid(path, activeDeadlineSeconds, text)];
}
