/** The steps of objects that have failed, and when each is tried again. */

/** First and longest pause after a step has failed; it doubles in between and is spread at random. */
const backOffMs = { first: 200, most: 300_000 } as const;

/** A step that has failed and not succeeded since. */
export interface FailedStep<Step> {
  readonly step: Step;
  readonly error: unknown;
  /** So often in a row. */
  readonly attempts: number;
  /** When it is tried again; by the clock of `performance.now()`. */
  readonly retryAtMs: number;
}

/** What became of the steps of one pass. */
export interface StepResults<Step> {
  readonly done: readonly { readonly step: Step; readonly isChange: boolean }[];
  readonly failures: readonly { readonly step: Step; readonly error: unknown }[];
}

/** Steps of one key fail together: after one of them has failed, the others wait for its next try. */
export class FailedSteps<Step> {
  readonly #keyOf: (step: Step) => string;
  /** By object and by the key of the steps. */
  readonly #failed = new Map<string, ReadonlyMap<string, FailedStep<Step>>>();

  constructor(keyOf: (step: Step) => string) {
    this.#keyOf = keyOf;
  }

  /** What has failed of this object and is still wanted, the longest first. */
  of(uid: string): readonly FailedStep<Step>[] {
    return [...(this.#failed.get(uid)?.values() ?? [])];
  }

  has(uid: string): boolean {
    return this.#failed.has(uid);
  }

  /** Whether the step has failed and not succeeded since. */
  hasFailed(uid: string, step: Step): boolean {
    return this.#failed.get(uid)?.has(this.#keyOf(step)) === true;
  }

  /** How often the step has failed in a row. */
  attemptsOf(uid: string, step: Step): number {
    return this.#failed.get(uid)?.get(this.#keyOf(step))?.attempts ?? 0;
  }

  /** The object is gone. */
  forget(uid: string): void {
    this.#failed.delete(uid);
  }

  /** The longest pause that may follow if all fails once more what has failed of this object; 0: nothing has. */
  longestPauseMs(uid: string): number {
    return Math.max(0, ...this.of(uid).map(({ attempts }) => longestPauseMs(attempts + 1)));
  }

  /** Whether the step has not failed, or its time to be tried again has come. */
  isDue(uid: string, step: Step): boolean {
    const failed = this.#failed.get(uid)?.get(this.#keyOf(step));
    return failed === undefined || failed.retryAtMs <= performance.now();
  }

  /** What has failed is tried again at once, and then as if for the first time. */
  forgive(uid: string): void {
    const failed = this.#failed.get(uid);
    if (failed === undefined) return;
    const forgiven = { attempts: 0, retryAtMs: Number.NEGATIVE_INFINITY };
    this.#failed.set(uid, new Map([...failed].map(([key, one]) => [key, { ...one, ...forgiven }])));
  }

  /** Keeps what has failed now, and of what failed before that which is still planned and was not done. Answers what is kept. */
  note(uid: string, planned: readonly Step[], { done, failures }: StepResults<Step>): readonly FailedStep<Step>[] {
    const before = this.#failed.get(uid);
    if (before === undefined && failures.length === 0) return [];
    const succeeded = new Set(done.map(({ step }) => this.#keyOf(step)));
    const changed = new Set(done.filter(({ isChange }) => isChange).map(({ step }) => this.#keyOf(step)));
    const after = new Map<string, FailedStep<Step>>();
    for (const { step, error } of failures) {
      const key = this.#keyOf(step);
      // Where others of its kind have succeeded just now, the next pass tries it again.
      const attempts = changed.has(key) ? 0 : (before?.get(key)?.attempts ?? 0) + 1;
      const pauseMs = attempts === 0 ? 0 : longestPauseMs(attempts) * (0.5 + Math.random() / 2);
      if (!after.has(key)) after.set(key, { step, error, attempts, retryAtMs: performance.now() + pauseMs });
    }
    const wanted = new Set(planned.map((step) => this.#keyOf(step)));
    for (const [key, known] of before ?? []) {
      if (wanted.has(key) && !succeeded.has(key) && !after.has(key)) after.set(key, known);
    }
    if (after.size > 0) this.#failed.set(uid, after);
    else this.#failed.delete(uid);
    return [...after.values()];
  }
}

function longestPauseMs(attempts: number): number {
  return Math.min(backOffMs.first * 2 ** (attempts - 1), backOffMs.most);
}

/** What an error says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
