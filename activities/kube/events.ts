import { randomUUID } from 'node:crypto';
import type { Event, EventText } from '../../api/event.ts';
import type { KubeObject } from '../../api/meta.ts';
import { timestamp } from '../../api/time.ts';
import { kubeResource } from '../../api/well-known.ts';
import type { KubeClient } from './client.ts';

/** An Event before it is written. */
export interface NewEvent extends EventText {
  readonly about: KubeObject;
  readonly component: string;
  readonly at: Date;
  /** Two events of one object with the same key are one: the first. Absent: each one counts. */
  readonly key?: string;
}

/** Tells people what has happened to an object. Nothing depends on it, so a failure to tell is swallowed. */
export async function recordEvent(kube: Pick<KubeClient, 'create'>, event: NewEvent): Promise<void> {
  const { about, component, type, reason, message, key = randomUUID().slice(0, 13) } = event;
  const namespace = about.metadata.namespace ?? 'default';
  const at = timestamp(event.at.getTime());
  const body: { apiVersion: string; kind: string } & Omit<Event, 'apiVersion' | 'kind'> = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `${about.metadata.name.slice(0, 200).replace(/[-.]+$/, '')}.${key}`, namespace },
    involvedObject: {
      apiVersion: about.apiVersion,
      kind: about.kind,
      namespace,
      name: about.metadata.name,
      uid: about.metadata.uid,
    },
    type,
    reason,
    message,
    source: { component },
    reportingComponent: component,
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
  await kube.create(kubeResource.events, body, { deadlineMs: 5_000 }).catch(() => undefined);
}
