/**
 * Keys that were seen recently. Older ones are dropped, so its size depends on the rate of new keys, not on their total
 * number.
 */
export class RecentlySeen {
  readonly #forMs: number;
  /** The oldest first. */
  readonly #atMs = new Map<string, number>();

  constructor(forMs: number) {
    this.#forMs = forMs;
  }

  /** The number of remembered keys. */
  get size(): number {
    return this.#atMs.size;
  }

  /** Whether this key was seen within that time. */
  has(key: string, nowMs: number): boolean {
    this.#dropOld(nowMs);
    return this.#atMs.has(key);
  }

  /** Until when this key is remembered; undefined: it is not. */
  untilMs(key: string, nowMs: number): number | undefined {
    this.#dropOld(nowMs);
    const atMs = this.#atMs.get(key);
    return atMs === undefined ? undefined : atMs + this.#forMs;
  }

  /** Records that this key was seen now. */
  add(key: string, nowMs: number): void {
    this.#dropOld(nowMs);
    this.#atMs.delete(key);
    this.#atMs.set(key, nowMs);
  }

  /** As if no key had ever been seen. */
  clear(): void {
    this.#atMs.clear();
  }

  /** As if this key had never been seen. */
  forget(key: string): void {
    this.#atMs.delete(key);
  }

  #dropOld(nowMs: number): void {
    for (const [key, atMs] of this.#atMs) {
      // after the clock was set back an entry may lie in the future; it is kept
      if (nowMs - atMs < this.#forMs) return;
      this.#atMs.delete(key);
    }
  }
}
