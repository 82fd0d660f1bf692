import type { ObjectMeta } from '../../../api/core/meta.ts';

/** When the objects of these builders were created. */
export const createdAt = '2026-01-01T00:00:00Z';

/** The metadata of an object that was stored once. */
export function metadataOf(
  identity: Pick<ObjectMeta, 'namespace' | 'name' | 'uid'>,
  overrides: Partial<ObjectMeta> = {},
): ObjectMeta {
  return { ...identity, resourceVersion: '1', creationTimestamp: createdAt, ...overrides };
}
