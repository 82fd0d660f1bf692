import { describe, expect, it } from '@jest/globals';
import { requestActivities } from '../../activities/kube/requests.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { preRecreateGrace } from '../../api/container-recreate-request/texts.ts';
import { type ContainerRecreateRequest, crr } from '../../api/container-recreate-request/types.ts';
import type { Event } from '../../api/core/event.ts';
import type { Pod } from '../../api/core/pod.ts';
import { formatKeys, heldKeys } from '../../api/core/pod-readiness.ts';
import {
  crrUnreadyFinalizer,
  kubeResource,
  podReadinessGate,
  sidecarTerminatedCondition,
} from '../../api/core/well-known.ts';
import type { StatusDelta } from '../../plan/recreate/report.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { createdAt } from '../support/objects/metadata.ts';
import { conflict, gatedPod, operationFor, originalId, request, unavailable } from '../support/recreate-requests.ts';

const noon = '2026-01-01T12:00:00Z';

interface Setting {
  readonly request?: ContainerRecreateRequest | undefined;
  readonly pod?: Pod | undefined;
  readonly meet?: (call: SeenCall) => void;
}

/** The activities with an API server that has a request, its pod and its node. */
function activitiesOn(setting: Setting = {}) {
  const { request: made = request(), pod = gatedPod(), meet } = setting;
  const cluster = new MemoryCluster();
  if (!('request' in setting) || setting.request) cluster.put(crr, made);
  if (!('pod' in setting) || setting.pod) cluster.put(kubeResource.pods, pod);
  cluster.put(kubeResource.nodes, { metadata: { name: 'node-1', uid: 'uid-of-node-1' } });
  const calls: SeenCall[] = [];
  const kube = cluster.client((call) => {
    meet?.(call);
    calls.push(call);
  });
  const operation = operationFor(made);
  const activities = requestActivities({ kube, now: () => new Date(noon) });
  return {
    ...activities,
    operation,
    ref: operation.request,
    cluster,
    look: (skip = 0) => activities.lookAtRequest({ operation, skip }),
    live: () => cluster.look<ContainerRecreateRequest>(crr, made.metadata),
    livePod: () => cluster.look<Pod>(kubeResource.pods, gatedPod().metadata),
    reads: () => calls.filter(({ verb, plural }) => verb === 'get' && plural === crr.plural).length,
    writes: () => calls.filter(({ verb }) => verb !== 'get'),
    events: () => calls.filter(({ verb }) => verb === 'create').map(({ body }) => body as Event),
  };
}

function delta(overrides: Partial<StatusDelta> = {}): StatusDelta {
  return { states: [], snapshot: [], ...overrides };
}

function failing(verb: SeenCall['verb'], plural: string, error: () => Error, times = Number.POSITIVE_INFINITY) {
  let failures = 0;
  return (call: SeenCall) => {
    if (call.verb === verb && call.plural === plural && failures++ < times) throw error();
  };
}

const ended: Partial<StatusDelta> = {
  phase: 'Completed',
  completionTime: noon,
  condition: { type: 'Complete', reason: 'ContainersRecreated', message: '1 of 1' },
};

