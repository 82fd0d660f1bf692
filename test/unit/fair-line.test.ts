import { describe, expect, it } from '@jest/globals';
import { FairLine, mostOfOneShare } from '../../api/base/fair-line.ts';

const anybody = { share: () => true };

function takeAll(line: FairLine<string>): readonly (string | undefined)[] {
  return Array.from({ length: line.size }, () => line.take(anybody));
}

describe('FairLine', () => {
  it('M4: takes one of each share in turn, and those of one share in their order', () => {
    const line = new FairLine<string>();
    for (const thing of ['a1', 'a2', 'a3']) line.add('a', thing);
    line.add('b', 'b1');
    for (const thing of ['c1', 'c2']) line.add('c', thing);
    expect(line.size).toBe(6);
    expect(takeAll(line)).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
    expect(line.take(anybody)).toBeUndefined();
  });

  it('passes over shares and things that may not go, which keep their places', () => {
    const line = new FairLine<string>();
    for (const thing of ['a1', 'a2']) line.add('a', thing);
    line.add('b', 'b1');
    expect(line.take({ share: (share) => share !== 'a' })).toBe('b1');
    expect(line.take({ share: () => true, thing: (thing) => thing !== 'a1' })).toBe('a2');
    expect(takeAll(line)).toEqual(['a1']);
  });

  it('holds a thing once, and forgets what is taken out', () => {
    const line = new FairLine<string>();
    line.add('a', 'a1');
    line.add('a', 'a1');
    line.add('a', 'a2');
    line.delete('a', 'a1');
    line.delete('a', 'a1');
    line.delete('b', 'b1');
    expect(line.size).toBe(1);
    expect(line.clear()).toEqual(['a2']);
    expect(line.size).toBe(0);
  });
});

describe('mostOfOneShare', () => {
  it('leaves an eighth of many places to others, and all of a few', () => {
    expect([1, 4, 8, 16, 32].map(mostOfOneShare)).toEqual([1, 4, 7, 14, 28]);
  });
});
