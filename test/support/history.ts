import type { WorkflowHandle } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import type { temporal } from '@temporalio/proto';
import type { CarryOutBatchInput } from '../../activities/fleet/batches.ts';
import type { AwaitNodesInput } from '../../activities/fleet/nodes.ts';
import type { BatchOutcome } from '../../plan/fleet/batch.ts';
import type { WaveResult } from '../../plan/images/pull-waves.ts';

/** The history of one run. */
export type History = temporal.api.history.v1.IHistory;

/** A payload somewhere in a history. */
export interface SeenPayload {
  readonly bytes: number;
  /** Its path, `events[3].activityTaskScheduledEventAttributes.input`. */
  readonly path: string;
}

/** Every payload of a history: arguments, results, signals, memo, search attributes, markers, failures, summaries. */
export function payloadsOf(history: History): readonly SeenPayload[] {
  return found(JSON.parse(historyToJSON(history)), 'history');
}

/** The steps of a run for people: the summaries of its activities and timers, in order. */
export function summariesOf(history: History): readonly string[] {
  return (history.events ?? []).flatMap((event) => {
    const hasSteps = event.activityTaskScheduledEventAttributes ?? event.timerStartedEventAttributes;
    return hasSteps ? [textOf(event.userMetadata?.summary)] : [];
  });
}

/** A batch of a roll-out, as its history tells it. */
export interface BatchInHistory {
  readonly summary: string;
  readonly input: CarryOutBatchInput;
  /** Absent: it came to none. */
  readonly verdict?: BatchOutcome;
  /** The run has taken it back, and so it ignores a verdict that came all the same. */
  readonly isTakenBack?: true;
}

/** The batches of a roll-out, in the order in which they were chosen. */
export function batchesIn(history: History): readonly BatchInHistory[] {
  const events = history.events ?? [];
  const verdicts = new Map(
    events.flatMap(({ activityTaskCompletedEventAttributes: completed }) =>
      completed ? [[String(completed.scheduledEventId), decoded<BatchOutcome>(completed.result?.payloads)]] : [],
    ),
  );
  const takenBack = new Set(
    events.map(({ activityTaskCancelRequestedEventAttributes: request }) => String(request?.scheduledEventId)),
  );
  return events.flatMap(({ eventId, userMetadata, activityTaskScheduledEventAttributes: scheduled }) => {
    if (scheduled?.activityType?.name !== 'fleet.v1.carryOutBatch') return [];
    const verdict = verdicts.get(String(eventId));
    const input = decoded<CarryOutBatchInput>(scheduled.input?.payloads);
    const isTakenBack = takenBack.has(String(eventId));
    return [
      {
        ...{ summary: textOf(userMetadata?.summary), input },
        ...(verdict && { verdict }),
        ...(isTakenBack && { isTakenBack }),
      },
    ];
  });
}

/** The waves of a pull job as its history has them, in order. */
export function wavesIn(history: History): readonly WaveInHistory[] {
  const events = history.events ?? [];
  const outcomes = new Map(
    events.flatMap(({ activityTaskCompletedEventAttributes: completed }) =>
      completed ? [[String(completed.scheduledEventId), decoded<WaveResult>(completed.result?.payloads)]] : [],
    ),
  );
  return events.flatMap(({ eventId, userMetadata, activityTaskScheduledEventAttributes: scheduled }) => {
    if (scheduled?.activityType?.name !== 'fleet.v1.awaitNodes') return [];
    const outcome = outcomes.get(String(eventId));
    const { number, nodes } = decoded<AwaitNodesInput>(scheduled.input?.payloads);
    return [{ summary: textOf(userMetadata?.summary), number, nodes, ...(outcome && { outcome }) }];
  });
}

/** A wave, and what became of it if it has ended. */
export interface WaveInHistory extends Pick<AwaitNodesInput, 'number' | 'nodes'> {
  readonly summary: string;
  readonly outcome?: WaveResult;
}

function decoded<Value>(payloads: readonly temporal.api.common.v1.IPayload[] | null | undefined): Value {
  return JSON.parse(Buffer.from(payloads?.[0]?.data ?? []).toString('utf8') || 'null') as Value;
}

/** A string that was encoded as JSON; empty when there is none. */
export function textOf(payload: temporal.api.common.v1.IPayload | null | undefined): string {
  const text = Buffer.from(payload?.data ?? []).toString('utf8');
  return text === '' ? '' : String(JSON.parse(text));
}

/**
 * The history of a run in the format of `temporal workflow show --output json`, one event per line, without
 * machine-specific data: names of processes and of their queues, and file paths.
 */
export async function recordedHistory(operation: WorkflowHandle): Promise<string> {
  const { events } = JSON.parse(historyToJSON(await operation.fetchHistory())) as {
    readonly events: readonly object[];
  };
  return `{"events":[\n${events.map((event) => JSON.stringify(event, anonymous)).join(',\n')}\n]}\n`;
}

function anonymous(key: string, value: unknown): unknown {
  if (key === 'identity') return 'recorder';
  if (key === 'stackTrace') return undefined;
  const isSticky = key === 'taskQueue' && JSON.stringify(value).includes('TASK_QUEUE_KIND_STICKY');
  return isSticky && typeof value === 'object' ? { ...value, name: 'sticky' } : value;
}

function found(value: unknown, path: string): readonly SeenPayload[] {
  if (Array.isArray(value)) return value.flatMap((item, index) => found(item, `${path}[${index}]`));
  if (typeof value !== 'object' || value === null) return [];
  if (isPayload(value)) return [{ bytes: Buffer.from(value.data ?? '', 'base64').length, path }];
  return Object.entries(value).flatMap(([key, inner]) => found(inner, `${path}.${key}`));
}

function isPayload(value: object): value is { readonly data?: string } {
  return 'metadata' in value && typeof value.metadata === 'object' && 'encoding' in (value.metadata ?? {});
}
