import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { countOf, isInt32, isNegative, parseInt32, parsePercent } from '../../api/base/int-or-percent.ts';

describe('countOf', () => {
  it('takes numbers as they are', () => {
    expect(countOf(7, 3, 'up')).toBe(7);
    expect(countOf(-1, 3, 'down')).toBe(-1);
    expect(countOf(1.5, 3, 'up')).toBeUndefined();
  });

  it.each([
    ['20%', 5, 1, 1],
    ['20%', 3, 1, 0],
    ['1%', 8, 1, 0],
    ['12.5%', 8, 1, 1],
    ['99.5%', 8, 8, 7],
    ['100%', 8, 8, 8],
    ['150%', 3, 5, 4],
    ['0%', 8, 0, 0],
    ['.5%', 1000, 5, 5],
    ['5.%', 10, 1, 0],
    ['-50%', 3, -1, -2],
    ['55.1%', 1000, 551, 551],
  ])('CS-20, CS-24: makes of %s of %d either %d or %d', (share, whole, up, down) => {
    expect([countOf(share, whole, 'up'), countOf(share, whole, 'down')]).toEqual([up, down]);
  });

  it.each(['', '%', '5', 'five%', '1e1%', '5 %', '0x5%', '--5%', 'NaN%', `${'9'.repeat(80)}%`])(
    'takes no %j',
    (text) => {
      expect(countOf(text, 10, 'up')).toBeUndefined();
      expect(parsePercent(text)).toBeUndefined();
    },
  );

  it('never differs by one or more between its two directions, and is exact for whole shares', () => {
    fc.assert(
      fc.property(fc.nat(10_000), fc.nat(10_000), fc.nat(99), (whole, share, hundredth) => {
        const text = `${share}.${String(hundredth).padStart(2, '0')}%`;
        const [up = 0, down = 0] = [countOf(text, whole, 'up'), countOf(text, whole, 'down')];
        const exact = BigInt(whole) * BigInt(share * 100 + hundredth);
        expect(up - down).toBe(exact % 10_000n === 0n ? 0 : 1);
        expect(BigInt(down)).toBe(exact / 10_000n);
      }),
    );
  });
});

describe('numbers of 32 bits', () => {
  it('are told apart from others', () => {
    expect([0, -1, 2 ** 31 - 1, -(2 ** 31)].every(isInt32)).toBe(true);
    expect([2 ** 31, 1.5, '1', null, Number.NaN].some(isInt32)).toBe(false);
  });

  it('are read from text as Go reads them', () => {
    expect(['7', '+7', '-7', '007'].map(parseInt32)).toEqual([7, 7, -7, 7]);
    expect(['', '7%', '7.0', '1e3', ' 7', '4294967296'].map(parseInt32)).toEqual(Array(6).fill(undefined));
  });

  it('are negative, or shares are', () => {
    expect([-1, '-1%', '-0.5%'].every(isNegative)).toBe(true);
    expect([0, 1, '0%', '-0%', 'x'].some(isNegative)).toBe(false);
  });
});
