/** So many things at once; the others wait for their turn, in order. */
export class Turns {
  readonly #limit: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  async take<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.#running >= this.#limit) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      // The place goes to the next one, or is free.
      if (next) next();
      else this.#running -= 1;
    }
  }
}
