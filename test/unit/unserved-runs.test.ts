import { describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import type { Deployment, EngineRun, Poller, SeenVersions } from '../../watcher/engine-versions.ts';
import { UnservedRuns } from '../../watcher/unserved-runs.ts';

const own = 'new';
const minuteMs = 60_000;

function deployment(build?: string): Deployment {
  const current = build === undefined ? {} : { current: { build, sinceMs: 0 } };
  return { kind: 'found', ...current, conflictToken: new Uint8Array(), idle: [] };
}

function worker(build: string, atMs: number, isVersioned = true): Poller {
  return { build, isVersioned, atMs };
}

function pinned(workflowId: string, build: string): EngineRun {
  return { workflowId, runId: 'run', workflowType: 'rollOut', startedAtMs: 0, behavior: 'Pinned', build };
}

/** What looks at these minutes find; a poll at 1 is one minute after the start, by Temporal's own clock. */
function unservedRuns() {
  let [nowMs, changes] = [0, 0];
  const runs = new UnservedRuns({
    ...{ temporalNamespace: 'shop', patienceMs: minuteMs, log: pino({ level: 'silent' }), nowMs: () => nowMs },
    onChange: () => void changes++,
  });
  return {
    runs,
    changes: () => changes,
    look(minute: number, pollers: readonly Poller[], seen: Partial<SeenVersions> = {}) {
      nowMs = minute * minuteMs;
      runs.note({ own, manages: true, deployment: deployment(own), runs: [], ...seen, pollers });
      return runs.trouble('roll-out/a')?.reason;
    },
    /** What looks at heartbeats find, at this second: the builds of those who live. */
    hear(second: number, alive: readonly string[] | undefined) {
      nowMs = second * 1_000;
      runs.hear((isWanted) => alive?.some((build) => isWanted(worker(build, 0))));
      return runs.trouble('roll-out/a')?.reason;
    },
    fail(minute: number) {
      nowMs = minute * minuteMs;
      runs.unknown();
    },
  };
}

describe('UnservedRuns', () => {
  it('says after a minute without workers what an operation waits for, and stops when one polls', () => {
    const { runs, look, changes } = unservedRuns();
    expect([look(0, []), look(0.9, [])]).toEqual([undefined, undefined]);
    expect(look(1, [])).toBe('EngineNoWorkers');
    expect(runs.trouble('roll-out/a')).toEqual({
      reason: 'EngineNoWorkers',
      blockedBy: ['taskqueue/cluster'],
      unblock:
        'Bring the cluster workers back (Deployment windlass-worker, or who runs role worker): none of build new polls ' +
        'queue "cluster" of Temporal namespace "shop"; temporal task-queue describe --namespace shop --task-queue cluster ' +
        'shows who does',
    });
    expect([look(2, []), changes()]).toEqual(['EngineNoWorkers', 1]);
    expect([look(3, [worker(own, 1)]), changes()]).toEqual([undefined, 2]);
  });

  it('does not take a short gap for an absence', () => {
    const { look } = unservedRuns();
    const found = [look(0, [worker(own, 1)]), look(0.5, []), look(0.9, []), look(1.2, [worker(own, 2)]), look(2, [])];
    expect(found).toEqual([undefined, undefined, undefined, undefined, undefined]);
  });

  it('notices that a worker has gone though Temporal still lists it, whatever the clocks say', () => {
    const { look } = unservedRuns();
    expect([look(0, [worker(own, 700)]), look(1, [worker(own, 701)])]).toEqual([undefined, undefined]);
    expect(look(2, [worker(own, 701)])).toBeUndefined();
    expect(look(2.5, [worker(own, 701)])).toBe('EngineNoWorkers');
    expect(look(3, [worker(own, 702)])).toBeUndefined();
  });

  it('counts only workers of the current version, and any unversioned one while no version is current', () => {
    const others = [worker('old', 1), worker('', 1, false)];
    const found = (polls: (minute: number) => readonly Poller[], seen: Partial<SeenVersions> = {}) => {
      const { look } = unservedRuns();
      look(0, polls(0), seen);
      return look(1, polls(1), seen);
    };
    expect(found(() => others)).toBe('EngineNoWorkers');
    const none = { deployment: deployment() };
    expect(found(() => [worker('old', 1)], none)).toBe('EngineNoWorkers');
    expect(found(() => [worker('', 1, false)], none)).toBeUndefined();
    expect(found(() => [worker(own, 1)], none)).toBeUndefined();
    expect(found(() => [worker(own, 1)], { ...none, manages: false })).toBe('EngineNoWorkers');
    expect(found(() => [worker('', 1, false)], { deployment: { kind: 'unsupported', why: '' } })).toBeUndefined();
  });

  it('of a run that is pinned to another version asks for workers of that one', () => {
    const { runs, look } = unservedRuns();
    const seen = { runs: [pinned('roll-out/a', 'old'), pinned('roll-out/b', own), pinned('roll-out/c', 'older')] };
    const pollers = (atMs: number) => [worker(own, atMs), worker('older', atMs)];
    expect(look(0, pollers(0), seen)).toBeUndefined();
    expect(look(1, pollers(1), seen)).toBe('EngineNoWorkers');
    expect(runs.trouble('roll-out/shop/web/a')?.unblock).toContain('none of build old polls');
    expect(runs.trouble('roll-out/a')?.unblock).toContain('none of build old polls');
    expect([runs.trouble('roll-out/b'), runs.trouble('roll-out/c')]).toEqual([undefined, undefined]);
    expect(look(2, [worker('older', 2), worker('old', 2)], seen)).toBeUndefined();
    look(3, [worker('older', 3), worker('old', 3)], seen);
    expect([runs.trouble('roll-out/b')?.reason, runs.trouble('roll-out/c')]).toEqual(['EngineNoWorkers', undefined]);
  });

  it('believes an operation that writes over it, until nobody has polled for another minute', () => {
    const { runs, look, changes } = unservedRuns();
    look(0, []);
    look(1, []);
    // the reason from before it was reported
    expect(runs.trouble('roll-out/a', 'Stopping')?.reason).toBe('EngineNoWorkers');
    expect(runs.trouble('roll-out/a', 'EngineNoWorkers')?.reason).toBe('EngineNoWorkers');
    expect(runs.trouble('roll-out/b', '')?.reason).toBe('EngineNoWorkers');
    expect([runs.trouble('roll-out/a', ''), runs.trouble('roll-out/b'), changes()]).toEqual([undefined, undefined, 2]);
    expect([look(1.1, []), look(2, []), look(2.1, [])]).toEqual([undefined, undefined, 'EngineNoWorkers']);
    expect(runs.trouble('roll-out/a', 'Stopping')?.reason).toBe('EngineNoWorkers');
  });

  it('goes by heartbeats where there are any, and by polls where not', () => {
    const { runs, look, hear, changes } = unservedRuns();
    expect(hear(1, [])).toBeUndefined();
    // it still polls, as far as Temporal knows
    look(0.1, [worker(own, 1)]);
    expect([runs.trouble('roll-out/a')?.reason, hear(8, ['old'])]).toEqual(['EngineNoWorkers', 'EngineNoWorkers']);
    expect([hear(10, [own]), hear(12, undefined), hear(14, [])]).toEqual([undefined, undefined, 'EngineNoWorkers']);
    expect([hear(16, undefined), changes()]).toEqual([undefined, 4]);
    look(2, []);
    expect([look(3, []), hear(182, [own])]).toEqual(['EngineNoWorkers', undefined]);
    runs.reset();
    expect(hear(184, [])).toBeUndefined();
  });

  it('does not believe heartbeats for a minute after an operation has written over it', () => {
    const { runs, look, hear } = unservedRuns();
    look(0, [worker(own, 1)]);
    expect(hear(8, [])).toBe('EngineNoWorkers');
    runs.trouble('roll-out/a', 'EngineNoWorkers');
    expect(runs.trouble('roll-out/a', 'Stopping')).toBeUndefined();
    expect([hear(10, []), hear(66, []), hear(68, [])]).toEqual([undefined, undefined, 'EngineNoWorkers']);
  });

  it('begins to count anew after a look that failed: workers that were cut off as well need a moment', () => {
    const { look, fail } = unservedRuns();
    look(0, [worker(own, 1)]);
    fail(1);
    fail(10);
    expect([look(11, []), look(11.9, []), look(12, [])]).toEqual([undefined, undefined, 'EngineNoWorkers']);
  });

  it('forgets everything at the end of a term', () => {
    const { runs, look } = unservedRuns();
    look(0, []);
    expect(look(1, [])).toBe('EngineNoWorkers');
    runs.reset();
    expect(runs.trouble('roll-out/a')).toBeUndefined();
    expect(look(2, [])).toBeUndefined();
  });
});
