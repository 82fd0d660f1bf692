import type { KubeObject } from '../../../api/core/meta.ts';

/** An object as the API server holds it. */
export type Stored = KubeObject & { readonly [field: string]: unknown };

/** Where an object is. */
export interface Place {
  /** The path of all objects of the kind: `/api/v1/pods`. */
  readonly collection: string;
  /** Absent: none, the object is one of the cluster. */
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** JSON as it comes over the wire: a copy, without fields that are undefined. */
export function overTheWire<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}
