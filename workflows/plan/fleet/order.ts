/**
 * The order of pods: by value, by priority, scattered (CS-50…54).
 *
 * By default the least valuable pods come first. A priority sorts that list again, keeping the order of equal ones;
 * then each scatter term spreads its pods over the list; and pods that wait for their update already come before all
 * others.
 *
 * Of more terms than a workload may have the first ones are used, so that a workload that was stored with them does not
 * block others.
 */

import { entryOf } from '../../../api/base/json.ts';
import { compareGoStrings } from '../../../api/base/json-go.ts';
import { labelMatcher } from '../../../api/core/label-selector.ts';
import { mostTerms, type UpdateOrder } from '../../../api/fleet/update-order.ts';
import { type AlikePods, type FleetPod, isPodReady, rankOf, readySinceMs } from './pods.ts';

/** Negative: the first argument comes first. */
export type PodOrder = (left: FleetPod, right: FleetPod) => number;

/** Compares by these orders, one after the other, until one of them decides. */
export function inOrder(...orders: readonly PodOrder[]): PodOrder {
  return (left, right) => {
    for (const order of orders) {
      const difference = order(left, right);
      if (difference !== 0) return difference;
    }
    return 0;
  };
}

/** Pods for which the claim is true come first. */
export function first(claim: (pod: FleetPod) => boolean): PodOrder {
  return (left, right) => Number(claim(right)) - Number(claim(left));
}

/** Pods that are least far in their start first: without a node, then by phase. */
export const byProgress: PodOrder = inOrder(
  first(({ pod }) => !pod.spec.nodeName),
  (left, right) => rankOf(left.pod).phase - rankOf(right.pod).phase,
);

/** Pods that the kubelet reports as not ready first. */
export const unreadyFirst: PodOrder = first(({ pod }) => !isPodReady(pod));

/** Of ready pods those that became ready last first; then those with more restarts, then the newer ones. */
export const byService: PodOrder = inOrder(
  (left, right) =>
    isPodReady(left.pod) && isPodReady(right.pod) ? laterFirst(readySinceMs(left.pod), readySinceMs(right.pod)) : 0,
  (left, right) => rankOf(right.pod).restarts - rankOf(left.pod).restarts,
  (left, right) => laterFirst(rankOf(left.pod).createdAtMs, rankOf(right.pod).createdAtMs),
  // Pods that are equal otherwise are ordered by name, so that every pass decides the same.
  (left, right) => compareGoStrings(left.name, right.name),
);

function laterFirst(left: number | undefined, right: number | undefined): number {
  if (left === right) return 0;
  if (left === undefined) return -1;
  return right === undefined ? 1 : right - left;
}

/**
 * The order in which these candidates are updated. Scattering also looks at `all` pods of the workload, and at those that
 * are to be created (`coming`).
 */
export function updateOrder(
  candidates: readonly FleetPod[],
  all: readonly FleetPod[],
  strategy: UpdateOrder,
  { coming = [], byDefault = byWorth }: { readonly coming?: readonly AlikePods[]; readonly byDefault?: PodOrder } = {},
): readonly FleetPod[] {
  const sorted = candidates.toSorted(byDefault).toSorted(byPriority(strategy.priorityStrategy));
  const scattered = scatterTerms(strategy, sorted).reduce<readonly FleetPod[]>(
    (pods, term) => scatter(pods, { all, coming }, term),
    sorted,
  );
  const isPreparing = ({ state }: FleetPod) => state === 'PreparingUpdate';
  return [...scattered.filter(isPreparing), ...scattered.filter((pod) => !isPreparing(pod))];
}

/** CS-51. */
export const byWorth: PodOrder = inOrder(byProgress, unreadyFirst, byService);

