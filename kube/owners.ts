/**
 * Who controls an object: its controller, the controller of that one, and so on, of any kind.
 *
 *   Deployment, ReplicaSet, StatefulSet, ReplicationController, our workloads   read as they are
 *   any other kind   found by discovery; replicas and selector are those of its scale subresource, if it has one
 *
 * An owner that does not exist, or exists with another UID, is gone.
 */

import { listOr, objectOr } from '../api/base/json.ts';
import { type FailureType, failureTypeOf } from '../api/core/failure.ts';
import { type LabelSelector, parseSelector } from '../api/core/label-selector.ts';
import type { KubeObject, OwnerReference, Resource } from '../api/core/meta.ts';
import { kubeResource } from '../api/core/well-known.ts';
import { daemonSets } from '../api/daemon-set/types.ts';
import { withGrant } from '../api/engine/missing-right.ts';
import { fleetOf } from '../api/fleet/fleet-kinds.ts';
import { type KubeClient, type NameRef, pathOf } from './client.ts';
import { KubeError } from './failures.ts';

/** An owner as it was read. */
export interface ReadOwner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** It does not exist any more, or is being deleted. */
  readonly isGone: boolean;
  /** Absent: it has none. */
  readonly replicas?: number;
  /** Of its pods. Absent: it has none, or one that cannot be read. */
  readonly selector?: LabelSelector;
  /** Replicas and selector were read from the object itself, and not from its scale subresource. */
  readonly isKnownKind: boolean;
  /** When it was read, by the clock of the reader. */
  readonly readAtMs: number;
}

/** Names an object of a namespace, or of the cluster if its kind is one of the cluster. */
export type OwnerName = Pick<OwnerReference, 'apiVersion' | 'kind' | 'name'>;

export interface OwnersOptions {
  readonly kube: Pick<KubeClient, 'get' | 'request'>;
  /** What a watch cache has; preferred to what was read. Absent: there is no cache. */
  readonly cached?: (resource: Resource, namespace: string, name: string) => KubeObject | undefined;
  /** Kinds whose `spec.replicas` counts, whatever their scale subresource says. Absent: none. */
  readonly hasOwnReplicas?: (kind: Pick<Resource, 'group' | 'kind'>) => boolean;
  /** Absent: `performance.now`. */
  readonly now?: () => number;
  /** How long one read may take, and how long after its beginning a walk begins another one. */
  readonly withinMs?: number;
}

/** An owner could not be read; the message says why, and names the right if one is missing. */
export class OwnerUnreadable extends Error {
  override readonly name = 'OwnerUnreadable';
  /** What happens next, as of any failed call; undefined: the API server does not know the kind. */
  readonly type: FailureType | undefined;

  constructor(attempted: string, why: string, type?: FailureType) {
    super(`${attempted}: ${withGrant(why)}`);
    this.type = type;
  }
}

/** How long what was read is used again. */
export const ownersKeptMs = 5_000;
const kindKeptMs = 300_000;
const unknownKindKeptMs = 10_000;
const mostKept = 10_000;
const mostKinds = 1_000;
/** Owners of owners: more than any operator has. */
const deepest = 8;

/** What is read of an object. */
interface Found extends Pick<ReadOwner, 'uid' | 'isGone' | 'replicas' | 'selector' | 'isKnownKind'> {
  readonly controller?: OwnerReference;
}

interface Kind {
  readonly resource: Resource;
  readonly isKnownKind: boolean;
  readonly hasScale: boolean;
}

/** Reads owners. What is read is shared by those who ask at the same time, and kept for a short time. */
export class Owners {
  readonly #options: OwnersOptions;
  readonly #found: Answers<Found | undefined>;
  readonly #kinds: Answers<Kind | undefined>;

  constructor(options: OwnersOptions) {
    this.#options = options;
    const now = () => this.now();
    // What does not exist may be about to be created.
    this.#found = new Answers(now, mostKept, (found) => (found ? ownersKeptMs : 0));
    this.#kinds = new Answers(now, mostKinds, (kind) => (kind ? kindKeptMs : unknownKindKeptMs));
  }

  /** The clock of `readAtMs`. */
  now(): number {
    return this.#options.now?.() ?? performance.now();
  }

