import type { KubeObject } from '../api/core/meta.ts';

/** What happened to one object: appeared (`after` alone), changed (both), went (`before` alone). */
export interface Change<T> {
  readonly before?: T;
  readonly after?: T;
}

/** The values under which an index finds an object; none where it does not belong into the index. */
export type IndexFunction<T> = (object: T) => readonly string[];

/** What a wait is told when it is given up. */
export interface WaitOptions {
  readonly signal: AbortSignal;
  /** Completes "waiting until …"; named in errors and in `waits`. */
  readonly what: string;
  /** Look again only when this object changes; absent: at every change. Give it wherever there is one. */
  readonly uid?: string;
}

/** Every object of one resource as it was a moment ago, for reading. Objects are never changed, only replaced. */
export interface Cache<T extends KubeObject> {
  readonly size: number;
  byUid(uid: string): T | undefined;
  /** The namespace of objects of the cluster is "". */
  byName(namespace: string, name: string): T | undefined;
  all(): Iterable<T>;
  /** The objects with this value in that index, in no order. */
  byIndex(index: string, value: string): readonly T[];

  /**
   * Calls the listener at each change, in the order of the changes of each object, after the cache has been updated;
   * the first list is delivered as objects that appear. Returns what ends it. What is there before is not delivered:
   * who comes late reads `all()` in the same turn and so misses nothing.
   */
  onChange(listener: (change: Change<T>) => void): () => void;

  /**
   * Resolves when a write that the API server answered with this resourceVersion shows in the cache, or something
   * newer does. To be called with the UID of the object that was written.
   */
  seen(uid: string, resourceVersion: string, signal: AbortSignal): Promise<void>;
  /** Resolves when the object is marked for deletion or is gone: what the answer to a delete promised. */
  deletionSeen(uid: string, signal: AbortSignal): Promise<void>;
  /** Resolves when the predicate holds. It is asked at once and then after changes only; there is no polling. */
  until(predicate: () => boolean, options: WaitOptions): Promise<void>;
  /** What is being waited for at this moment. */
  readonly waits: readonly string[];
  /** How much is held, for metrics and for the proof that nothing else is. */
  readonly sizes: {
    readonly objects: number;
    readonly names: number;
    readonly indexed: number;
    readonly waits: number;
  };
}

/** A cache is filled by one reflector, through these. */
export interface WritableCache<T extends KubeObject> extends Cache<T> {
  /** The version up to which the cache knows everything; undefined before the first list. */
  readonly reached: string | undefined;
  /** Takes over one event of a watch. Events that tell nothing new change nothing. */
  apply(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: T): void;
  /** Takes over a whole consistent list: what it lacks is gone, whatever was known before. */
  replace(objects: readonly T[], resourceVersion: string): void;
  /** Nothing has changed up to this version. */
  advance(resourceVersion: string): void;
  /** Gives up everybody who waits. */
  close(reason: Error): void;
  /** One more way to find objects, those that are here already included. A name that is taken keeps its function. */
  addIndex(name: string, of: IndexFunction<T>): void;
}

export interface CacheOptions<T> {
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>;
  /** Told when a listener or an index function throws; neither holds up the others. */
  readonly onError: (error: unknown, object: T) => void;
}

/**
 * Orders two resource versions of the same resource: negative, 0 or positive. They are decimal numbers of any length
 * without leading zeros, which the API promises since 1.35 and has kept since 1.0.
 */
