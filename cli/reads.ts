// Reads with the rights of the user, who may not have all of them.
import type { KubeObject, Resource } from '../api/core/meta.ts';
import type { KubeClient, ListOptions } from '../kube/client.ts';
import { KubeError } from '../kube/failures.ts';

/** All pages of a list. */
export async function listAll<T extends KubeObject>(
  kube: Pick<KubeClient, 'list'>,
  resource: Resource,
  options: ListOptions = {},
): Promise<readonly T[]> {
  const items: T[] = [];
  let next: string | undefined;
  do {
    const page = await kube.list<T>(resource, { ...options, limit: 500, continue: next });
    items.push(...page.items);
    next = page.continue;
  } while (next);
  return items;
}

/** Gives the function that reads something that a decision can do without; a failure becomes one of these notes. */
export function readingInto(notes: string[]) {
  return async <T>(what: string, otherwise: T, look: () => Promise<T>): Promise<T> => {
    try {
      return await look();
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      notes.push(`without ${what}, which could not be read: ${error.message}`);
      return otherwise;
    }
  };
}
