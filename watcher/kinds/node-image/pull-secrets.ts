/**
 * Copies of pull Secrets for nodes. Daemons may read the Secrets of one namespace only, so the Secrets of jobs are
 * copied there: one copy of each Secret, for all jobs that need it (SEC-1 to SEC-7). The watcher may not watch all
 * Secrets, so each Secret that an open job names is read every few seconds, and its copy is updated. A copy stays a
 * little longer than its last job, for the next job.
 */
import { createHash } from 'node:crypto';
import { sameJson } from '../../../api/base/json.ts';
import { compareGoStrings } from '../../../api/base/json-go.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import { kubeResource, pullSecretAnnotation } from '../../../api/core/well-known.ts';
import { type ImagePullJob, isFinished } from '../../../api/image-pull-job/types.ts';
import { mostPullSecrets } from '../../../api/image-pull-job/validate.ts';
import type { PullSecretRef } from '../../../api/node-image/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import type { KeyedQueue, PassResult } from '../../../kube/keyed-queue.ts';
import { unlessGone, unlessMovedOn } from '../../../kube/moved-on.ts';
import type { ControllerContext } from '../../controller.ts';

/** The fields of a Secret that are copied. */
export interface Secret extends KubeObject {
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

/** The Secrets of a job as nodes need them. */
export interface SyncedSecrets {
  readonly refs: readonly PullSecretRef[];
  /** Names of Secrets that do not exist; the image is pulled without them (SEC-4). */
  readonly missing: readonly string[];
  /** Names of Secrets without registry credentials, with their types; they are not copied. */
  readonly unusable: readonly { readonly name: string; readonly type: string }[];
}

/** The index of open jobs by the Secrets that they name, as `namespace/name`. */
export const jobsBySecret = 'pullSecret';

/** The index function of `jobsBySecret`. */
export function secretKeysOf(job: ImagePullJob): readonly string[] {
  const { namespace = '' } = job.metadata;
  const { pullSecrets = [] } = job.spec;
  // One stored above the limit pulls nothing.
  if (!isHolding(job) || pullSecrets.length > mostPullSecrets) return [];
  return pullSecrets.map((name) => `${namespace}/${name}`);
}

/** The types of Secrets with registry credentials. Nothing else of a tenant is copied to where daemons can read it. */
export const pullSecretTypes: readonly string[] = ['kubernetes.io/dockerconfigjson', 'kubernetes.io/dockercfg'];

export interface PullSecretTimes {
  /** How often a Secret is compared with its copy, and a missing one is looked for. */
  readonly compareMs: number;
  /** How long a job that has released a copy stays in it, and with the last one the copy (SEC-5). */
  readonly releasedMs: number;
}

/** The default times. */
export const pullSecretTimes: PullSecretTimes = { compareMs: 3_000, releasedMs: 5_000 };

/** The limit of calls per second: with many Secrets each is compared less often. */
const callsASecond = 20;
const callsToCompare = 2;

/** The maximum number of foreign Secrets whose name a copy tries to avoid. */
const mostNames = 16;

/** Stands for the jobs of a copy that has none. */
const nobody = '';

/** The key for all copies in the queue of copies: no Secret has this name. */
const allCopies = '*';

export interface PullSecretDependencies {
  readonly kube: Pick<KubeWriter, 'get' | 'list' | 'create' | 'patch' | 'delete'>;
  readonly queue: (...queue: Parameters<ControllerContext['queue']>) => Pick<KeyedQueue, 'add' | 'addAfter'>;
  readonly now: () => number;
  readonly jobs: Pick<Cache<ImagePullJob>, 'byName' | 'byIndex'>;
  /** Requests a pass over the job of this UID. */
  readonly wake: (uid: string) => void;
  /** The namespace of the copies. */
  readonly namespace: string;
  /** Jobs of other namespaces are not known; empty: all are watched. */
  readonly watchedNamespace: string;
}

/** Creates and removes the copies of Secrets for jobs. */
export class PullSecretCopies {
  readonly #means: PullSecretDependencies;
  readonly #times: PullSecretTimes;
  /** Names of copies by the Secrets that they copy. */
  readonly #copyNames = new Map<string, string>();
  /** By copy: its references that no open job holds any more, and since when that is known. */
  readonly #released = new Map<string, ReadonlyMap<string, number>>();
  /** The Secrets to be compared with their copies. */
  readonly #sources: Pick<KeyedQueue, 'add' | 'addAfter'>;
  /** The copies that may be unused. */
  readonly #copies: Pick<KeyedQueue, 'add' | 'addAfter'>;

