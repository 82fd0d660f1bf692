// How a run goes on in another one: with an empty history, and with the code of the worker version that is current.
import { type ContinueAsNewOptions, makeContinueAsNewFunc, type Workflow, workflowInfo } from '@temporalio/workflow';

/**
 * Whether this run is to hand over at its next safe point: its history is full, or another version of the workers has become
 * current since it was pinned to its own.
 */
export function isHandOverDue(): boolean {
  const { continueAsNewSuggested, targetWorkerDeploymentVersionChanged } = workflowInfo();
  return continueAsNewSuggested || (targetWorkerDeploymentVersionChanged && mayUpgrade());
}

/**
 * Goes on in another run, on the version of the workers that is current then. Without the behavior Temporal would keep the
 * next run on the version of this one, and never tell it again that there is another.
 */
export async function handOverTo<W extends Workflow>(
  parameters: Parameters<W>,
  options: ContinueAsNewOptions = {},
): Promise<never> {
  return await makeContinueAsNewFunc<W>({ ...options, initialVersioningBehavior: 'AUTO_UPGRADE' })(...parameters);
}

/** A run begun by a hand-over stays for so long: should the server not move runs, they do not go round in circles. */
const shortestStayMs = 60_000;

function mayUpgrade(): boolean {
  const { continuedFromExecutionRunId, runStartTime } = workflowInfo();
  return continuedFromExecutionRunId === undefined || Date.now() - runStartTime.getTime() >= shortestStayMs;
}
