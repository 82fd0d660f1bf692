/** When a key wants to be worked on again although nothing happens to it. */
export interface PassResult {
  readonly againInMs?: number;
}

export interface KeyedQueueOptions {
  /** One pass over one key: looks at all that the key stands for, never at a single event. */
  readonly pass: (key: string) => Promise<PassResult | undefined>;
  /** A pass that failed is tried again by itself; this only hears of it. */
  readonly onError: (key: string, error: unknown, retryInMs: number) => void;
  /** How many keys are worked on at once. */
  readonly concurrency: number;
  /**
   * First and longest pause after a failed pass; it doubles in between and is spread at random. Absent: from 200 ms to
   * 30 s.
   */
  readonly backOffMs?: { readonly first: number; readonly most: number };
}

/** Node's timers hold no more; a later pass simply asks again. */
const longestTimerMs = 2 ** 31 - 1;

/**
 * Works on keys, each on its own: never two passes of one key at once, any number of wishes for a key that waits are one
 * pass, and a wish that comes during a pass is kept for the next.
 */
export class KeyedQueue {
  readonly #options: KeyedQueueOptions;
  /** Insertion order is the order of work. */
  readonly #waiting = new Set<string>();
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

  /** Wants a pass over this key as soon as there is room. */
  add(key: string): void {
    if (this.#stopped) return;
    this.#waiting.add(key);
    this.#work();
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
      this.add(key);
    }, wait);
    timer.unref();
    this.#timers.set(key, { timer, atMs });
  }

  /** Takes no more wishes, drops those that wait, and waits for the passes that run. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.clear();
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    await Promise.all(this.#running.values());
  }

  #work(): void {
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#options.concurrency) return;
      if (this.#running.has(key)) continue;
      this.#waiting.delete(key);
      // begun a moment later: a pass may want its own key again before it first waits, and must be found running then
      this.#running.set(
        key,
        Promise.resolve().then(() => this.#pass(key)),
      );
    }
  }

  async #pass(key: string): Promise<void> {
    try {
      if (this.#stopped) return;
      const result = await this.#options.pass(key);
      this.#failures.delete(key);
      if (result?.againInMs !== undefined) this.addAfter(key, result.againInMs);
    } catch (error) {
      const failures = this.#failures.get(key) ?? 0;
      this.#failures.set(key, failures + 1);
      const { first, most } = this.#options.backOffMs ?? { first: 200, most: 30_000 };
      const pause = Math.min(first * 2 ** failures, most) * (0.5 + Math.random() / 2);
      this.#options.onError(key, error, pause);
      this.addAfter(key, pause);
    } finally {
      this.#running.delete(key);
      this.#work();
    }
  }
}
