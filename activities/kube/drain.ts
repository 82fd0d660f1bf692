import { setTimeout as delay } from 'node:timers/promises';
import type { KubeObject } from '../../api/core/meta.ts';
import { type PodRef, qualifiedName } from '../../api/core/refs.ts';
import { eventComponent, kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isGone, toFailure } from '../../kube/failures.ts';
import { recordEvent } from './events.ts';

/** Looking after the traffic of a pod that has been made unready. */
export interface DrainActivities {
  /**
   * Waits until no Service sends new traffic to the pod: no EndpointSlice shows its UID as ready, except those of
   * Services that publish unready addresses. After 10 s it gives up, says so in a Warning Event, and answers false.
   */
  awaitDrained(pod: PodRef): Promise<boolean>;
}

interface EndpointSlice extends KubeObject {
  readonly endpoints?: readonly {
    readonly conditions?: { readonly ready?: boolean };
    readonly targetRef?: { readonly uid?: string };
  }[];
}

interface Service extends KubeObject {
  readonly spec: { readonly publishNotReadyAddresses?: boolean };
}

/** The endpoint controller needs well under a second; who waits longer waits for something that is broken. */
const patienceMs = 10_000;
const pollMs = { first: 50, most: 1_000 } as const;
const serviceLabel = 'kubernetes.io/service-name';

/** Reads only, but for the Event. */
export function drainActivities({
  kube,
  now,
}: {
  readonly kube: Pick<KubeClient, 'get' | 'list' | 'create'>;
  readonly now: () => Date;
}): DrainActivities {
  return {
    async awaitDrained(pod) {
      const until = performance.now() + patienceMs;
      try {
        let routing = await servicesRoutingTo(pod);
        for (let waitMs: number = pollMs.first; routing.length > 0; waitMs = Math.min(waitMs * 2, pollMs.most)) {
          if (performance.now() > until) {
            await warn(pod, routing);
            return false;
          }
          await delay(waitMs);
          routing = await servicesRoutingTo(pod);
        }
        return true;
      } catch (error) {
        throw toFailure(error, `Cannot see whether pod "${qualifiedName(pod)}" is out of its Services`);
      }
    },
  };

  /** Names of Services that would still choose this pod. */
  async function servicesRoutingTo(pod: PodRef): Promise<readonly string[]> {
    const { items } = await kube.list<EndpointSlice>(kubeResource.endpointSlices, { namespace: pod.namespace });
    const names = items
      .filter(({ endpoints }) =>
        endpoints?.some(({ targetRef, conditions }) => targetRef?.uid === pod.uid && conditions?.ready !== false),
      )
      .map(({ metadata }) => metadata.labels?.[serviceLabel] ?? '');
    const routing = await Promise.all(
      [...new Set(names)].map(async (name) => ((await minds(pod, name)) ? [name] : [])),
    );
    return routing.flat();
  }

  /** Whether the Service cares for readiness at all; a slice without one belongs to nobody who would change it. */
  async function minds({ namespace }: PodRef, name: string): Promise<boolean> {
    if (name === '') return false;
    try {
      const service = await kube.get<Service>(kubeResource.services, { namespace, name });
      return service.spec.publishNotReadyAddresses !== true;
    } catch (error) {
      if (isGone(error)) return false;
      throw error;
    }
  }

  async function warn(pod: PodRef, services: readonly string[]): Promise<void> {
    const about = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...pod, resourceVersion: '', creationTimestamp: '' },
    };
    await recordEvent(kube, {
      about,
      component: eventComponent.recreate,
      type: 'Warning',
      reason: 'NotDrained',
      message: `Continuing although Services still route to this pod after ${patienceMs / 1000} s: ${services.join(', ')}`,
      at: now(),
    });
  }
}
