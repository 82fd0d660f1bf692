import { staleContainers } from '../../api/in-place-update.ts';
import type { Node } from '../../api/node.ts';
import type { RefreshOperation } from '../../api/operations.ts';
import type { Pod } from '../../api/pod.ts';
import { type NodeRef, qualifiedName } from '../../api/refs.ts';
import { kubeResource } from '../../api/well-known.ts';
import type { EnvironmentSeen } from '../../workflows/plan/refresh-environment.ts';
import type { KubeClient } from './client.ts';
import { isGone, toFailure } from './failures.ts';

/** So many instances fit into a payload, whatever their names. */
const mostInstances = 20;

/** What one look at the environment of a pod finds. */
export type EnvironmentLook = EnvironmentSeen & {
  /** Absent when no Node object of that name exists any more. */
  readonly node?: NodeRef;
};

/** Looking at the environment of pods. Reads only. */
export interface EnvironmentActivities {
  /** Reads pod and node anew: which containers run with an old environment. A pod that goes counts as gone. */
  lookAtEnvironment(operation: RefreshOperation): Promise<EnvironmentLook>;
}

export function environmentActivities({ kube }: { readonly kube: Pick<KubeClient, 'get'> }): EnvironmentActivities {
  return {
    async lookAtEnvironment({ pod, node }) {
      try {
        const [live, liveNode] = await Promise.all([
          found<Pod>(kube.get(kubeResource.pods, pod)),
          found<Node>(kube.get(kubeResource.nodes, { name: node.name })),
        ]);
        if (live?.metadata.uid !== pod.uid || live.metadata.deletionTimestamp !== undefined) return { kind: 'gone' };
        const stale = staleContainers(live).map(({ name, containerID }) => {
          const [runtime = '', containerId = ''] = containerID.split('://');
          return { name, runtime, containerId };
        });
        return {
          kind: 'seen',
          instances: stale.slice(0, mostInstances),
          more: stale.length > mostInstances,
          ...(liveNode && { node: { name: liveNode.metadata.name, uid: liveNode.metadata.uid } }),
        };
      } catch (error) {
        throw toFailure(error, `Cannot look at the environment of pod "${qualifiedName(pod)}"`);
      }
    },
  };
}

/** The object, or nothing when it does not exist. */
async function found<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}
