import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import fc from 'fast-check';
import type { Attempt, Clock } from '../../activities/cri/attempt.ts';
import type { PodView } from '../../activities/cri/await.ts';
import { type ContainerActivityMeans, containerActivities } from '../../activities/cri/containers.ts';
import type { NodeProgress, StopResult } from '../../activities/cri/contract.ts';
import type { HookRequest } from '../../activities/cri/pre-stop.ts';
import type { ContainerRuntime } from '../../activities/cri/runtime.ts';
import { containerHashAnnotation } from '../../activities/cri/runtime.ts';
import type { ContainerRecreateRequest } from '../../api/container-recreate-request/types.ts';
import type { EventText } from '../../api/core/event.ts';
import type { ContainerStatus, Pod } from '../../api/core/pod.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { formatContainersMeta, plainHash } from '../../api/in-place/containers-meta.ts';
import { expectedEnvHash } from '../../api/in-place/env-hash.ts';
import { formatState, type InPlaceState } from '../../api/in-place/state.ts';
import { noWork } from '../../api/in-place/work.ts';
import { type CriClient, createCriClient } from '../../daemon/cri/client.ts';
import { InFlight } from '../../daemon/in-flight.ts';
import { answers, FakeCri, held } from '../support/fake-cri.ts';
import '../support/property-seed.ts';
import { aPod } from '../support/objects/pod.ts';
import { aRecreateRequest } from '../support/objects/recreate-request.ts';

const podRef = { namespace: 'shop', name: 'web-7', uid: 'pod-1' };
const requestRef = { namespace: 'shop', name: 'restart-web', uid: 'request-1' };
const target = { request: requestRef, pod: podRef, runtime: 'containerd' };
const app = { ...target, container: 'app', containerId: 'app-0', graceSeconds: 30 };

type ListedContainer = ContainerRecreateRequest['spec']['containers'][number];

function request(
  containers: readonly ListedContainer[] = [{ name: 'app' }],
  overrides: { metadata?: object; phase?: 'Recreating' | 'Completed'; graceSeconds?: number } = {},
): ContainerRecreateRequest {
  return aRecreateRequest({
    metadata: { ...requestRef, ...overrides.metadata },
    spec: {
      podName: podRef.name,
      containers: [...containers],
      ...(overrides.graceSeconds !== undefined && {
        strategy: { terminationGracePeriodSeconds: overrides.graceSeconds },
      }),
    },
    status: { phase: overrides.phase ?? 'Recreating' },
  });
}

/** A clock that advances only on request. */
class ManualClock implements Clock {
  #ms = 1_767_225_600_000;
  readonly #sleepers = new Set<{ readonly atMs: number; readonly wake: () => void }>();

  nowMs(): number {
    return this.#ms;
  }

