import { timestamp } from '../base/time.ts';
import type { KubeObject } from './meta.ts';

/** An Event of the core API group, as `kubectl describe` shows it. */
export interface Event extends Omit<KubeObject, 'metadata'> {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly involvedObject: EventTarget;
  readonly type: EventType;
  /** CamelCase, from the list of the kind. */
  readonly reason: string;
  readonly message: string;
  readonly source: { readonly component: string; readonly host?: string };
  readonly reportingComponent: string;
  readonly reportingInstance?: string;
  readonly firstTimestamp: string;
  readonly lastTimestamp: string;
  readonly count: number;
}

export type EventType = 'Normal' | 'Warning';

/** What an Event is about. */
export interface EventTarget {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The part of the object, `spec.containers{app}` for a container. */
  readonly fieldPath?: string;
}

/** The parts of an Event that a kind defines: without the object and the component. */
export interface EventText {
  readonly type: EventType;
  readonly reason: string;
  readonly message: string;
}

export function normal(reason: string, message: string): EventText {
  return { type: 'Normal', reason, message };
}

export function warning(reason: string, message: string): EventText {
  return { type: 'Warning', reason, message };
}

/** The field path by which Events name a container of a pod. */
export function containerFieldPath(container: string): string {
  return `spec.containers{${container}}`;
}

/** The data of an Event to create. */
export interface NewEvent extends EventText {
  readonly about: Pick<KubeObject, 'apiVersion' | 'kind' | 'metadata'>;
  readonly component: string;
  /** The node where it happened, if it happened on one. */
  readonly host?: string;
  readonly atMs: number;
  /** Events about the same object with the same key are created once. */
  readonly key: string;
}

/** The body that creates an Event. */
export function eventBody(event: NewEvent): { apiVersion: string; kind: string } & Omit<Event, 'apiVersion' | 'kind'> {
  const { about, component, host, type, reason, message, key } = event;
  // Events about cluster-scoped objects are in namespace `default`
  const namespace = about.metadata.namespace || 'default';
  const at = timestamp(event.atMs);
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `${about.metadata.name.slice(0, 200).replace(/[-.]+$/, '')}.${key}`, namespace },
    involvedObject: {
      apiVersion: about.apiVersion,
      kind: about.kind,
      namespace: about.metadata.namespace ?? '',
      name: about.metadata.name,
      uid: about.metadata.uid,
    },
    type,
    reason,
    message: message.slice(0, longestMessage),
    source: { component, ...(host !== undefined && { host }) },
    reportingComponent: component,
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
}

/** The API server's limit. */
const longestMessage = 1024;
