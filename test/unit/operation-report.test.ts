import { describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { historyLines, operationEngine } from '../../cli/operation.ts';
import { explanationText } from '../../cli/output/explain-text.ts';

const payload = (value: unknown) => ({ data: Buffer.from(JSON.stringify(value)) });
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

describe('an operation that release 0.1.0 may have begun', () => {
  const [earlier, workflowId] = ['roll-out/a', 'roll-out/shop/web/a'];

  /** Temporal with these runs, by workflow ID. */
  const reported = async (ended: Readonly<Record<string, boolean>>) => {
    const getHandle = (id: string) => ({
      workflowId: id,
      describe: async () => {
        const hasEnded = ended[id];
        if (hasEnded === undefined) throw Object.assign(new Error(), { name: 'WorkflowNotFoundError' });
        const closeTime = hasEnded ? { closeTime: new Date(1) } : {};
        return { runId: 'run', status: { name: '' }, startTime: new Date(0), historyLength: 0, raw: {}, ...closeTime };
      },
      fetchHistory: async () => ({ events: [] }),
    });
    const client = { withDeadline: (_: unknown, ask: () => Promise<unknown>) => ask(), workflow: { getHandle } };
    const place = { address: '', flags: '', deadlineMs: 1_000 };
    const engine = operationEngine({ client: client as unknown as Client, ...place });
    return (await engine.report(workflowId))?.workflowId;
  };

  it('is shown under its own ID while it is open, and while no other run is known', async () => {
    expect(await reported({ [earlier]: false })).toBe(earlier);
    expect(await reported({ [earlier]: false, [workflowId]: true })).toBe(earlier);
    expect(await reported({ [earlier]: true })).toBe(earlier);
  });

  it('is followed by the run of this release', async () => {
    expect(await reported({ [earlier]: true, [workflowId]: false })).toBe(workflowId);
    expect(await reported({ [workflowId]: true })).toBe(workflowId);
    expect(await reported({})).toBeUndefined();
  });
});

describe('what an operation was sent', () => {
  it('is listed as refused where it is no command of that operation, or had no effect', () => {
    const signal = (eventId: number, signalName: string) => ({
      ...{ eventId, eventTime: time },
      workflowExecutionSignaledEventAttributes: { signalName, identity: 'temporal-cli:root@vm' },
    });
    const input = { payloads: [payload({ command: 'skip', by: 'ann', key: 'k', refused: 'no pod is waited for' })] };
    const events = [
      {
        eventId: 1,
        eventTime: time,
        workflowExecutionStartedEventAttributes: { workflowType: { name: 'pullImages' } },
      },
      ...['pasue', 'undo', 'pause'].map((name, index) => signal(index + 2, name)),
      { eventId: 5, eventTime: time, activityTaskScheduledEventAttributes: { activityId: '5', input } },
      { eventId: 6, eventTime: time, activityTaskCompletedEventAttributes: { scheduledEventId: 5 } },
    ];
    expect(historyLines(events).map(({ text }) => text)).toEqual([
      'started',
      'pasue by temporal-cli:root@vm: refused, as it is no command of this operation',
      'undo by temporal-cli:root@vm: refused, as it is no command of this operation',
      'pause by temporal-cli:root@vm',
      'skip by ann refused: no pod is waited for',
    ]);
  });
});
