// Whether an operation on a pod is admitted (PUB-31 to PUB-36), in two steps: what the pod says by itself, and what its budget
// says. The rules of each are asked in order, and the first that answers decides.

import { timestamp } from '../../api/base/time.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type FeatureGates, truths } from '../../api/feature-gates.ts';
import {
  budgetAnnotation,
  budgetRefusal,
  defaultOperations,
  mostEntries,
  type PodUnavailableBudget,
  type PodUnavailableBudgetStatus,
  type ProtectedOperation,
  podBudgetMark,
  relatedBudget,
} from '../../api/pod-unavailable-budget/types.ts';
import { ignoredBy } from './association.ts';
import { availabilityChange } from './availability-change.ts';
import { isAvailable, type ReadinessGates } from './readiness.ts';

/** A request of the API server, or the question of a controller before it updates a pod in any way (PUB-39). */
export type PodRequest =
  | { readonly kind: 'DELETE' | 'EVICT'; readonly pod: Pod }
  /** `after` is absent while the change is not known yet: it may then be any. */
  | { readonly kind: 'UPDATE'; readonly pod: Pod; readonly after?: Pod };

export type BudgetGates = ReadinessGates &
  Pick<FeatureGates, 'PodUnavailableBudgetDeleteGate' | 'PodUnavailableBudgetUpdateGate' | 'InPlacePodVerticalScaling'>;

/** Why an operation does not take from a budget. */
export type AllowReason =
  | 'GateOff'
  | 'NotStamped'
  | 'StaysAvailable'
  | 'NotProtected'
  | 'NotAvailable'
  | 'NoBudget'
  | 'Ignored'
  | 'NothingDesired'
  | 'OperationNotProtected'
  | 'AlreadyTaken'
  | 'DryRun';

export interface Allowed {
  readonly kind: 'allow';
  readonly why: AllowReason;
}

/** What is asked of a budget. */
export interface Asked {
  readonly kind: 'ask';
  readonly operation: ProtectedOperation;
  /** The name of the budget in the stamp of the pod. */
  readonly stamp: string;
}

export type BudgetDecision =
  | Allowed
  /** Admitted once this status is stored; after a conflict the decision has to be made again. */
  | { readonly kind: 'take'; readonly status: PodUnavailableBudgetStatus }
  | { readonly kind: 'refuse'; readonly message: string };

/** What a budget has to be asked, or why none has to be, by what the pod says (PUB-31, PUB-32, PUB-34). */
export function askedOf(request: PodRequest, gates: BudgetGates): Asked | Allowed {
  const { kind, pod } = request;
  const gate = kind === 'UPDATE' ? 'PodUnavailableBudgetUpdateGate' : 'PodUnavailableBudgetDeleteGate';
  if (!gates[gate]) return allow('GateOff');
  const after = request.kind === 'UPDATE' ? request.after : undefined;
  const stamp = relatedBudget(pod);
  if (stamp === undefined || (after && relatedBudget(after) === undefined)) return allow('NotStamped');
  const operation = after ? availabilityChange(pod, after) : kind;
  if (operation === undefined) return allow('StaysAvailable');
  if (truths.includes(pod.metadata.annotations?.[podBudgetMark.noProtect] ?? '')) return allow('NotProtected');
  return isAvailable(pod, gates) ? { kind: 'ask', operation, stamp } : allow('NotAvailable');
}

/** What the budget answers (PUB-32, PUB-33, PUB-35, PUB-36). Absent: it does not exist, or not any more. */
export function decide({
  operation,
  pod,
  budget,
  gates,
  nowMs,
  isDryRun = false,
}: {
  readonly operation: ProtectedOperation;
  readonly pod: Pod;
  readonly budget: PodUnavailableBudget | undefined;
  readonly gates: BudgetGates;
  readonly nowMs: number;
  /** Nothing is recorded. */
  readonly isDryRun?: boolean;
}): BudgetDecision {
  const { name, labels } = pod.metadata;
  if (budget === undefined) return allow('NoBudget');
  if (ignoredBy(budget)(labels)) return allow('Ignored');
  const { status } = budget;
  if (status === undefined || status.desiredAvailable === 0) return allow('NothingDesired');
  if (!protects(budget, operation, gates)) return allow('OperationNotProtected');
  const { disruptedPods = {}, unavailablePods = {}, unavailableAllowed } = status;
  if ([disruptedPods, unavailablePods].some((map) => Object.hasOwn(map, name))) return allow('AlreadyTaken');

  const refusal = budgetRefusal;
  if (unavailableAllowed <= 0) return { kind: 'refuse', message: refusal.spent(budget.metadata.name) };
  if (Object.keys(disruptedPods).length + Object.keys(unavailablePods).length > mostEntries) {
    return { kind: 'refuse', message: refusal.tooManyEntries(budget.metadata.name) };
  }
  if (isDryRun) return allow('DryRun');
  const entry = { [name]: timestamp(nowMs) };
  return {
    kind: 'take',
    status: {
      ...status,
      unavailableAllowed: unavailableAllowed - 1,
      ...(operation === 'UPDATE'
        ? { unavailablePods: { ...unavailablePods, ...entry } }
        : { disruptedPods: { ...disruptedPods, ...entry } }),
    },
  };
}

function allow(why: AllowReason): Allowed {
  return { kind: 'allow', why };
}

/** PUB-33, PUB-34: while the gate does not tell resizes from other updates, they are protected as these are. */
function protects(
  { metadata, spec }: PodUnavailableBudget,
  operation: ProtectedOperation,
  gates: BudgetGates,
): boolean {
  const { protectOperations = [] } = spec;
  const words = metadata.annotations?.[budgetAnnotation.protectOperations] || undefined;
  const operations = protectOperations.length > 0 ? protectOperations : (words?.split(',') ?? defaultOperations);
  const isListed = (listed: ProtectedOperation) => operations.some((one) => one === listed);
  const isUpdate = operation === 'RESIZE' && !gates.InPlacePodVerticalScaling;
  return isListed(operation) || (isUpdate && isListed('UPDATE'));
}
