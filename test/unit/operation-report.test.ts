import { describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { operationEngine } from '../../cli/operation.ts';
import { explanationText } from '../../cli/output/explain-text.ts';

const payload = (value: string) => ({ data: Buffer.from(JSON.stringify(value)) });
const time = { seconds: 1_767_225_600, nanos: 0 };

/** Temporal with one run, whose second and third events schedule activities that are pending. */
function engine({ hasEnded = false } = {}) {
  const scheduled = (id: string, type: string, summary?: string) => ({
    eventTime: time,
    ...(summary !== undefined && { userMetadata: { summary: payload(summary) } }),
    activityTaskScheduledEventAttributes: { activityId: id, activityType: { name: type } },
  });
  const events = [
    { eventId: 1, eventTime: time, workflowExecutionStartedEventAttributes: {} },
    { eventId: 2, ...scheduled('2', 'fleet.v1.carryOutBatch', 'update web-0 in place') },
    { eventId: 3, ...scheduled('3', 'fleet.v1.chooseBatch') },
  ];
  const pendingActivities = ['2', '3', '4'].map((activityId) => ({
    ...{ activityId, activityType: { name: 'fleet.v1.chooseBatch' }, attempt: 1, scheduledTime: time },
  }));
  const description = {
    ...{ runId: 'run', status: { name: 'RUNNING' }, startTime: new Date(0), historyLength: events.length },
    ...(hasEnded && { status: { name: 'FAILED' }, closeTime: new Date(180_000) }),
    raw: { pendingActivities },
  };
  const handle = {
    workflowId: 'roll-out/a',
    describe: async () => description,
    fetchHistory: async () => ({ events }),
  };
  const client = {
    withDeadline: (_: unknown, ask: () => Promise<unknown>) => ask(),
    workflow: { getHandle: () => handle },
  };
  return operationEngine({ client: client as unknown as Client, address: '', flags: '', deadlineMs: 1_000 });
}

describe('what an operation does now', () => {
  it('is named by the summary of each pending activity, or by its type, and never by its number', async () => {
    const report = await engine().report('roll-out/a');
    expect(report?.pending.map(({ step }) => step)).toEqual([
      'update web-0 in place',
      'fleet.v1.chooseBatch',
      'fleet.v1.chooseBatch',
    ]);
  });

  it('is nothing once it has ended, whatever Temporal still names as pending', async () => {
    const operation = await engine({ hasEnded: true }).report('roll-out/a');
    expect(operation?.pending).toEqual([]);
    const explanation = {
      kind: 'A',
      namespace: '',
      name: 'a',
      summary: '',
      waits: [],
      steps: [],
      commands: [],
      notes: [],
    };
    const found = operation && ({ kind: 'found', ...operation } as const);
    const text = explanationText({ ...explanation, ...(found && { operation: found }) }, Date.now());
    expect(text).toContain('Operation roll-out/a: failed after 3m, 3 events');
    expect(text).not.toContain('now:');
  });
});
