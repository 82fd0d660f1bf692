import { describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { signalActivities } from '../../activities/temporal/signals.ts';

/** A client whose history holds these signals: name and sender. */
function activitiesOn(signals: readonly (readonly [string, string])[]) {
  const events = [
    { workflowExecutionStartedEventAttributes: {} },
    ...signals.map(([signalName, identity]) => ({
      workflowExecutionSignaledEventAttributes: { signalName, identity },
    })),
  ];
  const asked: unknown[] = [];
  const workflow = {
    getHandle: (...run: unknown[]) => {
      asked.push(run);
      return { fetchHistory: async () => ({ events }) };
    },
  };
  const client = { workflow } as unknown as Pick<Client, 'workflow'>;
  const who = (signal: string, nth: number) =>
    signalActivities({ client }).identifySignal({ workflowId: 'w', runId: 'r', signal, nth });
  return { who, asked };
}

describe('identifySignal', () => {
  it('names the sender of the nth signal of that name, in this run', async () => {
    const { who, asked } = activitiesOn([
      ['changed', 'watcher'],
      ['pause', 'ann@laptop'],
      ['abort', 'bob@desk'],
      ['pause', 'eve@phone'],
    ]);
    expect(await who('pause', 0)).toBe('ann@laptop');
    expect(await who('pause', 1)).toBe('eve@phone');
    expect(await who('abort', 0)).toBe('bob@desk');
    expect(asked[0]).toEqual(['w', 'r']);
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
