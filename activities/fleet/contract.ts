import type { BatchVerdict } from '../../workflows/plan/fleet/batch.ts';
import type { ChoiceVerdict, Verdict } from '../../workflows/plan/fleet/permit.ts';
import type { AdvanceInput } from './advance.ts';
import type { CarryOutBatchInput, ChooseBatchInput } from './batches.ts';
import type { RecordedOrders, RecordOrdersInput } from './orders.ts';

/**
 * What the leading watcher does for roll-outs, on queue `fleet`. Its caller may be of another release, so the names carry a
 * version: what cannot be read by the release before gets the next one, beside it.
 */
export interface FleetActivities {
  /** Names the pods that go next; waits, heartbeating, while none may go. */
  'fleet.v1.chooseBatch'(input: ChooseBatchInput): Promise<ChoiceVerdict>;
  /** Lets the pods of a batch be disrupted, and waits, heartbeating, until each is through. */
  'fleet.v1.carryOutBatch'(input: CarryOutBatchInput): Promise<BatchVerdict>;
  /** Writes what operators have decided into the object, unless newer orders stand there: it answers those. */
  'fleet.v1.recordOrders'(input: RecordOrdersInput): Promise<RecordedOrders>;
}

/** What roll-outs of release 0.1.0 call, on workers of that release, until they have ended or are handed over. */
export interface EarlierFleetActivities {
  /** Hands in a permit that names no pods. */
  'fleet.v1.advance'(input: AdvanceInput): Promise<Verdict>;
}
