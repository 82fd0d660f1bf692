/** What the daemon watches: the pods of its node, its Node object, and its NodePodProbe. */

import type { Node } from '../api/core/node.ts';
import type { Pod } from '../api/core/pod.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { type NodePodProbe, nodePodProbe } from '../api/node-pod-probe/types.ts';
import { type Cache, createCache } from '../kube/cache.ts';
import type { KubeClient } from '../kube/client.ts';
import { Reflector, type ReflectorOptions } from '../kube/reflector.ts';
import type { Logger } from '../process/log.ts';
import type { Metrics } from '../process/metrics.ts';
import { trimPod } from './pod-view.ts';

export interface NodeWatchMeans {
  readonly kube: KubeClient;
  readonly nodeName: string;
  readonly gates: FeatureGates;
  readonly metrics: Pick<Metrics, 'trackReflector'>;
  readonly log: Logger;
}

/** One watched resource of this node: the cache, and the reflector that fills it. */
export interface NodeWatch<T extends Pod | Node | NodePodProbe> {
  readonly cache: Cache<T>;
  readonly reflector: Reflector<T>;
}

export interface NodeWatches {
  readonly pods: NodeWatch<Pod>;
  readonly node: NodeWatch<Node>;
  /** Absent: the gate PodProbeMarkerGate is off. */
  readonly probes?: NodeWatch<NodePodProbe>;
}

/** Prepares the watches of this node; none is started. */
export function watchNode(means: NodeWatchMeans): NodeWatches {
  const { nodeName, gates } = means;
  const itself = `metadata.name=${nodeName}`;
  return {
    pods: watch<Pod>(means, 'pods', {
      resource: kubeResource.pods,
      fieldSelector: `spec.nodeName=${nodeName}`,
      trim: (pod) => trimPod(pod, gates),
    }),
    node: watch<Node>(means, 'nodes', { resource: kubeResource.nodes, fieldSelector: itself, trim: trimNode }),
    ...(gates.PodProbeMarkerGate && {
      probes: watch<NodePodProbe>(means, 'nodepodprobes', { resource: nodePodProbe, fieldSelector: itself }),
    }),
  };
}

/** All reflectors, to be stopped. */
export function reflectorsOf({ pods, node, probes }: NodeWatches): readonly Pick<Reflector<Pod>, 'stop'>[] {
  return [pods.reflector, node.reflector, ...(probes ? [probes.reflector] : [])];
}

function watch<T extends Pod | Node | NodePodProbe>(
  { kube, metrics, log }: NodeWatchMeans,
  name: string,
  options: Pick<ReflectorOptions<T>, 'resource' | 'fieldSelector' | 'trim'>,
): NodeWatch<T> {
  const onError = (error: unknown) => log.error({ err: error }, 'A listener of a watch cache has failed');
  const cache = createCache<T>({ onError });
  const reflector = new Reflector<T>({ client: kube, cache, log, ...options });
  metrics.trackReflector(name, reflector);
  return { cache, reflector };
}

/** Only the identity of a Node is needed. */
function trimNode({ apiVersion, kind, metadata }: Node): Node {
  const { name, uid, resourceVersion, creationTimestamp } = metadata;
  return { apiVersion, kind, metadata: { name, uid, resourceVersion, creationTimestamp } };
}
