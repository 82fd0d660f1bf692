// CloneSet: interchangeable pods, updated in place or by replacement within a budget.
//
// Each field has one writer; every write carries the resourceVersion of the object that it was decided on.
//
//   spec.replicas                     the user, or an autoscaler through the scale subresource
//   spec.scaleStrategy.podsToDelete   the user adds names; the leading watcher removes the names of pods that are gone
//   spec, all else                    the user; admission fills in defaults
//   status                            the leading watcher, all fields in one write
//   metadata                          the user
//
// A keyed queue of the leading watcher reconciles CloneSets (see watcher/fleet). The roll-out workflow writes no field of
// a CloneSet: it submits permits to disrupt pods to that queue.

import type { JsonObject } from '../base/json.ts';
import { normal, warning } from '../core/event.ts';
import type { LabelSelector } from '../core/label-selector.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import type { PodTemplate } from '../core/pod-template.ts';
import { group } from '../core/well-known.ts';
import { podWaits } from '../fleet/pod-waits.ts';
import { preDownloadDefault } from '../fleet/pre-download.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

// ---------------------------------------------------------------------------------------------------------- the shape

/** A CloneSet in the shape of v1beta1, the only one used internally. */
export interface CloneSet extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: CloneSetSpec;
  /** Absent until the controller has seen the object. */
  readonly status?: CloneSetStatus;
}

type ParsedSpec = Parsed<typeof specSchema>;

export interface CloneSetSpec extends Omit<ParsedSpec, 'selector' | 'template' | 'volumeClaimTemplates'> {
  readonly selector: LabelSelector;
  readonly template: PodTemplate;
  readonly volumeClaimTemplates?: readonly JsonObject[];
}

export type CloneSetStatus = Parsed<typeof statusSchema>;
export type CloneSetUpdateStrategy = NonNullable<CloneSetSpec['updateStrategy']>;
export type RollingUpdate = NonNullable<CloneSetUpdateStrategy['rollingUpdate']>;
export type PodUpdatePolicy = NonNullable<RollingUpdate['podUpdatePolicy']>;
export type InPlaceUpdateStrategy = NonNullable<RollingUpdate['inPlaceUpdateStrategy']>;
export type CloneSetCondition = NonNullable<CloneSetStatus['conditions']>[number];

/** The resource of CloneSets in the version that Windlass uses. */
export const cloneSets = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'clonesets',
  kind: 'CloneSet',
  namespaced: true,
} as const satisfies Resource;

/** The older version, which is served, too. */
export const cloneSetsV1alpha1 = { ...cloneSets, version: 'v1alpha1' } as const satisfies Resource;

export type CloneSetVersion = typeof cloneSets.version | typeof cloneSetsV1alpha1.version;

/** The version of an object of this kind, or undefined for one that is not served. */
export function cloneSetVersion(object: JsonObject): CloneSetVersion | undefined {
  if (object.apiVersion === `${cloneSets.group}/v1beta1`) return 'v1beta1';
  if (object.apiVersion === `${cloneSets.group}/v1alpha1`) return 'v1alpha1';
  return undefined;
}

// --------------------------------------------------------------------------------------------------- marks and
// defaults

/** Labels and annotations of CloneSets, and of their pods and PVCs. */
export const cloneSetMark = {
  /** Label of pods and PVCs: links a pod to its PVCs. */
  instanceId: 'apps.kruise.io/cloneset-instance-id',
  /** Annotation of a pod: an integer; pods with a lower one are removed first when the CloneSet is scaled down. */
  deletionCost: 'controller.kubernetes.io/pod-deletion-cost',
  /** Label of a CloneSet in v1alpha1, `true`: what `excludePreparingDelete` is in v1beta1. No meaning in v1beta1. */
  excludePreparingDelete: 'apps.kruise.io/cloneset-scaling-exclude-preparing-delete',
} as const;

/**
 * The meaning of absent fields. Admission writes these values into objects; code that reads an object without them uses
 * them, too.
 */
export const cloneSetDefault = {
  replicas: 1,
  revisionHistoryLimit: 10,
  minReadySeconds: 0,
  updateType: 'RollingUpdate',
  podUpdatePolicy: 'ReCreate',
  partition: 0,
  maxUnavailable: '20%',
  maxSurge: 0,
  ...preDownloadDefault,
} as const;

/** This `progressDeadlineSeconds` means that there is no deadline, like an absent one. */
export const noProgressDeadline = 2_147_483_647;

// --------------------------------------------------------------------------------------------------- reasons and texts

