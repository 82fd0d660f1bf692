// JSON as Go's encoding/json writes it. Hashes and annotations that OpenKruise also writes are compared byte for byte, so
// spaces, escapes and the order of keys all count.
//
// Written by hand because JSON.stringify cannot keep an order: JavaScript moves keys that look like numbers to the front
// of an object, and labels may look like numbers.
import type { Json } from './json.ts';

/**
 * The input of `goJson`. An object stands for a Go struct and keeps its order; a Map stands for a Go map and is sorted.
 */
export type GoValue =
  | Json
  | readonly GoValue[]
  | ReadonlyMap<string, GoValue>
  | { readonly [key: string]: GoValue | undefined };

/** Compact JSON in Go's format: objects in the given order without undefined values, Maps sorted, Go's escapes. */
export function goJson(value: GoValue): string {
  return write(value, false);
}

/** Compact JSON in Go's format for untyped data: the keys of every object are sorted. */
export function goJsonSorted(value: GoValue): string {
  return write(value, true);
}

/** A Go map from an object with the same keys; undefined stays undefined, so that an absent map stays absent. */
export function goMap<Value extends GoValue>(
  object: Readonly<Record<string, Value>> | undefined,
): ReadonlyMap<string, Value> | undefined {
  return object && new Map(Object.entries(object));
}

/**
 * Less than 0, 0 or more than 0, in Go's order of strings: by their UTF-8 bytes, which equals the order of code points.
 */
export function compareGoStrings(left: string, right: string): number {
  if (left === right) return 0;
  let at = 0;
  while (at < left.length && left[at] === right[at]) at++;
  return rank(left.charCodeAt(at)) - rank(right.charCodeAt(at));
}

function write(value: GoValue, sorted: boolean): string {
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) return `[${joined(value, (item: GoValue) => write(item, sorted))}]`;
  if (value instanceof Map) return writeEntries([...value], true, sorted);
  if (typeof value === 'object' && value !== null) return writeEntries(Object.entries(value), sorted, sorted);
  // Go writes floating-point numbers like JavaScript, except for negative zero.
  return Object.is(value, -0) ? '-0' : JSON.stringify(value);
}

function writeEntries(
  entries: readonly (readonly [string, GoValue | undefined])[],
  inOrder: boolean,
  sorted: boolean,
): string {
  const named = entries.map(([key, inner]) => [key.toWellFormed(), inner] as const);
  const ordered = inOrder ? named.toSorted(([left], [right]) => compareGoStrings(left, right)) : named;
  const members = ordered.filter(([, inner]) => inner !== undefined);
  return `{${joined(members, ([key, inner]) => `${quoted(key)}:${write(inner as GoValue, sorted)}`)}}`;
}

/** Like `map(text).join(',')`, which would copy a text once for each level that it is nested in. */
function joined<Item>(items: readonly Item[], text: (item: Item) => string): string {
  let all = '';
  for (const item of items) all += all === '' ? text(item) : `,${text(item)}`;
  return all;
}

function quoted(text: string): string {
  // A Go string cannot contain half a surrogate pair: it is read as U+FFFD, and written as such.
  return JSON.stringify(text.toWellFormed()).replace(
    /[<>&\u2028\u2029]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** The order by UTF-16 code units differs for halves of surrogate pairs only. The end of a string comes first. */
function rank(codeUnit: number): number {
  if (Number.isNaN(codeUnit)) return -1;
  const isSurrogate = codeUnit >= 0xd800 && codeUnit <= 0xdfff;
  return isSurrogate ? codeUnit + 0x10000 : codeUnit;
}
