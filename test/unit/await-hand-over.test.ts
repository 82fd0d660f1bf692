import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { awaitHandOver } from '../../activities/fleet/await-hand-over.ts';
import { fleetActivities } from '../../workers/fleet-worker.ts';

const histories = fileURLToPath(new URL('../replay/drains/0.1.0-9d19c6e/rollOut', import.meta.url));
const nobody = {} as never;

interface HistoryEvent {
  readonly activityTaskScheduledEventAttributes?: {
    readonly activityType: { readonly name: string };
    readonly taskQueue: { readonly name: string };
    readonly retryPolicy?: { readonly maximumAttempts?: number };
    readonly scheduleToCloseTimeout?: string;
  };
}

/** What roll-outs of release 0.1.0 have asked of the leading watcher. */
function askedOfTheWatcher() {
  const files = readdirSync(histories).filter((name) => name.endsWith('.json'));
  const events = files.flatMap((name) => {
    return (JSON.parse(readFileSync(`${histories}/${name}`, 'utf8')) as { events: readonly HistoryEvent[] }).events;
  });
  const scheduled = events.flatMap(({ activityTaskScheduledEventAttributes: one }) => one ?? []);
  return scheduled.filter(({ taskQueue }) => taskQueue.name === 'fleet');
}

describe('a roll-out of release 0.1.0', () => {
  it('is refused leave for a minute, again and again, and is not ended by that', async () => {
    await expect(awaitHandOver()).rejects.toMatchObject({ type: 'Held', nonRetryable: false, nextRetryDelay: 60_000 });
    const asked = askedOfTheWatcher().filter(({ activityType }) => activityType.name === 'advance');
    expect(asked.length).toBeGreaterThan(0);
    // absent, and 0, are without limit
    const limits = asked.map(({ retryPolicy, scheduleToCloseTimeout }) => [
      Number(retryPolicy?.maximumAttempts ?? 0),
      Number.parseFloat(scheduleToCloseTimeout ?? '0'),
    ]);
    expect(new Set(limits.map(String))).toEqual(new Set(['0,0']));
  });

  it('finds an activity for all that it asks of the watcher', () => {
    const registered = fleetActivities(
      { permitHolder: nobody, commandHolder: nobody, nodeHolder: nobody, swapHolder: nobody, kube: nobody },
      { client: nobody },
    );
    const names = new Set(askedOfTheWatcher().map(({ activityType }) => activityType.name));
    expect(names).toEqual(new Set(['advance', 'recordOrders']));
    for (const name of names) expect(Object.keys(registered)).toContain(name);
    expect(registered.advance).toBe(awaitHandOver);
  });
});
