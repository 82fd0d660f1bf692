// How limits are applied where a value enters. Sizes are compared, not texts: an object that was stored above a limit stays
// editable as long as the edit does not make it larger.
import { type FieldError, invalid } from './field-error.ts';

/** Something of an object that has a limit, and how large it is. */
export interface Measure {
  readonly path: string;
  /** What it is in an older version of the object, where the same may stand elsewhere. */
  readonly key: string;
  readonly value: number;
  readonly most: number;
  /** The end of a sentence, with the limit in it. */
  readonly rule: string;
}

/** What is above its limit. What `before` has of the same is no problem while it does not grow. */
export function overLimit(measures: readonly Measure[], before: readonly Measure[] = []): readonly FieldError[] {
  const over = measures.filter(({ value, most }) => value > most);
  if (over.length === 0) return [];
  const known = new Map(before.map(({ key, value }) => [key, value]));
  return over
    .filter(({ key, value }) => value > (known.get(key) ?? 0))
    .map(({ path, value, rule }) => invalid(path, value, rule));
}

/** How many levels of objects and lists stand in each other: 1 for an empty object, 0 for a number or a text. */
export function depthOf(value: unknown): number {
  let depth = 0;
  // level by level instead of by recursion: what is nested too deeply must be measured, too
  for (let level = [value].filter(isNested); level.length > 0; depth++) {
    level = level.flatMap((nested) => Object.values(nested)).filter(isNested);
  }
  return depth;
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