  /**
   * The owners from this controller upwards. A walk ends with an owner that does not exist, and where `climbs` says that
   * the next one is not needed. Throws OwnerUnreadable.
   */
  async from(
    controller: OwnerReference | undefined,
    namespace: string,
    climbs: (owner: ReadOwner, next: OwnerReference) => boolean = () => true,
  ): Promise<readonly ReadOwner[]> {
    const endsAtMs = this.now() + this.#withinMs;
    const owners: ReadOwner[] = [];
    let next = controller;
    while (next !== undefined && owners.length < deepest) {
      const { uid } = next;
      if (owners.some((owner) => owner.uid === uid)) break;
      if (this.now() > endsAtMs) throw new OwnerUnreadable(attemptedOn(next, namespace), late, 'Unreachable');
      const { found, readAtMs } = await this.#read(next, namespace);
      const owner = found?.uid === uid ? ownerOf(next, found, readAtMs) : goneOwner(next, readAtMs);
      owners.push(owner);
      const above: OwnerReference | undefined = found?.uid === uid ? found.controller : undefined;
      next = above && climbs(owner, above) ? above : undefined;
    }
    return owners;
  }

  /** The object of this name; undefined: it does not exist. Throws OwnerUnreadable. */
  async named(name: OwnerName, namespace: string): Promise<ReadOwner | undefined> {
    const { found, readAtMs } = await this.#read(name, namespace);
    return found && ownerOf(name, found, readAtMs);
  }

  /** The object of this name has changed, so that what was read of it is not used again. */
  forget(resource: Pick<Resource, 'group' | 'kind'>, namespace: string, name: string): void {
    this.#found.forget(keyOf(resource, namespace, name));
  }

