// DaemonSet (apps.kruise.io): one pod on each node that fits, updated in place or by recreation.
//
// Each field has one writer; every write carries the resourceVersion of the object that it was decided on.
//
//   spec       the user; admission fills in defaults
//   status     the leading watcher, all fields in one write
//   metadata   the user

import type { JsonObject } from '../base/json.ts';
import { normal, warning } from '../core/event.ts';
import type { LabelSelector } from '../core/label-selector.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import type { PodTemplate } from '../core/pod-template.ts';
import { group } from '../core/well-known.ts';
import { podWaits } from '../fleet/pod-waits.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

/** A DaemonSet in the shape of v1beta1, the only one used internally. */
export interface DaemonSet extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: DaemonSetSpec;
  /** Absent until the controller has seen the object. */
  readonly status?: DaemonSetStatus;
}

export interface DaemonSetSpec extends Omit<Parsed<typeof specSchema>, 'selector' | 'template'> {
  readonly selector: LabelSelector;
  readonly template: PodTemplate;
}

export type DaemonSetStatus = Parsed<typeof statusSchema>;
export type DaemonSetRollingUpdate = NonNullable<NonNullable<DaemonSetSpec['updateStrategy']>['rollingUpdate']>;

/** The resource of DaemonSets in the version that Windlass uses. */
export const daemonSets = {
  group: group.apps,
  version: 'v1beta1',
  plural: 'daemonsets',
  kind: 'DaemonSet',
  namespaced: true,
} as const satisfies Resource;

/** The older version, which is served, too. */
export const daemonSetsV1alpha1 = { ...daemonSets, version: 'v1alpha1' } as const satisfies Resource;

export type DaemonSetVersion = typeof daemonSets.version | typeof daemonSetsV1alpha1.version;

/** The version of an object of this kind, or undefined for one that is not served. */
export function daemonSetVersion(object: JsonObject): DaemonSetVersion | undefined {
  if (object.apiVersion === `${daemonSets.group}/v1beta1`) return 'v1beta1';
  if (object.apiVersion === `${daemonSets.group}/v1alpha1`) return 'v1alpha1';
  return undefined;
}

/** Labels and annotations of DaemonSets and their pods. */
export const daemonSetMark = {
  /** Annotation, value `true`: `scaleStrategy.partitionedScaling` of v1alpha1, which has no such field. */
  progressiveCreate: 'daemonset.kruise.io/progressive-create-pod',
  /** Annotation of DaemonSets that were created long ago: the number of the template, which its pods have as label. */
  templateGeneration: 'deprecated.daemonset.template.generation',
  /** Label of pods: the same number. Such a pod is updated, whatever its revision. */
  podTemplateGeneration: 'pod-template-generation',
  /** Annotation: when a node gets a new pod for one that is being deleted. Absent: once the old one is gone. */
  podReplacementPolicy: 'windlass.io/pod-replacement-policy',
} as const;

/** The value of `podReplacementPolicy`: once its containers have ended, as in `apps/v1`; named as in KEP-3973. */
export const terminationComplete = 'TerminationComplete';

/** How v1alpha1 spells an update with `maxSurge`, besides `Standard`. */
export const surging = 'Surging';

/** The values of `rollingUpdateType` in v1beta1. */
export const rollingUpdateTypes = ['Standard', 'InPlaceIfPossible'] as const;

/**
 * The meaning of absent fields. Admission writes these values into objects; code that reads an object without them uses
 * them, too.
 */
export const daemonSetDefault = {
  burstReplicas: 250,
  revisionHistoryLimit: 10,
  updateType: 'RollingUpdate',
  rollingUpdateType: 'Standard',
  /** Of a DaemonSet with neither of the two. */
  maxUnavailable: 1,
  maxSurge: 0,
  partition: 0,
  minReadySeconds: 0,
} as const;

/** Events about DaemonSets, from component `daemonset-controller`: OpenKruise's reasons and texts. */
export const daemonSetEvent = {
  created: (pod: string) => normal('SuccessfulCreate', `Created pod: ${pod}`),
  createFailed: (_: string, error: string) => warning('FailedCreate', `Error creating: ${error}`),
  deleted: (pod: string) => normal('SuccessfulDelete', `Deleted pod: ${pod}`),
  deleteFailed: (_: string, error: string) => warning('FailedDelete', `Error deleting: ${error}`),
  podFailed: ({ namespace, name }: { readonly namespace: string; readonly name: string }, node: string) =>
    warning('FailedDaemonPod', `Found failed daemon pod ${namespace}/${name} on node ${node}, will try to kill it`),
  selectingAll: () =>
    warning('SelectingAll', 'This daemon set is selecting all pods. A non-empty selector is required.'),
  /** Its deletion says enough. */
  recreated: () => undefined,
  recreateFailed: (_: string, __: string, error: string) => warning('FailedDelete', `Error deleting: ${error}`),
  updatedInPlace: (pod: string) => normal('SuccessfulUpdatePodInPlace', `successfully update pod ${pod} in-place`),
  updateInPlaceFailed: (pod: string, _: string, error: string) =>
    warning('FailedUpdatePodInPlace', `failed to update pod ${pod} in-place: ${error}`),
  pullJobCreated: (job: string, image: string) =>
    normal('CreatedImagePullJob', `created ImagePullJob ${job} for image: ${image}`),
  /** Not a warning: the update continues without it. */
  pullJobCreateFailed: (job: string, error: string) =>
    normal('FailedCreateImagePullJob', `failed to create ImagePullJob ${job}: ${error}`),
} as const;

/** Reasons of `status.waitingFor`, with what a person can do. */
export const daemonSetWaits = {
  ...podWaits,
  PartitionReached: 'Lower partition to update, or with partitionedScaling to create, the pods of more nodes',
  InPlaceImpossible: 'Revert the named change, or set rollingUpdateType to Standard',
  BudgetSpent: 'Fix these pods, or raise maxUnavailable',
  SurgeSpent: 'Fix these new pods: their old ones are deleted once they are available. Or raise maxSurge',
  NodeNotSelected: 'Label these nodes so that updateStrategy.rollingUpdate.selector selects them, or change it',
  NodeDoesNotFit:
    'Remove the taints of these nodes, or tolerate them: while surging, a new pod would not be scheduled there',
  FailedPod: 'Look at the logs of these pods: they have ended, and are replaced later and later',
  PodTerminating:
    'Nothing to do if these pods are about to terminate; otherwise look at their finalizers and nodes: a node gets its ' +
    `new pod once the old one is gone, or has ended with ${daemonSetMark.podReplacementPolicy}: ${terminationComplete}`,
  ImageNotReady: 'Look at the ImagePullJobs of the DaemonSet, or lower or remove the annotation windlass.io/prefetch',
  CannotCreate: 'Look at the Events of the DaemonSet: they say why the pods are refused',
  CannotDelete: 'Look at the Events of the DaemonSet: they say why the deletion is refused',
  CannotUpdate: 'Look at the Events of the DaemonSet: they say why the change is refused',
} as const;
export type DaemonSetWaitReason = keyof typeof daemonSetWaits;
