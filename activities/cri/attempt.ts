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

/** The longest time between heartbeats: an attempt learns of its cancellation through them. */
export const heartbeatMs = 3_000;

/** The delay of the first heartbeat: most stops end before it, and Temporal need not store any details. */
const firstHeartbeatMs = 250;

/** Sends heartbeats until it is stopped: one soon, one every few seconds, and one on request. */
export class Heartbeats<Progress = NodeProgress> {
  readonly #attempt: Attempt<Progress>;
  #timer: NodeJS.Timeout;
  readonly #progress: () => Progress;

  constructor(attempt: Attempt<Progress>, progress: () => Progress) {
    this.#attempt = attempt;
    this.#progress = progress;
    this.#timer = setTimeout(() => {
      this.#timer = setInterval(() => this.beat(), heartbeatMs);
      this.beat();
    }, firstHeartbeatMs);
  }

  beat(): void {
    this.#attempt.heartbeat(this.#progress());
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
