import type { ObjectRef } from '../../api/core/refs.ts';
import type { BatchVerdict } from '../../plan/fleet/batch.ts';
import type { ToldVerdict } from '../../plan/fleet/permit.ts';
import type { BatchRequest } from '../../watcher/fleet/held-batch.ts';
import type { ChoiceRequest } from '../../watcher/fleet/permits.ts';
import { type FleetDependencies, whileItCounts } from './permit-holder.ts';

/** The object that is rolled out. */
interface RolledOut {
  /** `CloneSet` */
  readonly kind: string;
  readonly target: ObjectRef;
}

export interface ChooseBatchInput extends RolledOut {
  readonly choice: ChoiceRequest;
}

export interface CarryOutBatchInput extends RolledOut, BatchRequest {}

/** Asks the planner which pods go next, and waits, heartbeating, while none may go. It changes nothing. */
export function chooseBatchActivity(
  dependencies: FleetDependencies,
): (input: ChooseBatchInput) => Promise<ToldVerdict> {
  return async ({ kind, target, choice }) => {
    const of = { kind, target, doing: 'choose the next pods of' };
    return await whileItCounts(dependencies, of, (holder, life) => holder.choose(target.uid, choice, life), {
      progress: (holder) => holder.progressOf(target.uid),
    });
  };
}

/**
 * Hands the permit to update these pods to the fleet queue and waits, heartbeating, until each of them is updated or says
 * why it is not. The permit ends with the attempt; another one hands it in anew and finds what has been done by then.
 */
export function carryOutBatchActivity(
  dependencies: FleetDependencies,
): (input: CarryOutBatchInput) => Promise<BatchVerdict> {
  return async ({ kind, target, number, revision, batch }) => {
    const of = { kind, target, doing: `carry out batch ${number} of` };
    return await whileItCounts(
      dependencies,
      of,
      (holder, life) => holder.carryOut(target.uid, { number, revision, batch }, life),
      { progress: (holder) => holder.progressOf(target.uid, number) },
    );
  };
}