/** The conditions of a CloneSet. */
export const cloneSetCondition = {
  /** Only while there is a progress deadline. */
  progressing: 'Progressing',
  /** The last pass could not create or delete something. Removed when it can. */
  failedScale: 'FailedScale',
  /** The last pass could not update something. Removed when it can. */
  failedUpdate: 'FailedUpdate',
} as const;

/** Reasons of `Progressing` with their messages, verbatim OpenKruise's, because scripts compare them. */
export const progressMessage = {
  CloneSetAvailable: () => 'CloneSet is available',
  CloneSetPaused: () => 'CloneSet is paused',
  ProgressPartitionAvailable: () => 'CloneSet has been paused due to partition ready',
  ProgressDeadlineExceeded: (revision: string) => `CloneSet revision ${revision} has timed out progressing`,
  CloneSetUpdated: () => 'CloneSet is progressing',
} as const satisfies Record<string, (revision: string) => string>;
export type ProgressReason = keyof typeof progressMessage;

/** Events about CloneSets, from component `cloneset-controller`: OpenKruise's reasons and texts. */
export const cloneSetEvent = {
  created: (pod: string) => normal('SuccessfulCreate', `succeed to create pod ${pod}`),
  createFailed: (pod: string, error: string) => warning('FailedCreate', `failed to create pod: ${error}, pod: ${pod}`),
  claimCreateFailed: (claim: string, error: string) =>
    warning('FailedCreate', `failed to create pvc: ${error}, pvc: ${claim}`),
  deleted: (pod: string) => normal('SuccessfulDelete', `succeed to delete pod ${pod}`),
  deleteFailed: (pod: string, error: string) => warning('FailedDelete', `failed to delete pod ${pod}: ${error}`),
  claimDeleteFailed: (claim: string, error: string) =>
    warning('FailedDelete', `failed to delete pvc ${claim}: ${error}`),
  claimUpdateFailed: (claim: string, error: string) =>
    warning('FailedUpdate', `failed to update pvc ${claim}: ${error}`),
  updatedInPlace: (pod: string, revision: string) =>
    normal('SuccessfulUpdatePodInPlace', `successfully update pod ${pod} in-place(revision ${revision})`),
  updateInPlaceFailed: (pod: string, revision: string, error: string) =>
    warning('FailedUpdatePodInPlace', `failed to update pod ${pod} in-place(revision ${revision}): ${error}`),
  recreated: (pod: string, revision: string) =>
    normal(
      'SuccessfulUpdatePodReCreate',
      `successfully patch pod ${pod} specified-delete for update(revision ${revision})`,
    ),
  recreateFailed: (pod: string, revision: string, error: string) =>
    warning(
      'FailedUpdatePodReCreate',
      `failed to patch pod specified-delete ${pod} for update(revision ${revision}): ${error}`,
    ),
  pullJobCreated: (job: string, image: string) =>
    normal('CreatedImagePullJob', `created ImagePullJob ${job} for image: ${image}`),
  /** Not a warning: the update continues without it. */
  pullJobCreateFailed: (job: string, error: string) =>
    normal('FailedCreateImagePullJob', `failed to create ImagePullJob ${job}: ${error}`),
  scaleUpLimited: (limit: number) =>
    warning('ScaleUpLimited', `scaleUp is limited because of scaleStrategy.maxUnavailable, limit: ${limit}`),
} as const;

/** Reasons of `status.waitingFor`, with what a person can do. */
export const cloneSetWaits = {
  ...podWaits,
  BudgetSpent: 'Fix these pods, or raise maxUnavailable or maxSurge',
  BudgetRoundsToZero: 'Raise maxUnavailable, which resolves to 0 pods, or set maxSurge',
  ImageNotReady: 'Look at the ImagePullJobs of the CloneSet, or lower or remove the annotation windlass.io/prefetch',
  ScaleLimited: 'Fix these pods, or raise scaleStrategy.maxUnavailable',
  PodTerminating:
    'Nothing to do: new pods take over the PVCs of these pods once they are gone, or get new ones 30 s after their grace period',
  NoFreeInstanceIds: 'There are no free instance IDs for new pods: lower replicas, or delete PVCs that no pod uses',
  CannotCreate: 'Look at the condition FailedScale: its message says why the pods are refused',
  CannotDelete: 'Look at the condition FailedScale: its message says why the deletion is refused',
  CannotUpdate: 'Look at the condition FailedUpdate: its message says why the change is refused',
} as const;
export type CloneSetWaitReason = keyof typeof cloneSetWaits;
