import type { WaitingFor } from '../api/engine/waiting-for.ts';
import type { OperationState } from '../process/metrics.ts';

/** The state of an operation for metrics: its phase, and what its object waits for. */
export function operationState(phase: string, waitingFor: WaitingFor | undefined): OperationState {
  return {
    phase,
    ...(waitingFor && { waiting: { reason: waitingFor.reason, sinceMs: Date.parse(waitingFor.since) } }),
  };
}
