import type { PodView } from '../activities/cri/await.ts';
import type { Pod } from '../api/core/pod.ts';
import type { PodRef } from '../api/core/refs.ts';
import { kubeResource, sidecarSetHashAnnotation } from '../api/core/well-known.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../api/in-place/annotations.ts';
import { isReportedOn } from '../api/in-place/containers-meta.ts';
import { envReferences } from '../api/in-place/env-hash.ts';
import type { KubeClient } from '../kube/client.ts';
import { isGone } from '../kube/failures.ts';
import { troubledState } from '../plan/pod-trouble.ts';
import { isHeldByUpdate } from './in-place-gate/opening.ts';

/** The part of a watch cache that is needed here. */
export interface PodCache {
  byUid(uid: string): Pod | undefined;
  onChange(listener: (change: { readonly before?: Pod; readonly after?: Pod }) => void): () => void;
}

/** The pods of this node from a watch cache; one listener serves all waiting callers. */
export function podView(options: {
  readonly cache: PodCache;
  readonly isSynced: () => boolean;
  readonly lastOutage: PodView['lastOutage'];
  readonly client: Pick<KubeClient, 'get'>;
}): PodView {
  const listeners = new Map<string, Set<() => void>>();
  options.cache.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    for (const listener of listeners.get(uid ?? '') ?? []) listener();
  });

  return {
    synced: options.isSynced,
    lastOutage: options.lastOutage,
    pod: (uid) => options.cache.byUid(uid),

    watch(uid, listener) {
      const ofPod = listeners.get(uid) ?? new Set();
      listeners.set(uid, ofPod.add(listener));
      return () => {
        ofPod.delete(listener);
        if (ofPod.size === 0 && listeners.get(uid) === ofPod) listeners.delete(uid);
      };
    },

    async isGone(ref: PodRef) {
      try {
        const pod = await options.client.get<Pod>(kubeResource.pods, ref);
        return pod.metadata.uid !== ref.uid;
      } catch (error) {
        if (isGone(error)) return true;
        throw error;
      }
    },
  };
}

/**
 * Keeps the parts of a pod that the daemon reads: whether it is being deleted, its IP, and its container statuses, with why
 * the kubelet does not start one.
 * Where the daemon reports containers, also the environment that refers to labels and annotations, and the previous
 * report; and during an in-place update the fields that show when it is complete.
 */
export function trimPod(pod: Pod, gates: Pick<FeatureGates, 'DaemonWatchingPod'>): Pod {
  const { apiVersion, kind, metadata, spec, status } = pod;
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp } = metadata;
  const reported = gates.DaemonWatchingPod && isReportedOn(pod) ? reportedParts(pod) : undefined;
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      uid,
      resourceVersion,
      creationTimestamp,
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...reported?.metadata,
    },
    spec: {
      ...(spec.nodeName !== undefined && { nodeName: spec.nodeName }),
      containers: reported?.containers ?? [],
    },
    status: {
      ...reported?.status,
      ...(status?.podIP !== undefined && { podIP: status.podIP }),
      containerStatuses: (status?.containerStatuses ?? []).map(
        ({ name: container, ready, restartCount, containerID, ...status }) => ({
          name: container,
          ready,
          restartCount,
          ...(containerID !== undefined && { containerID }),
          ...troubledState(status),
        }),
      ),
    },
  };
}

/**
 * Only the variables that refer to metadata, and the names of others that override them; only the metadata keys that
 * they refer to.
 */
function reportedParts(pod: Pod) {
  const { metadata, spec, status } = pod;
  const isHeld = isHeldByUpdate(pod);
  const references = spec.containers.flatMap(envReferences);
  const containers = spec.containers.map((container) => {
    const names = new Set(envReferences(container).map(({ env }) => env));
    const env = (container.env ?? []).flatMap((variable) => {
      if (!names.has(variable.name)) return [];
      return envReferences({ env: [variable] }).length > 0 ? [variable] : [{ name: variable.name }];
    });
    const { image } = container;
    return { name: container.name, ...(env.length > 0 && { env }), ...(isHeld && image !== undefined && { image }) };
  });
  const keysOf = (kind: 'labels' | 'annotations') =>
    references.filter(({ from }) => from === kind).map(({ key }) => key);
  const { containersMeta, state, oldState, grace, oldGrace } = inPlaceAnnotation;
  const own = [sidecarSetHashAnnotation, containersMeta, ...(isHeld ? [state, oldState, grace, oldGrace] : [])];
  const controller = metadata.ownerReferences?.filter((owner) => owner.controller === true);
  return {
    containers,
    metadata: {
      ...(isHeld && metadata.generation !== undefined && { generation: metadata.generation }),
      labels: only(metadata.labels, keysOf('labels')),
      annotations: only(metadata.annotations, [...keysOf('annotations'), ...own]),
      ...(controller && { ownerReferences: controller }),
    },
    status: isHeld && {
      ...(status?.observedGeneration !== undefined && { observedGeneration: status.observedGeneration }),
      conditions: status?.conditions?.filter(({ type }) => type === inPlaceReadinessGate || type === 'Ready') ?? [],
    },
  };
}

function only(all: Readonly<Record<string, string>> = {}, keys: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(keys.flatMap((key) => (all[key] === undefined ? [] : [[key, all[key]]])));
}
