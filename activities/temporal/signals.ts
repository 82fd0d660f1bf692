import type { Client } from '@temporalio/client';

/** Questions about the signals that an operation has received. */
export interface SignalActivities {
  /** Who sent the nth (from 0) signal of this name to this run, as the sender's client named itself. */
  identifySignal(input: {
    readonly workflowId: string;
    readonly runId: string;
    readonly signal: string;
    readonly nth: number;
  }): Promise<string>;
}

/** Of an identity, which a client may choose freely. */
const longestName = 253;

/** Reads histories; writes nothing. */
export function signalActivities({ client }: { client: Pick<Client, 'workflow'> }): SignalActivities {
  return {
    async identifySignal({ workflowId, runId, signal, nth }) {
      const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
      const signals = (history.events ?? []).filter(
        ({ workflowExecutionSignaledEventAttributes: attributes }) => attributes?.signalName === signal,
      );
      const { identity } = signals[nth]?.workflowExecutionSignaledEventAttributes ?? {};
      return identity?.slice(0, longestName) || 'an unnamed sender';
    },
  };
}
