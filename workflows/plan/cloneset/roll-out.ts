/** Whether there is anything to roll out, and what the roll-out has to know of the set. */
import type { RollOutFacts } from '../../../api/fleet/operation.ts';
import { ordersOf } from '../../../api/fleet/roll-out-orders.ts';
import { previousRevision } from './revisions.ts';
import { isAtGoal, replicasOf } from './scene.ts';
import type { Situation } from './waits.ts';

/** Whether pods are to be updated, besides those that an operator leaves out. A pod whose update has begun is not. */
export function isUpdateLeft({ scene, update }: Pick<Situation, 'scene' | 'update'>): boolean {
  const { counted, isOnDelete, permit, orders } = scene;
  const { updateNum } = update.numbers;
  if (isOnDelete || updateNum === 0) return false;
  const skip = [...(permit?.skip ?? []), ...(orders?.skip ?? [])];
  return updateNum < 0 || counted.some((pod) => !isAtGoal(scene, pod) && !skip.includes(pod.name));
}

/** What a roll-out of this set is told, whether or not there is anything to roll out. */
export function rollOutFacts({ scene }: Pick<Situation, 'scene'>): RollOutFacts {
  const { set, revisions } = scene;
  const previous = previousRevision(revisions);
  const orders = ordersOf(set);
  return {
    generation: set.metadata.generation ?? 0,
    revision: revisions.update.metadata.name,
    replicas: replicasOf(set),
    ...(previous && { previous: previous.metadata.name }),
    ...(orders && { orders }),
  };
}
