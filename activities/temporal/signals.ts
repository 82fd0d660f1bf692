import type { Client } from '@temporalio/client';

/** Queries about the signals that an operation has received. */
export interface SignalActivities {
  /**
   * Who sent a signal of this name to this run, by the identity of the sender's client: of the events up to `upTo` the
   * last such signal, or an earlier one, counted by `fromEnd`.
   */
  identifySignal(input: {
    readonly workflowId: string;
    readonly runId: string;
    readonly signal: string;
    readonly upTo: number;
    readonly fromEnd: number;
  }): Promise<string>;
}

/** The maximum length of an identity, which a client may choose freely. */
const longestName = 253;

/** The signal has only just been received, so it is among the last events. */
const pageEvents = 50;

/** Reads histories; writes nothing. */
export function signalActivities({
  client,
}: {
  readonly client: Pick<Client, 'workflowService' | 'options'>;
}): SignalActivities {
  return {
    async identifySignal({ workflowId, runId, signal, upTo, fromEnd }) {
      let left = fromEnd;
      let nextPageToken: Uint8Array | undefined;
      do {
        const page = await client.workflowService.getWorkflowExecutionHistoryReverse({
          namespace: client.options.namespace,
          execution: { workflowId, runId },
          maximumPageSize: pageEvents,
          ...(nextPageToken && { nextPageToken }),
        });
        for (const { eventId, workflowExecutionSignaledEventAttributes: attributes } of page.history?.events ?? []) {
          if (attributes?.signalName !== signal || Number(eventId?.toString()) > upTo) continue;
          if (left === 0) return attributes.identity?.slice(0, longestName) || unnamed;
          left--;
        }
        nextPageToken = page.nextPageToken;
      } while (nextPageToken?.length);
      return unnamed;
    },
  };
}

const unnamed = 'an unnamed sender';
