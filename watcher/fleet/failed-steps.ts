/** The steps of objects that have failed, and when each is tried again. */

/** First and longest pause after a step has failed; it doubles in between and is spread at random. */
const backOffMs = { first: 200, most: 300_000 } as const;

/** So long after its next try was due a step that nobody plans is remembered, where steps are set aside. */
const rememberedMs = 600_000;

/** A step that has failed and not succeeded since. */
export interface FailedStep<Step> {
  readonly step: Step;
  readonly error: unknown;
  /** So often in a row. */
  readonly attempts: number;
  /** When it is tried again; by the clock of `performance.now()`. */
  readonly retryAtMs: number;
  /** Until then it is not to be planned: what has failed so often makes room for others. */
  readonly isAside: boolean;
}

/** What became of the steps of one pass. */
export interface StepResults<Step> {
  readonly done: readonly { readonly step: Step; readonly isChange: boolean }[];
  readonly failures: readonly { readonly step: Step; readonly error: unknown }[];
}

/** Steps of one key fail together: after one of them has failed, the others wait for its next try. */
export class FailedSteps<Step> {
  readonly #keyOf: (step: Step) => string;
  readonly #asideForMs: ((error: unknown, attempts: number) => number | undefined) | undefined;
  /** By object and by the key of the steps. */
  readonly #failed = new Map<string, ReadonlyMap<string, FailedStep<Step>>>();

  /**
   * `asideForMs`: for how long a step is set aside that has failed so often in a row; undefined: it is not. Where there is
   * such a function, a step that is not planned for a time is remembered, so that it does not begin from the first try.
   */
  constructor(keyOf: (step: Step) => string, asideForMs?: (error: unknown, attempts: number) => number | undefined) {
    this.#keyOf = keyOf;
    this.#asideForMs = asideForMs;
  }

  /** What has failed of this object and is still wanted, or remembered, the longest first. */
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
    const pauseMs = ({ isAside, retryAtMs, attempts }: FailedStep<Step>) =>
      isAside ? retryAtMs - performance.now() : longestPauseMs(attempts + 1);
    return Math.max(0, ...this.of(uid).map(pauseMs));
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
    const forgiven = { attempts: 0, retryAtMs: Number.NEGATIVE_INFINITY, isAside: false };
    this.#failed.set(uid, new Map([...failed].map(([key, one]) => [key, { ...one, ...forgiven }])));
  }

  /**
   * Keeps what has failed now, and of what failed before that which is still planned, or remembered, and was not done.
   * Answers what is planned and not set aside, and all else.
   */
  note(uid: string, planned: readonly Step[], { done, failures }: StepResults<Step>): NotedFailures<Step> {
    const before = this.#failed.get(uid);
    if (before === undefined && failures.length === 0) return { planned: [], others: [] };
    const succeeded = new Set(done.map(({ step }) => this.#keyOf(step)));
    const changed = new Set(done.filter(({ isChange }) => isChange).map(({ step }) => this.#keyOf(step)));
    const after = new Map<string, FailedStep<Step>>();
    for (const { step, error } of failures) {
      const key = this.#keyOf(step);
      // Where others of its kind have succeeded just now, the next pass tries it again.
      const attempts = changed.has(key) ? 0 : (before?.get(key)?.attempts ?? 0) + 1;
      const asideMs = this.#asideForMs?.(error, attempts);
      const pauseMs = attempts === 0 ? 0 : longestPauseMs(attempts) * (0.5 + Math.random() / 2);
      const retryAtMs = performance.now() + (asideMs ?? pauseMs);
      if (!after.has(key)) after.set(key, { step, error, attempts, retryAtMs, isAside: asideMs !== undefined });
    }
    const wanted = new Set([...planned, ...failures.map(({ step }) => step)].map((step) => this.#keyOf(step)));
    for (const [key, known] of before ?? []) {
      const isKept = wanted.has(key) || (this.#asideForMs && known.retryAtMs + rememberedMs > performance.now());
      if (isKept && !succeeded.has(key) && !after.has(key)) after.set(key, known);
    }
    if (after.size > 0) this.#failed.set(uid, after);
    else this.#failed.delete(uid);
    const isTried = (key: string, { isAside }: FailedStep<Step>) => wanted.has(key) && !isAside;
    const noted = [...after];
    return {
      planned: noted.flatMap(([key, one]) => (isTried(key, one) ? [one] : [])),
      others: noted.flatMap(([key, one]) => (isTried(key, one) ? [] : [one])),
    };
  }
}

/** What has failed of an object, as of a pass. */
export interface NotedFailures<Step> {
  /** What is tried again as long as it is planned. */
  readonly planned: readonly FailedStep<Step>[];
  /** What is set aside, or not planned now. */
  readonly others: readonly FailedStep<Step>[];
}

function longestPauseMs(attempts: number): number {
  return Math.min(backOffMs.first * 2 ** (attempts - 1), backOffMs.most);
}

/** What an error says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
