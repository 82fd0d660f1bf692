import { describe, expect, it } from '@jest/globals';
import { sidecarActivities } from '../../activities/kube/sidecars.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { type ContainerRecreateRequest, crr } from '../../api/container-recreate-request/types.ts';
import type { Event } from '../../api/core/event.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { terminationMark } from '../../api/job-sidecar-termination.ts';
import { KubeError } from '../../kube/failures.ts';
import { payloadBytes } from '../../plan/text-size.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';
import { type JobPod, jobPod, stoppedStatus, stopRequest } from '../support/job-pod.ts';
import { createdAt } from '../support/objects/metadata.ts';
import { conflict, unavailable } from '../support/recreate-requests.ts';

const ref = { namespace: 'shop', name: 'job-1', uid: 'pod-1' };
const due = { marks: { main: 'main', proxy: 'sidecar' }, now: { main: { exitCode: 0 } } } as const;
const requestName = { namespace: 'shop', name: 'sidecar-termination-pod-1' };

function on(
  given: JobPod,
  { request, virtual = false }: { request?: ContainerRecreateRequest; virtual?: boolean } = {},
) {
  const cluster = new MemoryCluster();
  cluster.put(kubeResource.pods, jobPod(given));
  cluster.put(kubeResource.nodes, {
    metadata: { name: 'node-1', ...(virtual && { labels: { type: 'virtual-kubelet' } }) },
  });
  if (request) cluster.put(crr, request);
  const calls: SeenCall[] = [];
  let meet: (call: SeenCall) => void = () => undefined;
  const kube = cluster.client((call) => {
    meet(call);
    calls.push(call);
  });
  return {
    ...sidecarActivities({ kube, now: () => new Date(createdAt) }),
    cluster,
    meeting: (hook: typeof meet) => {
      meet = hook;
    },
    pod: () => cluster.look<Pod>(kubeResource.pods, ref) as Pod,
    request: () => cluster.look<ContainerRecreateRequest>(crr, requestName),
    writes: () =>
      calls
        .filter(({ verb, plural }) => verb !== 'get' && plural !== 'events')
        .map(({ verb, plural }) => `${verb} ${plural}`),
    events: () => calls.filter(({ plural }) => plural === 'events').map(({ body }) => (body as Event).message),
  };
}

const step = (kind: 'requestStop' | 'finishPod' | 'swapImages' | 'withdrawRequest', ...containers: string[]) => ({
  pod: ref,
  step: { kind, containers },
});

describe('lookAtSidecars', () => {
  it('JST-33: says what is to be done from pod, node and request alone', async () => {
    expect(await on(due).lookAtSidecars({ pod: ref })).toEqual({
      decision: { kind: 'act', step: { kind: 'requestStop', containers: ['proxy'] } },
      status: {},
      sidecars: ['proxy'],
    });
    const request = stopRequest(['proxy']);
    expect((await on(due, { request }).lookAtSidecars({ pod: ref })).decision).toMatchObject({ kind: 'wait' });
  });

  it('JST-34: a pod of another UID is none', async () => {
    const { decision } = await on(due).lookAtSidecars({ pod: { ...ref, uid: 'pod-2' } });
    expect(decision).toEqual({ kind: 'done' });
  });

  it('takes a request of that name that somebody else has made for none', async () => {
    const foreign = {
      ...stopRequest(['proxy']),
      metadata: { ...stopRequest(['proxy']).metadata, ownerReferences: [] },
    };
    expect((await on(due, { request: foreign }).lookAtSidecars({ pod: ref })).decision).toMatchObject({ kind: 'act' });
  });

  it('1.9: fits into a history, whatever stands on the pod', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `${index}`.padEnd(63, 'x'));
    const waitingFor = { reason: 'X', blockedBy: names, blockedCount: 60, since: 'now', unblock: 'é'.repeat(9_000) };
    const text = JSON.stringify({ waitingFor, skipped: names, abortedBy: '"'.repeat(5_000) });
    const context = on(due);
    const live = context.pod();
    const annotations = { [terminationMark.status]: text };
    context.cluster.put(kubeResource.pods, { ...live, metadata: { ...live.metadata, annotations } });
    const look = await context.lookAtSidecars({ pod: ref });
    expect(look.status.skipped?.length).toBeGreaterThan(10);
    expect(jsonBytes(look)).toBeLessThanOrEqual(payloadBytes);
  });

  it('is tried again while the API server is away', async () => {
    const context = on(due);
    context.meeting(() => {
      throw unavailable();
    });
    await expect(context.lookAtSidecars({ pod: ref })).rejects.toMatchObject({ type: 'Unreachable' });
  });
});

