import type { PermitLife } from '../../watcher/permits/held.ts';

/** What Temporal says when asked whether an attempt still counts. */
export type Confirmation = 'counts' | 'cancelled' | 'gone';

/** Temporal wants the attempt to end. */
export class TakenBack extends Error {
  override readonly name = 'TakenBack';
}

export interface PermitLifeOptions {
  /** Sends a heartbeat with these details; resolves with Temporal's answer, rejects when there was none. */
  readonly confirm: (deadlineMs: number, details?: unknown) => Promise<Confirmation>;
  /** Has the SDK send a heartbeat with these details, of which nobody learns whether Temporal received it. */
  readonly heartbeat: (details?: unknown) => void;
  /** What people see of it meanwhile. Absent: nothing. */
  readonly progress?: () => unknown;
  /** For how long a confirmation counts. Absent: for the heartbeat timeout, which is the most. */
  readonly holdsMs?: number;
  /** Whether nothing begins by it at present, so that there is nothing to be confirmed. Absent: never. */
  readonly isBegun?: () => boolean;
  /** It counts again, after it has rested while nothing began. */
  readonly confirmed?: () => void;
  /** The activity's heartbeat timeout: after this long without a heartbeat Temporal gives it to another worker. */
  readonly heartbeatTimeoutMs: number;
  /** Aborts when the SDK hears of a cancellation, or this worker shuts down. */
  readonly cancelled: AbortSignal;
}

/** After how long a heartbeat without an answer is sent again. */
const againMs = 1_000;

const notConfirmed = 'Temporal has not confirmed the permit in time';

/** How far apart heartbeats are when there is nothing to be confirmed, at least. */
const sdkBeatMs = 25_000;

/**
 * A permit lets something begin for `holdsMs` from one confirmed heartbeat and no longer, counted from when the heartbeat was
 * sent: Temporal counts from when it came in, which is later. So while Temporal is away nothing new is disrupted, and of
 * two attempts at one activity never two hold a permit, however long a process was frozen (P-6).
 */
export class ConfirmedLife implements PermitLife {
  readonly #options: PermitLifeOptions;
  readonly #holdsMs: number;
  readonly #beganAtMs = performance.now();
  readonly #end = new AbortController();
  readonly #onCancelled = () => this.#end.abort(this.#options.cancelled.reason);
  #timer: NodeJS.Timeout | undefined;
  #confirmedAtMs = performance.now();
  /** Since when heartbeats got no answer. Absent: the last one did. */
  #silentSinceMs: number | undefined;
  #sdkBeatAtMs = performance.now();
  /** Nothing began by it when it was looked at last, so it was not confirmed. */
  #rests = false;
  #isConfirming = false;
  /** Something is to begin by it, as soon as it is confirmed. */
  #isWanted = false;

  private constructor(options: PermitLifeOptions) {
    this.#options = options;
    this.#holdsMs = Math.min(options.holdsMs ?? options.heartbeatTimeoutMs, options.heartbeatTimeoutMs);
  }

  /** A life that is confirmed, by its start or by Temporal; throws when it is not, so that no permit is handed in. */
  static async begin(options: PermitLifeOptions): Promise<ConfirmedLife> {
    const life = new ConfirmedLife(options);
    options.cancelled.throwIfAborted();
    options.cancelled.addEventListener('abort', life.#onCancelled, { once: true });
    try {
      // The task may be late, and there may be another attempt.
      if (!life.#hasTime) await life.#confirm();
      life.ended.throwIfAborted();
      life.#beatLater(life.#everyMs);
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
    if (this.ended.aborted) return false;
    if (!this.#isStale) return true;
    if (this.#rests) void this.#confirmAnew();
    else this.#end.abort(new Error(notConfirmed));
    return false;
  }

  /** Ends it, when the verdict has come or nobody waits for it any more. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#options.cancelled.removeEventListener('abort', this.#onCancelled);
    this.#end.abort(new Error('the activity has ended'));
  }

  /** Whether Temporal makes another attempt long after a confirmation has ceased to count. */
  get #hasTime(): boolean {
    return this.#holdsMs < this.#options.heartbeatTimeoutMs;
  }

  /** Where it does not, most is begun in the first timeout, and a lost heartbeat is to cost nothing. */
  get #everyMs(): number {
    const isYoung = performance.now() - this.#beganAtMs < this.#holdsMs;
    return this.#holdsMs / (!this.#hasTime && isYoung ? 4 : 2);
  }

  get #isStale(): boolean {
    return performance.now() >= this.#confirmedAtMs + this.#holdsMs;
  }

  /** Something is to begin by it. Without an answer the next heartbeat asks again. */
  async #confirmAnew(): Promise<void> {
    this.#isWanted = true;
    if (this.#isConfirming) return;
    this.#isConfirming = true;
    await this.#confirm().catch(() => this.#unanswered());
    this.#isConfirming = false;
  }

  #beatLater(inMs: number): void {
    if (!this.ended.aborted) this.#timer = setTimeout(() => void this.#beat(), inMs);
  }

  async #beat(): Promise<void> {
    const { isBegun } = this.#options;
    if (isBegun?.() && !this.#isWanted) this.#tellSdk();
    else await this.#confirm().catch(() => this.#unanswered());
    this.#beatLater(this.#silentSinceMs === undefined ? this.#everyMs : againMs);
  }

  /** One heartbeat without an answer says nothing. */
  #unanswered(): void {
    this.#silentSinceMs ??= performance.now();
    if (performance.now() - this.#silentSinceMs >= this.#holdsMs) this.#end.abort(new Error(notConfirmed));
  }

  async #confirm(): Promise<void> {
    const { confirm, confirmed, progress } = this.#options;
    const sentAtMs = performance.now();
    const hasRested = this.#rests && this.#isStale;
    const answer = await confirm(this.#holdsMs / 3, progress?.());
    this.#silentSinceMs = undefined;
    if (answer === 'counts') {
      this.#confirmedAtMs = sentAtMs;
      this.#rests = false;
      this.#isWanted = false;
      if (hasRested) confirmed?.();
    }
    if (answer === 'cancelled') this.#end.abort(new TakenBack('the permit was revoked'));
    if (answer === 'gone') this.#end.abort(new Error('Temporal has started another attempt of the activity'));
  }

  #tellSdk(): void {
    const { heartbeat, progress } = this.#options;
    const nowMs = performance.now();
    this.#rests = true;
    this.#silentSinceMs = undefined;
    if (nowMs - this.#sdkBeatAtMs < sdkBeatMs) return;
    this.#sdkBeatAtMs = nowMs;
    heartbeat(progress?.());
  }
}
