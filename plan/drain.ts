/**
 * Whether Services still route to a pod that was made unready. Unready pods stay in EndpointSlices with `ready: false`, so
 * a pod is drained when no slice shows it as ready any more, except those of Services that publish unready addresses.
 */

import type { KubeObject } from '../api/core/meta.ts';

/** The fields of an EndpointSlice that are read: the pods that it contains, and whether it shows them as ready. */
export interface EndpointSlice extends KubeObject {
  /** The API server writes null for a Service without endpoints. */
  readonly endpoints?:
    | readonly {
        readonly conditions?: { readonly ready?: boolean };
        readonly targetRef?: { readonly uid?: string };
      }[]
    | null;
}

/** The fields of a Service that are read: whether it respects readiness. */
export interface Service extends KubeObject {
  readonly spec: { readonly publishNotReadyAddresses?: boolean };
}

/** The label by which an EndpointSlice names its Service. */
export const serviceLabel = 'kubernetes.io/service-name';

/**
 * How long a drain may take. The endpoint controller needs well under a second, so after this time something is broken.
 */
export const drainPatienceMs = 10_000;

/** The UIDs of the pods in a slice, ready or not. */
export function podsOfSlice({ endpoints }: EndpointSlice): readonly string[] {
  return (endpoints ?? []).flatMap(({ targetRef }) => targetRef?.uid ?? []);
}

/** The name of the Service that a slice belongs to; empty where it belongs to none. */
export function serviceOfSlice({ metadata }: EndpointSlice): string {
  return metadata.labels?.[serviceLabel] ?? '';
}

/** The names of the Services whose slices show the pod as ready; an absent condition counts as ready. */
export function servicesShowing(podUid: string, slices: readonly EndpointSlice[]): readonly string[] {
  return slices
    .filter(({ endpoints }) =>
      endpoints?.some(({ targetRef, conditions }) => targetRef?.uid === podUid && conditions?.ready !== false),
    )
    .map(serviceOfSlice);
}

/** Whether readiness decides where the Service routes to; a Service that does not exist routes nowhere. */
export function respectsReadiness(service: Service | undefined): boolean {
  return service !== undefined && service.spec.publishNotReadyAddresses !== true;
}
