/** Nodes whose NodeImage the API server has refused to change: each is tried again after a minute, doubling to an hour. */
export class RefusedNodes {
  readonly #refused = new Map<string, { readonly times: number; readonly atMs: number }>();

  /** Whether it is too early to try this one again. */
  has(key: string, nowMs: number): boolean {
    const known = this.#refused.get(key);
    // after the clock was set back a refusal may lie in the future
    return known !== undefined && Math.abs(nowMs - known.atMs) < pauseMs(known.times);
  }

  /** It was refused, once more. */
  add(key: string, nowMs: number): void {
    const { times = 0 } = this.#refused.get(key) ?? {};
    this.#refused.delete(key);
    this.#refused.set(key, { times: times + 1, atMs: nowMs });
    const [oldest] = this.#refused.keys();
    if (this.#refused.size > mostKept && oldest !== undefined) this.#refused.delete(oldest);
  }

  /** It was not refused. */
  forget(key: string): void {
    this.#refused.delete(key);
  }
}

const mostKept = 10_000;
const pausesMs = { first: 60_000, most: 3_600_000 } as const;

function pauseMs(times: number): number {
  return Math.min(pausesMs.first * 2 ** (times - 1), pausesMs.most);
}
