// How limits are applied in admission. Sizes are compared, not contents: an object that was stored above a limit stays
// editable as long as the edit does not make it larger.
import { isAbsent, type Json, listOr } from '../base/json.ts';
import { jsonBytes } from '../base/json-bytes.ts';
import { type FieldError, invalid } from './field-error.ts';

/** A part of an object that has a limit, and its size. */
export interface Measure {
  readonly path: string;
  /** Identifies it in the other version of the object, where its path may differ. */
  readonly key: string;
  readonly value: number;
  readonly most: number;
  /** The end of the error message, with the limit. */
  readonly rule: string;
}

/** The parts that exceed their limits. What `before` exceeds already is no problem as long as it does not grow. */
export function overLimit(measures: readonly Measure[], before: readonly Measure[] = []): readonly FieldError[] {
  const over = measures.filter(({ value, most }) => value > most);
  if (over.length === 0) return [];
  const known = new Map(before.map(({ key, value }) => [key, value]));
  return over
    .filter(({ key, value }) => value > (known.get(key) ?? 0))
    .map(({ path, value, rule }) => invalid(path, value, rule));
}

/** Characters of a number or percentage given as string. */
export const longestCount = 64;

/** Far above the limit of levels of every kind, and far below what overflows the stack. */
const mostCountedLevels = 1_000;

/** A part that passes through as open JSON: its levels, and its bytes. */
export function open(
  path: string,
  value: Json | undefined,
  { levels: deepest, bytes: most }: { readonly levels: number; readonly bytes: number },
): readonly Measure[] {
  const depth = depthOf(value);
  const levels: Measure = {
    ...{ path, key: `${path} levels`, value: depth, most: deepest },
    rule: `must not have more than ${deepest} levels of objects and lists`,
  };
  // Deeply nested values are not serialized: that may overflow the stack.
  return depth > mostCountedLevels ? [levels] : [levels, bytes(path, value, most)];
}

/** The bytes of a part as JSON. */
export function bytes(path: string, value: Json | undefined, most: number): Measure {
  const size = isAbsent(value) ? 0 : jsonBytes(value);
  return { path, key: `${path} bytes`, value: size, most, rule: `must not have more than ${most / 1024} KiB of JSON` };
}

/** The items of a list. */
export function items(path: string, value: Json | undefined, most: number): Measure {
  const rule = `must not have more than ${most} items`;
  return { path, key: `${path} items`, value: listOr(value).length, most, rule };
}

/** A number or percentage given as string. */
export function count(path: string, value: Json | undefined): Measure {
  const length = typeof value === 'string' ? value.length : 0;
  const rule = `must not be longer than ${longestCount} characters`;
  return { path, key: `${path} text`, value: length, most: longestCount, rule };
}

/** Bytes of the keys and values of all annotations of an object, as Kubernetes limits them. */
export const mostAnnotationBytes = 256 * 1024;

/** The number of nested levels of objects and lists: 1 for an empty object, 0 for a number or a string. */
export function depthOf(value: unknown): number {
  let depth = 0;
  // level by level instead of recursion: deeply nested values must be measured, too
  for (let level = [value].filter(isNested); level.length > 0; depth++) {
    level = level.flatMap((nested) => Object.values(nested)).filter(isNested);
  }
  return depth;
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
