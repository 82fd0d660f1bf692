import { isAbsent, type JsonObject, mergePatchTo, sameJson } from '../../../api/base/json.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import type { OwnerReference } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { eventComponent } from '../../../api/core/well-known.ts';
import {
  type PodUnavailableBudget,
  type PodUnavailableBudgetStatus,
  podUnavailableBudgets,
  relatedBudget,
} from '../../../api/pod-unavailable-budget/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import { type EventBudget, tellEvent } from '../../../kube/events.ts';
import { earliest, type PassResult } from '../../../kube/keyed-queue.ts';
import { type Owners, OwnerUnreadable, ownersKeptMs, type ReadOwner } from '../../../kube/owners.ts';
import { type OwnedPod, workloadOf } from '../../../plan/pod-unavailable-budget/association.ts';
import type { ReadinessGates } from '../../../plan/pod-unavailable-budget/readiness.ts';
import {
  type BudgetNews,
  type BudgetTarget,
  budgetStatus,
  podsOf,
} from '../../../plan/pod-unavailable-budget/status.ts';
import type { ControllerContext } from '../../controller.ts';
import type { CandidatePods } from './candidate-pods.ts';
import { inTurns } from './in-turns.ts';
import { readUnstamped, type StampDependencies, stampMembers } from './stamps.ts';

export interface BudgetPassDependencies extends StampDependencies, Pick<ControllerContext, 'now'> {
  readonly budgets: Pick<Cache<PodUnavailableBudget>, 'byUid' | 'seen'>;
  readonly pods: Pick<Cache<Pod>, 'byUid' | 'seen'>;
  readonly owners: Pick<Owners, 'from' | 'named' | 'now'>;
  readonly candidates: CandidatePods;
  /** By UID of the budget: the UIDs of the owners that it counts, whose changes wake it. */
  readonly counted: Map<string, Set<string>>;
  readonly events: EventBudget;
  readonly gates: ReadinessGates;
}

/** Of the pods of one budget; each of them takes a read. */
const mostControllers = 1_000;
/** PUB-21: between two tries to write a status. A change in the cache comes before. */
const afterConflictMs = 500;
/** Before the pods without a stamp that are left. */
const restAfterMs = 100;
/** How long the cache may take to show a status. */
const seenWithinMs = 10_000;

/** One pass over one budget. */
export async function passOverBudget(uid: string, world: BudgetPassDependencies): Promise<PassResult | undefined> {
  const { budgets, counted, candidates, owners, gates, now } = world;
  const budget = budgets.byUid(uid);
  if (budget === undefined || budget.metadata.deletionTimestamp !== undefined) return undefined;
  const beganAtMs = owners.now();
  const read: ReadOwner[] = [];
  const note = (all: readonly ReadOwner[]) => {
    read.push(...all);
    // At once: a change of one of them may come while others are read.
    for (const owner of all) counted.set(uid, (counted.get(uid) ?? new Set()).add(owner.uid));
  };
  try {
    const { pods, target, isPart } = await look(budget, note, world);
    // Admission may have written the status meanwhile.
    const latest = budgets.byUid(uid);
    if (latest === undefined) {
      candidates.forget(uid);
      counted.delete(uid);
      return undefined;
    }
    counted.set(uid, new Set(read.map((owner) => owner.uid)));
    const report = budgetStatus({ budget: latest, pods, ...(target && { target }), gates, nowMs: now() });
    const isWritten = report.status === undefined || (await writeStatus(latest, report.status, world));
    if (isWritten) await tellNews(latest, report.events, world);
    // What was read before may have changed since without anybody seeing it.
    const isFresh = read.every(({ readAtMs }) => readAtMs >= beganAtMs);
    return earliest(
      report.againInMs === undefined ? undefined : { againInMs: report.againInMs },
      isFresh ? undefined : { againInMs: ownersKeptMs },
      isPart ? { againInMs: restAfterMs } : undefined,
      isWritten ? undefined : { againInMs: afterConflictMs },
    );
  } catch (error) {
    if (!(error instanceof OwnerUnreadable)) throw error;
    const { events } = budgetStatus({ budget, pods: [], failure: error.message, gates, nowMs: now() });
    await tellNews(budget, events, world);
    throw error;
  }
}

interface Look {
  readonly pods: readonly OwnedPod[];
  readonly target?: BudgetTarget;
  /** Not all pods have a stamp yet. */
  readonly isPart: boolean;
}

