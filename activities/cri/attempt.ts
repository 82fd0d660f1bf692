import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { NodeProgress } from './contract.ts';

/** One attempt of a Temporal activity. */
export interface Attempt<Progress = NodeProgress> {
  /** The same for all attempts of one activity, and unique to it. */
  readonly operation: string;
  /** Aborted when this attempt is no longer wanted; the reason is the failure to end with. */
  readonly cancellation: AbortSignal;
  heartbeat(progress: Progress): void;
}

/** The clock of a node's activities. */
export interface Clock {
  /** Milliseconds since 1970 by the node's clock, for comparison with the runtime's times. */
  nowMs(): number;
  /** A monotonic clock in milliseconds, for measuring. */
  monotonicMs(): number;
  /** Returns early, without an error, when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** How often the progress is looked at. */
export const heartbeatMs = 3_000;

/** The delay of the first heartbeat: most stops end before it, and Temporal need not store any details. */
const firstHeartbeatMs = 250;

/**
 * The longest pause between heartbeats: two fit into the shortest heartbeat timeout of a node's activity, 30 s, so that a
 * lost one costs no attempt.
 */
const mostHeartbeatMs = 12_000;

export interface HeartbeatOptions {
  /** Asked before each look: whether the attempt has to learn of its cancellation within `heartbeatMs`. Absent: it has not. */
  readonly isUrgent?: () => boolean;
}

/**
 * Sends heartbeats until it is stopped: one soon, one when the reason has changed, one on request, and others the more
 * seldom the longer it lasts. An attempt learns of its cancellation through them.
 */
export class Heartbeats<Progress extends { readonly reason: string } = NodeProgress> {
  readonly #attempt: Attempt<Progress>;
  #timer: NodeJS.Timeout;
  readonly #progress: () => Progress;
  readonly #isUrgent: () => boolean;
  readonly #begunAtMs = performance.now();
  #sent: { readonly atMs: number; readonly reason: string } | undefined;

  constructor(attempt: Attempt<Progress>, progress: () => Progress, { isUrgent = () => false }: HeartbeatOptions = {}) {
    this.#attempt = attempt;
    this.#progress = progress;
    this.#isUrgent = isUrgent;
    this.#timer = setTimeout(() => {
      this.#timer = setInterval(() => this.#look(), heartbeatMs);
      this.beat();
    }, firstHeartbeatMs);
  }

  beat(): void {
    this.#send(this.#progress());
  }

  #look(): void {
    const progress = this.#progress();
    const nowMs = performance.now();
    const { atMs, reason } = this.#sent ?? { atMs: Number.NEGATIVE_INFINITY, reason: '' };
    // Half of what it has lasted by then. The timer may fire a little early.
    const pauseMs = Math.min((atMs - this.#begunAtMs) / 2, mostHeartbeatMs) - heartbeatMs / 4;
    if (progress.reason !== reason || this.#isUrgent() || nowMs - atMs >= pauseMs) this.#send(progress);
  }

  #send(progress: Progress): void {
    this.#sent = { atMs: performance.now(), reason: progress.reason };
    this.#attempt.heartbeat(progress);
  }

  stop(): void {
    clearTimeout(this.#timer); // clears intervals, too
  }
}

/** Waits for a promise for as long as this attempt is wanted. The work behind it continues by itself. */
export async function unlessCancelled<Value>(
  attempt: Pick<Attempt, 'cancellation'>,
  outcome: Promise<Value>,
): Promise<Value> {
  const { cancellation } = attempt;
  if (cancellation.aborted) throw cancelledFailure(cancellation);
  const cancelled = Promise.withResolvers<never>();
  const cancel = () => cancelled.reject(cancelledFailure(cancellation));
  cancellation.addEventListener('abort', cancel);
  try {
    return await Promise.race([outcome, cancelled.promise]);
  } finally {
    cancellation.removeEventListener('abort', cancel);
  }
}

/** Wakes one waiter. A call while nobody waits ends the next wait at once. */
export class Wake {
  #called = Promise.withResolvers<void>();

  /** Bound, so that it can be used as a listener. */
  readonly call = (): void => this.#called.resolve();

  async orAfter(ms: number, clock: Clock): Promise<void> {
    const over = new AbortController();
    await Promise.race([this.#called.promise, clock.sleep(ms, over.signal)]);
    over.abort();
    this.#called = Promise.withResolvers();
  }
}

/** The failure by which Temporal recognises a cancelled attempt. */
export function cancelledFailure(cancellation: AbortSignal): CancelledFailure {
  return cancellation.reason instanceof CancelledFailure ? cancellation.reason : new CancelledFailure('CANCELLED');
}

/** The failure of a wait when this process ends; the next process retries it at once. */
export function stoppingFailure(attempted: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Unreachable', message: `${attempted}: the daemon is stopping` });
}
