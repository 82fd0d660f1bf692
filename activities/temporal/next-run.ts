import {
  type Client,
  WorkflowContinuedAsNewError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
} from '@temporalio/client';
import { type RestartWork, restartStart } from '../../api/container-recreate-request/operation.ts';
import { type OperationStart, startOptions } from '../../api/engine/operation-start.ts';
import { type CommandPayload, changedSignal } from '../../api/engine/operations.ts';
import { type SwapOperation, swapStart } from '../../api/sidecar-set/swap.ts';

/** Work on a pod of which one piece is done after the other, each by a run of the same workflow ID. */
export type NextWork = RestartWork | SwapOperation;

/** Starts of runs by a run that ends. */
export interface NextRunActivities {
  /**
   * Starts the next work on a pod as soon as the run that works on it has closed, since both need the same lock.
   * Resolves before that: the run cannot close while it waits. If the worker is lost meanwhile, the watcher starts the
   * work within a minute.
   */
  startNextRun(input: {
    /** The run that is about to close. Its workflow ID may be one of release 0.1.0. */
    readonly workflowId: string;
    readonly runId: string;
    readonly work: NextWork;
    /** Commands that the run has received for the next one, in their order. */
    readonly commands: readonly NextRunCommand[];
    /** The build in the memo of the run. */
    readonly build?: string | undefined;
  }): Promise<void>;
}

/** A command for a request that has not begun: a signal that an earlier run has received. */
export interface NextRunCommand extends CommandPayload {
  readonly name: string;
  readonly by: string;
}

export interface NextRunMeans {
  readonly client: Pick<Client, 'workflow' | 'withDeadline'>;
  /** Told of a start that has failed; the watcher makes up for it. */
  readonly onError: (workflowId: string, error: unknown) => void;
}

/** A run that has not closed by then has found more to do. */
const closesWithinMs = 60_000;

export function nextRunActivities({ client, onError }: NextRunMeans): NextRunActivities {
  return {
    async startNextRun({ workflowId, runId, work, commands, build }) {
      const start = startOf(work);
      const startOnceClosed = async () => {
        if (!(await hasClosed(workflowId, runId))) return;
        try {
          await client.workflow.start(start.workflowType, {
            ...startOptions(start, build === undefined ? {} : { build }),
            // with the run, so that an abort comes before its first step
            args: [work, undefined, { operator: { commands, seen: [] } }],
          });
        } catch (error) {
          if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
          await tell(start, commands);
        }
      };
      void startOnceClosed().catch((error: unknown) => onError(start.workflowId, error));
    },
  };

  /** The watcher, or another call of this activity, has started a run first. */
  async function tell({ workflowId, argument }: OperationStart, commands: readonly NextRunCommand[]): Promise<void> {
    const run = client.workflow.getHandle(workflowId);
    await run.signal(changedSignal, { operation: argument, generation: 0 });
    for (const { name, ...payload } of commands) await run.signal(name, payload);
  }

  /** Waits until the run has closed; false when it continues as new. */
  async function hasClosed(workflowId: string, runId: string): Promise<boolean> {
    const run = client.workflow.getHandle(workflowId, runId, { followRuns: false });
    try {
      await client.withDeadline(Date.now() + closesWithinMs, () => run.result());
      return true;
    } catch (error) {
      if (error instanceof WorkflowFailedError) return true;
      if (error instanceof WorkflowContinuedAsNewError) return false;
      throw error;
    }
  }
}

function startOf(work: NextWork): OperationStart {
  return 'set' in work ? swapStart(work) : restartStart(work);
}
