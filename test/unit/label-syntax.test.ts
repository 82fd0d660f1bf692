import { describe, expect, it } from '@jest/globals';
import { labelKeyProblem, labelValueProblem, subdomainProblem } from '../../api/core/label-syntax.ts';

describe('names and labels', () => {
  it.each(['web', 'web-1', 'a.b.c', '0', 'x'.repeat(253)])('takes %s as the name of an object', (name) => {
    expect(subdomainProblem(name)).toBeUndefined();
  });

  it.each(['', 'Web', '-a', 'a-', 'a..b', 'a_b', '.a', 'ü', 'x'.repeat(254)])('takes %j as no name', (name) => {
    expect(subdomainProblem(name)).toMatch(/^must /);
  });

  it.each(['app', 'App', 'a_b.c-d', 'example.com/app', `${'x'.repeat(60)}.com/${'y'.repeat(63)}`])(
    'takes %s as the key of a label',
    (key) => {
      expect(labelKeyProblem(key)).toBeUndefined();
    },
  );

  it.each(['', 'a b', '/a', 'a/', 'a/b/c', 'Ex.com/a', '-a', 'a-', 'y'.repeat(64)])('takes %j as no key', (key) => {
    expect(labelKeyProblem(key)).toMatch(/^its /);
  });

  it('takes an empty value of a label, but none with blanks or that is too long', () => {
    expect(['', 'a', '1.2_3-B', 'x'.repeat(63)].map(labelValueProblem)).toEqual(Array(4).fill(undefined));
    for (const value of [' ', 'a b', '-a', 'a.', 'a/b', 'x'.repeat(64)])
      expect(labelValueProblem(value)).toMatch(/^must/);
  });
});
