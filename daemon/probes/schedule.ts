/** The clock of probes; tests have their own. */
export interface ProbeClock {
  /** Milliseconds since 1970, for comparison with what the runtime wrote. */
  nowMs(): number;
  /** A monotonic clock in milliseconds. */
  monotonicMs(): number;
  /** Calls `call` once after this time; the returned function cancels it. */
  after(ms: number, call: () => void): () => void;
}

/** The clock of this machine. */
export const probeClock: ProbeClock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
};

interface Entry {
  readonly dueMs: number;
  readonly run: (dueMs: number) => void;
}

/** Everything that is due within this time runs at once, so that hundreds of entries need few timers. */
const slotMs = 5;

/** Waking up too early is harmless; Node's timers are limited to 25 days. */
const longestSleepMs = 3_600_000;

/**
 * Hundreds of due times on one timer: a binary heap by due time. Entries have keys; scheduling a key again moves its
 * entry.
 */
export class Schedule {
  readonly #clock: ProbeClock;
  readonly #heap: (Entry & { readonly key: string })[] = [];
  /** The valid entries: one that was moved or cancelled stays in the heap until its time comes. */
  readonly #current = new Map<string, Entry>();
  #timer: { readonly atMs: number; readonly cancel: () => void } | undefined;

  constructor(clock: ProbeClock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#current.size;
  }

  /**
   * Runs the function at this monotonic time, or at once when that has passed; its argument is the time at which it was
   * due.
   */
  at(key: string, dueMs: number, run: (dueMs: number) => void): void {
    const entry = { key, dueMs, run };
    this.#current.set(key, entry);
    this.#push(entry);
    this.#arm();
  }

  cancel(key: string): void {
    this.#current.delete(key);
  }

  /** Cancels everything. */
  clear(): void {
    this.#current.clear();
    this.#heap.length = 0;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(): void {
    const first = this.#heap[0];
    if (first === undefined) return;
    if (this.#timer && this.#timer.atMs <= first.dueMs) return;
    this.#timer?.cancel();
    const ms = Math.min(longestSleepMs, Math.max(0, first.dueMs - this.#clock.monotonicMs()));
    this.#timer = { atMs: first.dueMs, cancel: this.#clock.after(ms, () => this.#wake()) };
  }

  #wake(): void {
    this.#timer = undefined;
    const untilMs = this.#clock.monotonicMs() + slotMs;
    for (let entry = this.#heap[0]; entry && entry.dueMs <= untilMs; entry = this.#heap[0]) {
      this.#pop();
      if (this.#current.get(entry.key) !== entry) continue;
      this.#current.delete(entry.key);
      entry.run(entry.dueMs);
    }
    this.#arm();
  }

  #push(entry: Entry & { readonly key: string }): void {
    const heap = this.#heap;
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || above.dueMs <= entry.dueMs) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const right = left + 1;
      const smaller = (heap[right]?.dueMs ?? Number.POSITIVE_INFINITY) < (heap[left]?.dueMs ?? 0) ? right : left;
      const below = heap[smaller];
      if (below === undefined || below.dueMs >= last.dueMs) break;
      heap[at] = below;
      at = smaller;
    }
    heap[at] = last;
  }
}
