import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { newGate } from '../support/gate.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { outcomeOf, phaseOf } from '../support/requests.ts';
import { type RoleProcess, spawnRole } from '../support/roles.ts';
import { useWindlass } from './windlass.ts';

// Watcher and worker are processes of their own here, so that they can be killed.
const windlass = useWindlass({ watcher: false, worker: false });

const running: { watcher?: RoleProcess; worker?: RoleProcess } = {};

async function start(name: 'watcher' | 'worker'): Promise<void> {
  running[name] = await spawnRole(name, windlass().platform);
}

beforeAll(async () => {
  await Promise.all([start('watcher'), start('worker')]);
});

afterAll(async () => {
  await Promise.all([running.watcher?.stop(), running.worker?.stop()]);
});

const three = { pod: ['app', 'proxy', 'logger'] };

describe('a request goes on', () => {
  it('CRR-50: when the worker is killed and another one takes its place', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass(), three);

    await running.worker?.kill();
    ready();
    await start('worker');

    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expect(node.stopsOf(pod)).toEqual(['app', 'proxy', 'logger']);
  });

  it('when the watcher is killed: another one leads, finishes what was begun and starts what is new', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass(), three);
    const { watcher } = running;
    await start('watcher');

    await watcher?.kill();
    const newPod = await windlass().runPod(['app']);
    const newRequest = await windlass().request({ pod: newPod, containers: ['app'], ttlSecondsAfterFinished: 1 });
    const behind = await windlass().request({ pod, containers: ['logger'] });
    await behind.waitsFor('Queued');
    ready();

    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    await newRequest.gone();
    expect(newPod.restartsOf('app')).toBe(1);
    await behind.ended();
    // CRR-35: the one behind finds its container replaced
    expect(node.stopsOf(pod)).toEqual(['app', 'proxy', 'logger']);
  });

  it('when Temporal is killed and comes back, and says meanwhile that Temporal is silent', async () => {
    const { node, platform } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass(), three);
    const newPod = await windlass().runPod(['app']);

    await platform.kill('temporal');
    ready();
    const newRequest = await windlass().request({ pod: newPod, containers: ['app'] });
    const { status } = await newRequest.waitsFor('EngineSilent');
    expect(status).toMatchObject({ phase: '', waitingFor: { blockedBy: ['temporal'], blockedCount: 1 } });
    await platform.start('temporal');

    const [old, fresh] = await Promise.all([request.ended(), newRequest.ended()]);
    expect(outcomeOf(old)).toMatchObject({ type: 'Complete' });
    expect(outcomeOf(fresh)).toMatchObject({ type: 'Complete' });
    expect(fresh.waitingFor).toBeUndefined();
    expect(node.stopsOf(pod)).toEqual(['app', 'proxy', 'logger']);
    expect(node.stopsOf(newPod)).toEqual(['app']);
  });

  it('when the API server is killed and comes back', async () => {
    const { node, platform } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass(), three);

    await platform.kill('apiserver');
    ready();
    await platform.start('apiserver');

    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expect(node.stopsOf(pod)).toEqual(['app', 'proxy', 'logger']);
    const next = await windlass().request({ pod, containers: ['app'] });
    expect(phaseOf(await next.ended(), 'app')).toBe('Succeeded');
  });

  it('when the daemon of the node ends in the middle of a stop and comes back', async () => {
    const { node, connection } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopTakes: stopped.opened });
    const request = await windlass().request({ pod, containers: ['app', 'proxy'] });
    await request.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'app');

    await node.stopDaemon();
    stopped.open();
    await pod.restarted('app', 1);
    await node.startDaemon(connection);

    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expect(node.stopsOf(pod)).toEqual(['app', 'proxy']);
  });
});
