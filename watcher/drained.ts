import type { KubeObject } from '../api/core/meta.ts';
import type { Pod } from '../api/core/pod.ts';
import { kubeResource } from '../api/core/well-known.ts';
import type { Cache } from '../kube/cache.ts';
import type { ControllerContext } from './controller.ts';

/** What is read of an EndpointSlice: which pods it names, and whether it calls them ready. */
export interface EndpointSlice extends KubeObject {
  /** The API server writes null for a Service that has none. */
  readonly endpoints?:
    | readonly {
        readonly conditions?: { readonly ready?: boolean };
        readonly targetRef?: { readonly uid?: string };
      }[]
    | null;
}

/** What is read of a Service: whether it minds readiness at all. */
export interface Service extends KubeObject {
  readonly spec: { readonly publishNotReadyAddresses?: boolean };
}

/** The endpoint controller needs well under a second; who waits longer waits for something that is broken. */
const patienceMs = 10_000;
const byPod = 'podUid';
/** The label by which an EndpointSlice names its Service. */
export const serviceLabel = 'kubernetes.io/service-name';

/** Sees from the caches whether Services have let go of pods. */
export class Drains {
  readonly #slices: Cache<EndpointSlice>;
  readonly #services: Cache<Service>;

  constructor({ cache }: Pick<ControllerContext, 'cache'>) {
    this.#slices = cache<EndpointSlice>(kubeResource.endpointSlices, {
      [byPod]: ({ endpoints }) => (endpoints ?? []).flatMap(({ targetRef }) => targetRef?.uid ?? []),
    });
    this.#services = cache<Service>(kubeResource.services);
  }

  /**
   * Waits until no Service that minds readiness sends new traffic to a pod that has just been made unready. Answers the
   * names of those that still do after 10 s; none when it is drained. `drained` is the pod as the write left it.
   */
  async until(before: Pod, drained: Pod, signal: AbortSignal): Promise<readonly string[]> {
    const { uid } = before.metadata;
    if (this.#minding(uid).length === 0) return [];
    // A cache that is behind may show the slices of a time before the pod was ready. The slice of one that was has
    // something to say after the drain.
    const version = wasReady(before) ? drained.metadata.resourceVersion : undefined;
    const patience = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
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

  /** The slices that name the pod and belong to a Service for which it matters whether the pod is ready. */
  #minding(podUid: string): readonly EndpointSlice[] {
    return this.#slices.byIndex(byPod, podUid).filter(({ metadata }) => {
      const service = this.#services.byName(metadata.namespace ?? '', metadata.labels?.[serviceLabel] ?? '');
      return service !== undefined && service.spec.publishNotReadyAddresses !== true;
    });
  }

  /** Names of the Services that still choose the pod. */
  #routing(podUid: string): readonly string[] {
    return this.#minding(podUid)
      .filter(({ endpoints }) =>
        endpoints?.some(({ targetRef, conditions }) => targetRef?.uid === podUid && conditions?.ready !== false),
      )
      .map(({ metadata }) => metadata.labels?.[serviceLabel] ?? '');
  }
}

function wasReady({ status }: Pod): boolean {
  return status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') ?? false;
}
