import { describe, expect, it } from '@jest/globals';
import type { GroupedFiles } from '../runner/groups.ts';
import { lanesOf } from '../runner/lanes.ts';

const none: GroupedFiles = { together: [], alone: [], load: [], 'by-hand': [], slow: [], docs: [] };
const seconds = { a: 60, b: 40, c: 50, d: 30, e: 20, f: 10 };

describe('lanesOf', () => {
  it('runs the files that run together on the first instance, and others beside them on the second', () => {
    const files = { ...none, together: ['a', 'b'], alone: ['e', 'd', 'c'] };
    expect(lanesOf(files, ['together', 'alone'], 2, seconds)).toEqual([
      [
        { group: 'together', files: ['a', 'b'] },
        { group: 'alone', files: ['e'] },
      ],
      [{ group: 'alone', files: ['c', 'd'] }],
    ]);
  });

  it('runs each file of a group once, and those of several groups in each', () => {
    const files = { ...none, together: ['a'], alone: ['a', 'b', 'new'], slow: ['b', 'c'] };
    const parts = lanesOf(files, ['together', 'alone', 'slow'], 2, seconds).flat();
    const ofGroup = (wanted: string) => parts.flatMap(({ group, files: share }) => (group === wanted ? share : []));
    expect(ofGroup('together')).toEqual(['a']);
    expect(ofGroup('alone').toSorted()).toEqual(['a', 'b', 'new']);
    expect(ofGroup('slow').toSorted()).toEqual(['b', 'c']);
  });

  it('runs everything on one instance if there is one', () => {
    const files = { ...none, together: ['a', 'b'], alone: ['c'] };
    expect(lanesOf(files, ['together', 'alone'], 1, seconds)).toEqual([
      [
        { group: 'together', files: ['a', 'b'] },
        { group: 'alone', files: ['c'] },
      ],
    ]);
  });
});
