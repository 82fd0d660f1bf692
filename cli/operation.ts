// Operations as Temporal describes them, in a few lines. Only this file knows the format of a history.
import type { Client, WorkflowHandle } from '@temporalio/client';
import { isJsonObject } from '../api/base/json.ts';
import { earlierIdOf } from '../api/engine/operation-id.ts';
import { changedSignal, commandsOf, handOverSignal, isCommandName } from '../api/engine/operations.ts';

/** Queries to Temporal. */
export interface OperationEngine {
  /** Where Temporal is, for people. */
  readonly address: string;
  /** The user has named the address: that nobody answers there is an error of the command. */
  readonly isGiven?: boolean;
  /** `--address …`, in the syntax of the program `temporal`. */
  readonly flags: string;
  /** A command that has to run before a command with these flags can connect. */
  readonly first?: { readonly command: string; readonly effect: string };
  /** The latest run; undefined when there is none. A run of release 0.1.0 has another workflow ID than the one asked for. */
  report(workflowId: string): Promise<OperationReport | undefined>;
  close(): Promise<void>;
}

/** A run of a workflow. */
export interface OperationReport {
  readonly workflowId: string;
  readonly runId: string;
  /** Temporal's name: `RUNNING`, `COMPLETED`, … */
  readonly state: string;
  readonly startedAt: string;
  /** Absent: it is still running. */
  readonly endedAt?: string;
  readonly historyEvents: number;
  /** Activities in progress; none of a run that has ended. */
  readonly pending: readonly PendingStep[];
  /** The history, oldest first; `changed` signals and Temporal's own events are left out. */
  readonly history: readonly HistoryLine[];
}

export interface PendingStep {
  readonly step: string;
  readonly attempt: number;
  readonly since?: string;
  /** The last failure. */
  readonly lastFailure?: string;
}

export interface HistoryLine {
  readonly at: string;
  readonly text: string;
}

/** Queries to Temporal by this client. `deadlineMs` limits each query. */
export function operationEngine({
  client,
  deadlineMs,
  ...place
}: Pick<OperationEngine, 'address' | 'flags' | 'isGiven'> & {
  readonly client: Client;
  readonly deadlineMs: number;
}): OperationEngine {
  return {
    ...place,
    async report(workflowId) {
      return await client.withDeadline(Date.now() + deadlineMs, async () => {
        const earlierId = earlierIdOf(workflowId);
        const earlier = earlierId === undefined ? undefined : await latestRun(client, earlierId);
        if (earlier && earlier.endedAt === undefined) return earlier;
        return (await latestRun(client, workflowId)) ?? earlier;
      });
    },
    close: () => client.connection.close(),
  };
}

async function latestRun({ workflow }: Client, workflowId: string): Promise<OperationReport | undefined> {
  try {
    return await reportOf(workflow.getHandle(workflowId));
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return undefined;
    throw error;
  }
}

async function reportOf(handle: Pick<WorkflowHandle, 'describe' | 'fetchHistory' | 'workflowId'>) {
  const [run, history] = [await handle.describe(), await handle.fetchHistory()];
  const endedAt = run.closeTime?.toISOString();
  const events: readonly HistoryEvent[] = history.events ?? [];
  const scheduled = new Map(
    events.flatMap((event) => {
      const id = event.activityTaskScheduledEventAttributes?.activityId;
      return id ? [[id, event] as const] : [];
    }),
  );
  return {
    workflowId: handle.workflowId,
    runId: run.runId,
    state: run.status.name,
    startedAt: run.startTime.toISOString(),
    ...(endedAt !== undefined && { endedAt }),
    historyEvents: run.historyLength,
    // Temporal names those of a run that has ended for a while
    pending: (endedAt === undefined ? (run.raw.pendingActivities ?? []) : []).map((activity): PendingStep => {
      const since = timeOf(activity.lastStartedTime ?? activity.scheduledTime);
      const lastFailure = activity.lastFailure?.message;
      return {
        step: stepName(scheduled.get(activity.activityId ?? '') ?? { activityTaskScheduledEventAttributes: activity }),
        attempt: activity.attempt ?? 1,
        ...(since !== undefined && { since }),
        ...(lastFailure && { lastFailure }),
      };
    }),
    history: historyLines(events),
  };
}

