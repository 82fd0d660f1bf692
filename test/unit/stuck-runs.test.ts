import { describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { pino } from 'pino';
import { createMetrics } from '../../process/metrics.ts';
import type { RunToEnd } from '../../watcher/starter.ts';
import {
  knownAfter,
  type StuckRun,
  StuckRuns,
  type StuckRunsOptions,
  stuckRunStep,
  stuckRunsQuery,
} from '../../watcher/stuck-runs.ts';

const minuteMs = 60_000;
const failed = ['category=WorkflowTaskFailed', 'cause=WorkflowTaskFailedCauseNonDeterministicError'];

function run(overrides: Partial<StuckRun> = {}): StuckRun {
  const workflowId = overrides.workflowId ?? 'restart-containers/pod-1';
  return { workflowId, runId: 'run-1', workflowType: 'restartContainers', problems: failed, ...overrides };
}

describe('stuckRunStep', () => {
  const step = (begunAnew: string | undefined, nowMs: number, build = 'new') =>
    stuckRunStep({ sinceMs: 0, ...(begunAnew && { begunAnew }) }, { build, nowMs, patienceMs: 5 * minuteMs });

  it('waits for five minutes, and begins anew then', () => {
    expect(step(undefined, 5 * minuteMs - 1)).toBe('wait');
    expect(step(undefined, 5 * minuteMs)).toBe('beginAnew');
  });

  it('leaves a run alone that was begun anew for this build, and not one that was for another', () => {
    expect(step('new', 60 * minuteMs)).toBe('leave');
    expect(step('old', 5 * minuteMs - 1)).toBe('wait');
    expect(step('old', 5 * minuteMs)).toBe('beginAnew');
  });
});

describe('knownAfter', () => {
  it('keeps since when the same run is stuck, and forgets what was not found', () => {
    const first = knownAfter(new Map(), [run(), run({ workflowId: 'b' })], 1_000);
    const second = knownAfter(first, [run()], 2_000);
    expect([...second.values()]).toEqual([{ ...run(), sinceMs: 1_000, isShown: false }]);
    const third = knownAfter(second, [run({ runId: 'run-2' })], 3_000);
    expect(third.get('restart-containers/pod-1')).toMatchObject({ runId: 'run-2', sinceMs: 3_000 });
    expect(knownAfter(knownAfter(second, [], 3_000), [run()], 4_000).get(run().workflowId)?.sinceMs).toBe(4_000);
  });
});

describe('stuckRunsQuery', () => {
  it('asks for what the server writes after failed and timed-out workflow tasks, of our types that run', () => {
    expect(stuckRunsQuery(['rollOut', 'pullImages'])).toBe(
      "TemporalReportedProblems IN ('category=WorkflowTaskFailed', 'category=WorkflowTaskTimedOut') " +
        "AND ExecutionStatus = 'Running' AND WorkflowType IN ('rollOut', 'pullImages')",
    );
  });
});

function stuckRuns(overrides: Partial<StuckRunsOptions> = {}) {
  const world = {
    stuck: [] as readonly StuckRun[],
    fails: undefined as Error | undefined,
    nowMs: 0,
    leads: true,
    lists: 0,
  };
  const ended: RunToEnd[] = [];
  const rests: number[] = [];
  const logged: (readonly [string, string | undefined])[] = [];
  let changes = 0;
  const metrics = createMetrics('watcher');
  async function* list() {
    world.lists += 1;
    if (world.fails) throw world.fails;
    for (const { begunAnew, problems, workflowType: type, ...ids } of world.stuck) {
      const memo = { build: 'old', ...(begunAnew && { begunAnew }) };
      yield { ...ids, type, memo, searchAttributes: { TemporalReportedProblems: problems } };
    }
  }
  const write = (line: string) => {
    const { msg, operationId } = JSON.parse(line) as { readonly msg: string; readonly operationId?: string };
    logged.push([msg, operationId]);
  };
  const runs = new StuckRuns({
    client: { workflow: { list } } as unknown as Pick<Client, 'workflow'>,
    temporalNamespace: 'shop',
    build: 'new',
    mayAct: () => world.leads,
    beginAnew: (one) => void ended.push(one),
    onChange: () => void changes++,
    log: pino({ level: 'info' }, { write }),
    gauge: metrics.stuckOperations,
    patienceMs: 5 * minuteMs,
    nowMs: () => world.nowMs,
    pause: async (ms) => void rests.push(ms),
    ...overrides,
  });
  return {
    world,
    runs,
    ended,
    rests,
    logged,
    changes: () => changes,
    pass: (minute: number, ...stuck: readonly StuckRun[]) => {
      world.nowMs = minute * minuteMs;
      world.stuck = stuck;
      return runs.pass(['restartContainers', 'pullImages']);
    },
    count: async (type: string) => {
      const { values } = await metrics.stuckOperations.get();
      return values.find(({ labels }) => labels.workflow_type === type)?.value;
    },
  };
}

const workflowId = 'restart-containers/pod-1';
const terminate = `temporal workflow terminate --namespace shop --workflow-id ${workflowId}`;

describe('StuckRuns', () => {
  it('says of a stuck operation why it does not go on and what helps, and of no other', async () => {
    const { runs, pass, changes, logged, count } = stuckRuns();
    await pass(0);
    expect([runs.trouble(workflowId), changes(), await count('restartContainers')]).toEqual([undefined, 0, 0]);
    await pass(1, run());
    const trouble = runs.trouble(workflowId);
    expect(trouble).toMatchObject({ reason: 'EngineStuck', blockedBy: [`workflow/${workflowId}`] });
    expect(trouble?.unblock).toContain(terminate);
    expect(runs.trouble('restart-containers/pod-2')).toBeUndefined();
    expect([await count('restartContainers'), await count('pullImages')]).toEqual([1, 0]);

    await pass(2, run());
    expect([changes(), logged]).toEqual([1, [['A workflow task keeps failing', workflowId]]]);
    await pass(3);
    expect([runs.trouble(workflowId), changes(), await count('restartContainers')]).toEqual([undefined, 2, 0]);
  });

  it('finds a run of release 0.1.0 by the ID of this release, and names it by its own', async () => {
    const { runs, pass } = stuckRuns();
    await pass(1, run());
    const trouble = runs.trouble('restart-containers/shop/web/pod-1');
    expect(trouble).toMatchObject({ reason: 'EngineStuck', blockedBy: [`workflow/${workflowId}`] });
    expect(trouble?.unblock).toContain(terminate);
  });

  it('begins it anew after five minutes, saying why, and reports it no longer', async () => {
    const { runs, pass, ended, changes } = stuckRuns();
    for (const minute of [0, 1, 2, 3, 4]) await pass(minute, run());
    expect(ended).toEqual([]);
    await pass(5, run());
    const reason = `Stuck for 300 s: ${failed.join(', ')}; it is started again, once for build new`;
    expect(ended).toEqual([{ workflowId, runId: 'run-1', reason }]);
    expect([runs.trouble(workflowId), changes()]).toEqual([undefined, 2]);
  });

  it('counts the five minutes anew for a run that went on in between, and not for a look that failed', async () => {
    const { world, pass, ended } = stuckRuns();
    await pass(0, run());
    await pass(3);
    await pass(4, run());
    world.fails = new Error('14 UNAVAILABLE');
    await pass(6, run());
    world.fails = undefined;
    await pass(8, run());
    expect(ended).toEqual([]);
    await pass(9, run());
    expect(ended).toHaveLength(1);
  });

  it('leaves alone what was begun anew for this build, whoever led then, and says that a person has to look', async () => {
    const { runs, pass, ended, logged } = stuckRuns();
    for (const minute of [0, 10, 100]) await pass(minute, run({ begunAnew: 'new' }));
    expect(ended).toEqual([]);
    const { unblock } = runs.trouble(workflowId) ?? {};
    expect(unblock).toContain('although it was started again');
    expect(unblock).toContain(`temporal workflow show --detailed --namespace shop --workflow-id ${workflowId}`);
    expect(unblock).toContain(terminate);
    expect(logged).toEqual([['A workflow task keeps failing, also after its operation was started again', workflowId]]);
  });

  it('begins anew again for another build', async () => {
    const { pass, ended } = stuckRuns();
    await pass(0, run({ begunAnew: 'old' }));
    await pass(5, run({ begunAnew: 'old' }));
    expect(ended).toHaveLength(1);
  });

  it('believes an operation that writes over EngineStuck, until the next look', async () => {
    const { runs, pass, count } = stuckRuns();
    await pass(0, run());
    // the reason from before it was reported
    expect(runs.trouble(workflowId, 'Stopping')?.reason).toBe('EngineStuck');
    expect(runs.trouble(workflowId, '')?.reason).toBe('EngineStuck');
    expect(runs.trouble(workflowId, 'EngineStuck')?.reason).toBe('EngineStuck');
    expect(runs.trouble(workflowId)?.reason).toBe('EngineStuck');
    expect(runs.trouble(workflowId, '')).toBeUndefined();
    expect([runs.trouble(workflowId, 'Stopping'), await count('restartContainers')]).toEqual([undefined, 0]);
    await pass(1, run());
    expect(runs.trouble(workflowId, 'Stopping')?.reason).toBe('EngineStuck');
  });

  it('takes so many at most, and rests between those that it begins anew', async () => {
    const { pass, ended, rests, logged, count, changes } = stuckRuns({ mostRuns: 3 });
    const many = ['a', 'b', 'c', 'd'].map((id) => run({ workflowId: id }));
    await pass(0, ...many);
    expect(await count('restartContainers')).toBe(3);
    await pass(5, ...many);
    expect(ended.map((one) => one.workflowId)).toEqual(['a', 'b', 'c']);
    expect([rests, changes()]).toEqual([[50, 50, 50], 2]);
    expect(logged.filter(([text]) => text.startsWith('More than 3'))).toHaveLength(1);
  });

  it('stops when it no longer leads, and begins a new term without what it knew', async () => {
    const { world, runs, pass, ended, count } = stuckRuns({
      pause: async () => {
        world.leads = false;
      },
    });
    const two = [run({ workflowId: 'a' }), run({ workflowId: 'b' })];
    await pass(0, ...two);
    await pass(5, ...two);
    expect(ended).toHaveLength(1);
    runs.reset();
    expect([runs.trouble('b'), await count('restartContainers')]).toEqual([undefined, undefined]);
    world.leads = true;
    await pass(6, ...two);
    await pass(10, ...two);
    expect(ended).toHaveLength(1);
  });

  it('asks a server that rejects the query once an hour, and says so each time', async () => {
    const { world, runs, pass, logged } = stuckRuns();
    const refused = Object.assign(new Error('3 INVALID_ARGUMENT: invalid query'), { code: 3 });
    world.fails = new Error('Failed to list workflows', { cause: refused });
    await pass(0);
    await pass(1);
    await pass(59);
    expect([world.lists, logged.length]).toEqual([1, 1]);
    expect(logged[0]?.[0]).toContain('rejects the query by TemporalReportedProblems');
    await pass(60);
    expect([world.lists, logged.length]).toEqual([2, 2]);
    world.fails = undefined;
    await pass(120, run());
    expect(runs.trouble(workflowId)?.reason).toBe('EngineStuck');
  });
});
