/**
 * Pods in an in-place update whose containers still run with an old environment. When the daemon's report differs from
 * what the pod's labels and annotations define, the operation of that pod stops the containers (ND-27). No API object
 * is created for it.
 */

import {
  type RefreshOperation,
  type RestartChanged,
  restartStart,
} from '../../../api/container-recreate-request/operation.ts';
import type { Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import type { FeatureGates } from '../../../api/feature-gates.ts';
import { rollOutBehind } from '../../../api/fleet/cause.ts';
import type { Cache } from '../../../kube/cache.ts';
import { staleContainers } from '../../../plan/fleet/in-place/completion.ts';
import type { WantedOperation } from '../../starter.ts';

export type RefreshGates = Pick<FeatureGates, 'DaemonWatchingPod' | 'InPlaceUpdateEnvFromMetadata'>;

/** Whether containers of this pod have to be stopped for their environment. */
export function isEnvironmentStale(pod: Pod | undefined, gates: RefreshGates): boolean {
  if (!gates.DaemonWatchingPod || !gates.InPlaceUpdateEnvFromMetadata || pod === undefined) return false;
  return staleContainers(pod).length > 0;
}

/** The operation that stops them; undefined when there is nothing to stop. */
export function environmentRefresh(
  pod: Pod | undefined,
  { gates, nodes }: { readonly gates: RefreshGates; readonly nodes: Pick<Cache<Node>, 'byName'> },
): WantedOperation | undefined {
  if (pod === undefined || !isEnvironmentStale(pod, gates)) return undefined;
  const { namespace = '', name, uid } = pod.metadata;
  const nodeName = pod.spec.nodeName ?? '';
  const nodeUid = nodes.byName('', nodeName)?.metadata.uid ?? `gone-${nodeName}`;
  const cause = rollOutBehind(pod);
  const operation: RefreshOperation = {
    refresh: 'environment',
    pod: { namespace, name, uid },
    node: { name: nodeName, uid: nodeUid },
    ...(cause !== undefined && { cause }),
  };
  const change: RestartChanged = { operation, generation: pod.metadata.generation ?? 0 };
  return {
    ...restartStart(operation),
    change,
    inputs: JSON.stringify(['environment', nodeUid, staleContainers(pod).map(({ containerID }) => containerID)]),
  };
}
