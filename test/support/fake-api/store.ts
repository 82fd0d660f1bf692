import { sameJson } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import type { ListOptions, Page, Selection } from '../../../kube/client.ts';
import { expired } from './refusals.ts';
import { selects } from './selectors.ts';
import { overTheWire, type Place, type Stored } from './stored.ts';
import { traitsOf } from './traits.ts';

/** An event of a watch. */
export interface StoreEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: Stored;
}

/** An object as somebody puts it there: what it leaves out is made up. */
export interface NewObject {
  readonly metadata: { readonly namespace?: string; readonly name: string; readonly uid?: string };
}

interface Change {
  readonly version: number;
  readonly collection: string;
  readonly before: Stored | undefined;
  readonly after: Stored | undefined;
}

interface Follower {
  readonly collection: string;
  readonly from: number;
  readonly shows: (object: Stored) => boolean;
  readonly hear: (event: StoreEvent) => void;
}

/**
 * The objects of an API server with their versions and their history. It takes any object from `put`, which stands for
 * somebody else; what the server refuses is in `requests.ts`.
 */
export class ObjectStore {
  /** The clock of the server. */
  now: () => number = () => Date.parse('2026-01-01T00:00:00Z');
  /** Sees each object that is created or changed by a request; throws to refuse it, as a webhook does. */
  admit: (object: Stored) => void = () => undefined;
  readonly #objects = new Map<string, { readonly place: Place; readonly object: Stored }>();
  readonly #pages = new Map<string, readonly Stored[]>();
  readonly #followers = new Set<Follower>();
  #history: Change[] = [];
  #compactedTo = 0;
  #version = 100;
  #lists = 0;
  #made = 0;

