import { sameJson } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import { withCondition } from '../../api/core/conditions.ts';
import { type ObjectRef, qualifiedName } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import type { CommandName } from '../../api/engine/operations.ts';
import { endedPullJob, pullJobCondition } from '../../api/image-pull-job/texts.ts';
import { type ImagePullJob, imagePullJobs, isFinished, steeringOf } from '../../api/image-pull-job/types.ts';
import { nodeImages } from '../../api/node-image/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isGone, toFailure } from '../../kube/failures.ts';
import { unlessGone } from '../../kube/moved-on.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import { type ReceivedCommand, tellOfCommand } from './operator-events.ts';

/** The cluster worker's activities for one ImagePullJob. */
export interface PullJobActivities {
  /** Writes an operator's command into the conditions, for the watcher to process; or answers why it has no effect. */
  steerPullJob(input: {
    readonly job: ObjectRef;
    readonly command: CommandName;
    readonly by: string;
  }): Promise<{ readonly refused: string } | undefined>;
  /** Writes an Event about a job, or a NodeImage, that names who sent the command. One Event per key. */
  announceSteering(
    input: ReceivedCommand & { readonly about: ObjectRef & { readonly kind: 'ImagePullJob' | 'NodeImage' } },
  ): Promise<void>;
}

/** Every activity may run twice, and acts only on the job of the given UID. */
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
    async steerPullJob({ job, command, by }) {
      try {
        return await despiteConflicts(async () => {
          const live = await find(job);
          const refused = live === undefined ? 'the job is gone' : refusalOf(live, command);
          if (live === undefined || refused !== undefined) return { refused: refused ?? '' };
          const before = live.status?.conditions ?? [];
          const conditions = steered(before, command, by, timestamp(now().getTime()));
          if (sameJson(before, conditions)) return undefined;
          const { uid, resourceVersion } = live.metadata;
          const body = { metadata: { uid, resourceVersion }, status: { conditions } };
          await kube.patch(imagePullJobs, job, 'merge', body, { subresource: 'status' });
          return undefined;
        });
      } catch (error) {
        if (isGone(error)) return { refused: 'the job is gone' };
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

interface Steering {
  readonly type: string;
  readonly status: 'True' | 'False';
  readonly reason: string;
}

/**
 * The condition that a command sets. `skip` and `undo` have no meaning for a job: its nodes do not wait for each other.
 */
const steering: Readonly<Partial<Record<CommandName, Steering>>> = {
  pause: { type: pullJobCondition.paused, status: 'True', reason: 'Paused' },
  resume: { type: pullJobCondition.paused, status: 'False', reason: 'Resumed' },
  retry: { type: pullJobCondition.retrying, status: 'True', reason: 'Retried' },
  abort: { type: pullJobCondition.aborted, status: 'True', reason: 'Aborted' },
};

function refusalOf(job: ImagePullJob, command: CommandName): string | undefined {
  if (isFinished(job)) return endedPullJob(job);
  if (steering[command] === undefined) {
    return `nodes of a job do not wait for each other; it must be one of ${Object.keys(steering).join(', ')}`;
  }
  return command === 'resume' && !steeringOf(job).paused ? 'the job is not paused' : undefined;
}

/** The conditions after a command. */
function steered(before: Conditions, command: CommandName, by: string, at: string): Conditions {
  const condition = steering[command];
  return condition ? withCondition(before, { ...condition, message: `${condition.reason} by ${by}` }, at) : before;
}
