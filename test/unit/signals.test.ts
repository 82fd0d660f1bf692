import { describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { signalActivities } from '../../activities/temporal/signals.ts';

/** A client whose history holds these signals, name and sender, as events 2, 3 … It answers two events a page. */
function activitiesOn(signals: readonly (readonly [string, string])[]) {
  const events = [
    { eventId: 1, workflowExecutionStartedEventAttributes: {} },
    ...signals.map(([signalName, identity], index) => ({
      eventId: index + 2,
      workflowExecutionSignaledEventAttributes: { signalName, identity },
    })),
  ].toReversed();
  const asked: unknown[] = [];
  const workflowService = {
    getWorkflowExecutionHistoryReverse: async (request: { readonly nextPageToken?: Uint8Array }) => {
      asked.push(request);
      const from = request.nextPageToken?.[0] ?? 0;
      const to = from + 2;
      return {
        history: { events: events.slice(from, to) },
        nextPageToken: Uint8Array.from(to < events.length ? [to] : []),
      };
    },
  };
  const client = { workflowService, options: { namespace: 'shop' } } as unknown as Pick<
    Client,
    'workflowService' | 'options'
  >;
  const who = (signal: string, fromEnd: number, upTo = 100) =>
    signalActivities({ client }).identifySignal({ workflowId: 'w', runId: 'r', signal, upTo, fromEnd });
  return { who, asked };
}

describe('identifySignal', () => {
  const signals = [
    ['changed', 'watcher'],
    ['pause', 'ann@laptop'],
    ['abort', 'bob@desk'],
    ['pause', 'eve@phone'],
  ] as const;

  it('names the sender of a signal of that name in this run, counted from the end', async () => {
    const { who, asked } = activitiesOn(signals);
    expect(await who('pause', 0)).toBe('eve@phone');
    expect(await who('pause', 1)).toBe('ann@laptop');
    expect(await who('abort', 0)).toBe('bob@desk');
    expect(asked[0]).toMatchObject({ namespace: 'shop', execution: { workflowId: 'w', runId: 'r' } });
  });

  it('leaves out what has come since', async () => {
    const { who } = activitiesOn(signals);
    expect(await who('pause', 0, 4)).toBe('ann@laptop');
  });

  it('F14: reads no further than it must', async () => {
    const { who, asked } = activitiesOn(signals);
    await who('pause', 0);
    expect(asked).toHaveLength(1);
    await who('pause', 1);
    expect(asked).toHaveLength(3);
  });

  it('has a name for a sender without one, and for a signal that is not there', async () => {
    const { who } = activitiesOn([['pause', '']]);
    expect(await who('pause', 0)).toBe('an unnamed sender');
    expect(await who('pause', 1)).toBe('an unnamed sender');
  });

  it('cuts a name that would not fit into a message', async () => {
    expect(await activitiesOn([['pause', 'x'.repeat(5_000)]]).who('pause', 0)).toHaveLength(253);
  });
});
