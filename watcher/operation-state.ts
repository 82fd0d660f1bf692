import type { WaitingFor } from '../api/engine/waiting-for.ts';
import type { OperationState } from '../workers/metrics.ts';

/** An operation as the metrics count it: its phase, and what its object says that it waits for. */
export function operationState(phase: string, waitingFor: WaitingFor | undefined): OperationState {
  return {
    phase,
    ...(waitingFor && { waiting: { reason: waitingFor.reason, sinceMs: Date.parse(waitingFor.since) } }),
  };
}
