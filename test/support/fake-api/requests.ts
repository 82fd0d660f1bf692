import { type JsonObject, listOr, objectOr, sameJson } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import type { DeleteOptions, PatchType } from '../../../kube/client.ts';
import { patched } from './patches.ts';
import { alreadyExists, badRequest, conflict, notFound, Refused, unknownPath } from './refusals.ts';
import type { ObjectStore } from './store.ts';
import { overTheWire, type Place, type Stored } from './stored.ts';
import { type Traits, traitsOf } from './traits.ts';
import { validateChange, validateNew } from './validate.ts';

/** How a write is asked for. */
export interface Write {
  readonly dryRun?: boolean;
  readonly subresource?: string | undefined;
}

/** Reads one object. */
export function getObject(store: ObjectStore, place: Place): Stored {
  const found = store.find(place);
  if (found === undefined) throw notFound(traitsOf(place.collection).name, place.name);
  return found;
}

/** Creates an object: the server gives it its UID and its time, and leaves out a status that it did not earn. */
export function createObject(
  store: ObjectStore,
  collection: string,
  given: object,
  { dryRun, namespace }: Write & { readonly namespace?: string | undefined } = {},
): Stored {
  const traits = traitsOf(collection);
  const object = overTheWire(given) as unknown as Stored;
  const { resourceVersion, deletionTimestamp: _, ...metadata } = object.metadata;
  if (metadata.namespace !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
  if (resourceVersion) {
    throw new Refused(500, 'InternalError', 'resourceVersion should not be set on objects to be created');
  }
  const name = metadata.name ?? nameFrom(metadata);
  const { status: __, ...withoutStatus } = object;
  const created: Stored = {
    ...(traits.hasStatus ? withoutStatus : object),
    metadata: {
      ...metadata,
      name,
      ...store.newIdentity(),
      ...(traits.hasGeneration && { generation: 1 }),
      resourceVersion: '',
    },
    ...(traits.name === 'pods' && { status: { phase: 'Pending' } }),
  };
  validateNew(created, traits);
  const place = { collection, namespace, name };
  if (store.find(place) !== undefined) throw alreadyExists(traits.name, name);
  store.admit(created);
  return dryRun ? created : store.commit(place, created);
}

function nameFrom(metadata: object): string {
  const { generateName } = metadata as { readonly generateName?: string };
  if (generateName === undefined) throw badRequest('name or generateName is required');
  return `${generateName}${Math.random().toString(36).slice(2, 7)}`;
}

/** Changes an object, or as much of it as the subresource can change. */
export function patchObject(
  store: ObjectStore,
  place: Place,
  type: PatchType,
  body: unknown,
  { dryRun, subresource }: Write = {},
): Stored {
  const traits = traitsOf(place.collection);
  const before = getObject(store, place);
  const change = overTheWire(patched(before, type, body, traits));
  const { resourceVersion } = change.metadata;
  if (resourceVersion && resourceVersion !== before.metadata.resourceVersion) {
    const why = 'the object has been modified; please apply your changes to the latest version and try again';
    throw conflict(traits.name, place.name, why);
  }
  const after = overTheWire(withGeneration(before, reached(before, change, traits, subresource), traits));
  validateChange(before, after, traits, subresource);
  store.admit(after);
  if (dryRun) return after;
  const written = store.commit(place, after);
  if (isLetGo(written)) store.remove(place);
  return written;
}

/** As much of a change as goes through a subresource, or past all of them. */
function reached(before: Stored, change: Stored, traits: Traits, subresource: string | undefined): Stored {
  const times = ['creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds'];
  const ownedByServer = ['resourceVersion', 'generation', ...times];
  if (subresource === undefined) {
    const metadata = metadataOf(change, before, ownedByServer);
    return { ...change, metadata, ...(traits.hasStatus && { status: before.status }) };
  }
  if (subresource === 'status' && traits.hasStatus) {
    // Of a custom resource no metadata is looked at: not even another UID is refused.
    if (!traits.isBuiltIn) return { ...before, status: change.status };
    const metadata = metadataOf(change, before, [...ownedByServer, 'ownerReferences']);
    return { ...before, metadata, status: change.status };
  }
  if (subresource === 'resize' && traits.name === 'pods') {
    const metadata = { ...before.metadata, uid: change.metadata.uid };
    return { ...before, metadata, spec: resized(objectOr(before.spec), objectOr(change.spec)) };
  }
  throw unknownPath();
}

/** A resize takes the amounts, and drops all else unless it adds, takes away or moves containers. */
function resized(before: JsonObject, change: JsonObject): JsonObject {
  const [containers, changed] = [listOr(before.containers).map(objectOr), listOr(change.containers).map(objectOr)];
  const names = (all: readonly JsonObject[]) => all.map(({ name }) => name);
  if (!sameJson(names(containers), names(changed))) return change;
  const amounts = changed.map(({ resources, resizePolicy }) => ({ resources, resizePolicy }));
  return { ...before, containers: containers.map((container, index) => ({ ...container, ...amounts[index] })) };
}

/** The metadata of a change, but for these fields, which stay as they were. */
function metadataOf(change: Stored, before: Stored, fields: readonly string[]): Stored['metadata'] {
  const changed = Object.entries(change.metadata).filter(([field]) => !fields.includes(field));
  const kept = Object.entries(before.metadata).filter(([field]) => fields.includes(field));
  return Object.fromEntries([...changed, ...kept]) as unknown as Stored['metadata'];
}

function withGeneration(before: Stored, after: Stored, { hasGeneration }: Traits): Stored {
  const { generation = 0 } = before.metadata;
  const content = ({ metadata: _, status: __, ...rest }: Stored) => rest;
  const isSame = !hasGeneration || sameJson(content(before), content(after));
  if (isSame && before.metadata.generation === undefined) return after;
  return { ...after, metadata: { ...after.metadata, generation: isSame ? generation : generation + 1 } };
}

/** Metadata of an object that is being deleted. */
interface Deletion {
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
}

/** Whether an object that is being deleted is held by nothing any more. */
function isLetGo({ metadata }: Stored): boolean {
  const { deletionGracePeriodSeconds } = metadata as Deletion;
  return deletionGracePeriodSeconds === 0 && (metadata.finalizers ?? []).length === 0;
}

/** Deletes an object, or marks it until its finalizers are off; a pod until `remove`, which its kubelet does. */
export function deleteObject(store: ObjectStore, place: Place, options: DeleteOptions = {}): void {
  const traits = traitsOf(place.collection);
  const before = getObject(store, place);
  checkPreconditions(before, traits, options);
  if (options.dryRun) return;

  const { deletionGracePeriodSeconds: granted } = before.metadata as Deletion;
  const asked = traits.name === 'pods' ? graceSeconds(before, options) : 0;
  const seconds = Math.min(asked, granted ?? asked);
  const { generation } = before.metadata;
  const marked = {
    ...before,
    metadata: {
      ...before.metadata,
      deletionTimestamp: timestamp(store.now() + seconds * 1000),
      deletionGracePeriodSeconds: seconds,
      ...(generation !== undefined && granted === undefined && { generation: generation + 1 }),
    },
  };
  if (isLetGo(marked)) store.remove(place);
  else if (seconds !== granted) store.commit(place, marked);
}

function checkPreconditions({ metadata }: Stored, { name }: Traits, { preconditions = {} }: DeleteOptions): void {
  const { uid, resourceVersion } = preconditions;
  if (uid !== undefined && uid !== metadata.uid) {
    const why = `the UID in the precondition (${uid}) does not match the UID in record (${metadata.uid})`;
    throw conflict(name, metadata.name, `${why}. The object might have been deleted and then recreated`);
  }
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion) {
    const held = metadata.resourceVersion;
    const why = `the ResourceVersion in the precondition (${resourceVersion}) does not match the ResourceVersion in record (${held})`;
    throw conflict(name, metadata.name, `${why}. The object might have been modified`);
  }
}

/** A pod without a node, and one that has ended, has nothing left to do. */
function graceSeconds(pod: Stored, { gracePeriodSeconds }: DeleteOptions): number {
  const spec = pod.spec as { readonly nodeName?: string; readonly terminationGracePeriodSeconds?: number } | undefined;
  const { phase } = (pod.status ?? {}) as { readonly phase?: string };
  if (spec?.nodeName === undefined || phase === 'Succeeded' || phase === 'Failed') return 0;
  return gracePeriodSeconds ?? spec.terminationGracePeriodSeconds ?? 30;
}