describe('endSidecars', () => {
  it('JST-12, JST-26: makes one request that the pod owns, forced, and with no limit of its own', async () => {
    const context = on(due);
    await context.endSidecars(step('requestStop', 'proxy'));
    await context.endSidecars(step('requestStop', 'proxy'));
    expect(context.request()).toMatchObject({
      metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'job-1', uid: 'pod-1', controller: true }] },
      spec: {
        podName: 'job-1',
        containers: [{ name: 'proxy' }],
        strategy: { forceRecreate: true, failurePolicy: 'Ignore' },
      },
    });
    expect(context.writes()).toEqual(['create containerrecreaterequests']);
    expect(context.events()).toEqual(['Kruise SidecarTerminator is trying to terminate sidecar [proxy] using crr']);
  });

  it('JST-33: has said what it does before it does it, because afterwards it may be dead', async () => {
    const words = (how: string) => [`Kruise SidecarTerminator is trying to terminate sidecar [proxy] using ${how}`];
    const said: (readonly string[])[] = [];
    const stopped = on(due);
    stopped.meeting(({ verb, plural }) => {
      if (verb === 'create' && plural === crr.plural) said.push(stopped.events());
    });
    await stopped.endSidecars(step('requestStop', 'proxy'));
    const swapped = on({ ...due, marks: { main: 'main', proxy: 'image' } }, { virtual: true });
    swapped.meeting(({ verb }) => {
      if (verb === 'patch') said.push(swapped.events());
    });
    await swapped.endSidecars(step('swapImages', 'proxy'));
    expect(said).toEqual([words('crr'), words('in-place update')]);
  });

  it('JST-33: does not ask before it could say so, unless nobody may say anything', async () => {
    const context = on(due);
    const answering =
      (error: Error) =>
      ({ plural }: SeenCall) => {
        if (plural === 'events') throw error;
      };
    context.meeting(answering(unavailable()));
    await expect(context.endSidecars(step('requestStop', 'proxy'))).rejects.toMatchObject({ type: 'Unreachable' });
    expect(context.request()).toBeUndefined();
    context.meeting(answering(new KubeError({ status: 403, reason: 'Forbidden', message: 'exceeded quota' })));
    await context.endSidecars(step('requestStop', 'proxy'));
    expect(context.request()).toBeDefined();
  });

  it('does nothing that is no longer due', async () => {
    const running = on({ ...due, now: {} });
    await running.endSidecars(step('requestStop', 'proxy'));
    const other = on(due);
    await other.endSidecars(step('finishPod', 'proxy'));
    await other.endSidecars({ ...step('requestStop', 'proxy'), pod: { ...ref, uid: 'pod-2' } });
    expect([...running.writes(), ...other.writes()]).toEqual([]);
  });

  it('JST-20, JST-21: writes condition and phase at once, and leaves conditions of others alone', async () => {
    const ready = { type: 'Ready', status: 'False' };
    const pod = { marks: { main: 'main', proxy: 'ignored' }, now: due.now } as const;
    const context = on(pod);
    context.cluster.put(kubeResource.pods, { ...jobPod(pod), status: { ...jobPod(pod).status, conditions: [ready] } });
    await context.endSidecars(step('finishPod', 'proxy'));
    expect(context.pod().status).toMatchObject({
      phase: 'Succeeded',
      conditions: [ready, { type: 'SidecarTerminated', status: 'True', message: 'Terminated by Sidecar Terminator' }],
    });
    expect(context.pod().status?.conditions?.[1]).not.toHaveProperty('reason');
    // without it the kubelet would not sync the pod, and would reset the phase
    expect(context.pod().metadata.annotations).toEqual({ 'windlass.io/sidecars-left-behind': createdAt });
    expect(context.writes()).toEqual(['patch pods']);
  });

  it('JST-11: swaps the images of all sidecars in one write', async () => {
    const pod = { marks: { main: 'main', a: 'image', b: 'both' }, now: due.now } as const;
    const context = on(pod, { virtual: true });
    await context.endSidecars(step('swapImages', 'a', 'b'));
    expect(context.pod().spec.containers.map(({ image }) => image)).toEqual([
      'sidecar',
      'quick-exit:1',
      'quick-exit:1',
    ]);
    expect(context.writes()).toEqual(['patch pods']);
    expect(context.events()).toEqual([
      'Kruise SidecarTerminator is trying to terminate sidecar [a b] using in-place update',
    ]);
  });

  it('JST-11: reads the pod again when it has changed meanwhile', async () => {
    const context = on({ marks: { main: 'main', a: 'image' }, now: due.now }, { virtual: true });
    let conflicts = 2;
    context.meeting(({ verb }) => {
      if (verb === 'patch' && conflicts-- > 0) throw conflict();
    });
    await context.endSidecars(step('swapImages', 'a'));
    expect(context.writes()).toEqual(['patch pods']);
  });

  it('JST-24, JST-30: withdraws the request that has ended, and no other', async () => {
    const again = { ...due, restartPolicy: 'OnFailure', instances: { proxy: 1 } } as const;
    const context = on(again, { request: stopRequest(['proxy'], { status: stoppedStatus('proxy') }) });
    await context.endSidecars(step('withdrawRequest', 'proxy'));
    expect(context.request()).toBeUndefined();
    const running = on(again, { request: stopRequest(['proxy']) });
    await running.endSidecars(step('withdrawRequest', 'proxy'));
    expect(running.request()).toBeDefined();
  });

  it('JST-31: a refusal by admission is told as one, so that it is tried again later', async () => {
    const context = on(due);
    context.meeting(({ verb }) => {
      if (verb === 'create') throw new KubeError({ status: 400, reason: 'BadRequest', message: 'not active' });
    });
    await expect(context.endSidecars(step('requestStop', 'proxy'))).rejects.toMatchObject({
      type: 'Invalid',
      message: 'Cannot end sidecars of pod "shop/job-1": not active',
    });
  });

  it('JST-5: warns about a pod that has no main container', async () => {
    const context = on({ marks: { proxy: 'sidecar' } });
    await context.endSidecars(step('requestStop', 'proxy'));
    expect(context.events()).toContain(
      'Every container is marked as a sidecar, so all of them are terminated as soon as they run',
    );
  });
});

