import { sameJson } from '../../../api/base/json.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import { apiVersionOf } from '../../../api/core/meta.ts';
import { eventComponent } from '../../../api/core/well-known.ts';
import {
  type ImageListPullJob,
  type ImagePullJob,
  imageListPullJobs,
  imagePullJobs,
  isFinished,
  templateHashLabel,
} from '../../../api/image-pull-job/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import { tellEvent } from '../../../kube/events.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import type { PassResult } from '../../../kube/keyed-queue.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import {
  type ImagePullJobDraft,
  type JobRefusal,
  listStatus,
  listSteps,
  templateHash,
} from '../../../plan/images/image-list-pull-job.ts';
import { deleteExpired } from '../../expiry.ts';

/** The index of jobs by the UID of their list. */
export const jobsByList = 'list';

/** The index function of `jobsByList`. */
export function listsOfJob({ metadata }: ImagePullJob): readonly string[] {
  return (metadata.ownerReferences ?? []).flatMap(({ kind, controller, uid }) =>
    controller && kind === imageListPullJobs.kind ? [uid] : [],
  );
}

export interface ListPassDependencies {
  readonly kube: Pick<KubeWriter, 'create' | 'patch' | 'delete'>;
  readonly lists: Pick<Cache<ImageListPullJob>, 'byUid' | 'seen'>;
  readonly jobs: Pick<Cache<ImagePullJob>, 'byIndex' | 'seen' | 'deletionSeen'>;
  /** Whether this cluster pulls images at all. */
  readonly isOn: boolean;
  readonly now: () => number;
}

/** The retry intervals after a rejection: a right may be granted at any time, and a feature gate may reject a spec. */
const refusedAgainMs = { Denied: 5_000, Invalid: 30_000 } as const;
const seenWithinMs = 30_000;

/** One pass over one list. */
export async function passOverList(uid: string, world: ListPassDependencies): Promise<PassResult | undefined> {
  const list = world.lists.byUid(uid);
  if (list === undefined) return undefined;
  // ILP-11: the jobs of a deleted list are deleted by their owner references
  if (list.metadata.deletionTimestamp !== undefined || !world.isOn) return undefined;
  if (isFinished(list)) return await expire(list, world);
  await label(list, world);
  const children = world.jobs.byIndex(jobsByList, list.metadata.uid);
  const { create, remove, kept } = listSteps(list, children);
  await Promise.all(remove.map((child) => deleteJob(child, world)));
  if (remove.length > 0) await tell(list, 'delete', remove.length, world);
  const { created, refused, refusal } = await createJobs(create, world);
  if (created > 0) await tell(list, 'create', created, world);
  const status = listStatus(list, kept, { nowMs: world.now(), ...(refusal !== undefined && { refusal, refused }) });
  await writeStatus(list, status, world);
  return refusal === undefined ? undefined : { againInMs: refusedAgainMs[refusal.reason] };
}

/** ILP-2: 1, 2, 4 … at the same time, so that a rejection is noticed early. */
async function createJobs(drafts: readonly ImagePullJobDraft[], world: ListPassDependencies) {
  const refused: string[] = [];
  let refusal: JobRefusal | undefined;
  let created = 0;
  for (let at = 0, size = 1; at < drafts.length && refusal === undefined; at += size, size *= 2) {
    const batch = drafts.slice(at, at + size);
    const made = await Promise.all(batch.map((draft) => createJob(draft, world)));
    for (const [index, result] of made.entries()) {
      if (result.kind === 'created') created += 1;
      if (result.kind !== 'refused') continue;
      refusal ??= result.refusal;
      refused.push(batch[index]?.spec.image ?? '');
    }
  }
  return { created, refused, refusal };
}

async function createJob(draft: ImagePullJobDraft, { kube, jobs }: ListPassDependencies) {
  try {
    const made = await kube.create<ImagePullJob>(imagePullJobs, draft);
    await jobs.seen(made.metadata.uid, made.metadata.resourceVersion, AbortSignal.timeout(seenWithinMs));
    return { kind: 'created' } as const;
  } catch (error) {
    const type = failureTypeOf(error);
    if (type === 'Conflict') return { kind: 'there' } as const;
    if (type !== 'Denied' && type !== 'Invalid') throw error;
    const message = error instanceof Error ? error.message.slice(0, 500) : String(error);
    return { kind: 'refused', refusal: { reason: type, message } } as const;
  }
}

async function deleteJob({ metadata }: ImagePullJob, { kube, jobs }: ListPassDependencies): Promise<void> {
  const { namespace = '', name, uid } = metadata;
  await unlessMovedOn(kube.delete(imagePullJobs, { namespace, name }, { preconditions: { uid } }));
  await jobs.deletionSeen(uid, AbortSignal.timeout(seenWithinMs));
}

/** ILP-4: the labels are set on the list itself, too. */
async function label(list: ImageListPullJob, { kube }: ListPassDependencies): Promise<void> {
  const hash = templateHash(list);
  const { namespace = '', name, uid, labels } = list.metadata;
  if (labels?.[templateHashLabel] === hash) return;
  const body = { metadata: { uid, labels: { [templateHashLabel]: hash } } };
  await unlessMovedOn(kube.patch(imageListPullJobs, { namespace, name }, 'merge', body));
}

async function writeStatus(
  list: ImageListPullJob,
  status: NonNullable<ImageListPullJob['status']>,
  { kube, lists }: ListPassDependencies,
): Promise<void> {
  if (sameJson(list.status, status)) return;
  const { namespace = '', name, uid } = list.metadata;
  // there is no other writer of the status, and the label just written has changed the resource version
  const patch = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'add', path: '/status', value: status },
  ];
  const written = await unlessMovedOn(
    kube.patch<ImageListPullJob>(imageListPullJobs, { namespace, name }, 'json', patch, { subresource: 'status' }),
  );
  if (written) await lists.seen(uid, written.metadata.resourceVersion, AbortSignal.timeout(seenWithinMs));
}

/** ILP-5 and ILP-8: the jobs live as long as the list, so that none is created twice. */
async function expire(list: ImageListPullJob, world: ListPassDependencies): Promise<PassResult | undefined> {
  const { ttlSecondsAfterFinished: ttlSeconds } = list.spec.completionPolicy;
  const lifetime = { ttlSeconds, completionTime: list.status?.completionTime };
  return await deleteExpired(list, imageListPullJobs, lifetime, world, { propagationPolicy: 'Background' });
}

async function tell(
  { metadata }: ImageListPullJob,
  verb: 'create' | 'delete',
  count: number,
  { kube, now }: ListPassDependencies,
): Promise<void> {
  await tellEvent(kube, {
    about: { apiVersion: apiVersionOf(imageListPullJobs), kind: imageListPullJobs.kind, metadata },
    component: eventComponent.imageListPullJob,
    type: 'Normal',
    reason: `Successful ${verb} ImagePullJob`,
    message: `${verb === 'create' ? 'Create' : 'Delete'} ${count} ImagePullJob`,
    atMs: now(),
  });
}
