import { describe, expect, it } from '@jest/globals';
import { expectStops } from '../support/expect-stops.ts';
import { newGate } from '../support/gate.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { phaseOf } from '../support/requests.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();

describe('requests of one pod', () => {
  it.concurrent('CRR-30: are worked on one after the other, and those behind say for whom they wait', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopTakes: stopped.opened });
    const first = await windlass().request({ pod, containers: ['app'] });
    await first.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'app');
    const second = await windlass().request({ pod, containers: ['proxy'] });

    const { status } = await second.waitsFor('Queued');

    expect(status).toMatchObject({
      phase: 'Pending',
      waitingFor: { blockedBy: [`crr/${first.ref.name}`], blockedCount: 1, unblock: expect.any(String) },
    });
    expectStops(node.stopsOf(pod), ['app']);
    stopped.open();
    await first.ended();
    const last = await second.ended();
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
    expect(phaseOf(last, 'proxy')).toBe('Succeeded');
    expect(last.waitingFor).toBeUndefined();
  });

  it.concurrent('CRR-32: the next one starts when the one in front is deleted', async () => {
    const { node } = windlass();
    const options = { pod: ['app', 'proxy', 'logger'], containers: ['app', 'proxy'] };
    const { request: first, pod, ready } = await inTheMiddle(windlass(), options);
    const second = await windlass().request({ pod, containers: ['logger'] });
    await second.waitsFor('Queued');

    await first.delete();
    await first.gone();

    expect(phaseOf(await second.ended(), 'logger')).toBe('Succeeded');
    expectStops(node.stopsOf(pod), ['app', 'logger']);
    ready();
  });

  it.concurrent('CRR-32: one that is deleted while it waits leaves its place to the next', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy', 'logger']);
    pod.script('app', { stopTakes: stopped.opened });
    const first = await windlass().request({ pod, containers: ['app'] });
    await first.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'app');
    const second = await windlass().request({ pod, containers: ['proxy'] });
    await second.waitsFor('Queued');
    const third = await windlass().request({ pod, containers: ['logger'] });
    await third.waitsFor('Queued');

    await second.delete();
    await second.gone();
    stopped.open();
    await third.ended();

    expectStops(node.stopsOf(pod), ['app', 'logger']);
  });

  it.concurrent('CRR-30: two that were made in the same second never run at once', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopTakes: stopped.opened });
    pod.script('proxy', { stopTakes: stopped.opened });
    const both = await Promise.all([
      windlass().request({ pod, containers: ['app'] }),
      windlass().request({ pod, containers: ['proxy'] }),
    ]);

    await waitFor('one to stop its container and the other to be queued', async (see) => {
      const reasons = await Promise.all(
        both.map(async (request) => (await request.read())?.status?.waitingFor?.reason),
      );
      return see(reasons).toSorted().join() === 'Queued,Stopping';
    });
    await waitFor('that stop to begin', () => node.stopsOf(pod).length > 0);
    expect(node.stopsOf(pod)).toHaveLength(1);

    stopped.open();
    const ends = await Promise.all(both.map((request) => request.ended()));
    expect(ends.map(({ conditions }) => conditions?.[0]?.type)).toEqual(['Complete', 'Complete']);
    expect(node.stopsOf(pod)).toHaveLength(2);
  });

  it.concurrent('CRR-30, CRR-35: ten for one container stop it once and all succeed', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app']);
    pod.script('app', { stopTakes: stopped.opened });
    const ten = Array.from({ length: 10 }, () => windlass().request({ pod, containers: ['app'] }));
    const requests = await Promise.all(ten);
    stopped.open();

    const ends = await Promise.all(requests.map((request) => request.ended()));

    expect(ends.map((status) => phaseOf(status, 'app'))).toEqual(requests.map(() => 'Succeeded'));
    expectStops(node.stopsOf(pod), ['app']);
  });
});
