import type { ObjectRef } from '../core/refs.ts';
import { type OperationTarget, operationId } from '../engine/operation-id.ts';
import type { RollOutOrders } from './roll-out-orders.ts';

/**
 * Rolls out a change of one fleet object of any kind: one run for as long as there is something to roll out. It grants
 * permits to disrupt pods; the leading watcher uses them.
 */
export const rollOutType = 'rollOut';

export function rollOutId(target: OperationTarget): string {
  return operationId(rollOutType, target);
}

/** The input of `rollOut`. */
export interface RollOutOperation {
  /** `CloneSet`. */
  readonly kind: string;
  readonly target: ObjectRef;
  /** The object as last seen by the watcher. */
  readonly facts: RollOutFacts;
}

/** The data of its object that a roll-out needs: its input, and part of every answer of the leading watcher. */
export interface RollOutFacts {
  /** The generation of the object; incremented by every change of its spec. */
  readonly generation: number;
  /** The revision that the spec asks for. */
  readonly revision: string;
  /** The revision that an undo would return to. Absent: none is kept. */
  readonly previous?: string;
  /** What speaks against that revision. Absent: nothing is known. */
  readonly previousDoubt?: string;
  /** Why an undo is refused although an earlier revision is kept. Absent: it is not. */
  readonly noUndo?: string;
  /** How many pods the object wants. */
  readonly replicas: number;
  /** The commands of operators that are in effect, from the object's status. */
  readonly orders?: RollOutOrders;
}
