import type { ObjectMeta } from '../../../api/core/meta.ts';
import type { Node } from '../../../api/core/node.ts';
import { metadataOf } from './metadata.ts';

/** Node `node-1`, of which nothing is known but that it is there. */
export function aNode({
  metadata = {},
  status,
}: {
  readonly metadata?: Partial<ObjectMeta>;
  readonly status?: NonNullable<Node['status']>;
} = {}): Node {
  const { name = 'node-1' } = metadata;
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: metadataOf({ name, uid: `uid-of-${name}` }, metadata),
    ...(status && { status }),
  };
}
