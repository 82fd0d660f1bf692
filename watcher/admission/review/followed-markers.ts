import { type PodProbeMarker, podProbeMarker } from '../../../api/pod-probe-marker/types.ts';
import { createCache } from '../../../kube/cache.ts';
import { Reflector } from '../../../kube/reflector.ts';
import type { FollowOptions } from './followed-objects.ts';

/** All PodProbeMarkers, for new pods on which admission writes their probes. */
export interface FollowedMarkers {
  inNamespace(namespace: string): readonly PodProbeMarker[];
  /**
   * CEL expressions that match the pods which may have a marker: those in a namespace with one. Empty when there is
   * none.
   */
  podsOfThem(): readonly string[];
  /** Resolves when all of them have been seen. */
  synced(): Promise<void>;
  stop(): Promise<void>;
}

/** With more namespaces than this, the expression would cost more than it saves. */
const mostNamespaces = 100;

/** Starts watching them. `onChange` is called when a namespace gets its first marker or loses its last one. */
export function followMarkers({ client, log, onChange, trackReflector }: FollowOptions): FollowedMarkers {
  const onError = (err: unknown) => log.warn({ err, kind: podProbeMarker.kind }, 'Cannot apply a watch event');
  const cache = createCache<PodProbeMarker>({
    indexes: { namespace: ({ metadata }) => [metadata.namespace ?? ''] },
    onError,
  });
  const podsOfThem = () => {
    const namespaces = [...new Set([...cache.all()].map(({ metadata }) => metadata.namespace ?? ''))];
    if (namespaces.length === 0) return [];
    if (namespaces.length > mostNamespaces) return ['true'];
    const names = namespaces.toSorted((left, right) => left.localeCompare(right)).map((name) => JSON.stringify(name));
    return [`request.namespace in [${names.join(', ')}]`];
  };
  let known = '';
  cache.onChange(() => {
    const now = podsOfThem().join();
    if (now === known) return;
    known = now;
    onChange();
  });
  const reflector = new Reflector<PodProbeMarker>({ client, resource: podProbeMarker, cache, log });
  reflector.start();
  trackReflector?.(podProbeMarker.plural, reflector);
  return {
    inNamespace: (namespace) => cache.byIndex('namespace', namespace),
    podsOfThem,
    synced: () => reflector.synced(),
    stop: () => reflector.stop(),
  };
}
