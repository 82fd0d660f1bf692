import type { ObjectRef } from '../../api/core/refs.ts';
import type { Permit, Verdict } from '../../plan/fleet/permit.ts';
import { type FleetDependencies, whileItCounts } from './permit-holder.ts';

export interface AdvanceInput {
  /** `CloneSet` */
  readonly kind: string;
  readonly target: ObjectRef;
  readonly permit: AnyPodPermit;
}

/** A permit that names no pods. */
export type AnyPodPermit = Omit<Permit, 'pods' | 'chooses'>;

/**
 * Hands a permit that names no pods to the fleet queue, and waits for what it comes to: what roll-outs of release 0.1.0 ask
 * for. A further attempt hands it in anew, which is harmless, as all progress is in the cluster.
 */
export function advanceActivity(dependencies: FleetDependencies): (input: AdvanceInput) => Promise<Verdict> {
  return async ({ kind, target, permit }) =>
    await whileItCounts(dependencies, { kind, target, doing: 'advance' }, (holder, life) =>
      holder.hand(target.uid, permit, life),
    );
}