  get #withinMs(): number {
    return this.#options.withinMs ?? 5_000;
  }

  async #read(
    owner: OwnerName,
    namespace: string,
  ): Promise<{ readonly found: Found | undefined; readonly readAtMs: number }> {
    try {
      const kind = await this.#kindOf(owner);
      const { resource } = kind;
      const ref: NameRef = { ...(resource.namespaced && { namespace }), name: owner.name };
      const cached = kind.isKnownKind ? this.#options.cached?.(resource, namespace, owner.name) : undefined;
      if (cached !== undefined) return { found: foundOf(cached, kind), readAtMs: this.now() };
      const answer = this.#found.ask(keyOf(resource, namespace, owner.name), () => this.#readLive(kind, ref));
      return { found: await answer.value, readAtMs: answer.atMs };
    } catch (error) {
      if (error instanceof OwnerUnreadable) throw error;
      throw unreadable(attemptedOn(owner, namespace), error);
    }
  }

  async #readLive(kind: Kind, ref: NameRef): Promise<Found | undefined> {
    const { kube, hasOwnReplicas } = this.#options;
    const { resource } = kind;
    const signal = AbortSignal.timeout(this.#withinMs);
    try {
      const found = foundOf(await kube.get(resource, ref, { signal }), kind);
      const isCounted = found.replicas !== undefined && hasOwnReplicas?.(resource) === true;
      if (kind.isKnownKind || isCounted) return found;
      const { replicas: _, ...rest } = found;
      if (!kind.hasScale) return rest;
      const scale = objectOr(await kube.request('GET', pathOf(resource, ref, 'scale'), { signal }));
      const { selector: text } = objectOr(scale.status);
      const selector = typeof text === 'string' && text !== '' ? parseSelector(text) : undefined;
      // The API server leaves out a number that is 0.
      return { ...rest, replicas: countOf(objectOr(scale.spec).replicas) ?? 0, ...(selector && { selector }) };
    } catch (error) {
      if (isAbsent(error)) return undefined;
      throw error;
    }
  }

  async #kindOf(owner: OwnerName): Promise<Kind> {
    const known = knownKind(owner);
    if (known) return { resource: known, isKnownKind: true, hasScale: false };
    const { apiVersion, kind } = owner;
    const found = await this.#kinds.ask(`${apiVersion} ${kind}`, () => this.#discover(owner)).value;
    if (found) return found;
    throw new OwnerUnreadable(`Cannot read ${kind} of ${apiVersion}`, 'the API server does not know this kind');
  }

  async #discover({ apiVersion, kind }: OwnerName): Promise<Kind | undefined> {
    const [, group = '', version = ''] = /^(?:([a-z0-9][a-z0-9.-]*)\/)?(v[a-z0-9]+)$/.exec(apiVersion) ?? [];
    if (version === '') return undefined;
    const path = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
    try {
      const signal = AbortSignal.timeout(this.#withinMs);
      const resources = listOr(objectOr(await this.#options.kube.request('GET', path, { signal })).resources);
      const entries = resources.map(objectOr);
      const entry = entries.find(
        ({ name, kind: of }) => of === kind && typeof name === 'string' && !name.includes('/'),
      );
      if (typeof entry?.name !== 'string') return undefined;
      const resource = { group, version, plural: entry.name, kind, namespaced: entry.namespaced === true };
      return { resource, isKnownKind: false, hasScale: entries.some(({ name }) => name === `${entry.name}/scale`) };
    } catch (error) {
      if (error instanceof KubeError && error.status === 404) return undefined;
      throw error;
    }
  }
}

/** Answers by key: one question at a time, kept for a time that depends on the answer. Failures are not kept. */
class Answers<Value> {
  readonly #now: () => number;
  readonly #most: number;
  readonly #keptMs: (value: Value) => number;
  readonly #kept = new Map<string, { readonly value: Promise<Value>; readonly atMs: number; untilMs: number }>();

  constructor(now: () => number, most: number, keptMs: (value: Value) => number) {
    this.#now = now;
    this.#most = most;
    this.#keptMs = keptMs;
  }

  ask(key: string, read: () => Promise<Value>): { readonly value: Promise<Value>; readonly atMs: number } {
    const atMs = this.#now();
    const kept = this.#kept.get(key);
    if (kept !== undefined && atMs < kept.untilMs) return kept;
    const answer = { value: read(), atMs, untilMs: Number.POSITIVE_INFINITY };
    this.#kept.delete(key);
    this.#kept.set(key, answer);
    const forget = () => {
      if (this.#kept.get(key) === answer) this.#kept.delete(key);
    };
    answer.value.then((value) => {
      answer.untilMs = atMs + this.#keptMs(value);
    }, forget);
    this.#dropOld(atMs);
    return answer;
  }

  forget(key: string): void {
    this.#kept.delete(key);
  }

  #dropOld(nowMs: number): void {
    for (const [key, { untilMs }] of this.#kept) {
      if (this.#kept.size <= this.#most && untilMs > nowMs) return;
      this.#kept.delete(key);
    }
  }
}

function keyOf({ group, kind }: Pick<Resource, 'group' | 'kind'>, namespace: string, name: string): string {
  return `${group}/${kind} ${namespace}/${name}`;
}

const { deployments, replicaSets, statefulSets, replicationControllers } = kubeResource;
const builtIn: readonly Resource[] = [deployments, replicaSets, statefulSets, replicationControllers];

/** Of a kind that is read as it is, in whatever version. */
function knownKind({ apiVersion, kind }: OwnerName): Resource | undefined {
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const known = builtIn.find((resource) => resource.kind === kind && resource.group === group);
  const fleet = known ?? fleetOf({ apiVersion, kind });
  return fleet?.namespaced ? fleet : undefined;
}

function foundOf(object: KubeObject, { resource, isKnownKind }: Kind): Found {
  const { uid, deletionTimestamp, ownerReferences } = object.metadata;
  const spec = objectOr((object as { readonly spec?: unknown }).spec);
  const controller = ownerReferences?.find((reference) => reference.controller);
  const replicas = countOf(spec.replicas) ?? (isKnownKind && resource !== daemonSets ? 1 : undefined);
  const labels = resource === replicationControllers ? { matchLabels: spec.selector } : spec.selector;
  return {
    ...{ uid, isGone: deletionTimestamp !== undefined, isKnownKind },
    ...(replicas !== undefined && { replicas }),
    // of kinds whose schema the API server checks
    ...(isKnownKind && spec.selector !== undefined && { selector: labels as LabelSelector }),
    ...(controller && { controller }),
  };
}

function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
}

function ownerOf({ apiVersion, kind, name }: OwnerName, { controller: _, ...found }: Found, readAtMs: number) {
  return { apiVersion, kind, name, ...found, readAtMs };
}

function goneOwner({ apiVersion, kind, name, uid }: OwnerReference, readAtMs: number): ReadOwner {
  return { apiVersion, kind, name, uid, isGone: true, isKnownKind: false, readAtMs };
}

/** Whether there is no object of this name. A path that is unknown as a whole says nothing about the object. */
function isAbsent(error: unknown): boolean {
  return error instanceof KubeError && error.status === 404 && error.type === 'Superseded';
}

function attemptedOn({ kind, name }: OwnerName, namespace: string): string {
  return `Cannot read ${kind} "${namespace}/${name}"`;
}

function unreadable(attempted: string, error: unknown): OwnerUnreadable {
  const { name, message } = (error ?? {}) as Partial<Error>;
  if (name === 'TimeoutError') return new OwnerUnreadable(attempted, late, 'Unreachable');
  return new OwnerUnreadable(attempted, message ?? String(error), failureTypeOf(error));
}

const late = 'the API server did not answer in time';