describe('lookAtRequest', () => {
  it('tells what is asked for, with the defaults, and what stands in the status', async () => {
    const { look } = activitiesOn();
    expect(await look()).toEqual({
      kind: 'open',
      phase: '',
      createdAt,
      runtime: 'containerd',
      podGone: false,
      node: { name: 'node-1', uid: 'uid-of-node-1' },
      order: {
        request: 'crr-a',
        pod: 'web',
        ordered: false,
        force: false,
        failurePolicy: 'Fail',
        graceSeconds: 30,
        minStartedSeconds: 0,
      },
      containers: [
        { name: 'app', phase: 'Pending', isKilled: false, originalId: originalId('app'), originalRestartCount: 0 },
      ],
      more: false,
    });
  });

  it('CRR-50: tells what an earlier run has left behind', async () => {
    const made = request({
      containers: ['a', 'b'],
      spec: {
        activeDeadlineSeconds: 60,
        strategy: {
          orderedRecreate: true,
          forceRecreate: true,
          unreadyGracePeriodSeconds: 0,
          terminationGracePeriodSeconds: 0,
        },
      },
      status: {
        phase: 'Recreating',
        waitingFor: { reason: 'Paused', blockedBy: [], blockedCount: 0, since: noon, unblock: 'Signal resume' },
        containerRecreateStates: [
          { name: 'a', phase: 'Recreating', isKilled: true, targetContainerID: 'a-7' },
          { name: 'b', phase: 'Pending', message: 'skipped by ann' },
        ],
      },
    });
    expect(await activitiesOn({ request: made }).look()).toMatchObject({
      phase: 'Recreating',
      deadlineSeconds: 60,
      order: { ordered: true, force: true, unreadyGraceSeconds: 0, graceSeconds: 0 },
      waitingFor: { reason: 'Paused' },
      containers: [
        { name: 'a', isKilled: true, targetId: 'a-7' },
        { name: 'b', skippedBy: 'ann' },
      ],
    });
  });

  it('CRR-11: says that the pod is gone when it is, is going, or is another of its name', async () => {
    for (const pod of [
      undefined,
      gatedPod({ metadata: { deletionTimestamp: noon } }),
      gatedPod({ metadata: { uid: 'other' } }),
    ]) {
      expect(await activitiesOn({ pod }).look()).toMatchObject({ podGone: true });
    }
  });

  it('CRR-46: does not take a pod that has finished for gone, and says when it never restarts a container', async () => {
    const finished = gatedPod({ spec: { containers: [], restartPolicy: 'Never' }, status: { phase: 'Failed' } });
    expect(await activitiesOn({ pod: finished }).look()).toMatchObject({
      podGone: false,
      order: { neverRestarts: true },
    });
    const evicted = gatedPod({ status: { phase: 'Failed' } });
    expect(await activitiesOn({ pod: evicted }).look()).toMatchObject({
      podGone: false,
      order: { neverRestarts: true },
    });
    expect(await activitiesOn({ pod: gatedPod() }).look()).not.toHaveProperty('order.neverRestarts');
    const sidecars = gatedPod({
      status: { phase: 'Succeeded', conditions: [{ type: sidecarTerminatedCondition, status: 'True' }] },
    });
    expect(await activitiesOn({ pod: sidecars }).look()).toMatchObject({ podGone: false });
  });

  it('CRR-53: says that the request is gone when it is, is going, or is another of its name', async () => {
    const going = activitiesOn({ request: request({ metadata: { deletionTimestamp: noon } }) });
    expect(await going.look()).toEqual({ kind: 'gone' });
    expect(await activitiesOn({ request: undefined }).look()).toEqual({ kind: 'gone' });
    const other = activitiesOn({ request: request({ uid: 'younger' }) });
    expect(await other.lookAtRequest({ operation: operationFor(request()), skip: 0 })).toEqual({ kind: 'gone' });
    const done = activitiesOn({ request: request({ status: { phase: 'Completed' } }) });
    expect(await done.look()).toEqual({ kind: 'finished' });
  });

  it('names no node when there is none of that name', async () => {
    const { look, cluster } = activitiesOn();
    cluster.remove(kubeResource.nodes, { name: 'node-1' });
    expect(await look()).not.toHaveProperty('node');
  });

  it('answers in parts of at most 4 KB, for 60 containers with long names, messages and waits', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `${index}-`.padEnd(63, 'x'));
    const made = request({
      containers: names,
      status: {
        phase: 'Recreating',
        waitingFor: {
          reason: 'Parked',
          // L10: as long as the schema allows
          blockedBy: names.slice(0, 10).map((name) => name.padEnd(512, 'é')),
          blockedCount: 60,
          since: noon,
          unblock: '"é"'.repeat(500),
        },
        containerRecreateStates: names.map((name) => ({ name, phase: 'Failed', message: '\n"é"'.repeat(500) })),
      },
    });
    const { look } = activitiesOn({ request: made });
    const seen: string[] = [];
    for (let more = true; more; ) {
      const found = await look(seen.length);
      if (found.kind !== 'open') throw new Error(found.kind);
      expect(jsonBytes(found)).toBeLessThanOrEqual(4 * 1024);
      expect(found.containers.length).toBeGreaterThan(0);
      seen.push(...found.containers.map(({ name }) => name));
      ({ more } = found);
    }
    expect(seen).toEqual(names);
    expect(await look(60)).toMatchObject({ containers: [], more: false });
  });

  it('fails by the table, saying what it attempted', async () => {
    const { look } = activitiesOn({ meet: failing('get', 'pods', unavailable) });
    await expect(look()).rejects.toMatchObject({
      type: 'Unreachable',
      nonRetryable: false,
      message: 'Cannot read ContainerRecreateRequest "shop/crr-a": etcd is away',
    });
  });
});