/** The parts of a history event that are read. */
export interface HistoryEvent {
  readonly eventId?: unknown;
  readonly eventTime?: Time | null;
  readonly userMetadata?: { readonly summary?: PayloadLike | null } | null;
  readonly activityTaskScheduledEventAttributes?: {
    readonly activityId?: string | null;
    readonly activityType?: { readonly name?: string | null } | null;
    readonly input?: { readonly payloads?: readonly PayloadLike[] | null } | null;
  } | null;
  readonly activityTaskCompletedEventAttributes?: {
    readonly scheduledEventId?: unknown;
    readonly result?: { readonly payloads?: readonly PayloadLike[] | null } | null;
  } | null;
  readonly activityTaskFailedEventAttributes?: FailedStep | null;
  readonly activityTaskTimedOutEventAttributes?: FailedStep | null;
  readonly activityTaskCanceledEventAttributes?: { readonly scheduledEventId?: unknown } | null;
  readonly workflowExecutionSignaledEventAttributes?: {
    readonly signalName?: string | null;
    readonly identity?: string | null;
    readonly input?: { readonly payloads?: readonly PayloadLike[] | null } | null;
  } | null;
  readonly workflowExecutionStartedEventAttributes?: {
    readonly workflowType?: { readonly name?: string | null } | null;
  } | null;
  readonly workflowExecutionCompletedEventAttributes?: {
    readonly result?: { readonly payloads?: readonly PayloadLike[] | null } | null;
  } | null;
  readonly workflowExecutionCanceledEventAttributes?: object | null;
  readonly workflowExecutionTerminatedEventAttributes?: { readonly identity?: string | null } | null;
  readonly workflowExecutionContinuedAsNewEventAttributes?: object | null;
  readonly workflowExecutionFailedEventAttributes?: { readonly failure?: FailureLike | null } | null;
  readonly workflowTaskFailedEventAttributes?: { readonly failure?: FailureLike | null } | null;
}

interface FailedStep {
  readonly scheduledEventId?: unknown;
  readonly failure?: FailureLike | null;
}

interface FailureLike {
  readonly message?: string | null;
}

interface PayloadLike {
  readonly data?: Uint8Array | null;
}

interface Time {
  readonly seconds?: unknown;
  readonly nanos?: number | null;
}

/** The lines about a history for people. */
export function historyLines(events: readonly HistoryEvent[]): readonly HistoryLine[] {
  const steps = new Map(events.map((event) => [String(event.eventId), event]));
  const type = events[0]?.workflowExecutionStartedEventAttributes?.workflowType?.name ?? undefined;
  return events.flatMap((event) => {
    const text = lineOf(event, steps, type);
    return text === undefined ? [] : [{ at: timeOf(event.eventTime) ?? '', text }];
  });
}

