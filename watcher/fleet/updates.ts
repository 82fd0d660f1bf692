/** What has become of the updates of the pods of one object: which were refused, and which got no answer (P-7). */
import { mayBeMade } from '../../kube/moved-on.ts';
import type { Trials } from '../../plan/fleet/permit.ts';
import type { StepResults } from './failed-steps.ts';
import type { StepPod, UpdateInStep } from './kind.ts';
import { isRefused, RefusedPods } from './refused-pods.ts';
import { UnansweredUpdates } from './unanswered-updates.ts';

type Failures<Step> = StepResults<Step>['failures'];

export interface UpdatesOptions<Step> {
  /** The pod whose update a step is, begins, or tries. */
  readonly updateIn: (step: Step) => UpdateInStep | undefined;
  /** How often a step has failed in a row. */
  readonly attemptsOf: (step: Step) => number;
}

export class Updates<Step> {
  readonly #options: UpdatesOptions<Step>;
  readonly #unanswered = new UnansweredUpdates();
  readonly refused: RefusedPods = new RefusedPods();

  constructor(options: UpdatesOptions<Step>) {
    this.#options = options;
  }

  /** Whether nothing is known of any pod. */
  get isEmpty(): boolean {
    return this.refused.isEmpty && this.#unanswered.isEmpty;
  }

  /** Pods of which an update may still be made. */
  podsInDoubt(): readonly StepPod[] {
    return this.#unanswered.pods();
  }

  /** Whether an update is not sent any more, as its requests got no answer. */
  isWaitedOut(step: Step): boolean {
    const update = this.#options.updateIn(step);
    return update !== undefined && this.#unanswered.isWaitedOut(update.pod.uid, update.revision);
  }

  /** Whether the API server has refused an update, so that its pod is given back. */
  isGivenBack(step: Step, error: unknown): boolean {
    const { updateIn, attemptsOf } = this.#options;
    return updateIn(step) !== undefined && isRefused(error, attemptsOf(step) + 1);
  }

  /**
   * The planned updates of which no request got an answer, and none can be made any more, as the API server shows. What is not
   * planned any more is forgotten then. `catchUp` answers whether the caches show what has happened. Undefined: nothing is over.
   */
  async lost(planned: readonly Step[], catchUp: () => Promise<boolean>): Promise<Failures<Step> | undefined> {
    const over = this.#unanswered.over();
    if (over.size === 0) return undefined;
    if (!(await catchUp())) {
      this.#unanswered.waitAgain([...over.keys()]);
      return undefined;
    }
    for (const uid of over.keys()) this.#unanswered.settle(uid);
    return planned.flatMap((step) => {
      const { pod, revision } = this.#options.updateIn(step) ?? {};
      const lost = over.get(pod?.uid ?? '');
      return lost && lost.revision === revision ? [{ step, error: lost.error }] : [];
    });
  }

  /**
   * Takes in which pods were updated, and separates the updates that the API server has refused from what has failed otherwise;
   * those that were `lost` are refused as well. `notBegun` is told of pods whose update could not be begun.
   */
  note(
    { done, failures }: StepResults<Step>,
    lost: Failures<Step>,
    notBegun: (uid: string) => void,
  ): { readonly refused: Failures<Step>; readonly failures: Failures<Step> } {
    const { updateIn } = this.#options;
    for (const { step, error } of [...failures, ...lost]) {
      const update = updateIn(step);
      if (update === undefined) continue;
      const { pod, revision } = update;
      const isUnanswered = mayBeMade(error) && !lost.some((one) => one.step === step);
      if (isUnanswered) this.#unanswered.note(pod, revision, { error, isLast: this.refused.knows(pod.uid) });
      else notBegun(pod.uid);
    }
    const { refused: answered = [], failed = [] } = Object.groupBy(failures, ({ step, error }) =>
      this.isGivenBack(step, error) ? 'refused' : 'failed',
    );
    const refused = [...answered, ...lost];
    const updated = done.flatMap(({ step, isChange }) => {
      const update = isChange ? updateIn(step) : undefined;
      return update?.isWhole ? [update] : [];
    });
    const given = refused.flatMap(({ step, error }) => {
      const update = updateIn(step);
      return update ? [{ ...update, error }] : [];
    });
    for (const { pod } of updated) this.#unanswered.settle(pod.uid);
    const [first] = [...given, ...updated];
    if (first) this.refused.note(first.revision, { done: updated.map(({ pod }) => pod), refused: given });
    return { refused, failures: failed };
  }

  /** Makes dry runs of refused updates, and resolves when they have ended. Undefined: there are none. */
  tryOut(trials: Trials<Step> | undefined, dryRun: (step: Step) => Promise<unknown>): Promise<void> | undefined {
    return this.refused.tryOut(
      (trials?.steps ?? []).flatMap((step) => {
        const update = this.#options.updateIn(step);
        return update ? [{ ...update, dryRun: () => dryRun(step) }] : [];
      }),
    );
  }

  /** When to look again: dry runs are due, `more` of them, or what got no answer cannot be made any more. */
  duesInMs(more: boolean): readonly (number | undefined)[] {
    return [this.refused.dueInMs(more), this.#unanswered.dueInMs()];
  }
}