describe('reportRequest', () => {
  it('writes what has changed into the live status, and keeps the rest', async () => {
    const drain = {
      type: 'PreRecreateGrace',
      status: 'True',
      reason: 'x',
      message: 'y',
      lastTransitionTime: noon,
    } as const;
    const { reportRequest, ref, live } = activitiesOn({
      request: request({ status: { phase: 'Pending', conditions: [drain] } }),
    });
    await reportRequest({
      request: ref,
      delta: delta({ phase: 'Recreating', states: [{ name: 'app', phase: 'Pending' }] }),
    });
    expect(live()?.status).toEqual({
      phase: 'Recreating',
      conditions: [drain],
      containerRecreateStates: [{ name: 'app', phase: 'Pending' }],
      observedGeneration: 1,
    });
  });

  it('writes nothing where nothing changes, in whatever order the server tells its fields', async () => {
    const status = {
      observedGeneration: 1,
      phase: 'Recreating',
      containerRecreateStates: [{ phase: 'Pending', name: 'app' }],
    } as const;
    const { reportRequest, ref, writes } = activitiesOn({ request: request({ status }) });
    await reportRequest({ request: ref, delta: delta({ states: [{ name: 'app', phase: 'Pending' }] }) });
    expect(writes()).toEqual([]);
  });

  it('reads and writes again when somebody was faster, and leaves it to Temporal when that goes on', async () => {
    const lucky = activitiesOn({ meet: failing('patch', crr.plural, conflict, 3) });
    await lucky.reportRequest({ request: lucky.ref, delta: delta({ phase: 'Recreating' }) });
    expect(lucky.live()?.status?.phase).toBe('Recreating');
    const unlucky = activitiesOn({ meet: failing('patch', crr.plural, conflict) });
    await expect(
      unlucky.reportRequest({ request: unlucky.ref, delta: delta({ phase: 'Recreating' }) }),
    ).rejects.toMatchObject({
      type: 'Conflict',
      nonRetryable: false,
    });
  });

  it('reads a request once for all that it writes, while nobody else writes it', async () => {
    const { look, reportRequest, ref, reads, live } = activitiesOn();
    await look();
    await reportRequest({ request: ref, delta: delta({ phase: 'Recreating' }) });
    await reportRequest({ request: ref, delta: delta({ states: [{ name: 'app', phase: 'Recreating' }] }) });
    await reportRequest({ request: ref, delta: delta(ended) });
    expect(reads()).toBe(1);
    expect(live()?.status).toMatchObject({
      phase: 'Completed',
      containerRecreateStates: [{ name: 'app', phase: 'Recreating' }],
    });
  });

  it('writes on what stands there now, whoever has written since it was seen', async () => {
    const { look, reportRequest, ref, cluster, live } = activitiesOn();
    await look();
    cluster.put(crr, request({ status: { phase: 'Pending', conditions: [preRecreateGrace(noon)] } }));
    await reportRequest({ request: ref, delta: delta({ states: [{ name: 'app', phase: 'Pending' }] }) });
    expect(live()?.status).toMatchObject({ phase: 'Pending', conditions: [preRecreateGrace(noon)] });
  });

  it('says again what somebody else has written over', async () => {
    const { reportRequest, ref, cluster, live } = activitiesOn();
    await reportRequest({ request: ref, delta: delta({ phase: 'Recreating' }) });
    cluster.put(crr, request({ status: { phase: 'Pending' } }));
    await reportRequest({ request: ref, delta: delta({ phase: 'Recreating' }) });
    expect(live()?.status?.phase).toBe('Recreating');
  });

  it('writes nothing when the request is deleted after it was seen, or another one gets its name', async () => {
    for (const then of [undefined, request({ uid: 'younger' })]) {
      const { look, reportRequest, ref, cluster, live } = activitiesOn();
      await look();
      cluster.remove(crr, ref);
      if (then) cluster.put(crr, then);
      await reportRequest({ request: ref, delta: delta({ phase: 'Recreating' }) });
      expect(live()?.status).toBeUndefined();
    }
  });

  it('writes nothing when the request is gone or another one has its name', async () => {
    for (const made of [undefined, request({ uid: 'younger' })]) {
      const { reportRequest, writes } = activitiesOn({ request: made });
      await reportRequest({ request: operationFor(request()).request, delta: delta(ended) });
      expect(writes()).toEqual([]);
    }
  });

  it('says in one Event how the request ended, however often it is told', async () => {
    const { reportRequest, ref, events, live } = activitiesOn({
      request: request({ status: { phase: 'Recreating' } }),
    });
    await reportRequest({ request: ref, delta: delta(ended) });
    await reportRequest({ request: ref, delta: delta(ended) });
    expect(live()?.status).toMatchObject({
      phase: 'Completed',
      completionTime: noon,
      conditions: [{ type: 'Complete', status: 'True' }],
    });
    expect(events()[0]).toMatchObject({
      involvedObject: { kind: 'ContainerRecreateRequest', name: 'crr-a', uid: 'uid-of-crr-a' },
      type: 'Normal',
      reason: 'ContainersRecreated',
      source: { component: 'windlass-container-recreate-request' },
    });
    expect(new Set(events().map(({ metadata }) => metadata.name))).toEqual(new Set(['crr-a.uid-of-crr-a']));
  });

  it('is not held up by an Event that cannot be written', async () => {
    const { reportRequest, ref, live } = activitiesOn({ meet: failing('create', 'events', unavailable) });
    await reportRequest({ request: ref, delta: delta(ended) });
    expect(live()?.status?.phase).toBe('Completed');
  });
});

