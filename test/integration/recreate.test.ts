import { expect, it } from '@jest/globals';
import { type ContainerRecreateRequest, crr, crrV1alpha1 } from '../../api/container-recreate-request/types.ts';
import { crrAnnotation, crrLabel } from '../../api/core/well-known.ts';
import { expectStops } from '../support/expect-stops.ts';
import { newGate } from '../support/gate.ts';
import { describeAlone, describeTogether } from '../support/groups.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { outcomeOf, phaseOf } from '../support/requests.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();

describeTogether('a ContainerRecreateRequest', () => {
  for (const version of ['v1beta1', 'v1alpha1'] as const) {
    it.concurrent(`CRR-38: recreates three containers in order, asked for in ${version}`, async () => {
      const { node } = windlass();
      const pod = await windlass().runPod(['app', 'proxy', 'logger']);
      const request = await windlass().request({
        pod,
        version,
        containers: ['proxy', 'app', 'logger'],
        strategy: { orderedRecreate: true },
      });

      const status = await request.ended();

      expectStops(node.stopsOf(pod), ['proxy', 'app', 'logger']);
      expect(['app', 'proxy', 'logger'].map((name) => pod.restartsOf(name))).toEqual([1, 1, 1]);
      expect(status).toMatchObject({
        phase: 'Completed',
        completionTime: expect.any(String),
        observedGeneration: 1,
        containerRecreateStates: ['proxy', 'app', 'logger'].map((name) => ({
          name,
          phase: 'Succeeded',
          isKilled: true,
        })),
        containerStatusSnapshot: ['proxy', 'app', 'logger'].map((name) => ({
          name,
          ready: true,
          restartCount: 1,
          containerID: `containerd://${pod.newest(name)?.id}`,
        })),
      });
      expect(status.waitingFor).toBeUndefined();
      expect(status.message ?? '').toBe('');
      expect(outcomeOf(status)).toMatchObject({ type: 'Complete', status: 'True', reason: 'ContainersRecreated' });
    });
  }

  it.concurrent('CRR-20: shows v1alpha1 the new containers in an annotation', async () => {
    const pod = await windlass().runPod(['app']);
    const request = await windlass().request({ pod, containers: ['app'] });
    await request.ended();

    const old = await windlass().cluster.find<ContainerRecreateRequest>(crrV1alpha1, request.ref);

    const annotation = old?.metadata.annotations?.[crrAnnotation.syncContainerStatuses] ?? '';
    expect(JSON.parse(annotation)).toEqual([
      { name: 'app', ready: true, restartCount: 1, containerID: `containerd://${pod.newest('app')?.id}` },
    ]);
    expect(old?.status?.containerStatusSnapshot).toBeUndefined();
  });

  it.concurrent('CRR-38: leaves the second container alone until the first is ready again', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());

    const { status } = await request.waitsFor('ContainerNotReady');
    expect(status?.waitingFor).toMatchObject({ blockedBy: ['container/app'], blockedCount: 1 });
    expect(status?.containerRecreateStates).toMatchObject([
      { name: 'app', phase: 'Recreating', isKilled: true },
      { name: 'proxy', phase: 'Pending' },
    ]);
    expectStops(node.stopsOf(pod), ['app']);

    ready();
    await request.ended();
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
  });

  it.concurrent('CRR-40: without an order stops one container after the other and waits for all together', async () => {
    const { node } = windlass();
    const [stopped, ready] = [newGate(), newGate()];
    const pod = await windlass().runPod(['app', 'proxy', 'logger']);
    pod.script('app', { stopTakes: stopped.opened, readyTakes: ready.opened });
    pod.script('proxy', { readyTakes: ready.opened });
    pod.script('logger', { readyTakes: ready.opened });
    const request = await windlass().request({ pod, containers: ['app', 'proxy', 'logger'] });

    const { status } = await request.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'app');
    expect(status?.waitingFor?.blockedBy).toEqual(['container/app']);
    expectStops(node.stopsOf(pod), ['app']);

    stopped.open();
    await request.until('waiting for three containers', ({ waitingFor }) => waitingFor?.blockedCount === 3);
    expectStops(node.stopsOf(pod), ['app', 'proxy', 'logger']);

    ready.open();
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expect(node.stopsOf(pod)).toHaveLength(3);
  });

  it.concurrent('CRR-37: a container that cannot be stopped ends the request under failurePolicy Fail', async () => {
    const { node } = windlass();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopFails: 'context deadline exceeded' });
    const request = await windlass().request({ pod, containers: ['app', 'proxy'] });

    const status = await request.ended();

    expect(status.containerRecreateStates).toEqual([
      { name: 'app', phase: 'Failed', message: 'kill container error: context deadline exceeded' },
      { name: 'proxy', phase: 'Pending' },
    ]);
    expect(status.message ?? '').toBe('');
    expect(outcomeOf(status)).toMatchObject({ type: 'Failed', reason: 'StopFailed' });
    expectStops(node.stopsOf(pod), ['app']);
    expect(pod.restartsOf('proxy')).toBe(0);
  });

  it.concurrent('CRR-37: a container that cannot be stopped is passed over under failurePolicy Ignore', async () => {
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopFails: 'context deadline exceeded' });
    const request = await windlass().request({
      pod,
      containers: ['app', 'proxy'],
      strategy: { failurePolicy: 'Ignore', orderedRecreate: true },
    });

    const status = await request.ended();

    expect(status.containerRecreateStates?.map(({ phase }) => phase)).toEqual(['Failed', 'Succeeded']);
    expect(outcomeOf(status)).toMatchObject({ type: 'Complete' });
    expect(outcomeOf(status)?.message).toContain('context deadline exceeded');
  });

  it.concurrent('CRR-33: counts a container only when it has run strictly longer than minStartedSeconds', async () => {
    const pod = await windlass().runPod(['app']);
    const request = await windlass().request({ pod, containers: ['app'], strategy: { minStartedSeconds: 3_600 } });

    const { status } = await request.waitsFor('MinStartedSeconds');
    expect(status?.waitingFor?.blockedBy).toEqual(['container/app']);
    pod.age('app', 3_600_000);
    await request.ended();

    expect(Date.now() - (pod.newest('app')?.startedAtMs ?? 0)).toBeGreaterThan(3_600_000);
  });

  it.concurrent('CRR-5: asks the node to stop with the grace period of the pod', async () => {
    const { node } = windlass();
    const pod = await windlass().runPod(['app'], { graceSeconds: 7 });
    await (await windlass().request({ pod, containers: ['app'] })).ended();
    expect(node.stops.filter((stop) => stop.pod === pod.ref.uid)).toMatchObject([{ graceSeconds: 7 }]);
  });

  it.concurrent('CRR-35: does not stop a container that somebody else has replaced since the request was made', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('proxy', { stopTakes: stopped.opened });
    const first = await windlass().request({ pod, containers: ['proxy'] });
    await first.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'proxy');
    const second = await windlass().request({ pod, containers: ['app'] });
    await second.waitsFor('Queued');
    await pod.crash('app');
    stopped.open();

    const status = await second.ended();

    expectStops(node.stopsOf(pod), ['proxy']);
    expect(pod.restartsOf('app')).toBe(1);
    expect(phaseOf(status, 'app')).toBe('Succeeded');
  });

  it.concurrent('CRR-36: forceRecreate stops once a container that has been replaced since', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('proxy', { stopTakes: stopped.opened });
    const first = await windlass().request({ pod, containers: ['proxy'] });
    await first.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'proxy');
    const second = await windlass().request({ pod, containers: ['app'], strategy: { forceRecreate: true } });
    await second.waitsFor('Queued');
    await pod.crash('app');
    const replaced = pod.newest('app')?.id;
    stopped.open();

    const status = await second.ended();

    expectStops(node.stopsOf(pod), ['proxy', 'app']);
    expect(node.stops.find((stop) => stop.container === 'app' && stop.pod === pod.ref.uid)?.containerId).toBe(replaced);
    expect(pod.restartsOf('app')).toBe(2);
    expect(phaseOf(status, 'app')).toBe('Succeeded');
  });

  for (const [hours, where] of [
    [-1, 'behind'],
    [1, 'ahead'],
  ] as const) {
    it.concurrent(`CRR-55: ends well though the clock of the node is an hour ${where}`, async () => {
      const pod = await windlass().runPod(['app'], { clockAheadMs: hours * 3_600_000 });
      const request = await windlass().request({ pod, containers: ['app'], strategy: { minStartedSeconds: 1 } });
      expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
      expect(pod.restartsOf('app')).toBe(1);
    });
  }

  it.concurrent('CRR-46: stays open for a pod whose restart policy is Never, and says so', async () => {
    const pod = await windlass().runPod(['app', 'proxy'], { restartPolicy: 'Never' });
    const request = await windlass().request({ pod, containers: ['app'] });
    const { status } = await request.waitsFor('PodFinished');
    expect(phaseOf(status, 'app')).toBe('Recreating');
    await request.delete();
    await request.gone();
  });

  it.concurrent('CRR-10: is deleted when its ttlSecondsAfterFinished is over', async () => {
    const pod = await windlass().runPod(['app']);
    const request = await windlass().request({ pod, containers: ['app'], ttlSecondsAfterFinished: 2 });
    await request.gone();
    // it completed after the new container had started, and completionTime has whole seconds
    const startedAtSeconds = Math.floor((pod.newest('app')?.startedAtMs ?? 0) / 1_000);
    expect(Date.now()).toBeGreaterThanOrEqual((startedAtSeconds + 2) * 1_000);
    expect(pod.restartsOf('app')).toBe(1);
  });

  it.concurrent('CRR-10: is no longer marked active once it has completed', async () => {
    const pod = await windlass().runPod(['app']);
    const request = await windlass().request({ pod, containers: ['app'] });
    expect((await request.read())?.metadata.labels?.[crrLabel.active]).toBe('true');
    await request.ended();
    await request.until('inactive', (_, { metadata }) => metadata.labels?.[crrLabel.active] === undefined);
  });

  it.concurrent('tells of its end in an Event', async () => {
    const pod = await windlass().runPod(['app']);
    const request = await windlass().request({ pod, containers: ['app'] });
    await request.ended();
    const [event] = await waitFor('the Event', async (see) => {
      const events = see(await request.events());
      return events.length > 0 ? events : undefined;
    });
    expect(event).toMatchObject({
      type: 'Normal',
      reason: 'ContainersRecreated',
      source: { component: 'windlass-container-recreate-request' },
    });
  });
});

