import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { fitting, nextPart, shortened, waitWithin } from '../../plan/text-size.ts';

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

describe('nextPart', () => {
  it('C1: takes one entry at least, so that a list comes to an end part for part', () => {
    expect(nextPart(['x'.repeat(50), 'y'], 10)).toEqual(['x'.repeat(50)]);
    expect(nextPart(['a', 'b', 'c'], 10)).toEqual(['a', 'b']);
    expect(nextPart([], 10)).toEqual([]);
  });
});

describe('waitWithin', () => {
  const wait = { reason: 'BackingOff', blockedBy: ['image/nginx:1'], blockedCount: 1, since: '', unblock: 'Wait' };

  it('leaves a wait alone that fits', () => {
    expect(waitWithin(wait, 400)).toBe(wait);
  });

  it('C2: cuts any other to the bytes that are allowed, and keeps how many are in the way', () => {
    fc.assert(
      fc.property(
        fc.array(anyText, { maxLength: 10 }),
        anyText,
        fc.integer({ min: 400, max: 3_000 }),
        (all, one, most) => {
          const blockedBy = all.map((text) => text.repeat(20));
          const cut = waitWithin({ ...wait, blockedBy, blockedCount: 70, unblock: one.repeat(100) }, most);
          expect(jsonBytes(cut)).toBeLessThanOrEqual(most);
          expect(cut).toMatchObject({ reason: 'BackingOff', blockedCount: 70 });
          expect(cut.blockedBy.length).toBeLessThanOrEqual(blockedBy.length);
        },
      ),
      { numRuns: 40 },
    );
  });
});
