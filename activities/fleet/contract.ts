import type { Verdict } from '../../workflows/plan/fleet-permit.ts';
import type { AdvanceInput } from './advance.ts';
import type { RecordedOrders, RecordOrdersInput } from './orders.ts';

/** What the leading watcher does for roll-outs, on queue `fleet`. */
export interface FleetActivities {
  /** Hands in a permit and waits, heartbeating, for what it comes to. */
  advance(input: AdvanceInput): Promise<Verdict>;
  /** Writes what operators have decided into the object, unless newer orders stand there: it answers those. */
  recordOrders(input: RecordOrdersInput): Promise<RecordedOrders>;
}
