import { performance } from 'node:perf_hooks';

/** What a sweeper needs of its process or thread. */
export interface SweeperMeans {
  /** How many milliseconds its event loop has worked, ever. */
  readonly activeMs: () => number;
  /** Collects all garbage. */
  readonly collect: () => void;
}

/** Looks are so far apart, and less work in between is quiet. */
const quiet = { lookMs: 10_000, activeMs: 100 } as const;

/** After less work than that there is not much to be had. */
const workMs = 2_000;

/**
 * Collects garbage when there is quiet after work. Left to itself Node keeps what a burst has taken until the next one,
 * as it collects only when it needs room.
 */
export class Sweeper {
  readonly #means: SweeperMeans;
  #seenMs = 0;
  /** All that is loaded at start counts as work. */
  #sweptAtMs = -workMs;

  constructor(means: SweeperMeans) {
    this.#means = means;
  }

  /** To be called every `lookMs`. */
  look(): void {
    const activeMs = this.#means.activeMs();
    const isQuiet = activeMs - this.#seenMs < quiet.activeMs;
    this.#seenMs = activeMs;
    if (!isQuiet || activeMs - this.#sweptAtMs < workMs) return;
    this.#means.collect();
    this.#sweptAtMs = this.#means.activeMs();
    this.#seenMs = this.#sweptAtMs;
  }
}

/** Sweeps this process or thread for as long as it lives, where Node has been told to let it (`--expose-gc`). */
export function sweepWhenQuiet(): void {
  const { gc } = globalThis;
  if (gc === undefined) return;
  const sweeper = new Sweeper({
    activeMs: () => performance.eventLoopUtilization().active,
    // the thorough way, which gives pages back: 30 to 60 ms for a role's heap
    collect: () => void gc({ type: 'major', flavor: 'last-resort', execution: 'sync' }),
  });
  setInterval(() => sweeper.look(), quiet.lookMs).unref();
}
