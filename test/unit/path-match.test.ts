import { describe, expect, it } from '@jest/globals';
import { pathMatch } from '../../activities/cri/path-match.ts';

describe('patterns of registry hosts', () => {
  const matching: readonly (readonly [string, string, boolean])[] = [
    ['', '', true],
    ['', 'a', false],
    ['abc', 'abc', true],
    ['abc', 'abcd', false],
    ['*', '', true],
    ['*', 'abc', true],
    ['*c', 'abc', true],
    ['a*', 'a', true],
    ['a*b*c', 'axbxc', true],
    ['a*b*c', 'axbxd', false],
    ['a*b?c*x', 'abxbbxdbxebxczzx', true],
    ['a*b?c*x', 'abxbbxdbxebxczzy', false],
    ['*ab', 'aab', true],
    ['**a**', 'bab', true],
    ['a*', 'a/b', false],
    ['a*/b', 'ac/b', true],
    ['a?b', 'a/b', false],
    ['a?b', 'ab', false],
    ['a[bc]d', 'acd', true],
    ['a[b-d]', 'ae', false],
    ['a[^b-d]', 'ae', true],
    ['a[^b-d]', 'ac', false],
    ['a[^b]c', 'a/c', false],
    ['[\\]a]', ']', true],
    ['[\\-x]', '-', true],
    ['a\\*b', 'a*b', true],
    ['a\\*b', 'axb', false],
    ['a.b', 'axb', false],
    ['a+', 'aa', false],
  ];
  it.each(matching)('NP-13: %p matches %p as path.Match has it: %p', (pattern, text, matches) => {
    expect(pathMatch(pattern, text)).toBe(matches);
  });

  it.each(['[', '[^', '[a', '[]a]', '[-]', '[x-]', '[a-b-c]', 'a[', '\\'])(
    '%p is malformed and matches nothing',
    (pattern) => {
      for (const text of ['a', 'x', '-', ']', '[', '\\', '']) expect(pathMatch(pattern, text)).toBe(false);
    },
  );
});
