import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import { changedSignal, queues } from '../../api/engine/operations.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { createMetrics } from '../../process/metrics.ts';
import { keepVersions } from '../../watcher/engine-versions.ts';
import { Starter, type WantedOperation } from '../../watcher/starter.ts';
import {
  deploymentOptions,
  describeDeployment,
  pollersOf,
  versionState,
  workerIdentity,
  workerVersions,
} from '../../workers/worker-versions.ts';
import { buildIdOf, workflowBundle } from '../../workers/workflow-bundle.ts';
import {
  idOf,
  inputOf,
  type OperationType,
  operationTypes,
  type PlayedOperations,
  pullAnswers,
  startPlayedOperations,
  swapLooks,
  uneventful,
} from '../support/played-operations.ts';
import { waitFor } from '../support/wait.ts';

/** The workflows of one release, as a file. */
interface Release {
  readonly file: string;
  readonly build: string;
}

const types = Object.keys(operationTypes) as OperationType[];
const workflowTypes = [...new Set(types.map(workflowTypeOf))];

function workflowTypeOf(type: OperationType): string {
  return type === 'refreshEnvironment' ? 'restartContainers' : type;
}

let folder: string;
let before: Release;
let after: Release;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'windlass-versions-'));
  const code = await readFile(await workflowBundle(), 'utf8');
  before = await released('before', code);
  after = await released('after', `/* a later release */ ${code}`);
  expect(after.build).not.toBe(before.build);
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function released(name: string, code: string): Promise<Release> {
  const file = join(folder, `${name}.js`);
  await writeFile(file, code);
  return { file, build: buildIdOf(code) };
}

interface Role {
  stop(): Promise<void>;
}

/** Operations that wait until they are released, on a Temporal server of their own. */
interface World {
  readonly played: PlayedOperations;
  readonly isVersioned: boolean;
  /** Starts one operation of each type like the watcher of this release, and waits until all of them wait. */
  begin(release: Release, name: string, of?: readonly OperationType[]): Promise<readonly WantedOperation[]>;
  /** Lets them run to their ends. */
  finish(operations: readonly WantedOperation[]): Promise<void>;
  /** A worker of this release; `isVersioned` false: like releases without worker versions. */
  startWorker(release: Release, options?: { readonly isVersioned: boolean }): Promise<Role>;
  /** Leads with the watcher of this release. */
  lead(release: Release, operations: readonly WantedOperation[]): Promise<Role>;
  /** Stops the roles of a test and ends its operations, whether it has passed or not. */
  clear(): Promise<void>;
  stop(): Promise<void>;
}

