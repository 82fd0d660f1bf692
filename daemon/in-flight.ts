import type { ActRun, Attachment, SingleActs } from '../activities/cri/single-act.ts';

/** How many outcomes are kept for callers that come back late. */
const remembered = 1_000;

interface Act<Outcome, Progress> {
  readonly outcome: Promise<Outcome>;
  /** All operations that have waited for it: each may come back and ask for the outcome. */
  readonly operations: Set<string>;
  attached: number;
  progress: Progress | undefined;
}

/**
 * Deduplicates concurrent acts by key: later callers join the act that is in progress, and no caller can cancel it. An
 * operation that was disconnected when its act ended still gets the outcome, so a lost connection neither repeats an
 * act nor hides its outcome. Acts of one lane run one after the other.
 */
export class InFlight<Outcome, Progress> implements SingleActs<Outcome, Progress> {
  readonly #acts = new Map<string, Act<Outcome, Progress>>();
  readonly #outcomes = new Map<string, Outcome>();
  /** The end of the last act of each lane. */
  readonly #lanes = new Map<string, Promise<void>>();

  join(
    key: string,
    { operation, lane }: { readonly operation: string; readonly lane: string },
    begin: (run: ActRun<Progress>) => Promise<Outcome>,
  ): Attachment<Outcome, Progress> {
    const settled = this.#outcomes.get(memory(key, operation));
    if (settled !== undefined) {
      return { outcome: Promise.resolve(settled), progress: () => undefined, leave: () => undefined };
    }

    const act = this.#acts.get(key) ?? this.#begin(key, lane, begin);
    act.operations.add(operation);
    act.attached += 1;
    let left = false;
    return {
      outcome: act.outcome,
      progress: () => act.progress,
      leave: () => {
        if (!left) act.attached -= 1;
        left = true;
      },
    };
  }

  /** How many are in progress. */
  get size(): number {
    return this.#acts.size;
  }

  /** Resolves when nothing is in progress. */
  async idle(): Promise<void> {
    while (this.#acts.size > 0) {
      await Promise.allSettled([...this.#acts.values()].map((act) => act.outcome));
    }
  }

  #begin(key: string, lane: string, begin: (run: ActRun<Progress>) => Promise<Outcome>): Act<Outcome, Progress> {
    const settled = Promise.withResolvers<Outcome>();
    const act: Act<Outcome, Progress> = {
      outcome: settled.promise,
      operations: new Set(),
      attached: 0,
      progress: undefined,
    };
    this.#acts.set(key, act);
    // All callers may have left when it fails; the failure is then ignored.
    act.outcome.catch(() => undefined);

    const report = (progress: Progress) => {
      act.progress = progress;
    };
    // After the first `attached`: otherwise a fast act would find no caller.
    const turn = this.#lanes.get(lane) ?? Promise.resolve();
    const over = Promise.withResolvers<void>();
    this.#lanes.set(lane, over.promise);
    turn
      .then(() => begin({ wanted: () => act.attached > 0, report }))
      .then(
        (outcome) => {
          this.#acts.delete(key);
          for (const operation of act.operations) this.#remember(memory(key, operation), outcome);
          settled.resolve(outcome);
        },
        (error: unknown) => {
          this.#acts.delete(key);
          settled.reject(error);
        },
      )
      .finally(() => {
        if (this.#lanes.get(lane) === over.promise) this.#lanes.delete(lane);
        over.resolve();
      });
    return act;
  }

  #remember(key: string, outcome: Outcome): void {
    this.#outcomes.set(key, outcome);
    for (const oldest of this.#outcomes.keys()) {
      if (this.#outcomes.size <= remembered) return;
      this.#outcomes.delete(oldest);
    }
  }
}

function memory(key: string, operation: string): string {
  return `${key}\n${operation}`;
}
