import type { WorkflowHandle } from '@temporalio/client';
import { waitFor } from './wait.ts';

/** Waits until the operation is not running any more; answers how its last run has ended: `COMPLETED`, `FAILED`, … */
export async function closedAs(handle: WorkflowHandle): Promise<string> {
  return await waitFor(`${handle.workflowId} to end`, async (see) => {
    const { name } = see((await handle.describe()).status);
    return name !== 'RUNNING' && name;
  });
}
