import { randomUUID } from 'node:crypto';
import { type EventText, eventBody, type NewEvent } from '../api/core/event.ts';
import { failureTypeOf } from '../api/core/failure.ts';
import type { KubeObject } from '../api/core/meta.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { KubeWriter } from './fence.ts';

/**
 * Writes an Event about an object. Failures are ignored. Only with `insist` it rejects when the API server could not be
 * reached, so that the caller retries the whole step.
 */
export async function tellEvent(
  kube: Pick<KubeWriter, 'create'>,
  {
    key = randomUUID().slice(0, 13),
    insist = false,
    ...event
  }: Omit<NewEvent, 'key'> & {
    /** Events with the same key are written once; absent: each call writes one. */
    readonly key?: string;
    readonly insist?: boolean;
  },
): Promise<void> {
  await kube
    .create(kubeResource.events, eventBody({ ...event, key }), { deadlineMs: 5_000 })
    .catch((error: unknown) => {
      if (insist && mayPassSoon(error)) throw error;
    });
}

/** Whether a failed Event may succeed when it is retried a moment later. */
export function mayPassSoon(error: unknown): boolean {
  const type = failureTypeOf(error);
  return type === 'Unreachable' || type === 'Throttled';
}

/**
 * How many Events one object may get: of each reason the first 25, then one every ten seconds. A workload of thousands of
 * pods would otherwise fill the API server with Events that nobody can read; its status counts them all.
 */
export class EventBudget {
  readonly #now: () => number;
  /** By object and reason: how many may still be written, as of the given time. */
  readonly #left = new Map<string, { readonly left: number; readonly atMs: number }>();
  /** By object, reason and message: when an Event about something that lasts was written. */
  readonly #lasting = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Whether this Event may be written; if so it counts against the budget. */
  take({ metadata }: Pick<KubeObject, 'metadata'>, { reason }: Pick<EventText, 'reason'>): boolean {
    const key = `${metadata.uid} ${reason}`;
    const atMs = this.#now();
    const left = this.#leftAt(this.#left.get(key), atMs);
    if (left < 1) return false;
    this.#left.set(key, { left: left - 1, atMs });
    this.#forget(atMs);
    return true;
  }

  /** The same for an Event about something that lasts, which is written again after five minutes. */
  takeLasting(about: Pick<KubeObject, 'metadata'>, text: EventText): boolean {
    const key = `${about.metadata.uid} ${text.reason} ${text.message}`;
    const atMs = this.#now();
    const toldAtMs = this.#lasting.get(key);
    if (toldAtMs !== undefined && atMs - toldAtMs < lastingAgainMs) return false;
    if (!this.take(about, text)) return false;
    this.#lasting.delete(key);
    this.#lasting.set(key, atMs);
    for (const [oldest, oldestAtMs] of this.#lasting) {
      if (this.#lasting.size <= mostRemembered && atMs - oldestAtMs < lastingAgainMs) break;
      this.#lasting.delete(oldest);
    }
    return true;
  }

  #leftAt(known: { readonly left: number; readonly atMs: number } | undefined, atMs: number): number {
    if (known === undefined) return mostAtOnce;
    return Math.min(known.left + Math.max(atMs - known.atMs, 0) / anotherAfterMs, mostAtOnce);
  }

  /** Removes the entries of budgets that are full again. */
  #forget(atMs: number): void {
    if (this.#left.size <= mostRemembered) return;
    for (const [key, known] of this.#left) if (this.#leftAt(known, atMs) >= mostAtOnce) this.#left.delete(key);
  }
}

const mostAtOnce = 25;
const anotherAfterMs = 10_000;
const lastingAgainMs = 300_000;
const mostRemembered = 10_000;
