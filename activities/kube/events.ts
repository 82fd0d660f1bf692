import { randomUUID } from 'node:crypto';
import { eventBody, type NewEvent } from '../../api/event.ts';
import { kubeResource } from '../../api/well-known.ts';
import type { KubeClient } from './client.ts';

/** Tells people what has happened to an object. Nothing depends on it, so a failure to tell is swallowed. */
export async function recordEvent(
  kube: Pick<KubeClient, 'create'>,
  {
    at,
    key = randomUUID().slice(0, 13),
    ...event
  }: Omit<NewEvent, 'atMs' | 'key'> & {
    readonly at: Date;
    /** Absent: each one counts. */
    readonly key?: string;
  },
): Promise<void> {
  const body = eventBody({ ...event, key, atMs: at.getTime() });
  await kube.create(kubeResource.events, body, { deadlineMs: 5_000 }).catch(() => undefined);
}
