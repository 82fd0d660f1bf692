import type { ProbeClock } from '../../daemon/probes/schedule.ts';

/** A clock that advances only on request. */
export class FakeClock implements ProbeClock {
  /** 1 January 2026. */
  static readonly startMs = 1_767_225_600_000;
  readonly #timers = new Set<{ readonly atMs: number; readonly call: () => void }>();
  #ms = 0;
  /** How often a timer was set, ever. */
  timersSet = 0;

  nowMs(): number {
    return FakeClock.startMs + this.#ms;
  }

  monotonicMs(): number {
    return this.#ms;
  }

  after(ms: number, call: () => void): () => void {
    const timer = { atMs: this.#ms + ms, call };
    this.timersSet += 1;
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Advances the time: runs every timer in order, with everything that follows from it before the next one. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#ms + ms;
    for (;;) {
      await settle();
      const [next] = [...this.#timers].sort((a, b) => a.atMs - b.atMs);
      if (next === undefined || next.atMs > untilMs) break;
      this.#timers.delete(next);
      this.#ms = Math.max(this.#ms, next.atMs);
      next.call();
    }
    this.#ms = untilMs;
    await settle();
  }

  /** Advances the time without running timers: a stalled machine. */
  stall(ms: number): void {
    this.#ms += ms;
  }
}

/** Resolves when all pending microtasks and immediates have run. */
async function settle(): Promise<void> {
  for (let round = 0; round < 5; round += 1) await new Promise((resolve) => setImmediate(resolve));
}