  constructor(means: PullSecretDependencies, times: PullSecretTimes) {
    this.#means = means;
    this.#times = times;
    this.#sources = means.queue('pull-secrets', (key) => this.#compare(key));
    this.#copies = means.queue('pull-secret-copies', async (name) =>
      name === allCopies ? await this.#lookAtAll() : await this.#clear(name),
    );
  }

  /** Updates the copies of a job's Secrets, and returns what nodes need. */
  async sync(job: ImagePullJob): Promise<SyncedSecrets> {
    const { namespace } = this.#means;
    const refs: PullSecretRef[] = [];
    const missing: string[] = [];
    const unusable: { name: string; type: string }[] = [];
    const { namespace: home = '' } = job.metadata;
    for (const name of new Set(job.spec.pullSecrets)) {
      const source = await this.#existing(home, name);
      const type = source?.type ?? '';
      if (source === undefined) missing.push(name);
      // SEC-2
      else if (home === namespace) refs.push({ namespace, name });
      else if (!pullSecretTypes.includes(type)) unusable.push({ name, type });
      else refs.push({ namespace, name: await this.#copy(source, keyOf(job)), mode: 'batch' });
    }
    return { refs, missing, unusable };
  }

  /** Has the job removed from every copy a moment later, and the copies that nobody else needs with it (SEC-5). */
  async release(job: ImagePullJob): Promise<void> {
    if ((job.spec.pullSecrets ?? []).length === 0 || job.metadata.namespace === this.#means.namespace) return;
    for (const known of await this.#listCopies()) {
      if (referencesOf(known).includes(keyOf(job))) this.#copies.add(known.metadata.name);
    }
  }

  /** Looks for unused copies, whatever has left them. */
  wantAll(): void {
    this.#copies.add(allCopies);
  }

  /** Updates the copy of a Secret and lists the job in it; returns the name of the copy. */
  async #copy(source: Secret, job: string): Promise<string> {
    const key = keyOf(source);
    const candidates = await this.#copiesOf(key);
    // the type of a Secret is immutable, so a copy with another type belongs to a Secret that was recreated
    for (const outdated of candidates.filter(({ type }) => type !== source.type)) await this.#remove(outdated);
    const usable = candidates.filter(({ type }) => type === source.type);
    const known = usable.find((candidate) => referencesOf(candidate).includes(job)) ?? usable[0];
    const name = known === undefined ? await this.#create(source, [job]) : await this.#update(known, source, job);
    this.#copyNames.set(key, name);
    this.#sources.addAfter(key, this.#compareEveryMs());
    return name;
  }

  async #copiesOf(key: string): Promise<readonly Secret[]> {
    const name = this.#copyNames.get(key);
    const known = name === undefined ? undefined : await this.#existing(this.#means.namespace, name);
    if (known !== undefined && sourceKeyOf(known) === key) return [known];
    return (await this.#listCopies()).filter((candidate) => sourceKeyOf(candidate) === key);
  }

  async #update(known: Secret, source: Secret, job: string): Promise<string> {
    const { kube, namespace } = this.#means;
    const references = [...new Set([...referencesOf(known), job])].sort(compareGoStrings);
    const { name, resourceVersion } = known.metadata;
    if (isEqual(known, source) && references.length === referencesOf(known).length) return name;
    const { labels, annotations, data } = copyOf(source, references);
    const patch = [
      { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
      { op: 'add', path: '/data', value: data },
      { op: 'add', path: '/metadata/labels', value: labels },
      { op: 'add', path: '/metadata/annotations', value: annotations },
    ];
    await kube.patch(kubeResource.secrets, { namespace, name }, 'json', patch);
    return name;
  }

  /**
   * The name is the same each time, so that a retry finds the result of the first attempt; the next name is used where
   * it is taken.
   */
  async #create(source: Secret, references: readonly string[]): Promise<string> {
    const { kube, namespace } = this.#means;
    const { type, data, ...metadata } = copyOf(source, references);
    for (let attempt = 0; ; attempt++) {
      const name = copyName(source, attempt);
      try {
        await kube.create(kubeResource.secrets, { metadata: { name, namespace, ...metadata }, type, data });
        return name;
      } catch (error) {
        if (failureTypeOf(error) !== 'Conflict' || attempt + 1 >= mostNames) throw error;
        const other = await this.#existing(namespace, name);
        // another process has just created this very copy: the next pass finds it
        if (other === undefined || sourceKeyOf(other) === keyOf(source)) throw error;
      }
    }
  }

  /**
   * SEC-7: compares a Secret with its copy. A copy that differs is updated for one job; where the copy is gone, all
   * jobs need a new one.
   */
  async #compare(key: string): Promise<PassResult | undefined> {
    const { jobs, wake } = this.#means;
    const naming = jobs.byIndex(jobsBySecret, key);
    const name = this.#copyNames.get(key);
    if (naming.length === 0 || name === undefined) {
      this.#copyNames.delete(key);
      return undefined;
    }
    const slash = key.indexOf('/');
    const source = await this.#existing(key.slice(0, slash), key.slice(slash + 1));
    if (source !== undefined) {
      const known = await this.#existing(this.#means.namespace, name);
      const isThere = known !== undefined && sourceKeyOf(known) === key && known.type === source.type;
      if (!isThere) for (const { metadata } of naming) wake(metadata.uid);
      else if (!isEqual(known, source)) for (const { metadata } of naming.slice(0, 1)) wake(metadata.uid);
    }
    return { againInMs: this.#compareEveryMs() };
  }

  #compareEveryMs(): number {
    return Math.max(this.#times.compareMs, (this.#copyNames.size * callsToCompare * 1_000) / callsASecond);
  }

  async #lookAtAll(): Promise<undefined> {
    for (const known of await this.#listCopies().catch(nothingWhereDenied)) {
      const references = referencesOf(known);
      if (references.length === 0 || !references.every(this.#isHeldBy(known))) this.#copies.add(known.metadata.name);
    }
  }

  /** Removes jobs that have not needed a copy for a while from it, and deletes a copy with the last of them. */
  async #clear(name: string): Promise<PassResult | undefined> {
    const nowMs = this.#means.now();
    const known = await this.#existing(this.#means.namespace, name);
    if (known === undefined || sourceKeyOf(known) === undefined) return this.#forget(name);
    const references = referencesOf(known);
    const isHeld = this.#isHeldBy(known);
    const before = this.#released.get(name);
    const idle = references.length === 0 ? [nobody] : references.filter((reference) => !isHeld(reference));
    if (idle.length === 0) return this.#forget(name);
    const since = new Map(idle.map((reference) => [reference, before?.get(reference) ?? nowMs]));
    this.#released.set(name, since);
    const leftMs = (reference: string) => (since.get(reference) ?? nowMs) + this.#times.releasedMs - nowMs;
    const left = references.filter((reference) => isHeld(reference) || leftMs(reference) > 0);
    if (left.length === 0 && idle.every((reference) => leftMs(reference) <= 0)) {
      await this.#remove(known);
      return this.#forget(name);
    }
    if (left.length < references.length) {
      await unlessMovedOn(this.#writeReferences(known, left));
      return { againInMs: 0 };
    }
    return { againInMs: Math.min(...idle.map(leftMs)) };
  }

  #forget(name: string): undefined {
    this.#released.delete(name);
  }

  /**
   * Whether an open job of this key names the Secret of the copy. Jobs of a namespace that is not watched count as
   * open.
   */
  #isHeldBy(known: Secret): (reference: string) => boolean {
    const { jobs, watchedNamespace } = this.#means;
    return (reference) => {
      const slash = reference.indexOf('/');
      const [home, name] = [reference.slice(0, slash), reference.slice(slash + 1)];
      if (watchedNamespace !== '' && home !== watchedNamespace) return true;
      const job = jobs.byName(home, name);
      // the finalizer of a completed job stays until its own pass removes it
      return job !== undefined && secretKeysOf(job).includes(sourceKeyOf(known) ?? '');
    };
  }

