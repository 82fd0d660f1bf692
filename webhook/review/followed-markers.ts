import { type PodProbeMarker, podProbeMarker } from '../../api/pod-probe-marker/types.ts';
import { createCache } from '../../kube/cache.ts';
import { Reflector } from '../../kube/reflector.ts';
import type { FollowOptions } from './followed-objects.ts';
import { LookUpFailed } from './review.ts';

/** All PodProbeMarkers, for new pods on which admission writes their probes. */
export interface FollowedMarkers {
  /** Throws LookUpFailed until all of them have been read once. */
  inNamespace(namespace: string): readonly PodProbeMarker[];
  /** Why not all of them have been read yet; undefined: they have. */
  readonly unread: string | undefined;
  /** Resolves when all of them have been seen. */
  synced(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts watching them. */
export function followMarkers({ client, log, trackReflector }: Omit<FollowOptions, 'onChange'>): FollowedMarkers {
  const onError = (err: unknown) => log.warn({ err, kind: podProbeMarker.kind }, 'Cannot apply a watch event');
  const cache = createCache<PodProbeMarker>({
    indexes: { namespace: ({ metadata }) => [metadata.namespace ?? ''] },
    onError,
  });
  const reflector = new Reflector<PodProbeMarker>({ client, resource: podProbeMarker, cache, log });
  reflector.start();
  trackReflector?.(podProbeMarker.plural, reflector);
  return {
    inNamespace(namespace) {
      if (!reflector.isSynced) throw new LookUpFailed('PodProbeMarkers have not been read yet');
      return cache.byIndex('namespace', namespace);
    },
    get unread() {
      if (reflector.isSynced) return undefined;
      return `PodProbeMarkers have not been read yet: ${reflector.trouble ?? 'the API server has not answered'}`;
    },
    synced: () => reflector.synced(),
    stop: () => reflector.stop(),
  };
}
