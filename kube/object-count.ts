import type { Page } from './client.ts';

/**
 * How many objects the server counts, from the first page of a list that was asked for one. Undefined: it does not say, as
 * with a selector.
 */
export function countIn({ items, continue: next, remainingItemCount }: Page<unknown>): number | undefined {
  if (next === undefined) return items.length;
  return remainingItemCount === undefined ? undefined : items.length + remainingItemCount;
}
