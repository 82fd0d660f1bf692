/**
 * Signals whose names begin with what the SDK keeps for itself. Anybody who may send a signal may send one. Where a workflow
 * has a handler for signals of any name, the SDK fails the workflow task because of it, and every task of the run after it.
 */
import type { coresdk } from '@temporalio/proto';

const reserved = '__temporal_';
const mark = ' ';

/** Renames such signals before the SDK sees them, so that they are refused like any other that is no command. */
export function renameReserved({ jobs }: coresdk.workflow_activation.IWorkflowActivation): void {
  for (const { signalWorkflow: signal } of jobs ?? []) {
    if (signal?.signalName?.startsWith(reserved)) signal.signalName = mark + signal.signalName;
  }
}

/** The name with which a signal was sent. */
export function sentName(name: string): string {
  return name.startsWith(mark + reserved) ? name.slice(mark.length) : name;
}
