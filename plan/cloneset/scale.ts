/**
 * How a CloneSet gets to its number of pods (CS-30…38, LC-40…43). The first step that changes something ends a pass:
 *
 *   1. deletions that are no longer wanted are cancelled,
 *   2. missing pods are created,
 *   3. pods that were held before their deletion and are free now are deleted,
 *   4. pods that the user has named are deleted,
 *   5. pods that are too many are deleted.
 */

import type { JsonObject } from '../../api/base/json.ts';
import { cloneSetEvent } from '../../api/cloneset/types.ts';
import type { ScalePlan } from '../fleet/kind.ts';
import { canCancelDelete, enter } from '../fleet/lifecycle.ts';
import { deletion, writes } from '../fleet/pod-writes.ts';
import type { FleetPod } from '../fleet/pods.ts';
import type { Intention } from '../fleet/steps.ts';
import type { Numbers } from './counts.ts';
import { type AwaitedPod, awaitedPods, claimsOfPod, freeInstanceIds, newPod, orphanedInstanceIds } from './pods.ts';
import { type CloneSetScene, countsAsNew, scaleNumbers } from './scene.ts';
import { chooseVictims } from './victims.ts';

export interface CloneSetScale extends ScalePlan {
  readonly numbers: Numbers;
  /** Why surplus pods stay: these go first. */
  readonly goingFirst: readonly FleetPod[];
  /** Terminating pods whose names and PVCs missing pods will take over. */
  readonly awaited: readonly AwaitedPod[];
  /** Missing pods for which no instance ID was found. */
  readonly withoutId: number;
}

/**
 * The maximum number of creations per pass: status and spec changes must be processed in between when thousands are
 * missing.
 */
const mostCreations = 64;

/** What to create and delete now. */
export function planScale(scene: CloneSetScene): CloneSetScale {
  const numbers = scaleNumbers(scene);
  const { up, down } = numbers;
  const nothing: CloneSetScale = {
    ...{ steps: [], events: [], numbers, spared: [], goingFirst: [], awaited: [], withoutId: 0 },
    ...{ missing: up, surplus: down, isSettled: scene.counted.length === scene.limits.replicas && up + down === 0 },
  };
  const kept = cancelledDeletes(scene);
  if (kept.length > 0) return { ...nothing, steps: kept };

  if (numbers.up > 0) {
    const events =
      numbers.up > numbers.upLimit
        ? [{ kind: 'event', event: cloneSetEvent.scaleUpLimited(numbers.upLimit) } as const]
        : [];
    const { steps, awaited, withoutId } = newPods(scene, numbers);
    // CS-31: everything else waits. But held pods that may be deleted now may be what prevents the creation.
    return { ...nothing, steps: steps.length > 0 ? steps : finishedHolds(scene), events, awaited, withoutId };
  }
  const freed = finishedHolds(scene);
  if (freed.length > 0) return { ...nothing, steps: freed };

  const { chosen, spared } = withinLimit(specifiedPods(scene), numbers.deleteAvailableLimit);
  const named = chosen.flatMap((pod) => deletionWithClaims(scene, pod));
  if (named.length > 0 || numbers.down === 0) return { ...nothing, steps: named, spared };

  // CS-34: deleting them may be enough
  const goingFirst = scene.counted.filter(({ isSpecified, state }) => isSpecified || state === 'PreparingDelete');
  if (goingFirst.length > 0) return { ...nothing, spared, goingFirst };
  const limit = numbers.isScaleIn ? Number.POSITIVE_INFINITY : numbers.deleteAvailableLimit;
  const victims = withinLimit(surplusPods(scene, numbers), limit);
  return { ...nothing, steps: victims.chosen.flatMap((pod) => deletionWithClaims(scene, pod)), spared: victims.spared };
}

