import type { KubeObject } from '../api/core/meta.ts';

/** A change of one object: it appeared (`after` alone), was modified (both), or went away (`before` alone). */
export interface Change<T> {
  readonly before?: T;
  readonly after?: T;
}

/** The index values of an object; empty when the object is not indexed. */
export type IndexFunction<T> = (object: T) => readonly string[];

/** How long a wait lasts, and what its error message says. */
export interface WaitOptions {
  readonly signal: AbortSignal;
  /** Completes "waiting until …", in errors and in `waits`. */
  readonly what: string;
  /** Check again only when this object changes; absent: at every change. Give it wherever there is one. */
  readonly uid?: string;
}

/** Every object of one resource as it was a moment ago, for reading. Objects are never changed, only replaced. */
export interface Cache<T extends KubeObject> {
  readonly size: number;
  /** The resource version up to which the cache is complete; undefined before the first list. */
  readonly reached: string | undefined;
  byUid(uid: string): T | undefined;
  /** The namespace of cluster-scoped objects is "". */
  byName(namespace: string, name: string): T | undefined;
  all(): Iterable<T>;
  /** The objects with this value in that index, in no particular order. */
  byIndex(index: string, value: string): readonly T[];

  /**
   * Calls the listener at each change, after the cache has been updated; the changes of one object arrive in order. The
   * first list is delivered as objects that appear. Returns a function that removes the listener. Objects that the
   * cache holds already are not delivered: a later listener reads `all()` in the same turn of the event loop, and
   * misses nothing.
   */
  onChange(listener: (change: Change<T>) => void): () => void;

  /**
   * Resolves when the cache holds the result of a write, or something newer: `resourceVersion` is that of the API
   * server's answer, `uid` that of the written object.
   */
  seen(uid: string, resourceVersion: string, signal: AbortSignal): Promise<void>;
  /** Resolves when the cache shows the object as marked for deletion or gone, as after a successful delete call. */
  deletionSeen(uid: string, signal: AbortSignal): Promise<void>;
  /**
   * Resolves when the predicate holds. The predicate is evaluated at once and then after changes only; there is no
   * polling.
   */
  until(predicate: () => boolean, options: WaitOptions): Promise<void>;
  /** Descriptions of the waits that are pending now. */
  readonly waits: readonly string[];
  /** How long the oldest wait of `seen` and `deletionSeen` has lasted; 0: there is none. */
  readonly unseenMs: number;
  /** Numbers of stored items, for metrics and for tests that nothing else is stored. */
  readonly sizes: {
    readonly objects: number;
    readonly names: number;
    readonly indexed: number;
    readonly waits: number;
  };
}

/** What a reflector fills a cache through. Each cache has one reflector. */
export interface WritableCache<T extends KubeObject> extends Cache<T> {
  /** Applies one watch event. Repeated and older events change nothing. */
  apply(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: T): void;
  /** Replaces the content by a complete, consistent list: objects that are not in it are removed. */
  replace(objects: readonly T[], resourceVersion: string): void;
  /** Nothing has changed up to this resource version (a bookmark). */
  advance(resourceVersion: string): void;
  /** Rejects all pending waits with this reason. */
  close(reason: Error): void;
  /** Adds an index, also of the objects that are stored already. Throws when the name has another function. */
  addIndex(name: string, of: IndexFunction<T>): void;
}

export interface CacheOptions<T> {
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>;
  /** Called when a listener or an index function throws; the other ones run nevertheless. */
  readonly onError: (error: unknown, object: T) => void;
}

/**
 * Compares two resource versions of the same resource: negative, 0 or positive. They are decimal numbers of any length
 * without leading zeros: guaranteed by the API since 1.35, and true since 1.0.
 */
