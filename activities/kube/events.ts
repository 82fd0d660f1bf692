import { randomUUID } from 'node:crypto';
import { eventBody, type NewEvent } from '../../api/core/event.ts';
import { failureTypeOf } from '../../api/core/failure.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';

/**
 * Tells people what has happened to an object. Nothing depends on it, so a failure to tell is swallowed; only with
 * `insist` it rejects when the API server could not be reached, for an act that is then tried again as a whole.
 */
export async function recordEvent(
  kube: Pick<KubeClient, 'create'>,
  {
    at,
    key = randomUUID().slice(0, 13),
    insist = false,
    ...event
  }: Omit<NewEvent, 'atMs' | 'key'> & {
    readonly at: Date;
    /** Absent: each one counts. */
    readonly key?: string;
    readonly insist?: boolean;
  },
): Promise<void> {
  const body = eventBody({ ...event, key, atMs: at.getTime() });
  await kube.create(kubeResource.events, body, { deadlineMs: 5_000 }).catch((error: unknown) => {
    const type = failureTypeOf(error);
    if (insist && (type === 'Unreachable' || type === 'Throttled')) throw error;
  });
}
