// The admission ledger: takes from what the status of an object says is left, such as the budget of pods, one request at a time.
//
//   newest known copy (own last answer, or the cache)  ->  decide
//     to store a status    compare and swap; after a conflict, or without an answer: read, decide again
//     anything else        final if the copy was read after the request came in; otherwise: read, decide again
//
// So a stale copy costs a call, and never more than there is. Whoever decides again after a write without an answer sees in the
// status whether it took effect; if it does so later, it meets the next write, of which one is a conflict.

import { setTimeout as sleep } from 'node:timers/promises';
import { mergePatchTo, objectOr } from '../../api/base/json.ts';
import { failureTypeOf } from '../../api/core/failure.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { type BackOff, backOff, spread } from '../../kube/back-off.ts';
import { compareVersions } from '../../kube/cache.ts';
import type { KubeClient } from '../../kube/client.ts';
import { answerStatus, onceMore } from './look-ups.ts';

/** What is decided about a copy. A status must be stored before the decision holds. */
export interface LedgerDecision {
  readonly kind: string;
  readonly status?: object;
}

/** An object with a status that is taken from. */
export type Account = KubeObject & { readonly status?: object };

/** Names the object. */
export interface AccountRef {
  readonly namespace: string;
  readonly name: string;
}

export interface LedgerOptions<Held extends Account> {
  readonly client: Pick<KubeClient, 'get' | 'patch'>;
  readonly resource: Resource;
  /** The object in a cache, which may be behind, or unread. Absent: there is no cache. */
  readonly known?: (ref: AccountRef) => Held | undefined;
  /** The pauses between attempts, which are spread. Absent: from 50 to 400 ms. */
  readonly pausesMs?: BackOff;
}

/** Others have changed the object again and again between reading and writing it. */
export class LedgerConflict extends Error {
  override readonly name = 'LedgerConflict';
}

const mostAttempts = 4;
/** Of one call, so that a lost answer leaves time for reading again. */
const callMs = 2_000;
const usualPausesMs: BackOff = { first: 50, most: 400 };
/** Requests that wait for one object. */
const mostWaiting = 64;
/** Copies that are kept; without its copy an object costs at most one more call. */
const mostCopies = 100;
/** No object has a longer name. */
const longestName = 253;

interface Copy<Held> {
  /** Undefined: it does not exist. */
  readonly object: Held | undefined;
  /** The copy is at least as new as this, on the clock of this process. */
  readonly asOfMs: number;
}

/** The ledger of one resource. Each process has its own; the API server decides between them. */
export class Ledger<Held extends Account> {
  readonly #options: LedgerOptions<Held>;
  readonly #lines = new Lines();
  /** From own calls; the one that was used last is at the end. */
  readonly #copies = new Map<string, Copy<Held>>();

  constructor(options: LedgerOptions<Held>) {
    this.#options = options;
  }

