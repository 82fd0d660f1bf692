/** How a permit stands, and when to look again. */
import { firstWait, type Rule } from '../decision.ts';
import type { Situation } from './kind.ts';
import type { Standing } from './permit.ts';
import type { FleetPod } from './pods.ts';
import { isUpdateLeft } from './roll-out-facts.ts';
import { isAtGoal, nextRevision, progressOf, skippedPods, volumesOf } from './scene.ts';
import { retryInMs } from './update.ts';
import { noPermitInMs } from './waits.ts';

/**
 * How the permit of the pass stands. `isActing`: pods are written in this pass; `isScaling`: pods are created or deleted,
 * so that none is chosen.
 */
export function standingOf<Of extends Situation>(
  rules: readonly Rule<Of>[],
  situation: Of,
  { isActing, isScaling }: { readonly isActing: boolean; readonly isScaling: boolean },
): Standing {
  const { scene, scale, update } = situation;
  const { input, counted } = scene;
  if (input.permit === undefined) return { kind: 'working' };

  const skip = skippedPods(scene);
  const isInService = (pod: FleetPod) => pod.isAvailable && volumesOf(scene, pod).resizing.length === 0;
  const isGood = (pod: FleetPod) => isInService(pod) || skip.has(pod.name);
  const arrived = counted.filter((pod) => isAtGoal(scene, pod));
  const good = arrived.filter(isGood).length;
  const [next, ...others] = isScaling ? [] : update.candidates;
  if (next) {
    const { metadata } = nextRevision(scene, update.demand);
    const more = update.stop.kind === 'batchFull';
    return { kind: 'pods', revision: metadata.name, pods: [next, ...others], more };
  }
  // What has failed and is tried again is no work that anybody can wait for.
  if (isActing && input.failures === undefined) return { kind: 'working' };

  const isDone = scale.isSettled && !isUpdateLeft(situation) && good === arrived.length;
  if (isDone || scene.strategy.isOnDelete) return { kind: 'allDone', summary: progressOf(scene) };
  if (scene.orders?.aborted) return { kind: 'aborted', summary: progressOf(scene) };
  const wait = firstWait(rules, situation);
  return wait ? { kind: 'waiting', wait } : { kind: 'working' };
}

/** When to look again though nothing happens; nothing when that is never. */
export function againInMs(situation: Situation, ownDueMs: readonly number[]): { readonly againInMs?: number } {
  const { scene, refresh, update } = situation;
  const due = [...scene.counted.flatMap(({ availableAtMs }) => availableAtMs ?? []), ...ownDueMs];
  const noPermitMs = noPermitInMs(situation);
  const waits = [
    ...due.map((atMs) => atMs - scene.input.nowMs),
    refresh.againInMs,
    retryInMs(update.stop),
    // once it has been reported, there is nothing to look at any more
    noPermitMs !== undefined && noPermitMs > 0 ? noPermitMs : undefined,
  ].filter((ms) => ms !== undefined);
  return waits.length === 0 ? {} : { againInMs: Math.max(Math.min(...waits), 0) };
}
