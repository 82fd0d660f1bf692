import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { applyPatch } from 'rfc6902';
import { type JsonObject, jsonPointer, mergePatch, mergePatchTo, sameJson } from '../../api/base/json.ts';
import '../support/property-seed.ts';

describe('jsonPointer', () => {
  it('escapes the special characters of a path', () => {
    expect(jsonPointer('metadata', 'annotations', 'windlass.io/command')).toBe(
      '/metadata/annotations/windlass.io~1command',
    );
    expect(jsonPointer('tags', 0, '~1')).toBe('/tags/0/~01');
    expect(jsonPointer()).toBe('');
  });

  it('is read as the very keys that it was made from', () => {
    // the parser rejects keys that no object can have
    const key = fc.string().filter((text) => text !== '__proto__');
    fc.assert(
      fc.property(key, key, (outer, inner) => {
        const document = { [outer]: { [inner]: 1 } };
        expect(applyPatch(document, [{ op: 'test', path: jsonPointer(outer, inner), value: 1 }])).toEqual([null]);
      }),
    );
  });
});

describe('mergePatchTo', () => {
  it('turns one object into the other, and removes what is not there any more at any depth', () => {
    const { object } = fc.letrec<{ object: JsonObject; value: JsonObject[string] }>((tie) => ({
      object: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value'), { maxKeys: 3 }),
      value: fc.oneof({ depthSize: 'small' }, fc.integer(), fc.array(fc.integer(), { maxLength: 2 }), tie('object')),
    }));
    fc.assert(
      fc.property(object, object, (before, after) => {
        expect(sameJson(mergePatch(before, mergePatchTo(before, after)), after)).toBe(true);
      }),
    );
    expect(mergePatchTo({ a: { b: 1, c: 2 }, d: 3 }, { a: { b: 1 } })).toEqual({ a: { b: 1, c: null }, d: null });
  });
});
