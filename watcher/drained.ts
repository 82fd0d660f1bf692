import type { Pod } from '../api/core/pod.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { Cache } from '../kube/cache.ts';
import {
  drainPatienceMs,
  type EndpointSlice,
  podsOfSlice,
  respectsReadiness,
  type Service,
  serviceOfSlice,
  servicesShowing,
} from '../plan/drain.ts';
import type { ControllerContext } from './controller.ts';

const byPod = 'podUid';

/** Checks from the caches whether Services still route to pods. */
export class Drains {
  readonly #slices: Cache<EndpointSlice>;
  readonly #services: Cache<Service>;

  constructor({ cache }: Pick<ControllerContext, 'cache'>) {
    this.#slices = cache<EndpointSlice>(kubeResource.endpointSlices, { [byPod]: podsOfSlice });
    this.#services = cache<Service>(kubeResource.services);
  }

  /**
   * Waits until no Service that respects readiness sends new traffic to a pod that has just been made unready. Returns
   * the names of those that still do after 10 s; empty when it is drained. `drained` is the pod as the write returned
   * it.
   */
  async until(before: Pod, drained: Pod, signal: AbortSignal): Promise<readonly string[]> {
    const { uid } = before.metadata;
    if (this.#minding(uid).length === 0) return [];
    // A cache that lags behind may show slices from before the pod became ready. If it was ready, its slice changes
    // after the drain, and that change is awaited first.
    const version = wasReady(before) ? drained.metadata.resourceVersion : undefined;
    const patience = AbortSignal.any([signal, AbortSignal.timeout(drainPatienceMs)]);
    try {
      if (version !== undefined) await this.#slices.seen(uid, version, patience);
      const what = `Services have stopped routing to pod ${uid}`;
      await this.#slices.until(() => this.#routing(uid).length === 0, { signal: patience, what });
      return [];
    } catch (error) {
      if (signal.aborted) throw error;
      return this.#routing(uid);
    }
  }

  /** The slices that contain the pod and belong to a Service which respects readiness. */
  #minding(podUid: string): readonly EndpointSlice[] {
    return this.#slices
      .byIndex(byPod, podUid)
      .filter((slice) =>
        respectsReadiness(this.#services.byName(slice.metadata.namespace ?? '', serviceOfSlice(slice))),
      );
  }

  /** The names of the Services that still route to the pod. */
  #routing(podUid: string): readonly string[] {
    return servicesShowing(podUid, this.#minding(podUid));
  }
}

function wasReady({ status }: Pod): boolean {
  return status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') ?? false;
}
