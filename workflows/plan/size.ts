/** How much a value takes as a payload: JSON in UTF-8. Histories hold small payloads only, so plans keep what they say small. */

import { jsonBytes } from '../../api/json-bytes.ts';

export { jsonBytes };

/** The text, cut with an ellipsis where it would take more bytes as JSON than allowed. */
export function shortened(text: string, mostBytes: number): string {
  // a character takes a byte at least, so a long text need not be counted
  if (text.length <= mostBytes && jsonBytes(text) <= mostBytes) return text;
  let kept = '';
  let left = mostBytes - jsonBytes('…');
  for (const character of text) {
    left -= jsonBytes(character) - jsonBytes('');
    if (left < 0) break;
    kept += character;
  }
  return `${kept}…`;
}

/** As many of the first entries as fit into so many bytes as a JSON list. */
export function fitting<T>(entries: readonly T[], mostBytes: number): readonly T[] {
  let left = mostBytes - jsonBytes([]);
  const end = entries.findIndex((entry) => {
    left -= jsonBytes(entry) + 1;
    return left < 0;
  });
  return end < 0 ? entries : entries.slice(0, end);
}
