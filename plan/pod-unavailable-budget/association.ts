// Whose pods are concerned: pods by their labels and owners, budgets by their selectors and targets (PUB-1, PUB-3, PUB-10).

import { perObject } from '../../api/base/per-object.ts';
import { type LabelSelector, labelMatcher } from '../../api/core/label-selector.ts';
import { isActive, type Pod } from '../../api/core/pod.ts';
import {
  budgetStamp,
  isSameTarget,
  type PodUnavailableBudget,
  relatedBudget,
} from '../../api/pod-unavailable-budget/types.ts';

/** An object that controls a pod, or what controls a pod. */
export interface Owner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** It does not exist any more, or is being deleted. */
  readonly isGone: boolean;
  /** `spec.replicas`, its own or that of its scale subresource. Absent: it has none. */
  readonly replicas?: number;
}

/** A pod with its owners. */
export interface OwnedPod {
  readonly pod: Pod;
  /** Its controller, the controller of that one, and so on. Owners that do not exist any more are named as well. */
  readonly owners: readonly Owner[];
}

type Labels = Readonly<Record<string, string>> | undefined;

/** What concerns the association of a pod; a new one has no name yet. */
export interface AssociatedPod {
  readonly labels: Labels;
  readonly owners: readonly Owner[];
}

/** The budget of a pod: the first one in the order of the list that concerns it (PUB-1). */
export function budgetOf(
  pod: AssociatedPod,
  budgets: readonly PodUnavailableBudget[],
): PodUnavailableBudget | undefined {
  return budgets.find((budget) => concerns(budget, pod));
}

/**
 * The budget that decides about a pod with this stamp: the one that it names, and otherwise the one that concerns the pod
 * now, so that a pod does not lose its protection with the name of a budget (PUB-3). A pod without a stamp has none (PUB-4).
 */
export function budgetInForce(
  stamp: string | undefined,
  pod: AssociatedPod,
  budgets: readonly PodUnavailableBudget[],
): PodUnavailableBudget | undefined {
  if (stamp === undefined) return undefined;
  return budgets.find(({ metadata }) => metadata.name === stamp) ?? budgetOf(pod, budgets);
}

/** The annotations that a pod of this budget still needs (PUB-3): it has no stamp at all. */
export function missingStamp(
  { metadata }: PodUnavailableBudget,
  pod: Pod,
): Readonly<Record<string, string>> | undefined {
  return isActive(pod) && relatedBudget(pod) === undefined ? budgetStamp(metadata.name) : undefined;
}

/** Whether the budget protects a pod with these labels and owners. A target may be any of its owners. */
function concerns(budget: PodUnavailableBudget, { labels, owners }: AssociatedPod): boolean {
  const { targetRef } = budget.spec;
  return targetRef ? owners.some((owner) => isSameTarget(targetRef, owner)) : selectionOf(budget)(labels);
}

/** The selector of a budget as a predicate. */
export const selectionOf = perObject(({ spec }: PodUnavailableBudget) => selection(spec.selector));

/** The pods that a budget leaves out as a predicate. */
export const ignoredBy = perObject(({ spec }: PodUnavailableBudget) => selection(spec.ignoredPodSelector));

/** A selector that is absent, empty or malformed selects nothing (PUB-1). */
export function selection(selector: LabelSelector = {}): (labels: Labels) => boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const isEmpty = Object.keys(matchLabels).length + matchExpressions.length === 0;
  return (isEmpty ? undefined : labelMatcher(selector)) ?? (() => false);
}

/** The workload of a pod: its controller, or the Deployment of its ReplicaSet (PUB-13a). */
export function workloadOf([controller, next]: readonly Owner[]): Owner | undefined {
  const isOfDeployment = isOf(controller, 'ReplicaSet') && isOf(next, 'Deployment');
  return isOfDeployment ? next : controller;
}

function isOf(owner: Owner | undefined, kind: string): boolean {
  return owner?.kind === kind && owner.apiVersion.startsWith('apps/');
}

/** Whether the owner with this UID owns the pod, through owners that all exist (PUB-10). */
export function isOwnedBy({ owners }: OwnedPod, uid: string): boolean {
  const at = owners.findIndex((owner) => owner.uid === uid);
  return at >= 0 && owners.slice(0, at).every(({ isGone }) => !isGone);
}
