/** What the watcher does for ImageListPullJobs: a job for each image, counted, and deleted with the list. */

import { sameJson } from '../../../api/base/json.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import { eventComponent } from '../../../api/core/well-known.ts';
import {
  type ImageListPullJob,
  type ImagePullJob,
  imageListPullJobs,
  imagePullJobs,
  isFinished,
  templateHashLabel,
} from '../../../api/image-pull-job/types.ts';
import { tellEvent } from '../../../kube/events.ts';
import type { PassResult } from '../../../kube/keyed-queue.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import {
  type ImagePullJobDraft,
  type JobRefusal,
  listStatus,
  listSteps,
  templateHash,
} from '../../../workflows/plan/images/image-list-pull-job.ts';
import type { Controller, ControllerContext } from '../../controller.ts';

const byList = 'list';

const listIndexes = {
  [byList]: ({ metadata }: ImagePullJob): readonly string[] =>
    (metadata.ownerReferences ?? []).flatMap(({ kind, controller, uid }) =>
      controller && kind === imageListPullJobs.kind ? [uid] : [],
    ),
};

/** What is refused is tried again so often: a right may be back in a moment, and a spec may be refused by a gate. */
const refusedAgainMs = { Denied: 5_000, Invalid: 30_000 } as const;
const seenWithinMs = 30_000;

/** Sees that each list has its jobs. */
export function imageListPullJobRunner(context: ControllerContext): Controller {
  const { kube, config, now, isLeading, cache, queue } = context;
  const lists = cache<ImageListPullJob>(imageListPullJobs);
  const jobs = cache<ImagePullJob>(imagePullJobs, listIndexes);
  const isOn = config.featureGates.KruiseDaemon && config.featureGates.ImagePullJobGate;
  const passes = queue('image-list-pull-jobs', async (uid) => {
    const list = lists.byUid(uid);
    return list === undefined ? undefined : await pass(list);
  });

  lists.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    if (uid !== undefined && isLeading()) passes.add(uid);
  });
  jobs.onChange(({ before, after }) => {
    if (!isLeading()) return;
    for (const job of [before, after]) for (const uid of job ? listIndexes[byList](job) : []) passes.add(uid);
  });

  return {
    wantAll() {
      for (const { metadata } of lists.all()) passes.add(metadata.uid);
    },
    operations: () => ({
      kind: imageListPullJobs.kind,
      states: [...lists.all()].map((list) => ({ phase: isFinished(list) ? 'Completed' : 'Pulling' })),
    }),
  };

  async function pass(list: ImageListPullJob): Promise<PassResult | undefined> {
    if (list.metadata.deletionTimestamp !== undefined || !isOn) return undefined; // ILP-11: ownership does it
    if (isFinished(list)) return await expire(list);
    await label(list);
    const children = jobs.byIndex(byList, list.metadata.uid);
    const { create, remove, kept } = listSteps(list, children);
    await Promise.all(remove.map((child) => deleteJob(child)));
    if (remove.length > 0) await tell(list, 'delete', remove.length);
    const { created, refused, refusal } = await createJobs(create);
    if (created > 0) await tell(list, 'create', created);
    const status = listStatus(list, kept, { nowMs: now(), ...(refusal !== undefined && { refusal, refused }) });
    await writeStatus(list, status);
    return refusal === undefined ? undefined : { againInMs: refusedAgainMs[refusal.reason] };
  }

  /** ILP-2: 1, 2, 4 … at once, so that what cannot be created is noticed early. */
  async function createJobs(drafts: readonly ImagePullJobDraft[]) {
    const refused: string[] = [];
    let refusal: JobRefusal | undefined;
    let created = 0;
    for (let at = 0, size = 1; at < drafts.length && refusal === undefined; at += size, size *= 2) {
      const batch = drafts.slice(at, at + size);
      const made = await Promise.all(batch.map((draft) => createJob(draft)));
      for (const [index, result] of made.entries()) {
        if (result.kind === 'created') created += 1;
        if (result.kind !== 'refused') continue;
        refusal ??= result.refusal;
        refused.push(batch[index]?.spec.image ?? '');
      }
    }
    return { created, refused, refusal };
  }

  async function createJob(draft: ImagePullJobDraft) {
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

  async function deleteJob({ metadata: { namespace = '', name, uid } }: ImagePullJob): Promise<void> {
    await unlessMovedOn(kube.delete(imagePullJobs, { namespace, name }, { preconditions: { uid } }));
    await jobs.deletionSeen(uid, AbortSignal.timeout(seenWithinMs));
  }

  /** ILP-4: on the list itself, too. */
  async function label(list: ImageListPullJob): Promise<void> {
    const hash = templateHash(list);
    const { namespace = '', name, uid, labels } = list.metadata;
    if (labels?.[templateHashLabel] === hash) return;
    const body = { metadata: { uid, labels: { [templateHashLabel]: hash } } };
    await unlessMovedOn(kube.patch(imageListPullJobs, { namespace, name }, 'merge', body));
  }

  async function writeStatus(list: ImageListPullJob, status: NonNullable<ImageListPullJob['status']>): Promise<void> {
    if (sameJson(list.status, status)) return;
    const { namespace = '', name, uid } = list.metadata;
    // nobody else writes it, and the label of a moment ago has moved the version on
    const patch = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ];
    const written = await unlessMovedOn(
      kube.patch<ImageListPullJob>(imageListPullJobs, { namespace, name }, 'json', patch, { subresource: 'status' }),
    );
    if (written) await lists.seen(uid, written.metadata.resourceVersion, AbortSignal.timeout(seenWithinMs));
  }

  /** ILP-5 and ILP-8: the jobs live as long as the list, so that none is made twice. */
  async function expire({ spec, status, metadata }: ImageListPullJob): Promise<PassResult | undefined> {
    const { ttlSecondsAfterFinished } = spec.completionPolicy;
    if (ttlSecondsAfterFinished === undefined || status?.completionTime === undefined) return undefined;
    const leftMs = Date.parse(status.completionTime) + ttlSecondsAfterFinished * 1_000 - now();
    if (leftMs > 0) return { againInMs: leftMs };
    const { namespace = '', name, uid } = metadata;
    const options = { preconditions: { uid }, propagationPolicy: 'Background' } as const;
    await unlessMovedOn(kube.delete(imageListPullJobs, { namespace, name }, options));
    return undefined;
  }

  async function tell(list: ImageListPullJob, verb: 'create' | 'delete', count: number): Promise<void> {
    await tellEvent(kube, {
      about: {
        apiVersion: `${imageListPullJobs.group}/${imageListPullJobs.version}`,
        kind: imageListPullJobs.kind,
        metadata: list.metadata,
      },
      component: eventComponent.imageListPullJob,
      type: 'Normal',
      reason: `Successful ${verb} ImagePullJob`,
      message: `${verb === 'create' ? 'Create' : 'Delete'} ${count} ImagePullJob`,
      atMs: now(),
    });
  }
}
