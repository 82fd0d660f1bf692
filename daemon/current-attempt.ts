import { Context } from '@temporalio/activity';
import type { Attempt } from '../activities/cri/attempt.ts';

/** The Temporal activity attempt that the current code runs in. */
export function currentAttempt(): Attempt<object> {
  const context = Context.current();
  const { workflowExecution, activityId, scheduledTimestampMs } = context.info;
  const { workflowId, runId } = workflowExecution ?? { workflowId: '', runId: '' };
  return {
    operation: [workflowId, runId, activityId, scheduledTimestampMs].join('/'),
    cancellation: context.cancellationSignal,
    heartbeat: (progress) => context.heartbeat(progress),
  };
}
