// NodeImage: the images that one node is to have before they are needed.
//
// Who writes what. A field has one writer; every write carries the resourceVersion that it was decided on.
//
//   metadata.labels             the watcher: those of the Node
//   spec.images                 the watcher, for jobs; and people, by hand
//   status                      the workflow `pullImages`, through the cluster worker; EngineSilent, EngineStuck: the watcher
//   progress and fetched of a   the daemon of the node, seldom: nobody decides anything by them, and a history is no place
//   tag while it is pulled      for them

import {
  isAbsent,
  isJsonList,
  isJsonObject,
  type Json,
  type JsonObject,
  listOr,
  objectOr,
  sameJson,
} from '../base/json.ts';
import { compareGoStrings } from '../base/json-go.ts';
import { timestamp } from '../base/time.ts';
import { referenceOf } from '../core/familiar-image.ts';
import { type FieldProblem, invalid, required } from '../core/field-problem.ts';
import { longestReference, referenceTooLong } from '../core/image-reference.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../core/meta.ts';
import { group } from '../core/well-known.ts';
import type { WaitingFor } from '../engine/waiting-for.ts';
import { blockedByLimit } from '../engine/waiting-for.ts';
import type { Parsed } from '../schema/static.ts';
import type { nodeImageSpecSchema, nodeImageStatusSchema } from './schema.ts';

/** The images of a node in the shape of v1beta1, the only one inside Windlass. */
export interface NodeImage extends KubeObject {
  readonly spec: NodeImageSpec;
  readonly status?: NodeImageStatus;
}

export type NodeImageSpec = Parsed<typeof nodeImageSpecSchema>;
export type NodeImageStatus = Parsed<typeof nodeImageStatusSchema>;
export type ImageEntry = NonNullable<NodeImageSpec['images']>[string];
export type ImageTag = NonNullable<ImageEntry['tags']>[number];
export type ImageTagPullPolicy = NonNullable<ImageTag['pullPolicy']>;
export type ImageOwner = NonNullable<ImageTag['ownerReferences']>[number];
export type PullSecretRef = NonNullable<ImageEntry['pullSecrets']>[number];
export type SandboxConfig = NonNullable<ImageEntry['sandboxConfig']>;
export type ImageTagStatus = NonNullable<NonNullable<NodeImageStatus['imageStatuses']>[string]['tags']>[number];
export type PullPhase = ImageTagStatus['phase'];

/** How the API server addresses them in the shape that Windlass works with. */
export const nodeImages = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'nodeimages',
  kind: 'NodeImage',
  namespaced: false,
} as const satisfies Resource;

/** The label that keeps a NodeImage although there is no Node of its name. */
export const fakeNodeImageLabel = 'apps.kruise.io/fake-nodeimage';

/** What an absent field means. */
export const pullDefault = { timeoutSeconds: 600, backoffLimit: 3 } as const;

/** A node that has not answered so long after it was asked is given up (NI-8). */
export const unansweredMs = 600_000;

/** Texts of `message`, word for word as scripts know them. */
export const pullMessage = {
  unanswered: 'node has not responded for a long time',
  deadlineExceeded: 'pulling exceeds the activeDeadlineSeconds',
  /** `by` as the operator gave it, or the identity of the signal. */
  aborted: (by: string) => `aborted by ${by}`,
  skipped: (by: string) => `skipped by ${by}`,
} as const;

/** Reasons of `status.waitingFor`, with what a person can do. */
export const pullWaits = {
  NodeSilent: 'Bring the node and its daemon back; a pull that the node does not answer within ten minutes fails',
  RuntimeUnreachable: 'Bring the container runtime of the node back; the pull then continues automatically',
  ApiUnreachable: 'Bring the API server back; the pull then continues automatically',
  BackingOff: 'Nothing to do: it is retried automatically, or at once after the signal retry',
  Pulling: 'Nothing to do: the node is pulling',
  Paused: 'Signal resume, or abort',
  Denied: 'Grant the missing permission or quota: it is retried automatically, or at once after the signal retry',
  Parked: 'Fix the rejected object or what rejects it: it is retried automatically, or at once after the signal retry',
  EngineSilent: 'Bring Temporal back; the pull then continues automatically',
  EngineStuck: 'Terminate its workflow; the pull then continues automatically',
} as const;
export type PullWaitReason = keyof typeof pullWaits;

