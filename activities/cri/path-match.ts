// Patterns of registry hosts, like the kubelet's: those of Go's path.Match. Users can write any pattern, so the work is
// bounded by the product of both lengths, regardless of the number of stars.

type Term =
  | { readonly kind: 'star' }
  | { readonly kind: 'one' }
  | { readonly kind: 'is'; readonly character: string }
  | { readonly kind: 'in'; readonly negated: boolean; readonly ranges: readonly (readonly [string, string])[] };

/**
 * Whether the pattern matches the whole text: `*` matches any characters but `/`, `?` matches one, `[a-z]` and `[^a-z]`
 * match one of a class, and `\` escapes the next character. A malformed pattern matches nothing.
 */
export function pathMatch(pattern: string, text: string): boolean {
  const terms = termsOf(pattern);
  if (terms === undefined) return false;
  let at = 0;
  let term = 0;
  // the last star and the end of its match: an earlier star never has to match more
  let star = -1;
  let starEnd = 0;
  while (at < text.length) {
    const wanted = terms[term];
    const character = text[at] ?? '';
    if (wanted?.kind === 'star') {
      star = term++;
      starEnd = at;
    } else if (wanted !== undefined && isFor(wanted, character)) {
      term++;
      at++;
    } else {
      if (star < 0 || text[starEnd] === '/') return false;
      term = star + 1;
      at = ++starEnd;
    }
  }
  while (terms[term]?.kind === 'star') term++;
  return term === terms.length;
}

function isFor(term: Exclude<Term, { kind: 'star' }>, character: string): boolean {
  switch (term.kind) {
    case 'one':
      return character !== '/';
    case 'is':
      return character === term.character;
    case 'in':
      return (
        character !== '/' && term.ranges.some(([low, high]) => low <= character && character <= high) !== term.negated
      );
  }
}

/** Undefined for a malformed pattern. */
function termsOf(pattern: string): readonly Term[] | undefined {
  const terms: Term[] = [];
  for (let at = 0; at < pattern.length; ) {
    const character = pattern[at++] ?? '';
    if (character === '*') {
      if (terms.at(-1)?.kind !== 'star') terms.push({ kind: 'star' });
    } else if (character === '?') {
      terms.push({ kind: 'one' });
    } else if (character === '[') {
      const read = classFrom(pattern, at);
      if (read === undefined) return undefined;
      terms.push(read.term);
      at = read.end;
    } else {
      const plain = character === '\\' ? pattern[at++] : character;
      if (plain === undefined) return undefined;
      terms.push({ kind: 'is', character: plain });
    }
  }
  return terms;
}

/** Parses a class, from after its `[` to after its `]`. */
function classFrom(pattern: string, start: number): { readonly term: Term; readonly end: number } | undefined {
  const negated = pattern[start] === '^';
  let at = negated ? start + 1 : start;
  const ranges: (readonly [string, string])[] = [];
  while (pattern[at] !== ']' || ranges.length === 0) {
    const low = bound();
    if (low === undefined) return undefined;
    let high: string | undefined = low;
    if (pattern[at] === '-') {
      at++;
      high = bound();
    }
    if (high === undefined) return undefined;
    ranges.push([low, high]);
  }
  return { term: { kind: 'in', negated, ranges }, end: at + 1 };

  function bound(): string | undefined {
    const character = pattern[at++];
    if (character === '-' || character === ']') return undefined;
    return character === '\\' ? pattern[at++] : character;
  }
}
