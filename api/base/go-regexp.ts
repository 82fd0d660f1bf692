// Regular expressions of Go, as users write them in SidecarSets and in their whitelist. RE2JS has the syntax of Go and takes
// time in proportion to the text; JavaScript's engine backtracks, and an expression that a user writes could take it years.

import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js';

/** A parsed expression. */
export interface GoRegexp {
  /** Whether the text contains a match, as `MatchString` of Go. */
  readonly matches: (text: string) => boolean;
}

const longestPattern = 4_096;

/** The expression, or what is wrong with it. */
export function parseGoRegexp(pattern: string): GoRegexp | { readonly problem: string } {
  if (pattern.length > longestPattern) return { problem: 'expression is too long' };
  try {
    const expression = RE2JS.compile(pattern);
    return { matches: (text) => expression.test(text) };
  } catch (error) {
    if (error instanceof RE2JSSyntaxException) return { problem: error.getDescription() };
    if (error instanceof RE2JSException) return { problem: error.message };
    throw error;
  }
}
