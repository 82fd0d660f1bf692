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

import { entryOf } from '../../api/base/json.ts';
import { compareGoStrings } from '../../api/base/json-go.ts';
import { labelMatcher } from '../../api/core/label-selector.ts';
import { mostTerms, type UpdateOrder } from '../../api/fleet/update-order.ts';
import { type FleetPod, isPodReady, rankOf, readySinceMs } from './pods.ts';
import { scatter } from './scatter.ts';

/** What of a pod its place depends on. */
export type RankedPod = Pick<FleetPod, 'pod' | 'name'>;

/** Negative: the first argument comes first. */
export type PodOrder<Of = FleetPod> = (left: Of, right: Of) => number;

/** Compares by these orders, one after the other, until one of them decides. */
export function inOrder<Of = FleetPod>(...orders: readonly PodOrder<Of>[]): PodOrder<Of> {
  return (left, right) => {
    for (const order of orders) {
      const difference = order(left, right);
      if (difference !== 0) return difference;
    }
    return 0;
  };
}

/** Pods for which the claim is true come first. */
export function first<Of = FleetPod>(claim: (pod: Of) => boolean): PodOrder<Of> {
  return (left, right) => Number(claim(right)) - Number(claim(left));
}

/** Pods that are least far in their start first: without a node, then by phase. */
export const byProgress: PodOrder<RankedPod> = inOrder<RankedPod>(
  first(({ pod }) => !pod.spec.nodeName),
  (left, right) => rankOf(left.pod).phase - rankOf(right.pod).phase,
);

/** Pods that the kubelet reports as not ready first. */
export const unreadyFirst: PodOrder<RankedPod> = first(({ pod }) => !isPodReady(pod));

/** Of ready pods those that became ready last first; then those with more restarts, then the newer ones. */
export const byService: PodOrder<RankedPod> = inOrder<RankedPod>(
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

/** The order in which these candidates are updated. Scattering also looks at `all` pods of the workload. */
export function updateOrder(
  candidates: readonly FleetPod[],
  all: readonly FleetPod[],
  strategy: UpdateOrder,
  { byDefault = byWorth }: { readonly byDefault?: PodOrder } = {},
): readonly FleetPod[] {
  const sorted = candidates.toSorted(byDefault).toSorted(byPriority(strategy.priorityStrategy));
  const scattered = scatter(sorted, (strategy.scatterStrategy ?? []).slice(0, mostTerms), {
    labelValue,
    all,
  });
  const isPreparing = ({ state }: FleetPod) => state === 'PreparingUpdate';
  return [...scattered.filter(isPreparing), ...scattered.filter((pod) => !isPreparing(pod))];
}

/** CS-51, SCS-170. */
export const byWorth: PodOrder<RankedPod> = inOrder(byProgress, unreadyFirst, byService);

/** CS-52, CS-53, SCS-171, SCS-172. */
export function byPriority(strategy: UpdateOrder['priorityStrategy']): PodOrder<RankedPod> {
  const weights = (strategy?.weightPriority ?? []).slice(0, mostTerms);
  const keys = (strategy?.orderPriority ?? []).slice(0, mostTerms).map(({ orderedKey }) => orderedKey);
  if (weights.length > 0) {
    const terms = weights.map(({ weight, matchSelector }) => ({ weight, matches: labelMatcher(matchSelector) }));
    const weightOf = onceEach(({ pod }: RankedPod) =>
      terms.reduce((sum, { weight, matches }) => sum + (matches?.(pod.metadata.labels) ? weight : 0), 0),
    );
    return (left, right) => weightOf(right) - weightOf(left);
  }
  if (keys.length === 0) return () => 0;
  // Pods with none of the keys have the level -1, so they come first.
  const levelOf = onceEach(({ pod }: RankedPod) =>
    keys.findIndex((key) => entryOf(pod.metadata.labels, key) !== undefined),
  );
  const numberOf = (pod: RankedPod) => numberAtEnd(entryOf(pod.pod.metadata.labels, keys[levelOf(pod)] ?? '') ?? '');
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

function labelValue({ pod }: RankedPod, key: string): string {
  return entryOf(pod.metadata.labels, key) ?? '';
}
