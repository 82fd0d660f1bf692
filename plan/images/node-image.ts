// Changes of a NodeImage's spec: adding the request of a job, removing it, and removing what has expired. Each takes
// the spec and returns the changed spec; the same value means that nothing changes.

import { sameJson } from '../../api/base/json.ts';
import { compareGoStrings } from '../../api/base/json-go.ts';
import { timestamp } from '../../api/base/time.ts';
import { type FamiliarImage, familiarImage } from '../../api/core/familiar-image.ts';
import { endsByItself, type ImagePullJob, imagePullJobs, ownerOf } from '../../api/image-pull-job/types.ts';
import { pullDefault } from '../../api/node-image/defaults.ts';
import {
  currentTagStatus,
  findTagStatus,
  type ImageEntry,
  type ImageOwner,
  type ImageTag,
  type ImageTagPullPolicy,
  imageEntry,
  type NodeImage,
  type NodeImageSpec,
  type PullSecretRef,
} from '../../api/node-image/types.ts';
import { mostImageSecrets } from '../../api/node-image/validate.ts';

/** The request of a job, besides the job's own fields. */
export interface Wish {
  readonly job: ImagePullJob;
  readonly image: FamiliarImage;
  readonly secrets: readonly PullSecretRef[];
  readonly nowMs: number;
  /** How much longer than the job says a tag is kept (IPJ-31). */
  readonly tagTtlSeconds: number;
  /** A random number from 0 to 1: tags on many nodes do not expire at the same moment. */
  readonly spread: number;
  /**
   * Whether a job is known to be complete; absent: none is. Tags of complete jobs are removed when there is no room.
   */
  readonly isEnded?: EndedJudge;
}

/** Whether the job that owns a tag is known to be complete. */
export type EndedJudge = (owner: ImageOwner) => boolean;

/** The maximum number of requests per node: a tag counts once for each job that owns it, and once when no job does. */
export const mostWishes = 256;

/** One namespace may use at most this many times the free rest, so that something is always left for the others. */
const shareOfFree = 3;

/** Whether the node has room for another request of this namespace. */
export function takesWish(nodeImage: NodeImage, namespace: string, isEnded: EndedJudge = noneEnded): boolean {
  return hasRoom(nodeImage.spec, namespace) || hasRoom(withoutEnded(nodeImage, isEnded), namespace);
}

/** The spec with room for another request of this namespace; undefined when there is none. */
function withRoom(nodeImage: NodeImage, namespace: string, isEnded: EndedJudge): NodeImageSpec | undefined {
  if (hasRoom(nodeImage.spec, namespace)) return nodeImage.spec;
  const left = withoutEnded(nodeImage, isEnded);
  return hasRoom(left, namespace) ? left : undefined;
}

function noneEnded(): boolean {
  return false;
}

function hasRoom(spec: NodeImageSpec, namespace: string): boolean {
  let [all, own] = [0, 0];
  for (const { tags = [] } of Object.values(spec.images ?? {})) {
    for (const { ownerReferences = [] } of tags) {
      all += Math.max(1, ownerReferences.length);
      for (const owner of ownerReferences) if (owner.namespace === namespace) own += 1;
    }
  }
  return own < shareOfFree * (mostWishes - all);
}

/** The spec without the requests of complete jobs, for tags that are not being pulled. */
function withoutEnded(nodeImage: NodeImage, isEnded: EndedJudge): NodeImageSpec {
  const { spec } = nodeImage;
  const images = Object.entries(spec.images ?? {}).flatMap(([name, entry]): [string, ImageEntry][] => {
    const tags = (entry.tags ?? []).flatMap((tag) => {
      const owners = tag.ownerReferences ?? [];
      const left = owners.filter((owner) => owner.kind !== imagePullJobs.kind || !isEnded(owner));
      if (left.length === owners.length || currentTagStatus(nodeImage, { name, tag })?.completionTime === undefined)
        return [tag];
      return left.length === 0 ? [] : [{ ...tag, ownerReferences: left }];
    });
    return tags.length === 0 ? [] : [[name, { ...entry, tags }]];
  });
  return { ...spec, images: Object.fromEntries(images) };
}

/**
 * The image entry of a tag as the job requests it: a new tag, a new version of one, or only its secrets (IPJ-12 to 15).
 * A node without room for another request of the namespace is not changed.
 */
