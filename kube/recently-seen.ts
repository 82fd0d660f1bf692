/**
 * What was seen within the last while, by key. It holds nothing that is older, so it grows with what is seen in that time
 * and not with all that there ever was.
 */
export class RecentlySeen {
  readonly #forMs: number;
  /** The oldest first. */
  readonly #atMs = new Map<string, number>();

  constructor(forMs: number) {
    this.#forMs = forMs;
  }

  /** How much it remembers. */
  get size(): number {
    return this.#atMs.size;
  }

  /** Whether this was seen, and not longer ago. */
  has(key: string, nowMs: number): boolean {
    this.#forget(nowMs);
    return this.#atMs.has(key);
  }

  /** It was seen just now. */
  add(key: string, nowMs: number): void {
    this.#forget(nowMs);
    this.#atMs.delete(key);
    this.#atMs.set(key, nowMs);
  }

  #forget(nowMs: number): void {
    for (const [key, atMs] of this.#atMs) {
      // a clock that was set back makes nothing older
      if (nowMs - atMs < this.#forMs) return;
      this.#atMs.delete(key);
    }
  }
}
