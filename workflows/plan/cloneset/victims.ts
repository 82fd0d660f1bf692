/**
 * Which pods go when there are too many (CS-40…43).
 *
 * Old pods go before new ones. Inside each of the two groups the order is by what the pod is worth: how far it has come,
 * whether it serves, what its deletion costs, how crowded its place is, how long it has served. How crowded a place is
 * depends on the other pods of the group, so ranks are worked out before anything is sorted.
 */

import { entryOf, isJsonList, isJsonObject } from '../../../api/base/json.ts';
import { cloneSetMark } from '../../../api/cloneset/types.ts';
import type { PodTemplate } from '../../../api/core/pod-template.ts';
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
  /** Its spread decides how places are ranked. */
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

/** CS-42: what the deletion of this pod costs; anything but a 32-bit number in its plain form is 0. */
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

/** Without what depends on minReadySeconds and on other pods (CS-43). */
const byOwnWorth: PodOrder = inOrder(byProgress, unreadyFirst, byCost, byService);

/** CS-43: on each node with several pods of the group, all but the worthiest are ranked, the least worthy highest. */
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
