import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { NodeProgress } from './contract.ts';

/** One attempt of Temporal's at an activity. */
export interface Attempt<Progress = NodeProgress> {
  /** The same for all attempts at one activity, and for no other activity. */
  readonly operation: string;
  /** Aborted when this attempt is no longer wanted; the reason is the failure to end with. */
  readonly cancellation: AbortSignal;
  heartbeat(progress: Progress): void;
}

/** Time as the activities of a node see it. */
export interface Clock {
  /** Milliseconds since 1970 by the clock of the node, for comparison with what the runtime wrote. */
  nowMs(): number;
  /** Milliseconds that nobody sets back or forth, for measuring. */
  monotonicMs(): number;
  /** Returns early, without an error, when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** How long an attempt stays silent at most: it is by heartbeats that it learns of its cancellation. */
export const heartbeatMs = 3_000;

/** When an attempt speaks first: most stops are over by then, and Temporal need not write down what they were about. */
const firstHeartbeatMs = 250;

/** Sends heartbeats until it is stopped: one soon, one every few seconds, and one whenever it is told to. */
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
    clearTimeout(this.#timer); // an interval, too
  }
}

/** Waits for something that goes on by itself, for as long as this attempt is wanted. */
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

/** Wakes one waiter. A call that comes while nobody waits ends the next wait at once. */
export class Wake {
  #called = Promise.withResolvers<void>();

  /** Bound, so that it can be a listener as it is. */
  readonly call = (): void => this.#called.resolve();

  async orAfter(ms: number, clock: Clock): Promise<void> {
    const over = new AbortController();
    await Promise.race([this.#called.promise, clock.sleep(ms, over.signal)]);
    over.abort();
    this.#called = Promise.withResolvers();
  }
}

/** The failure by which Temporal knows that an attempt ended because it was cancelled. */
export function cancelledFailure(cancellation: AbortSignal): CancelledFailure {
  return cancellation.reason instanceof CancelledFailure ? cancellation.reason : new CancelledFailure('CANCELLED');
}

/** The failure with which a wait ends when this process does, so that the next one takes it up at once. */
export function stoppingFailure(attempted: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'Unreachable', message: `${attempted}: the daemon is stopping` });
}
