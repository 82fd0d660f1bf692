import { describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import { createMetrics } from '../../process/metrics.ts';
import {
  type Deployment,
  type EngineRun,
  type EngineVersionsOptions,
  type FoundDeployment,
  keepVersions,
  nextVersionSteps,
  type Poller,
  type SeenVersions,
  type WorkerVersions,
} from '../../watcher/engine-versions.ts';
import { waitFor } from '../support/wait.ts';

const own = 'new';
const becameCurrentMs = 1_000;

function deployment(build?: string, more: Partial<FoundDeployment> = {}): FoundDeployment {
  return {
    kind: 'found',
    ...(build !== undefined && { current: { build, sinceMs: becameCurrentMs } }),
    conflictToken: new Uint8Array([1]),
    idle: [],
    ...more,
  };
}

const unsupported: Deployment = { kind: 'unsupported', why: 'disabled' };
const versioned = (build: string): Poller => ({ build, isVersioned: true, atMs: 1 });
const unversioned = (build: string): Poller => ({ build, isVersioned: false, atMs: 1 });

let runs = 0;
function run(overrides: Partial<EngineRun> = {}): EngineRun {
  const runId = `run-${++runs}`;
  return {
    workflowId: `restart-containers/${runId}`,
    runId,
    workflowType: 'restartContainers',
    startedAtMs: 0,
    behavior: 'Pinned',
    build: 'old',
    ...overrides,
  };
}

function stepsFor(seen: Partial<SeenVersions>) {
  return nextVersionSteps({
    own,
    manages: true,
    deployment: deployment(own),
    pollers: [versioned(own)],
    silentLooks: new Map(),
    runs: [],
    ...seen,
  });
}

const idle = { setCurrent: false, wake: [], terminate: [], remove: [] };

describe('F1: nextVersionSteps', () => {
  it('sets the own version current as soon as its workers poll, and nothing else before', () => {
    const seen = { deployment: deployment('old'), runs: [run()] };
    expect(stepsFor(seen)).toMatchObject({ ...idle, setCurrent: true });
    expect(stepsFor({ ...seen, pollers: [] })).toMatchObject({ ...idle, waitsFor: 'no worker of build new polls' });
    expect(stepsFor({ ...seen, pollers: [unversioned(own)] })).toMatchObject(idle);
    expect(stepsFor({ deployment: deployment() })).toMatchObject({ ...idle, setCurrent: true });
    expect(stepsFor({ deployment: { kind: 'none' } })).toMatchObject({ ...idle, waitsFor: expect.any(String) });
  });

  it('leaves the current version to whoever manages the deployment, and wakes runs that are not on it', () => {
    const elsewhere = run({ build: 'older' });
    const there = run({ build: 'old' });
    const seen = { deployment: deployment('old'), runs: [elsewhere, there] };
    const given = stepsFor({ ...seen, manages: false });
    expect(given).toMatchObject({
      ...idle,
      wake: [elsewhere],
      waitsFor: expect.stringContaining('--manage-worker-deployment'),
    });
    const managed = stepsFor({ ...seen, deployment: deployment('old', { managedBy: 'controller' }) });
    expect(managed).toMatchObject({ ...idle, wake: [elsewhere], waitsFor: expect.stringContaining('"controller"') });
  });

  it('wakes what is pinned to a version that has workers, and leaves alone what is where it should be', () => {
    const old = run();
    const steps = stepsFor({ runs: [old, run({ build: own })] });
    expect(steps).toMatchObject({ ...idle, wake: [old], left: { draining: [old], orphaned: [], unversioned: [] } });
    expect(steps.waitsFor).toBeUndefined();
  });

  it('ends what is pinned to a version without workers, when it has found none for a while', () => {
    const old = run();
    const afterLooks = (looks: number) => stepsFor({ runs: [old], silentLooks: new Map([['old', looks]]) });
    expect(afterLooks(3)).toMatchObject({ ...idle, left: { orphaned: [old] } });
    expect(afterLooks(4).terminate).toEqual([
      {
        run: old,
        reason:
          'No worker of build old polls any longer: the watcher starts this operation again on build new, from the state of the cluster',
      },
    ]);
    expect(afterLooks(4).wake).toEqual([]);
  });

  it('ends nothing while no worker of its own could take it up, or while versions are managed by others', () => {
    const seen = { runs: [run()], silentLooks: new Map([['old', 9]]) };
    expect(stepsFor({ ...seen, pollers: [] }).terminate).toEqual([]);
    expect(stepsFor({ ...seen, deployment: deployment('old') }).terminate).toEqual([]);
    expect(stepsFor({ ...seen, manages: false }).terminate).toEqual([]);
    expect(stepsFor({ ...seen, deployment: deployment(own, { managedBy: 'controller' }) }).terminate).toEqual([]);
  });

  it('ends runs of a release without versions, once its own version is current', () => {
    const early = run({ behavior: '', build: '' });
    const unpinned = run({ behavior: '' });
    const others = [
      run({ behavior: '', build: own }), // started by this release, its first task is still pending
      run({ behavior: 'AutoUpgrade' }), // handed over, about to move to the current version
      run({ behavior: '', startedAtMs: becameCurrentMs + 1 }), // the same, before Temporal knows it
    ];
    const { terminate } = stepsFor({ runs: [early, unpinned, ...others] });
    expect(terminate.map(({ run: { runId } }) => runId)).toEqual([early.runId, unpinned.runId]);
    expect(terminate[0]?.reason).toMatch(/^Started by an earlier release without worker versions: the watcher starts /);
    expect(stepsFor({ runs: [early], deployment: deployment('old') }).terminate).toEqual([]);
  });

  it('deletes versions that are idle, without workers and without runs', () => {
    const silentLooks = new Map([
      ['drained', 4],
      ['busy', 4],
      ['fresh', 1],
    ]);
    const seen = { silentLooks, runs: [run({ build: 'busy' })] };
    const versions = { idle: ['drained', 'busy', 'fresh', 'polled', own] };
    expect(stepsFor({ ...seen, deployment: deployment(own, versions) }).remove).toEqual(['drained']);
    expect(stepsFor({ ...seen, deployment: deployment(own, versions), manages: false }).remove).toEqual([]);
  });

  it('without versions, begins runs of other builds anew when only its own workers are left', () => {
    const early = run({ behavior: '', build: '' });
    const pinned = run({ build: own }); // from when the server had versioning
    const seen = { deployment: unsupported, runs: [early, pinned, run({ behavior: '', build: own })] };
    expect(stepsFor({ ...seen, pollers: [] })).toMatchObject({ ...idle, waitsFor: 'no worker of build new polls' });
    const mixed = stepsFor({ ...seen, pollers: [unversioned(own), unversioned('old'), unversioned('')] });
    expect(mixed).toMatchObject({ ...idle, waitsFor: 'workers of other builds still poll: old, an earlier release' });
    const { terminate } = stepsFor({ ...seen, pollers: [unversioned(own)], manages: false });
    expect(terminate.map(({ run: { runId } }) => runId)).toEqual([early.runId, pinned.runId]);
  });

  it('without versions, is done when every run is of its own build, whoever polls', () => {
    const mine = run({ behavior: '', build: own });
    const steps = stepsFor({ deployment: unsupported, pollers: [unversioned('old')], runs: [mine] });
    expect(steps).toMatchObject(idle);
    expect(steps.waitsFor).toBeUndefined();
  });
});

/** A Temporal server with these workers and runs. */
class FakeVersions implements WorkerVersions {
  deployment: Deployment = deployment('old');
  polling: Poller[] = [versioned('old'), versioned(own)];
  runsThere: EngineRun[] = [];
  failure: Error | undefined;
  readonly acts: string[] = [];

  async describe(): Promise<Deployment> {
    if (this.failure) throw this.failure;
    return this.deployment;
  }
  async pollers() {
    return this.polling;
  }
  async runs() {
    return this.runsThere;
  }
  async runsPinnedElsewhere(build: string) {
    return this.runsThere.filter((each) => each.behavior === 'Pinned' && each.build !== build);
  }
  async setCurrent(build: string) {
    this.acts.push(`current ${build}`);
    this.deployment = deployment(build);
  }
  async remove(build: string) {
    this.acts.push(`remove ${build}`);
    throw new Error('has pollers');
  }
  async wake({ runId }: EngineRun) {
    this.acts.push(`wake ${runId}`);
  }
  async terminate({ runId }: EngineRun) {
    this.acts.push(`terminate ${runId}`);
    this.runsThere = this.runsThere.filter((each) => each.runId !== runId);
  }
}

function leading(versions: WorkerVersions, overrides: Partial<EngineVersionsOptions> = {}) {
  const lost = new AbortController();
  const lines: string[] = [];
  const restarted: string[] = [];
  const metrics = createMetrics('watcher');
  const done = keepVersions(
    {
      versions,
      own,
      manages: true,
      types: () => ['restartContainers'],
      unserved: { note: () => undefined, unknown: () => undefined },
      restart: (workflowId) => restarted.push(workflowId),
      log: pino({ level: 'info' }, { write: (line: string) => lines.push(String(JSON.parse(line).msg)) }),
      metrics,
      times: { restMs: 5, quickMs: 5, firstMs: 5, wakeAgainMs: 3_600_000, spacingMs: 0 },
      ...overrides,
    },
    lost.signal,
  );
  const end = async () => {
    lost.abort(new Error('lost'));
    await done;
  };
  return { lines, restarted, metrics, end };
}

describe('F1: keepVersions', () => {
  it('moves what is pinned to the old version, and begins it anew when the workers of that have gone', async () => {
    const versions = new FakeVersions();
    const old = run();
    versions.runsThere = [old, run({ build: own })];
    const { restarted, metrics, end, lines } = leading(versions);
    await waitFor('the old run to be woken', () => versions.acts.length === 2);
    expect(versions.acts).toEqual(['current new', `wake ${old.runId}`]);
    const said = await metrics.registry.metrics();
    expect(said).toContain('windlass_worker_version_runs{state="draining",role="watcher"} 1');
    expect(said).toContain('windlass_worker_version_draining{role="watcher"} 1');
    expect(said).toContain('windlass_worker_version_current{role="watcher"} 1');

    versions.polling = [versioned(own)];
    await waitFor('the old run to be begun anew', () => restarted.length > 0);
    expect(restarted).toEqual([old.workflowId]);
    expect(versions.acts.slice(2)).toEqual([`terminate ${old.runId}`]);
    await waitFor('nothing to be left', async () =>
      (await metrics.registry.metrics()).includes('windlass_worker_version_draining{role="watcher"} 0'),
    );
    await end();
    expect(lines.filter((line) => line.startsWith('Set the current version'))).toHaveLength(1);
  });

  it('says once why it does nothing, and once what Temporal refuses, and goes on', async () => {
    const versions = new FakeVersions();
    versions.polling = [];
    let looks = 0;
    const describeAll = versions.describe.bind(versions);
    versions.describe = async () => {
      looks++;
      return await describeAll();
    };
    const { lines, end } = leading(versions);
    await waitFor('some looks', () => looks > 3);
    versions.failure = new Error('permission denied');
    await waitFor('some more looks', () => looks > 8);
    versions.failure = undefined;
    versions.polling = [versioned(own)];
    await waitFor('the version to be current', () => versions.acts.length > 0);
    await end();
    expect(lines.filter((line) => line === 'Worker versions: no worker of build new polls')).toHaveLength(1);
    expect(lines.filter((line) => line === 'Cannot reconcile the versions of the workers')).toHaveLength(1);
  });

  it('looks often while no version is current at all, and counts no such look against a version', async () => {
    const versions = new FakeVersions();
    versions.deployment = deployment();
    versions.polling = [];
    versions.runsThere = [run()];
    let looks = 0;
    const pollers = versions.pollers.bind(versions);
    versions.pollers = async () => {
      if (++looks === 9) versions.polling = [versioned(own)];
      return await pollers();
    };
    const hour = 3_600_000;
    const times = { restMs: hour, quickMs: hour, firstMs: 5, wakeAgainMs: hour, spacingMs: 0 };
    const { end } = leading(versions, { times });
    await waitFor('the version to be current', () => versions.acts.length > 0);
    await waitFor('another look', () => looks > 9);
    await end();
    expect(versions.acts).toEqual(['current new']); // the run is restarted after four looks at the slow interval
  });

  it('signals a run that does not hand over less and less often', async () => {
    const versions = new FakeVersions();
    const old = run();
    versions.runsThere = [old];
    let looks = 0;
    const wakes: number[] = [];
    versions.wake = async () => void wakes.push(looks);
    versions.describe = async () => {
      looks++;
      return versions.deployment;
    };
    const times = { restMs: 1, quickMs: 1, firstMs: 1, wakeAgainMs: 4, spacingMs: 0 };
    // the clock is the number of looks, so the first pause is 4 of them
    const { end } = leading(versions, { times, nowMs: () => looks });
    await waitFor('the looks of some pauses', () => looks > 70);
    await end();
    // the first look sets the current version
    expect(wakes.filter((at) => at <= 70)).toEqual([2, 6, 14, 30, 62]);
  });

  it('goes on with other runs and versions where one run cannot be signalled', async () => {
    const versions = new FakeVersions();
    versions.deployment = deployment(own, { idle: ['older'] });
    const [full, old] = [run(), run()];
    versions.runsThere = [full, old];
    const wake = versions.wake.bind(versions);
    versions.wake = async (each) => {
      await wake(each);
      if (each === full) throw new Error('exceeded workflow execution limit for signal events');
    };
    const { lines, end } = leading(versions);
    await waitFor('the idle version to be removed twice', () => versions.acts.length > 3);
    await end();
    expect(versions.acts.slice(0, 3)).toEqual([`wake ${full.runId}`, `wake ${old.runId}`, 'remove older']);
    expect(versions.acts.filter((act) => act.startsWith('wake'))).toHaveLength(2);
    expect(lines.filter((line) => line === 'Cannot signal or end a run of another build')).toHaveLength(1);
  });

  it('ends its turn when several runs in a row cannot be signalled', async () => {
    const versions = new FakeVersions();
    versions.deployment = deployment(own, { idle: ['older'] });
    versions.runsThere = Array.from({ length: 50 }, () => run());
    versions.wake = async ({ runId }) => {
      versions.acts.push(`wake ${runId}`);
      throw new Error('14 UNAVAILABLE');
    };
    const hour = 3_600_000;
    const times = { restMs: hour, quickMs: hour, firstMs: hour, wakeAgainMs: hour, spacingMs: 0 };
    const { lines, end } = leading(versions, { times });
    await waitFor('the failure to be told', () => lines.includes('Cannot reconcile the versions of the workers'));
    await end();
    expect(versions.acts).toHaveLength(5);
  });

  it('tries again to delete what Temporal wants to keep', async () => {
    const versions = new FakeVersions();
    versions.deployment = deployment(own, { idle: ['old'] });
    versions.polling = [versioned(own)];
    const { end } = leading(versions);
    await waitFor('two attempts', () => versions.acts.length > 1);
    await end();
    expect(new Set(versions.acts)).toEqual(new Set(['remove old']));
  });

  it('lists runs without a version only until none of another build is left', async () => {
    const versions = new FakeVersions();
    versions.deployment = unsupported;
    versions.polling = [unversioned(own)];
    versions.runsThere = [run({ behavior: '', build: '' })];
    let [lists, looks] = [0, 0];
    const pollers = versions.pollers.bind(versions);
    const list = versions.runs.bind(versions);
    versions.pollers = async () => {
      looks++;
      return await pollers();
    };
    versions.runs = async () => {
      lists++;
      return await list();
    };
    const { restarted, end } = leading(versions);
    await waitFor('many looks', () => looks > 5);
    await end();
    expect(restarted).toHaveLength(1);
    expect(lists).toBe(2);
  });
});
