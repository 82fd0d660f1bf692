import { type PodUnavailableBudget, podUnavailableBudgets } from '../../api/pod-unavailable-budget/types.ts';
import type { KubeClient, Page } from '../../kube/client.ts';
import { onceMore } from './look-ups.ts';
import { LookUpFailed } from './review.ts';

/** What the review of a PodUnavailableBudget reads from the API server. Failures reject with LookUpFailed. */
export interface BudgetLookUps {
  /** All of a namespace in the stored version, page by page, of which the reader keeps none. */
  inNamespace(namespace: string, signal: AbortSignal): AsyncIterable<readonly PodUnavailableBudget[]>;
}

const pageSize = 100;
/** Of one page, as JSON: selectors and the pods of a status can be long. */
const pageBytes = 64 * 1024 * 1024;

/** Reads without a cache: two budgets that are applied one after the other must see each other. */
export function budgetLookUpsIn(client: Pick<KubeClient, 'list'>): BudgetLookUps {
  return {
    async *inNamespace(namespace, signal) {
      let next: string | undefined;
      do {
        const options = { namespace, limit: pageSize, continue: next, maxBytes: pageBytes, signal };
        const page: Page<PodUnavailableBudget> = await onceMore(signal, () =>
          client.list<PodUnavailableBudget>(podUnavailableBudgets, options),
        ).catch((error: unknown) => {
          const why = error instanceof Error ? error.message : String(error);
          throw new LookUpFailed(`Cannot look up the PodUnavailableBudgets of namespace "${namespace}": ${why}`);
        });
        yield page.items;
        next = page.continue;
      } while (next !== undefined);
    },
  };
}
