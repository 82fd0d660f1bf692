import type { KubeObject, Resource } from '../api/core/meta.ts';
import type { DeleteOptions, KubeClient } from '../kube/client.ts';
import type { PassResult } from '../kube/keyed-queue.ts';
import { unlessMovedOn } from '../kube/moved-on.ts';

/** The lifetime of a completed object. */
export interface Lifetime {
  /** Absent: unlimited. */
  readonly ttlSeconds: number | undefined;
  /** Absent: it has not completed. */
  readonly completionTime: string | undefined;
}

/** Deletes an object that has outlived its TTL, or returns when that will be; undefined when there is no TTL. */
export async function deleteExpired(
  { metadata: { namespace = '', name, uid } }: Pick<KubeObject, 'metadata'>,
  resource: Resource,
  { ttlSeconds, completionTime }: Lifetime,
  { kube, now }: { readonly kube: Pick<KubeClient, 'delete'>; readonly now: () => number },
  options: DeleteOptions = {},
): Promise<PassResult | undefined> {
  if (ttlSeconds === undefined || completionTime === undefined) return undefined;
  const leftMs = Date.parse(completionTime) + ttlSeconds * 1_000 - now();
  if (leftMs > 0) return { againInMs: leftMs };
  await unlessMovedOn(kube.delete(resource, { namespace, name }, { ...options, preconditions: { uid } }));
  return undefined;
}
