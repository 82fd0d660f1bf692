/**
 * Keeps a cache equal to the content of the API server.
 *
 * One loop: list in pages until a list is complete, then watch from its version; when the watch ends or breaks, watch
 * again from the version reached, which events and bookmarks advance; when the server no longer knows that version,
 * list again. When a watch brings no data at all, which is normal for resources that have not changed since the server
 * was started, the reflector lists one object to compare the count and the version, and lists everything only if they
 * do not match.
 *
 * A page that is too large to be read is requested again with half as many objects, down to one; an object that is too
 * large by itself is skipped, and stays in the cache as it was last read.
 *
 * No change is lost, because every step continues where the previous one ended; none is delivered twice, because the
 * cache ignores what it knows already. A failed step is retried after a pause that doubles; the pause is short again
 * once a watch has delivered something.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject, Resource } from '../api/core/meta.ts';
import { type BackOff, backOff, retryAfterMs, spread } from './back-off.ts';
import { compareVersions, type WritableCache } from './cache.ts';
import type { KubeClient, ListOptions, Page } from './client.ts';
import type { KubeError } from './failures.ts';
import { countIn } from './object-count.ts';

/** What a reflector logs through. pino's loggers fit. */
export interface ReflectorLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: Pick<KubeClient, 'list' | 'watch'>;
  readonly resource: Resource;
  readonly cache: WritableCache<T>;
  readonly log: ReflectorLog;
  /** Absent or empty: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Reduces an object before it is stored; metadata must stay. Absent: the whole object is kept. */
  readonly trim?: (object: T) => T;
  /** 500 when absent. */
  readonly pageSize?: number;
  /** From 100 ms to 30 s when absent. */
  readonly backOffMs?: BackOff;
  /** See WatchOptions. */
  readonly silenceMs?: number;
  readonly now?: () => number;
}

/** Counts since the start, for metrics. */
export interface ReflectorCounts {
  /** Complete lists. The first one is the start; each further one means that a watch could not be continued. */
  readonly lists: number;
  readonly watches: number;
  /** Events about objects. */
  readonly events: number;
  readonly bookmarks: number;
  /** Failed steps, each followed by a pause. */
  readonly errors: number;
  /** Objects of the last list that are too large to be read. */
  readonly skipped: number;
}

/** A time without the server, as one client has seen it: from the first failed step to the first successful one. */
export interface Outage {
  readonly lastedMs: number;
  /** How long ago it ended; 0 while it lasts. */
  readonly endedMs: number;
}

