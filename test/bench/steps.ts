import type { WorkflowHandle } from '@temporalio/client';
import proto from '@temporalio/proto';
import { type History, textOf } from '../support/history.ts';
import { quantile, shown } from './figures.ts';

const { EventType } = proto.temporal.api.enums.v1;

/** One step of a run as its history tells it, in milliseconds by the clock of the machine. */
export interface Step {
  /** `workflow task`, or what the activity was called. */
  readonly what: string;
  readonly type: 'workflow' | 'stop' | 'await' | 'other';
  readonly scheduledMs: number;
  readonly startedMs: number;
  readonly endedMs: number;
}

/** One request from its creation to the moment at which its end was seen, and the steps of its run. */
export interface Journey {
  readonly createdMs: number;
  readonly seenMs: number;
  readonly steps: readonly Step[];
}

/** The steps of a run, in the order in which they began. */
export async function stepsOf(run: WorkflowHandle): Promise<readonly Step[]> {
  return stepsIn(await run.fetchHistory()).toSorted((a, b) => a.startedMs - b.startedMs);
}

function stepsIn({ events }: History): readonly Step[] {
  const scheduled = new Map<string, Pick<Step, 'what' | 'type' | 'scheduledMs'>>();
  const started = new Map<string, number>();
  const steps: Step[] = [];
  for (const event of events ?? []) {
    const atMs = Number(event.eventTime?.seconds ?? 0) * 1000 + (event.eventTime?.nanos ?? 0) / 1e6;
    switch (event.eventType) {
      case EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED:
        scheduled.set(String(event.eventId), { what: 'workflow task', type: 'workflow', scheduledMs: atMs });
        break;
      case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: {
        const name = event.activityTaskScheduledEventAttributes?.activityType?.name ?? '';
        const what = textOf(event.userMetadata?.summary) || name;
        scheduled.set(String(event.eventId), { what, type: typeOf(name), scheduledMs: atMs });
        break;
      }
      case EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
        started.set(String(event.workflowTaskStartedEventAttributes?.scheduledEventId), atMs);
        break;
      case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
        started.set(String(event.activityTaskStartedEventAttributes?.scheduledEventId), atMs);
        break;
      default: {
        const ended =
          event.workflowTaskCompletedEventAttributes ?? event.activityTaskCompletedEventAttributes ?? undefined;
        const id = String(ended?.scheduledEventId);
        const step = scheduled.get(id);
        if (step) steps.push({ ...step, startedMs: started.get(id) ?? atMs, endedMs: atMs });
      }
    }
  }
  return steps;
}

function typeOf(activity: string): Step['type'] {
  if (activity === 'node.v1.stopContainer') return 'stop';
  if (activity === 'node.v1.awaitContainer') return 'await';
  return 'other';
}

/** Markdown: where the time of these requests went, part by part. Every moment belongs to one part. */
export function partsTable(journeys: readonly Journey[]): string {
  const parts = journeys.map(partsOf);
  const rows = (Object.keys(parts[0] ?? {}) as (keyof Parts)[]).map((name) => {
    const samples = parts.map((part) => part[name]);
    return `| ${name} | ${[0, 0.5, 1].map((share) => shown(quantile(samples, share))).join(' | ')} |`;
  });
  return ['| part | min | median | max |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

interface Parts {
  readonly 'created → its first stop begins on the node': number;
  readonly 'stops on the node': number;
  readonly 'stopped → the node waits for the new container': number;
  readonly 'the kubelet starts the new containers, and they are seen to be ready': number;
  readonly 'ready → the next stop begins on the node': number;
  readonly 'the last is ready → Completed is seen': number;
}

/** Of requests whose containers are recreated one after the other. */
function partsOf({ createdMs, seenMs, steps }: Journey): Parts {
  const stops = steps.filter(({ type }) => type === 'stop');
  const waits = steps.filter(({ type }) => type === 'await');
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
  const length = ({ startedMs, endedMs }: Step): number => endedMs - startedMs;
  return {
    'created → its first stop begins on the node': (stops[0]?.startedMs ?? Number.NaN) - createdMs,
    'stops on the node': sum(stops.map(length)),
    'stopped → the node waits for the new container': sum(
      waits.map(({ startedMs }, index) => startedMs - (stops[index]?.endedMs ?? Number.NaN)),
    ),
    'the kubelet starts the new containers, and they are seen to be ready': sum(waits.map(length)),
    'ready → the next stop begins on the node': sum(
      stops.slice(1).map(({ startedMs }, index) => startedMs - (waits[index]?.endedMs ?? Number.NaN)),
    ),
    'the last is ready → Completed is seen': seenMs - (waits.at(-1)?.endedMs ?? Number.NaN),
  };
}

/**
 * What is neither the stop on the node nor the kubelet's part: of the request as a whole, and of each container but the
 * first. Milliseconds, the median of these requests.
 */
export function orchestration(journeys: readonly Journey[]): { readonly request: number; readonly further: number } {
  const parts = journeys.map(partsOf);
  const further = journeys.map(({ steps }) => steps.filter(({ type }) => type === 'stop').length - 1);
  const request = parts.map(
    (part) => part['created → its first stop begins on the node'] + part['the last is ready → Completed is seen'],
  );
  const between = parts.map((part, index) => part['ready → the next stop begins on the node'] / (further[index] ?? 1));
  return { request: quantile(request, 0.5), further: quantile(between, 0.5) };
}

/** Markdown: each step of the run that took the median time. */
export function stepsTable(journeys: readonly Journey[]): string {
  const byLength = journeys.toSorted((a, b) => a.seenMs - a.createdMs - (b.seenMs - b.createdMs));
  const typical = byLength[Math.floor(byLength.length / 2)];
  if (!typical) return '';
  const at = (ms: number): string => Math.round(ms - typical.createdMs).toString();
  const rows = typical.steps.map(({ what, scheduledMs, startedMs, endedMs }) => {
    const [waited, took] = [startedMs - scheduledMs, endedMs - startedMs].map((ms) => Math.round(ms));
    return `| ${at(scheduledMs)} | ${what} | ${waited} | ${took} |`;
  });
  return [
    '| at, ms | step | waited for a worker, ms | took, ms |',
    '| --- | --- | --- | --- |',
    '| 0 | request created | | |',
    ...rows,
    `| ${at(typical.seenMs)} | Completed is seen | | |`,
  ].join('\n');
}
