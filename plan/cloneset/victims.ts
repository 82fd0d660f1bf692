/**
 * Which pods are deleted when there are too many (CS-40…43).
 *
 * Old pods are deleted before new ones. Within each of the two groups pods are ordered by value: how far they have
 * started, whether they serve, what their deletion costs, how crowded their place is, how long they have served. How
 * crowded a place is depends on the other pods of the group, so ranks are computed before sorting.
 */

import { entryOf, isJsonList, isJsonObject } from '../../api/base/json.ts';
import { cloneSetMark } from '../../api/cloneset/types.ts';
import type { PodTemplate } from '../../api/core/pod-template.ts';
import { byProgress, byService, first, inOrder, type PodOrder, unreadyFirst } from '../fleet/order.ts';
import type { FleetPod } from '../fleet/pods.ts';
import type { CloneSetInput } from './input.ts';

type NodeLabels = CloneSetInput['nodes'];

/** The pods to delete, in order: `count` altogether, of which at most `countOld` are old. */
export function chooseVictims(input: {
  readonly old: readonly FleetPod[];
  readonly fresh: readonly FleetPod[];
  readonly count: number;
  readonly countOld: number;
  /** Its topology spread decides how places are ranked. */
  readonly template: PodTemplate;
  readonly nodes: NodeLabels;
}): readonly FleetPod[] {
  const { old, fresh, count, countOld, template, nodes } = input;
  const ofOld = Math.min(count, countOld, old.length);
  const choose = (group: readonly FleetPod[], howMany: number) =>
    howMany >= group.length ? group : victimOrder(group, { template, nodes }).slice(0, howMany);
  return [...choose(old, ofOld), ...choose(fresh, count - ofOld)];
}

/** CS-41: the pods of one group, the first to be deleted first. */
export function victimOrder(
  group: readonly FleetPod[],
  place: { readonly template: PodTemplate; readonly nodes: NodeLabels },
): readonly FleetPod[] {
  const keys = spreadKeys(place.template);
  const ranks = keys.length > 0 ? spreadRanks(group, keys, place.nodes) : sameNodeRanks(group);
  return group.toSorted(byWorth(ranks));
}

/** CS-42: the deletion cost of this pod; 0 for anything but a 32-bit number in decimal form. */
export function deletionCost({ pod }: FleetPod): number {
  const text = pod.metadata.annotations?.[cloneSetMark.deletionCost] ?? '';
  const cost = /^(0|-?[1-9]\d*)$/.test(text) ? Number(text) : 0;
  return Math.abs(cost) <= mostCost || cost === -mostCost - 1 ? cost : 0;
}

const mostCost = 2 ** 31 - 1;

type Ranks = ReadonlyMap<FleetPod, number>;

const byCost: PodOrder = (left, right) => deletionCost(left) - deletionCost(right);

function byWorth(ranks: Ranks): PodOrder {
  return inOrder(
    byProgress,
    first(({ isAvailable }) => !isAvailable),
    unreadyFirst,
    byCost,
    (left, right) => (ranks.get(right) ?? 0) - (ranks.get(left) ?? 0),
    byService,
  );
}

/** Without minReadySeconds and without the ranks that depend on other pods (CS-43). */
const byOwnWorth: PodOrder = inOrder(byProgress, unreadyFirst, byCost, byService);

/**
 * CS-43: on each node with several pods of the group, all but the most valuable one are ranked, the least valuable
 * highest.
 */
function sameNodeRanks(group: readonly FleetPod[]): Ranks {
  const ranks = new Map<FleetPod, number>();
  for (const [node, pods] of Map.groupBy(group, ({ pod }) => pod.spec.nodeName ?? '')) {
    if (node === '') continue;
    for (const [index, pod] of pods.toSorted(byOwnWorth).entries()) ranks.set(pod, pods.length - 1 - index);
  }
  return ranks;
}

/** CS-43: in the larger domains of each key, pods are ranked higher. */
function spreadRanks(group: readonly FleetPod[], keys: readonly string[], nodes: NodeLabels): Ranks {
  const ranks = new Map<FleetPod, number>();
  const onSameNode = sameNodeRanks(group);
  for (const key of keys) {
    const order = byWorth(key === hostnameKey ? new Map() : onSameNode);
    const domains = Map.groupBy(group, ({ pod }) => entryOf(nodes.get(pod.spec.nodeName ?? ''), key));
    domains.delete(undefined);
    const weight = Math.log(domains.size + 2);
    for (const pods of domains.values()) {
      for (const [index, pod] of pods.toSorted(order).entries()) {
        ranks.set(pod, (ranks.get(pod) ?? 0) + (pods.length - index) * weight);
      }
    }
  }
  return ranks;
}

const hostnameKey = 'kubernetes.io/hostname';

function spreadKeys({ spec }: PodTemplate): readonly string[] {
  const constraints = isJsonObject(spec) ? spec.topologySpreadConstraints : undefined;
  if (!isJsonList(constraints)) return [];
  return constraints.flatMap((constraint) =>
    isJsonObject(constraint) && typeof constraint.topologyKey === 'string' ? [constraint.topologyKey] : [],
  );
}
