// ContainerRecreateRequest: restarts containers of one pod and leaves the pod where it is.
//
// Each field has one writer; every write carries the resourceVersion of the object that it was decided on.
//
//   metadata.labels pod-uid, node-name, type     admission, at creation, never changed
//   metadata.labels active                       admission sets it, the watcher's pass over holds removes it at the end
//   metadata.finalizers unready-acquired         the workflow adds it, the watcher's pass over holds removes it
//   spec                                         the user; admission fills the rest at creation, or the watcher in its first
//                                                write where admission does not know its caller; then immutable
//   status.phase                                 the workflow; the watcher for a request that waits behind another one:
//                                                `Pending`, and `Completed` when its deadline passes there; and for one
//                                                that names containers that cannot be restarted
//   status.completionTime, message               the workflow, together with the phase `Completed`
//   status.containerRecreateStates               the workflow
//   status.containerStatusSnapshot               the workflow
//   status.conditions                            the workflow
//   status.waitingFor                            the workflow while it runs; Queued and those of the engine: the watcher
//   status.observedGeneration                    the workflow, last
//
// The workflow writes through the cluster worker. The daemon writes no field of a request: it reports verdicts to the
// workflow and Events to the pod.

import type { JsonObject } from '../base/json.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import { group } from '../core/well-known.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

/** A request in the shape of v1beta1, the only one used internally. */
export interface ContainerRecreateRequest extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: ContainerRecreateRequestSpec;
  /** Absent until the controller has seen the object. */
  readonly status?: ContainerRecreateRequestStatus;
}

export type ContainerRecreateRequestSpec = Parsed<typeof specSchema>;
export type ContainerRecreateRequestStatus = Parsed<typeof statusSchema>;
export type RecreateStrategy = NonNullable<ContainerRecreateRequestSpec['strategy']>;
export type RecreateContainer = ContainerRecreateRequestSpec['containers'][number];
export type RecreatePreStop = NonNullable<RecreateContainer['preStop']>;
export type RecreatePhase = ContainerRecreateRequestStatus['phase'];
export type ContainerRecreateState = NonNullable<ContainerRecreateRequestStatus['containerRecreateStates']>[number];
export type ContainerRecreatePhase = ContainerRecreateState['phase'];
export type ContainerStatusSnapshot = NonNullable<ContainerRecreateRequestStatus['containerStatusSnapshot']>[number];
export type FailurePolicy = NonNullable<RecreateStrategy['failurePolicy']>;

/** The resource of requests in the version that Windlass uses. */
export const crr = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'containerrecreaterequests',
  kind: 'ContainerRecreateRequest',
  namespaced: true,
} as const satisfies Resource;

/** The older version, which is served, too. */
export const crrV1alpha1 = { ...crr, version: 'v1alpha1' } as const satisfies Resource;

export type RecreateVersion = typeof crr.version | typeof crrV1alpha1.version;

/** The version of an object of this kind, or undefined for one that is not served. */
export function recreateVersion(object: JsonObject): RecreateVersion | undefined {
  if (object.apiVersion === `${crr.group}/v1beta1`) return 'v1beta1';
  if (object.apiVersion === `${crr.group}/v1alpha1`) return 'v1alpha1';
  return undefined;
}

/** Whether the request is completed, successfully or not. That is final. */
export function isCompleted(request: ContainerRecreateRequest): boolean {
  return request.status?.phase === 'Completed';
}

/** Whether the request has everything that a stop needs (CRR-8). */
export function isFilled({ spec }: Pick<ContainerRecreateRequest, 'spec'>): boolean {
  return spec.containers.every(({ statusContext }) => statusContext !== undefined);
}
