import { apiVersionOf, type ObjectMeta, type OwnerReference, type Resource } from './meta.ts';

/** One object, by its name for people and its UID, which is never reused. */
export interface ObjectRef {
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** A pod. Everything that acts on it acts on the UID. */
export type PodRef = ObjectRef;

/** A node. Its UID is in the name of its task queue, so a recreated node of the same name is another node. */
export interface NodeRef {
  readonly name: string;
  readonly uid: string;
}

/** Whether the first of two objects is the controller of the second. */
export function isControlledBy(
  { metadata: { uid } }: { readonly metadata: Pick<ObjectMeta, 'uid'> },
  { metadata }: { readonly metadata: Pick<ObjectMeta, 'ownerReferences'> },
): boolean {
  return metadata.ownerReferences?.some((owner) => owner.controller && owner.uid === uid) ?? false;
}

/** The owner reference of a controller. */
export function controllerReference(
  resource: Resource,
  { metadata: { name, uid } }: { readonly metadata: Pick<ObjectMeta, 'name' | 'uid'> },
): OwnerReference & { readonly controller: true; readonly blockOwnerDeletion: true } {
  const apiVersion = apiVersionOf(resource);
  return { apiVersion, kind: resource.kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** `namespace/name`, or the name alone for cluster-scoped objects, as in messages. */
export function qualifiedName(ref: { readonly namespace?: string; readonly name: string }): string {
  return ref.namespace ? `${ref.namespace}/${ref.name}` : ref.name;
}
