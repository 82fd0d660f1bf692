/** Whether there is anything to roll out, and what the roll-out has to know of the workload. */
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import { doubtAbout } from '../../api/fleet/revision.ts';
import { ordersOf } from '../../api/fleet/roll-out-orders.ts';
import type { Situation } from './kind.ts';
import { previousRevision } from './revisions.ts';
import { toldOrders } from './roll-out-orders.ts';
import { type FleetScene, isAtGoal, skippedPods, volumesOf } from './scene.ts';

/** Whether pods are to be updated, besides those that an operator leaves out. A pod whose update has begun is not. */
export function isUpdateLeft({ scene, update }: Pick<Situation, 'scene' | 'update'>): boolean {
  const { left, concerns } = update.demand;
  if (scene.strategy.isOnDelete || left === 0) return false;
  const skip = skippedPods(scene);
  return left < 0 || scene.counted.some((pod) => concerns(pod) && !skip.has(pod.name));
}

/** The facts for a roll-out of this workload, whether or not there is anything to roll out. */
export function rollOutFacts({ scene }: Pick<Situation, 'scene'>): RollOutFacts {
  const { owner, revisions, replicas } = scene;
  const earlier = previousRevision(revisions);
  const noUndo = earlier && whyNoUndo(scene);
  const previous = noUndo === undefined ? earlier : undefined;
  const previousDoubt = previous && doubtAbout(previous);
  const orders = toldOrders(scene.input.held?.orders ?? ordersOf(owner), scene.isUndoLost);
  return {
    generation: owner.metadata.generation ?? 0,
    revision: revisions.update.metadata.name,
    replicas,
    ...(previous && { previous: previous.metadata.name }),
    ...(previousDoubt !== undefined && { previousDoubt }),
    ...(noUndo !== undefined && { noUndo }),
    ...(orders && { orders }),
  };
}

/** An undo would take back pods that this roll-out does not change, and not what it changes. */
function whyNoUndo(scene: FleetScene): string | undefined {
  const { counted, isUndo, revisions } = scene;
  const isExpanding = counted.some((pod) => {
    const { due, resizing } = volumesOf(scene, pod);
    return due.length + resizing.length > 0;
  });
  if (isUndo || !isExpanding || !counted.every((pod) => isAtGoal(scene, pod))) return undefined;
  return (
    `all pods are of revision ${revisions.update.metadata.name}, only PVCs are expanded, and no PVC can be made smaller; ` +
    'pause the roll-out to expand no further ones'
  );
}
