import type { KubeObject } from '../../api/core/meta.ts';
import { isVirtual } from '../../api/core/node.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { NodeImage } from '../../api/node-image/types.ts';
import type { Cache } from '../../kube/cache.ts';

/**
 * The NodeImages of the nodes on which these pods are, by node; undefined for a node that has none yet: a ready node gets its
 * NodeImage after a while, unless it has no daemon.
 */
export function imagesOn(
  pods: readonly Pod[],
  nodes: Cache<KubeObject>,
  images: Cache<NodeImage>,
): ReadonlyMap<string, NodeImage | undefined> {
  const names = [...new Set(pods.flatMap(({ spec }) => spec.nodeName ?? []))];
  const found = names.map((name) => [name, images.byName('', name)] as const);
  return new Map(
    found.filter(([name, nodeImage]) => {
      const node = nodes.byName('', name);
      return nodeImage !== undefined || (node !== undefined && !isVirtual(node));
    }),
  );
}