  async #existing(home: string, name: string): Promise<Secret | undefined> {
    const found = await unlessGone(this.#means.kube.get<Secret>(kubeResource.secrets, { namespace: home, name }));
    return found?.metadata.deletionTimestamp === undefined ? found : undefined;
  }

  async #writeReferences({ metadata }: Secret, references: readonly string[]): Promise<void> {
    const { kube, namespace } = this.#means;
    const { name, uid, resourceVersion } = metadata;
    const annotations = { [pullSecretAnnotation.references]: references.join(',') };
    const body = { metadata: { uid, resourceVersion, annotations } };
    await kube.patch(kubeResource.secrets, { namespace, name }, 'merge', body);
  }

  async #remove({ metadata: { name, uid, resourceVersion } }: Secret): Promise<void> {
    const { kube, namespace } = this.#means;
    const preconditions = { uid, resourceVersion };
    await unlessMovedOn(kube.delete(kubeResource.secrets, { namespace, name }, { preconditions }));
  }

  /** The copies, sorted by name. */
  async #listCopies(): Promise<readonly Secret[]> {
    const { kube, namespace } = this.#means;
    const secrets: Secret[] = [];
    for (let next: string | undefined, first = true; first || next !== undefined; first = false) {
      const page = await kube.list<Secret>(kubeResource.secrets, {
        namespace,
        limit: 200,
        ...(next !== undefined && { continue: next }),
      });
      secrets.push(...page.items);
      next = page.continue;
    }
    return secrets
      .filter((secret) => sourceKeyOf(secret) !== undefined && secret.metadata.deletionTimestamp === undefined)
      .sort((left, right) => compareGoStrings(left.metadata.name, right.metadata.name));
  }
}

