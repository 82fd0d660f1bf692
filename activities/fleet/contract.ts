import type { Verdict } from '../../workflows/plan/fleet-permit.ts';
import type { AdvanceInput } from './advance.ts';
import type { RecordOrdersInput } from './orders.ts';

/** What the leading watcher does for roll-outs, on queue `fleet`. */
export interface FleetActivities {
  /** Hands in a permit and waits, heartbeating, for what it comes to. */
  advance(input: AdvanceInput): Promise<Verdict>;
  /** Writes what operators have decided into the object. */
  recordOrders(input: RecordOrdersInput): Promise<void>;
}
