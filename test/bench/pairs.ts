// Paired samples: two subjects are measured one right after the other, again and again, so that what changes on the
// machine meanwhile meets both. What counts is the median of the differences within the pairs.
import { quantile, shown } from './figures.ts';

/** A measurement of both subjects, in milliseconds where the figure says nothing else. */
export interface Pair {
  readonly base: number;
  readonly present: number;
}

/** What the pairs of one figure say. */
export interface Comparison {
  readonly what: string;
  readonly pairs: readonly Pair[];
}

/** What "not worse" allows: this share of the base's median. */
const tolerance = 0.05;

/** A median, with the interval that holds the true one with at least 95 %. */
export interface Estimate {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** The median of the differences within the pairs. */
export function pairedDifference(pairs: readonly Pair[]): Estimate {
  return estimate(pairs.map(({ base, present }) => present - base));
}

/** The median of the ratios within the pairs: how many times as long as the base. */
export function pairedRatio(pairs: readonly Pair[]): Estimate {
  return estimate(pairs.map(({ base, present }) => present / base));
}

/**
 * The median and its distribution-free interval: the k-th smallest and k-th largest value, with the largest k for which a
 * binomial variable of n fair trials is below k in at most 2.5 % of the cases (the sign test).
 */
function estimate(values: readonly number[]): Estimate {
  const sorted = values.toSorted((a, b) => a - b);
  const count = sorted.length;
  let rank = 0;
  let probability = 0.5 ** count;
  for (let below = probability; below <= 0.025 && rank < count / 2; below += probability) {
    rank++;
    probability *= (count - rank + 1) / rank;
  }
  const at = (index: number): number => sorted[index] ?? Number.NaN;
  const middle = (at(Math.floor((count - 1) / 2)) + at(Math.floor(count / 2))) / 2;
  return { median: middle, low: rank > 0 ? at(rank - 1) : -Infinity, high: rank > 0 ? at(count - rank) : Infinity };
}

/** What may be said: worse or better by more than the tolerance, not worse by it, or neither for certain. */
export function verdict({ pairs }: Comparison): 'worse' | 'better' | 'not worse' | 'undecided' {
  const allowed = tolerance * medianOf(pairs, 'base');
  const { low, high } = pairedDifference(pairs);
  if (low > allowed) return 'worse';
  if (high < -allowed) return 'better';
  return high <= allowed ? 'not worse' : 'undecided';
}

/** What may be said of a ratio that is to be at most this: it is, it is more, or neither for certain. */
export function ratioVerdict({ pairs }: Comparison, most: number): 'yes' | 'no' | 'undecided' {
  const { low, high } = pairedRatio(pairs);
  if (high <= most) return 'yes';
  return low > most ? 'no' : 'undecided';
}

/** Markdown: minimum, median and maximum of both, the median ratio with its interval, and whether it is at most `most`. */
export function ratioTable(comparisons: readonly Comparison[], base: string, most: number): string {
  const rows = comparisons.map((comparison) => {
    const { what, pairs } = comparison;
    const { median, low, high } = pairedRatio(pairs);
    const interval = Number.isFinite(low) ? `${low.toFixed(3)} to ${high.toFixed(3)}` : 'too few pairs';
    const ratio = `${median.toFixed(3)} (${interval})`;
    const cells = [what, spread(pairs, 'base'), spread(pairs, 'present'), ratio, ratioVerdict(comparison, most)];
    return `| ${[...cells, pairs.length].join(' | ')} |`;
  });
  const head = ['', `${base}: min, median, max`, 'this: min, median, max', 'ratio (95 %)', `at most ${most}`, 'pairs'];
  return [`| ${head.join(' | ')} |`, `|${' --- |'.repeat(head.length)}`, ...rows].join('\n');
}

function spread(pairs: readonly Pair[], side: keyof Pair): string {
  const values = pairs.map((pair) => pair[side]);
  return [0, 0.5, 1].map((share) => shown(quantile(values, share))).join(', ');
}

/** Markdown: both medians, the median difference with its interval, and the verdict, for each figure. */
export function comparisonTable(comparisons: readonly Comparison[], base: string): string {
  const rows = comparisons.map((comparison) => {
    const { what, pairs } = comparison;
    const { median, low, high } = pairedDifference(pairs);
    const before = medianOf(pairs, 'base');
    const percent = (value: number): string => `${value > 0 ? '+' : ''}${((100 * value) / before).toFixed(1)} %`;
    const cells = [
      what,
      shown(before),
      shown(medianOf(pairs, 'present')),
      `${median > 0 ? '+' : ''}${median.toFixed(1)}`,
      `${percent(median)} (${percent(low)} to ${percent(high)})`,
      verdict(comparison),
      String(pairs.length),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  const head = ['', base, 'this', 'difference', 'of the base (95 %)', 'verdict', 'pairs'];
  return [`| ${head.join(' | ')} |`, `|${' --- |'.repeat(head.length)}`, ...rows].join('\n');
}

function medianOf(pairs: readonly Pair[], side: keyof Pair): number {
  return quantile(
    pairs.map((pair) => pair[side]),
    0.5,
  );
}