function lineOf(
  event: HistoryEvent,
  steps: ReadonlyMap<string, HistoryEvent>,
  workflowType: string | undefined,
): string | undefined {
  const { activityTaskCompletedEventAttributes: completed, workflowExecutionSignaledEventAttributes: signal } = event;
  if (event.workflowExecutionStartedEventAttributes) return 'started';
  const { workflowExecutionCompletedEventAttributes: ended } = event;
  if (ended) return ['completed', saidBy(jsonOf(ended.result?.payloads?.[0]))].filter(Boolean).join(': ');
  if (event.workflowExecutionCanceledEventAttributes) return 'canceled';
  if (event.workflowExecutionContinuedAsNewEventAttributes) return 'continued as new';
  if (event.workflowExecutionTerminatedEventAttributes) {
    return `terminated by ${event.workflowExecutionTerminatedEventAttributes.identity || 'an unknown user'}`;
  }
  if (event.workflowExecutionFailedEventAttributes) {
    return `failed: ${event.workflowExecutionFailedEventAttributes.failure?.message ?? ''}`;
  }
  if (event.workflowTaskFailedEventAttributes) {
    return `workflow task failed: ${event.workflowTaskFailedEventAttributes.failure?.message ?? ''}`;
  }
  if (signal && signal.signalName !== changedSignal) return signalText(signal, workflowType);
  if (completed) {
    const scheduled = steps.get(String(completed.scheduledEventId));
    const seconds = secondsBetween(scheduled, event);
    const refusal = refusalIn(scheduled);
    if (refusal !== undefined) return refusal;
    const said = saidBy(jsonOf(completed.result?.payloads?.[0]));
    return `${stepName(scheduled)}: done in ${seconds} s${said === undefined ? '' : `, ${said}`}`;
  }
  const failed = event.activityTaskFailedEventAttributes ?? event.activityTaskTimedOutEventAttributes;
  if (failed) {
    const how = event.activityTaskTimedOutEventAttributes ? 'timed out' : 'failed';
    return `${stepName(steps.get(String(failed.scheduledEventId)))}: ${how}: ${failed.failure?.message ?? ''}`;
  }
  const cancelled = event.activityTaskCanceledEventAttributes;
  return cancelled ? `${stepName(steps.get(String(cancelled.scheduledEventId)))}: cancelled` : undefined;
}

function signalText(
  { signalName, identity, input }: NonNullable<HistoryEvent['workflowExecutionSignaledEventAttributes']>,
  workflowType: string | undefined,
): string {
  const payload = jsonOf(input?.payloads?.[0]);
  const { by, target } = isJsonObject(payload) ? payload : {};
  const what = typeof target === 'string' && target !== '' ? `${signalName} ${target}` : signalName;
  const name = signalName ?? '';
  const isKnown = name === handOverSignal || isCommandName(name, commandsOf(workflowType));
  const sender = (typeof by === 'string' && by) || identity || 'an unnamed sender';
  return `${what} by ${sender}${isKnown ? '' : ': refused, as it is no command of this operation'}`;
}

/** The Event about a command that had no effect says why. */
function refusalIn(scheduled: HistoryEvent | undefined): string | undefined {
  const input = jsonOf(scheduled?.activityTaskScheduledEventAttributes?.input?.payloads?.[0]);
  const { command, by, refused } = isJsonObject(input) ? input : {};
  return typeof refused === 'string' ? `${command} by ${by} refused: ${refused}` : undefined;
}

/** The result of a step as a line for people: its own line, or at least its reason. */
function saidBy(result: unknown): string | undefined {
  if (!isJsonObject(result)) return undefined;
  for (const text of [result.summary, result.message, result.reason]) {
    if (typeof text === 'string' && text !== '') return text;
  }
  return undefined;
}

function stepName(scheduled: HistoryEvent | undefined): string {
  const summary = jsonOf(scheduled?.userMetadata?.summary ?? undefined);
  if (typeof summary === 'string' && summary !== '') return summary;
  const { activityId, activityType } = scheduled?.activityTaskScheduledEventAttributes ?? {};
  return activityId && !/^\d+$/.test(activityId) ? activityId : (activityType?.name ?? 'a step');
}

function jsonOf(payload: PayloadLike | undefined): unknown {
  if (!payload?.data) return undefined;
  try {
    return JSON.parse(Buffer.from(payload.data).toString());
  } catch {
    return undefined;
  }
}

function secondsBetween(from: HistoryEvent | undefined, to: HistoryEvent): string {
  const ms = Date.parse(timeOf(to.eventTime) ?? '') - Date.parse(timeOf(from?.eventTime) ?? '');
  return Number.isNaN(ms) ? '?' : (ms / 1000).toFixed(1);
}

function timeOf(time: Time | null | undefined): string | undefined {
  if (!time) return undefined;
  const ms = Number(String(time.seconds ?? 0)) * 1000 + Math.round((time.nanos ?? 0) / 1e6);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}