  /**
   * Decides about an object, as often as it takes until the decision holds. `decide` must not take again what the status shows
   * as taken. Undefined: there is no such object. Rejects with LedgerConflict, or with the failure of a call.
   */
  async reserve<Decision extends LedgerDecision>(
    ref: AccountRef,
    decide: (object: Held | undefined) => Decision,
    signal: AbortSignal,
  ): Promise<Decision> {
    if (ref.name.length > longestName) return decide(undefined);
    const sinceMs = performance.now();
    return await this.#lines.within(keyOf(ref), signal, async () => {
      let copy = this.#newest(ref);
      for (let attempt = 0; ; ) {
        const decision = decide(copy.object);
        if (copy.object === undefined || decision.status === undefined) {
          if (copy.asOfMs >= sinceMs) return decision;
        } else {
          const failure = await this.#store(ref, copy.object, decision.status, signal);
          if (failure === undefined) return decision;
          await this.#pauseAfter(failure, ref, { attempt: ++attempt, signal });
        }
        copy = await this.#read(ref, signal);
      }
    });
  }

  #newest(ref: AccountRef): Copy<Held> {
    const own = this.#copies.get(keyOf(ref)) ?? { object: undefined, asOfMs: Number.NEGATIVE_INFINITY };
    const cached = this.#options.known?.(ref);
    if (cached === undefined) return own;
    const isNewer = own.object && compareVersions(own.object.metadata.resourceVersion, versionOf(cached)) >= 0;
    return isNewer ? own : { object: cached, asOfMs: Number.NEGATIVE_INFINITY };
  }

  /** Returns why the status may not be stored; undefined: it is. Throws what no further attempt can change. */
  async #store(ref: AccountRef, object: Held, status: object, signal: AbortSignal): Promise<unknown> {
    const { client, resource } = this.#options;
    const asOfMs = performance.now();
    const body = {
      metadata: { resourceVersion: versionOf(object) },
      status: mergePatchTo(objectOr(object.status), objectOr(status)),
    };
    try {
      const options = { subresource: 'status', signal, deadlineMs: callMs };
      this.#keep(ref, { object: await client.patch<Held>(resource, ref, 'merge', body, options), asOfMs });
      return undefined;
    } catch (error) {
      const type = failureTypeOf(error);
      const isFinal = type === undefined || type === 'Denied' || type === 'Invalid';
      if (signal.aborted || isFinal) throw this.#failed(ref, error);
      return error;
    }
  }

  async #pauseAfter(
    failure: unknown,
    ref: AccountRef,
    { attempt, signal }: { readonly attempt: number; readonly signal: AbortSignal },
  ): Promise<void> {
    if (attempt >= mostAttempts) {
      const error = this.#failed(ref, failure);
      throw failureTypeOf(failure) === 'Conflict' ? new LedgerConflict(error.message) : error;
    }
    await sleep(spread(backOff(this.#options.pausesMs ?? usualPausesMs, attempt - 1)), undefined, { signal });
  }

  async #read(ref: AccountRef, signal: AbortSignal): Promise<Copy<Held>> {
    const { client, resource } = this.#options;
    const asOfMs = performance.now();
    try {
      const object = await onceMore(signal, () => client.get<Held>(resource, ref, { signal, deadlineMs: callMs }));
      return this.#keep(ref, { object, asOfMs });
    } catch (error) {
      // Also where the kind does not exist: without it nothing is protected, and pods must not wait for it.
      if (answerStatus(error) === 404) return this.#keep(ref, { object: undefined, asOfMs });
      throw this.#failed(ref, error);
    }
  }

  #keep(ref: AccountRef, { object, asOfMs }: Copy<Held>): Copy<Held> {
    const copy = { object: object && withoutManagedFields(object), asOfMs };
    const key = keyOf(ref);
    this.#copies.delete(key);
    this.#copies.set(key, copy);
    for (const oldest of this.#copies.keys()) {
      if (this.#copies.size <= mostCopies) break;
      this.#copies.delete(oldest);
    }
    return copy;
  }

  #failed({ namespace, name }: AccountRef, error: unknown): Error {
    const why = error instanceof Error ? error.message : String(error);
    const { kind } = this.#options.resource;
    return new Error(`Cannot take from ${kind} "${namespace}/${name}": ${why}`, { cause: error });
  }
}

/** One line for each key: what belongs to different keys never waits for one another. */
class Lines {
  /** Those who wait, by the keys that are in use. */
  readonly #waiting = new Map<string, Set<() => void>>();

  async within<Value>(key: string, signal: AbortSignal, work: () => Promise<Value>): Promise<Value> {
    await this.#enter(key, signal);
    try {
      return await work();
    } finally {
      this.#leave(key);
    }
  }

  #enter(key: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const line = this.#waiting.get(key);
    if (line === undefined) {
      this.#waiting.set(key, new Set());
      return Promise.resolve();
    }
    if (line.size >= mostWaiting) throw new Error(`Too many requests at one time for "${key}"`);
    return new Promise((resolve, reject) => {
      const turn = () => {
        signal.removeEventListener('abort', giveUp);
        resolve();
      };
      const giveUp = () => {
        line.delete(turn);
        reject(signal.reason);
      };
      line.add(turn);
      signal.addEventListener('abort', giveUp, { once: true });
    });
  }

  #leave(key: string): void {
    const line = this.#waiting.get(key);
    const [next] = line ?? [];
    if (line === undefined || next === undefined) return void this.#waiting.delete(key);
    line.delete(next);
    next();
  }
}

function keyOf({ namespace, name }: AccountRef): string {
  return `${namespace}/${name}`;
}

function versionOf({ metadata }: KubeObject): string {
  return metadata.resourceVersion;
}

function withoutManagedFields<Held extends Account>(object: Held): Held {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}
