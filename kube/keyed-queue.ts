import { FairLine, mostOfOneShare } from '../api/base/fair-line.ts';
import { failureTypeOf } from '../api/core/failure.ts';
import { type BackOff, backOff, spread } from './back-off.ts';
import { hasMovedOn } from './moved-on.ts';

/** When a key wants to be worked on again although nothing happens to it. */
export interface PassResult {
  readonly againInMs?: number;
}

/** What several parts of one pass ask for together: the earliest of their times. */
export function earliest(...results: readonly (PassResult | undefined)[]): PassResult | undefined {
  const times = results.flatMap((result) => result?.againInMs ?? []);
  return times.length === 0 ? undefined : { againInMs: Math.min(...times) };
}

export interface KeyedQueueOptions {
  /** One pass over one key: looks at all that the key stands for, never at a single event. */
  readonly pass: (key: string) => Promise<PassResult | undefined>;
  /** Called when a pass has failed, which is tried again by itself. */
  readonly onError: (key: string, error: unknown, retryInMs: number) => void;
  /** How many keys are worked on at once. */
  readonly concurrency: number;
  /**
   * Pauses after failed passes, spread at random. Absent: from 200 ms to 5 minutes, and to 30 s after failures that pass by
   * themselves, as those of a server that is unreachable.
   */
  readonly backOffMs?: BackOff;
  /**
   * On whose behalf a key is worked on, its namespace: shares take turns, and none is worked on everywhere at once. Absent:
   * all keys are of one share.
   */
  readonly shareOf?: (key: string) => string;
}

/** Node's timers hold no more; a later pass simply asks again. */
const longestTimerMs = 2 ** 31 - 1;

/**
 * Works on keys, each on its own: never two passes of one key at once, any number of wishes for a key that waits are one
 * pass, and a wish that comes during a pass is kept for the next.
 */
export class KeyedQueue {
  readonly #options: KeyedQueueOptions;
  readonly #line = new FairLine<string>();
  /** The share under which a key waits in the line. */
  readonly #waiting = new Map<string, string>();
  /** How many keys of a share are worked on. */
  readonly #atWork = new Map<string, number>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #timers = new Map<string, { readonly timer: NodeJS.Timeout; readonly atMs: number }>();
  readonly #failures = new Map<string, number>();
  #stopped = false;

  constructor(options: KeyedQueueOptions) {
    this.#options = options;
  }

  /** Keys that wait for a pass now; those with a due time in the future do not count. */
  get depth(): number {
    return this.#waiting.size;
  }

  /** Something has happened: wants a pass over this key as soon as there is room. If it fails, pauses start with the first. */
  add(key: string): void {
    if (!this.#running.has(key)) this.#failures.delete(key);
    this.#want(key);
  }

  /** Wants a pass although nothing has happened. A key whose last pass failed is left to its own pauses. */
  remind(key: string): void {
    if (!this.#failures.has(key)) this.#want(key);
  }

  /** Wants a pass after a time; of several such wishes the earliest counts. */
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

  /** Takes no more wishes, drops those that wait, and waits for the passes that run. */
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
      // begun a moment later: a pass may want its own key again before it first waits, and must be found running then
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

/** Whether the failure may pass by itself, so that no person has to act. */
function passes(error: unknown): boolean {
  const type = failureTypeOf(error);
  return type === 'Unreachable' || type === 'Throttled' || type === 'Held' || hasMovedOn(error);
}
