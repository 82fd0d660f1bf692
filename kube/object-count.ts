import type { Page } from './client.ts';

/**
 * How many objects there are, from the first page of a list with limit 1. Undefined when the server does not say, as
 * with a selector.
 */
export function countIn({ items, continue: next, remainingItemCount }: Page<unknown>): number | undefined {
  if (next === undefined) return items.length;
  return remainingItemCount === undefined ? undefined : items.length + remainingItemCount;
}