describeAlone('a ContainerRecreateRequest', () => {
  it('H3: is filled in by the watcher where admission does not know its caller', async () => {
    await windlass().restartWebhook([], { knowsCaller: false });
    try {
      const { node, cluster } = windlass();
      const pod = await windlass().runPod(['app', 'proxy']);
      const { namespace, name: podName } = pod.ref;
      const body = { metadata: { namespace, name: 'tried' }, spec: { podName, containers: [{ name: 'app' }] } };
      const tried = await cluster.kube.create<ContainerRecreateRequest>(crr, body, { dryRun: true });
      expect(tried.spec.containers).toEqual([{ name: 'app' }]);

      const containers = ['proxy', 'app'];
      const request = await windlass().request({ pod, containers, strategy: { orderedRecreate: true } });
      const status = await request.ended();
      expectStops(node.stopsOf(pod), ['proxy', 'app']);
      expect(outcomeOf(status)).toMatchObject({ type: 'Complete', status: 'True', reason: 'ContainersRecreated' });
      const { spec } = (await request.read()) ?? {};
      expect(spec?.containers).toMatchObject(
        ['proxy', 'app'].map((name) => ({ name, statusContext: { restartCount: 0 } })),
      );

      const wrong = await windlass().request({ pod, containers: ['app', 'stranger'] });
      const ended = await wrong.ended();
      expect(outcomeOf(ended)).toMatchObject({ type: 'Failed', status: 'True', reason: 'InvalidRequest' });
      expect(outcomeOf(ended)?.message).toContain('spec.containers[1].name');
      expectStops(node.stopsOf(pod), ['proxy', 'app']);
    } finally {
      await windlass().restartWebhook([]);
    }
  });
});