/** Fills one cache from one resource, from `start` to `stop`. */
export class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #now: () => number;
  readonly #stop = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  readonly #pauses: BackOff;
  #failures = 0;
  readonly #counts = { lists: 0, watches: 0, events: 0, bookmarks: 0, errors: 0 };
  /**
   * The objects of the last list that are too large to be read, and whether the cache holds an earlier state of them.
   */
  #skipped: readonly { readonly name: string; readonly isHeld: boolean }[] = [];
  /** Callers that wait for a list which begins after their call. */
  #wantingList: PromiseWithResolvers<void>[] = [];
  #watching = new AbortController();
  #running: Promise<void> | undefined;
  #heardAt: number | undefined;
  #trouble: string | undefined;
  #outage: { readonly since: number; readonly backAt?: number } | undefined;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#pauses = options.backOffMs ?? { first: 100, most: 30_000 };
    this.#synced.promise.catch(() => {}); // callers need not await it
  }

  /** Begins to list and watch; further calls do nothing. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** Ends for good, and rejects all waits on the cache. When it resolves, nothing is left open. */
  async stop(): Promise<void> {
    const stopped = new Error(`The cache of ${this.#options.resource.plural} is no longer kept up to date`);
    this.#stop.abort(stopped);
    this.#synced.reject(stopped);
    this.#options.cache.close(stopped);
    for (const { reject } of this.#wantingList) reject(stopped);
    await this.#running;
  }

  /**
   * Lists again; resolves when the cache holds everything that was true at the time of the call. A caller that begins
   * to write based on the cache must not rely on a watch that may lag behind.
   */
  relist(): Promise<void> {
    if (this.#stop.signal.aborted) return Promise.reject(this.#stop.signal.reason);
    const wanting = Promise.withResolvers<void>();
    this.#wantingList.push(wanting);
    this.#failures = 0;
    this.#watching.abort(); // or ends the pause before the next attempt
    return wanting.promise;
  }

  /** Resolves when the cache holds a complete list; rejects when the reflector is stopped before. */
  synced(): Promise<void> {
    return this.#synced.promise;
  }

  /** True from the first complete list on. */
  get isSynced(): boolean {
    return this.#counts.lists > 0;
  }

  /** The time since the last data from the server: a list, an event or a bookmark. Infinity before the first list. */
  get ageMs(): number {
    return this.#heardAt === undefined ? Number.POSITIVE_INFINITY : this.#now() - this.#heardAt;
  }

  /** The last outage of the server. Undefined if there was none. */
  get lastOutage(): Outage | undefined {
    if (this.#outage === undefined) return undefined;
    const { since, backAt = this.#now() } = this.#outage;
    return { lastedMs: backAt - since, endedMs: this.#now() - backAt };
  }

  /** Why the last step failed; undefined when it succeeded. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  get counts(): ReflectorCounts {
    return { ...this.#counts, skipped: this.#skipped.length };
  }

  /** Namespace and name of the objects that were too large to be read in the last list. */
  get tooLarge(): readonly string[] {
    return this.#skipped.map(({ name }) => name);
  }

  async #run(): Promise<void> {
    const { cache, resource, log } = this.#options;
    let mustList = true;
    while (!this.#stop.signal.aborted) {
      try {
        if (mustList || this.#wantingList.length > 0) {
          await this.#list();
          mustList = false;
          log.info({ kind: resource.kind, objects: cache.size, resourceVersion: cache.reached }, 'listed');
        }
        await this.#watch();
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (this.#watching.signal.aborted) continue; // a caller has requested a list
        mustList ||= isSilence(error) ? !(await this.#isInStep()) : isBehind(error);
        this.#counts.errors += 1;
        this.#lost();
        this.#trouble = error instanceof Error ? error.message : String(error);
        const askedMs = Math.min(retryAfterMs(error), longestPauseSeconds * 1000);
        const pauseMs = Math.max(spread(backOff(this.#pauses, this.#failures)), askedMs);
        this.#failures += 1;
        const fields = { kind: resource.kind, err: error, pauseMs: Math.round(pauseMs), mustList };
        // the server may have no data for long about a resource without changes
        if (isSilence(error)) log.info(fields, 'no data from the API server, watching again');
        else log.warn(fields, 'cannot list or watch');
        const woken = AbortSignal.any([this.#stop.signal, this.#watching.signal]);
        await sleep(pauseMs, undefined, { signal: woken }).catch(() => {});
      }
    }
  }

  async #list(): Promise<void> {
    this.#watching = new AbortController();
    const wanting = this.#wantingList;
    this.#wantingList = [];
    try {
      await this.#listAll();
    } catch (error) {
      this.#wantingList = [...wanting, ...this.#wantingList];
      throw error;
    }
    for (const { resolve } of wanting) resolve();
  }

  async #listAll(): Promise<void> {
    const { cache, trim, pageSize = 500 } = this.#options;
    const objects: T[] = [];
    const skipped: { readonly name: string; readonly isHeld: boolean }[] = [];
    // A token that expires between two pages fails the whole list, and the loop restarts it: a list made of pages of
    // two lists would miss deletions in between.
    let limit = pageSize;
    let next: string | undefined;
    for (;;) {
      const { page, mostRead } = await this.#readPage({ limit, continue: next });
      // Other objects of the kind may be as large. A single object that is too large says nothing about the others.
      limit = mostRead ?? limit;
      if (mostRead === undefined) skipped.push(...this.#skip(page, objects));
      for (const listed of mostRead === undefined ? [] : page.items) {
        // An unchanged object is not held twice in memory while the list grows.
        const held = cache.byUid(listed.metadata.uid);
        const same = held?.metadata.resourceVersion === listed.metadata.resourceVersion;
        objects.push(same ? held : trim ? trim(listed) : listed);
      }
      next = page.continue;
      if (next !== undefined) continue;
      this.#heard();
      this.#skipped = skipped;
      cache.replace(objects, page.resourceVersion);
      this.#counts.lists += 1;
      this.#synced.resolve();
      return;
    }
  }

  /**
   * Reads a page with as many objects as can be read at once (`mostRead`). When not even one object can be read,
   * `mostRead` is undefined, and the page contains the metadata of this one object.
   */
  async #readPage(from: ListOptions): Promise<{ readonly page: Page<T>; readonly mostRead: number | undefined }> {
    const { client, resource, namespace, labelSelector, fieldSelector } = this.#options;
    const selection = { ...from, namespace, labelSelector, fieldSelector, signal: this.#stop.signal };
    for (let limit = from.limit ?? 1; limit >= 1; limit = Math.floor(limit / 2)) {
      try {
        const page = await client.list<T>(resource, { ...selection, limit, maxBytes: largestPage });
        return { page, mostRead: limit };
      } catch (error) {
        if (!isTooLarge(error)) throw error;
      }
    }
    const page = await client.list<T>(resource, { ...selection, limit: 1, maxBytes: largestPage, metadataOnly: true });
    return { page, mostRead: undefined };
  }

  /** Logs and returns the objects that cannot be read. Those that are held stay as they were: they are not gone. */
  #skip({ items }: Page<T>, objects: T[]): readonly { readonly name: string; readonly isHeld: boolean }[] {
    const { cache, log, resource } = this.#options;
    return items.map(({ metadata: { namespace = '', name, uid, resourceVersion } }) => {
      const held = cache.byUid(uid);
      if (held) objects.push(held);
      const about = { kind: resource.kind, namespace, name, uid, resourceVersion, isHeld: held !== undefined };
      log.warn({ ...about, maxBytes: largestPage }, 'An object is too large to be read and is skipped');
      return { name: namespace === '' ? name : `${namespace}/${name}`, isHeld: held !== undefined };
    });
  }

  /**
   * Whether a watch from the version reached can continue: the server counts as many objects as are held, at a version
   * that is not earlier. A server that was restored from a backup accepts a version of its future, and sends nothing
   * until it gets there.
   */
  async #isInStep(): Promise<boolean> {
    const { client, resource, cache, namespace, labelSelector, fieldSelector } = this.#options;
    const selection = { namespace, labelSelector, fieldSelector, limit: 1, signal: this.#stop.signal };
    const page = await client.list<T>(resource, selection).catch(() => undefined);
    if (page === undefined || cache.reached === undefined) return false;
    const held = cache.size + this.#skipped.filter(({ isHeld }) => !isHeld).length;
    if (countIn(page) !== held || compareVersions(page.resourceVersion, cache.reached) < 0) return false;
    this.#heard();
    return true;
  }

  async #watch(): Promise<void> {
    const { client, resource, cache, trim, namespace, labelSelector, fieldSelector, silenceMs } = this.#options;
    const resourceVersion = cache.reached;
    if (resourceVersion === undefined) throw new Error('a watch needs a list before it');

    this.#counts.watches += 1;
    const openedAt = this.#now();
    let heard = false;
    const events = client.watch<T>(resource, {
      ...{ namespace, labelSelector, fieldSelector, resourceVersion },
      signal: AbortSignal.any([this.#stop.signal, this.#watching.signal]),
      ...(silenceMs !== undefined && { silenceMs }),
    });
    for await (const event of events) {
      heard = true;
      this.#heard();
      if (event.type === 'BOOKMARK') {
        this.#counts.bookmarks += 1;
        cache.advance(event.resourceVersion);
      } else {
        this.#counts.events += 1;
        cache.apply(event.type, trim ? trim(event.object) : event.object);
      }
      this.#failures = 0;
    }
    // A server that closes watches at once without any event would otherwise be called in a tight loop.
    if (!heard && this.#now() - openedAt < 1000) throw new Error('the watch ended before its first event');
  }

  #heard(): void {
    this.#heardAt = this.#now();
    this.#trouble = undefined;
    if (this.#outage !== undefined) this.#outage = { backAt: this.#heardAt, ...this.#outage };
  }

  #lost(): void {
    const { since, backAt = this.#now() } = this.#outage ?? { since: this.#now() };
    const isSame = this.#now() - backAt < apartMs;
    this.#outage = { since: isSame ? since : this.#now() };
  }
}

/** The longest pause, whatever a server or a proxy asks for. */
const longestPauseSeconds = 60;

/** Outages closer together than this count as one: for this long other clients keep their back-off. */
const apartMs = 120_000;

/** The largest page that is read. A page of 500 typical objects has a few MiB. */
const largestPage = 16 * 1024 * 1024;

function isTooLarge(error: unknown): boolean {
  return (error as Partial<KubeError>).reason === 'AnswerTooLarge';
}

/** The watch was cut because no data arrived. */
function isSilence(error: unknown): boolean {
  return (error as Partial<KubeError>).reason === 'Silent';
}

/**
 * True when continuing the watch from the version reached may never succeed: the version is compacted (410), the kind
 * was removed (404), or the server refuses for any other reason than load.
 */
function isBehind(error: unknown): boolean {
  const { status = 0, causes = [] } = error as Partial<KubeError>;
  if (causes.some((cause) => cause.reason === 'ResourceVersionTooLarge')) return true;
  if (isTooLarge(error)) return true; // a list skips the object that the watch would send again
  return status >= 400 && status < 500 && status !== 429;
}
