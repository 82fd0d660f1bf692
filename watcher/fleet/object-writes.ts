/** Writes of objects as they were when something was decided about them. */

import { type JsonObject, mergePatchTo, objectOr } from '../../api/base/json.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { type ImagePullJob, imagePullJobs } from '../../api/image-pull-job/types.ts';
import type { Cache } from '../../kube/cache.ts';
import type { KubeWriter } from '../../kube/fence.ts';
import { hasMovedOn, unlessMovedOn } from '../../kube/moved-on.ts';
import { type AsSeen, asSeen } from '../../plan/fleet/pods.ts';
import type { Seen } from './kind.ts';

type Shown = Pick<Cache<KubeObject>, 'seen' | 'deletionSeen'>;

/**
 * A patch of this version of an object; undefined when there is another one by now, or when nothing was to be changed: to look again
 * for that would have no end.
 */
export async function patchAsSeen(
  kube: Pick<KubeWriter, 'patch'>,
  resource: Resource,
  cache: Pick<Shown, 'seen'>,
  { namespace, name, uid, resourceVersion }: AsSeen,
  patch: JsonObject,
  { subresource, as = 'merge' }: { readonly subresource?: string; readonly as?: 'merge' | 'strategic' } = {},
): Promise<Seen | undefined> {
  const body = { ...patch, metadata: { ...objectOr(patch.metadata), uid, resourceVersion } };
  const options = subresource === undefined ? {} : { subresource };
  const written = await unlessMovedOn(kube.patch<KubeObject>(resource, { namespace, name }, as, body, options));
  if (written === undefined || written.metadata.resourceVersion === resourceVersion) return undefined;
  return (signal) => cache.seen(uid, written.metadata.resourceVersion, signal);
}

/** Writes the status of an object that has not changed since. */
export async function patchStatus(
  kube: Pick<KubeWriter, 'patch'>,
  resource: Resource,
  cache: Pick<Shown, 'seen'>,
  owner: KubeObject & { readonly status?: object },
  status: object,
): Promise<Seen | undefined> {
  const patch = { status: mergePatchTo((owner.status ?? {}) as JsonObject, status as JsonObject) };
  return await patchAsSeen(kube, resource, cache, asSeen(owner), patch, { subresource: 'status' });
}

/** Deletes an object, unless it has changed or gone. */
export async function deleteAsSeen(
  kube: Pick<KubeWriter, 'delete'>,
  resource: Resource,
  cache: Pick<Shown, 'deletionSeen'>,
  { namespace, name, uid, resourceVersion }: AsSeen,
  { evenIfChanged = false } = {},
): Promise<Seen | undefined> {
  const preconditions = evenIfChanged ? { uid } : { uid, resourceVersion };
  try {
    await kube.delete(resource, { namespace, name }, { preconditions });
  } catch (error) {
    if (hasMovedOn(error)) return undefined;
    throw error;
  }
  return (signal) => cache.deletionSeen(uid, signal);
}

/** Deletes a job that pulls images ahead, whatever its nodes have reported meanwhile; the cache shows it gone in the end. */
export async function deletePullJob(
  kube: Pick<KubeWriter, 'delete'>,
  cache: Pick<Cache<ImagePullJob>, 'deletionSeen'>,
  { namespace, name, uid }: AsSeen,
): Promise<Seen> {
  await unlessMovedOn(kube.delete(imagePullJobs, { namespace, name }, { preconditions: { uid } }));
  return (signal) => cache.deletionSeen(uid, signal);
}
