/**
 * Spreads pods with certain labels over an order (CS-54, SCS-173, SCS-174).
 *
 * One term takes the pods that match it out of the order and puts them back in groups, each group followed by a group of the
 * others; the last matching pod goes to the end. If matching pods are sparser in the order than in the whole workload, the
 * sizes of the groups are those of the whole workload, and the surplus of others comes first: more than their share of the
 * matching pods has been updated before.
 *
 * A workload with thousands of values of a label has thousands of terms, and every one passes over the whole order. So
 * orders are lists of numbers here, and no term costs more than one pass.
 */

export interface ScatterTerm {
  readonly key: string;
  readonly value: string;
}

export interface ScatterFacts<Item> {
  /** The value of a label; "" when it is absent. */
  readonly labelValue: (item: Item, key: string) => string;
  /** Everything that counts for how dense a term is: the items, and others of the workload. */
  readonly all: readonly Item[];
}

/**
 * How many times a pod may be moved in one order: terms times pods. Terms with fewer matching pods have no effect beyond it.
 */
export const mostScatterMoves = 20_000_000;

/** The items scattered by each of the terms. Those that match more items come first. */
export function scatter<Item>(
  items: readonly Item[],
  terms: readonly ScatterTerm[],
  { labelValue, all }: ScatterFacts<Item>,
): readonly Item[] {
  const labels = new Map<string, Label>();
  const labelOf = (key: string): Label => {
    const known =
      labels.get(key) ??
      readLabel(
        items.map((item) => labelValue(item, key)),
        all,
        (item) => labelValue(item, key),
      );
    labels.set(key, known);
    return known;
  };
  const effective = terms
    .map(({ key, value }) => ({ label: labelOf(key), id: labelOf(key).ids.get(value) ?? -1 }))
    .map(({ label, id }) => ({ label, id, matching: label.matching[id] ?? 0 }))
    .filter(({ matching }) => matching > 1 && items.length - matching > 1)
    .toSorted((left, right) => right.matching - left.matching)
    .slice(0, Math.floor(mostScatterMoves / Math.max(items.length, 1)));

  const order = Int32Array.from(items, (_, index) => index);
  const room = { others: new Int32Array(order.length), result: new Int32Array(order.length) };
  for (const { label, id } of effective) scatterOne(order, { label, id, total: all.length }, room);
  return Array.from(order, (index) => items[index]).filter((item) => item !== undefined);
}

/** A label of the items, its values replaced by numbers. */
interface Label {
  readonly ids: ReadonlyMap<string, number>;
  /** Of each item the number of its value. */
  readonly idOf: Int32Array;
  /** By number of a value: how many items have it, and how many of the whole workload. */
  readonly matching: readonly number[];
  readonly inAll: readonly number[];
}

function readLabel<Item>(
  values: readonly string[],
  all: ScatterFacts<Item>['all'],
  labelValue: (item: Item) => string,
): Label {
  const ids = new Map<string, number>();
  const matching: number[] = [];
  const idOf = Int32Array.from(values, (value) => {
    const id = ids.get(value) ?? ids.size;
    ids.set(value, id);
    matching[id] = (matching[id] ?? 0) + 1;
    return id;
  });
  const inAll = matching.map(() => 0);
  for (const item of all) {
    const id = ids.get(labelValue(item));
    if (id !== undefined) inAll[id] = (inAll[id] ?? 0) + 1;
  }
  return { ids, idOf, matching, inAll };
}

/** Scatters by one term. `room` is used for nothing else: thousands of terms need it one after the other. */
function scatterOne(
  order: Int32Array,
  { label, id, total }: { readonly label: Label; readonly id: number; readonly total: number },
  room: { readonly others: Int32Array; readonly result: Int32Array },
): void {
  const { idOf, matching, inAll } = label;
  const matched = new Int32Array(matching[id] ?? 0);
  const others = room.others.subarray(0, order.length - matched.length);
  for (let place = 0, toMatched = 0, toOthers = 0; place < order.length; place++) {
    const index = order[place] ?? 0;
    if (idOf[index] === id) matched[toMatched++] = index;
    else others[toOthers++] = index;
  }
  const ofAll = Math.max(inAll[id] ?? 0, matched.length);
  const inGroups = { matched: matched.length - 1, others: others.length };
  const inWorkload = { matched: ofAll - 1, others: Math.max(total - ofAll, others.length) };
  const { groups, sizes, ahead } = grouping(inGroups, inWorkload);

  let at = 0;
  const emit = (part: Int32Array) => {
    room.result.set(part, at);
    at += part.length;
  };
  emit(others.subarray(0, ahead));
  let from = { matched: 0, others: ahead };
  for (let group = 0; group < groups; group++) {
    const to = {
      matched: Math.min(from.matched + sizes.matched, inGroups.matched),
      others: Math.min(from.others + sizes.others, inGroups.others),
    };
    emit(matched.subarray(from.matched, to.matched));
    emit(others.subarray(from.others, to.others));
    from = to;
  }
  emit(matched.subarray(from.matched, inGroups.matched));
  emit(others.subarray(from.others));
  emit(matched.subarray(inGroups.matched));
  order.set(room.result);
}

interface Counts {
  readonly matched: number;
  readonly others: number;
}

/** The number of groups, their sizes, and how many of the others come before all groups. */
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
