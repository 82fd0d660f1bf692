import type { ContainerRecreateRequest } from '../../../api/container-recreate-request/types.ts';
import type { PodRef } from '../../../api/core/refs.ts';
import { crrLabel } from '../../../api/core/well-known.ts';

/** The UID label that links a request to its pod; empty when admission has not seen the request. */
export function podUidOf(request: ContainerRecreateRequest): string {
  return podOf(request).uid;
}

/** The pod of a request, by its own account. */
export function podOf({ metadata, spec }: ContainerRecreateRequest): PodRef {
  return { namespace: metadata.namespace ?? '', name: spec.podName, uid: metadata.labels?.[crrLabel.podUid] ?? '' };
}

export function nameOf({ metadata }: ContainerRecreateRequest): { readonly namespace: string; readonly name: string } {
  return { namespace: metadata.namespace ?? '', name: metadata.name };
}

export function generationOf({ metadata }: ContainerRecreateRequest): number {
  return metadata.generation ?? 0;
}

/** Whether its operation has begun. */
export function hasBegun(request: ContainerRecreateRequest | undefined): boolean {
  return request?.status?.phase === 'Recreating';
}
