import type { RefreshOperation } from '../../api/container-recreate-request/operation.ts';
import type { Node } from '../../api/core/node.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type NodeRef, qualifiedName } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { toFailure } from '../../kube/failures.ts';
import { unlessGone } from '../../kube/moved-on.ts';
import { staleContainers } from '../../plan/fleet/in-place/completion.ts';
import type { EnvironmentSeen } from '../../plan/refresh-environment.ts';
import { nextPart } from '../../plan/text-size.ts';

/** The limit of instances in one look: their names and IDs have to fit into a history event. */
const mostInstances = { count: 20, bytes: 3_500 } as const;

/** The result of looking at the environment of a pod. */
export type EnvironmentLook = EnvironmentSeen & {
  /** Absent when there is no Node object of that name. */
  readonly node?: NodeRef;
};

/** Looks at the environment of pods. Only reads. */
export interface EnvironmentActivities {
  /** Reads pod and node: which containers run with an old environment. A pod that is being deleted counts as gone. */
  lookAtEnvironment(operation: RefreshOperation): Promise<EnvironmentLook>;
}

export function environmentActivities({ kube }: { readonly kube: Pick<KubeClient, 'get'> }): EnvironmentActivities {
  return {
    async lookAtEnvironment({ pod, node }) {
      try {
        const [live, liveNode] = await Promise.all([
          unlessGone<Pod>(kube.get(kubeResource.pods, pod)),
          unlessGone<Node>(kube.get(kubeResource.nodes, { name: node.name })),
        ]);
        if (live?.metadata.uid !== pod.uid || live.metadata.deletionTimestamp !== undefined) return { kind: 'gone' };
        const stale = staleContainers(live).map(({ name, containerID }) => {
          const [runtime = '', containerId = ''] = containerID.split('://');
          return { name, runtime, containerId };
        });
        const instances = nextPart(stale.slice(0, mostInstances.count), mostInstances.bytes);
        return {
          kind: 'seen',
          instances,
          more: stale.length > instances.length,
          ...(liveNode && { node: { name: liveNode.metadata.name, uid: liveNode.metadata.uid } }),
        };
      } catch (error) {
        throw toFailure(error, `Cannot read the environment of pod "${qualifiedName(pod)}"`);
      }
    },
  };
}