describe('recordTarget', () => {
  it('CRR-36: records the instance before it is stopped, in the order of the request', async () => {
    const made = request({
      containers: ['a', 'b'],
      status: { phase: 'Recreating', containerRecreateStates: [{ name: 'b', phase: 'Failed' }] },
    });
    const { recordTarget, ref, live } = activitiesOn({ request: made });
    expect(await recordTarget({ request: ref, container: 'a', containerId: 'a-7' })).toEqual({ containerId: 'a-7' });
    expect(live()?.status?.containerRecreateStates).toEqual([
      { name: 'a', phase: 'Pending', targetContainerID: 'a-7' },
      { name: 'b', phase: 'Failed' },
    ]);
  });

  it('CRR-53: is superseded for a request that has ended since it was seen', async () => {
    const { look, recordTarget, ref, cluster } = activitiesOn();
    await look();
    cluster.put(crr, request({ status: { phase: 'Completed' } }));
    await expect(recordTarget({ request: ref, container: 'app', containerId: 'x' })).rejects.toMatchObject({
      type: 'Superseded',
    });
  });

  it('CRR-36: leaves the first record as it is, and answers it', async () => {
    const { recordTarget, ref, writes } = activitiesOn();
    await recordTarget({ request: ref, container: 'app', containerId: 'app-7' });
    expect(await recordTarget({ request: ref, container: 'app', containerId: 'app-8' })).toEqual({
      containerId: 'app-7',
    });
    expect(writes()).toHaveLength(1);
  });

  it('CRR-53: is superseded for a request that has ended or is gone, so that nothing is stopped', async () => {
    const over = [
      request({ status: { phase: 'Completed' } }),
      request({ metadata: { deletionTimestamp: noon } }),
      undefined,
    ];
    for (const made of over) {
      const { recordTarget, writes } = activitiesOn({ request: made });
      const { request: ref } = operationFor(request());
      await expect(recordTarget({ request: ref, container: 'app', containerId: 'x' })).rejects.toMatchObject({
        type: 'Superseded',
        nonRetryable: true,
      });
      expect(writes()).toEqual([]);
    }
  });
});

