import { performance } from 'node:perf_hooks';

/** What a sweeper needs from its process or thread. */
export interface SweeperMeans {
  /** How many milliseconds the event loop has been active in total. */
  readonly activeMs: () => number;
  /** Runs a full garbage collection. */
  readonly collect: () => void;
}

/** The check interval; less activity than this between two checks counts as quiet. */
const quiet = { lookMs: 10_000, activeMs: 100 } as const;

/** After less activity than this there is little garbage to collect. */
const workMs = 2_000;

/**
 * Collects garbage when the process becomes quiet after work. By itself Node collects only when it needs room, and
 * keeps the memory of a burst until the next one.
 */
export class Sweeper {
  readonly #means: SweeperMeans;
  #seenMs = 0;
  /** Loading the program at start counts as work. */
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

/** Collects garbage in this process or thread for as long as it lives, if Node runs with `--expose-gc`. */
export function sweepWhenQuiet(): void {
  const { gc } = globalThis;
  if (gc === undefined) return;
  const sweeper = new Sweeper({
    activeMs: () => performance.eventLoopUtilization().active,
    // the thorough kind, which returns pages to the system: 30 to 60 ms for a role's heap
    collect: () => void gc({ type: 'major', flavor: 'last-resort', execution: 'sync' }),
  });
  setInterval(() => sweeper.look(), quiet.lookMs).unref();
}
