// Admission of what makes pods unavailable: UPDATE and DELETE of pods, and their eviction (PUB-30 to PUB-40). What the pod says
// by itself is asked first, then its budget in the ledger. Other requests, and other subresources, pass.

import { isJsonList, type JsonObject, listOr, objectOr } from '../api/base/json.ts';
import type { EventText } from '../api/core/event.ts';
import type { Pod } from '../api/core/pod.ts';
import {
  budgetEvent,
  budgetRefusal,
  type PodUnavailableBudget,
  type ProtectedOperation,
} from '../api/pod-unavailable-budget/types.ts';
import {
  askedOf,
  type BudgetDecision,
  type BudgetGates,
  decide,
  type PodRequest,
} from '../plan/pod-unavailable-budget/decide.ts';
import { type AccountRef, type Ledger, LedgerConflict } from './review/ledger.ts';
import type { LookUps } from './review/look-ups.ts';
import type { AdmissionRequest, Review } from './review/review.ts';
import { MalformedBody } from './server/server.ts';

export interface PodBudgetJudge {
  readonly gates: BudgetGates;
  readonly ledger: Pick<Ledger<PodUnavailableBudget>, 'reserve'>;
  /** A review of an eviction does not contain the pod. */
  readonly lookUps: Pick<LookUps, 'pod'>;
  /** The name of the budget that concerns a pod now, for one whose stamp names none that exists (PUB-3). Absent: it has none. */
  readonly budgetNow?: (pod: Pod, signal: AbortSignal) => Promise<string | undefined>;
  /** The status of a refused eviction (PUB-37b). Absent: 403, as in OpenKruise; `kubectl drain` waits and retries after 429 only. */
  readonly evictionRefusal?: 403 | 429;
  /** Called for each refusal, including those of dry runs, for which nothing may be written. */
  readonly onRefused?: (refused: RefusedPodOperation) => void;
  /** Milliseconds since 1970; the machine's clock by default. */
  readonly now?: () => number;
}

/** A refused operation: what is reported about it. */
export interface RefusedPodOperation {
  readonly operation: ProtectedOperation;
  readonly pod: Pod;
  readonly budget: string;
  readonly dryRun: boolean;
  readonly event: EventText;
  /** Labels of the counter of refusals. */
  readonly labels: { readonly kind_namespace_name: string; readonly username: string };
  /** The line of the protection log. */
  readonly audit: Readonly<Record<'Event' | 'Kind' | 'Namespace' | 'Name' | 'UserAgent', string>>;
}

/** Admits what a pod's budget can afford, and takes it from there. No user is exempt (PUB-38). */
export function reviewPodBudget(judge: PodBudgetJudge): Review {
  const { gates, ledger, lookUps, budgetNow, evictionRefusal = 403, onRefused, now = Date.now } = judge;
  return async (request, signal) => {
    const made = await podRequestOf(request, signal);
    if (made === undefined) return { kind: 'allowed' };
    const asked = askedOf(made, gates);
    if (asked.kind === 'allow') return { kind: 'allowed' };
    const about = { pod: made.pod, operation: asked.operation, dryRun: isDryRun(request) };
    const { budget, decision } = await decideOn(about, { namespace: request.namespace, name: asked.stamp }, signal);
    if (decision.kind !== 'refuse') return { kind: 'allowed' };
    onRefused?.(refusedOperation(request, { ...about, budget }));
    const code = made.kind === 'EVICT' ? evictionRefusal : 403;
    return { kind: 'refused', code, message: decision.message, errors: [] };
  };

  /** Undefined: a request that nothing is asked about. */
  async function podRequestOf(request: AdmissionRequest, signal: AbortSignal): Promise<PodRequest | undefined> {
    const { operation, subResource, namespace } = request;
    if (subResource === '' && operation === 'DELETE') return { kind: 'DELETE', pod: podIn(request, 'oldObject') };
    if (subResource === '' && operation === 'UPDATE') {
      return { kind: 'UPDATE', pod: podIn(request, 'oldObject'), after: podIn(request, 'object') };
    }
    if (subResource !== 'eviction' || operation !== 'CREATE' || !gates.PodUnavailableBudgetDeleteGate) return undefined;
    const pod = await lookUps.pod(namespace, evictedName(request), signal);
    return pod && { kind: 'EVICT', pod };
  }

  async function decideOn(
    { pod, operation, dryRun }: Pick<RefusedPodOperation, 'pod' | 'operation' | 'dryRun'>,
    { namespace, name: stamp }: AccountRef,
    signal: AbortSignal,
  ): Promise<{ readonly budget: string; readonly decision: BudgetDecision }> {
    const ask = async (name: string): Promise<BudgetDecision> => {
      const about = { operation, pod, gates, isDryRun: dryRun };
      try {
        const ref = { namespace, name };
        return await ledger.reserve(ref, (budget) => decide({ ...about, budget, nowMs: now() }), signal);
      } catch (error) {
        if (!(error instanceof LedgerConflict)) throw error;
        return { kind: 'refuse', message: budgetRefusal.conflicts(name) };
      }
    };
    const decision = await ask(stamp);
    const isGone = decision.kind === 'allow' && decision.why === 'NoBudget';
    const other = isGone ? await budgetNow?.(pod, signal) : undefined;
    return other === undefined ? { budget: stamp, decision } : { budget: other, decision: await ask(other) };
  }
}

function podIn(request: AdmissionRequest, field: 'object' | 'oldObject'): Pod {
  const object: JsonObject = request[field] ?? {};
  const { metadata, spec } = object;
  if (!isName(objectOr(metadata).name) || !isJsonList(objectOr(spec).containers)) {
    throw new MalformedBody(`request.${field} is not a pod`);
  }
  return object as unknown as Pod;
}

function evictedName({ name, object }: AdmissionRequest): string {
  const named = name || objectOr(object?.metadata).name;
  if (!isName(named)) throw new MalformedBody('The eviction names no pod');
  return named;
}

/** The API server reports what the URL says; `kubectl drain --dry-run=server` says it in the body of the eviction. */
function isDryRun({ dryRun, subResource, object }: AdmissionRequest): boolean {
  const { deleteOptions } = objectOr(object);
  return dryRun || (subResource === 'eviction' && listOr(objectOr(deleteOptions).dryRun).includes('All'));
}

const longestName = 253;

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= longestName;
}

function refusedOperation(
  { user, namespace }: AdmissionRequest,
  about: Pick<RefusedPodOperation, 'operation' | 'pod' | 'budget' | 'dryRun'>,
): RefusedPodOperation {
  const { ownerReferences = [], name: podName } = about.pod.metadata;
  const { kind, name } = ownerReferences.find(({ controller }) => controller) ?? { kind: 'unknown', name: podName };
  const username = user.slice(0, longestName);
  return {
    ...about,
    event: budgetEvent.prevented(),
    labels: { kind_namespace_name: `${kind}_${namespace}_${name}`, username },
    audit: { Event: 'PodUnavailableBudget', Kind: kind, Namespace: namespace, Name: name, UserAgent: username },
  };
}
