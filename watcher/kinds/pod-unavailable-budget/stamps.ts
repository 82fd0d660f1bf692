import { failureTypeOf } from '../../../api/core/failure.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { qualifiedName } from '../../../api/core/refs.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { type PodUnavailableBudget, relatedBudget } from '../../../api/pod-unavailable-budget/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import { unlessGone } from '../../../kube/moved-on.ts';
import type { RecentlySeen } from '../../../kube/recently-seen.ts';
import { despiteConflicts } from '../../../kube/retry-on-conflict.ts';
import { missingStamp, type OwnedPod } from '../../../plan/pod-unavailable-budget/association.ts';
import type { ControllerContext } from '../../controller.ts';
import { inTurns } from './in-turns.ts';

export interface StampDependencies extends Pick<ControllerContext, 'kube' | 'log'> {
  readonly pods: Pick<Cache<Pod>, 'seen'>;
  /**
   * By UIDs of budget and pod: pods that do not belong to the budget, or cannot be stamped, or have a stamp that the cache
   * leaves out.
   */
  readonly passedOver: RecentlySeen;
}

/** How long such a pod is not looked at again. */
export const passedOverMs = 60_000;
/** How many pods without a stamp one pass looks at. */
const mostAtOnce = 100;
/** How long the cache may take to show stamps. */
const seenWithinMs = 5_000;

/** Pods of which the cache holds less than budgets read, because they have no stamp yet. */
export interface UnstampedPods {
  /** By UID: as they are now. */
  readonly live: ReadonlyMap<string, Pod>;
  /** There are more of them than one pass looks at. */
  readonly isPart: boolean;
}

/** Reads the pods that have no stamp yet. */
export async function readUnstamped(
  budget: PodUnavailableBudget,
  candidates: readonly Pod[],
  { kube, passedOver }: StampDependencies,
): Promise<UnstampedPods> {
  const all = candidates.filter(
    (pod) => relatedBudget(pod) === undefined && !passedOver.has(keyOf(budget, pod), performance.now()),
  );
  const live = new Map<string, Pod>();
  await inTurns(all.slice(0, mostAtOnce), async ({ metadata: { namespace = '', name, uid } }) => {
    const pod = await unlessGone(kube.get<Pod>(kubeResource.pods, { namespace, name }));
    if (pod?.metadata.uid === uid) live.set(uid, pod);
  });
  return { live, isPart: all.length > mostAtOnce };
}

/**
 * Stamps those of these pods that belong to the budget (PUB-3), and waits until the cache shows it. A pod that cannot be
 * stamped keeps none of the others from it. False: some of them have to be tried again.
 */
export async function stampMembers(
  budget: PodUnavailableBudget,
  live: UnstampedPods['live'],
  members: readonly OwnedPod[],
  { kube, log, pods, passedOver }: StampDependencies,
): Promise<boolean> {
  let isDone = true;
  const stamped: Pod[] = [];
  const belongs = new Set(members.map(({ pod }) => pod.metadata.uid));
  const pass = (pod: Pod) => passedOver.add(keyOf(budget, pod), performance.now());

  await inTurns([...live.values()], async (pod) => {
    const { namespace = '', name, uid } = pod.metadata;
    if (!belongs.has(uid)) return pass(pod);
    let known: Pod | undefined = pod;
    try {
      const written = await despiteConflicts(async () => {
        const { metadata, ...latest }: Pod = known ?? (await kube.get<Pod>(kubeResource.pods, { namespace, name }));
        known = undefined;
        const annotations = metadata.uid === uid ? missingStamp(budget, { ...latest, metadata }) : undefined;
        const body = { metadata: { uid, resourceVersion: metadata.resourceVersion, annotations } };
        return annotations && (await kube.patch<Pod>(kubeResource.pods, { namespace, name }, 'merge', body));
      });
      if (written === undefined) return pass(pod);
      stamped.push(written);
    } catch (error) {
      const type = failureTypeOf(error);
      if (type === 'Superseded') return;
      if (type === 'Conflict') {
        isDone = false;
        return;
      }
      if (type !== 'Denied' && type !== 'Invalid' && type !== 'Held') throw error;
      pass(pod);
      log.warn({ err: error, pod: qualifiedName(pod.metadata), budget: budget.metadata.name }, 'Cannot stamp a pod');
    }
  });
  const signal = AbortSignal.timeout(seenWithinMs);
  const seen = stamped.map(({ metadata }) => pods.seen(metadata.uid, metadata.resourceVersion, signal));
  await Promise.allSettled(seen);
  return isDone;
}

function keyOf(budget: PodUnavailableBudget, pod: Pod): string {
  return `${budget.metadata.uid} ${pod.metadata.uid}`;
}