  monotonicMs(): number {
    return this.#ms;
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const sleeper = { atMs: this.#ms + ms, wake: () => resolve() };
    this.#sleepers.add(sleeper);
    signal?.addEventListener('abort', sleeper.wake);
    await promise;
    this.#sleepers.delete(sleeper);
  }

  /** The pending sleeps, in milliseconds from now. */
  get sleeps(): readonly number[] {
    return [...this.#sleepers].map(({ atMs }) => atMs - this.#ms);
  }

  advance(ms: number): void {
    this.#ms += ms;
    for (const sleeper of this.#sleepers) if (sleeper.atMs <= this.#ms) sleeper.wake();
  }
}

/** One attempt of a Temporal activity, and its heartbeats. */
function attempt(operation = 'restart-containers/pod-1 stop app-0') {
  const abort = new AbortController();
  const heartbeats: NodeProgress[] = [];
  const made: Attempt = {
    operation,
    cancellation: abort.signal,
    heartbeat: (progress) => void heartbeats.push(progress),
  };
  const cancel = () => abort.abort(new CancelledFailure('CANCELLED'));
  cancelAll.push(cancel);
  return { made, heartbeats, cancel };
}

/** Cancels what a test has left waiting. */
let cancelAll: (() => void)[] = [];

/** A slow machine is no slow runtime. */
const patient = { call: 100_000, imageFsInfo: 100_000, listImages: 100_000 };

let fake: FakeCri;
let client: CriClient;
let clock: ManualClock;
let stops: InFlight<StopResult, NodeProgress>;
let said: (EventText & { readonly container: string; readonly component: string })[];
let got: HookRequest[];
let stored: ContainerRecreateRequest | undefined;
let pod: Pod | undefined;
/** The pod in the API server; `pod` is what the node's own watch shows. */
let livePod: Pod | undefined;
let podListeners: Set<() => void>;
/** The last outage of the API server, as the node's own watch has seen it. */
let lastOutage: PodView['lastOutage'];
let stopping: AbortController;

beforeEach(async () => {
  fake = await FakeCri.start();
  client = createCriClient(fake.socketPath, patient);
  clock = new ManualClock();
  stops = new InFlight();
  said = [];
  got = [];
  stored = request();
  podListeners = new Set();
  lastOutage = () => undefined;
  stopping = new AbortController();
  pod = undefined;
  livePod = undefined;
  fake.put({ id: 'app-0', podUid: 'pod-1', name: 'app' });
});

afterEach(async () => {
  for (const cancel of cancelAll) cancel();
  cancelAll = [];
  client.close();
  await fake.close();
});

function activities(overrides: Partial<ContainerActivityMeans> = {}) {
  const runtime: ContainerRuntime = { ...client, name: 'containerd' };
  return containerActivities({
    nodeName: 'node-1',
    runtimes: {
      named: (name) => (name === 'containerd' ? [runtime] : []),
      absence: (name) => ({ final: true, message: `no runtime ${name}` }),
    },
    pods: {
      synced: () => true,
      pod: (uid) => (pod?.metadata.uid === uid ? pod : undefined),
      lastOutage: () => lastOutage(),
      watch: (_uid, listener) => {
        podListeners.add(listener);
        return () => podListeners.delete(listener);
      },
      isGone: async () => false,
    },
    readRequest: async () => stored,
    readPod: async () => livePod,
    say: (_pod, container, text, component) => void said.push({ container, component, ...text }),
    stops,
    httpGet: async (hook) => void got.push(hook),
    clock,
    attempt: () => attempt().made,
    stopping: stopping.signal,
    log: { info: () => undefined },
    ...overrides,
  });
}

const lookAt = (overrides: Partial<ContainerActivityMeans> = {}, containers = ['app'], runtime = 'containerd') =>
  activities(overrides)['node.v1.lookAtContainers']({ ...target, runtime, containers });
const stop = (overrides: Partial<ContainerActivityMeans> = {}, input = {}) =>
  activities(overrides)['node.v1.stopContainer']({ ...app, ...input });

async function failureOf(call: Promise<unknown>): Promise<ApplicationFailure> {
  const error: unknown = await call.then(
    (value) => new Error(`no failure but ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof ApplicationFailure)) throw error;
  return error;
}

async function until(holds: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

const stopsSent = () => fake.requests('StopContainer').map(({ containerId, timeout }) => [containerId, timeout]);

describe('lookAtContainers', () => {
  it('finds the newest instance of each container, and leaves out what the runtime lacks', async () => {
    const created = { podUid: 'pod-1', name: 'app', createdAtMs: 2_000, restartCount: 1 };
    fake.put({ id: 'app-1', ...created, startedAtMs: Date.parse('2026-01-02T03:04:05Z') });
    fake.put({ id: 'app-0', podUid: 'pod-1', name: 'app', createdAtMs: 1_000, state: 'exited' });
    fake.put({ id: 'side-0', podUid: 'pod-1', name: 'side', state: 'created', createdAtMs: 1_000 });
    fake.put({ id: 'other', podUid: 'pod-2', name: 'app', createdAtMs: 3_000 });

    await expect(lookAt({}, ['app', 'side', 'gone'])).resolves.toEqual({
      kind: 'seen',
      instances: [
        { name: 'app', id: 'app-1', state: 'running', restartCount: 1, startedAt: '2026-01-02T03:04:05.000Z' },
        { name: 'side', id: 'side-0', state: 'created', restartCount: 0 },
      ],
    });
  });

  it('asks the runtime that runs the pod where two have the same name', async () => {
    const empty = await FakeCri.start();
    const emptyClient = createCriClient(empty.socketPath, patient);
    const named = () => [emptyClient, client].map((own) => ({ ...own, name: 'containerd' }));
    const look = await lookAt({ runtimes: { named, absence: () => ({ final: true, message: '' }) } });
    expect(look).toMatchObject({ kind: 'seen', instances: [{ id: 'app-0' }] });
    emptyClient.close();
    await empty.close();
  });

  it('says that there is no such runtime, but only when there can be none', async () => {
    await expect(lookAt({}, ['app'], 'cri-o')).resolves.toEqual({ kind: 'noRuntime', message: 'no runtime cri-o' });

    const starting = { named: () => [], absence: () => ({ final: false, message: 'no usable container runtime' }) };
    await expect(failureOf(lookAt({ runtimes: starting }))).resolves.toMatchObject({
      type: 'Unreachable',
      nonRetryable: false,
      message: 'Cannot list the containers of pod "shop/web-7": no usable container runtime',
    });
  });

  it('is tried again a second later while the runtime is away', async () => {
    await fake.down();
    const failure = await failureOf(lookAt());
    expect(failure).toMatchObject({ type: 'Unreachable', nonRetryable: false, nextRetryDelay: 1_000 });
    expect(failure.message).toContain('"shop/web-7": ListContainers: No connection established');
  });
});

describe('stopContainer', () => {
  it('stops exactly this instance, after it has said so, and has seen it gone', async () => {
    fake.put({ id: 'side-0', podUid: 'pod-1', name: 'side' });
    await expect(stop()).resolves.toEqual({ kind: 'stopped' });
    expect(stopsSent()).toEqual([['app-0', 30]]);
    expect(fake.state('app-0')).toBe('exited');
    expect(fake.state('side-0')).toBe('running');
    expect(said).toEqual([
      {
        container: 'app',
        component: 'kruise-daemon-crr',
        type: 'Normal',
        reason: 'Killing',
        message: 'Stopping container app by ContainerRecreateRequest restart-web',
      },
    ]);
  });

  it('is not done before the runtime shows the container as ended', async () => {
    fake.script('StopContainer', () => ({}));
    const stopped = stop();
    await until(() => clock.sleeps.length > 0, 'it has looked and waits');
    fake.exit('app-0');
    clock.advance(20);
    await expect(stopped).resolves.toEqual({ kind: 'stopped' });
    expect(fake.count('ContainerStatus')).toBeGreaterThan(1);
  });

  it('fails when the runtime only claims to have stopped it', async () => {
    fake.script('StopContainer', () => ({}));
    const stopped = stop();
    await until(() => clock.sleeps.length > 0, 'it has looked and waits');
    clock.advance(11_000);
    await expect(stopped).resolves.toEqual({
      kind: 'failed',
      message: 'runtime reported the container as stopped, but still lists it 10s later',
    });
  });

  describe('when there is nothing to stop', () => {
    afterEach(() => {
      expect(stopsSent()).toEqual([]);
      expect(said).toEqual([]);
    });

    it('CRR-35: never touches the instance that has replaced this one', async () => {
      fake.exit('app-0');
      fake.put({ id: 'app-1', podUid: 'pod-1', name: 'app', createdAtMs: Date.now() });
      await expect(stop()).resolves.toEqual({ kind: 'alreadyGone' });
      expect(fake.state('app-1')).toBe('running');
    });

    it('CRR-35: takes an instance that has been restarted more often than the one that was chosen for another', async () => {
      fake.put({ id: 'app-0', podUid: 'pod-1', name: 'app', restartCount: 2 });
      await expect(stop({}, { restartCount: 1 })).resolves.toEqual({ kind: 'alreadyGone' });
      expect(fake.state('app-0')).toBe('running');
    });

    it('says that the node has no such runtime, in its words', async () => {
      await expect(stop({}, { runtime: 'cri-o' })).resolves.toEqual({ kind: 'noRuntime', message: 'no runtime cri-o' });
    });

    it('is done with an instance that the runtime no longer knows', async () => {
      fake.remove('app-0');
      await expect(stop()).resolves.toEqual({ kind: 'alreadyGone' });
    });

    it('never touches a container of the same name in another pod', async () => {
      fake.put({ id: 'app-0', podUid: 'pod-2', name: 'app' });
      await expect(stop()).resolves.toEqual({ kind: 'alreadyGone' });
      expect(fake.state('app-0')).toBe('running');
    });

    it('never touches a container of another name in this pod', async () => {
      fake.put({ id: 'app-0', podUid: 'pod-1', name: 'side' });
      await expect(stop()).resolves.toEqual({ kind: 'alreadyGone' });
    });

    it('waits for an instance that is about to start', async () => {
      fake.put({ id: 'app-0', podUid: 'pod-1', name: 'app', state: 'created' });
      await expect(failureOf(stop())).resolves.toMatchObject({ type: 'Unreachable', nonRetryable: false });
    });

    it('is superseded when the request is gone, being deleted or completed, or another one has its name', async () => {
      const none: readonly (ContainerRecreateRequest | undefined)[] = [
        undefined,
        request(undefined, { metadata: { uid: 'request-2' } }),
        request(undefined, { metadata: { deletionTimestamp: '2026-01-01T00:00:10Z' } }),
        request(undefined, { phase: 'Completed' }),
      ];
      for (const other of none) {
        stored = other;
        await expect(failureOf(stop())).resolves.toMatchObject({ type: 'Superseded', nonRetryable: true });
      }
    });

    it('refuses an order that the request does not give', async () => {
      const labels = { 'crr.apps.kruise.io/pod-uid': 'pod-1', 'crr.apps.kruise.io/node-name': 'node-1' };
      const foreign = [
        request(undefined, { metadata: { labels: { ...labels, 'crr.apps.kruise.io/node-name': 'node-2' } } }),
        request(undefined, { metadata: { labels: { ...labels, 'crr.apps.kruise.io/pod-uid': 'pod-2' } } }),
        request(undefined, { metadata: { labels: {} } }),
        request([{ name: 'side' }]),
      ];
      for (const other of foreign) {
        stored = other;
        await expect(failureOf(stop())).resolves.toMatchObject({ type: 'Invalid', nonRetryable: true });
      }
    });

    it('is tried again while the runtime or the API server is away', async () => {
      const away = async () => {
        throw ApplicationFailure.create({ type: 'Unreachable', message: 'API server away' });
      };
      await expect(failureOf(stop({ readRequest: away }))).resolves.toMatchObject({ message: 'API server away' });
      await fake.down();
      await expect(failureOf(stop())).resolves.toMatchObject({ type: 'Unreachable', nextRetryDelay: 1_000 });
    });

    it('does not begin when it was cancelled during its checks', async () => {
      const first = attempt();
      const reading = Promise.withResolvers<ContainerRecreateRequest>();
      const called = stop({ attempt: () => first.made, readRequest: () => reading.promise });
      await fake.called('ListContainers');
      first.cancel();
      await expect(called).rejects.toBeInstanceOf(CancelledFailure);
      reading.resolve(request());
      await stops.idle();
    });

    it('looks again after it was frozen, and stops nothing if the request has ended meanwhile', async () => {
      const readRequest = async () => {
        const seen = stored;
        // The process stalls for longer than the results of its checks are valid.
        clock.advance(11_000);
        stored = request(undefined, { phase: 'Completed' });
        return seen;
      };
      await expect(failureOf(stop({ readRequest }))).resolves.toMatchObject({ type: 'Superseded' });
      expect(fake.count('ListContainers')).toBe(2);
    });
  });

  it('CRR-42: runs preStop before the stop', async () => {
    stored = request([{ name: 'app', preStop: { exec: { command: ['drain'] } } }]);
    await expect(stop()).resolves.toEqual({ kind: 'stopped', preStop: 'ran' });
    expect(fake.requests('ExecSync')).toMatchObject([{ containerId: 'app-0', cmd: ['drain'], timeout: 0 }]);
    const order = fake.calls.map(({ call }) => call).filter((call) => call === 'ExecSync' || call === 'StopContainer');
    expect(order).toEqual(['ExecSync', 'StopContainer']);
  });

  it('CRR-42: runs no preStop without grace, and still leaves 2 s', async () => {
    stored = request([{ name: 'app', preStop: { exec: { command: ['drain'] } } }], { graceSeconds: 0 });
    await expect(stop({}, { graceSeconds: 0 })).resolves.toEqual({ kind: 'stopped' });
    expect(fake.count('ExecSync')).toBe(0);
    expect(stopsSent()).toEqual([['app-0', 2]]);
  });

  it('H11: has the grace of the request, else of the pod, whatever the workflow says', async () => {
    const containers = [{ name: 'app', preStop: { exec: { command: ['drain'] } } }];
    const annotations = { 'io.kubernetes.pod.terminationGracePeriod': '45' };
    const cases: readonly (readonly [ContainerRecreateRequest, Readonly<Record<string, string>>, number])[] = [
      [request(containers, { graceSeconds: 20 }), annotations, 20],
      [request(containers), annotations, 45],
      [request(containers), {}, 30],
    ];
    for (const [at, [given, written, graceSeconds]] of cases.entries()) {
      stored = given;
      fake.put({ id: `app-${at}`, podUid: 'pod-1', name: 'app', annotations: written });
      const own = { attempt: () => attempt(`attempt ${at}`).made };
      const stopped = stop(own, { containerId: `app-${at}`, graceSeconds: 0 });
      await expect(stopped).resolves.toEqual({ kind: 'stopped', preStop: 'ran' });
      expect(stopsSent().at(-1)).toEqual([`app-${at}`, graceSeconds]);
    }
  });

  it('H11: refuses a request of another namespace than the container', async () => {
    fake.put({ id: 'app-0', podUid: 'pod-1', name: 'app', podNamespace: 'kube-system' });
    await expect(failureOf(stop())).resolves.toMatchObject({
      type: 'Invalid',
      nonRetryable: true,
      message:
        'Cannot stop container "app" of pod "shop/web-7": ContainerRecreateRequest "shop/restart-web" is in another ' +
        'namespace than the container',
    });
    expect(stopsSent()).toEqual([]);
    expect(said).toEqual([]);
  });

  it('CRR-42: takes the IP of the pod from its sandbox, else from the status of the pod', async () => {
    const httpGet = { port: 'web', path: '/stop' };
    stored = request([{ name: 'app', preStop: { httpGet }, ports: [{ name: 'web', containerPort: 8080 }] }]);
    fake.sandboxIp('sandbox-pod-1', '10.0.0.7');
    await stop();

    fake.sandboxIp('sandbox-pod-1', '');
    fake.put({ id: 'app-1', podUid: 'pod-1', name: 'app' });
    pod = podWith([], { podIP: '10.0.0.8' });
    await stop({ attempt: () => attempt('another').made }, { containerId: 'app-1' });
    expect(got).toMatchObject([
      { host: '10.0.0.7', port: 8080, path: '/stop' },
      { host: '10.0.0.8', port: 8080, path: '/stop' },
    ]);
  });

  it('CRR-42: stops after a hook that failed, and says so with the name for the ID', async () => {
    stored = request([{ name: 'app', preStop: { exec: { command: ['drain'] } } }]);
    fake.script('ExecSync', answers(status.UNKNOWN, 'failed to exec in container "app-0": no such file'));
    await expect(stop()).resolves.toEqual({ kind: 'stopped', preStop: 'failed' });
    expect(said.slice(1)).toEqual([
      {
        container: 'app',
        component: 'kruise-daemon-crr',
        type: 'Warning',
        reason: 'FailedPreStopHook',
        message: 'PreStop hook failed: failed to exec in container "app": no such file',
      },
    ]);
  });

  it('CRR-43: takes the whole seconds that the hook has used off the grace', async () => {
    stored = request([{ name: 'app', preStop: { exec: { command: ['drain'] } } }]);
    const hook = held();
    fake.script('ExecSync', hook);
    const stopped = stop();
    await until(() => clock.sleeps.length > 0, 'the hook runs');
    expect(clock.sleeps).toEqual([30_000]);
    clock.advance(7_900);
    hook.release();
    await expect(stopped).resolves.toEqual({ kind: 'stopped', preStop: 'ran' });
    expect(stopsSent()).toEqual([['app-0', 23]]);
  });

  it('CRR-43: goes on after the grace without ending the hook, and leaves 2 s', async () => {
    stored = request([{ name: 'app', preStop: { exec: { command: ['drain'] } } }], { graceSeconds: 10 });
    const hook = held();
    const hookEnded = jest.fn();
    fake.script('ExecSync', async (made, usual) => {
      const answer = await hook(made, usual);
      hookEnded();
      return answer;
    });
    const stopped = stop({}, { graceSeconds: 10 });
    await until(() => clock.sleeps.length > 0, 'the hook runs');
    clock.advance(10_000);
    await expect(stopped).resolves.toEqual({ kind: 'stopped', preStop: 'timedOut' });
    expect(stopsSent()).toEqual([['app-0', 2]]);
    expect(hookEnded).not.toHaveBeenCalled();
    expect(said.at(-1)?.message).toBe('PreStop hook did not end within 10s');
    hook.release();
    await until(() => hookEnded.mock.calls.length === 1, 'the hook has ended by itself');
  });

  it('CRR-44: counts an expired call as an error while the container runs', async () => {
    fake.script('StopContainer', held());
    await expect(stop({ runtimes: hastyStops() })).resolves.toEqual({
      kind: 'failed',
      message: 'runtime did not answer within 0.02s',
    });
    expect(fake.state('app-0')).toBe('running');
  });

  it('trusts the status of the container more than the deadline: an expired call whose container has exited is a stop', async () => {
    fake.script('StopContainer', held());
    // It has exited by the time the runtime is asked, however late that is.
    fake.script('ContainerStatus', (_made, usual) => {
      fake.exit('app-0');
      return usual();
    });
    await expect(stop({ runtimes: hastyStops() })).resolves.toEqual({ kind: 'stopped' });
  });

  /** The runtime under test, with a very short deadline for stops. */
  function hastyStops(): ContainerActivityMeans['runtimes'] {
    const stopContainer = async (id: string) => {
      const hasty = createCriClient(fake.socketPath, { ...patient, call: 20 });
      await hasty.stopContainer(id, 0).finally(() => hasty.close());
    };
    const runtime = { ...client, name: 'containerd', stopContainer };
    return { named: () => [runtime], absence: () => ({ final: true, message: '' }) };
  }

  it('fails with the words of the runtime when it refuses', async () => {
    fake.script('StopContainer', answers(status.UNKNOWN, 'failed to kill container: permission denied'));
    await expect(stop()).resolves.toEqual({ kind: 'failed', message: 'failed to kill container: permission denied' });
  });

  it('is done when the container goes between the check and the stop', async () => {
    fake.script('StopContainer', (_made, usual) => {
      fake.remove('app-0');
      return usual();
    });
    await expect(stop()).resolves.toEqual({ kind: 'stopped' });
  });

  describe('beside others', () => {
    it('two attempts at the same time give one StopContainer, and one outcome', async () => {
      const gate = held();
      fake.script('StopContainer', gate);
      const first = stop({ attempt: () => attempt('workflow 1').made });
      await fake.called('StopContainer');
      const second = stop({ attempt: () => attempt('workflow 2').made });
      gate.release();
      await expect(Promise.all([first, second])).resolves.toEqual([{ kind: 'stopped' }, { kind: 'stopped' }]);
      expect(fake.count('StopContainer')).toBe(1);
      expect(said).toHaveLength(1);
    });

    it('a stop that has begun outlives the cancellation of its activity, which learns how it ended', async () => {
      const gate = held();
      fake.script('StopContainer', gate);
      const first = attempt();
      const called = stop({ attempt: () => first.made });
      await fake.called('StopContainer');
      first.cancel();
      await expect(called).rejects.toBeInstanceOf(CancelledFailure);

      gate.release();
      await stops.idle();
      expect(fake.state('app-0')).toBe('exited');
      // The next attempt of the same activity, as after `temporal activity reset`.
      await expect(stop()).resolves.toEqual({ kind: 'stopped' });
      expect(fake.count('StopContainer')).toBe(1);
      // Another activity finds the state that any daemon would find.
      await expect(stop({ attempt: () => attempt('retry').made })).resolves.toEqual({ kind: 'alreadyGone' });
    });

    it('an attempt that was cancelled before it came here begins nothing', async () => {
      const late = attempt();
      late.cancel();
      await expect(stop({ attempt: () => late.made })).rejects.toBeInstanceOf(CancelledFailure);
      await stops.idle();
      expect(fake.count('StopContainer')).toBe(0);
    });

    it('says in heartbeats what takes so long', async () => {
      stored = request([{ name: 'app', preStop: { exec: { command: ['drain'] } } }]);
      const hook = held();
      fake.script('ExecSync', hook);
      const watched = attempt();
      const stopped = stop({ attempt: () => watched.made });
      await fake.called('ExecSync');
      const another = attempt('another');
      const joined = stop({ attempt: () => another.made });
      await until(() => [watched, another].every(({ heartbeats }) => heartbeats.length > 0), 'both tell what it does');
      const told = { reason: 'RunningPreStop', container: 'app', containerId: 'app-0', message: 'preStop may use 30s' };
      expect([watched.heartbeats[0], another.heartbeats[0]]).toEqual([told, told]);
      hook.release();
      await Promise.all([stopped, joined]);
    });

    it('CRR-40: another container of the pod is stopped only afterwards, and says that it waits for that', async () => {
      stored = request([{ name: 'app' }, { name: 'side' }]);
      fake.put({ id: 'side-0', podUid: 'pod-1', name: 'side' });
      const gate = held();
      fake.script('StopContainer', gate);
      const first = stop();
      await fake.called('StopContainer');
      const next = attempt('restart-containers/pod-1 stop side-0');
      const second = stop({ attempt: () => next.made }, { container: 'side', containerId: 'side-0' });
      await until(() => next.heartbeats.length > 0, 'it tells what it waits for');
      expect(next.heartbeats[0]).toEqual({
        reason: 'Stopping',
        container: 'side',
        containerId: 'side-0',
        message: 'waiting for the stop of another container of its pod',
      });
      expect(fake.count('StopContainer')).toBe(1);

      fake.unscript('StopContainer');
      gate.release();
      await expect(Promise.all([first, second])).resolves.toEqual([{ kind: 'stopped' }, { kind: 'stopped' }]);
      expect(stopsSent().map(([containerId]) => containerId)).toEqual(['app-0', 'side-0']);
    });

    it('says nothing in heartbeats when it takes no time', async () => {
      const watched = attempt();
      await stop({ attempt: () => watched.made });
      expect(watched.heartbeats).toEqual([]);
    });
  });

  describe('CRR-50: when the daemon or the runtime is restarted in the middle', () => {
    it('recognises an instance that has exited', async () => {
      fake.script('StopContainer', (_made, usual) => {
        usual();
        return new Promise<never>(() => undefined);
      });
      stop().catch(() => undefined);
      await until(() => fake.state('app-0') === 'exited', 'the container has ended');
      // A new daemon knows nothing about the old one's stop.
      stops = new InFlight();
      await expect(stop()).resolves.toEqual({ kind: 'alreadyGone' });
      expect(fake.count('StopContainer')).toBe(1);
    });

    it('repeats the stop of an instance that still runs, and its hook', async () => {
      stored = request([{ name: 'app', preStop: { exec: { command: ['drain'] } } }]);
      fake.script('ExecSync', held());
      stop().catch(() => undefined);
      await fake.called('ExecSync');
      fake.unscript('ExecSync');
      stops = new InFlight();
      await expect(stop()).resolves.toEqual({ kind: 'stopped', preStop: 'ran' });
      expect(fake.count('ExecSync')).toBe(2);
      expect(fake.count('StopContainer')).toBe(1);
    });

    async function comeBack(): Promise<void> {
      await fake.up();
      const calls = fake.calls.length;
      // Each advance allows one more attempt; the connection dials at its own pace.
      while (fake.calls.length === calls) {
        clock.advance(1_000);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }

    it('waits for a runtime that goes away, and stops the container if it still runs, with one hook in all', async () => {
      stored = request([{ name: 'app', preStop: { exec: { command: ['drain'] } } }]);
      fake.script('StopContainer', () => new Promise<never>(() => undefined));
      const stopped = stop();
      await fake.called('StopContainer');
      await fake.down();
      await until(() => clock.sleeps.length > 0, 'it has noticed');
      fake.unscript('StopContainer');
      await comeBack();
      await expect(stopped).resolves.toEqual({ kind: 'stopped', preStop: 'ran' });
      expect(fake.count('StopContainer')).toBe(2);
      expect(fake.count('ExecSync')).toBe(1);
      expect(said).toHaveLength(1);
    });

    it('waits for a runtime that goes away, and succeeds if the container has exited meanwhile', async () => {
      fake.script('StopContainer', () => new Promise<never>(() => undefined));
      const stopped = stop();
      await fake.called('StopContainer');
      await fake.down();
      await until(() => clock.sleeps.length > 0, 'it has noticed');
      fake.exit('app-0');
      await comeBack();
      await expect(stopped).resolves.toEqual({ kind: 'stopped' });
      expect(fake.count('StopContainer')).toBe(1);
    });

    it('does not take the answers of a runtime that is starting for a refusal', async () => {
      const starting = answers(status.UNKNOWN, 'server is not initialized yet');
      fake.script('StopContainer', starting, (_made, usual) => usual());
      fake.script('ContainerStatus', starting, starting, (_made, usual) => usual());
      const stopped = stop();
      await until(() => clock.sleeps.length > 0, 'it has noticed');
      const ended = stopped.then(() => true);
      while (!(await Promise.race([ended, new Promise<false>((resolve) => setTimeout(resolve, 1, false))]))) {
        clock.advance(1_000);
      }
      await expect(stopped).resolves.toEqual({ kind: 'stopped' });
      expect(fake.count('StopContainer')).toBe(2);
    });
  });
});

function podWith(
  containerStatuses: readonly ContainerStatus[],
  overrides: { podIP?: string; deletionTimestamp?: string } = {},
): Pod {
  const { podIP, deletionTimestamp } = overrides;
  return aPod({
    metadata: { ...podRef, ...(deletionTimestamp !== undefined && { deletionTimestamp }) },
    spec: { containers: [{ name: 'app' }] },
    status: { containerStatuses, ...(podIP !== undefined && { podIP }) },
  });
}

describe('awaitContainer', () => {
  const wait = { ...target, container: 'app', notContainerId: 'app-0', minStartedSeconds: 0 };

  /** A wait in progress, with its last heartbeat. */
  function awaiting(
    input: Partial<typeof wait & { readonly isYoung: boolean; readonly trouble: string }> = {},
    overrides: Partial<ContainerActivityMeans> = {},
  ) {
    const watched = attempt('await app');
    let ended = false;
    const outcome = activities({ attempt: () => watched.made, ...overrides })
      ['node.v1.awaitContainer']({ ...wait, ...input })
      .finally(() => {
        ended = true;
      });
    outcome.catch(() => undefined);
    const waitsFor = (reason: NodeProgress['reason'], containerId?: string) =>
      until(() => {
        const last = watched.heartbeats.at(-1);
        return last?.reason === reason && last.containerId === containerId && clock.sleeps.length > 0;
      }, `it waits for ${reason} of ${containerId}`);
    return { outcome, waitsFor, cancel: watched.cancel, heartbeats: watched.heartbeats, ended: () => ended };
  }

  function podReports(containerId: string, ready: boolean, restartCount = 1): void {
    pod = podWith([{ name: 'app', ready, restartCount, containerID: `containerd://${containerId}` }]);
    for (const listener of podListeners) listener();
  }

  function kubeletStarts(id: string, restartCount = 1): void {
    const createdAtMs = clock.nowMs() + restartCount;
    fake.put({ id, podUid: 'pod-1', name: 'app', createdAtMs, startedAtMs: clock.nowMs(), restartCount });
  }

  beforeEach(() => {
    fake.exit('app-0');
    podReports('app-0', true, 0);
  });

  it('CRR-33: ends when the newest instance is the one that the pod calls ready', async () => {
    const { outcome, waitsFor } = awaiting();
    await waitsFor('ContainerNotFound');
    kubeletStarts('app-1');
    clock.advance(3_000);
    await waitsFor('ContainerNotReady', 'app-1');
    podReports('app-1', false);
    await waitsFor('ContainerNotReady', 'app-1');
    podReports('app-1', true);
    await expect(outcome).resolves.toEqual({ kind: 'ready', containerId: 'app-1', restartCount: 1 });
    expect(podListeners.size).toBe(0);
    expect(clock.sleeps).toEqual([]);
  });

  it('CRR-33: does not accept the readiness of another instance than the newest', async () => {
    kubeletStarts('app-1');
    podReports('app-1', true);
    kubeletStarts('app-2', 2);
    const { outcome, waitsFor, ended } = awaiting();
    await waitsFor('ContainerNotReady', 'app-2');
    expect(ended()).toBe(false);
    podReports('app-2', true, 2);
    await expect(outcome).resolves.toEqual({ kind: 'ready', containerId: 'app-2', restartCount: 2 });
  });

  it('CRR-33: wants the instance to have run strictly longer than minStartedSeconds', async () => {
    kubeletStarts('app-1');
    podReports('app-1', true);
    const { outcome, waitsFor, ended } = awaiting({ minStartedSeconds: 10 });
    await waitsFor('MinStartedSeconds', 'app-1');
    expect(clock.sleeps).toEqual([10_001]);

    clock.advance(10_000);
    for (const listener of podListeners) listener();
    await until(() => clock.sleeps.includes(1), 'a millisecond is missing');
    expect(ended()).toBe(false);
    clock.advance(1);
    await expect(outcome).resolves.toMatchObject({ kind: 'ready', containerId: 'app-1' });
  });

  it('CRR-33: says on request when time is all that is missing, and when it no longer is', async () => {
    kubeletStarts('app-1');
    const unready = awaiting({ minStartedSeconds: 10, isYoung: false });
    await unready.waitsFor('ContainerNotReady', 'app-1');
    podReports('app-1', true);
    await expect(unready.outcome).resolves.toEqual({ kind: 'changed', isYoung: true });

    const young = awaiting({ minStartedSeconds: 10, isYoung: true });
    await young.waitsFor('MinStartedSeconds', 'app-1');
    podReports('app-1', false);
    await expect(young.outcome).resolves.toEqual({ kind: 'changed', isYoung: false });
  });

  it('says on request why the kubelet does not start it, once, and when the next instance has run for a while', async () => {
    const says = (state: ContainerStatus['state'], lastState?: ContainerStatus['lastState']) => {
      const known = { name: 'app', ready: false, restartCount: 1, containerID: 'containerd://app-1' };
      pod = podWith([{ ...known, ...(state && { state }), ...(lastState && { lastState }) }]);
      for (const listener of podListeners) listener();
    };
    const crashing = { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 10s' } };
    const trouble = 'CrashLoopBackOff: exit code 1 (Error)';
    const untold = awaiting();
    const told = awaiting({ trouble: '' });
    await told.waitsFor('ContainerNotFound');
    says(crashing, { terminated: { exitCode: 1, reason: 'Error' } });
    await expect(told.outcome).resolves.toEqual({ kind: 'changed', isYoung: false, trouble });
    expect(untold.ended()).toBe(false);

    const again = awaiting({ trouble });
    await again.waitsFor('ContainerNotFound');
    kubeletStarts('app-1');
    says({ running: {} });
    await again.waitsFor('ContainerNotReady', 'app-1');
    clock.advance(29_000);
    expect(again.ended()).toBe(false);
    clock.advance(3_000);
    await expect(again.outcome).resolves.toEqual({ kind: 'changed', isYoung: false, trouble: '' });
    untold.cancel();
  });

  it('CRR-33: counts the time of the newest instance when one crashes in between', async () => {
    kubeletStarts('app-1');
    podReports('app-1', true);
    const { outcome, waitsFor } = awaiting({ minStartedSeconds: 10 });
    await waitsFor('MinStartedSeconds', 'app-1');
    clock.advance(9_000);
    fake.exit('app-1');
    podReports('app-1', false);
    await waitsFor('ContainerNotRunning', 'app-1');
    kubeletStarts('app-2', 2);
    podReports('app-2', true, 2);
    await waitsFor('MinStartedSeconds', 'app-2');
    expect(clock.sleeps).toEqual([10_001]);
    clock.advance(10_001);
    await expect(outcome).resolves.toMatchObject({ containerId: 'app-2', restartCount: 2 });
  });

  it('CRR-55: does not compare the times of instance and request', async () => {
    fake.put({ id: 'app-1', podUid: 'pod-1', name: 'app', createdAtMs: clock.nowMs() + 1, startedAtMs: 1_000 });
    podReports('app-1', true);
    await expect(awaiting().outcome).resolves.toMatchObject({ kind: 'ready', containerId: 'app-1' });
  });

  it('CRR-46: waits for a container that nobody starts again', async () => {
    const { waitsFor, ended, cancel, outcome } = awaiting();
    for (let n = 0; n < 5; n += 1) {
      await waitsFor('ContainerNotFound');
      clock.advance(3_000);
    }
    expect(ended()).toBe(false);
    cancel();
    await expect(outcome).rejects.toBeInstanceOf(CancelledFailure);
  });

  it('CRR-11: ends when the pod is being deleted', async () => {
    const { outcome, waitsFor } = awaiting();
    await waitsFor('ContainerNotFound');
    pod = podWith([], { deletionTimestamp: '2026-01-01T00:01:00Z' });
    for (const listener of podListeners) listener();
    await expect(outcome).resolves.toEqual({ kind: 'podGone' });
  });

  it('CRR-11: ends when the pod is gone, and asks the API server whether it is', async () => {
    pod = undefined;
    let answer: () => boolean = () => false;
    const pods = {
      synced: () => true,
      pod: () => undefined,
      lastOutage: () => undefined,
      watch: () => () => undefined,
      isGone: async () => answer(),
    };
    const { outcome, waitsFor } = awaiting({}, { pods });
    await waitsFor('ContainerNotFound');
    answer = () => {
      throw new Error('API server away');
    };
    clock.advance(3_000);
    await waitsFor('ContainerNotFound');
    answer = () => true;
    clock.advance(3_000);
    await expect(outcome).resolves.toEqual({ kind: 'podGone' });
  });

  it('draws no conclusion from a missing pod before all pods are listed', async () => {
    const pods = {
      synced: () => false,
      pod: () => undefined,
      lastOutage: () => undefined,
      watch: () => () => undefined,
      isGone: async () => true,
    };
    const { waitsFor, cancel, ended } = awaiting({}, { pods });
    await waitsFor('ContainerNotFound');
    expect(ended()).toBe(false);
    cancel();
  });

  it('says that the runtime is away, and goes on when it is back', async () => {
    const { outcome, waitsFor } = awaiting();
    await waitsFor('ContainerNotFound');
    await fake.down();
    clock.advance(3_000);
    await waitsFor('RuntimeUnreachable');
    kubeletStarts('app-1');
    podReports('app-1', true);
    await fake.up();
    const calls = fake.calls.length;
    while (fake.calls.length === calls) {
      clock.advance(1_000);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await expect(outcome).resolves.toMatchObject({ kind: 'ready', containerId: 'app-1' });
  });

  it('gives way when the daemon stops, so that the next one waits on', async () => {
    const { outcome, waitsFor } = awaiting();
    await waitsFor('ContainerNotFound');
    stopping.abort();
    await expect(failureOf(outcome)).resolves.toMatchObject({
      type: 'Unreachable',
      nonRetryable: false,
      message: 'Cannot wait for container "app" of pod "shop/web-7": the daemon is stopping',
    });
  });
});

describe('refreshContainer', () => {
  const container = {
    name: 'app',
    image: 'shop:1',
    env: [{ name: 'TIER', valueFrom: { fieldRef: { fieldPath: "metadata.labels['tier']" } } }],
  };

  /** A pod out of service, whose container was started with `tier: silver`. */
  function outdated({ tier = 'gold', gate = 'False', id = 'app-0', nodeName = 'node-1', of = container } = {}): Pod {
    const entry = {
      name: 'app',
      containerID: `containerd://${id}`,
      restartCount: 0,
      plainHash: plainHash(of),
      envHash: expectedEnvHash(of, { labels: { tier: 'silver' } }),
    };
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        ...podRef,
        resourceVersion: '1',
        creationTimestamp: '2026-01-01T00:00:00Z',
        labels: { tier },
        annotations: { [inPlaceAnnotation.containersMeta]: formatContainersMeta([entry]) },
      },
      spec: { nodeName, containers: [of] },
      status: {
        conditions: [{ type: inPlaceReadinessGate, status: gate }],
        containerStatuses: [
          { name: 'app', ready: true, restartCount: 0, containerID: `containerd://${id}`, state: { running: {} } },
        ],
      },
    };
  }

  const refresh = (overrides: Partial<ContainerActivityMeans> = {}, containerId = 'app-0') =>
    activities(overrides)['node.v1.refreshContainer']({
      pod: podRef,
      runtime: 'containerd',
      container: 'app',
      containerId,
    });

  /** Lets the kubelet see the change. */
  async function passTime(): Promise<void> {
    await until(() => clock.sleeps.includes(1_000), 'the kubelet is given its time');
    clock.advance(1_000);
  }

  beforeEach(() => {
    pod = outdated();
    livePod = outdated();
    fake.put({
      id: 'app-0',
      podUid: 'pod-1',
      name: 'app',
      annotations: {
        'io.kubernetes.container.preStopHandler': '{"httpGet":{"path":"/bye","port":"web","host":"10.0.0.7"}}',
        'io.kubernetes.container.ports': '[{"name":"web","hostPort":0,"containerPort":8080,"protocol":"TCP"}]',
        'io.kubernetes.pod.terminationGracePeriod': '20',
      },
    });
  });

  it('ND-27, ND-28: stops the instance as the kubelet has written down, and says so under its own name', async () => {
    const ended = refresh();
    await passTime();
    await expect(ended).resolves.toEqual({ kind: 'stopped', preStop: 'ran' });
    expect(stopsSent()).toEqual([['app-0', 20]]);
    expect(got).toMatchObject([{ path: '/bye', port: 8080 }]);
    expect(said).toEqual([
      {
        container: 'app',
        component: 'kruise-daemon-containermeta',
        type: 'Normal',
        reason: 'Killing',
        message: 'Stopping containerID containerd://app by container meta restarter',
      },
    ]);
  });

  it.each([
    [{ 'io.kubernetes.pod.terminationGracePeriod': '20', 'io.kubernetes.pod.deletionGracePeriod': '7' }, 7],
    [{ 'io.kubernetes.pod.terminationGracePeriod': 'soon', 'io.kubernetes.container.preStopHandler': '{' }, 30],
  ])('ND-28: reads %o as a grace period of %i s', async (annotations, seconds) => {
    fake.put({ id: 'app-0', podUid: 'pod-1', name: 'app', annotations });
    const ended = refresh();
    await passTime();
    await expect(ended).resolves.toEqual({ kind: 'stopped' });
    expect(stopsSent()).toEqual([['app-0', seconds]]);
  });

  it.each([
    ['ND-29: the pod is in service', () => outdated({ gate: 'True' }), 'Superseded'],
    ['ND-27: the environment is what it should be', () => outdated({ tier: 'silver' }), 'Superseded'],
    ['ND-27: another instance runs', () => outdated({ id: 'app-1' }), 'Superseded'],
    ['the pod is gone', () => undefined, 'Superseded'],
    ['the pod is on another node', () => outdated({ nodeName: 'node-2' }), 'Invalid'],
  ])('stops nothing when %s', async (_, live, type) => {
    livePod = live();
    await expect(failureOf(refresh())).resolves.toMatchObject({ type, nonRetryable: true });
    expect(stopsSent()).toEqual([]);
  });

  it('ND-29: stops nothing when the pod comes back into service while the kubelet is given its time', async () => {
    const ended = failureOf(refresh());
    await until(() => clock.sleeps.includes(1_000), 'the kubelet is given its time');
    livePod = outdated({ gate: 'True' });
    clock.advance(1_000);
    await expect(ended).resolves.toMatchObject({ type: 'Superseded' });
    expect(stopsSent()).toEqual([]);
  });

  it('ND-27, IPU-48: stops nothing when the environment changes again while the kubelet is given its time', async () => {
    const ended = failureOf(refresh());
    await until(() => clock.sleeps.includes(1_000), 'the kubelet is given its time');
    pod = outdated({ tier: 'bronze' });
    livePod = pod;
    clock.advance(1_000);
    await expect(ended).resolves.toMatchObject({
      type: 'Unreachable',
      nonRetryable: false,
      message: expect.stringContaining('its environment has changed again; waiting for the kubelet to see that'),
    });
    expect(stopsSent()).toEqual([]);
  });

  /** The kubelet has observed this many of two generations. */
  function behind(observedGeneration: number, annotations: Readonly<Record<string, string>> = {}): Pod {
    const { metadata, status, ...rest } = outdated();
    return {
      ...rest,
      metadata: { ...metadata, generation: 2, annotations: { ...metadata.annotations, ...annotations } },
      status: { ...status, observedGeneration },
    };
  }

  it('waits for a kubelet that has not seen the change, though the daemon of the node has', async () => {
    livePod = behind(1);
    const early = failureOf(refresh());
    await passTime();
    await expect(early).resolves.toMatchObject({ type: 'Unreachable', nonRetryable: false });
    expect(stopsSent()).toEqual([]);
    livePod = behind(2);
    const ended = refresh();
    await passTime();
    await expect(ended).resolves.toMatchObject({ kind: 'stopped' });
  });

  it('waits for the node to see the change: the kubelet must not start the old environment once more', async () => {
    for (const seen of [undefined, outdated({ tier: 'silver' })]) {
      pod = seen;
      await expect(failureOf(refresh())).resolves.toMatchObject({ type: 'Unreachable', nonRetryable: false });
    }
    expect(stopsSent()).toEqual([]);
  });

  it('takes an annotation called constructor for absent where a pod has none of that name', async () => {
    const name = { name: 'BUILDER', valueFrom: { fieldRef: { fieldPath: "metadata.annotations['constructor']" } } };
    const of = { ...container, env: [...container.env, name] };
    livePod = outdated({ of });
    const { annotations: _, ...metadata } = livePod.metadata;
    pod = { ...livePod, metadata };
    const ended = refresh();
    await passTime();
    await expect(ended).resolves.toMatchObject({ kind: 'stopped' });
  });

  it('says that the kubelet gets its time after the API server was away', async () => {
    const leftAfter = async (lastedMs: number, endedMs: number) => {
      lastOutage = () => ({ lastedMs, endedMs });
      const { message, type } = await failureOf(refresh());
      expect(type).toBe('Unreachable');
      return /the API server was unreachable; waiting (\d+) s longer for the kubelet to see the change of the pod/.exec(
        message,
      )?.[1];
    };
    await expect(leftAfter(500, 100)).resolves.toBe('3');
    await expect(leftAfter(10_000, 0)).resolves.toBe('22');
    await expect(leftAfter(900_000, 30_500)).resolves.toBe('30');
    expect(stopsSent()).toEqual([]);
  });

  it('needs no such time where images were changed with it: the kubelet tells that it has seen that', async () => {
    lastOutage = () => ({ lastedMs: 900_000, endedMs: 0 });
    const batch = { timestamp: '2026-01-01T00:00:00Z', containers: ['app', 'other'] };
    const state = (change: Partial<InPlaceState>) => ({
      [inPlaceAnnotation.state]: formatState({
        revision: 'web-2',
        updateTimestamp: '2026-01-01T00:00:00Z',
        updateEnvFromMetadata: true,
        updateResources: false,
        updateImages: true,
        next: noWork,
        requiredReady: [],
        batches: [batch],
        ...change,
      }),
    });
    for (const [observed, change] of [
      [2, { updateImages: false }],
      [2, { batches: [batch, batch] }],
      [1, {}],
    ] as const) {
      livePod = behind(observed, state(change));
      const early = failureOf(refresh());
      if (observed === 1) await passTime();
      await expect(early).resolves.toMatchObject({ type: 'Unreachable' });
    }
    expect(stopsSent()).toEqual([]);
    livePod = behind(2, state({}));
    const ended = refresh();
    await passTime();
    await expect(ended).resolves.toMatchObject({ kind: 'stopped' });
  });

  it('ND-27, IPU-48: stops nothing before the kubelet has started a container from its new image', async () => {
    const other = { name: 'other', image: 'other:2' };
    const state = formatState({
      revision: 'web-2',
      updateTimestamp: '2026-01-01T00:00:00Z',
      lastContainerStatuses: { other: { imageID: 'other:1' } },
      updateEnvFromMetadata: true,
      updateResources: false,
      updateImages: true,
      next: noWork,
      requiredReady: [],
      batches: [{ timestamp: '2026-01-01T00:00:00Z', containers: ['app', 'other'] }],
    });
    const { spec, ...rest } = behind(2, { [inPlaceAnnotation.state]: state });
    livePod = { ...rest, spec: { ...spec, containers: [...spec.containers, other] } };
    const startedFrom = (image: string) => {
      const hash = plainHash({ name: 'other', image }).toString(16);
      fake.put({
        id: `other-${image}`,
        podUid: 'pod-1',
        name: 'other',
        annotations: { [containerHashAnnotation]: hash },
      });
    };
    startedFrom('other:1');

    const early = failureOf(refresh());
    await passTime();
    for (let look = 0; look < 16; look++) {
      await until(() => clock.sleeps.includes(250), 'another look');
      clock.advance(250);
    }
    await expect(early).resolves.toMatchObject({ type: 'Unreachable', nonRetryable: false });
    expect(stopsSent()).toEqual([]);

    const ended = refresh();
    await passTime();
    await until(() => clock.sleeps.includes(250), 'a look at the runtime');
    fake.remove('other-other:1');
    startedFrom('other:2');
    clock.advance(250);
    await expect(ended).resolves.toMatchObject({ kind: 'stopped' });
    expect(stopsSent()).toEqual([['app-0', 20]]);
  });

  it('ND-27, IPU-48: stops a container once, however late its kubelet is back after the API server was away', async () => {
    let plays = 0;
    /** For one change of a label alone, which arrives as soon as the API server is back. */
    const stopsUntilRefreshed = async (
      kubeletBackMs: number,
      awayMs: number,
      daemonLateMs: number,
    ): Promise<number> => {
      plays += 1;
      const backAtMs = clock.nowMs() - daemonLateMs;
      const daemonBackAtMs = clock.nowMs();
      lastOutage = () => ({ lastedMs: awayMs + daemonLateMs, endedMs: clock.nowMs() - daemonBackAtMs });
      for (let stopped = 0, isGold = false; ; ) {
        if (isGold) return stopped;
        const id = `play-${plays}-${stopped}`;
        fake.put({ id, podUid: 'pod-1', name: 'app' });
        pod = outdated({ id });
        livePod = pod;
        let outcome: string | undefined;
        const ended = refresh({}, id).then(
          ({ kind }) => kind,
          (error: unknown) => failureOf(Promise.reject(error)).then(({ type }) => type ?? ''),
        );
        void ended.then((kind) => {
          outcome = kind;
        });
        await until(() => outcome !== undefined || clock.sleeps.includes(1_000), 'it gives up or waits');
        clock.advance(1_000);
        if ((await ended) !== 'stopped') continue;
        stopped += 1;
        // the kubelet starts the next instance with what it knows
        isGold = clock.nowMs() - backAtMs >= kubeletBackMs;
      }
    };
    /** When a kubelet reconnects after the API server is back, if its pauses are longer by these shares. */
    const backAfterMs = (awayMs: number, shares: readonly number[]): number => {
      let triedAtMs = 0;
      for (let attempt = 0; triedAtMs < awayMs; attempt++) {
        const pauseMs = Math.min(800 * 2 ** attempt, 30_000);
        triedAtMs += pauseMs * (1 + (shares[attempt % shares.length] ?? 0));
      }
      return triedAtMs - awayMs;
    };
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    const away = fc.oneof(fc.nat(3_000), fc.nat(30_000), fc.nat(200_000));
    const late = fc.oneof(fc.constant(0), fc.nat(30_000));
    const outages = [away, fc.array(share, { minLength: 1, maxLength: 12 }), late] as const;
    const once = async (awayMs: number, shares: readonly number[], daemonLateMs: number) =>
      expect(await stopsUntilRefreshed(backAfterMs(awayMs, shares), awayMs, daemonLateMs)).toBe(1);
    await fc.assert(fc.asyncProperty(...outages, once), { numRuns: Number(process.env.PLAYS ?? 30) });
  });

  it('ND-28: leaves alone what has ended', async () => {
    fake.exit('app-0');
    const ended = refresh();
    await passTime();
    await expect(ended).resolves.toEqual({ kind: 'alreadyGone' });
  });

  it('joins a stop of the same instance that is under way', async () => {
    const stopped = held();
    fake.script('StopContainer', stopped);
    const first = refresh({ attempt: () => attempt('a').made });
    await passTime();
    await fake.called('StopContainer');
    const second = refresh({ attempt: () => attempt('b').made });
    stopped.release();
    await expect(Promise.all([first, second])).resolves.toHaveLength(2);
    expect(fake.count('StopContainer')).toBe(1);
  });
});
