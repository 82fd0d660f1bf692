import { FairLine, mostOfOneShare } from '../api/base/fair-line.ts';
import { failureTypeOf } from '../api/core/failure.ts';
import { type BackOff, backOff, spread } from './back-off.ts';
import { hasMovedOn } from './moved-on.ts';

/** When to reconcile the key again without a change. */
export interface PassResult {
  readonly againInMs?: number;
}

/** The earliest of the times that several parts of one reconcile ask for. */
export function earliest(...results: readonly (PassResult | undefined)[]): PassResult | undefined {
  const times = results.flatMap((result) => result?.againInMs ?? []);
  return times.length === 0 ? undefined : { againInMs: Math.min(...times) };
}

export interface KeyedQueueOptions {
  /** Reconciles one key: looks at everything that the key stands for, never at a single event. */
  readonly pass: (key: string) => Promise<PassResult | undefined>;
  /** Called when a reconcile has failed; it is retried automatically. */
  readonly onError: (key: string, error: unknown, retryInMs: number) => void;
  /** How many keys are reconciled at the same time. */
  readonly concurrency: number;
  /**
   * Pauses after failures, randomised. Absent: from 200 ms to 5 minutes, and to 30 s for failures that pass without
   * anybody's action, such as an unreachable server.
   */
  readonly backOffMs?: BackOff;
  /**
   * The share of a key, its namespace. Shares take turns, and no share occupies all workers. Absent: all keys are in
   * one share.
   */
  readonly shareOf?: (key: string) => string;
}

/** The longest delay of a timer in Node; an earlier reconcile is harmless. */
const longestTimerMs = 2 ** 31 - 1;

/**
 * A queue of keys. A key is never reconciled twice at the same time; several requests for a waiting key become one
 * reconcile, and a request that arrives during a reconcile leads to another one.
 */
export class KeyedQueue {
  readonly #options: KeyedQueueOptions;
  readonly #line = new FairLine<string>();
  /** The share of each waiting key. */
  readonly #waiting = new Map<string, string>();
  /** How many keys of each share are being reconciled. */
  readonly #atWork = new Map<string, number>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #timers = new Map<string, { readonly timer: NodeJS.Timeout; readonly atMs: number }>();
  readonly #failures = new Map<string, number>();
  #stopped = false;

  constructor(options: KeyedQueueOptions) {
    this.#options = options;
  }

  /** Keys that wait for a worker now; those with a due time in the future do not count. */
  get depth(): number {
    return this.#waiting.size;
  }

  /**
   * Something has changed: requests a reconcile as soon as there is room. If it fails, pauses begin with the shortest.
   */
  add(key: string): void {
    if (!this.#running.has(key)) this.#failures.delete(key);
    this.#want(key);
  }

  /** Requests a reconcile although nothing has changed. A key whose last reconcile failed keeps its pause. */
  remind(key: string): void {
    if (!this.#failures.has(key)) this.#want(key);
  }

  /** Requests a reconcile after a time; of several requests the earliest counts. */
  addAfter(key: string, ms: number): void {
    if (this.#stopped) return;
    const wait = Math.min(Math.max(ms, 0), longestTimerMs);
    const atMs = performance.now() + wait;
    const known = this.#timers.get(key);
    if (known && known.atMs <= atMs) return;
    clearTimeout(known?.timer);
    const timer = setTimeout(() => {
      this.#timers.delete(key);
      this.#want(key);
    }, wait);
    timer.unref();
    this.#timers.set(key, { timer, atMs });
  }

  /** Accepts no more requests, drops those that wait, and waits for the reconciles that run. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.clear();
    this.#line.clear();
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    await Promise.all(this.#running.values());
  }

  #want(key: string): void {
    if (this.#stopped) return;
    if (!this.#waiting.has(key)) {
      const share = this.#options.shareOf?.(key) ?? '';
      this.#waiting.set(key, share);
      this.#line.add(share, key);
    }
    this.#work();
  }

  #work(): void {
    const { concurrency, shareOf } = this.#options;
    const most = shareOf ? mostOfOneShare(concurrency) : concurrency;
    while (this.#running.size < concurrency) {
      const key = this.#line.take({
        share: (share) => (this.#atWork.get(share) ?? 0) < most,
        thing: (waiting) => !this.#running.has(waiting),
      });
      if (key === undefined) return;
      const share = this.#waiting.get(key) ?? '';
      this.#waiting.delete(key);
      this.#atWork.set(share, (this.#atWork.get(share) ?? 0) + 1);
      // starts in a later microtask: a reconcile may request its own key before its first await, and must be found
      // running then
      this.#running.set(
        key,
        Promise.resolve().then(() => this.#pass(key, share)),
      );
    }
  }

  async #pass(key: string, share: string): Promise<void> {
    try {
      if (this.#stopped) return;
      const result = await this.#options.pass(key);
      this.#failures.delete(key);
      if (result?.againInMs !== undefined) this.addAfter(key, result.againInMs);
    } catch (error) {
      const failures = this.#failures.get(key) ?? 0;
      this.#failures.set(key, failures + 1);
      const pauses = this.#options.backOffMs ?? { first: 200, most: passes(error) ? 30_000 : 300_000 };
      const pause = spread(backOff(pauses, failures));
      this.#options.onError(key, error, pause);
      this.addAfter(key, pause);
    } finally {
      this.#running.delete(key);
      const left = (this.#atWork.get(share) ?? 1) - 1;
      if (left > 0) this.#atWork.set(share, left);
      else this.#atWork.delete(share);
      this.#work();
    }
  }
}

/** Whether the failure may pass without anybody's action. */
function passes(error: unknown): boolean {
  const type = failureTypeOf(error);
  return type === 'Unreachable' || type === 'Throttled' || type === 'Held' || hasMovedOn(error);
}
