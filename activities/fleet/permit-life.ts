import type { PermitLife } from '../../watcher/fleet/kind.ts';

/** What Temporal says when asked whether an attempt still counts. */
export type Confirmation = 'counts' | 'cancelled' | 'gone';

/** Temporal wants the attempt to end. */
export class TakenBack extends Error {
  override readonly name = 'TakenBack';
}

export interface PermitLifeOptions {
  /** Sends a heartbeat with these details; resolves with Temporal's answer, rejects when there was none. */
  readonly confirm: (deadlineMs: number, details?: unknown) => Promise<Confirmation>;
  /** What people see of it meanwhile. Absent: nothing. */
  readonly progress?: () => unknown;
  /** The activity's heartbeat timeout: after this long without a heartbeat Temporal gives it to another worker. */
  readonly heartbeatTimeoutMs: number;
  /** Aborts when the SDK hears of a cancellation, or this worker shuts down. */
  readonly cancelled: AbortSignal;
}

/**
 * A permit lives from one confirmed heartbeat for the heartbeat timeout and no longer, counted from when the heartbeat was
 * sent: Temporal counts from when it came in, which is later. So while Temporal is away nothing new is disrupted, and of
 * two attempts at one activity never two hold a permit, however long a process was frozen.
 */
export class ConfirmedLife implements PermitLife {
  readonly #options: PermitLifeOptions;
  readonly #end = new AbortController();
  readonly #onCancelled = () => this.#end.abort(this.#options.cancelled.reason);
  #timer: NodeJS.Timeout | undefined;
  #untilMs = 0;
  readonly #begunAtMs = performance.now();

  private constructor(options: PermitLifeOptions) {
    this.#options = options;
  }

  /** A life that Temporal has confirmed; throws when it does not, so that no permit is handed in. */
  static async begin(options: PermitLifeOptions): Promise<ConfirmedLife> {
    const life = new ConfirmedLife(options);
    options.cancelled.throwIfAborted();
    options.cancelled.addEventListener('abort', life.#onCancelled, { once: true });
    life.#untilMs = performance.now() + options.heartbeatTimeoutMs;
    try {
      await life.#confirm();
      life.ended.throwIfAborted();
      life.#confirmLater();
      return life;
    } catch (error) {
      life.stop();
      throw error;
    }
  }

  get ended(): AbortSignal {
    return this.#end.signal;
  }

  isAlive(): boolean {
    if (performance.now() >= this.#untilMs) this.#end.abort(new Error('Temporal has not confirmed the permit in time'));
    return !this.#end.signal.aborted;
  }

  /** Ends it, when the verdict has come or nobody waits for it any more. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#options.cancelled.removeEventListener('abort', this.#onCancelled);
    this.#end.abort(new Error('the activity has ended'));
  }

  async #confirm(): Promise<void> {
    const { confirm, heartbeatTimeoutMs, progress } = this.#options;
    const sentAtMs = performance.now();
    const answer = await confirm(heartbeatTimeoutMs / 3, progress?.());
    if (answer === 'counts' && this.isAlive()) this.#untilMs = sentAtMs + heartbeatTimeoutMs;
    if (answer === 'cancelled') this.#end.abort(new TakenBack('the permit was revoked'));
    if (answer === 'gone') this.#end.abort(new Error('Temporal has started another attempt of the activity'));
  }

  /** Four beats in the first timeout, in which most is begun, so that a lost one costs nothing; two in each later one. */
  #beatMs(): number {
    const { heartbeatTimeoutMs } = this.#options;
    const isLong = performance.now() - this.#begunAtMs > heartbeatTimeoutMs;
    return heartbeatTimeoutMs / (isLong ? 2 : 4);
  }

  #confirmLater(): void {
    this.#timer = setTimeout(() => {
      // No answer is no news: the permit lives on until its time is over.
      void this.#confirm()
        .catch(() => undefined)
        .then(() => {
          if (this.isAlive()) this.#confirmLater();
        });
    }, this.#beatMs());
  }
}