function byPriority(strategy: UpdateOrder['priorityStrategy']): PodOrder {
  const weights = (strategy?.weightPriority ?? []).slice(0, mostTerms);
  const keys = (strategy?.orderPriority ?? []).slice(0, mostTerms).map(({ orderedKey }) => orderedKey);
  if (weights.length > 0) {
    const terms = weights.map(({ weight, matchSelector }) => ({ weight, matches: labelMatcher(matchSelector) }));
    // CS-52
    const weightOf = onceEach(({ pod }: FleetPod) =>
      terms.reduce((sum, { weight, matches }) => sum + (matches?.(pod.metadata.labels) ? weight : 0), 0),
    );
    return (left, right) => weightOf(right) - weightOf(left);
  }
  // CS-53: pods with none of the keys have the level -1, so they come first
  const levelOf = onceEach(({ pod }: FleetPod) =>
    keys.findIndex((key) => entryOf(pod.metadata.labels, key) !== undefined),
  );
  const numberOf = (pod: FleetPod) => numberAtEnd(entryOf(pod.pod.metadata.labels, keys[levelOf(pod)] ?? '') ?? '');
  return inOrder(
    (left, right) => levelOf(left) - levelOf(right),
    (left, right) => numberOf(right) - numberOf(left),
  );
}

/** Caches the function per item: a sort compares each item many times. */
function onceEach<Item>(ask: (item: Item) => number): (item: Item) => number {
  const answers = new Map<Item, number>();
  return (item) => {
    const answer = answers.get(item) ?? ask(item);
    answers.set(item, answer);
    return answer;
  };
}

function numberAtEnd(text: string): number {
  const number = Number(/\d+$/.exec(text)?.[0] ?? 0);
  // OpenKruise ignores numbers that do not fit into 64 bits.
  return number < 2 ** 63 ? number : 0;
}

interface ScatterTerm {
  readonly key: string;
  readonly value: string;
}

/** CS-54: of several terms, those that match more candidates come first. */
function scatterTerms(
  { scatterStrategy = [] }: Pick<UpdateOrder, 'scatterStrategy'>,
  candidates: readonly FleetPod[],
): readonly ScatterTerm[] {
  const matching = onceEach((term: ScatterTerm) => candidates.filter((pod) => matches(pod, term)).length);
  return scatterStrategy.slice(0, mostTerms).toSorted((left, right) => matching(right) - matching(left));
}

function matches({ pod }: FleetPod, { key, value }: ScatterTerm): boolean {
  return (entryOf(pod.metadata.labels, key) ?? '') === value;
}

/** CS-54: the candidates with those of one term apart from each other. */
function scatter(
  candidates: readonly FleetPod[],
  { all, coming }: { readonly all: readonly FleetPod[]; readonly coming: readonly AlikePods[] },
  term: ScatterTerm,
): readonly FleetPod[] {
  const matched = candidates.filter((pod) => matches(pod, term));
  const others = candidates.filter((pod) => !matches(pod, term));
  const last = matched.pop();
  if (last === undefined || matched.length === 0 || others.length <= 1) return candidates;

  const ofAll = all.filter((pod) => matches(pod, term)).length + sizeOf(coming.filter(({ pod }) => matches(pod, term)));
  const total = { matched: ofAll - 1, others: all.length + sizeOf(coming) - ofAll };
  const { groups, sizes, ahead } = grouping({ matched: matched.length, others: others.length }, total);
  const order = others.splice(0, ahead);
  for (let group = 0; group < groups; group++) {
    order.push(...matched.splice(0, sizes.matched), ...others.splice(0, sizes.others));
  }
  return [...order, ...matched, ...others, last];
}

function sizeOf(pods: readonly AlikePods[]): number {
  return pods.reduce((sum, { count }) => sum + count, 0);
}

interface Counts {
  readonly matched: number;
  readonly others: number;
}

/**
 * The number of groups, their sizes, and how many of the others come before all groups. If the candidates are sparser
 * than in the whole workload, its density is used: then the beginning of the roll-out had fewer of them, and the rest
 * should not.
 */
function grouping(
  candidates: Counts,
  all: Counts,
): { readonly groups: number; readonly sizes: Counts; readonly ahead: number } {
  if (Math.fround(all.others / all.matched) >= Math.fround(candidates.others / candidates.matched)) {
    return { groups: Math.min(candidates.matched, candidates.others), sizes: groupSizes(candidates), ahead: 0 };
  }
  const sizes = groupSizes(all);
  const groups = Math.min(Math.floor(candidates.matched / sizes.matched), Math.floor(candidates.others / sizes.others));
  return { groups, sizes, ahead: candidates.others - groups * sizes.others };
}

function groupSizes({ matched, others }: Counts): Counts {
  const groups = Math.min(matched, others);
  return { matched: Math.round(matched / groups), others: Math.round(others / groups) };
}
