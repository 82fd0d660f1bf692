import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { actionsIn, heartbeatsIn, sumOf, totalOf } from '../bench/billable.ts';

function recorded(name: string) {
  const file = new URL(`../replay/histories/${name}.json`, import.meta.url);
  return historyFromJSON(JSON.parse(readFileSync(file, 'utf8')));
}

describe('the billable actions of a run', () => {
  it('are its start, which a signal may come with, signals, attempts, timers and upserts', () => {
    const scheduled = (eventId: number) => ({ eventId, activityTaskScheduledEventAttributes: {} });
    const started = (scheduledEventId: number, attempt: number) => ({
      activityTaskStartedEventAttributes: { scheduledEventId, attempt },
    });
    const events = [
      { eventId: 1, workflowExecutionStartedEventAttributes: {} },
      { eventId: 2, workflowExecutionSignaledEventAttributes: {} },
      scheduled(5),
      scheduled(6),
      scheduled(7),
      started(5, 1),
      started(6, 3),
      { eventId: 9, timerStartedEventAttributes: {} },
      { eventId: 10, upsertWorkflowSearchAttributesEventAttributes: {} },
      { eventId: 11, workflowExecutionSignaledEventAttributes: {} },
    ];
    const actions = actionsIn({ events } as never);
    expect(actions).toEqual({ starts: 1, signals: 1, activities: 5, timers: 1, upserts: 1 });
    expect(totalOf(sumOf([actions, actions]))).toBe(18);
  });

  it('are counted in recorded histories', () => {
    const actions = actionsIn(recorded('restartContainers/ordered'));
    expect(actions).toMatchObject({ starts: 1, signals: 0 });
    expect(actions.activities).toBeGreaterThanOrEqual(4); // two containers, each stopped and awaited
    const rollOut = actionsIn(recorded('rollOut/paused'));
    expect([rollOut.starts, rollOut.signals]).toEqual([1, 3]); // pause and resume, and that pods may go again
  });
});

describe('the heartbeats that a server has received', () => {
  it('are those of its frontend', () => {
    const metrics = [
      '# TYPE service_requests counter',
      'service_requests{namespace="default",operation="RecordActivityTaskHeartbeat",service_name="frontend"} 40',
      'service_requests{namespace="other",operation="RecordActivityTaskHeartbeat",service_name="frontend"} 2',
      'service_requests{namespace="default",operation="RecordActivityTaskHeartbeat",service_name="history"} 42',
      'service_requests{namespace="default",operation="PollActivityTaskQueue",service_name="frontend"} 7',
    ];
    expect(heartbeatsIn(metrics.join('\n'))).toBe(42);
    expect(heartbeatsIn('')).toBe(0);
  });
});
