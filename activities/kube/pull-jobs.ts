import { sameJson } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import { withCondition } from '../../api/core/conditions.ts';
import { type ObjectRef, qualifiedName } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import type { CommandName } from '../../api/engine/operations.ts';
import { type ImagePullJob, imagePullJobs, isFinished, pullJobCondition } from '../../api/image-pull-job/types.ts';
import { nodeImages } from '../../api/node-image/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isGone, toFailure } from '../../kube/failures.ts';
import { unlessGone } from '../../kube/moved-on.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import { tellOfCommand } from './operator-events.ts';

/** Whether a job still goes on. */
export type PullJobLook = 'gone' | 'finished' | 'open';

/** What the cluster worker does for one ImagePullJob at the API server. */
export interface PullJobActivities {
  lookAtPullJob(job: ObjectRef): Promise<PullJobLook>;
  /** Writes down what an operator has commanded, for the watcher to obey. A job that has ended stays as it is. */
  steerPullJob(input: { readonly job: ObjectRef; readonly command: CommandName; readonly by: string }): Promise<void>;
  /** Says in an Event about a job, or about a node's images, who steered it. The same key is told once. */
  announceSteering(input: {
    readonly about: ObjectRef & { readonly kind: 'ImagePullJob' | 'NodeImage' };
    readonly command: CommandName;
    readonly by: string;
    readonly target?: string;
    readonly key: string;
  }): Promise<void>;
}

/** Every activity may run twice and acts on the job of the given UID only. */
export function pullJobActivities({
  kube,
  now,
}: {
  readonly kube: Pick<KubeClient, 'get' | 'patch' | 'create'>;
  readonly now: () => Date;
}): PullJobActivities {
  async function find(ref: ObjectRef): Promise<ImagePullJob | undefined> {
    const found = await unlessGone(kube.get<ImagePullJob>(imagePullJobs, ref));
    return found?.metadata.uid === ref.uid && found.metadata.deletionTimestamp === undefined ? found : undefined;
  }

  return {
    async lookAtPullJob(job) {
      try {
        const live = await find(job);
        if (live === undefined) return 'gone';
        return isFinished(live) ? 'finished' : 'open';
      } catch (error) {
        throw toFailure(error, `Cannot read ImagePullJob "${qualifiedName(job)}"`);
      }
    },

    async steerPullJob({ job, command, by }) {
      try {
        await despiteConflicts(async () => {
          const live = await find(job);
          if (live === undefined || isFinished(live)) return;
          const before = live.status?.conditions ?? [];
          const conditions = steered(before, command, by, timestamp(now().getTime()));
          if (sameJson(before, conditions)) return;
          const { uid, resourceVersion } = live.metadata;
          const body = { metadata: { uid, resourceVersion }, status: { conditions } };
          await kube.patch(imagePullJobs, job, 'merge', body, { subresource: 'status' });
        });
      } catch (error) {
        if (isGone(error)) return;
        throw toFailure(error, `Cannot ${command} ImagePullJob "${qualifiedName(job)}"`);
      }
    },

    async announceSteering({ about: { kind, ...ref }, ...heard }) {
      const [resource, component] =
        kind === 'NodeImage'
          ? ([nodeImages, eventComponent.nodeImage] as const)
          : ([imagePullJobs, eventComponent.imagePullJob] as const);
      await tellOfCommand(kube, { resource, ref }, heard, { component, atMs: now().getTime() });
    },
  };
}

type Conditions = Parameters<typeof withCondition>[0];

/** The conditions after a command. `skip` and `undo` have no meaning for a job: nothing but themselves holds its nodes up. */
function steered(before: Conditions, command: CommandName, by: string, at: string): Conditions {
  const { paused, retrying, aborted } = pullJobCondition;
  switch (command) {
    case 'pause':
      return withCondition(before, { type: paused, status: 'True', reason: 'Paused', message: `Paused by ${by}` }, at);
    case 'resume':
      return withCondition(
        before,
        { type: paused, status: 'False', reason: 'Resumed', message: `Resumed by ${by}` },
        at,
      );
    case 'retry':
      return withCondition(
        before,
        { type: retrying, status: 'True', reason: 'Retried', message: `Retried by ${by}` },
        at,
      );
    case 'abort':
      return withCondition(
        before,
        { type: aborted, status: 'True', reason: 'Aborted', message: `Aborted by ${by}` },
        at,
      );
    case 'skip':
    case 'undo':
      return before;
  }
}
