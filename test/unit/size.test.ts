import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { fitting, jsonBytes, shortened } from '../../workflows/plan/size.ts';

const anyText = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }), fc.string());

describe('jsonBytes', () => {
  it('counts what the encoder makes of any value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), anyText, (value, text) => {
        for (const each of [value, text, { [text]: value }]) {
          expect(jsonBytes(each)).toBe(Buffer.byteLength(JSON.stringify(each)));
        }
      }),
    );
    expect(jsonBytes(undefined)).toBe(0);
  });
});

describe('shortened', () => {
  it('leaves a text alone that fits', () => {
    expect(shortened('runtime says "no"', 21)).toBe('runtime says "no"');
  });

  it('cuts any other to the bytes that are allowed, at its end', () => {
    expect(shortened('abcdef', 7)).toBe('ab…');
    fc.assert(
      fc.property(anyText, fc.integer({ min: 5, max: 60 }), (text, most) => {
        const cut = shortened(text, most);
        expect(jsonBytes(cut)).toBeLessThanOrEqual(most);
        if (cut !== text) expect(text.startsWith(cut.slice(0, -1))).toBe(true);
      }),
    );
  });
});

describe('fitting', () => {
  it('takes the first entries whose list fits, and all that can', () => {
    fc.assert(
      fc.property(fc.array(anyText), fc.integer({ min: 2, max: 200 }), (entries, most) => {
        const taken = fitting(entries, most);
        expect(entries.slice(0, taken.length)).toEqual(taken);
        expect(jsonBytes(taken)).toBeLessThanOrEqual(most);
        const next = entries.slice(0, taken.length + 1);
        if (next.length > taken.length) expect(jsonBytes(next) + 1).toBeGreaterThan(most);
      }),
    );
  });
});
