/**
 * A limit for concurrent runs; the others wait. Slots are assigned by namespace, so that slow probes of one namespace
 * cannot keep those of others waiting:
 *
 *   share    a quarter of the slots: what a namespace gets whenever a slot is free
 *   reserve  another quarter: stays free when a namespace has its share already
 *
 * Of the waiting namespaces, the one with the fewest slots comes first, and among equals the one that has waited
 * longest for its turn.
 */
export class Turns {
  readonly #limit: number;
  readonly #share: number;
  readonly #reserve: number;
  readonly #running = new Map<string, number>();
  /** Insertion order is the order among equals. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #taken = 0;

  constructor(limit: number) {
    this.#limit = limit;
    this.#reserve = Math.floor(limit / 4);
    this.#share = Math.max(1, this.#reserve);
  }

  /** The number of waiting runs. */
  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, queue) => sum + queue.length, 0);
  }

  async take<Value>(namespace: string, work: () => Promise<Value>): Promise<Value> {
    if (this.#mayRun(namespace)) this.#begin(namespace);
    else await this.#wait(namespace);
    try {
      return await work();
    } finally {
      this.#end(namespace);
    }
  }

  #mayRun(namespace: string): boolean {
    const free = this.#limit - this.#taken;
    const hasShare = (this.#running.get(namespace) ?? 0) >= this.#share;
    return free > (hasShare ? this.#reserve : 0);
  }

  #begin(namespace: string): void {
    this.#taken += 1;
    this.#running.set(namespace, (this.#running.get(namespace) ?? 0) + 1);
  }

  #wait(namespace: string): Promise<void> {
    return new Promise((resolve) => {
      const queue = this.#waiting.get(namespace);
      if (queue) queue.push(resolve);
      else this.#waiting.set(namespace, [resolve]);
    });
  }

  #end(namespace: string): void {
    this.#taken -= 1;
    const left = (this.#running.get(namespace) ?? 1) - 1;
    if (left > 0) this.#running.set(namespace, left);
    else this.#running.delete(namespace);
    for (let next = this.#next(); next !== undefined; next = this.#next()) this.#callFirst(next);
  }

  #next(): string | undefined {
    let next: string | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const namespace of this.#waiting.keys()) {
      const running = this.#running.get(namespace) ?? 0;
      if (running >= fewest || !this.#mayRun(namespace)) continue;
      next = namespace;
      fewest = running;
    }
    return next;
  }

  /** The namespace moves to the end of the queue. */
  #callFirst(namespace: string): void {
    const [first, ...others] = this.#waiting.get(namespace) ?? [];
    this.#waiting.delete(namespace);
    if (others.length > 0) this.#waiting.set(namespace, others);
    this.#begin(namespace);
    first?.();
  }
}
