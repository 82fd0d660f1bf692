/**
 * Pull Secrets on their way to the nodes. Daemons may read the Secrets of one namespace only, so what jobs name is copied
 * there: one copy for each Secret, for all jobs that need it (SEC-1 to SEC-7). Nobody may watch all Secrets, so each one
 * that an open job names is read every few seconds, and its copy is equal to it. A copy stays a moment longer than the
 * last of its jobs, for the next job.
 */
import { createHash } from 'node:crypto';
import { sameJson } from '../../../api/base/json.ts';
import { compareGoStrings } from '../../../api/base/json-go.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import { kubeResource, pullSecretAnnotation } from '../../../api/core/well-known.ts';
import { type ImagePullJob, isFinished } from '../../../api/image-pull-job/types.ts';
import type { PullSecretRef } from '../../../api/node-image/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import type { KeyedQueue, PassResult } from '../../../kube/keyed-queue.ts';
import { unlessGone, unlessMovedOn } from '../../../kube/moved-on.ts';
import type { ControllerContext } from '../../controller.ts';

/** A Secret as far as it is copied. */
export interface Secret extends KubeObject {
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

/** What nodes are told of a job's Secrets. */
export interface SyncedSecrets {
  readonly refs: readonly PullSecretRef[];
  /** Names that do not exist yet; the pull goes without them (SEC-4). */
  readonly missing: readonly string[];
  /** Names of Secrets that hold no registry credentials, with their types; they are not copied. */
  readonly unusable: readonly { readonly name: string; readonly type: string }[];
}

/** The index of open jobs by the Secrets that they name, as `namespace/name`. */
export const jobsBySecret = 'pullSecret';

/** The index function of `jobsBySecret`. */
export function secretKeysOf(job: ImagePullJob): readonly string[] {
  const { namespace = '' } = job.metadata;
  return isHolding(job) ? (job.spec.pullSecrets ?? []).map((name) => `${namespace}/${name}`) : [];
}

/** The types whose Secrets hold registry credentials. Nothing else of a tenant gets to where daemons read. */
export const pullSecretTypes: readonly string[] = ['kubernetes.io/dockerconfigjson', 'kubernetes.io/dockercfg'];

export interface PullSecretTimes {
  /** How often a Secret is compared with its copy, and one that is missing looked for. */
  readonly compareMs: number;
  /** How long a copy stays that no job needs (SEC-5). */
  readonly releasedMs: number;
}

/** What these times are unless a test cannot wait. */
export const pullSecretTimes: PullSecretTimes = { compareMs: 3_000, releasedMs: 5_000 };

/** With many Secrets each is compared less often, so that all of them cost so many calls a second at most. */
const callsASecond = 20;
const callsToCompare = 2;

/** Foreign Secrets that may be in the way of one copy. */
const mostNames = 16;

/** Every copy, in the queue of copies: no Secret has this name. */
const allCopies = '*';

export interface PullSecretDependencies {
  readonly kube: Pick<KubeWriter, 'get' | 'list' | 'create' | 'patch' | 'delete'>;
  readonly queue: (...queue: Parameters<ControllerContext['queue']>) => Pick<KeyedQueue, 'add' | 'addAfter'>;
  readonly now: () => number;
  readonly jobs: Pick<Cache<ImagePullJob>, 'byName' | 'byIndex'>;
  /** Wants a pass over the job of this UID. */
  readonly wake: (uid: string) => void;
  /** Where the copies are. */
  readonly namespace: string;
  /** Jobs of other namespaces are not known; empty: all are. */
  readonly watchedNamespace: string;
}

export interface PullSecrets {
  /** Makes the copies of a job's Secrets equal to them, and answers what nodes are to be told. */
  sync(job: ImagePullJob): Promise<SyncedSecrets>;
  /** Takes the job off every copy. A copy that nobody needs any more goes a moment later (SEC-5). */
  release(job: ImagePullJob): Promise<void>;
  /** Looks for copies that nobody needs, whoever left them behind. */
  wantAll(): void;
}

/** Copies Secrets for jobs. */
export function pullSecretCopies(
  { kube, queue, now, jobs, wake, namespace, watchedNamespace }: PullSecretDependencies,
  { compareMs, releasedMs }: PullSecretTimes,
): PullSecrets {
  /** Names of copies by what they are copies of. */
  const copyNames = new Map<string, string>();
  /** In which version each copy was first seen without a job, and when. */
  const released = new Map<string, { readonly resourceVersion: string; readonly atMs: number }>();
  const sources = queue('pull-secrets', compare);
  const copies = queue('pull-secret-copies', async (name) =>
    name === allCopies ? await lookAtAll() : await clear(name),
  );

  return {
    async sync(job) {
      const refs: PullSecretRef[] = [];
      const missing: string[] = [];
      const unusable: { name: string; type: string }[] = [];
      const { namespace: home = '' } = job.metadata;
      for (const name of new Set(job.spec.pullSecrets)) {
        const source = await existing(home, name);
        const type = source?.type ?? '';
        if (source === undefined) missing.push(name);
        // SEC-2
        else if (home === namespace) refs.push({ namespace, name });
        else if (!pullSecretTypes.includes(type)) unusable.push({ name, type });
        else refs.push({ namespace, name: await copy(source, jobKey(job)), mode: 'batch' });
      }
      return { refs, missing, unusable };
    },

    async release(job) {
      if ((job.spec.pullSecrets ?? []).length === 0 || job.metadata.namespace === namespace) return;
      const own = jobKey(job);
      for (const known of await listCopies()) {
        if (!referencesOf(known).includes(own)) continue;
        await unlessGone(
          writeReferences(
            known,
            referencesOf(known).filter((reference) => reference !== own),
          ),
        );
        copies.add(known.metadata.name);
      }
    },

    wantAll: () => copies.add(allCopies),
  };

  /** Makes the copy of a Secret equal to it and lists the job on it; answers its name. */
  async function copy(source: Secret, job: string): Promise<string> {
    const key = keyOf(source);
    const candidates = await copiesOf(key);
    // a type cannot be changed, so a copy of another one is that of a Secret which has been replaced
    for (const outdated of candidates.filter(({ type }) => type !== source.type)) await remove(outdated);
    const usable = candidates.filter(({ type }) => type === source.type);
    const known = usable.find((candidate) => referencesOf(candidate).includes(job)) ?? usable[0];
    const name = known === undefined ? await create(source, [job]) : await update(known, source, job);
    copyNames.set(key, name);
    sources.addAfter(key, compareEveryMs());
    return name;
  }

  async function copiesOf(key: string): Promise<readonly Secret[]> {
    const name = copyNames.get(key);
    const known = name === undefined ? undefined : await existing(namespace, name);
    if (known !== undefined && sourceKeyOf(known) === key) return [known];
    return (await listCopies()).filter((candidate) => sourceKeyOf(candidate) === key);
  }

  async function update(known: Secret, source: Secret, job: string): Promise<string> {
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

  /** The same name each time, so that a second attempt finds what the first has made; the next one where it is taken. */
  async function create(source: Secret, references: readonly string[]): Promise<string> {
    const { type, data, ...metadata } = copyOf(source, references);
    for (let attempt = 0; ; attempt++) {
      const name = copyName(source, attempt);
      try {
        await kube.create(kubeResource.secrets, { metadata: { name, namespace, ...metadata }, type, data });
        return name;
      } catch (error) {
        if (failureTypeOf(error) !== 'Conflict' || attempt + 1 >= mostNames) throw error;
        const other = await existing(namespace, name);
        // somebody else has just made this very copy: the next pass finds it
        if (other === undefined || sourceKeyOf(other) === keyOf(source)) throw error;
      }
    }
  }

  /** SEC-7: compares a Secret with its copy. A job copies it again, and only where the copy goes, all are told. */
  async function compare(key: string): Promise<PassResult | undefined> {
    const naming = jobs.byIndex(jobsBySecret, key);
    const name = copyNames.get(key);
    if (naming.length === 0 || name === undefined) {
      copyNames.delete(key);
      return undefined;
    }
    const slash = key.indexOf('/');
    const source = await existing(key.slice(0, slash), key.slice(slash + 1));
    if (source !== undefined) {
      const known = await existing(namespace, name);
      const isThere = known !== undefined && sourceKeyOf(known) === key && known.type === source.type;
      if (!isThere) for (const { metadata } of naming) wake(metadata.uid);
      else if (!isEqual(known, source)) for (const { metadata } of naming.slice(0, 1)) wake(metadata.uid);
    }
    return { againInMs: compareEveryMs() };
  }

  function compareEveryMs(): number {
    return Math.max(compareMs, (copyNames.size * callsToCompare * 1_000) / callsASecond);
  }

  async function lookAtAll(): Promise<undefined> {
    for (const known of await listCopies().catch(nothingWhereDenied)) {
      const references = referencesOf(known);
      if (references.length === 0 || !references.every(isHeldBy(known))) copies.add(known.metadata.name);
    }
  }

  /** Takes jobs off a copy that do not need it, and the copy away when it has been without jobs for a while. */
  async function clear(name: string): Promise<PassResult | undefined> {
    const known = await existing(namespace, name);
    if (known === undefined || sourceKeyOf(known) === undefined) return forget();
    const references = referencesOf(known);
    const left = references.filter(isHeldBy(known));
    if (left.length < references.length) {
      await unlessMovedOn(writeReferences(known, left));
      return { againInMs: 0 };
    }
    if (left.length > 0) return forget();
    const { resourceVersion } = known.metadata;
    const before = released.get(name);
    const since = before?.resourceVersion === resourceVersion ? before : { resourceVersion, atMs: now() };
    released.set(name, since);
    // a wish of an earlier release may bring this pass too early
    const leftMs = since.atMs + releasedMs - now();
    if (leftMs > 0) return { againInMs: leftMs };
    await remove(known);
    return forget();

    function forget(): undefined {
      released.delete(name);
    }
  }

  /** Whether an open job of this key names the Secret of the copy. Of a namespace that is not watched nobody knows. */
  function isHeldBy(known: Secret): (reference: string) => boolean {
    return (reference) => {
      const slash = reference.indexOf('/');
      const [home, name] = [reference.slice(0, slash), reference.slice(slash + 1)];
      if (watchedNamespace !== '' && home !== watchedNamespace) return true;
      const job = jobs.byName(home, name);
      // the finalizer of one that has ended is there until it is taken off by its own pass
      return job !== undefined && secretKeysOf(job).includes(sourceKeyOf(known) ?? '');
    };
  }

  async function existing(home: string, name: string): Promise<Secret | undefined> {
    const found = await unlessGone(kube.get<Secret>(kubeResource.secrets, { namespace: home, name }));
    return found?.metadata.deletionTimestamp === undefined ? found : undefined;
  }

  async function writeReferences({ metadata }: Secret, references: readonly string[]): Promise<void> {
    const { name, uid, resourceVersion } = metadata;
    const annotations = { [pullSecretAnnotation.references]: references.join(',') };
    const body = { metadata: { uid, resourceVersion, annotations } };
    await kube.patch(kubeResource.secrets, { namespace, name }, 'merge', body);
  }

  async function remove({ metadata: { name, uid, resourceVersion } }: Secret): Promise<void> {
    const preconditions = { uid, resourceVersion };
    await unlessMovedOn(kube.delete(kubeResource.secrets, { namespace, name }, { preconditions }));
  }

  /** The copies, sorted by name. */
  async function listCopies(): Promise<readonly Secret[]> {
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

/** What a copy says: the Secret's type and data, and nothing of what its tenant has written beside them. */
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

/** Whether a copy says what it would say if it were made now, for the same jobs. */
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

/** The passes of jobs say so where they need it. */
function nothingWhereDenied(error: unknown): readonly Secret[] {
  if (failureTypeOf(error) === 'Denied') return [];
  throw error;
}

function isHolding(job: ImagePullJob): boolean {
  return !isFinished(job) && job.metadata.deletionTimestamp === undefined;
}

function keyOf({ metadata }: Secret): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

function jobKey({ metadata }: ImagePullJob): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

/** Of a copy that which it is a copy of; undefined for other Secrets. */
function sourceKeyOf({ metadata }: Secret): string | undefined {
  return metadata.annotations?.[pullSecretAnnotation.sourceKey];
}

function referencesOf({ metadata }: Secret): readonly string[] {
  return (metadata.annotations?.[pullSecretAnnotation.references] ?? '').split(',').filter((key) => key !== '');
}