describe('takeOutOfService', () => {
  it('CRR-22: adds the finalizer, holds the gate, and marks the beginning, in this order', async () => {
    const { takeOutOfService, operation, writes, live, livePod } = activitiesOn();
    expect(await takeOutOfService(operation)).toEqual({ since: noon, isHeld: true });
    expect(writes().map(({ plural }) => plural)).toEqual([crr.plural, 'pods', crr.plural]);
    expect(live()?.metadata.finalizers).toEqual([crrUnreadyFinalizer]);
    expect(live()?.status?.conditions).toMatchObject([
      { type: 'PreRecreateGrace', status: 'True', reason: 'PreRecreateGrace', lastTransitionTime: noon },
    ]);
    expect(heldKeys(livePod()?.status?.conditions)).toEqual([
      { userAgent: 'ContainerRecreateRequest', key: 'shop/crr-a' },
    ]);
    expect(livePod()?.status?.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({ status: 'False' });
  });

  it('CRR-22: marks the beginning once, whoever comes twice', async () => {
    const { operation, cluster, writes } = activitiesOn();
    const at = (iso: string) => requestActivities({ kube: cluster.client(), now: () => new Date(iso) });
    await at(noon).takeOutOfService(operation);
    expect(await at('2026-01-01T13:00:00Z').takeOutOfService(operation)).toEqual({ since: noon, isHeld: true });
    expect(writes()).toEqual([]);
  });

  it('CRR-23: only marks the beginning for a pod without the gate', async () => {
    const { takeOutOfService, operation, live, writes } = activitiesOn({
      pod: gatedPod({ spec: { containers: [], readinessGates: [] } }),
    });
    expect(await takeOutOfService(operation)).toEqual({ since: noon, isHeld: false });
    expect(await takeOutOfService(operation)).toEqual({ since: noon, isHeld: false });
    expect(live()?.metadata.finalizers).toBeUndefined();
    expect(writes()).toHaveLength(1);
  });

  it('goes on where an attempt was broken off after the finalizer, and keeps the keys of others', async () => {
    const message = formatKeys([{ userAgent: 'Lifecycle', key: 'preUpdateHook' }]);
    const held = gatedPod({ status: { conditions: [{ type: podReadinessGate, status: 'False', message }] } });
    const made = request({ metadata: { finalizers: ['else.io/keep', crrUnreadyFinalizer] } });
    const { takeOutOfService, operation, live, livePod } = activitiesOn({ request: made, pod: held });
    await takeOutOfService(operation);
    expect(live()?.metadata.finalizers).toEqual(['else.io/keep', crrUnreadyFinalizer]);
    expect(heldKeys(livePod()?.status?.conditions)).toHaveLength(2);
  });

  it('tries a conflict with the kubelet again at once', async () => {
    const { takeOutOfService, operation, livePod } = activitiesOn({ meet: failing('patch', 'pods', conflict, 3) });
    await takeOutOfService(operation);
    expect(heldKeys(livePod()?.status?.conditions)).toHaveLength(1);
  });

  it('CRR-10: is superseded for a request that has ended or is another, which leaves no key behind', async () => {
    const over = [
      request({ status: { phase: 'Completed' } }),
      request({ metadata: { deletionTimestamp: noon } }),
      request({ uid: 'younger' }),
      undefined,
    ];
    for (const made of over) {
      const { takeOutOfService, writes } = activitiesOn({ request: made });
      await expect(takeOutOfService(operationFor(request()))).rejects.toMatchObject({ type: 'Superseded' });
      expect(writes()).toEqual([]);
    }
  });
});

describe('what a write is decided on', () => {
  it('CRR-32a: is never older than our own last write: what another writer put there in between stays', async () => {
    const { reportRequest, ref, live } = activitiesOn({ meet: failing('patch', crr.plural, conflict, 1) });
    await reportRequest({ request: ref, delta: delta({ phase: 'Recreating' }) });
    await reportRequest({
      request: ref,
      delta: delta({ states: [{ name: 'app', phase: 'Recreating', isKilled: true }] }),
    });
    expect(live()?.status).toMatchObject({
      phase: 'Recreating',
      containerRecreateStates: [{ name: 'app', phase: 'Recreating', isKilled: true }],
    });
  });
});

describe('announceCommand', () => {
  it('tells once who steered the request, and on what', async () => {
    const { announceCommand, ref, events } = activitiesOn();
    const input = { request: ref, command: 'skip', by: 'ann', target: 'app', key: 'run-1' } as const;
    await announceCommand(input);
    expect(events()).toMatchObject([
      {
        type: 'Normal',
        reason: 'Skipped',
        message: 'Skipped app by ann',
        involvedObject: { kind: crr.kind, uid: ref.uid },
      },
    ]);
    expect(events()[0]?.metadata.name).toMatch(/\.run-1$/);
  });

  it('does not fail when it cannot tell', async () => {
    const { announceCommand, ref } = activitiesOn({ meet: failing('create', 'events', unavailable) });
    const input = { request: ref, command: 'abort', by: 'ann', key: 'run-2' } as const;
    await expect(announceCommand(input)).resolves.toBeUndefined();
  });
});
