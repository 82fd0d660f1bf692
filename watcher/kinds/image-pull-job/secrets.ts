/** The Secrets of a job, copied for nodes. */

import { fnv1a } from '../../../api/base/fnv.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import { qualifiedName } from '../../../api/core/refs.ts';
import { eventComponent } from '../../../api/core/well-known.ts';
import { grantFor } from '../../../api/engine/missing-right.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import { tellEvent } from '../../../kube/events.ts';
import { pullSecretTypes, type SyncedSecrets } from '../node-image/pull-secrets.ts';
import type { PullJobPassDependencies } from './pull-job-pass-dependencies.ts';

export interface JobSecrets extends SyncedSecrets {
  /** Why Secrets could not be copied, for people; absent: they were. */
  readonly trouble?: string;
  /** False: no further node gets the job, because without its Secrets a private image seems not to exist. */
  readonly mayTell: boolean;
}

const none: JobSecrets = { refs: [], missing: [], unusable: [], mayTell: true };

/** Copies the Secrets of a job to where nodes can read them; a job that is too large for nodes needs none. */
export async function secretsFor(
  job: ImagePullJob,
  tooLarge: unknown,
  { pullSecrets, images, log }: PullJobPassDependencies,
): Promise<JobSecrets> {
  if (tooLarge !== undefined) return none;
  try {
    return { ...(await pullSecrets.sync(job)), mayTell: true };
  } catch (error) {
    const type = failureTypeOf(error);
    if (type !== 'Denied' && type !== 'Invalid') throw error;
    log.warn({ job: qualifiedName(job.metadata), err: error }, 'Cannot copy pull Secrets');
    // a right may be granted at any time
    return { ...none, mayTell: type !== 'Denied', trouble: refusedSecrets(error, images.secretNamespace) };
  }
}

/** Whether no Secret has to be read again. */
export function areSecretsComplete({ missing, unusable, trouble }: JobSecrets): boolean {
  return missing.length + unusable.length === 0 && trouble === undefined;
}

/** Once per job and Secret: the pull continues without it. */
export async function reportUnusable(
  job: ImagePullJob,
  { unusable }: JobSecrets,
  { kube, toldUnusable, now }: PullJobPassDependencies,
): Promise<void> {
  for (const { name, type } of unusable) {
    const key = `${job.metadata.uid}.${fnv1a(name).toString(16)}`;
    if (toldUnusable.has(key)) continue;
    toldUnusable.add(key);
    const message = `Secret "${name}" is not used: its type is "${type}", and pulls use ${pullSecretTypes.join(' and ')}`;
    const component = eventComponent.imagePullJob;
    const text = { type: 'Warning', reason: 'PullSecretNotUsed', message } as const;
    await tellEvent(kube, { about: job, component, ...text, atMs: now(), key });
  }
}

/** The job of this UID is gone. */
export function forgetUnusable(uid: string, { toldUnusable }: PullJobPassDependencies): void {
  for (const key of toldUnusable) if (key.startsWith(`${uid}.`)) toldUnusable.delete(key);
}

function refusedSecrets(error: unknown, namespace: string): string {
  const why = error instanceof Error ? error.message : String(error);
  return grantFor(why) ?? `Allow the watcher to write Secrets in namespace "${namespace}"; ${why}`;
}
