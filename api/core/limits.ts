// How limits are applied in admission. Sizes are compared, not contents: an object that was stored above a limit stays
// editable as long as the edit does not make it larger.
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