export function withWish(nodeImage: NodeImage, wish: Wish): NodeImageSpec {
  const { job, image, secrets, isEnded = noneEnded } = wish;
  const asked = imageEntry(nodeImage.spec, image.name);
  if (asked?.tags?.some((tag) => tag.tag === image.tag && isOwnedBy(tag, job.metadata.uid))) {
    if (!lacksSecret(asked, secrets)) return nodeImage.spec;
    const pullSecrets = withSecrets(asked.pullSecrets ?? [], secrets);
    if (pullSecrets === asked.pullSecrets) return nodeImage.spec;
    return withEntry(nodeImage.spec, image.name, { ...asked, pullSecrets });
  }

  const spec = withRoom(nodeImage, job.metadata.namespace ?? '', isEnded);
  if (spec === undefined) return nodeImage.spec;
  const entry = imageEntry(spec, image.name) ?? {};
  const { tags = [] } = entry;
  const known = tags.find(({ tag }) => tag === image.tag);
  const pullSecrets = withSecrets(entry.pullSecrets ?? [], secrets);
  const owner = ownerOf(job);
  const shared = {
    createdAt: timestamp(wish.nowMs),
    imagePullPolicy: job.spec.imagePullPolicy ?? 'IfNotPresent',
  };
  const wished: ImageTag =
    known === undefined
      ? {
          tag: image.tag,
          version: (findTagStatus(nodeImage, image.name, image.tag)?.version ?? -1) + 1,
          ...shared,
          pullPolicy: tagPolicy(wish),
          ownerReferences: [owner],
        }
      : {
          ...known,
          version: (known.version ?? 0) + 1,
          ...shared,
          ownerReferences: [...(known.ownerReferences ?? []), owner],
        };
  const { sandboxConfig: _, ...others } = entry;
  const { sandboxConfig } = job.spec;
  return withEntry(spec, image.name, {
    ...others,
    tags: [...tags.filter((tag) => tag !== known), wished].sort((left, right) => compareGoStrings(left.tag, right.tag)),
    ...(pullSecrets.length > 0 && { pullSecrets }),
    // IPJ-15: also with nothing
    ...(sandboxConfig && { sandboxConfig }),
  });
}

/** Whether the job of this UID owns the tag. */
export function isOwnedBy({ ownerReferences = [] }: ImageTag, uid: string): boolean {
  return ownerReferences.some((owner) => owner.uid === uid);
}

/** Whether the image entry lacks one of these secrets. */
export function lacksSecret(entry: ImageEntry | undefined, secrets: readonly PullSecretRef[]): boolean {
  return secrets.some((wanted) => !entry?.pullSecrets?.some((known) => sameSecret(known, wanted)));
}

/** As many as there is room for: a pull without its Secret fails for lack of rights and reports that. */
function withSecrets(before: readonly PullSecretRef[], wanted: readonly PullSecretRef[]): readonly PullSecretRef[] {
  const missing = wanted
    .filter((secret) => !before.some((known) => sameSecret(known, secret)))
    .slice(0, Math.max(0, mostImageSecrets - before.length));
  return missing.length === 0 ? before : [...before, ...missing];
}

function sameSecret(left: PullSecretRef, right: PullSecretRef): boolean {
  return left.namespace === right.namespace && left.name === right.name;
}

/** IPJ-30 to IPJ-32. */
function tagPolicy({ job, tagTtlSeconds, spread }: Wish): ImageTagPullPolicy {
  const { timeoutSeconds = pullDefault.timeoutSeconds, backoffLimit = pullDefault.backoffLimit } =
    job.spec.pullPolicy ?? {};
  const { ttlSecondsAfterFinished, activeDeadlineSeconds } = job.spec.completionPolicy;
  if (!endsByItself(job)) {
    // every attempt and every pause between two fits into the deadline
    const attempts = (backoffLimit < 0 ? pullDefault.backoffLimit : backoffLimit) + 1;
    return {
      timeoutSeconds,
      backoffLimit,
      ttlSecondsAfterFinished: Math.round(24 * 3600 + (spread - 0.5) * 1200),
      activeDeadlineSeconds: Math.max(1800, attempts * (timeoutSeconds + 30)),
    };
  }
  const base = ttlSecondsAfterFinished ?? activeDeadlineSeconds ?? timeoutSeconds * backoffLimit;
  return {
    timeoutSeconds,
    backoffLimit,
    ttlSecondsAfterFinished: Math.max(0, base) + tagTtlSeconds + Math.floor(spread * 299),
    ...(activeDeadlineSeconds !== undefined && { activeDeadlineSeconds }),
  };
}

/** The spec with the tag to be pulled once more: an operator's `retry`. */
export function withRetry(nodeImage: NodeImage, { name, tag }: FamiliarImage, nowMs: number): NodeImageSpec {
  const { spec } = nodeImage;
  const entry = imageEntry(spec, name);
  if (!entry?.tags?.some((known) => known.tag === tag)) return spec;
  const tags = entry.tags.map((known) =>
    known.tag === tag ? { ...known, version: (known.version ?? 0) + 1, createdAt: timestamp(nowMs) } : known,
  );
  return withEntry(spec, name, { ...entry, tags });
}

/**
 * The spec without the request of a job for a tag that is not complete. A tag that the node has already stays listed.
 */
