import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { parseGoRegexp } from '../../api/base/go-regexp.ts';

function matches(pattern: string, text: string): boolean {
  const parsed = parseGoRegexp(pattern);
  if ('problem' in parsed) throw new Error(parsed.problem);
  return parsed.matches(text);
}

describe('expressions of Go', () => {
  it.each([
    ['', 'anything', true],
    ['.*', '', true],
    ['app', 'my-app-1', true],
    ['^app$', 'my-app', false],
    ['^(main|app)$', 'app', true],
    ['^a+b?c*$', 'aab', true],
    ['^a{2,3}$', 'aaaa', false],
    ['^a{2,}$', 'aaaa', true],
    ['a{,3}', 'a{,3}', true],
    ['[^a-c]', 'abc', false],
    ['^[]a-]+$', ']a-', true],
    ['[[:alpha:]]{2}[[:^digit:]]', 'abc', true],
    ['(?i)APP', 'my-app', true],
    ['(?i:A)b', 'aB', false],
    ['(?P<name>x)y', 'xy', true],
    ['(?<name>x)y', 'xy', true],
    ['^example\\.com/\\w+$', 'example.com/team', true],
    ['\\bweb\\b', 'a web b', true],
    ['\\Bweb', 'web', false],
    ['\\Aa\\z', 'a', true],
    ['(?m)^b$', 'a\nb', true],
    ['a.b', 'a\nb', false],
    ['(?s)a.b', 'a\nb', true],
    ['\\x41\\x{42}\\103', 'ABC', true],
    ['\\Qa.b\\E', 'axb', false],
    ['\\pL', '1ä', true],
    ['\\p{Greek}', 'α', true],
    ['\\PL', 'ä', false],
    ['x*', 'aaa', true],
    ['a|', 'b', true],
  ])('%j in %j: %p', (pattern, text, expected) => {
    expect(matches(pattern, text)).toBe(expected);
  });

  it.each(['(', ')', '[a', '*', 'a**', 'a{1001}', 'a{3,2}', '[z-a]', '\\8', '\\', '(?=a)', '\\p{Nowhere}'])(
    'does not accept %j',
    (pattern) => {
      expect(parseGoRegexp(pattern)).toHaveProperty('problem');
    },
  );

  it('answers at once what an engine that backtracks would take years for', () => {
    const text = `${'a'.repeat(300)}!`;
    expect(matches('^(a+)+$', text)).toBe(false);
    expect(matches('^(a|a?)+$', text)).toBe(false);
    expect(matches('^(.*)*(.*)*(.*)*x$', text)).toBe(false);
  });

  it('does not accept an expression that would need too much memory', () => {
    expect(parseGoRegexp('((a{1000}){1000}){1000}')).toEqual({ problem: 'invalid repeat count' });
    expect(parseGoRegexp(`${'('.repeat(2_000)}${')'.repeat(2_000)}`)).toEqual({
      problem: 'expression nests too deeply',
    });
    expect(parseGoRegexp('a'.repeat(5_000))).toEqual({ problem: 'expression is too long' });
  });

  it('agrees with JavaScript about expressions that mean the same there', () => {
    const atom = fc.constantFrom('a', 'b', '.', '[ab]', '[^a]', '(a|b)', '(ab)', '(?:a|)', '\\w', '^', '$');
    const part = fc
      .tuple(atom, fc.constantFrom('', '', '*', '+', '?', '{2}', '{1,2}', '*?'))
      .map(([one, count]) => (one === '^' || one === '$' ? one : `${one}${count}`));
    const pattern = fc.array(part, { maxLength: 5 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(pattern, fc.stringMatching(/^[abc]{0,8}$/), (expression, text) => {
        expect(matches(expression, text)).toBe(new RegExp(expression).test(text));
      }),
      { numRuns: 2_000 },
    );
  });
});
