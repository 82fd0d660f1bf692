import { setTimeout as timeout } from 'node:timers/promises';
import type { PullBytes } from '../activities/cri/image-runtime.ts';
import type { PullAttachment, PullRun, SharedPulls } from '../activities/cri/pull.ts';
import type { PullResult } from '../activities/cri/pull-contract.ts';

/** A pull without callers continues for this long, so that a caller that comes back can join it. */
const lingerMs = 3_000;

interface Pull {
  readonly operations: Set<string>;
  readonly abandon: AbortController;
  readonly outcome: Promise<PullResult>;
  attached: number;
  begun: boolean;
  bytes?: PullBytes;
}

/**
 * The pulls of one node. Each reference is pulled at most once at a time, and the total number is limited by slots: a
 * node that pulls many images keeps capacity for restarts, and its registry for other nodes.
 */
export class NodePulls implements SharedPulls {
  readonly #slots: number;
  readonly #lingerMs: number;
  readonly #pulls = new Map<string, Pull>();
  readonly #queue: (() => void)[] = [];
  #running = 0;

  constructor(options: { readonly slots: number; readonly lingerMs?: number }) {
    this.#slots = options.slots;
    this.#lingerMs = options.lingerMs ?? lingerMs;
  }

  /** How many pulls run, and how many wait for a slot. */
  get counts(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running, waiting: this.#queue.length };
  }

  join(
    reference: string,
    who: { readonly operation: string; readonly share: boolean },
    begin: (run: PullRun) => Promise<PullResult>,
  ): PullAttachment {
    let current: Pull | undefined;
    let left = false;
    const leave = (): void => {
      left = true;
      if (current) this.#leave(current);
      current = undefined;
    };
    const attach = (pull: Pull): void => {
      pull.attached += 1;
      pull.operations.add(who.operation);
      current = pull;
    };
    const take = async (): Promise<PullResult> => {
      for (;;) {
        const found = this.#pulls.get(reference);
        if (found === undefined) {
          const own = this.#begin(reference, begin);
          attach(own);
          return await own.outcome;
        }
        const joins = !found.abandon.signal.aborted && (who.share || found.operations.has(who.operation));
        if (!joins) {
          await found.outcome.catch(() => undefined);
          if (left) return abandoned;
          continue;
        }
        const isOwn = found.operations.has(who.operation);
        attach(found);
        const outcome = await found.outcome;
        // the other pull may have failed for lack of the credentials that this caller has
        if (outcome.kind !== 'failed' || isOwn || left) return outcome;
        this.#detach(found);
        current = undefined;
      }
    };
    const outcome = take();
    // a caller that has left does not receive the failure
    outcome.catch(() => undefined);
    return { outcome, hasBegun: () => current?.begun ?? false, bytes: () => current?.bytes, leave };
  }

  #begin(reference: string, begin: (run: PullRun) => Promise<PullResult>): Pull {
    const settled = Promise.withResolvers<PullResult>();
    const abandon = new AbortController();
    const pull: Pull = { operations: new Set(), abandon, outcome: settled.promise, attached: 0, begun: false };
    pull.outcome.catch(() => undefined);
    this.#pulls.set(reference, pull);
    const run = async (): Promise<PullResult> => {
      if (!(await this.#slot(abandon.signal))) return abandoned;
      pull.begun = true;
      try {
        const tell = (bytes: PullBytes) => {
          pull.bytes = bytes;
        };
        return await begin({ signal: abandon.signal, tell });
      } finally {
        this.#running -= 1;
        this.#queue.shift()?.();
      }
    };
    const end = () => this.#pulls.delete(reference);
    run().then(
      (outcome) => {
        end();
        settled.resolve(outcome);
      },
      (error: unknown) => {
        end();
        settled.reject(error);
      },
    );
    return pull;
  }

  /** Waits for a slot; false when no caller needs the pull any more. */
  async #slot(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      if (this.#running < this.#slots) {
        this.#running += 1;
        return true;
      }
      const turn = Promise.withResolvers<void>();
      this.#queue.push(turn.resolve);
      signal.addEventListener('abort', () => turn.resolve(), { once: true });
      await turn.promise;
      const place = this.#queue.indexOf(turn.resolve);
      if (place >= 0) this.#queue.splice(place, 1);
    }
    // the slot was meant for a pull, so the next one in the queue gets it
    this.#queue.shift()?.();
    return false;
  }

  #detach(pull: Pull): void {
    pull.attached -= 1;
  }

  #leave(pull: Pull): void {
    this.#detach(pull);
    if (pull.attached > 0) return;
    void timeout(this.#lingerMs, undefined, { ref: false }).then(() => {
      if (pull.attached === 0) pull.abandon.abort();
    });
  }
}

const abandoned: PullResult = {
  kind: 'failed',
  failure: 'cancelled',
  final: false,
  message: 'the pull was abandoned',
};
