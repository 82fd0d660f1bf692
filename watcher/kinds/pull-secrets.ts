/**
 * Pull Secrets on their way to the nodes. Daemons may read the Secrets of one namespace only, so what jobs name is copied
 * there: one copy for each Secret, for all jobs that need it, and it goes with the last of them (SEC-1 to SEC-7).
 */
import type { KubeClient } from '../../activities/kube/client.ts';
import { failureTypeOf } from '../../api/failure.ts';
import { fnv1a } from '../../api/fnv.ts';
import type { ImagePullJob } from '../../api/image-pull-job.ts';
import { sameJson } from '../../api/json.ts';
import { compareGoStrings } from '../../api/json-go.ts';
import type { KubeObject } from '../../api/meta.ts';
import type { PullSecretRef } from '../../api/node-image.ts';
import { kubeResource, pullSecretAnnotation } from '../../api/well-known.ts';

/** A Secret as far as it is copied. */
export interface Secret extends KubeObject {
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

export interface PullSecretDependencies {
  readonly kube: Pick<KubeClient, 'get' | 'list' | 'create' | 'patch' | 'delete'>;
  /** Where the copies are. */
  readonly namespace: string;
}

/** What nodes are told of a job's Secrets. */
export interface SyncedSecrets {
  readonly refs: readonly PullSecretRef[];
  /** Names that do not exist yet; the pull goes without them (SEC-4). */
  readonly missing: readonly string[];
}

/** Makes the copies of a job's Secrets say what the Secrets say, and answers what nodes are to be told. */
export async function syncPullSecrets(
  job: ImagePullJob,
  { kube, namespace }: PullSecretDependencies,
): Promise<SyncedSecrets> {
  const names = job.spec.pullSecrets ?? [];
  const home = job.metadata.namespace ?? '';
  if (names.length === 0) return { refs: [], missing: [] };
  // SEC-2
  const isHome = home === namespace;
  const copies = isHome ? [] : await copiesIn(kube, namespace);
  const refs: PullSecretRef[] = [];
  const missing: string[] = [];
  for (const name of names) {
    const source = await found<Secret>(kube.get(kubeResource.secrets, { namespace: home, name }));
    if (source === undefined || source.metadata.deletionTimestamp !== undefined) {
      missing.push(name);
      continue;
    }
    refs.push(isHome ? { namespace, name } : { namespace, name: await sync(source, copies), mode: 'batch' });
  }
  return { refs, missing };

  async function sync(source: Secret, known: readonly Secret[]): Promise<string> {
    const key = `${home}/${source.metadata.name}`;
    const job_ = jobKey(job);
    const candidates = known.filter(({ metadata }) => metadata.annotations?.[pullSecretAnnotation.sourceKey] === key);
    const copy = candidates.find((candidate) => referencesOf(candidate).includes(job_)) ?? candidates[0];
    const references = [...new Set([...(copy ? referencesOf(copy) : []), job_])].sort(compareGoStrings);
    const wanted = {
      ...(source.type !== undefined && { type: source.type }),
      data: source.data ?? {},
      labels: source.metadata.labels ?? {},
      annotations: {
        ...withoutLastApplied(source.metadata.annotations ?? {}),
        [pullSecretAnnotation.references]: references.join(','),
        [pullSecretAnnotation.sourceKey]: key,
        [pullSecretAnnotation.mode]: 'batch',
      },
    };
    if (copy === undefined || copy.type !== source.type) return await create(source.metadata.name, key, wanted);
    const { metadata } = copy;
    const isSame =
      sameJson(copy.data ?? {}, wanted.data) &&
      sameJson(metadata.labels ?? {}, wanted.labels) &&
      sameJson(metadata.annotations ?? {}, wanted.annotations);
    if (isSame) return metadata.name;
    const patch = [
      { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
      { op: 'add', path: '/data', value: wanted.data },
      { op: 'add', path: '/metadata/labels', value: wanted.labels },
      { op: 'add', path: '/metadata/annotations', value: wanted.annotations },
    ];
    await kube.patch(kubeResource.secrets, { namespace, name: metadata.name }, 'json', patch);
    return metadata.name;
  }

  async function create(
    sourceName: string,
    key: string,
    {
      labels,
      annotations,
      type,
      data,
    }: Pick<Secret, 'type' | 'data'> & { readonly labels: object; readonly annotations: object },
  ): Promise<string> {
    // the same name each time, so that a second attempt finds what the first has made
    const mark = fnv1a(`${key} ${type ?? ''}`)
      .toString(16)
      .padStart(8, '0')
      .slice(0, 6);
    const name = `${sourceName.slice(0, 246)}-${mark}`;
    await kube.create(kubeResource.secrets, { metadata: { name, namespace, labels, annotations }, type, data });
    return name;
  }
}

/** Takes the job off every copy, and the copies away that nobody needs any more (SEC-5). */
export async function releasePullSecrets(
  job: ImagePullJob,
  { kube, namespace }: PullSecretDependencies,
): Promise<void> {
  if ((job.spec.pullSecrets ?? []).length === 0 || job.metadata.namespace === namespace) return;
  const own = jobKey(job);
  for (const copy of await copiesIn(kube, namespace)) {
    const references = referencesOf(copy);
    if (!references.includes(own)) continue;
    const { name, uid, resourceVersion } = copy.metadata;
    const left = references.filter((reference) => reference !== own);
    if (left.length === 0) {
      await found(kube.delete(kubeResource.secrets, { namespace, name }, { preconditions: { uid, resourceVersion } }));
      continue;
    }
    const annotations = { [pullSecretAnnotation.references]: left.join(',') };
    const body = { metadata: { uid, resourceVersion, annotations } };
    await found(kube.patch(kubeResource.secrets, { namespace, name }, 'merge', body));
  }
}

function jobKey({ metadata }: ImagePullJob): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

function referencesOf({ metadata }: Secret): readonly string[] {
  return (metadata.annotations?.[pullSecretAnnotation.references] ?? '').split(',').filter((key) => key !== '');
}

/** What kubectl remembers of the source holds its data, and would be wrong for the copy. */
function withoutLastApplied(annotations: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const { 'kubectl.kubernetes.io/last-applied-configuration': _, ...others } = annotations;
  return others;
}

/** The copies, sorted by name. */
async function copiesIn(kube: Pick<KubeClient, 'list'>, namespace: string): Promise<readonly Secret[]> {
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
    .filter(({ metadata }) => metadata.annotations?.[pullSecretAnnotation.sourceKey] !== undefined)
    .sort((left, right) => compareGoStrings(left.metadata.name, right.metadata.name));
}

async function found<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (failureTypeOf(error) === 'Superseded') return undefined;
    throw error;
  }
}
