import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';
/** What every object of the Kubernetes API carries, as JSON on the wire: times are RFC 3339 strings. */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
  /** Which client last wrote which fields. */
  readonly managedFields?: readonly { readonly manager?: string; readonly time?: string; readonly fieldsV1?: object }[];
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** Any API object, of which only the metadata is known. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
}

/** A kind with its API path: `/apis/<group>/<version>/…/<plural>`, or `/api/v1/…` for the core group "". */
export interface Resource {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

/** The `apiVersion` text of a resource: `apps.kruise.io/v1beta1`, or `v1` for the core group. */
export function apiVersionOf(resource: Resource): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** A label or annotation of an object of any shape. */
export function metadataEntry(object: JsonObject, map: 'labels' | 'annotations', key: string): Json | undefined {
  const metadata = object.metadata;
  const entries = isJsonObject(metadata) ? metadata[map] : undefined;
  return isJsonObject(entries) ? entries[key] : undefined;
}
