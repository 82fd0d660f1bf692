import { randomUUID } from 'node:crypto';
import { eventBody, type NewEvent } from '../api/event.ts';
import { kubeResource } from '../api/well-known.ts';
import type { KubeWriter } from './fence.ts';

/** Tells people what has happened to an object. Nothing depends on it, so a failure to tell is swallowed. */
export async function tellEvent(
  kube: Pick<KubeWriter, 'create'>,
  {
    key = randomUUID().slice(0, 13),
    ...event
  }: Omit<NewEvent, 'key'> & {
    /** Absent: each one counts. */
    readonly key?: string;
  },
): Promise<void> {
  await kube.create(kubeResource.events, eventBody({ ...event, key }), { deadlineMs: 5_000 }).catch(() => undefined);
}