/** A wait, with the remedy that belongs to its reason. */
export function pullWait(
  reason: PullWaitReason,
  facts: { readonly blockedBy: readonly string[]; readonly since: string; readonly unblock?: string },
): WaitingFor & { readonly reason: PullWaitReason } {
  return {
    reason,
    blockedBy: facts.blockedBy.slice(0, blockedByLimit),
    blockedCount: facts.blockedBy.length,
    since: facts.since,
    unblock: facts.unblock ?? pullWaits[reason],
  };
}

/** One tag of the spec, with the name of its image. */
export interface NamedTag {
  readonly name: string;
  readonly tag: ImageTag;
}

/** Every tag of the spec, by name and then by tag. */
export function tagsOf({ spec }: Pick<NodeImage, 'spec'>): readonly NamedTag[] {
  return Object.entries(spec.images ?? {})
    .sort(([left], [right]) => compareGoStrings(left, right))
    .flatMap(([name, { tags = [] }]) => tags.map((tag) => ({ name, tag })));
}

/** The entry of one tag in the spec. */
export function findTag({ spec }: Pick<NodeImage, 'spec'>, name: string, tag: string): ImageTag | undefined {
  return imageEntry(spec, name)?.tags?.find((entry) => entry.tag === tag);
}

/** The entry of an image; names come from outside, so only own fields count. */
export function imageEntry(spec: NodeImageSpec, name: string): ImageEntry | undefined {
  const images = spec.images ?? {};
  return Object.hasOwn(images, name) ? images[name] : undefined;
}

/** What the status says of one tag, in whatever version. */
export function findTagStatus(
  { status }: Pick<NodeImage, 'status'>,
  name: string,
  tag: string,
): ImageTagStatus | undefined {
  const statuses = status?.imageStatuses ?? {};
  const found = Object.hasOwn(statuses, name) ? statuses[name] : undefined;
  return found?.tags?.find((entry) => entry.tag === tag);
}

/** The status of the present version of a tag; undefined while nobody has written one. */
export function currentTagStatus(nodeImage: NodeImage, { name, tag }: NamedTag): ImageTagStatus | undefined {
  const found = findTagStatus(nodeImage, name, tag.tag);
  return found !== undefined && (found.version ?? 0) === (tag.version ?? 0) ? found : undefined;
}

/** How the pull of a tag has ended; undefined while it has not. */
export function outcomeOf(status: ImageTagStatus | undefined): 'Succeeded' | 'Failed' | undefined {
  if (status?.completionTime === undefined) return undefined;
  return status.phase === 'Succeeded' || status.phase === 'Failed' ? status.phase : undefined;
}

/** The tags that still have to be pulled (NP-2). */
export function openTags(nodeImage: NodeImage): readonly NamedTag[] {
  return tagsOf(nodeImage).filter((named) => currentTagStatus(nodeImage, named)?.completionTime === undefined);
}

/** Why no runtime can pull a tag, whatever its registry says; undefined where one may. Nobody is asked for such a tag. */
export function unpullable({ name, tag }: NamedTag): string | undefined {
  return referenceTooLong(referenceOf({ name, tag: tag.tag }), name);
}

/**
 * Whether the status has to be written although nothing is pulled: it speaks of tags that are not wished for any more,
 * miscounts those that are, or does not say yet of one that nobody can pull it.
 */