async function startWorld(settings: readonly string[] = []): Promise<World> {
  const waits = new Map<string, WaitingFor | undefined>();
  const finished = new Set<string>();
  const ended = new Set<string>();
  const swaps = new Map<string, keyof typeof swapLooks>();
  const begun: string[] = [];
  const running: Role[] = [];
  function role(stop: () => Promise<void>): Role {
    let stopped: Promise<void> | undefined;
    const one = { stop: () => (stopped ??= stop()) };
    running.push(one);
    return one;
  }
  /** As the watch of what an effect changes does: it may come before the effect is answered. */
  const wake = async (workflowId: string) => {
    await played.client.workflow.getHandle(workflowId).signal(changedSignal, null);
  };
  const played = await startPlayedOperations({
    // otherwise a server remembers a stopped worker as polling for minutes
    settings: ['frontend.enableCancelWorkerPollsOnShutdown=true', ...settings],
    hasClusterWorker: false,
    answers: {
      lookAtRequest: async (call) => {
        const look = await uneventful.lookAtRequest(call);
        const waitingFor = waits.get(call.workflowId);
        return { ...look, ...(waitingFor && { waitingFor }) };
      },
      reportRequest: ({ input, workflowId }) => {
        if ('waitingFor' in input.delta) waits.set(workflowId, input.delta.waitingFor ?? undefined);
      },
      lookAtEnvironment: async (call) => {
        const seen = await uneventful.lookAtEnvironment(call);
        return ended.has(call.workflowId) && seen.kind === 'seen' ? { ...seen, instances: [] } : seen;
      },
      'node.v1.refreshContainer': async (call) => {
        ended.add(call.workflowId);
        await wake(call.workflowId);
        return await uneventful['node.v1.refreshContainer'](call);
      },
      'node.v1.stopContainer': async (call) => {
        await wake(call.workflowId);
        return await uneventful['node.v1.stopContainer'](call);
      },
      'node.v1.pullImage': async (call) => {
        await wake(call.workflowId);
        return await uneventful['node.v1.pullImage'](call);
      },
      lookAtNodeImage: async (call) => {
        const look = await uneventful.lookAtNodeImage(call);
        const waitingFor = waits.get(call.workflowId);
        return { ...look, ...(waitingFor && { waitingFor }) };
      },
      reportPulls: ({ input, workflowId }) => void waits.set(workflowId, input.waitingFor),
      'fleet.v1.nextNodes': ({ workflowId }) => pullAnswers[finished.has(workflowId) ? 'finished' : 'open'],
      lookAtSidecars: ({ workflowId }) => {
        if (ended.has(workflowId)) return { decision: { kind: 'done' }, status: {} };
        if (finished.has(workflowId)) {
          return { decision: { kind: 'act', step: { kind: 'requestStop', containers: ['proxy'] } }, status: {} };
        }
        const waitingFor = { reason: 'ContainerNotStarted', blockedBy: [], blockedCount: 0, unblock: '' } as const;
        return { decision: { kind: 'wait', waitingFor }, status: {} };
      },
      endSidecars: async ({ workflowId }) => {
        ended.add(workflowId);
        await wake(workflowId);
      },
      'fleet.v1.lookAtSwap': ({ workflowId }) => swapLooks[swaps.get(workflowId) ?? 'begin'],
      'fleet.v1.swapStep': async (call) => {
        swaps.set(call.workflowId, call.input.step === 'begin' ? 'reset' : 'done');
        await wake(call.workflowId);
        return await uneventful['fleet.v1.swapStep'](call);
      },
      'fleet.v1.next': async (call) =>
        finished.has(call.workflowId) ? await uneventful['fleet.v1.next'](call) : { kind: 'nothing' },
    },
  });
  const { client } = played;
  const { kind } = await describeDeployment(client);
  const isVersioned = kind !== 'unsupported';

  return {
    played,
    isVersioned,

    async begin(release, name, of = types) {
      const starter = newStarter(release);
      const operations = of.map((type) => wanted(type, `${name}-${type}`));
      begun.push(...operations.map(({ workflowId }) => workflowId));
      for (const [index, operation] of operations.entries()) {
        const pauses = ['restartContainers', 'refreshEnvironment', 'pullImages', 'swapSidecar'].includes(
          of[index] ?? '',
        );
        if (pauses) await starter.command(operation.workflowId, 'pause', { by: 'ann' }, operation);
        else starter.want(operation);
      }
      await waitFor('all operations to wait', async (see) => {
        const states = see(await Promise.all(operations.map(({ workflowId }) => stateOf(workflowId))));
        return states.every(({ isIdle }) => isIdle);
      });
      await starter.stop();
      return operations;
    },

    async finish(operations) {
      for (const { workflowId } of operations) {
        finished.add(workflowId);
        const handle = client.workflow.getHandle(workflowId);
        // it may have completed
        await handle.signal('resume', { by: 'ann' }).catch(() => undefined);
        await handle.signal(changedSignal, null).catch(() => undefined);
      }
      for (const { workflowId } of operations) await client.workflow.getHandle(workflowId).result();
    },

    async startWorker({ file, build }, options = { isVersioned }) {
      const worker = await played.startClusterWorker({
        identity: workerIdentity(build),
        workflowBundle: { codePath: file },
        ...(options.isVersioned && { workerDeploymentOptions: deploymentOptions(build) }),
      });
      return role(() => worker.stop());
    },

    async lead(release, operations) {
      const lost = new AbortController();
      const starter = newStarter(release);
      for (const operation of operations) starter.want(operation);
      // a signal to a completed one would start it again
      await waitFor('all to be told', () => operations.every(({ workflowId }) => starter.isSent(workflowId)));
      const done = keepVersions(
        {
          versions: workerVersions(client),
          own: release.build,
          manages: true,
          types: () => workflowTypes,
          unserved: { note: () => undefined, unknown: () => undefined },
          restart: (workflowId) => starter.startAgain(workflowId),
          log: pino({ level: 'silent' }),
          metrics: createMetrics('watcher'),
          times: { restMs: 500, quickMs: 500, firstMs: 500, wakeAgainMs: 2_000, spacingMs: 10 },
        },
        lost.signal,
      );
      return role(async () => {
        lost.abort(new Error('lost'));
        await done;
        await starter.stop();
      });
    },

    async clear() {
      await Promise.all(running.splice(0).map((one) => one.stop()));
      // most have ended
      const handles = begun.splice(0).map((workflowId) => client.workflow.getHandle(workflowId));
      await Promise.all(handles.map((handle) => handle.terminate().catch(() => undefined)));
    },

    stop: () => played.stop(),
  };

  function newStarter({ build }: Release): Starter {
    return new Starter({
      client,
      build,
      mayStart: () => true,
      onError: () => undefined,
      onSilence: () => undefined,
      silentAfterMs: 60_000,
    });
  }

  async function stateOf(workflowId: string): Promise<{ readonly workflowId: string; readonly isIdle: boolean }> {
    const { raw } = await client.workflow.getHandle(workflowId).describe();
    const seen = played.calls.filter((call) => call.workflowId === workflowId);
    const isIdle = (raw.pendingActivities ?? []).length === 0 && !raw.pendingWorkflowTask;
    return { workflowId, isIdle: seen.length > 0 && isIdle };
  }
}

