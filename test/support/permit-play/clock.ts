/** Virtual time: what is to happen, in the order of its moments; what is due at the same moment, in the order of asking. */
export class Clock {
  nowMs = 0;
  /** How much has happened. */
  happened = 0;
  #asked = 0;
  readonly #heap: Due[] = [];

  /** The answer calls it off. */
  after(ms: number, what: () => void): () => void {
    const due: Due = { atMs: this.nowMs + Math.max(ms, 0), order: this.#asked++, what };
    this.#push(due);
    return () => {
      due.what = undefined;
    };
  }

  /** Lets so much time go by. */
  elapse(ms: number): void {
    const untilMs = this.nowMs + ms;
    for (let next = this.#heap[0]; next !== undefined && next.atMs <= untilMs; next = this.#heap[0]) {
      this.#pop();
      if (next.what === undefined) continue;
      this.nowMs = next.atMs;
      this.happened += 1;
      next.what();
    }
    this.nowMs = untilMs;
  }

  #push(due: Due): void {
    let at = this.#heap.length;
    this.#heap.push(due);
    for (let above = (at - 1) >> 1; at > 0 && this.#isBefore(due, above); above = (at - 1) >> 1) {
      this.#heap[at] = this.#heap[above] as Due;
      at = above;
    }
    this.#heap[at] = due;
  }

  #pop(): void {
    const last = this.#heap.pop() as Due;
    const { length } = this.#heap;
    if (length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= length) break;
      if (below + 1 < length && this.#isBefore(this.#heap[below + 1] as Due, below)) below += 1;
      if (isBefore(last, this.#heap[below] as Due)) break;
      this.#heap[at] = this.#heap[below] as Due;
      at = below;
    }
    this.#heap[at] = last;
  }

  #isBefore(due: Due, at: number): boolean {
    return isBefore(due, this.#heap[at] as Due);
  }
}

interface Due {
  readonly atMs: number;
  readonly order: number;
  what: (() => void) | undefined;
}

function isBefore(one: Due, other: Due): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}