  /** The resourceVersion of the last write. */
  get version(): string {
    return String(this.#version);
  }

  find(place: Place): Stored | undefined {
    return this.#objects.get(keyOf(place))?.object;
  }

  /** All objects of a collection, in the order of their creation. */
  all(collection: string): readonly Stored[] {
    const here = [...this.#objects.values()].filter(({ place }) => place.collection === collection);
    return here.map(({ object }) => object);
  }

  /** One page, sorted by namespace and name. All pages of a list show the same version, until `compact`. */
  list(collection: string, { limit, continue: token, ...selection }: ListOptions): Page<Stored> {
    const [version = this.version, list = String(++this.#lists), start = '0'] = token?.split(':') ?? [];
    const all = token === undefined ? this.#selected(collection, selection) : this.#pages.get(`${version}:${list}`);
    if (all === undefined) {
      throw expired('The provided continue parameter is too old to display a consistent list result');
    }
    const end = Number(start) + (limit || all.length);
    const page = { items: all.slice(Number(start), end), resourceVersion: version };
    if (end >= all.length) return page;
    this.#pages.set(`${version}:${list}`, all);
    // Nobody counts what a selector would select.
    const isCounted = !selection.labelSelector && !selection.fieldSelector;
    return {
      ...page,
      continue: `${version}:${list}:${end}`,
      ...(isCounted && { remainingItemCount: all.length - end }),
    };
  }

  #selected(collection: string, selection: Selection): readonly Stored[] {
    const shows = selects(selection, traitsOf(collection));
    return [...this.#objects.entries()]
      .filter(([, { place, object }]) => place.collection === collection && shows(object))
      .toSorted(([left], [right]) => (left < right ? -1 : 1))
      .map(([, { object }]) => object);
  }

  /**
   * Tells of every change after a version, those of the past first. A version of the future is taken, and nothing said
   * until it is reached, as by real servers; version 0 and none begin with all objects that are there. Answers how to end it.
   */
  follow(
    collection: string,
    { resourceVersion, ...selection }: Selection & { readonly resourceVersion: string },
    hear: (event: StoreEvent) => void,
  ): () => void {
    const isFromNow = resourceVersion === '' || resourceVersion === '0';
    const from = isFromNow ? this.#version : Number(resourceVersion);
    if (from < this.#compactedTo) throw expired(`too old resource version: ${from} (${this.#compactedTo})`);
    const follower: Follower = { collection, from, shows: selects(selection, traitsOf(collection)), hear };
    if (isFromNow) for (const object of this.#selected(collection, selection)) hear({ type: 'ADDED', object });
    for (const change of this.#history) tell(follower, change);
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  /** Creates or replaces an object, status included, as its owner does. Another UID is another object: the old one goes. */
  put<T extends object>(collection: string, given: T & NewObject): T & Stored {
    const object = overTheWire(given) as unknown as Stored;
    const { namespace, name, uid } = object.metadata;
    const place = { collection, namespace, name };
    if (uid !== undefined && uid !== this.find(place)?.metadata.uid) this.remove(place);
    const before = this.find(place);
    const { uid: ownUid, creationTimestamp } = before?.metadata ?? this.newIdentity();
    return this.commit(place, {
      ...object,
      metadata: {
        ...{ uid: ownUid, creationTimestamp },
        ...object.metadata,
        ...generationAfter(before, object),
        ...graceOf(collection, object),
      },
    }) as T & Stored;
  }

  /** Takes an object away, whatever holds it. */
  remove(place: Place): void {
    const before = this.find(place);
    if (before === undefined) return;
    this.#objects.delete(keyOf(place));
    this.#record(place.collection, before, undefined);
  }

  /** Stores what a request has led to. What changes nothing is no write. */
  commit(place: Place, object: Stored): Stored {
    const before = this.find(place);
    if (before !== undefined && sameJson(unversioned(before), unversioned(object))) return before;
    const after = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version + 1) } };
    this.#objects.set(keyOf(place), { place, object: after });
    this.#record(place.collection, before, after);
    return after;
  }

  /** What the server gives every new object. */
  newIdentity(): { readonly uid: string; readonly creationTimestamp: string } {
    return { uid: `uid-${++this.#made}`, creationTimestamp: timestamp(this.now()) };
  }

  /** Forgets all history: pages in progress and watches from before end with 410 from now on. */
  compact(): void {
    this.#history = [];
    this.#compactedTo = this.#version;
    this.#pages.clear();
  }

  /** Goes back to an earlier version, as a restored backup does, with these objects of the collection alone. */
  restore(collection: string, objects: readonly Stored[], version: number): void {
    this.compact();
    this.#compactedTo = 0;
    this.#version = version;
    for (const [key, { place }] of this.#objects) if (place.collection === collection) this.#objects.delete(key);
    for (const object of objects) {
      const { namespace, name } = object.metadata;
      const place = { collection, namespace, name };
      this.#objects.set(keyOf(place), { place, object });
    }
  }

  #record(collection: string, before: Stored | undefined, after: Stored | undefined): void {
    this.#version += 1;
    const change = { version: this.#version, collection, before, after };
    this.#history.push(change);
    for (const follower of this.#followers) tell(follower, change);
  }
}

/** What leaves the selection is deleted in the eyes of a follower, and what enters it is added. */
function tell({ collection, from, shows, hear }: Follower, { before, after, ...change }: Change): void {
  if (change.collection !== collection || change.version <= from) return;
  const was = before !== undefined && shows(before);
  if (after !== undefined && shows(after)) hear({ type: was ? 'MODIFIED' : 'ADDED', object: after });
  else if (was) {
    const metadata = { ...before.metadata, resourceVersion: String(change.version) };
    hear({ type: 'DELETED', object: { ...before, metadata } });
  }
}

/** The generation of what is put there: its own, and one more where only the spec is another. */
function generationAfter(before: Stored | undefined, object: Stored): { readonly generation?: number } {
  const generation = object.metadata.generation ?? before?.metadata.generation;
  if (generation === undefined) return {};
  const isSame = generation !== before?.metadata.generation || sameJson(before.spec, object.spec);
  return { generation: isSame ? generation : generation + 1 };
}

/** What is being deleted has a grace period, which is none unless the object is a pod. */
function graceOf(collection: string, { metadata }: Stored): object {
  if (metadata.deletionTimestamp === undefined) return {};
  return { deletionGracePeriodSeconds: collection === '/api/v1/pods' ? 30 : 0, ...metadata };
}

function unversioned({ metadata, ...object }: Stored): object {
  return { ...object, metadata: { ...metadata, resourceVersion: '' } };
}

function keyOf({ collection, namespace = '', name }: Place): string {
  return `${collection} ${namespace}/${name}`;
}
