import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { root } from '../check/all.ts';
import LongestFirst, { orderFile } from '../runner/longest-first.ts';

describe('the order of test files', () => {
  const seconds: Readonly<Record<string, number>> = JSON.parse(readFileSync(orderFile, 'utf8'));
  const known = Object.keys(seconds).map((file) => ({ path: join(root, file) }));
  const news = ['test/e2e/b-new.test.ts', 'test/e2e/a-new.test.ts'].map((file) => ({ path: join(root, file) }));

  it('has new files first, then the longest', () => {
    const sorted = new LongestFirst().sort([...known, ...news]).map(({ path }) => path.slice(root.length + 1));
    expect(sorted.slice(0, 2)).toEqual(['test/e2e/a-new.test.ts', 'test/e2e/b-new.test.ts']);
    const times = sorted.slice(2).map((file) => seconds[file] ?? 0);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
  });

  it('is the same whatever order the files are found in', () => {
    const order = new LongestFirst();
    expect(order.sort([...known].reverse())).toEqual(order.sort(known));
  });
});
