import type { ProbeClock } from '../../daemon/probes/schedule.ts';

/** A clock that stands still until it is told to go on. */
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

  /** Lets so much time pass: every timer in its turn, and what follows from it before the next. */
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

  /** Time passes, and nobody gets to do anything meanwhile: what a stalled machine looks like. */
  stall(ms: number): void {
    this.#ms += ms;
  }
}

/** Everything that follows without any waiting has happened. */
async function settle(): Promise<void> {
  for (let round = 0; round < 5; round += 1) await new Promise((resolve) => setImmediate(resolve));
}