export function isStale(nodeImage: NodeImage): boolean {
  const { status } = nodeImage;
  if (openTags(nodeImage).some((named) => unpullable(named) !== undefined)) return true;
  if (status === undefined) return false;
  if (status.desired !== tagsOf(nodeImage).length) return true;
  return Object.entries(status.imageStatuses ?? {}).some(([name, { tags = [] }]) =>
    tags.some(({ tag }) => findTag(nodeImage, name, tag) === undefined),
  );
}

// ------------------------------------------------------------------------------------------------------------ admission

/** The version that an object is in; undefined for one that we do not serve. */
export function servedVersion(
  object: JsonObject,
  resource: Pick<Resource, 'group'>,
): 'v1alpha1' | 'v1beta1' | undefined {
  if (object.apiVersion === apiVersionOf({ ...nodeImages, ...resource, version: 'v1beta1' })) return 'v1beta1';
  if (object.apiVersion === apiVersionOf({ ...nodeImages, ...resource, version: 'v1alpha1' })) return 'v1alpha1';
  return undefined;
}

/** The same object in the other version: they differ in name only. Undefined where one of the two is not ours. */
export function relabelled(
  object: JsonObject,
  apiVersion: string,
): { readonly object: JsonObject; readonly warnings: readonly string[] } | undefined {
  if (servedVersion(object, nodeImages) === undefined) return undefined;
  if (servedVersion({ apiVersion }, nodeImages) === undefined) return undefined;
  return { object: { ...object, apiVersion }, warnings: [] };
}

/** Fills in what a tag may leave out, and sorts tags. What has not the right shape stays as it is. */
export function defaultNodeImage(object: JsonObject, nowMs: number): JsonObject {
  const { spec } = object;
  if (!isJsonObject(spec) || !isJsonObject(spec.images)) return object;
  const images = Object.entries(spec.images).map(([name, entry]): [string, Json | undefined] => {
    if (!isJsonObject(entry) || !isJsonList(entry.tags)) return [name, entry];
    const tags = entry.tags.map((tag) => (isJsonObject(tag) ? defaultTag(tag, nowMs) : tag));
    return [name, { ...entry, tags: sortedTags(tags) }];
  });
  return { ...object, spec: { ...spec, images: Object.fromEntries(images) } };
}

function defaultTag(tag: JsonObject, nowMs: number): JsonObject {
  const { pullPolicy } = tag;
  const policy = isJsonObject(pullPolicy)
    ? { ...pullPolicy, ...filled(pullPolicy, 'timeoutSeconds'), ...filled(pullPolicy, 'backoffLimit') }
    : pullPolicy;
  return {
    ...tag,
    ...(isAbsent(tag.createdAt) && { createdAt: timestamp(nowMs) }),
    ...(policy !== undefined && { pullPolicy: policy }),
  };
}

function filled(policy: JsonObject, field: keyof typeof pullDefault): JsonObject {
  return isAbsent(policy[field]) ? { [field]: pullDefault[field] } : {};
}

function sortedTags(tags: readonly Json[]): readonly Json[] {
  const key = (tag: Json): string => {
    const text = isJsonObject(tag) ? tag.tag : undefined;
    return typeof text === 'string' ? text : '';
  };
  return tags.toSorted((left, right) => compareGoStrings(key(left), key(right)));
}

/** More images than these a NodeImage does not take. */
export const mostImages = 256;

/** An image names no more Secrets than these. Its daemon reads all of them for each pull. */
export const mostImageSecrets = 256;

/**
 * Every problem at once, each with its field path; an empty list means valid. Of an update only what it makes worse counts:
 * what stood there `before` in the same words may stay, so that an object stored above a limit can still be changed.
 */
export function validateNodeImage(object: JsonObject, before?: JsonObject): readonly FieldProblem[] {
  const images = objectOr(objectOr(object.spec).images);
  const had = objectOr(objectOr(before?.spec).images);
  const names = Object.keys(images);
  const most = Math.max(mostImages, Object.keys(had).length);
  return [
    ...(names.length > most
      ? [invalid('spec.images', names.length, `must not have more than ${mostImages} images`)]
      : []),
    ...names.flatMap((name) => {
      const known = Object.hasOwn(had, name) ? had[name] : undefined;
      if (known !== undefined && sameJson(images[name], known)) return [];
      return imageProblems(name, objectOr(images[name]), isJsonObject(known) ? known : undefined);
    }),
  ];
}