export function compareVersions(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** An empty cache. Memory holds exactly the objects given to it, keyed by UID, and their index entries. */
export function createCache<T extends KubeObject>(options: CacheOptions<T>): WritableCache<T> {
  return new ObjectCache(options);
}

interface Waiter {
  readonly holds: () => boolean;
  readonly what: string;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

class ObjectCache<T extends KubeObject> implements WritableCache<T> {
  readonly #byUid = new Map<string, T>();
  readonly #uidByName = new Map<string, string>();
  readonly #indexes: Map<string, Index<T>>;
  readonly #onError: (error: unknown, object: T) => void;
  /** Replaced, never changed: a listener that comes or goes during a delivery does not disturb it. */
  #listeners: readonly ((change: Change<T>) => void)[] = [];
  /** By the UID that they wait for; under "" those who want to be asked at every change. */
  readonly #waiters = new Map<string, Set<Waiter>>();
  #reached: string | undefined;
  /** Like `reached`, without bookmarks: an event at or before it about an object that is not here is a repetition. */
  #lastEvent = '0';
  /** How often the versions have begun again from an earlier number. */
  #history = 0;
  #closed: Error | undefined;

  constructor({ indexes, onError }: CacheOptions<T>) {
    this.#indexes = new Map(Object.entries(indexes ?? {}).map(([name, of]) => [name, new Index(of, onError)]));
    this.#onError = onError;
  }

  get size(): number {
    return this.#byUid.size;
  }

  get reached(): string | undefined {
    return this.#reached;
  }

  get waits(): readonly string[] {
    return [...this.#waiters.values()].flatMap((waiters) => [...waiters].map((waiter) => waiter.what));
  }

  get sizes(): Cache<T>['sizes'] {
    const indexed = [...this.#indexes.values()].reduce((sum, index) => sum + index.size, 0);
    return { objects: this.#byUid.size, names: this.#uidByName.size, indexed, waits: this.waits.length };
  }

  byUid(uid: string): T | undefined {
    return this.#byUid.get(uid);
  }

  byName(namespace: string, name: string): T | undefined {
    const uid = this.#uidByName.get(`${namespace}/${name}`);
    return uid === undefined ? undefined : this.#byUid.get(uid);
  }

  all(): Iterable<T> {
    return this.#byUid.values();
  }

  byIndex(index: string, value: string): readonly T[] {
    const found = this.#indexes.get(index);
    if (!found) throw new Error(`There is no index "${index}"`);
    return found.find(value);
  }

  onChange(listener: (change: Change<T>) => void): () => void {
    // Wrapped, so that the same function given twice is two listeners and each is taken away by itself.
    const own = (change: Change<T>) => listener(change);
    this.#listeners = [...this.#listeners, own];
    return () => {
      this.#listeners = this.#listeners.filter((other) => other !== own);
    };
  }

  seen(uid: string, resourceVersion: string, signal: AbortSignal): Promise<void> {
    const history = this.#history;
    // Not only the object itself: it may be gone again, or no longer selected, before anybody looks.
    const holds = () =>
      history !== this.#history ||
      (this.#reached !== undefined && compareVersions(this.#reached, resourceVersion) >= 0);
    return this.#wait(holds, { uid: anyVersion, what: `version ${resourceVersion} of ${uid} is seen`, signal });
  }

  deletionSeen(uid: string, signal: AbortSignal): Promise<void> {
    const holds = () => {
      const held = this.#byUid.get(uid);
      return this.#reached !== undefined && (held === undefined || held.metadata.deletionTimestamp !== undefined);
    };
    return this.#wait(holds, { uid, what: `the deletion of ${uid} is seen`, signal });
  }

  until(predicate: () => boolean, options: WaitOptions): Promise<void> {
    return this.#wait(predicate, options);
  }

  apply(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: T): void {
    const { uid, resourceVersion } = object.metadata;
    const held = this.#byUid.get(uid);
    if (type === 'DELETED') {
      if (held && compareVersions(resourceVersion, held.metadata.resourceVersion) >= 0) this.#remove(held);
    } else if (held) {
      if (compareVersions(resourceVersion, held.metadata.resourceVersion) > 0) this.#put(object);
    } else if (compareVersions(resourceVersion, this.#lastEvent) > 0) {
      this.#put(object);
    }
    if (compareVersions(resourceVersion, this.#lastEvent) > 0) this.#lastEvent = resourceVersion;
    this.advance(resourceVersion);
  }

  replace(objects: readonly T[], resourceVersion: string): void {
    // The list decides, not the versions: an etcd that was restored from a backup counts from an earlier number. What was
    // written before is in the list or lost, so there is nothing to wait for any more.
    if (this.#reached !== undefined && compareVersions(resourceVersion, this.#reached) < 0) this.#history++;
    this.#reached = resourceVersion;
    this.#lastEvent = resourceVersion;

    const listed = new Set(objects.map((object) => object.metadata.uid));
    for (const held of [...this.#byUid.values()]) if (!listed.has(held.metadata.uid)) this.#remove(held);
    for (const object of objects) {
      const held = this.#byUid.get(object.metadata.uid);
      if (held?.metadata.resourceVersion !== object.metadata.resourceVersion) this.#put(object);
    }
    // All waiters: what was deleted before it was ever listed brings no event.
    for (const uid of [...this.#waiters.keys()]) this.#wake(uid);
  }

  advance(resourceVersion: string): void {
    // A bookmark that is repeated or comes late says less than is known already.
    if (this.#reached !== undefined && compareVersions(resourceVersion, this.#reached) <= 0) return;
    this.#reached = resourceVersion;
    this.#wake(anyVersion);
  }

  addIndex(name: string, of: IndexFunction<T>): void {
    const known = this.#indexes.get(name);
    if (known?.of === of) return;
    if (known) throw new Error(`There is an index "${name}" already, and it finds objects in another way`);
    const index = new Index(of, this.#onError);
    for (const [uid, object] of this.#byUid) index.move(uid, undefined, object);
    this.#indexes.set(name, index);
  }

  close(reason: Error): void {
    this.#closed = reason;
    for (const waiters of [...this.#waiters.values()]) for (const waiter of [...waiters]) waiter.reject(reason);
  }

  /** Stores an object that is newer than what is held. */
  #put(after: T): void {
    const { uid, namespace = '', name } = after.metadata;
    const namesake = this.byName(namespace, name);
    // Deleted and recreated between two looks: listeners that know the old object need its deletion.
    if (namesake && namesake.metadata.uid !== uid) this.#remove(namesake);

    const before = this.#byUid.get(uid);
    this.#byUid.set(uid, after);
    this.#uidByName.set(`${namespace}/${name}`, uid);
    for (const index of this.#indexes.values()) index.move(uid, before, after);
    this.#deliver(uid, before ? { before, after } : { after });
  }

  #remove(before: T): void {
    const { uid, namespace = '', name } = before.metadata;
    this.#byUid.delete(uid);
    this.#uidByName.delete(`${namespace}/${name}`);
    for (const index of this.#indexes.values()) index.move(uid, before, undefined);
    this.#deliver(uid, { before });
  }

  #deliver(uid: string, change: Change<T>): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        const object = change.after ?? change.before;
        if (object) this.#onError(error, object);
      }
    }
    this.#wake(uid);
    this.#wake(anyChange);
  }

  #wait(holds: () => boolean, { uid = anyChange, what, signal }: WaitOptions): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(this.#closed);
      if (signal.aborted) return reject(givenUp(signal, what));
      if (holds()) return resolve();

      const waiters = this.#waiters.get(uid) ?? new Set();
      this.#waiters.set(uid, waiters);
      const leave = () => {
        waiters.delete(waiter);
        if (waiters.size === 0 && this.#waiters.get(uid) === waiters) this.#waiters.delete(uid);
        signal.removeEventListener('abort', onAbort);
      };
      const waiter: Waiter = {
        holds,
        what,
        resolve: () => {
          leave();
          resolve();
        },
        reject: (reason) => {
          leave();
          reject(reason);
        },
      };
      const onAbort = () => waiter.reject(givenUp(signal, what));
      signal.addEventListener('abort', onAbort);
      waiters.add(waiter);
    });
  }

  #wake(uid: string): void {
    for (const waiter of this.#waiters.get(uid) ?? []) {
      try {
        if (waiter.holds()) waiter.resolve();
      } catch (error) {
        waiter.reject(error);
      }
    }
  }
}

// Keys of waiters beside UIDs, which are never so short.
const anyChange = '';
const anyVersion = '#';

/** The objects of a cache by the values of one index function. */
class Index<T> {
  readonly of: IndexFunction<T>;
  readonly #onError: (error: unknown, object: T) => void;
  readonly #byValue = new Map<string, Map<string, T>>();

  constructor(of: IndexFunction<T>, onError: (error: unknown, object: T) => void) {
    this.of = of;
    this.#onError = onError;
  }

  /** Values and objects under them. */
  get size(): number {
    let size = this.#byValue.size;
    for (const objects of this.#byValue.values()) size += objects.size;
    return size;
  }

  find(value: string): readonly T[] {
    return [...(this.#byValue.get(value)?.values() ?? [])];
  }

  move(uid: string, before: T | undefined, after: T | undefined): void {
    for (const value of this.#valuesOf(before)) {
      const objects = this.#byValue.get(value);
      objects?.delete(uid);
      if (objects?.size === 0) this.#byValue.delete(value);
    }
    for (const value of this.#valuesOf(after)) {
      const objects = this.#byValue.get(value) ?? new Map<string, T>();
      this.#byValue.set(value, objects.set(uid, after as T));
    }
  }

  #valuesOf(object: T | undefined): readonly string[] {
    if (object === undefined) return [];
    try {
      return this.of(object);
    } catch (error) {
      this.#onError(error, object);
      return [];
    }
  }
}

/** A deadline says what was waited for in vain; any other reason is the caller's own and is passed on as it is. */
function givenUp(signal: AbortSignal, what: string): unknown {
  const reason: unknown = signal.reason;
  if ((reason as Partial<Error> | null | undefined)?.name === 'TimeoutError') {
    return new Error(`Gave up waiting until ${what}`, { cause: reason });
  }
  return reason;
}
