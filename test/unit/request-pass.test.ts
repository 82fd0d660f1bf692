import { describe, expect, it } from '@jest/globals';
import { cloneSets } from '../../api/cloneset/types.ts';
import { parseRestartChanged, restartContainersId } from '../../api/container-recreate-request/operation.ts';
import { recreateWait } from '../../api/container-recreate-request/texts.ts';
import { type ContainerRecreateRequest, crr } from '../../api/container-recreate-request/types.ts';
import { apiVersionOf, type KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { formatKeys, heldKeys } from '../../api/core/pod-readiness.ts';
import {
  crrLabel,
  crrUnreadyFinalizer,
  kubeResource,
  podReadinessGate,
  windlassAnnotation,
} from '../../api/core/well-known.ts';
import { type EngineTrouble, engineNoDaemon, engineSilent, engineStuck } from '../../api/engine/engine-trouble.ts';
import { inPlaceAnnotation, inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { formatContainersMeta, plainHash } from '../../api/in-place/containers-meta.ts';
import { expectedEnvHash } from '../../api/in-place/env-hash.ts';
import { terminationRequestName } from '../../api/job-sidecar-termination.ts';
import { EventBudget } from '../../kube/events.ts';
import { tellWithdrawn } from '../../watcher/kinds/container-recreate-request/operation.ts';
import { passOverRequests, requestIndexes } from '../../watcher/kinds/container-recreate-request/pass.ts';
import { releaseDeadKeys } from '../../watcher/kinds/container-recreate-request/release.ts';
import { podUidOf } from '../../watcher/kinds/container-recreate-request/request.ts';
import type { RequestPassDependencies } from '../../watcher/kinds/container-recreate-request/request-pass-dependencies.ts';
import type { WantedOperation } from '../../watcher/starter.ts';
import { trimPod } from '../../watcher/trim.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { createdAt } from '../support/objects/metadata.ts';
import { aNode } from '../support/objects/node.ts';
import { cacheOf, conflict, gatedPod, request, unavailable } from '../support/recreate-requests.ts';

interface Setting {
  readonly requests: readonly ContainerRecreateRequest[];
  readonly pods?: readonly Pod[];
  /** Seconds since the requests were made. */
  readonly seconds?: number;
  /** Why Temporal does not continue the operation of the pod. */
  readonly trouble?: EngineTrouble;
  /** IDs of operations whose current inputs Temporal knows. */
  readonly sent?: readonly string[];
  readonly meet?: (call: SeenCall) => void;
  readonly commandFails?: boolean;
  /** Whether the daemons report containers. */
  readonly gate?: boolean;
}

const workflowId = restartContainersId({ namespace: 'shop', name: 'web', uid: 'pod-1' });
const lock = 'restart-containers/pod-1';
const stuck = engineStuck({ workflowId, temporalNamespace: 'default', wasBegunAnew: false });

/** A watcher whose caches equal the API server. */
function watcherAt({
  requests,
  pods = [gatedPod()],
  seconds = 0,
  trouble,
  sent = [],
  meet,
  commandFails,
  gate = true,
}: Setting) {
  const cluster = new MemoryCluster();
  for (const each of requests) cluster.put(crr, each);
  for (const pod of pods) cluster.put(kubeResource.pods, pod);
  const live = <T extends KubeObject>(
    resource: typeof crr | typeof kubeResource.pods,
    of: { metadata: { name: string; namespace?: string } },
  ) => cluster.look<T>(resource, of.metadata) as T;

  const wanted: WantedOperation[] = [];
  const forgotten: string[] = [];
  const told: (readonly [string, unknown])[] = [];
  const commands: (readonly [string, string, unknown])[] = [];
  const writes: SeenCall[] = [];
  const world: RequestPassDependencies = {
    kube: cluster.client((call) => {
      meet?.(call);
      if (call.verb !== 'get') writes.push(call);
    }),
    requests: cacheOf(
      requests.map((each) => live<ContainerRecreateRequest>(crr, each)),
      requestIndexes,
    ),
    pods: cacheOf(pods.map((pod) => live<Pod>(kubeResource.pods, pod))),
    nodes: cacheOf([aNode()]),
    commandEvents: new EventBudget(() => 0),
    starter: {
      trouble: (id) => (id === workflowId ? trouble : undefined),
      want: (operation) => void wanted.push(operation),
      forget: (id) => void forgotten.push(id),
      tell: async (id, change) => told.push([id, change]) > 0,
      command: async (id, name, payload) => {
        if (commandFails) throw new Error('14 UNAVAILABLE');
        commands.push([id, name, payload]);
      },
      isSent: (id) => sent.includes(id),
    },
    gates: { DaemonWatchingPod: gate, InPlaceUpdateEnvFromMetadata: true },
    now: () => Date.parse(createdAt) + seconds * 1_000,
  };
  return {
    world,
    wanted,
    forgotten,
    told,
    commands,
    writes,
    pass: () => passOverRequests('pod-1', world),
    read: (name: string) => cluster.look<ContainerRecreateRequest>(crr, { namespace: 'shop', name }),
    pod: () => cluster.look<Pod>(kubeResource.pods, { namespace: 'shop', name: 'web' }) as Pod,
  };
}

function completed(name: string, overrides: Parameters<typeof request>[0] = {}): ContainerRecreateRequest {
  return request({
    name,
    ...overrides,
    status: { phase: 'Completed', completionTime: createdAt, ...overrides.status },
  });
}

const draining = { finalizers: [crrUnreadyFinalizer] };

/** The pod with keys of these requests. */
function heldPod(...names: readonly string[]): Pod {
  const message = formatKeys(names.map((name) => ({ userAgent: 'ContainerRecreateRequest', key: `shop/${name}` })));
  return gatedPod({ status: { conditions: [{ type: podReadinessGate, status: 'False', message }] } });
}

function gateOf(pod: Pod) {
  return pod.status?.conditions?.find(({ type }) => type === podReadinessGate);
}

/** A request from a client that admission did not authenticate. */
function unfilled(name: string, containers: readonly string[]): ContainerRecreateRequest {
  return request({ name, spec: { containers: containers.map((container) => ({ name: container })) } });
}

const startedPod = gatedPod({
  spec: {
    containers: [
      { name: 'app', ports: [{ containerPort: 80 }], lifecycle: { preStop: { httpGet: { port: 80 } } } },
      { name: 'side' },
    ],
    terminationGracePeriodSeconds: 7,
  } as unknown as NonNullable<Pod['spec']>,
  status: {
    containerStatuses: ['app', 'side'].map((name) => ({
      name,
      containerID: `containerd://${name}-4`,
      restartCount: 4,
    })),
  } as unknown as NonNullable<Pod['status']>,
});

describe('a request that admission has not filled in', () => {
  it('H3, CRR-5, CRR-7: is filled in before anything is started for it, and started in the next pass', async () => {
    const { pass, wanted, read } = watcherAt({ requests: [unfilled('crr-a', ['app', 'side'])], pods: [startedPod] });
    await pass();
    expect(wanted).toEqual([]);
    const filled = read('crr-a');
    expect(filled?.spec).toMatchObject({
      containers: [
        {
          name: 'app',
          preStop: { httpGet: { port: 80 } },
          ports: [{ containerPort: 80 }],
          statusContext: { containerID: 'containerd://app-4', restartCount: 4 },
        },
        { name: 'side', statusContext: { containerID: 'containerd://side-4', restartCount: 4 } },
      ],
      strategy: { terminationGracePeriodSeconds: 7 },
    });
    expect(filled?.metadata.labels?.[crrLabel.podUid]).toBe('pod-1');

    const next = watcherAt({ requests: filled ? [filled] : [], pods: [startedPod] });
    await next.pass();
    expect(next.wanted.map(({ about }) => about.name)).toEqual(['crr-a']);
    expect(next.writes).toEqual([]);
  });

  it('H3, CRR-6: ends with every problem and its path where it names containers that cannot be restarted', async () => {
    const requests = [unfilled('crr-a', ['none', 'app', 'other'])];
    const { pass, wanted, read } = watcherAt({ requests, pods: [startedPod] });
    await pass();
    const text =
      'spec.containers[0].name: container "none" is not a container of pod "web", which has app, side; ' +
      'spec.containers[2].name: container "other" is not a container of pod "web", which has app, side';
    expect(read('crr-a')?.status).toMatchObject({
      phase: 'Completed',
      completionTime: createdAt,
      message: text,
      conditions: [{ type: 'Failed', status: 'True', reason: 'InvalidRequest', message: text }],
    });
    expect(wanted).toEqual([]);
  });

  it('H3, CRR-35: is filled in behind another one, too, so that what is replaced meanwhile counts as replaced', async () => {
    const behind = recreateWait('Queued', { blockedBy: ['crr/crr-a'], since: createdAt });
    const { pass, wanted, read } = watcherAt({
      requests: [
        request({ name: 'crr-a' }),
        { ...unfilled('crr-b', ['app']), status: { phase: 'Pending', waitingFor: behind } },
      ],
      pods: [startedPod],
    });
    await pass();
    expect(wanted.map(({ about }) => about.name)).toEqual(['crr-a']);
    expect(read('crr-b')?.spec.containers[0]?.statusContext?.containerID).toBe('containerd://app-4');
  });

  it('H3, CRR-35: takes an instance that has been started since its creation for another one', async () => {
    const started = (name: string, startedAt: string, lastState = {}) => ({
      ...{ name, containerID: `containerd://${name}-4`, restartCount: 4 },
      ...{ state: { running: { startedAt } }, lastState },
    });
    const [before, since] = [createdAt.replace('2026', '2025'), createdAt];
    const pod = {
      ...startedPod,
      status: {
        containerStatuses: [
          started('app', since, { terminated: { containerID: 'containerd://app-3' } }),
          started('side', before),
        ],
      } as unknown as NonNullable<Pod['status']>,
    };
    const { pass, read } = watcherAt({ requests: [unfilled('crr-a', ['app', 'side'])], pods: [pod] });
    await pass();
    expect(read('crr-a')?.spec.containers).toMatchObject([
      { name: 'app', statusContext: { containerID: 'containerd://app-3', restartCount: 3 } },
      { name: 'side', statusContext: { containerID: 'containerd://side-4', restartCount: 4 } },
    ]);
  });

  it('H3, CRR-11: is started all the same where its pod is gone, which the operation says', async () => {
    const { pass, wanted } = watcherAt({ requests: [unfilled('crr-a', ['app'])], pods: [] });
    await pass();
    expect(wanted.map(({ about }) => about.name)).toEqual(['crr-a']);
  });

  it('H3: holds up nothing else while it cannot be filled in, and is tried again', async () => {
    const meet = ({ verb, plural }: SeenCall) => {
      if (verb === 'get' && plural === 'pods') throw unavailable();
    };
    const { pass, wanted, read } = watcherAt({
      requests: [request({ name: 'crr-a' }), unfilled('crr-b', ['app'])],
      pods: [startedPod],
      meet,
    });
    await expect(pass()).rejects.toThrow();
    expect(wanted.map(({ about }) => about.name)).toEqual(['crr-a']);
    expect(read('crr-b')?.status).toMatchObject({ phase: 'Pending', waitingFor: { reason: 'Queued' } });
  });
});

describe('the operation of a pod', () => {
  it('CRR-31: is started for a lone request, which nobody writes to', async () => {
    const { pass, wanted, writes } = watcherAt({ requests: [request()] });
    expect(await pass()).toBeUndefined();
    expect(wanted).toMatchObject([
      {
        workflowId,
        taskQueue: 'cluster',
        argument: {
          request: { namespace: 'shop', name: 'crr-a', uid: 'uid-of-crr-a' },
          pod: { namespace: 'shop', name: 'web', uid: 'pod-1' },
          node: { name: 'node-1', uid: 'uid-of-node-1' },
        },
        about: { kind: 'ContainerRecreateRequest', namespace: 'shop', name: 'crr-a', node: 'node-1' },
      },
    ]);
    expect(writes).toEqual([]);
  });

  it('is named as caused by the termination of sidecars that has created the request', async () => {
    const owner = { apiVersion: 'v1', kind: 'Pod', name: 'web', uid: 'pod-1', controller: true };
    const caused = request({ name: terminationRequestName('pod-1'), metadata: { ownerReferences: [owner] } });
    const [own, other] = [watcherAt({ requests: [caused] }), watcherAt({ requests: [request()] })];
    await Promise.all([own.pass(), other.pass()]);
    expect(own.wanted).toMatchObject([
      {
        argument: { cause: 'terminate-sidecars/shop/web/pod-1' },
        about: { cause: 'terminate-sidecars/shop/web/pod-1' },
      },
    ]);
    expect(other.wanted.map(({ about }) => about.cause)).toEqual([undefined]);
  });

  it('CRR-30: is wanted for exactly one of two requests of the same second', async () => {
    const { pass, wanted, read } = watcherAt({ requests: [request({ name: 'crr-b' }), request({ name: 'crr-a' })] });
    await pass();
    expect(wanted.map(({ about }) => about.name)).toEqual(['crr-a']);
    expect(read('crr-b')?.status).toMatchObject({ phase: 'Pending', waitingFor: { reason: 'Queued' } });
    expect(read('crr-a')?.status).toBeUndefined();
  });

  it('CRR-32: passes to the next request when the first has completed or goes', async () => {
    const goes = request({ name: 'goes', metadata: { deletionTimestamp: createdAt }, status: { phase: 'Recreating' } });
    const { pass, wanted } = watcherAt({ requests: [completed('done'), goes, request({ name: 'next' })] });
    await pass();
    expect(wanted.map(({ about }) => about.name)).toEqual(['next']);
  });

  it('is forgotten when no request of the pod is open', async () => {
    const { pass, forgotten, wanted } = watcherAt({ requests: [completed('done')] });
    await pass();
    expect(forgotten).toEqual([lock]);
    expect(wanted).toEqual([]);
  });

  it('CRR-11: hears when its pod goes, its node becomes another, or its words are written over', async () => {
    const inputsOf = async (setting: Partial<Setting>) => {
      const { pass, wanted } = watcherAt({ requests: [request()], ...setting });
      await pass();
      return wanted[0]?.inputs;
    };
    const usual = await inputsOf({});
    const silent = { reason: 'EngineSilent', blockedBy: ['temporal'], blockedCount: 1, since: createdAt, unblock: '' };
    const stuckSince = { ...silent, reason: 'EngineStuck' };
    const changed = [
      await inputsOf({ pods: [] }),
      await inputsOf({ pods: [gatedPod({ metadata: { deletionTimestamp: createdAt } })] }),
      await inputsOf({
        requests: [request({ metadata: { labels: { [crrLabel.podUid]: 'pod-1', [crrLabel.nodeName]: 'else' } } })],
      }),
      await inputsOf({ requests: [request({ uid: 'another' })] }),
      await inputsOf({ requests: [request({ status: { phase: 'Recreating', waitingFor: silent } })] }),
      await inputsOf({ requests: [request({ status: { phase: 'Recreating', waitingFor: stuckSince } })] }),
    ];
    for (const inputs of changed) expect(inputs).not.toBe(usual);
    expect(await inputsOf({ requests: [request({ status: { phase: 'Recreating' } })] })).toBe(usual);
  });

  it('CRR-46: is told when its pod ends, of which the caches keep no phase from then on', async () => {
    const inputs = await Promise.all(
      ['Pending', 'Running', 'Failed'].map(async (phase) => {
        const pods = [trimPod(gatedPod({ status: { phase } }))];
        const { pass, wanted } = watcherAt({ requests: [request()], pods });
        await pass();
        return wanted[0]?.inputs;
      }),
    );
    expect(inputs[1]).toBe(inputs[0]);
    expect(inputs[2]).not.toBe(inputs[0]);
  });

  it('CRR-12: is asked of a queue where nobody listens when the node is gone, so that its silence is noticed', async () => {
    const labels = { [crrLabel.podUid]: 'pod-1', [crrLabel.nodeName]: 'node-9' };
    const { pass, wanted } = watcherAt({ requests: [request({ metadata: { labels } })] });
    await pass();
    expect(wanted).toMatchObject([{ argument: { node: { name: 'node-9', uid: 'gone-node-9' } } }]);
  });

  it('CRR-53: is told when its request goes, unless that has completed', async () => {
    const { world, told } = watcherAt({ requests: [] });
    await tellWithdrawn(request(), world);
    expect(told).toMatchObject([[workflowId, { withdrawn: true, operation: { request: { name: 'crr-a' } } }]]);
    await tellWithdrawn(completed('done'), world);
    await tellWithdrawn(request({ metadata: { labels: {} } }), world);
    expect(told).toHaveLength(1);
  });
});

describe('those who wait', () => {
  const behind = [request({ name: 'crr-a' }), request({ name: 'crr-b' }), request({ name: 'crr-c' })];

  it('CRR-30: say for whom, once', async () => {
    const { pass, read, writes, world } = watcherAt({ requests: behind, seconds: 5 });
    await pass();
    expect(read('crr-c')?.status).toEqual({
      phase: 'Pending',
      waitingFor: {
        reason: 'Queued',
        blockedBy: ['crr/crr-a'],
        blockedCount: 1,
        since: '2026-01-01T00:00:05Z',
        unblock: 'Wait for the request ahead in the queue, or delete it',
      },
    });
    expect(writes).toHaveLength(2);

    const seen = ['crr-a', 'crr-b', 'crr-c'].flatMap((name) => read(name) ?? []);
    const later = { ...world, requests: cacheOf(seen, requestIndexes), now: () => world.now() + 60_000 };
    await passOverRequests('pod-1', later);
    expect(writes).toHaveLength(2);
  });

  it('CRR-30: say so under the name of the new first, and keep a phase that they have', async () => {
    const status = { phase: 'Recreating' } as const;
    const { pass, read } = watcherAt({
      requests: [request({ name: 'crr-b', status }), request({ name: 'crr-c', status })],
    });
    await pass();
    expect(read('crr-c')?.status).toMatchObject({ phase: 'Recreating', waitingFor: { blockedBy: ['crr/crr-b'] } });
  });

  it('ignore a conflict, since the watch event of the change will follow', async () => {
    const { pass } = watcherAt({
      requests: behind,
      meet: ({ verb }) => {
        if (verb === 'patch') throw conflict();
      },
    });
    expect(await pass()).toBeUndefined();
  });

  it('fail the pass when the API server is away, so that it is repeated', async () => {
    const { pass } = watcherAt({
      requests: behind,
      meet: ({ verb }) => {
        if (verb === 'patch') throw unavailable();
      },
    });
    await expect(pass()).rejects.toThrow('etcd is away');
  });

  it('CRR-13: end at their deadline, which runs in the queue, too', async () => {
    const patient = request({ name: 'crr-b', spec: { activeDeadlineSeconds: 60 } });
    const hasty = request({ name: 'crr-c', spec: { activeDeadlineSeconds: 10 } });
    const { pass, read } = watcherAt({ requests: [request({ name: 'crr-a' }), patient, hasty], seconds: 10 });
    expect(await pass()).toEqual({ againInMs: 50_000 });
    expect(read('crr-b')?.status).toMatchObject({ phase: 'Pending' });
    expect(read('crr-c')?.status).toMatchObject({
      phase: 'Completed',
      completionTime: '2026-01-01T00:00:10Z',
      message: 'recreating has exceeded the activeDeadlineSeconds',
      conditions: [{ type: 'Failed', status: 'True', reason: 'DeadlineExceeded' }],
      observedGeneration: 1,
    });
    expect(read('crr-c')?.status).not.toHaveProperty('waitingFor');
  });

  it('CRR-13: leave the deadline of the first to its operation', async () => {
    const { pass, writes } = watcherAt({ requests: [request({ spec: { activeDeadlineSeconds: 10 } })], seconds: 99 });
    expect(await pass()).toBeUndefined();
    expect(writes).toEqual([]);
  });

  it('EngineSilent: the first says so while Temporal does not answer, begun or not, and once', async () => {
    for (const status of [undefined, { phase: 'Recreating' as const }]) {
      const { pass, read, writes, world } = watcherAt({
        requests: [request(status ? { status } : {})],
        trouble: engineSilent,
      });
      await pass();
      expect(read('crr-a')?.status).toMatchObject({
        phase: status?.phase ?? '',
        waitingFor: { reason: 'EngineSilent', blockedBy: ['temporal'] },
      });
      const seen = read('crr-a');
      await passOverRequests('pod-1', { ...world, requests: cacheOf(seen ? [seen] : [], requestIndexes) });
      expect(writes).toHaveLength(1);
    }
  });

  it('EngineSilent: does not write over a pause, which must be in the status should Temporal lose its memory', async () => {
    const waitingFor = { reason: 'Paused', blockedBy: [], blockedCount: 0, since: createdAt, unblock: '' };
    for (const trouble of [engineSilent, stuck]) {
      const { pass, writes } = watcherAt({
        requests: [request({ status: { phase: 'Recreating', waitingFor } })],
        trouble,
      });
      await pass();
      expect(writes).toEqual([]);
    }
  });

  it('EngineStuck: the first says which workflow and what helps, once, and keeps since when if that changes', async () => {
    const { pass, read, writes, world } = watcherAt({
      requests: [request({ status: { phase: 'Recreating' } })],
      trouble: stuck,
    });
    await pass();
    expect(read('crr-a')?.status).toEqual({
      phase: 'Recreating',
      waitingFor: {
        reason: 'EngineStuck',
        blockedBy: [`workflow/${workflowId}`],
        blockedCount: 1,
        since: createdAt,
        unblock: stuck.unblock,
      },
    });
    const later = async (trouble: EngineTrouble) => {
      const seen = read('crr-a');
      const requests = cacheOf(seen ? [seen] : [], requestIndexes);
      const starter = { ...world.starter, trouble: () => trouble };
      await passOverRequests('pod-1', { ...world, requests, starter, now: () => world.now() + 60_000 });
    };
    await later(stuck);
    expect(writes).toHaveLength(1);
    const again = engineStuck({ workflowId, temporalNamespace: 'default', wasBegunAnew: true });
    await later(again);
    expect(read('crr-a')?.status?.waitingFor).toMatchObject({ since: createdAt, unblock: again.unblock });
  });

  it('EngineStuck: is asked with what the request says, so that one whose operation goes on is found out', async () => {
    const shown: unknown[] = [];
    const ask = async (waitingFor?: ReturnType<typeof recreateWait>) => {
      const { world } = watcherAt({
        requests: [request({ status: { phase: '', ...(waitingFor && { waitingFor }) } })],
      });
      const trouble = (_: string, reason?: string) => void shown.push(reason);
      await passOverRequests('pod-1', { ...world, starter: { ...world.starter, trouble } });
    };
    await ask();
    await ask(recreateWait('Stopping', { blockedBy: [], since: createdAt }));
    await ask(recreateWait('EngineStuck', { blockedBy: [], since: createdAt }));
    expect(shown).toEqual(['', 'Stopping', 'EngineStuck']);
  });
});

describe('a request whose node has no daemon', () => {
  const since = '2026-11-28T10:00:00Z';
  const onNode = { labels: { [crrLabel.podUid]: 'pod-1', [crrLabel.nodeName]: 'node-a' } };

  function watcherOf(waiting: string | undefined, isDown: () => boolean) {
    const waitingFor = waiting && { reason: waiting, blockedBy: [], blockedCount: 0, since: createdAt, unblock: '' };
    const given = request({ metadata: onNode, ...(waitingFor && { status: { phase: 'Recreating', waitingFor } }) });
    const { world, ...seen } = watcherAt({ requests: [given] });
    const asked: unknown[] = [];
    const trouble: typeof world.starter.trouble = (_id, _shown, needs) => {
      asked.push(needs?.node?.name);
      return needs?.node && isDown() ? engineNoDaemon(needs.node.name, since) : undefined;
    };
    const starter = { ...world.starter, trouble };
    return { ...seen, asked, pass: () => passOverRequests('pod-1', { ...world, starter }) };
  }

  it('EngineNoDaemon: says so before its operation has written any status', async () => {
    const { pass, read, asked } = watcherOf(undefined, () => true);
    await pass();
    expect(read('crr-a')?.status).toMatchObject({
      phase: '',
      waitingFor: { reason: 'EngineNoDaemon', blockedBy: ['node/node-a'], unblock: expect.stringContaining(since) },
    });
    expect(asked).toContain('node-a');
  });

  it('EngineNoDaemon: asks its operation for the status of before once, when the daemon is back', async () => {
    let isDown = true;
    const { pass, wanted } = watcherOf('EngineNoDaemon', () => isDown);
    const inputs = async () => {
      await pass();
      return wanted.at(-1)?.inputs;
    };
    const before = watcherOf('Stopping', () => false);
    await before.pass();
    expect(await inputs()).toBe(before.wanted[0]?.inputs);
    isDown = false;
    expect(await inputs()).not.toBe(before.wanted[0]?.inputs);
  });

  it('EngineNoDaemon: leaves a node that the operation itself has found silent', async () => {
    const { pass, writes } = watcherOf('NodeSilent', () => true);
    await pass();
    expect(writes).toEqual([]);
  });
});

describe('what finished requests hold', () => {
  it('CRR-10, CRR-24: the key of the pod goes first, then the finalizer and the active label', async () => {
    const done = completed('crr-a', { metadata: draining });
    const { pass, read, pod, writes } = watcherAt({ requests: [done], pods: [heldPod('crr-a')] });
    await pass();
    expect(writes.map(({ plural }) => plural)).toEqual(['pods', 'containerrecreaterequests']);
    expect(gateOf(pod())).toMatchObject({ status: 'True', message: '[]' });
    expect(read('crr-a')?.metadata.finalizers).toEqual([]);
    expect(read('crr-a')?.metadata.labels).toEqual({ [crrLabel.podUid]: 'pod-1', [crrLabel.nodeName]: 'node-1' });
  });

  it('CRR-24: is not touched while the request goes on', async () => {
    const open = request({ metadata: draining, status: { phase: 'Recreating' } });
    const { pass, writes } = watcherAt({ requests: [open], pods: [heldPod('crr-a')] });
    await pass();
    expect(writes).toEqual([]);
  });

  it('CRR-10: is given back for a request that is being deleted, whose other finalizers and label stay', async () => {
    const metadata = { deletionTimestamp: createdAt, finalizers: ['else.io/keep', crrUnreadyFinalizer] };
    const goes = request({ metadata, status: { phase: 'Recreating' } });
    const { pass, read, pod } = watcherAt({ requests: [goes], pods: [heldPod('crr-a', 'crr-b')] });
    await pass();
    expect(read('crr-a')?.metadata).toMatchObject({
      finalizers: ['else.io/keep'],
      labels: { [crrLabel.active]: 'true' },
    });
    expect(heldKeys(pod().status?.conditions).map(({ key }) => key)).toEqual(['shop/crr-b']);
    expect(gateOf(pod())?.status).toBe('False');
  });

  it('CRR-10, PRG-17: needs no pod: one that is gone, going or another needs no release', async () => {
    const done = completed('crr-a', { metadata: draining });
    const going = { ...heldPod('crr-a'), metadata: { ...gatedPod().metadata, deletionTimestamp: createdAt } };
    const other = { ...heldPod('crr-a'), metadata: { ...gatedPod().metadata, uid: 'pod-2' } };
    for (const pods of [[], [going], [other]]) {
      const { pass, read, writes } = watcherAt({ requests: [done], pods });
      await pass();
      expect(writes.filter(({ plural }) => plural === 'pods')).toEqual([]);
      expect(read('crr-a')?.metadata.finalizers).toEqual([]);
    }
  });

  it('keeps the finalizer when the key cannot be taken off, and tries a conflict with the kubelet again at once', async () => {
    const done = completed('crr-a', { metadata: draining });
    let conflicts = 0;
    const meeting = (most: number) => (call: SeenCall) => {
      if (call.verb === 'patch' && call.plural === 'pods' && ++conflicts <= most) throw conflict();
    };
    const lucky = watcherAt({ requests: [done], pods: [heldPod('crr-a')], meet: meeting(2) });
    await lucky.pass();
    expect(lucky.read('crr-a')?.metadata.finalizers).toEqual([]);
    expect(gateOf(lucky.pod())?.status).toBe('True');

    conflicts = 0;
    const unlucky = watcherAt({ requests: [done], pods: [heldPod('crr-a')], meet: meeting(99) });
    await expect(unlucky.pass()).rejects.toThrow('modified');
    expect(unlucky.read('crr-a')?.metadata.finalizers).toEqual([crrUnreadyFinalizer]);
  });

  it('PRG-21: a key whose request is completed, unknown, or of another pod is taken off the pod', async () => {
    const others = [completed('done'), request({ name: 'elsewhere', podUid: 'pod-2' }), request({ name: 'alive' })];
    const held = heldPod('done', 'unknown', 'elsewhere', 'alive');
    const { world, pod } = watcherAt({ requests: others, pods: [held] });
    await releaseDeadKeys(held, world);
    expect(heldKeys(pod().status?.conditions).map(({ key }) => key)).toEqual(['shop/alive']);
  });

  it('PRG-21: keys of other holders, and of requests that still give theirs back themselves, stay', async () => {
    const message = formatKeys([
      { userAgent: 'Lifecycle', key: 'preDeleteHook' },
      { userAgent: 'ContainerRecreateRequest', key: 'shop/done' },
    ]);
    const held = gatedPod({ status: { conditions: [{ type: podReadinessGate, status: 'False', message }] } });
    const { world, writes } = watcherAt({ requests: [completed('done', { metadata: draining })], pods: [held] });
    await releaseDeadKeys(held, world);
    expect(writes).toEqual([]);
  });

  it('belongs to the pod that the label names', () => {
    expect(podUidOf(request({ podUid: 'pod-7' }))).toBe('pod-7');
    expect(podUidOf(request({ metadata: { labels: {} } }))).toBe('');
  });
});

describe('TTL', () => {
  it('CRR-14: of a completed request nothing is left to do but its timer', async () => {
    const { pass, writes, wanted } = watcherAt({ requests: [done(3600)] });
    await pass();
    expect(writes).toEqual([]);
    expect(wanted).toEqual([]);
  });

  function done(ttlSecondsAfterFinished: number | undefined, name = 'crr-a'): ContainerRecreateRequest {
    const labels = { [crrLabel.podUid]: 'pod-1', [crrLabel.nodeName]: 'node-1' };
    return completed(name, {
      metadata: { labels },
      spec: ttlSecondsAfterFinished === undefined ? {} : { ttlSecondsAfterFinished },
    });
  }

  it('CRR-10: deletes a request when it has outlived it, and comes back when the next one will have', async () => {
    const { pass, read } = watcherAt({ requests: [done(30), done(90, 'crr-b'), done(60, 'crr-c')], seconds: 30 });
    expect(await pass()).toEqual({ againInMs: 30_000 });
    expect(read('crr-a')).toBeUndefined();
    expect(read('crr-b')).toBeDefined();
  });

  it('CRR-10: deletes at once when it is 0 or negative, and never when there is none', async () => {
    for (const ttl of [0, -5]) {
      const { pass, read } = watcherAt({ requests: [done(ttl)] });
      await pass();
      expect(read('crr-a')).toBeUndefined();
    }
    const { pass, writes } = watcherAt({ requests: [done(undefined)], seconds: 1e9 });
    expect(await pass()).toBeUndefined();
    expect(writes).toEqual([]);
  });

  it('deletes no other request of the same name', async () => {
    const { world, read } = watcherAt({ requests: [request({ uid: 'younger' })] });
    await passOverRequests('pod-1', { ...world, requests: cacheOf([done(0)], requestIndexes) });
    expect(read('crr-a')?.metadata.uid).toBe('younger');
  });

  it('is not held up by a command that cannot be delivered', async () => {
    const commanded = request({ name: 'crr-b', metadata: { annotations: { [windlassAnnotation.command]: 'pause' } } });
    const setting = { requests: [done(0), commanded], seconds: 1, sent: [workflowId], commandFails: true };
    const { pass, read } = watcherAt(setting);
    await expect(pass()).rejects.toThrow('UNAVAILABLE');
    expect(read('crr-a')).toBeUndefined();

    const waiting = watcherAt({ requests: [done(60), commanded] });
    expect(await waiting.pass()).toEqual({ againInMs: 500 });
  });
});

describe('a command in the annotation', () => {
  function commanded(text: string, overrides: Parameters<typeof request>[0] = {}): ContainerRecreateRequest {
    const managedFields = [
      { manager: 'kubectl-annotate', time: createdAt, fieldsV1: { [`f:${windlassAnnotation.command}`]: {} } },
    ];
    return request({ ...overrides, metadata: { annotations: { [windlassAnnotation.command]: text }, managedFields } });
  }

  it('is passed on with who wrote it, and then taken off', async () => {
    const { pass, commands, read } = watcherAt({ requests: [commanded('skip app')], sent: [workflowId] });
    await pass();
    expect(commands).toMatchObject([
      [
        workflowId,
        'skip',
        { by: 'annotation of kubectl-annotate', target: 'app', id: expect.stringContaining(createdAt) },
      ],
    ]);
    expect(read('crr-a')?.metadata.annotations).toEqual({});
  });

  it('waits until its operation runs', async () => {
    const { pass, commands, read } = watcherAt({ requests: [commanded('pause')] });
    expect(await pass()).toEqual({ againInMs: 500 });
    expect(commands).toEqual([]);
    expect(read('crr-a')?.metadata.annotations).toHaveProperty([windlassAnnotation.command]);
  });

  it('F6: names the request that it is meant for, since the run may still be that of the one before', async () => {
    const { pass, commands } = watcherAt({ requests: [commanded('abort')], sent: [workflowId] });
    await pass();
    expect(commands).toMatchObject([[workflowId, 'abort', { request: 'uid-of-crr-a' }]]);
  });

  it('is refused where it is none, and where the request has ended', async () => {
    const condition = { type: 'Complete', status: 'True', reason: 'ContainersRecreated', message: '' } as const;
    const conditions = [{ ...condition, lastTransitionTime: createdAt }];
    const ended = commanded('pause', { status: { phase: 'Completed', conditions } });
    for (const requests of [[commanded('dance')], [ended]]) {
      const { pass, commands, read, writes } = watcherAt({ requests, sent: [workflowId] });
      await pass();
      expect(commands).toEqual([]);
      expect(read('crr-a')?.metadata.annotations).toEqual({});
      const events = writes.filter(({ plural }) => plural === 'events').map(({ body }) => body);
      expect(events).toMatchObject([{ type: 'Warning', reason: 'CommandRefused' }]);
      if (requests[0] !== ended) continue;
      expect(JSON.stringify(events)).toContain(
        'Command pause by annotation of kubectl-annotate has no effect: the request has ended (Complete: ' +
          'ContainersRecreated); create another request to recreate containers again',
      );
    }
  });

  describe('F6: of a request that waits for its turn', () => {
    const by = 'annotation of kubectl-annotate';
    const waitingFor = recreateWait('Queued', { blockedBy: ['crr/aaa'], since: createdAt });
    const queued = { phase: 'Pending', waitingFor } as const;
    const first = request({ name: 'aaa', metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } });

    async function obeyed(text: string, overrides: Parameters<typeof request>[0] = {}) {
      const watcher = watcherAt({
        requests: [first, commanded(text, { status: queued, ...overrides })],
        sent: [workflowId],
      });
      await watcher.pass();
      const { metadata, status } = watcher.read('crr-a') ?? {};
      const events = watcher.writes.filter(({ plural }) => plural === 'events').map(({ body }) => body);
      expect(watcher.commands).toEqual([]);
      expect(metadata?.annotations).toEqual({});
      return { status, events };
    }

    it('is obeyed without an Event where the request has had too many', async () => {
      const watcher = watcherAt({ requests: [first, commanded('abort', { status: queued })], sent: [workflowId] });
      await passOverRequests('pod-1', { ...watcher.world, commandEvents: { take: () => false } });
      expect(watcher.read('crr-a')?.status?.phase).toBe('Completed');
      expect(watcher.writes.filter(({ plural }) => plural === 'events')).toEqual([]);
    });

    it('abort ends it, and says so in an Event', async () => {
      const { status, events } = await obeyed('abort');
      expect(status).toMatchObject({
        phase: 'Completed',
        completionTime: createdAt,
        message: `aborted by ${by}`,
        conditions: [{ type: 'Failed', status: 'True', reason: 'Aborted' }],
      });
      expect(status).not.toHaveProperty('waitingFor');
      expect(events).toMatchObject([{ reason: 'Aborted', message: `Aborted by ${by}` }]);
    });

    it('pause is kept in its status, where the next reconcile leaves it, and lets others go first', async () => {
      const { status } = await obeyed('pause');
      expect(status?.waitingFor).toMatchObject({
        reason: 'Paused',
        unblock: expect.stringContaining(`paused by ${by}`),
      });
      const paused = request({ name: 'crr-a', ...(status && { status }) });
      const { pass, read, wanted } = watcherAt({
        requests: [paused, request({ name: 'later', metadata: { creationTimestamp: '2026-12-01T00:00:00Z' } })],
      });
      await pass();
      expect(read('crr-a')?.status?.waitingFor?.reason).toBe('Paused');
      expect(wanted[0]?.about.name).toBe('later');
    });

    it('resume ends the pause', async () => {
      const paused = {
        phase: 'Pending',
        waitingFor: recreateWait('Paused', { blockedBy: [], since: createdAt }),
      } as const;
      const { status } = await obeyed('resume', { status: paused });
      expect(status).toEqual({ phase: 'Pending' });
    });

    it('skip is carried in the state of the container, the first one without a target', async () => {
      const { status } = await obeyed('skip');
      expect(status?.containerRecreateStates).toEqual([{ name: 'app', phase: 'Pending', message: `skipped by ${by}` }]);
      const again = await obeyed('skip', { status: { ...queued, ...status } });
      expect(again.status?.containerRecreateStates).toHaveLength(1);
      expect(again.events).toMatchObject([{ reason: 'Skipped', message: `Skipped app by ${by}` }]);
    });

    it.each([
      ['skip other', 'container "other" is not one of the request, which has app'],
      ['resume', 'the request is not paused'],
      ['retry', 'the request waits for its turn: nothing has failed that could be tried again'],
      ['abort app', 'abort takes no target here: it is about all that the operation does'],
    ])('%s is refused, and nothing is written', async (text, why) => {
      const { status, events } = await obeyed(text);
      expect(status).toEqual(queued);
      const message = `Command ${text.split(' ')[0]} by ${by} has no effect: ${why}`;
      expect(events).toMatchObject([{ type: 'Warning', reason: 'CommandRefused', message }]);
    });

    it('stays where it is while the request changes', async () => {
      const { pass, read } = watcherAt({
        requests: [first, commanded('abort', { status: queued })],
        sent: [workflowId],
        meet: ({ verb, body }) => {
          if (verb === 'patch' && JSON.stringify(body).includes('Completed')) throw conflict();
        },
      });
      await pass();
      expect(read('crr-a')?.metadata.annotations).toHaveProperty([windlassAnnotation.command]);
    });
  });
});

describe('a pod whose environment is old', () => {
  const { containersMeta, state } = inPlaceAnnotation;
  const container = {
    name: 'app',
    image: 'shop:1',
    env: [{ name: 'TIER', valueFrom: { fieldRef: { fieldPath: "metadata.labels['tier']" } } }],
  };
  const status = { ready: true, restartCount: 0, image: 'shop:1', imageID: 'i', state: { running: {} } };

  function stalePod({
    gateStatus = 'False',
    image = 'shop:1',
    tier = 'gold',
    id = 'app-0',
    phase = 'Running',
  } = {}): Pod {
    const meta = {
      name: 'app',
      containerID: 'containerd://app-0',
      restartCount: 0,
      plainHash: plainHash({ ...container, image }),
    };
    const entries = [{ ...meta, envHash: expectedEnvHash(container, { labels: { tier: 'silver' } }) }];
    return gatedPod({
      metadata: { labels: { tier }, annotations: { [containersMeta]: formatContainersMeta(entries), [state]: '{}' } },
      spec: { nodeName: 'node-1', containers: [container] },
      status: {
        phase,
        conditions: [{ type: inPlaceReadinessGate, status: gateStatus }],
        containerStatuses: [{ ...status, image, name: 'app', containerID: `containerd://${id}` }],
      },
    });
  }

  it('ND-27, IPU-48: gets an operation under the ID of the pod, and nothing is written', async () => {
    const { pass, wanted, writes } = watcherAt({ requests: [], pods: [stalePod()] });
    await pass();
    expect(writes).toEqual([]);
    const pod = { namespace: 'shop', name: 'web', uid: 'pod-1' };
    const operation = { refresh: 'environment', pod, node: { name: 'node-1', uid: 'uid-of-node-1' } };
    expect(wanted).toMatchObject([
      {
        workflowId,
        argument: operation,
        change: { operation },
        inputs: '["environment","uid-of-node-1",["containerd://app-0"]]',
        about: { kind: 'Pod', namespace: 'shop', name: 'web', node: 'node-1' },
      },
    ]);
    expect(parseRestartChanged(wanted[0]?.change).operation).toEqual(operation);
  });

  it('ND-27: is named as caused by the roll-out of the CloneSet that controls the pod', async () => {
    const owner = {
      apiVersion: apiVersionOf(cloneSets),
      kind: 'CloneSet',
      name: 'web',
      uid: 'set-1',
      controller: true,
    };
    const pod = stalePod();
    const owned = { ...pod, metadata: { ...pod.metadata, ownerReferences: [owner] } };
    const [own, other] = [watcherAt({ requests: [], pods: [owned] }), watcherAt({ requests: [], pods: [pod] })];
    await Promise.all([own.pass(), other.pass()]);
    expect(own.wanted).toMatchObject([{ about: { cause: 'roll-out/shop/web/set-1' } }]);
    expect(parseRestartChanged(own.wanted[0]?.change).operation?.cause).toBe('roll-out/shop/web/set-1');
    expect(other.wanted.map(({ about }) => about.cause)).toEqual([undefined]);
  });

  it.each([
    ['ND-29, IPU-48: while the pod is in service', { gateStatus: 'True' }, {}],
    ['ND-27: while what runs is what is wanted', { tier: 'silver' }, {}],
    ['ND-27: while nothing is reported of what runs', { id: 'app-1' }, {}],
    ['IPU-48: when the kubelet is about to replace the container for its image', { image: 'shop:0' }, {}],
    ['ND-27: when the pod has ended, of which the kubelet starts nothing again,', { phase: 'Failed' }, {}],
    ['ND-25: with the feature gate off', {}, { gate: false }],
  ])('%s nothing is stopped', async (_, pod, setting) => {
    const { pass, wanted, forgotten } = watcherAt({ requests: [], pods: [stalePod(pod)], ...setting });
    await pass();
    expect([wanted, forgotten]).toEqual([[], [lock]]);
  });

  it('CRR-31: goes before a request that has not begun, which waits visibly', async () => {
    const { pass, wanted, read } = watcherAt({ requests: [request({ name: 'a' })], pods: [stalePod()] });
    await pass();
    expect(wanted).toMatchObject([{ about: { kind: 'Pod' } }]);
    expect(read('a')?.status).toMatchObject({
      phase: 'Pending',
      waitingFor: { reason: 'Queued', blockedBy: ['pod/web'], unblock: expect.stringContaining('update in place') },
    });
  });

  it('EngineStuck: of its own operation is told by an Event of the pod, once, and by requests behind it', async () => {
    const given = { requests: [request({ name: 'a' })], pods: [stalePod()], trouble: stuck };
    const { pass, read, writes } = watcherAt(given);
    await pass();
    await pass();
    const events = writes.filter(({ plural }) => plural === 'events').map(({ body }) => body);
    expect(events[0]).toMatchObject({
      type: 'Warning',
      reason: 'EngineStuck',
      message: stuck.unblock,
      involvedObject: { kind: 'Pod', namespace: 'shop', name: 'web', uid: 'pod-1' },
    });
    const names = events.map((body) => (body as { readonly metadata: { readonly name: string } }).metadata.name);
    expect(new Set(names).size).toBe(1);
    expect(read('a')?.status?.waitingFor).toMatchObject({
      reason: 'Queued',
      blockedBy: ['pod/web'],
      unblock: stuck.unblock,
    });
  });

  it('CRR-31: waits for a request that has begun', async () => {
    const begun = request({ name: 'a', status: { phase: 'Recreating' } });
    const { pass, wanted, read } = watcherAt({ requests: [begun, request({ name: 'b' })], pods: [stalePod()] });
    await pass();
    expect(wanted).toMatchObject([{ argument: { request: { name: 'a' } } }]);
    expect(read('b')?.status?.waitingFor?.blockedBy).toEqual(['crr/a']);
  });

  it('CRR-31: has a request that was said to wait, although it had begun, take that back', async () => {
    const queued = recreateWait('Queued', { blockedBy: ['pod/web'], since: createdAt });
    const setting = (waitingFor?: typeof queued) =>
      watcherAt({ requests: [request({ status: { phase: 'Recreating', ...(waitingFor && { waitingFor }) } })] });
    const [said, unsaid] = [setting(queued), setting()];
    await Promise.all([said.pass(), unsaid.pass()]);
    expect(said.wanted[0]?.inputs).not.toBe(unsaid.wanted[0]?.inputs);
  });
});
