// PodUnavailableBudget (policy.kruise.io): how many pods of an application may be made unavailable on purpose.
//
// Each field has one writer, except for the status, of which every write carries the resourceVersion that it was decided on.
//
//   spec                                            the user
//   status                                          the leading watcher, which counts
//   status.unavailableAllowed and the maps of pods  also admission of pods, which takes one at a time
//   on the pod: annotations of podBudgetMark        admission at creation; the watcher on older pods

import type { JsonObject } from '../base/json.ts';
import { normal, warning } from '../core/event.ts';
import type { KubeObject, ObjectMeta, Resource } from '../core/meta.ts';
import { qualifiedName } from '../core/refs.ts';
import { group } from '../core/well-known.ts';
import type { FeatureGates } from '../feature-gates.ts';
import type { Parsed } from '../schema/static.ts';
import type { specSchema, statusSchema } from './schema.ts';

/** A PodUnavailableBudget in the shape of v1beta1, the only one used internally. */
export interface PodUnavailableBudget extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: PodUnavailableBudgetSpec;
  /** Absent until the controller has counted; nothing is protected before. */
  readonly status?: PodUnavailableBudgetStatus;
}

export type PodUnavailableBudgetSpec = Parsed<typeof specSchema>;
export type PodUnavailableBudgetStatus = Parsed<typeof statusSchema>;

/** The resource in the version that Windlass uses. */
export const podUnavailableBudgets = {
  group: group.policy,
  version: 'v1beta1',
  plural: 'podunavailablebudgets',
  kind: 'PodUnavailableBudget',
  namespaced: true,
} as const satisfies Resource;

/** The older version, which is served, too. */
export const podUnavailableBudgetsV1alpha1 = {
  ...podUnavailableBudgets,
  version: 'v1alpha1',
} as const satisfies Resource;

export type PodUnavailableBudgetVersion =
  | typeof podUnavailableBudgets.version
  | typeof podUnavailableBudgetsV1alpha1.version;

/** The version of an object of this kind, or undefined for one that is not served. */
export function podUnavailableBudgetVersion(object: JsonObject): PodUnavailableBudgetVersion | undefined {
  if (object.apiVersion === `${podUnavailableBudgets.group}/v1beta1`) return 'v1beta1';
  if (object.apiVersion === `${podUnavailableBudgets.group}/v1alpha1`) return 'v1alpha1';
  return undefined;
}

/** What a budget protects pods from. */
export const protectedOperations = ['DELETE', 'UPDATE', 'EVICT', 'RESIZE'] as const;
export type ProtectedOperation = (typeof protectedOperations)[number];

/** What it protects them from where it does not say (PUB-33). */
export const defaultOperations: readonly string[] = ['DELETE', 'UPDATE', 'EVICT'];

/** Annotations of PodUnavailableBudgets. */
export const budgetAnnotation = {
  /** `spec.protectOperations` of v1alpha1, separated by commas; in v1beta1 where that field is empty. */
  protectOperations: 'kruise.io/pub-protect-operations',
  /** `spec.protectTotalReplicas` of v1alpha1. */
  protectTotalReplicas: 'pub.kruise.io/protect-total-replicas',
} as const;

/** Marks of pods. */
export const podBudgetMark = {
  /** Annotation: the name of the budget of the pod. Without it no budget is asked. */
  related: 'pub.kruise.io/related-pub',
  /** The same in older releases: both are written, and the first one is preferred. */
  oldRelated: 'kruise.io/related-pub',
  /** Annotation of users, a boolean: the pod is not protected. */
  noProtect: 'pub.kruise.io/no-protect',
  /** Prefix of a label: the pod counts as unavailable although it is ready. */
  unavailablePrefix: 'unavailable-pod.kruise.io/',
} as const;

/** The name of the budget that a pod is stamped with; undefined: it is not. */
export function relatedBudget({ metadata: { annotations } }: Pick<KubeObject, 'metadata'>): string | undefined {
  return annotations?.[podBudgetMark.related] || annotations?.[podBudgetMark.oldRelated] || undefined;
}

/** The annotations that stamp a pod with a budget. */
export function budgetStamp(name: string): Readonly<Record<string, string>> {
  return { [podBudgetMark.related]: name, [podBudgetMark.oldRelated]: name };
}

/** A workload as `spec.targetRef` names it. */
export type BudgetTargetRef = NonNullable<PodUnavailableBudgetSpec['targetRef']>;

/** Whether both name the same workload of a namespace; the version does not count. */
export function isSameTarget(left: BudgetTargetRef, right: BudgetTargetRef): boolean {
  return left.kind === right.kind && left.name === right.name && groupOf(left) === groupOf(right);
}

function groupOf({ apiVersion = '' }: BudgetTargetRef): string {
  return apiVersion.slice(0, Math.max(apiVersion.indexOf('/'), 0));
}

/** How long an admitted operation counts before the pod is counted as it is (PUB-19). */
export const entrySeconds = { disruptedPods: 20, unavailablePods: 10 } as const;

/** Pods in both maps of the status together; with more, operations are refused (PUB-35). */
export const mostEntries = 2_000;

/** The expected number of pods of a workload without replicas (PUB-12). */
export const unknownReplicas = -1;

/** Events from component `pub-controller`: OpenKruise's reasons and texts. The first and the third are about the pod. */
export const budgetEvent = {
  prevented: () => warning('PubPreventPodDeletion', 'openkruise pub prevents pod deletion'),
  noPods: () => normal('NoPods', 'No matching pods found'),
  notDeleted: ({ metadata }: PodUnavailableBudget) =>
    warning('NotDeleted', `Pod was expected by PUB ${qualifiedName(metadata)} to be deleted but it wasn't`),
  countFailed: (error: string) =>
    warning('CalculateExpectedPodCountFailed', `Failed to calculate the number of expected pods: ${error}`),
} as const;

/** Why an operation on a pod is refused: OpenKruise's texts. */
export const budgetRefusal = {
  spent: (name: string) => forbidden(name, 'pub unavailable allowed is negative'),
  tooManyEntries: (name: string) =>
    forbidden(
      name,
      'DisruptedPods and UnavailablePods map too big - too many unavailable not confirmed by PUB controller',
    ),
  /** The status could not be written, because others kept writing it. */
  conflicts: (name: string) => `couldn't update PodUnavailableBudget ${name} due to conflicts`,
} as const;

function forbidden(name: string, why: string): string {
  return `podunavailablebudget.${podUnavailableBudgets.group} "${name}" is forbidden: ${why}`;
}

/** Why a PodUnavailableBudget cannot be created or changed: nothing would look at it. Undefined: it can. */
export function budgetGateRefusal(
  gates: Pick<FeatureGates, 'PodUnavailableBudgetDeleteGate' | 'PodUnavailableBudgetUpdateGate'>,
): string | undefined {
  if (gates.PodUnavailableBudgetDeleteGate || gates.PodUnavailableBudgetUpdateGate) return undefined;
  return (
    'feature PodUnavailableBudget is invalid, please open via ' +
    'feature-gate(PodUnavailableBudgetDeleteGate, PodUnavailableBudgetUpdateGate)'
  );
}