describe('reportSidecars', () => {
  it('writes what the pod waits for into its annotation, once, and takes it away', async () => {
    const context = on(due);
    const status = { skipped: ['proxy'] };
    await context.reportSidecars({ pod: ref, status });
    await context.reportSidecars({ pod: ref, status });
    expect(context.pod().metadata.annotations).toEqual({ 'windlass.io/sidecar-termination': '{"skipped":["proxy"]}' });
    await context.reportSidecars({ pod: ref, status: {} });
    expect(context.pod().metadata.annotations).toEqual({});
    expect(context.writes()).toHaveLength(2);
  });

  it('JST-12: warns of a sidecar that its node has no variable for, by name', async () => {
    const context = on(due);
    for (const reason of ['NoStopMark', 'NoQuickExitImage', 'Stopping']) {
      const waitingFor = { reason, blockedBy: ['container/proxy'], blockedCount: 1, since: 't', unblock: '' };
      await context.reportSidecars({ pod: ref, status: { waitingFor } });
    }
    expect(context.events()[0]).toBe(
      'Sidecar [proxy] is not terminated on a real node: it lacks the environment variable KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT',
    );
    expect(context.events()).not.toContainEqual(expect.stringContaining('Stopping'));
  });

  it('JST-34: writes nothing on a pod that is gone', async () => {
    const context = on(due);
    context.cluster.remove(kubeResource.pods, ref);
    await context.reportSidecars({ pod: ref, status: { abortedBy: 'ann' } });
    expect(context.writes()).toEqual([]);
  });
});
