// Which ordinals a StatefulSet uses (AS-12): from the first one on as many as it has replicas, without the reserved ones.
// Both may be billions, as a range or as a number of replicas: neither is ever expanded.

/** The name of a pod or PVC without its ordinal: `data-web` of `data-web-7`. Undefined: it ends with none. */
export function seriesOf(name: string): string | undefined {
  return /^(.+)-\d+$/.exec(name)?.[1];
}

/** From the first to the last ordinal, both included. */
export interface OrdinalRange {
  readonly first: number;
  readonly last: number;
}

/** What a list of reserved ordinals holds: numbers, and ranges such as `"3-7"`. */
export type ReservedOrdinal = number | string;

/** The range of one entry of the list. Undefined: it is malformed. */
export function parseReserved(entry: ReservedOrdinal): OrdinalRange | undefined {
  if (typeof entry === 'number') {
    return Number.isSafeInteger(entry) && entry >= 0 ? { first: entry, last: entry } : undefined;
  }
  const [, from, to] = /^(\d{1,10})-(\d{1,10})$/.exec(entry) ?? [];
  if (from === undefined || to === undefined) return undefined;
  const range = { first: Number(from), last: Number(to) };
  return range.first <= range.last ? range : undefined;
}

/** The ordinals of a StatefulSet. */
export interface Ordinals {
  readonly isWanted: (ordinal: number) => boolean;
  /** How many usable ordinals are below this one: of a wanted ordinal, how many pods come before it (AS-50, AS-51). */
  readonly below: (ordinal: number) => number;
  /** The wanted ordinals in ascending order, each worked out when it is asked for. */
  readonly wanted: () => Iterable<number>;
}

/** The ordinals for so many replicas (AS-12). AS-14: a list with a malformed entry counts as empty. */
export function ordinalsOf({
  replicas,
  start,
  reserved,
}: {
  readonly replicas: number;
  readonly start: number;
  readonly reserved: readonly ReservedOrdinal[];
}): Ordinals {
  const ranges = disjoint(reserved).filter(({ last }) => last >= start);
  /** How many ordinals from the start up to the end of each range are usable. */
  let reservedSoFar = 0;
  const sections = ranges.map(({ first, last }) => {
    const from = Math.max(first, start);
    reservedSoFar += last - from + 1;
    return { first: from, last, reserved: reservedSoFar };
  });
  const before = (ordinal: number) => {
    let [low, high] = [0, sections.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sections[middle]?.first ?? 0) <= ordinal) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? undefined : sections[low - 1];
  };
  const isReserved = (ordinal: number) => ordinal <= (before(ordinal)?.last ?? -1);
  const below = (ordinal: number) => {
    if (ordinal <= start) return 0;
    const section = before(ordinal - 1);
    const reservedBelow = section ? section.reserved - Math.max(section.last - (ordinal - 1), 0) : 0;
    return ordinal - start - reservedBelow;
  };
  return {
    below,
    isWanted: (ordinal) => ordinal >= start && !isReserved(ordinal) && below(ordinal) < replicas,
    *wanted() {
      let ordinal = start;
      for (let count = 0; count < replicas; count++, ordinal++) {
        while (isReserved(ordinal)) ordinal = (before(ordinal)?.last ?? ordinal) + 1;
        if (ordinal > mostOrdinal) return;
        yield ordinal;
      }
    },
  };
}

/** In ascending order, without overlaps; empty when an entry is malformed. */
function disjoint(reserved: readonly ReservedOrdinal[]): readonly OrdinalRange[] {
  const read = reserved.map(parseReserved);
  const ranges = read.filter((range) => range !== undefined).toSorted((left, right) => left.first - right.first);
  if (ranges.length < read.length) return [];
  const merged: { first: number; last: number }[] = [];
  for (const { first, last } of ranges) {
    const previous = merged.at(-1);
    if (previous && first <= previous.last + 1) previous.last = Math.max(previous.last, last);
    else merged.push({ first, last });
  }
  return merged;
}

/** The ordinal in the name of a pod of this StatefulSet (AS-10). Undefined: the name is not of that form. */
export function ordinalIn(podName: string, setName: string): number | undefined {
  if (!podName.startsWith(`${setName}-`)) return undefined;
  const digits = podName.slice(setName.length + 1);
  if (!/^(0|[1-9]\d{0,9})$/.test(digits)) return undefined;
  const ordinal = Number(digits);
  return ordinal <= mostOrdinal ? ordinal : undefined;
}

/** An ordinal is a signed 32-bit integer. */
const mostOrdinal = 2 ** 31 - 1;