function imageProblems(name: string, entry: JsonObject, before: JsonObject | undefined): readonly FieldProblem[] {
  const path = `spec.images[${shortName(name)}]`;
  if (name === '') return [required('spec.images', 'the name of an image can not be empty')];
  const had = listOr(before?.tags).map(objectOr);
  const hadByTag = new Map(had.map((tag) => [tag.tag, tag]));
  const hadTwice = new Set(repeated(had));
  const tags = listOr(entry.tags).map(objectOr);
  const twice = new Set(repeated(tags));
  const seen = new Set<unknown>();
  const secrets = listOr(entry.pullSecrets).length;
  return [
    ...(before === undefined ? lengthProblems(path, name) : []),
    ...(secrets > Math.max(mostImageSecrets, listOr(before?.pullSecrets).length)
      ? [invalid(`${path}.pullSecrets`, secrets, `must not have more than ${mostImageSecrets} items`)]
      : []),
    ...tags.flatMap((tag, index) => {
      const isSecond = twice.has(tag.tag) && seen.has(tag.tag) && !hadTwice.has(tag.tag);
      seen.add(tag.tag);
      const known = hadByTag.get(tag.tag);
      const at = `${path}.tags[${index}]`;
      return [
        ...(isSecond ? [invalid(`${at}.tag`, tag.tag, 'is listed twice')] : []),
        ...(known !== undefined && sameJson(known, tag)
          ? []
          : tagProblems(at, tag, { name, isNew: known === undefined })),
      ];
    }),
  ];
}

function lengthProblems(path: string, name: string, tag?: string): readonly FieldProblem[] {
  const why = tag === undefined ? referenceTooLong('', name) : referenceTooLong(referenceOf({ name, tag }));
  return why === undefined ? [] : [invalid(path, tag ?? name, why)];
}

/** What is listed more than once. */
function repeated(tags: readonly JsonObject[]): readonly unknown[] {
  const seen = new Set<unknown>();
  return tags.flatMap(({ tag }) => {
    const isRepeated = seen.has(tag);
    seen.add(tag);
    return isRepeated ? [tag] : [];
  });
}

/** Of a name that is longer than any image's the beginning. */
function shortName(name: string): string {
  const { repository: most } = longestReference;
  return name.length > most ? `${name.slice(0, 64)}…` : name;
}

function tagProblems(
  path: string,
  tag: JsonObject,
  image: { readonly name: string; readonly isNew: boolean },
): readonly FieldProblem[] {
  const { version, pullPolicy } = tag;
  const text = typeof tag.tag === 'string' ? tag.tag : '';
  const what = `${shortName(image.name)}:${text}`;
  return [
    ...(text === '' ? [required(`${path}.tag`, 'tag can not be empty')] : []),
    ...(image.isNew && image.name.length <= longestReference.repository
      ? lengthProblems(`${path}.tag`, image.name, text)
      : []),
    ...(isAbsent(tag.createdAt) ? [required(`${path}.createdAt`, `createAt field for ${what} can not be empty`)] : []),
    ...(typeof version === 'number' && version < 0
      ? [invalid(`${path}.version`, version, `version for ${what} must not be negative`)]
      : []),
    ...(isAbsent(pullPolicy)
      ? [required(`${path}.pullPolicy`, `pullPolicy field for ${what} must set`)]
      : isAbsent(objectOr(pullPolicy).ttlSecondsAfterFinished)
        ? [required(`${path}.pullPolicy`, `pullPolicy.ttlSecondsAfterFinished for ${what} must set`)]
        : []),
  ];
}
