import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import { earlierIdOf } from '../../api/engine/operation-id.ts';

/**
 * Ends a run that was started with another workflow ID than that of its operation, for example manually. The ID is the
 * lock on what the operation works on, and two runs that work on the same thing would conflict again and again. A run of
 * release 0.1.0 keeps its ID.
 */
export function checkOwnId(expected: string): void {
  const { workflowId, workflowType } = workflowInfo();
  if (workflowId === expected || workflowId === earlierIdOf(expected)) return;
  throw ApplicationFailure.nonRetryable(
    `Cannot run ${workflowType} as workflow "${workflowId}": the ID of this operation must be "${expected}"`,
    'Invalid',
  );
}