/** The target and the pods of a budget with their owners. Pods that lack the stamp get it. */
async function look(
  budget: PodUnavailableBudget,
  note: (owners: readonly ReadOwner[]) => void,
  world: BudgetPassDependencies,
): Promise<Look> {
  const { targetRef, selector, protectTotalReplicas } = budget.spec;
  const { uid, namespace = '' } = budget.metadata;
  const { owners, candidates } = world;
  const found = targetRef && (await owners.named({ apiVersion: '', kind: '', name: '', ...targetRef }, namespace));
  note(found ? [found] : []);
  if (targetRef && found === undefined) {
    candidates.forget(uid); // any pod may be the first of one that is created
    return { pods: [], isPart: false };
  }
  const active = candidates.of(budget, found ? found.selector : (selector ?? {}));
  const target = found && targetOf(found);
  if (target?.isGone || target?.replicas === 0) return { pods: [], target, isPart: false };

  const { live, isPart } = await readUnstamped(budget, active, world);
  // Nothing of the owners is read of a budget that says itself how many pods are expected.
  const isCounted = targetRef !== undefined || isAbsent(protectTotalReplicas);
  const known = active.map((pod) => live.get(pod.metadata.uid) ?? pod);
  const chains = await chainsOf(isCounted ? known : [], namespace, found, note, owners);
  const ownedNow = () =>
    active.flatMap(({ metadata }): readonly OwnedPod[] => {
      const cached = world.pods.byUid(metadata.uid);
      if (cached === undefined) return [];
      const pod = relatedBudget(cached) === undefined ? (live.get(metadata.uid) ?? cached) : cached;
      return [{ pod, owners: chains.get(controllerOf(pod)?.uid ?? '') ?? [] }];
    });
  const members = podsOf({ budget, pods: ownedNow(), ...(target && { target }) });
  const isDone = await stampMembers(budget, live, members, world);
  return { pods: ownedNow(), ...(target && { target }), isPart: isPart || !isDone };
}

/** Only pods of other kinds are also found by the selector of the scale subresource (PUB-10). */
function targetOf({ selector, ...target }: ReadOwner): BudgetTarget {
  return target.isKnownKind || selector === undefined ? target : { ...target, selector };
}

/** By UID of the controllers of these pods: the owners up to the target, or to the workload that is counted (PUB-13). */
async function chainsOf(
  pods: readonly Pod[],
  namespace: string,
  target: ReadOwner | undefined,
  note: (owners: readonly ReadOwner[]) => void,
  owners: Pick<Owners, 'from'>,
): Promise<ReadonlyMap<string, readonly ReadOwner[]>> {
  const controllers = new Map(pods.flatMap((pod) => entryOf(controllerOf(pod))));
  if (controllers.size > mostControllers) {
    const why = `there are ${controllers.size} of them: set spec.protectTotalReplicas`;
    throw new OwnerUnreadable('Cannot read the controllers of the pods', why);
  }
  const climbs = (owner: ReadOwner, next: OwnerReference) =>
    target ? owner.uid !== target.uid : workloadOf([owner, { ...next, isGone: false }])?.uid === next.uid;
  const chains = new Map<string, readonly ReadOwner[]>();
  await inTurns([...controllers.values()], async (controller) => {
    const chain = await owners.from(controller, namespace, climbs);
    note(chain);
    chains.set(controller.uid, chain);
  });
  return chains;
}

function controllerOf({ metadata }: Pod): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller);
}

/** The cache leaves out who controls a pod that nothing has marked. */
function entryOf(controller: OwnerReference | undefined): readonly (readonly [uid: string, OwnerReference])[] {
  return controller?.uid ? [[controller.uid, controller]] : [];
}

/** Whether the status is as it should be; false: somebody else has written it meanwhile. */
async function writeStatus(
  budget: PodUnavailableBudget,
  status: PodUnavailableBudgetStatus,
  { kube, budgets }: BudgetPassDependencies,
): Promise<boolean> {
  const { namespace = '', name, uid, resourceVersion } = budget.metadata;
  if (sameJson(status, budget.status)) return true;
  const patch = mergePatchTo((budget.status ?? {}) as JsonObject, status as JsonObject);
  const body = { metadata: { uid, resourceVersion }, status: patch };
  try {
    const written = await kube.patch<PodUnavailableBudget>(podUnavailableBudgets, { namespace, name }, 'merge', body, {
      subresource: 'status',
    });
    const { resourceVersion: version } = written.metadata;
    await budgets.seen(uid, version, AbortSignal.timeout(seenWithinMs)).catch(() => undefined);
    return true;
  } catch (error) {
    const type = failureTypeOf(error);
    if (type === 'Superseded' || type === 'Conflict') return false;
    throw error;
  }
}

async function tellNews(
  budget: PodUnavailableBudget,
  news: readonly BudgetNews[],
  { kube, events, now }: BudgetPassDependencies,
): Promise<void> {
  for (const { about, text } of news) {
    const mayBe = about.kind === budget.kind ? events.takeLasting(about, text) : events.take(budget, text);
    if (mayBe) {
      await tellEvent(kube, { ...text, about, component: eventComponent.podUnavailableBudget, atMs: now() });
    }
  }
}
