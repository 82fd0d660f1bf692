import type { ObjectRef } from '../../api/core/refs.ts';
import type { Answer, BatchResult, JustPermitted } from '../../plan/fleet/permit.ts';
import type { CarriedBatches } from '../../plan/permits/in-flight.ts';
import type { BatchRequest } from '../../watcher/fleet/held-batch.ts';
import { answeredAtOnce, confirmedForMs, type FleetDependencies, whileItCounts } from './permit-holder.ts';

/** The object that is rolled out. */
interface RolledOut {
  /** `CloneSet` */
  readonly kind: string;
  readonly target: ObjectRef;
}

export interface NextInput extends RolledOut {
  /** Absent: none. */
  readonly justPermitted?: readonly JustPermitted[];
  /** The batches that count. Absent: those that there are. */
  readonly carried?: CarriedBatches;
}

export interface CarryOutBatchInput extends RolledOut, Omit<BatchRequest, 'run'> {}

/** Answers which pods may go next, or why none may, from what the leading watcher knows at this moment. It disrupts nothing. */
export function nextActivity({
  queueOf,
  runId,
}: Pick<FleetDependencies, 'queueOf' | 'runId'>): (input: NextInput) => Promise<Answer> {
  return async ({ kind, target, justPermitted = [], carried }) =>
    answeredAtOnce({ queueOf }, { kind, target, items: 'pods' }, (holder) =>
      holder.next(target.uid, { justPermitted, ...(carried && { carried: { ...carried, run: runId() } }) }),
    );
}

/**
 * Hands the permit to update these pods to the fleet queue and waits, heartbeating, until each of them is updated or says
 * why it is not. The permit ends with the attempt; another one hands it in anew and finds what has been done by then.
 */
export function carryOutBatchActivity(
  dependencies: FleetDependencies,
): (input: CarryOutBatchInput) => Promise<BatchResult> {
  return async ({ kind, target, number, batch }) => {
    const of = { kind, target, doing: `carry out batch ${number} of` };
    return await whileItCounts(
      dependencies,
      of,
      (holder, life) => holder.carryOut(target.uid, { run: dependencies.runId(), number, batch }, life),
      {
        holdsMs: confirmedForMs,
        progress: (holder) => holder.progressOf(target.uid, number),
        isBegun: (holder) => holder.isBegun(target.uid, number),
        confirmed: (holder) => holder.confirmed(target.uid),
      },
    );
  };
}
