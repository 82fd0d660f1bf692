const formats = {
  and: new Intl.ListFormat('en-GB', { type: 'conjunction' }),
  or: new Intl.ListFormat('en-GB', { type: 'disjunction' }),
} as const;

/** `a, b and c`. */
export function enumerated(words: readonly string[], last: keyof typeof formats): string {
  return formats[last].format(words);
}