function wanted(type: OperationType, uid: string): WantedOperation {
  return {
    workflowId: idOf(type, uid),
    workflowType: workflowTypeOf(type),
    taskQueue: queues.cluster,
    argument: inputOf(type, uid),
    change: null,
    inputs: uid,
    summary: type,
    about: { kind: 'Test', namespace: 'shop', name: uid, node: 'node-1' },
  };
}

/** Operations whose pause outlives their run: those of a refresh and of a swap are in no object. */
const durable = types.filter((type) => type !== 'refreshEnvironment' && type !== 'swapSidecar');

/** Activities with effects: each is to run once, in whichever run. */
const durableEffects: readonly string[] = ['endSidecars', 'node.v1.pullImage', 'node.v1.stopContainer'];
/** Those of all operations, sorted. A swap writes twice. */
const effects: readonly string[] = [
  ...['endSidecars', 'fleet.v1.swapStep', 'fleet.v1.swapStep'],
  ...['node.v1.pullImage', 'node.v1.refreshContainer', 'node.v1.stopContainer'],
];

function effectsOf({ calls }: PlayedOperations, operations: readonly WantedOperation[]): readonly string[] {
  const ids = new Set(operations.map(({ workflowId }) => workflowId));
  return calls.flatMap(({ workflowId, activity }) =>
    ids.has(workflowId) && effects.includes(activity) ? activity : [],
  );
}

