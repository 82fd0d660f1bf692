import type { LabelSelector } from '../../../api/core/label-selector.ts';
import { isActive, type Pod } from '../../../api/core/pod.ts';
import type { PodUnavailableBudget } from '../../../api/pod-unavailable-budget/types.ts';
import type { Cache, Change } from '../../../kube/cache.ts';
import { selection } from '../../../plan/pod-unavailable-budget/association.ts';
import { inNamespace } from '../../fleet/owned.ts';

/** The pods of these labels; absent: every pod of the namespace. */
type Selector = LabelSelector | undefined;

interface Candidates {
  /** As text, to tell whether it is another one. */
  readonly selector: string;
  readonly selects: (labels: Pod['metadata']['labels']) => boolean;
  /** Their UIDs. */
  readonly pods: Set<string>;
}

/**
 * The active pods that budgets may concern by their labels, whether they are stamped or not. The pods of a namespace are
 * looked at once for each selector, and from then on only as they change.
 */
export class CandidatePods {
  readonly #pods: Pick<Cache<Pod>, 'byIndex' | 'byUid'>;
  /** By UID of the budget. */
  readonly #known = new Map<string, Candidates>();

  /** The cache needs `namespaceIndex`. */
  constructor(pods: Pick<Cache<Pod>, 'byIndex' | 'byUid'>) {
    this.#pods = pods;
  }

  /** The candidates of a budget by its selector, or by that of the pods of its target. */
  of({ metadata: { uid, namespace = '' } }: PodUnavailableBudget, selector: Selector): readonly Pod[] {
    const text = JSON.stringify(selector ?? 'all');
    const known = this.#known.get(uid);
    if (known?.selector === text) return [...known.pods].flatMap((podUid) => this.#pods.byUid(podUid) ?? []);
    const selects = selector === undefined ? () => true : selection(selector);
    const pods = inNamespace(this.#pods, namespace).filter((pod) => isActive(pod) && selects(pod.metadata.labels));
    this.#known.set(uid, { selector: text, selects, pods: new Set(pods.map(({ metadata }) => metadata.uid)) });
    return pods;
  }

  /** Takes note of a change of a pod in the namespace of a budget. Whether the budget may count otherwise for it. */
  saw({ metadata }: PodUnavailableBudget, { before, after }: Change<Pod>, isSame: boolean): boolean {
    const known = this.#known.get(metadata.uid);
    if (known === undefined) return !isSame;
    const uid = (after ?? before)?.metadata.uid ?? '';
    const was = known.pods.has(uid);
    const is = after !== undefined && isActive(after) && known.selects(after.metadata.labels);
    if (is) known.pods.add(uid);
    else known.pods.delete(uid);
    return was !== is || (is && !isSame);
  }

  forget(budgetUid: string): void {
    this.#known.delete(budgetUid);
  }
}
