import { describe, expect, it } from '@jest/globals';
import { operationOn, podWithEnvironment, setGate, setTier } from '../support/environment.ts';
import { expectStops } from '../support/expect-stops.ts';
import { newGate } from '../support/gate.ts';
import type { PlayedPod } from '../support/kubelet-player.ts';
import { phaseOf } from '../support/requests.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();

/** Waits until the operation of the pod has completed, and returns its description in Temporal. */
async function ended(pod: PlayedPod) {
  return await waitFor('the operation to end', async (see) => {
    const description = await operationOn(windlass(), pod).describe();
    return see(description.status.name) === 'COMPLETED' && description;
  });
}

describe('the environment of a pod that is updated in place', () => {
  it.concurrent('ND-27, ND-29: is refreshed once while the pod is out of service, and only where it is old', async () => {
    const { node } = windlass();
    const pod = await podWithEnvironment(windlass());
    await setTier(windlass(), pod, 'gold');
    await setGate(windlass(), pod, 'False');
    await pod.restarted('app', 1);
    const operation = await ended(pod);
    expect(operation.searchAttributes).toMatchObject({ WindlassKind: ['Pod'], WindlassName: [pod.ref.name] });

    await setGate(windlass(), pod, 'True');
    await setTier(windlass(), pod, 'iron');
    await setTier(windlass(), pod, 'gold');
    expectStops(node.stopsOf(pod), ['app']);
    expect([pod.restartsOf('app'), pod.restartsOf('proxy')]).toEqual([1, 0]);
  });

  it.concurrent('CRR-31: waits for a request that has begun, and then finds that it has nothing to do', async () => {
    const { node } = windlass();
    const pod = await podWithEnvironment(windlass());
    const ready = newGate();
    pod.script('proxy', { readyTakes: ready.opened });
    const request = await windlass().request({
      pod,
      containers: ['proxy', 'app'],
      strategy: { orderedRecreate: true },
    });
    await request.waitsFor('ContainerNotReady');
    // the request behind it refers to the instance in the status
    await pod.reportedRestarts('proxy', 1);
    await setGate(windlass(), pod, 'False');
    await setTier(windlass(), pod, 'gold');
    const behind = await windlass().request({ pod, containers: ['proxy'] });
    expect((await behind.waitsFor('Queued')).status?.waitingFor?.blockedBy).toEqual([`crr/${request.ref.name}`]);
    expectStops(node.stopsOf(pod), ['proxy']);
    ready.open();
    expect(phaseOf(await request.ended(), 'app')).toBe('Succeeded');
    await behind.ended();
    expectStops(node.stopsOf(pod).toSorted(), ['app', 'proxy', 'proxy']);
    expect(pod.restartsOf('app')).toBe(1);
  });

  it.concurrent('CRR-31: goes before a request that comes meanwhile, which recreates nothing twice', async () => {
    const { node } = windlass();
    const pod = await podWithEnvironment(windlass());
    const stopped = newGate();
    pod.script('app', { stopTakes: stopped.opened });
    await setGate(windlass(), pod, 'False');
    await setTier(windlass(), pod, 'gold');
    await node.begunToStop(pod, 'app');
    const request = await windlass().request({ pod, containers: ['app', 'proxy'] });
    expect((await request.waitsFor('Queued')).status?.waitingFor?.blockedBy).toEqual([`pod/${pod.ref.name}`]);
    stopped.open();
    const status = await request.ended();
    expect([phaseOf(status, 'app'), phaseOf(status, 'proxy')]).toEqual(['Succeeded', 'Succeeded']);
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
    expect([pod.restartsOf('app'), pod.restartsOf('proxy')]).toEqual([1, 1]);
  });

  it.concurrent('ND-28: is tried again when the runtime refuses, can be paused, and says what it waits for', async () => {
    const { node } = windlass();
    const pod = await podWithEnvironment(windlass());
    pod.script('app', { stopFails: 'permission denied' });
    await setGate(windlass(), pod, 'False');
    await setTier(windlass(), pod, 'gold');
    await node.begunToStop(pod, 'app');
    const reasonIs = (reason: string) =>
      waitFor(`the operation to wait for ${reason}`, async (see) => {
        const { searchAttributes } = await operationOn(windlass(), pod).describe();
        return see(searchAttributes.WindlassReason)?.[0] === reason;
      });
    await reasonIs('StopFailed');
    await operationOn(windlass(), pod).signal('pause', { by: 'ann' });
    await reasonIs('Paused');
    pod.script('app', {});
    await operationOn(windlass(), pod).signal('resume', { by: 'ann' });
    await pod.restarted('app', 1);
    await ended(pod);
  });

  it.concurrent('IPU-51: is no longer refreshed when the pod is deleted', async () => {
    const { node } = windlass();
    const pod = await podWithEnvironment(windlass());
    pod.script('app', { stopFails: 'permission denied' });
    await setGate(windlass(), pod, 'False');
    await setTier(windlass(), pod, 'gold');
    await node.begunToStop(pod, 'app');
    await pod.delete();
    await ended(pod);
  });
});
