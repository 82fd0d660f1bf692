import type { Verdict } from '../../workflows/plan/fleet/permit.ts';
import type { AdvanceInput } from './advance.ts';
import type { RecordedOrders, RecordOrdersInput } from './orders.ts';

/**
 * What the leading watcher does for roll-outs, on queue `fleet`. Its caller may be of another release, so the names carry a
 * version: what cannot be read by the release before gets the next one, beside it.
 */
export interface FleetActivities {
  /** Hands in a permit and waits, heartbeating, for what it comes to. */
  'fleet.v1.advance'(input: AdvanceInput): Promise<Verdict>;
  /** Writes what operators have decided into the object, unless newer orders stand there: it answers those. */
  'fleet.v1.recordOrders'(input: RecordOrdersInput): Promise<RecordedOrders>;
}
