import type { PodView } from '../activities/cri/await.ts';
import type { KubeClient } from '../activities/kube/client.ts';
import { isGone } from '../activities/kube/failures.ts';
import type { Pod } from '../api/pod.ts';
import type { PodRef } from '../api/refs.ts';
import { kubeResource } from '../api/well-known.ts';

/** The part of a watch cache that is needed here. */
export interface PodCache {
  byUid(uid: string): Pod | undefined;
  onChange(listener: (change: { readonly before?: Pod; readonly after?: Pod }) => void): () => void;
}

/** The pods of this node out of a watch cache, with one listener on it however many wait. */
export function podView(options: {
  readonly cache: PodCache;
  readonly isSynced: () => boolean;
  readonly client: Pick<KubeClient, 'get'>;
}): PodView {
  const listeners = new Map<string, Set<() => void>>();
  options.cache.onChange(({ before, after }) => {
    const uid = (after ?? before)?.metadata.uid;
    for (const listener of listeners.get(uid ?? '') ?? []) listener();
  });

  return {
    synced: options.isSynced,
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

/** Keeps what the daemon reads of a pod: whether it stays, its IP, and what the kubelet says about its containers. */
export function trimPod({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp } = metadata;
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
    },
    spec: { ...(spec.nodeName !== undefined && { nodeName: spec.nodeName }), containers: [] },
    status: {
      ...(status?.podIP !== undefined && { podIP: status.podIP }),
      containerStatuses: (status?.containerStatuses ?? []).map(
        ({ name: container, ready, restartCount, containerID }) => ({
          name: container,
          ready,
          restartCount,
          ...(containerID !== undefined && { containerID }),
        }),
      ),
    },
  };
}
