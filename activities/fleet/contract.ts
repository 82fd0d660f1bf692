import type { Answer, BatchResult } from '../../plan/fleet/permit.ts';
import type { NodesAnswer, WaveResult } from '../../plan/images/pull-waves.ts';
import type {
  SwapAwaitAnswer,
  SwapAwaitRequest,
  SwapLook,
  SwapOfPod,
  SwapStepAnswer,
  SwapStepRequest,
} from '../../plan/sidecar-swap/model.ts';
import type { CarryOutBatchInput, NextInput } from './batches.ts';
import type { AnsweredCommand, ApplyCommandInput } from './commands.ts';
import type { RecordedOrders, RecordOrdersInput } from './earlier-orders.ts';
import type { AwaitNodesInput, NextNodesInput } from './nodes.ts';

/**
 * What the leading watcher does for roll-outs, pull jobs and swaps, on queue `fleet`. Its caller may be of another release, so the names carry a
 * version: what cannot be read by the release before gets the next one, beside it.
 */
export interface FleetActivities {
  /** Answers at once which pods may go next, or why none may. */
  'fleet.v1.next'(input: NextInput): Promise<Answer>;
  /** Lets the pods of a batch be disrupted, and waits, heartbeating, until each is through; answers also what may go next. */
  'fleet.v1.carryOutBatch'(input: CarryOutBatchInput): Promise<BatchResult>;
  /** Applies a command of an operator to the object. On queue `fleet-commands`. */
  'fleet.v1.applyCommand'(input: ApplyCommandInput): Promise<AnsweredCommand>;
  /** Answers at once which nodes of a job may pull next, or why none may. */
  'fleet.v1.nextNodes'(input: NextNodesInput): Promise<NodesAnswer>;
  /** Lets the nodes of a wave be told to pull, and waits, heartbeating, until each has ended; answers also which ones may go next. */
  'fleet.v1.awaitNodes'(input: AwaitNodesInput): Promise<WaveResult>;
  /** Says how far the swap of sidecars in a pod is. */
  'fleet.v1.lookAtSwap'(input: SwapOfPod): Promise<SwapLook>;
  /** Writes one step of a swap; waits, heartbeating, while it may not. */
  'fleet.v1.swapStep'(input: SwapStepRequest): Promise<SwapStepAnswer>;
  /** Waits, heartbeating, until the kubelet runs what a step has written. */
  'fleet.v1.awaitSwap'(input: SwapAwaitRequest): Promise<SwapAwaitAnswer>;
}

/** What roll-outs of release 0.1.0 call, on workers of that release, until they are handed over. */
export interface EarlierFleetActivities {
  /** Asks for a permit to update pods. */
  advance(): Promise<never>;
  /** Keeps what operators have decided meanwhile. */
  recordOrders(input: RecordOrdersInput): Promise<RecordedOrders>;
}
