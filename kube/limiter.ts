import { FairLine, mostOfOneShare } from '../api/base/fair-line.ts';

/**
 * A token bucket in front of one API server.
 *
 * The bucket holds up to `burst` tokens and gains `qps` tokens a second; each call takes one. A call that finds none
 * waits in a queue, first come first served, so no call starves. When the server asks for a pause, no call is admitted
 * before it is over, and the bucket does not fill meanwhile: the calls do not all resume at once.
 */
export class Limiter {
  readonly #perMs: number;
  readonly #burst: number;
  readonly #now: () => number;
  // A Set keeps its order and removes an aborted caller in constant time.
  readonly #line = new Set<{ readonly admit: () => void; readonly refuse: (reason: unknown) => void }>();
  #tokens: number;
  /** The time up to which tokens are counted; in the future while the server's pause lasts. */
  #countedAt: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: { readonly qps: number; readonly burst: number; readonly now?: () => number }) {
    if (!(options.qps > 0) || !(options.burst >= 1)) throw new RangeError('qps must be above 0 and burst at least 1');
    this.#perMs = options.qps / 1000;
    this.#burst = options.burst;
    this.#now = options.now ?? (() => performance.now());
    this.#tokens = options.burst;
    this.#countedAt = this.#now();
  }

  /** How many calls wait for their turn. */
  get waiting(): number {
    return this.#line.size;
  }

  /** Resolves when the call may be made; rejects with the signal's reason, which costs no token. */
  admit(signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#line.size === 0 && this.#take()) return Promise.resolve();

    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#line.delete(caller);
        signal?.removeEventListener('abort', onAbort);
      };
      const caller = {
        admit: () => {
          leave();
          resolve();
        },
        refuse: (reason: unknown) => {
          leave();
          reject(reason);
        },
      };
      const onAbort = () => caller.refuse(signal?.reason);
      signal?.addEventListener('abort', onAbort);
      this.#line.add(caller);
      this.#wake();
    });
  }

  /** Admits no call for this long. A shorter pause never ends a longer one. */
  pause(seconds: number): void {
    this.#refill();
    this.#countedAt = Math.max(this.#countedAt, this.#now() + seconds * 1000);
    this.#tokens = Math.min(this.#tokens, 1);
  }

  /** Rejects all calls that wait, and leaves no timer behind. */
  close(reason: unknown): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const caller of this.#line) caller.refuse(reason);
  }

  #take(): boolean {
    this.#refill();
    if (this.#tokens < 1 || this.#countedAt > this.#now()) return false;
    this.#tokens -= 1;
    return true;
  }

  #refill(): void {
    const elapsedMs = this.#now() - this.#countedAt;
    if (elapsedMs <= 0) return;
    this.#tokens = Math.min(this.#burst, this.#tokens + elapsedMs * this.#perMs);
    this.#countedAt += elapsedMs;
  }

  /** One timer for the whole queue, set for the time when its head can be admitted. */
  #wake(): void {
    if (this.#timer !== undefined) return;
    const missingMs = Math.max(0, 1 - this.#tokens) / this.#perMs;
    const waitMs = this.#countedAt + missingMs - this.#now();
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        for (const caller of this.#line) {
          if (!this.#take()) break;
          caller.admit();
        }
        if (this.#line.size > 0) this.#wake();
      },
      Math.max(1, Math.ceil(waitMs)),
    );
  }
}

/**
 * Limits the calls in flight. A call waits for a free place; free places are given round robin by share, and no share
 * can occupy all of them, so that calls of one namespace never keep those of another from the server.
 */
export class Places {
  readonly #places: number;
  readonly #line = new FairLine<Waiting>();
  readonly #held = new Map<string, number>();
  #taken = 0;

  constructor(places: number) {
    this.#places = places;
  }

  /** How many calls wait for a place. */
  get waiting(): number {
    return this.#line.size;
  }

  /** Resolves with a function that frees the place, to be called once; rejects with the signal's reason. */
  take(share: string, signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#line.delete(share, waiting);
        reject(signal.reason);
      };
      const waiting: Waiting = {
        share,
        admit: () => {
          signal.removeEventListener('abort', onAbort);
          resolve(() => this.#giveBack(share));
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#line.add(share, waiting);
      this.#fill();
    });
  }

  #giveBack(share: string): void {
    const held = (this.#held.get(share) ?? 1) - 1;
    if (held > 0) this.#held.set(share, held);
    else this.#held.delete(share);
    this.#taken -= 1;
    this.#fill();
  }

  #fill(): void {
    const most = mostOfOneShare(this.#places);
    while (this.#taken < this.#places) {
      const next = this.#line.take({ share: (share) => (this.#held.get(share) ?? 0) < most });
      if (next === undefined) return;
      this.#taken += 1;
      this.#held.set(next.share, (this.#held.get(next.share) ?? 0) + 1);
      next.admit();
    }
  }
}

interface Waiting {
  readonly share: string;
  readonly admit: () => void;
}