describe('F1: operations on a server that versions workers', () => {
  let world: World;

  beforeAll(async () => {
    world = await startWorld();
    expect(world.isVersioned).toBe(true);
  });

  afterEach(async () => {
    await world?.clear();
  });

  afterAll(async () => {
    await world?.stop();
  });

  const runsOn = async ({ build }: Release) => (await versionState(world.played.client, build))?.runs;

  it('that a release without versions has begun are begun anew once', async () => {
    const { client } = world.played;
    const early = await world.startWorker(before, { isVersioned: false });
    const operations = await world.begin({ ...before, build: '' }, 'early', durable);
    await world.startWorker(after);
    let leader = await world.lead(after, operations);
    await waitFor('all to be begun anew', async (see) => see(await runsOn(after)) === operations.length);
    const runIds = async () => {
      const handles = operations.map(({ workflowId }) => client.workflow.getHandle(workflowId));
      return (await Promise.all(handles.map((handle) => handle.describe()))).map(({ runId }) => runId);
    };
    const begun = await runIds();
    await leader.stop();
    await early.stop();
    leader = await world.lead(after, operations);
    await world.finish(operations);
    expect(await runIds()).toEqual(begun);
    expect(effectsOf(world.played, operations).toSorted()).toEqual(durableEffects);
  });

  it('move to the new release and back, and do everything once', async () => {
    const { client } = world.played;
    await world.startWorker(before);
    let leader = await world.lead(before, []);
    await waitFor('the first release to be current', async () => (await versionState(client, before.build))?.isCurrent);
    const operations = await world.begin(before, 'moving');
    await waitFor('all to be pinned', async (see) => see(await runsOn(before)) === operations.length);

    await world.startWorker(after);
    await leader.stop();
    leader = await world.lead(after, operations);
    await waitFor('all to have moved', async (see) => see(await runsOn(after)) === operations.length);
    expect(await versionState(client, before.build)).toEqual({ isCurrent: false, isPolled: true, runs: 0 });
    expect(effectsOf(world.played, operations)).toEqual([]);

    await leader.stop();
    leader = await world.lead(before, operations);
    await waitFor('all to be back', async (see) => see(await runsOn(before)) === operations.length);
    await world.finish(operations);
    expect(effectsOf(world.played, operations).toSorted()).toEqual(effects);
  });

  it('are begun anew when no worker of their version is left', async () => {
    const { client } = world.played;
    const old = await world.startWorker(before);
    let leader = await world.lead(before, []);
    await waitFor('the first release to be current', async () => (await versionState(client, before.build))?.isCurrent);
    const operations = await world.begin(before, 'orphaned', durable);
    await waitFor('all to be pinned', async (see) => see(await runsOn(before)) === operations.length);
    await leader.stop();
    await old.stop();

    await world.startWorker(after);
    leader = await world.lead(after, operations);
    await waitFor('all to be begun anew', async (see) => see(await runsOn(after)) === operations.length);
    expect(await versionState(client, before.build)).toMatchObject({ isCurrent: false, isPolled: false, runs: 0 });
    await world.finish(operations);
    expect(effectsOf(world.played, operations).toSorted()).toEqual(durableEffects);
  });
});

describe('F1: operations on a server without versions of workers', () => {
  let world: World;

  beforeAll(async () => {
    world = await startWorld(['system.enableDeploymentVersions=false']);
    expect(world.isVersioned).toBe(false);
  });

  afterEach(async () => {
    await world?.clear();
  });

  afterAll(async () => {
    await world?.stop();
  });

  it('are begun anew once by the watcher of another release, when the old workers have gone', async () => {
    const { client } = world.played;
    const old = await world.startWorker(before);
    let leader = await world.lead(before, []);
    const operations = await world.begin(before, 'unversioned', durable);
    const firstRuns = await runIds();
    await leader.stop();

    await world.startWorker(after);
    leader = await world.lead(after, operations);
    await waitFor('both workers to poll', async (see) => {
      const builds = see(await pollersOf(client, [])).map(({ build }) => build);
      return [before, after].every(({ build }) => builds.includes(build));
    });
    expect(await runIds()).toEqual(firstRuns);
    await old.stop();
    await waitFor('all to be begun anew', async (see) => {
      const now = see(await runIds());
      return now.every((runId, index) => runId !== firstRuns[index]);
    });
    const secondRuns = await runIds();
    await leader.stop();
    leader = await world.lead(after, operations);
    await world.finish(operations);
    expect(await runIds()).toEqual(secondRuns);
    expect(effectsOf(world.played, operations).toSorted()).toEqual(durableEffects);

    async function runIds(): Promise<readonly string[]> {
      const found = operations.map(({ workflowId }) => client.workflow.getHandle(workflowId).describe());
      return (await Promise.all(found)).map(({ runId }) => runId);
    }
  });
});
