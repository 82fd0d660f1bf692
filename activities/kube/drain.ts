import { setTimeout as delay } from 'node:timers/promises';
import { type PodRef, qualifiedName } from '../../api/core/refs.ts';
import { eventComponent, kubeResource } from '../../api/core/well-known.ts';
import { backOff } from '../../kube/back-off.ts';
import type { KubeClient } from '../../kube/client.ts';
import { tellEvent } from '../../kube/events.ts';
import { toFailure } from '../../kube/failures.ts';
import { unlessGone } from '../../kube/moved-on.ts';
import {
  drainPatienceMs,
  type EndpointSlice,
  respectsReadiness,
  type Service,
  servicesShowing,
} from '../../plan/drain.ts';

/** Waits for the traffic of a pod that was made unready to end. */
export interface DrainActivities {
  /**
   * Waits until no Service sends new traffic to the pod: no EndpointSlice shows its UID as ready, except those of
   * Services that publish unready addresses. After 10 s it writes a Warning Event and returns false.
   */
  awaitDrained(pod: PodRef): Promise<boolean>;
}

const pollMs = { first: 50, most: 1_000 } as const;

/** Only reads, except for the Event. */
export function drainActivities({
  kube,
  now,
}: {
  readonly kube: Pick<KubeClient, 'get' | 'list' | 'create'>;
  readonly now: () => Date;
}): DrainActivities {
  return {
    async awaitDrained(pod) {
      const until = performance.now() + drainPatienceMs;
      try {
        for (let looks = 0; ; looks += 1) {
          const routing = await servicesRoutingTo(pod);
          if (routing.length === 0) return true;
          if (performance.now() > until) {
            await warn(pod, routing);
            return false;
          }
          await delay(backOff(pollMs, looks));
        }
      } catch (error) {
        throw toFailure(error, `Cannot see whether pod "${qualifiedName(pod)}" is out of its Services`);
      }
    },
  };

  /** The names of the Services that still route to this pod. */
  async function servicesRoutingTo(pod: PodRef): Promise<readonly string[]> {
    const { items } = await kube.list<EndpointSlice>(kubeResource.endpointSlices, { namespace: pod.namespace });
    const names = [...new Set(servicesShowing(pod.uid, items))];
    const services = await Promise.all(names.map((name) => serviceNamed(pod, name)));
    return names.filter((_, at) => respectsReadiness(services[at]));
  }

  /** Undefined where there is none: the slices of a deleted Service do not change any more. */
  async function serviceNamed({ namespace }: PodRef, name: string): Promise<Service | undefined> {
    if (name === '') return undefined;
    return await unlessGone(kube.get<Service>(kubeResource.services, { namespace, name }));
  }

  async function warn(pod: PodRef, services: readonly string[]): Promise<void> {
    const about = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...pod, resourceVersion: '', creationTimestamp: '' },
    };
    await tellEvent(kube, {
      about,
      component: eventComponent.recreate,
      type: 'Warning',
      reason: 'NotDrained',
      message: `Continuing although Services still route to this pod after ${drainPatienceMs / 1000} s: ${services.join(', ')}`,
      atMs: now().getTime(),
    });
  }
}
