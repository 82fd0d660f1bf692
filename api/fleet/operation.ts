import { isJsonObject } from '../base/json.ts';
import type { ObjectRef } from '../core/refs.ts';
import { type RollOutOrders, readOrders } from './roll-out-orders.ts';

/**
 * Rolls out a change of one fleet object of any kind: one run for as long as there is something to roll out. It gives the
 * permits to disrupt; the leading watcher does it.
 */
export const rollOutType = 'rollOut';

export function rollOutId(uid: string): string {
  return `roll-out/${uid}`;
}

/** What a run of `rollOut` is started with. */
export interface RollOutOperation {
  /** `CloneSet`. */
  readonly kind: string;
  readonly target: ObjectRef;
  /** The object as the watcher saw it last. */
  readonly facts: RollOutFacts;
}

/** What a roll-out has to know of its object. The signal `changed` carries it anew. */
export interface RollOutFacts {
  /** Of the object; grows with every change of its spec. */
  readonly generation: number;
  /** The revision that the spec asks for. */
  readonly revision: string;
  /** The revision that an undo would return to. Absent: none is kept. */
  readonly previous?: string;
  /** How many pods the object wants. */
  readonly replicas: number;
  /** What operators have decided, as it stands in the object. */
  readonly orders?: RollOutOrders;
}

/** What the signal `changed` of `rollOut` carries. */
export type RollOutChanged = RollOutFacts | { readonly withdrawn: true };

/** Reads the signal `changed`. Nothing but what the watcher sends is believed; all else is a wish to look again. */
export function parseRollOutChanged(payload: unknown): RollOutChanged | undefined {
  if (!isJsonObject(payload)) return undefined;
  if (payload.withdrawn === true) return { withdrawn: true };
  const { generation, revision, previous, replicas } = payload;
  if (typeof generation !== 'number' || typeof replicas !== 'number') return undefined;
  if (typeof revision !== 'string' || revision === '') return undefined;
  const orders = readOrders(payload.orders);
  return {
    generation,
    revision,
    replicas,
    ...(typeof previous === 'string' && previous !== '' && { previous }),
    ...(orders && { orders }),
  };
}
