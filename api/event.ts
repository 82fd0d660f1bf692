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

/** What happened, without who says so and about what: the part that a kind knows. */
export interface EventText {
  readonly type: EventType;
  readonly reason: string;
  readonly message: string;
}

/** The field path by which Events name a container of a pod. */
export function containerFieldPath(container: string): string {
  return `spec.containers{${container}}`;
}
