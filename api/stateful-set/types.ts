// StatefulSet (apps.kruise.io): pods with stable names and volumes, updated in place or by recreation.
//
// Each field has one writer; every write carries the resourceVersion of the object that it was decided on.
//
//   spec.replicas     the user, or an autoscaler through the scale subresource
//   spec, all else    the user; admission fills in defaults
//   status            the leading watcher, all fields in one write
//   metadata          the user
//
// A keyed queue of the leading watcher reconciles StatefulSets (see watcher/fleet). The roll-out workflow writes no field
// of a StatefulSet: it submits permits to disrupt pods to that queue.

import type { JsonObject } from '../base/json.ts';
import { normal, warning } from '../core/event.ts';
import type { LabelSelector } from '../core/label-selector.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import type { PodTemplate } from '../core/pod-template.ts';
import { group } from '../core/well-known.ts';
import { podWaits } from '../fleet/pod-waits.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

/** A StatefulSet in the shape of v1beta1, the only one used internally. */
export interface StatefulSet extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: StatefulSetSpec;
  /** Absent until the controller has seen the object. */
  readonly status?: StatefulSetStatus;
}

type ParsedSpec = Parsed<typeof specSchema>;

export interface StatefulSetSpec extends Omit<ParsedSpec, 'selector' | 'template' | 'volumeClaimTemplates'> {
  readonly selector: LabelSelector;
  readonly template: PodTemplate;
  readonly volumeClaimTemplates?: readonly JsonObject[];
}

export type StatefulSetStatus = Parsed<typeof statusSchema>;
export type StatefulSetRollingUpdate = NonNullable<NonNullable<StatefulSetSpec['updateStrategy']>['rollingUpdate']>;
export type StatefulSetCondition = NonNullable<StatefulSetStatus['conditions']>[number];

/** The resource of StatefulSets in the version that Windlass uses. */
export const statefulSets = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'statefulsets',
  kind: 'StatefulSet',
  namespaced: true,
} as const satisfies Resource;

/** The older version, which is served, too. */
export const statefulSetsV1alpha1 = { ...statefulSets, version: 'v1alpha1' } as const satisfies Resource;

export type StatefulSetVersion = typeof statefulSets.version | typeof statefulSetsV1alpha1.version;

/** The version of an object of this kind, or undefined for one that is not served. */
export function statefulSetVersion(object: JsonObject): StatefulSetVersion | undefined {
  if (object.apiVersion === `${statefulSets.group}/v1beta1`) return 'v1beta1';
  if (object.apiVersion === `${statefulSets.group}/v1alpha1`) return 'v1alpha1';
  return undefined;
}

/** Labels and annotations of the pods and PVCs of StatefulSets. */
export const statefulSetMark = {
  /** Label of a pod: its name, restored if it is removed. */
  podName: 'statefulset.kubernetes.io/pod-name',
  /** Label of a pod: its ordinal, by feature gate `PodIndexLabel`. */
  podIndex: 'apps.kubernetes.io/pod-index',
  /** Annotation of a PVC that was resized with its template: the name of the StatefulSet. */
  claimOf: 'apps.kruise.io/owned-by-asts',
} as const;

/**
 * The meaning of absent fields. Admission writes these values into objects; code that reads an object without them uses
 * them, too.
 */
export const statefulSetDefault = {
  replicas: 1,
  revisionHistoryLimit: 10,
  podManagementPolicy: 'OrderedReady',
  updateType: 'RollingUpdate',
  podUpdatePolicy: 'ReCreate',
  partition: 0,
  maxUnavailable: 1,
  minReadySeconds: 0,
  whenDeleted: 'Retain',
  whenScaled: 'Retain',
  volumeClaimUpdate: 'OnDelete',
} as const;

/** Conditions, present while the last pass failed (AS §3). */
export const statefulSetCondition = {
  failedCreate: 'FailedCreatePod',
  failedUpdate: 'FailedUpdatePod',
} as const;

