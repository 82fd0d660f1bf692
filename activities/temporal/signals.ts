import type { Client } from '@temporalio/client';
import proto from '@temporalio/proto';

/** Where the history of a run says who sent a signal. */
export interface SignalPlace {
  readonly runId: string;
  readonly signal: string;
  /** The last event that counts. */
  readonly upTo: number;
  /** How many signals of this name lie between the signal and that event. */
  readonly fromEnd: number;
}

/** Queries about the signals that an operation has received. */
export interface SignalActivities {
  /** Who sent a signal, by the identity of the sender's client. */
  identifySignal(input: SignalPlace & { readonly workflowId: string }): Promise<string>;
}

/** What a history says of a signal. */
export interface SentSignal {
  readonly by: string;
  /** A reset has applied it again: it was sent to the run before. */
  readonly isReapplied: boolean;
}

/** The maximum length of an identity, which a client may choose freely. */
const longestName = 253;

/** The signal has only just been received, so it is among the last events. */
const pageEvents = 50;

/** How a sender is called whose client has no name. */
const unnamed = 'an unnamed sender';

const reset = proto.temporal.api.enums.v1.WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW;

/** What reads histories; it writes nothing. */
export interface HistoryReader {
  readonly client: Pick<Client, 'workflowService' | 'options'>;
}

type Located = SignalPlace & { readonly workflowId: string };

export function signalActivities(reader: HistoryReader): SignalActivities {
  return {
    async identifySignal(of) {
      for await (const event of backFrom(reader, of)) return senderIn(event);
      return unnamed;
    },
  };
}

/** Who sent a signal, and whether to this run. */
export async function findSignal(reader: HistoryReader, of: Located): Promise<SentSignal> {
  let by: string | undefined;
  for await (const event of backFrom(reader, of)) {
    by ??= senderIn(event);
    // those that a reset applies again follow at once upon the failed task that it begins with
    if (event.workflowExecutionSignaledEventAttributes || event.workflowExecutionCancelRequestedEventAttributes)
      continue;
    return { by, isReapplied: event.workflowTaskFailedEventAttributes?.cause === reset };
  }
  return { by: by ?? unnamed, isReapplied: false };
}

/** The events from this signal back to the first one. */
async function* backFrom({ client }: HistoryReader, { workflowId, runId, signal, upTo, fromEnd }: Located) {
  let left = fromEnd;
  let nextPageToken: Uint8Array | undefined;
  do {
    const page = await client.workflowService.getWorkflowExecutionHistoryReverse({
      namespace: client.options.namespace,
      execution: { workflowId, runId },
      maximumPageSize: pageEvents,
      ...(nextPageToken && { nextPageToken }),
    });
    for (const event of page.history?.events ?? []) {
      const { eventId, workflowExecutionSignaledEventAttributes: signaled } = event;
      const isOne = signaled?.signalName === signal && Number(eventId?.toString()) <= upTo;
      if (isOne) left--;
      if (left < 0) yield event;
    }
    nextPageToken = page.nextPageToken;
  } while (nextPageToken?.length);
}

function senderIn({
  workflowExecutionSignaledEventAttributes: signaled,
}: proto.temporal.api.history.v1.IHistoryEvent): string {
  return signaled?.identity?.slice(0, longestName) || unnamed;
}
