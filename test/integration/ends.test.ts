import { expect, it } from '@jest/globals';
import { expectStops } from '../support/expect-stops.ts';
import { newGate } from '../support/gate.ts';
import { describeProof, describeTogether } from '../support/groups.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { NodePlayer } from '../support/kubelet-player.ts';
import { outcomeOf, phaseOf } from '../support/requests.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();

describeProof('slow', 'a request ends', () => {
  it.concurrent('CRR-12: when no daemon answers within 60 s', async () => {
    const { cluster } = windlass();
    const silent = await NodePlayer.join(cluster);
    const pod = await silent.runPod({ namespace: await cluster.newNamespace(), containers: ['app'] });
    const request = await windlass().request({ pod, containers: ['app'] });

    const status = await request.ended();

    expect(status.message).toBe('daemon has not responded for a long time');
    expect(outcomeOf(status)).toMatchObject({ type: 'Failed', reason: 'NodeSilent' });
    expect(pod.restartsOf('app')).toBe(0);
    const { metadata } = (await request.read()) ?? {};
    const seconds = (Date.parse(status.completionTime ?? '') - Date.parse(metadata?.creationTimestamp ?? '')) / 1_000;
    expect(seconds).toBeGreaterThanOrEqual(60);
  });

  it.concurrent('CRR-13: at its deadline, in the middle of a stop whose outcome is still written', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopTakes: stopped.opened });
    const request = await windlass().request({ pod, containers: ['app', 'proxy'], activeDeadlineSeconds: 60 });
    await request.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'app');

    const status = await request.ended();
    expect(status.message).toBe('recreating has exceeded the activeDeadlineSeconds');
    expect(outcomeOf(status)).toMatchObject({ type: 'Failed', reason: 'DeadlineExceeded' });
    expect(status.waitingFor).toBeUndefined();
    expect(phaseOf(status, 'app')).toBe('Pending');

    stopped.open();
    const late = await request.untilContainer('app', 'Recreating');
    expect(late.status).toMatchObject({ phase: 'Completed', completionTime: status.completionTime });
    expect(late.status?.conditions).toEqual(status.conditions);
    expect(late.status?.containerRecreateStates).toMatchObject([{ isKilled: true }, { phase: 'Pending' }]);
    expectStops(node.stopsOf(pod), ['app']);
  });
});

describeTogether('a request ends', () => {
  it.concurrent('CRR-13: at its deadline when its turn has not come', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopTakes: stopped.opened });
    const first = await windlass().request({ pod, containers: ['app'] });
    await node.begunToStop(pod, 'app');
    const second = await windlass().request({ pod, containers: ['proxy'], activeDeadlineSeconds: 3 });

    const status = await second.ended();

    expect(status.message).toBe('recreating has exceeded the activeDeadlineSeconds');
    expect(outcomeOf(status)).toMatchObject({ type: 'Failed', reason: 'DeadlineExceeded' });
    expect(status.waitingFor).toBeUndefined();
    stopped.open();
    expect(outcomeOf(await first.ended())).toMatchObject({ type: 'Complete' });
    expectStops(node.stopsOf(pod), ['app']);
  });

  it.concurrent('CRR-11: when its pod is deleted in the middle', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());

    await pod.delete();

    const status = await request.ended();
    expect(status.message).toBe('pod has gone');
    expect(outcomeOf(status)).toMatchObject({ type: 'Failed', reason: 'PodGone' });
    expect(status.containerRecreateStates?.map(({ phase }) => phase)).toEqual(['Recreating', 'Pending']);
    expectStops(node.stopsOf(pod), ['app']);
    ready();
  });

  it.concurrent('CRR-11: when its pod is removed without being marked for deletion', async () => {
    const { request, pod, ready } = await inTheMiddle(windlass(), { pod: ['app'] });

    await pod.finishDeletion();

    expect((await request.ended()).message).toBe('pod has gone');
    ready();
  });

  it.concurrent('CRR-53: without a further stop when it is deleted itself', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopTakes: stopped.opened });
    const request = await windlass().request({ pod, containers: ['app', 'proxy'] });
    await request.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'app');

    await request.delete();
    await request.gone();
    stopped.open();

    const closed = await waitFor('the operation to end', async (see) => {
      const { status } = see(await request.operation.describe());
      return status.name === 'RUNNING' ? undefined : status.name;
    });
    expect(closed).toBe('COMPLETED');
    expectStops(node.stopsOf(pod), ['app']);
    await pod.restarted('app', 1); // a stop that has begun is never undone
  });

  it.concurrent('when the node has no runtime of the kind that its containers name', async () => {
    const pod = await windlass().runPod(['app'], { runtime: 'docker' });
    const request = await windlass().request({ pod, containers: ['app'] });

    const status = await request.ended();

    expect(status.message).toBe('failed to find runtime service: this node has no docker, only containerd');
    expect(outcomeOf(status)).toMatchObject({ type: 'Failed', reason: 'RuntimeNotFound' });
  });
});