/** Events about StatefulSets, from component `statefulset-controller`: OpenKruise's reasons and texts. */
export const statefulSetEvent = {
  created: (pod: string) => normal('SuccessfulCreate', `create ${podOf(pod)} successful`),
  createFailed: (pod: string, error: string) => warning('FailedCreate', `create ${podOf(pod)} failed error: ${error}`),
  claimCreated: (claim: string, pod: string) =>
    normal('SuccessfulCreate', `create Claim ${claim} ${podOf(pod)} success`),
  claimCreateFailed: (claim: string, error: string, pod: string) =>
    warning('FailedCreate', `create Claim ${claim} for ${podOf(pod)} failed error: ${error}`),
  deleted: (pod: string) => normal('SuccessfulDelete', `delete ${podOf(pod)} successful`),
  deleteFailed: (pod: string, error: string) => warning('FailedDelete', `delete ${podOf(pod)} failed error: ${error}`),
  claimDeleteFailed: (claim: string, error: string) =>
    warning('FailedDelete', `delete Claim ${claim} failed error: ${error}`),
  claimUpdateFailed: (claim: string, error: string) =>
    warning('FailedUpdate', `update Claim ${claim} failed error: ${error}`),
  claimResized: (claim: string, pod: string) =>
    normal('SuccessfulResize', `resize Claim ${claim} ${podOf(pod)} success`),
  claimResizeFailed: (claim: string, error: string, pod: string) =>
    warning('FailedResize', `resize Claim ${claim} for ${podOf(pod)} failed error: ${error}`),
  claimDiffers: (claim: string) =>
    warning(
      'FailedUpdatePVC',
      `failed to update pvc ${claim}: contains diff other than spec resource, wait pvc to be deleted`,
    ),
  writeFailed: (pod: string, error: string) => warning('FailedUpdate', `update ${podOf(pod)} failed error: ${error}`),
  updatedInPlace: (pod: string, revision: string) =>
    normal('SuccessfulUpdatePodInPlace', `successfully update pod ${pod} in-place(revision ${revision})`),
  updateInPlaceFailed: (pod: string, revision: string, error: string) =>
    warning('FailedUpdatePodInPlace', `failed to update pod ${pod} in-place(revision ${revision}): ${error}`),
  recreated: () => undefined,
  recreateFailed: (pod: string, _: string, error: string) =>
    warning('FailedDelete', `delete ${podOf(pod)} failed error: ${error}`),
  pullJobCreated: (job: string, image: string) =>
    normal('CreatedImagePullJob', `created ImagePullJob ${job} for image: ${image}`),
  /** Not a warning: the update continues without it. */
  pullJobCreateFailed: (job: string, error: string) =>
    normal('FailedCreateImagePullJob', `failed to create ImagePullJob ${job}: ${error}`),
} as const;

/** `Pod web-0 in StatefulSet web`. */
function podOf(pod: string): string {
  return `Pod ${pod} in StatefulSet ${pod.slice(0, pod.lastIndexOf('-'))}`;
}

/** Reasons of `status.waitingFor`, with what a person can do. */
export const statefulSetWaits = {
  ...podWaits,
  BudgetSpent: 'Fix these pods, or raise maxUnavailable',
  ImageNotReady: 'Look at the ImagePullJobs of the StatefulSet, or lower or remove the annotation windlass.io/prefetch',
  CannotCreate: 'Look at the condition FailedCreatePod: its message says why the pods are refused',
  CannotDelete: 'Look at the Events of the StatefulSet: they say why the deletion is refused',
  CannotUpdate: 'Look at the condition FailedUpdatePod: its message says why the change is refused',
  OrdinalNotAvailable:
    'Fix this pod, or delete it if a new one would come up: with OrderedReady nothing is created, updated or scaled in ' +
    'until it is available',
  ScaleLimited: 'Fix these pods, or raise scaleStrategy.maxUnavailable',
  PodTerminating:
    'Nothing to do if these pods are about to terminate; otherwise look at their finalizers and nodes: their ordinals ' +
    'are free once they are gone',
  ClaimTerminating:
    'Nothing to do if the PVC is about to go; otherwise look at its finalizers and at the pods that use it',
  ClaimOfEarlierPod:
    'Nothing to do: the garbage collector is about to delete the PVC, whose owner, an earlier pod or StatefulSet of the name, ' +
    'is gone',
  ClaimDiffers:
    'Delete the PVC and then its pod, which get new ones without the data; or change spec.volumeClaimTemplates back',
  ClaimResizing:
    'Nothing to do if the volume is about to be expanded; otherwise look at the Events of the PVC, and at the driver of its ' +
    'StorageClass',
  FileSystemResizePending: 'Delete the pod: the file system of the volume is expanded when it is mounted again',
  ClaimInDoubt:
    'Nothing to do: a change of the owners of the PVC got no answer, and may still be made for up to a minute',
} as const;
export type StatefulSetWaitReason = keyof typeof statefulSetWaits;
