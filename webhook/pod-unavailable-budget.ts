import { isJsonObject, type JsonObject } from '../api/base/json.ts';
import type { FieldError } from '../api/core/field-error.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import { conflictProblems } from '../api/pod-unavailable-budget/conflicts.ts';
import {
  budgetGateRefusal,
  type PodUnavailableBudget,
  podUnavailableBudgets,
  podUnavailableBudgetVersion,
} from '../api/pod-unavailable-budget/types.ts';
import {
  validatePodUnavailableBudget,
  validatePodUnavailableBudgetUpdate,
} from '../api/pod-unavailable-budget/validate.ts';
import type { BudgetLookUps } from './review/budget-look-ups.ts';
import { type AdmissionRequest, isBeingDeleted, objectOf, type Review, type Verdict } from './review/review.ts';
import { MalformedBody } from './server/server.ts';

export interface PodUnavailableBudgetJudge {
  readonly gates: Pick<FeatureGates, 'PodUnavailableBudgetDeleteGate' | 'PodUnavailableBudgetUpdateGate'>;
  readonly lookUps: BudgetLookUps;
}

/** Validates new and changed budgets, new ones also beside the others of their namespace (PUB §6). */
export function reviewPodUnavailableBudget({ gates, lookUps }: PodUnavailableBudgetJudge): Review {
  return async (request, signal): Promise<Verdict> => {
    if (request.operation !== 'CREATE' && request.operation !== 'UPDATE') return { kind: 'allowed' };
    const object = budgetIn(request);
    if (isBeingDeleted(request)) return { kind: 'allowed' };
    const message = budgetGateRefusal(gates);
    if (message !== undefined) return { kind: 'refused', code: 400, message, errors: [] };
    const problems = await problemsOf(request, object, signal);
    return problems.length > 0 ? { kind: 'refused', code: 400, errors: problems } : { kind: 'allowed' };
  };

  async function problemsOf(
    { operation, oldObject, namespace }: AdmissionRequest,
    object: JsonObject,
    signal: AbortSignal,
  ): Promise<readonly FieldError[]> {
    if (operation === 'UPDATE') {
      if (oldObject === undefined) throw new MalformedBody('request.oldObject is not an object');
      return validatePodUnavailableBudgetUpdate(oldObject, object);
    }
    const problems = validatePodUnavailableBudget(object);
    if (problems.length > 0) return problems;
    // What is compared has the same form in both versions.
    const budget = object as unknown as PodUnavailableBudget;
    for await (const others of lookUps.inNamespace(namespace, signal)) {
      const conflicts = conflictProblems(budget, others);
      if (conflicts.length > 0) return conflicts;
    }
    return [];
  }
}

function budgetIn(request: AdmissionRequest): JsonObject {
  const object = objectOf(request);
  if (podUnavailableBudgetVersion(object) === undefined || !isJsonObject(object.metadata)) {
    throw new MalformedBody(`request.object is not a ${podUnavailableBudgets.kind} of ${podUnavailableBudgets.group}`);
  }
  return object;
}
