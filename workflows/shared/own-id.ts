import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';

/**
 * Ends a run that was started with another workflow ID than that of its operation, for example manually. The ID is the
 * lock on what the operation works on, and two runs that work on the same thing would conflict again and again.
 */
export function checkOwnId(expected: string): void {
  const { workflowId, workflowType } = workflowInfo();
  if (workflowId === expected) return;
  throw ApplicationFailure.nonRetryable(
    `Cannot run ${workflowType} as workflow "${workflowId}": the ID of this operation must be "${expected}"`,
    'Invalid',
  );
}
