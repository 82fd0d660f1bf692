import type { WorkflowHandle } from '@temporalio/client';
import proto from '@temporalio/proto';
import { textOf } from './history.ts';
import { type See, type WaitOptions, waitFor } from './wait.ts';

const { EventType } = proto.temporal.api.enums.v1;

/** So many of the last events are in the error. */
const lastEvents = 20;

/** `waitFor` on what an operation does. Where that is in vain, the error has the end of the operation's history as well. */
export async function waitOnRun<Value>(
  handle: WorkflowHandle,
  what: string,
  probe: (see: See) => Value | Promise<Value>,
  options?: WaitOptions,
): ReturnType<typeof waitFor<Value>> {
  try {
    return await waitFor(what, probe, options);
  } catch (error) {
    const told = await endOfHistory(handle).catch((failure: unknown) => `no history: ${String(failure)}`);
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${told}`, { cause: error });
  }
}

async function endOfHistory(handle: WorkflowHandle): Promise<string> {
  const [{ status, runId, taskQueue }, { events }] = await Promise.all([handle.describe(), handle.fetchHistory()]);
  const lines = (events ?? []).slice(-lastEvents).map(({ eventId, eventTime, eventType, userMetadata }) => {
    const at = new Date(Number(eventTime?.seconds ?? 0) * 1_000).toISOString();
    return `  ${eventId} ${at} ${EventType[eventType ?? 0]} ${textOf(userMetadata?.summary)}`;
  });
  return [`run ${runId} of ${handle.workflowId} on queue ${taskQueue}: ${status.name}`, ...lines].join('\n');
}
