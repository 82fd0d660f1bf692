// How many pods may be updated now (SCS-154 to SCS-158).

import { countOf } from '../../api/base/int-or-percent.ts';
import { sidecarSetDefault } from '../../api/sidecar-set/types.ts';
import type { ClassifiedPod } from './classify.ts';
import { updateOrder } from './order.ts';
import { recordedHash } from './pods.ts';
import type { SidecarTarget } from './target.ts';

/**
 * How many pods `updateStrategy.partition` keeps at older contents, of this many managed pods (SCS-154). A percentage below
 * 100% lets at least one of several pods go. One that is neither a number nor a percentage keeps all.
 */
export function podsToKeep(partition: number | string | undefined, managed: number): number {
  const value = partition ?? sidecarSetDefault.partition;
  const count = countOf(value, managed, 'up');
  if (count === undefined) return managed;
  const isAlmostAll = managed > 1 && typeof value === 'string' && value !== '100%' && count === managed;
  return Math.min(Math.max(isAlmostAll ? managed - 1 : count, 0), managed);
}

/** `updateStrategy.maxUnavailable` as a number of pods (SCS-156). One that is neither a number nor a percentage is 0. */
export function mostUnavailable(maxUnavailable: number | string | undefined, managed: number): number {
  return Math.max(countOf(maxUnavailable ?? sidecarSetDefault.maxUnavailable, managed, 'up') ?? 0, 0);
}

export interface UpdateBudget {
  /** maxUnavailable as a number. */
  readonly most: number;
  /**
   * The pods with the content of the target that are not consistent or not sidecar-ready, and those of which an update may still be
   * made: each uses up one.
   */
  readonly spentBy: readonly ClassifiedPod[];
}

/** What is left to update. */
export interface UpdateDemand {
  /** The waiting pods that the partition lets go, in the order of their update. */
  readonly line: readonly ClassifiedPod[];
  /** The waiting pods that stay because of the partition, the next one first. During an undo none does. */
  readonly kept: readonly ClassifiedPod[];
  readonly budget: UpdateBudget;
}

/**
 * `isSkipped`: pods that an operator leaves out use up nothing. `isInDoubt`: an update of the pod got no answer, so that it may still
 * be made (P-7); it uses up one in any case.
 */
export function updateDemand(
  target: SidecarTarget,
  managed: readonly ClassifiedPod[],
  isSkipped?: (pod: ClassifiedPod) => boolean,
  isInDoubt: (pod: ClassifiedPod) => boolean = () => false,
): UpdateDemand {
  const waiting = updateOrder(target, managed);
  const keeps = target.takenBack === undefined ? podsToKeep(target.strategy.partition, managed.length) : 0;
  const goes = Math.max(waiting.length - keeps, 0);
  const { most, spentBy } = updateBudget(target, managed, isSkipped);
  const known = new Set(spentBy);
  const inDoubt = managed.filter((one) => one.isSidecarReady && isInDoubt(one) && !known.has(one));
  return {
    line: waiting.slice(0, goes),
    kept: waiting.slice(goes),
    budget: { most, spentBy: [...spentBy, ...inDoubt] },
  };
}

/** SCS-157: pods with other contents that are not ready never use up the budget. */
export function updateBudget(
  target: SidecarTarget,
  managed: readonly ClassifiedPod[],
  isSkipped: (pod: ClassifiedPod) => boolean = () => false,
): UpdateBudget {
  const { setName, hashes, strategy } = target;
  const isDown = ({ isConsistent, isSidecarReady }: ClassifiedPod) => !isConsistent || !isSidecarReady;
  return {
    most: mostUnavailable(strategy.maxUnavailable, managed.length),
    spentBy: managed.filter((one) => isDown(one) && !isSkipped(one) && recordedHash(one.pod, setName) === hashes.whole),
  };
}

/**
 * Asked about the pods of the line one after the other, once each: whether the budget has room for it besides those before
 * it. A pod that is not sidecar-ready costs nothing, nor does one that uses up one already. After the first refusal the walk ends
 * (SCS-157).
 */
export function admission({ most, spentBy }: UpdateBudget): (pod: ClassifiedPod) => boolean {
  const spenders = new Set(spentBy);
  let spent = spenders.size;
  return (pod) => {
    if (!pod.isSidecarReady || spenders.has(pod)) return true;
    if (spent >= most) return false;
    spent++;
    return true;
  };
}

/** The pods to update now, and the one at which the budget ends the walk. */
export function podsToUpdate({ line, budget }: Pick<UpdateDemand, 'line' | 'budget'>): {
  readonly pods: readonly ClassifiedPod[];
  readonly heldBack?: ClassifiedPod;
} {
  const admits = admission(budget);
  const end = line.findIndex((pod) => !admits(pod));
  const heldBack = line[end];
  return heldBack === undefined ? { pods: line } : { pods: line.slice(0, end), heldBack };
}