export function compareVersions(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** An empty cache. It stores the given objects by UID, and their index entries, and nothing else. */
export function createCache<T extends KubeObject>(options: CacheOptions<T>): WritableCache<T> {
  return new ObjectCache(options);
}

interface Waiter {
  readonly holds: () => boolean;
  readonly what: string;
  /** When a wait for the result of a write has begun; absent: it is for something else. */
  readonly writtenAtMs?: number;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

class ObjectCache<T extends KubeObject> implements WritableCache<T> {
  readonly #byUid = new Map<string, T>();
  readonly #uidByName = new Map<string, string>();
  readonly #indexes: Map<string, Index<T>>;
  readonly #onError: (error: unknown, object: T) => void;
  /** Copied on each change, so that adding or removing a listener during a delivery does not disturb it. */
  #listeners: readonly ((change: Change<T>) => void)[] = [];
  /** By the UID that they wait for; under "" those that check again at every change. */
  readonly #waiters = new Map<string, Set<Waiter>>();
  #reached: string | undefined;
  /** Like `reached`, without bookmarks: an event at or before it about an object that is not here is a repetition. */
  #lastEvent = '0';
  /** How often the resource versions have restarted from an earlier number. */
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

  get unseenMs(): number {
    const waiters = [...this.#waiters.values()].flatMap((each) => [...each]);
    const now = performance.now();
    return Math.max(0, ...waiters.map(({ writtenAtMs = now }) => now - writtenAtMs));
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
    // More than the object itself is compared: it may be gone again, or no longer selected, before this check runs.
    const holds = () =>
      history !== this.#history ||
      (this.#reached !== undefined && compareVersions(this.#reached, resourceVersion) >= 0);
    const what = `version ${resourceVersion} of ${uid} is seen`;
    return this.#wait(holds, { uid: anyVersion, what, signal }, performance.now());
  }

  deletionSeen(uid: string, signal: AbortSignal): Promise<void> {
    const holds = () => {
      const held = this.#byUid.get(uid);
      return this.#reached !== undefined && (held === undefined || held.metadata.deletionTimestamp !== undefined);
    };
    return this.#wait(holds, { uid, what: `the deletion of ${uid} is seen`, signal }, performance.now());
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
    // The list is authoritative, not the versions: an etcd restored from a backup counts from an earlier number. An
    // earlier write is either in the list or lost, so waits for it end.
    if (this.#reached !== undefined && compareVersions(resourceVersion, this.#reached) < 0) this.#history++;
    this.#reached = resourceVersion;
    this.#lastEvent = resourceVersion;

    const listed = new Set(objects.map((object) => object.metadata.uid));
    for (const held of [...this.#byUid.values()]) if (!listed.has(held.metadata.uid)) this.#remove(held);
    for (const object of objects) {
      const held = this.#byUid.get(object.metadata.uid);
      if (held?.metadata.resourceVersion !== object.metadata.resourceVersion) this.#put(object);
    }
    // All waiters: an object that was deleted before it was ever listed brings no event.
    for (const uid of [...this.#waiters.keys()]) this.#wake(uid);
  }

  advance(resourceVersion: string): void {
    // A repeated or late bookmark is older than what is known already.
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

  /** Stores an object that is newer than the stored one. */
  #put(after: T): void {
    const { uid, namespace = '', name } = after.metadata;
    const namesake = this.byName(namespace, name);
    // Deleted and recreated between two reads: listeners that know the old object need its deletion.
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

  #wait(holds: () => boolean, { uid = anyChange, what, signal }: WaitOptions, writtenAtMs?: number): Promise<void> {
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
        ...(writtenAtMs !== undefined && { writtenAtMs }),
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

// Keys of waiters that do not wait for a single object. A UID is never this short.
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

  /** The number of values, and of objects under them. */
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

/**
 * The error of a wait that ended: a timeout names what was waited for; any other reason is the caller's own and is
 * passed on unchanged.
 */
function givenUp(signal: AbortSignal, what: string): unknown {
  const reason: unknown = signal.reason;
  if ((reason as Partial<Error> | null | undefined)?.name === 'TimeoutError') {
    return new Error(`Gave up waiting until ${what}`, { cause: reason });
  }
  return reason;
}
