// What Temporal Cloud bills, counted from a history and from the requests that a server has had.

import type { History } from '../support/history.ts';

/** The billable actions of one run, without heartbeats, which leave nothing in a history. */
export interface Actions {
  /** 1, also where it came with a signal. */
  readonly starts: number;
  /** Without the one that came with the start. */
  readonly signals: number;
  /** Attempts. */
  readonly activities: number;
  readonly timers: number;
  /** Changes of search attributes and of the memo. */
  readonly upserts: number;
}

const none: Actions = { starts: 0, signals: 0, activities: 0, timers: 0, upserts: 0 };

/** Counts the billable actions of a run. */
export function actionsIn({ events }: History): Actions {
  const all = events ?? [];
  const attempts = new Map<string, number>();
  let counted = none;
  const add = (what: keyof Actions) => {
    counted = { ...counted, [what]: counted[what] + 1 };
  };
  for (const [index, event] of all.entries()) {
    if (event.workflowExecutionStartedEventAttributes) add('starts');
    const cameWithStart = index === 1;
    if (event.workflowExecutionSignaledEventAttributes && !cameWithStart) add('signals');
    if (event.timerStartedEventAttributes) add('timers');
    if (event.upsertWorkflowSearchAttributesEventAttributes) add('upserts');
    if (event.workflowPropertiesModifiedEventAttributes) add('upserts');
    if (event.activityTaskScheduledEventAttributes) attempts.set(String(event.eventId), 1);
    const started = event.activityTaskStartedEventAttributes;
    if (started) attempts.set(String(started.scheduledEventId), started.attempt ?? 1);
  }
  const activities = [...attempts.values()].reduce((sum, count) => sum + count, 0);
  return { ...counted, activities };
}

export function sumOf(all: readonly Actions[]): Actions {
  const keys = Object.keys(none) as (keyof Actions)[];
  return Object.fromEntries(
    keys.map((key) => [key, all.reduce((sum, actions) => sum + actions[key], 0)]),
  ) as unknown as Actions;
}

export function totalOf(actions: Actions): number {
  return Object.values(actions).reduce((sum, count) => sum + count, 0);
}

/** How many heartbeats the frontend has received, from the metrics of a server in Prometheus' format. */
export function heartbeatsIn(metrics: string): number {
  const isHeartbeat = (line: string) =>
    /^service_requests(_total)?\{/.test(line) &&
    line.includes('operation="RecordActivityTaskHeartbeat"') &&
    line.includes('service_name="frontend"');
  const values = metrics.split('\n').filter(isHeartbeat);
  return values.reduce(
    (sum, line) =>
      sum +
      Number(
        line
          .slice(line.lastIndexOf('}') + 1)
          .trim()
          .split(' ')[0],
      ),
    0,
  );
}