/** CS-30, LC-43, LC-44. */
function cancelledDeletes(scene: CloneSetScene): readonly Intention[] {
  const { owner: set, counted, limits } = scene;
  if (!canCancelDelete(set.spec.lifecycle)) return [];
  const going = counted.filter(({ state, isSpecified }) => state === 'PreparingDelete' || isSpecified);
  const wanted = limits.replicas - counted.length + going.length;
  return going
    .filter(({ isSpecified }) => !isSpecified)
    .slice(0, Math.max(wanted, 0))
    .flatMap((pod) => writes(pod, 'keep', enter('PreparingNormal', pod.pod, set.spec.lifecycle, scene.now)));
}

/**
 * CS-31, CS-59: old ones as far as they are missing, new ones for the rest. CS-46: IDs of PVCs without a pod are used
 * first, then those of terminating pods, and only then new ones.
 */
function newPods(
  scene: CloneSetScene,
  { upLimit, upOld }: Numbers,
): Pick<CloneSetScale, 'awaited' | 'withoutId'> & { readonly steps: readonly Intention[] } {
  const { input, owner, now, target, other } = scene;
  const { claims, gates } = input;
  const orphaned = Math.min(orphanedInstanceIds(input).length, upLimit);
  const awaited = awaitedPods(input).slice(0, upLimit - orphaned);
  const count = Math.min(upLimit - awaited.length, mostCreations);
  const ids = freeInstanceIds(count, target.metadata.name, input);
  const steps = ids.map((instanceId, index) =>
    newPod({ owner, revision: index < upOld ? other : target, instanceId, claims, gates, now }),
  );
  return { steps, awaited, withoutId: count - ids.length };
}

/** CS-32, LC-41, LC-53. */
function finishedHolds(scene: CloneSetScene): readonly Intention[] {
  return scene.counted
    .filter(({ state }) => state === 'PreparingDelete')
    .flatMap((pod) => deletionWithClaims(scene, pod));
}

/** CS-33. */
function specifiedPods({ counted }: CloneSetScene): readonly FleetPod[] {
  return counted.filter(({ isSpecified, state }) => isSpecified && state !== 'PreparingDelete');
}

/** CS-34, CS-40: the surplus pods, in deletion order. */
export function surplusPods(
  scene: CloneSetScene,
  { down, downOld }: Pick<Numbers, 'down' | 'downOld'>,
): readonly FleetPod[] {
  const { counted, owner: set, input: world } = scene;
  return chooseVictims({
    old: counted.filter((pod) => !countsAsNew(scene, pod)),
    fresh: counted.filter((pod) => countsAsNew(scene, pod)),
    count: down,
    countOld: downOld,
    template: set.spec.template,
    nodes: world.nodes,
  });
}

/**
 * CS-55b: pods that are not available are deleted freely, available ones while the limit lasts. The limit does not include
 * named pods that are not available; but they are missing like any other, so they are subtracted.
 */
function withinLimit(
  pods: readonly FleetPod[],
  limit: number,
): { readonly chosen: readonly FleetPod[]; readonly spared: readonly FleetPod[] } {
  const free = pods.filter(({ isAvailable }) => !isAvailable);
  const available = pods.filter(({ isAvailable }) => isAvailable);
  const left = Math.max(limit - free.filter(({ isSpecified }) => isSpecified).length, 0);
  return { chosen: [...free, ...available.slice(0, left)], spared: available.slice(left) };
}

/** CS-35. */
function deletionWithClaims(scene: CloneSetScene, pod: FleetPod): readonly Intention[] {
  return deletion(scene, pod, claimsOfPod(pod.pod, scene.input.claims));
}

/** CS-36: what is left of the names in the spec once those are gone that are no pods any more; undefined: all of them. */
export function prunedPodsToDelete({
  owner: set,
  counted,
}: Pick<CloneSetScene, 'owner' | 'counted'>): JsonObject | undefined {
  const names = set.spec.scaleStrategy?.podsToDelete ?? [];
  const left = names.filter((name) => counted.some((pod) => pod.name === name));
  if (left.length === names.length) return undefined;
  return { spec: { scaleStrategy: { podsToDelete: left.length > 0 ? left : null } } };
}