export function withoutWish(nodeImage: NodeImage, image: FamiliarImage, jobUid: string): NodeImageSpec {
  const { spec } = nodeImage;
  const entry = imageEntry(spec, image.name);
  const tags = (entry?.tags ?? []).flatMap((tag) => {
    if (tag.tag !== image.tag || !isOwnedBy(tag, jobUid)) return [tag];
    if (currentTagStatus(nodeImage, { name: image.name, tag })?.completionTime !== undefined) return [tag];
    const ownerReferences = (tag.ownerReferences ?? []).filter(({ uid }) => uid !== jobUid);
    return ownerReferences.length === 0 ? [] : [{ ...tag, ownerReferences }];
  });
  return entry === undefined ? spec : withEntry(spec, image.name, { ...entry, tags });
}

/** The remaining spec, and when to look again. */
export interface Pruned {
  readonly spec: NodeImageSpec;
  readonly againInMs?: number;
}

/** Decides what has expired. */
export interface Judge {
  /** Whether the owner is known not to exist any more. */
  readonly isGone: (owner: ImageOwner) => boolean;
  /** Whether the Secret is known not to exist. */
  readonly isMissing: (secret: PullSecretRef) => boolean;
  readonly nowMs: number;
}

/** Removes what has expired (NI-4 to NI-7, SEC-6). When it is unknown whether a job exists, its request stays. */
export function pruned(nodeImage: NodeImage, judge: Judge): Pruned {
  const due: number[] = [];
  const images = Object.entries(nodeImage.spec.images ?? {}).flatMap(([name, entry]): [string, ImageEntry][] => {
    const { tags = [] } = entry;
    const kept = tags.flatMap((tag) => {
      const left = stillWanted(tag, judge.isGone);
      if (left === undefined) return [];
      const leftMs = expiresInMs(nodeImage, name, tag, judge.nowMs);
      if (leftMs !== undefined && leftMs <= 0) return [];
      if (leftMs !== undefined) due.push(leftMs);
      return [left];
    });
    if (kept.length === 0) return []; // NI-7
    const isSame = kept.length === tags.length && kept.every((tag, at) => tag === tags[at]);
    return [[name, withoutMissing(isSame ? entry : { ...entry, tags: kept }, judge)]];
  });
  const spec = { ...nodeImage.spec, images: Object.fromEntries(images) };
  const isSame = sameJson(spec.images, nodeImage.spec.images ?? {});
  return {
    spec: isSame ? nodeImage.spec : spec,
    ...(due.length > 0 && { againInMs: Math.max(Math.min(...due), 1_000) }),
  };
}

/** The references of a node to Secrets that are kept only while these exist: all but those to shared copies (SEC-6). */
export function looseSecrets({ spec }: NodeImage): readonly PullSecretRef[] {
  return Object.values(spec.images ?? {}).flatMap(({ pullSecrets = [] }) => pullSecrets.filter(isLoose));
}

function isLoose({ mode }: PullSecretRef): boolean {
  return mode !== 'batch';
}

function withoutMissing(entry: ImageEntry, { isMissing }: Judge): ImageEntry {
  const { pullSecrets = [], ...others } = entry;
  const left = pullSecrets.filter((secret) => !isLoose(secret) || !isMissing(secret));
  if (left.length === pullSecrets.length) return entry;
  return { ...others, ...(left.length > 0 && { pullSecrets: left }) };
}

function stillWanted(tag: ImageTag, isGone: (owner: ImageOwner) => boolean): ImageTag | undefined {
  if (tag.createdAt === undefined) return undefined; // NI-4
  const owners = tag.ownerReferences ?? [];
  if (owners.length === 0) return tag;
  const left = owners.filter((owner) => owner.kind !== imagePullJobs.kind || !isGone(owner));
  if (left.length === owners.length) return tag;
  return left.length === 0 ? undefined : { ...tag, ownerReferences: left };
}

/** NI-6: undefined while it is not complete. */
function expiresInMs(nodeImage: NodeImage, name: string, tag: ImageTag, nowMs: number): number | undefined {
  const completionTime = currentTagStatus(nodeImage, { name, tag })?.completionTime;
  const ttlSeconds = tag.pullPolicy?.ttlSecondsAfterFinished;
  if (completionTime === undefined || ttlSeconds === undefined) return undefined;
  return Date.parse(completionTime) + ttlSeconds * 1_000 - nowMs;
}

function withEntry(spec: NodeImageSpec, name: string, entry: ImageEntry): NodeImageSpec {
  const { [name]: before, ...others } = spec.images ?? {};
  if (entry.tags === undefined || entry.tags.length === 0) {
    return before === undefined ? spec : { ...spec, images: others };
  }
  return { ...spec, images: { ...others, [name]: entry } };
}

/**
 * The image of a job, in the form in which NodeImages list it; undefined for an invalid one, which admission rejects.
 */
export function imageOf({ spec }: Pick<ImagePullJob, 'spec'>): FamiliarImage | undefined {
  return familiarImage(spec.image);
}