/** The content of a copy: the Secret's type and data, and none of its tenant's metadata. */
function copyOf(source: Secret, references: readonly string[]) {
  return {
    type: source.type,
    data: source.data ?? {},
    labels: {},
    annotations: {
      [pullSecretAnnotation.references]: references.join(','),
      [pullSecretAnnotation.sourceKey]: keyOf(source),
      [pullSecretAnnotation.mode]: 'batch',
    },
  };
}

/** Whether a copy has the content that it would have if it were created now for the same jobs. */
function isEqual(known: Secret, source: Secret): boolean {
  const wanted = copyOf(source, referencesOf(known));
  const { labels = {}, annotations = {} } = known.metadata;
  const has = { type: known.type, data: known.data ?? {}, labels, annotations };
  return sameJson(has, wanted);
}

function copyName(source: Secret, attempt: number): string {
  const text = [keyOf(source), source.type, ...(attempt > 0 ? [attempt] : [])].join(' ');
  const mark = createHash('sha256').update(text).digest('hex').slice(0, 16);
  return `${source.metadata.name.slice(0, 253 - 1 - mark.length)}-${mark}`;
}

/** The pass of a job that needs the right reports that it is missing. */
function nothingWhereDenied(error: unknown): readonly Secret[] {
  if (failureTypeOf(error) === 'Denied') return [];
  throw error;
}

function isHolding(job: ImagePullJob): boolean {
  return !isFinished(job) && job.metadata.deletionTimestamp === undefined;
}

function keyOf({ metadata }: Pick<KubeObject, 'metadata'>): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

/** The key of the Secret that was copied; undefined for other Secrets. */
function sourceKeyOf({ metadata }: Secret): string | undefined {
  return metadata.annotations?.[pullSecretAnnotation.sourceKey];
}

function referencesOf({ metadata }: Secret): readonly string[] {
  return (metadata.annotations?.[pullSecretAnnotation.references] ?? '').split(',').filter((key) => key !== '');
}
