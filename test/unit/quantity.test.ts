import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  canonicalQuantity,
  canonicalResource,
  compareQuantities,
  parseQuantity,
  sameQuantity,
} from '../../api/base/quantity.ts';

describe('canonicalQuantity', () => {
  // The results of k8s.io/apimachinery 0.34.
  it.each([
    ['0.1', '100m'],
    ['0.03125Gi', '32Mi'],
    ['1024Mi', '1Gi'],
    ['1023Ki', '1023Ki'],
    ['1000Ki', '1000Ki'],
    ['0.5Ki', '512'],
    ['1.5Ki', '1536'],
    ['1000m', '1'],
    ['1500m', '1500m'],
    ['1000', '1k'],
    ['1024', '1024'],
    ['2000000', '2M'],
    ['1e3', '1e3'],
    ['1E4', '10e3'],
    ['12e-3', '12e-3'],
    ['1.5e3', '1500'],
    ['0', '0'],
    ['0Mi', '0'],
    ['-1.5', '-1500m'],
    ['1u', '1u'],
    ['0.1n', '1n'],
    ['-0.1n', '-1n'],
    ['9Ei', '9223372036854775807'],
    ['.5', '500m'],
    [1, '1'],
    [0.25, '250m'],
    [' 3 ', '3'],
  ])('writes %p as %s', (text, canonical) => {
    expect(canonicalQuantity(text)).toBe(canonical);
  });

  it.each(['1.500', '0100m', '+1Gi', '1001', '5.'])('keeps %s, which passes for canonical by a cheap test', (text) => {
    expect(canonicalQuantity(text)).toBe(text);
  });

  it('keeps the amount beyond the largest unit, where Go loses it', () => {
    expect(canonicalQuantity('1000E')).toBe('1000E');
  });

  it.each(['', '-', '1..2', '1 Gi', '1ki', '1mm', 'abc', '1e', '1e99999999'])('leaves %p alone', (text) => {
    expect(parseQuantity(text)).toBeUndefined();
    expect(canonicalQuantity(text)).toBe(text);
  });

  it('says the same amount, and is its own canonical form', () => {
    const suffix = fc.constantFrom('', 'n', 'u', 'm', 'k', 'M', 'G', 'T', 'Ki', 'Mi', 'Gi', 'e3', 'E-3');
    const amount = fc.tuple(fc.constantFrom('', '-'), fc.nat(), fc.nat({ max: 999 }), suffix);
    fc.assert(
      fc.property(amount, ([sign, whole, fraction, unit]) => {
        const text = `${sign}${whole}.${fraction}${unit}`;
        const canonical = canonicalQuantity(text);
        expect(compareQuantities(text, canonical)).toBe(0);
        expect(canonicalQuantity(canonical)).toBe(canonical);
      }),
    );
  });
});

describe('canonicalResource', () => {
  it('rounds up what is finer than a thousandth, away from zero', () => {
    expect(['1n', '1500u', '-1n', '0.0001', '2m', '1Ki'].map(canonicalResource)).toEqual([
      '1m',
      '2m',
      '-1m',
      '1m',
      '2m',
      '1Ki',
    ]);
  });

  it('keeps a spelling that needs no rounding', () => {
    expect(canonicalResource('1.500')).toBe('1.500');
  });
});

describe('compareQuantities', () => {
  it('compares amounts and not texts', () => {
    const amounts = ['1Gi', '1G', '999m', '1', '-1', 'nothing'];
    expect(amounts.toSorted(compareQuantities)).toEqual(['nothing', '-1', '999m', '1', '1G', '1Gi']);
    expect(sameQuantity('1000m', '1')).toBe(true);
    expect(sameQuantity('1000m', '1.1')).toBe(false);
    expect(sameQuantity('nothing', 'nothing')).toBe(true);
    expect(sameQuantity('nothing', 'else')).toBe(false);
  });
});
