import { describe, expect, it } from '@jest/globals';
import { type Pair, pairedDifference, pairedRatio, ratioTable, ratioVerdict, verdict } from '../bench/pairs.ts';

function pairs(base: number, differences: readonly number[]): readonly Pair[] {
  return differences.map((difference) => ({ base, present: base + difference }));
}

const steps = Array.from({ length: 20 }, (_, index) => index + 1);

describe('pairedDifference', () => {
  it('gives the median, and the sixth smallest and sixth largest of twenty differences', () => {
    // P(fewer than 6 of 20 fair trials) = 2.07 %, P(fewer than 7) = 5.8 %
    expect(pairedDifference(pairs(100, steps))).toEqual({ median: 10.5, low: 6, high: 15 });
  });

  it('has no limits where five pairs cannot give 95 %', () => {
    expect(pairedDifference(pairs(100, [1, 2, 3, 4, 5]))).toEqual({ median: 3, low: -Infinity, high: Infinity });
  });

  it('takes the smallest and the largest of six', () => {
    expect(pairedDifference(pairs(100, [6, 5, 4, 3, 2, 1]))).toEqual({ median: 3.5, low: 1, high: 6 });
  });
});

describe('verdict', () => {
  const of = (differences: readonly number[]) => verdict({ what: 'anything', pairs: pairs(1_000, differences) });

  it('is certain only where the whole interval lies on one side of 5 %', () => {
    expect(of(steps)).toBe('not worse');
    expect(of(steps.map((step) => 60 + step))).toBe('worse');
    expect(of(steps.map((step) => -60 - step))).toBe('better');
    expect(of(steps.map((step) => 40 + step))).toBe('undecided');
  });
});

describe('pairedRatio', () => {
  it('gives the median of the ratios, whatever the machine does between the pairs', () => {
    const slower = [1_000, 2_000, 3_000, 4_000, 5_000, 6_000].map((base) => ({ base, present: 1.1 * base }));
    const { median, low, high } = pairedRatio(slower);
    for (const ratio of [median, low, high]) expect(ratio).toBeCloseTo(1.1);
  });
});

describe('ratioVerdict', () => {
  const of = (differences: readonly number[]) =>
    ratioVerdict({ what: 'anything', pairs: pairs(1_000, differences) }, 1.05);

  it('is certain only where the whole interval lies on one side of what is allowed', () => {
    expect(of(steps)).toBe('yes');
    expect(of(steps.map((step) => 60 + step))).toBe('no');
    expect(of(steps.map((step) => 40 + step))).toBe('undecided');
  });
});

describe('ratioTable', () => {
  it('shows minimum, median and maximum of both, and the ratio with its interval', () => {
    const table = ratioTable([{ what: 'create', pairs: pairs(1_000, steps) }], 'apps/v1', 1.05);
    expect(table.split('\n').at(-1)).toBe(
      '| create | 1000, 1000, 1000 | 1001, 1011, 1020 | 1.010 (1.006 to 1.015) | yes | 20 |',
    );
  });
});
