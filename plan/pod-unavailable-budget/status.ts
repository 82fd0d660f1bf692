/**
 * The status of a budget (PUB-10 to PUB-19).
 *
 *   totalReplicas       protectTotalReplicas; else replicas of the target, or of the workloads of the selected pods
 *   desiredAvailable    totalReplicas - maxUnavailable, or minAvailable
 *   currentAvailable    available pods about which no operation has been admitted lately
 *   unavailableAllowed  currentAvailable - desiredAvailable, at least 0
 */

import { countOf } from '../../api/base/int-or-percent.ts';
import { isAbsent } from '../../api/base/json.ts';
import { whenPassed } from '../../api/base/time.ts';
import type { EventText } from '../../api/core/event.ts';
import type { LabelSelector } from '../../api/core/label-selector.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { isActive, type Pod } from '../../api/core/pod.ts';
import {
  budgetEvent,
  entrySeconds,
  type PodUnavailableBudget,
  type PodUnavailableBudgetStatus,
  unknownReplicas,
} from '../../api/pod-unavailable-budget/types.ts';
import { isOwnedBy, type OwnedPod, type Owner, selection, selectionOf, workloadOf } from './association.ts';
import { isAvailable, type ReadinessGates } from './readiness.ts';

/** What the status is computed from. */
export interface BudgetInput {
  readonly budget: PodUnavailableBudget;
  /** All pods that the budget may concern; the others among them do not count. */
  readonly pods: readonly OwnedPod[];
  /** The workload of `targetRef`. Absent: it does not exist, or the budget has a selector. */
  readonly target?: BudgetTarget;
  /** Why an owner or the target could not be read. */
  readonly failure?: string;
  readonly gates: ReadinessGates;
  readonly nowMs: number;
}

export interface BudgetTarget extends Owner {
  /** The selector of its scale subresource, for pods that it does not own: of kinds that are not built in. */
  readonly selector?: LabelSelector;
}

export interface BudgetReport {
  /** Absent: it cannot be computed now, and stays as it is (PUB-12). */
  readonly status?: PodUnavailableBudgetStatus;
  /** When an admitted operation ceases to count. Absent: there is none. */
  readonly againInMs?: number;
  readonly events: readonly BudgetNews[];
}

export interface BudgetNews {
  readonly about: KubeObject;
  readonly text: EventText;
}

/** The desired status, when to compute it again without another reason, and what to report. */
export function budgetStatus(input: BudgetInput): BudgetReport {
  const { budget, failure, gates, nowMs } = input;
  const pods = podsOf(input);
  const total = totalReplicas(input, pods);
  const desiredAvailable = desiredOf(budget, total);
  if (failure !== undefined || desiredAvailable === undefined) {
    const text = budgetEvent.countFailed(failure ?? 'maxUnavailable or minAvailable must be a number or a percentage');
    return { events: [{ about: budget, text }] };
  }

  const active = new Map(pods.map(({ pod }) => [pod.metadata.name, pod]));
  const disrupted = entriesOf(input, 'disruptedPods', active);
  const unavailable = entriesOf(input, 'unavailablePods', active);
  const taken = new Set([...disrupted.kept, ...unavailable.kept].map(([name]) => name));
  const counted = [...active.values()].filter((pod) => !taken.has(pod.metadata.name) && isAvailable(pod, gates));
  const { generation } = budget.metadata;
  const endsAtMs = Math.min(disrupted.endsAtMs, unavailable.endsAtMs);
  return {
    status: {
      ...(generation !== undefined && { observedGeneration: generation }),
      ...(disrupted.kept.length > 0 && { disruptedPods: Object.fromEntries(disrupted.kept) }),
      ...(unavailable.kept.length > 0 && { unavailablePods: Object.fromEntries(unavailable.kept) }),
      unavailableAllowed: Math.max(counted.length - desiredAvailable, 0), // PUB-54: may be more than maxUnavailable
      currentAvailable: counted.length,
      desiredAvailable,
      totalReplicas: total,
    },
    ...(Number.isFinite(endsAtMs) && { againInMs: endsAtMs - nowMs }),
    events: [
      ...(active.size === 0 ? [{ about: budget, text: budgetEvent.noPods() }] : []),
      ...disrupted.expired.map((pod) => ({ about: pod, text: budgetEvent.notDeleted(budget) })),
    ],
  };
}

/**
 * The active pods of a budget (PUB-10, PUB-13). A target that is gone or has been scaled to 0 has none, whatever still runs
 * (PUB-11).
 */
export function podsOf({ budget, pods, target }: Pick<BudgetInput, 'budget' | 'pods' | 'target'>): readonly OwnedPod[] {
  const active = pods.filter(({ pod }) => isActive(pod));
  if (!budget.spec.targetRef) {
    const isSelected = selectionOf(budget);
    return active.filter(({ pod }) => isSelected(pod.metadata.labels));
  }
  if (target === undefined || target.isGone || target.replicas === 0) return [];
  const owned = active.filter((pod) => isOwnedBy(pod, target.uid));
  if (owned.length > 0) return owned;
  const isSelected = selection(target.selector);
  return active.filter(({ pod }) => isSelected(pod.metadata.labels));
}

/** PUB-11 to PUB-13. */
function totalReplicas({ budget, target }: BudgetInput, pods: readonly OwnedPod[]): number {
  const { protectTotalReplicas, targetRef } = budget.spec;
  if (!isAbsent(protectTotalReplicas)) return protectTotalReplicas;
  if (targetRef) return target === undefined || target.isGone ? 0 : (target.replicas ?? unknownReplicas);
  const workloads = new Map(
    pods.flatMap(({ owners }) => {
      const workload = workloadOf(owners);
      return workload === undefined ? [] : [[workload.uid, workload] as const];
    }),
  );
  return [...workloads.values()].reduce((sum, { isGone, replicas = 0 }) => sum + (isGone ? 0 : replicas), 0);
}

/** PUB-15. Undefined: neither of the two can be read. */
function desiredOf(
  { spec: { maxUnavailable, minAvailable } }: PodUnavailableBudget,
  total: number,
): number | undefined {
  const share = maxUnavailable ?? minAvailable;
  const count = isAbsent(share) ? undefined : countOf(share, total, 'up');
  if (count === undefined) return undefined;
  return Math.max(isAbsent(maxUnavailable) ? count : total - count, 0);
}

interface Entries {
  readonly kept: readonly (readonly [name: string, time: string])[];
  /** Pods that are still there although the time of their entry is over. */
  readonly expired: readonly Pod[];
  /** When the first of those that are kept ceases to count. */
  readonly endsAtMs: number;
}

/** PUB-19: entries last for a fixed time; those of pods that are not active any more are dropped at once. */
function entriesOf(
  { budget, nowMs }: BudgetInput,
  map: keyof typeof entrySeconds,
  active: ReadonlyMap<string, Pod>,
): Entries {
  const entries = Object.entries(budget.status?.[map] ?? {}).flatMap(([name, time]) => {
    const pod = active.get(name);
    return pod === undefined ? [] : [{ name, time, pod, endsAtMs: whenPassed(time, entrySeconds[map]) }];
  });
  const [kept, expired] = [
    entries.filter(({ endsAtMs }) => endsAtMs > nowMs),
    entries.filter(({ endsAtMs }) => !(endsAtMs > nowMs)), // also a time that is none
  ];
  return {
    kept: kept.map(({ name, time }) => [name, time]),
    expired: expired.map(({ pod }) => pod),
    endsAtMs: kept.reduce((first, { endsAtMs }) => Math.min(first, endsAtMs), Number.POSITIVE_INFINITY),
  };
}
