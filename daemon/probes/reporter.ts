import { failureTypeOf } from '../../api/core/failure.ts';
import type { NodePodProbeStatus } from '../../api/node-pod-probe/types.ts';
import { backOff, retryAfterMs } from '../../kube/back-off.ts';
import type { ProbeClock } from './schedule.ts';

/** Changes within this time are written together. */
const gatherMs = 200;

/** NPP-29: from half a second to nearly a minute. */
const backOffMs = { first: 500, most: 50_000 } as const;

export interface ReporterOptions {
  /** All results to report now; undefined while there is no list to report them in. */
  readonly status: () => NodePodProbeStatus | undefined;
  readonly write: (status: NodePodProbeStatus, signal: AbortSignal) => Promise<void>;
  readonly clock: ProbeClock;
  readonly log: { warn(fields: object, message: string): void };
}

/**
 * Writes the status of the node's list: one write at a time, always with everything that is known at that moment, so
 * that the next write makes up for a failed one, however long the API server is unreachable.
 */
export class Reporter {
  readonly #options: ReporterOptions;
  readonly #ended = new AbortController();
  #isDirty = false;
  #writing: Promise<void> | undefined;
  #failures = 0;
  #wake: (() => void) | undefined;
  #isEnding = false;

  constructor(options: ReporterOptions) {
    this.#options = options;
  }

  /** Requests a write. */
  tell(): void {
    this.#isDirty = true;
    if (this.#ended.signal.aborted) return;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
      if (this.#isDirty && !this.#isEnding) this.tell();
    });
  }

  /** Why the last write failed; undefined when it did not. */
  trouble: string | undefined;

  /** Writes what is left in a single attempt, which is abandoned when the signal aborts. */
  async end(signal: AbortSignal): Promise<void> {
    const giveUp = () => this.#ended.abort();
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    this.#isEnding = true;
    this.#wake?.();
    await this.#writing;
    this.#ended.abort();
    signal.removeEventListener('abort', giveUp);
  }

  async #write(): Promise<void> {
    const { status, write, log } = this.#options;
    const { signal } = this.#ended;
    while (this.#isDirty && !signal.aborted) {
      this.#isDirty = false;
      const now = status();
      if (now === undefined) return;
      try {
        await write(now, signal);
        this.#failures = 0;
        this.trouble = undefined;
        await this.#pause(gatherMs);
      } catch (error) {
        if (signal.aborted || this.#isEnding) return;
        // The list was replaced or deleted; all results are reported for the next one.
        if (failureTypeOf(error) === 'Superseded') return;
        this.#isDirty = true;
        const pauseMs = Math.max(this.#nextPauseMs(), retryAfterMs(error));
        this.trouble = error instanceof Error ? error.message : String(error);
        log.warn({ err: error, pauseMs: Math.round(pauseMs) }, 'Cannot report the results of probes');
        await this.#pause(pauseMs);
      }
    }
  }

  #nextPauseMs(): number {
    const pauseMs = backOff(backOffMs, this.#failures);
    this.#failures += 1;
    return pauseMs * (1 + Math.random() / 10);
  }

  async #pause(ms: number): Promise<void> {
    if (this.#isEnding || this.#ended.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const cancel = this.#options.clock.after(ms, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
    this.#wake = undefined;
  }
}
