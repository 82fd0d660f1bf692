import { describe, expect, it } from '@jest/globals';
import type { Node } from '../../api/core/node.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { expectStops } from '../support/expect-stops.ts';
import { newGate } from '../support/gate.ts';
import { marks, startJob } from '../support/jobs.ts';
import { NodePlayer } from '../support/kubelet-player.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();

describe('the end of sidecars', () => {
  it.concurrent('JST-1, JST-12, JST-26: comes after the main container, by one request that completes', async () => {
    const job = await startJob(windlass(), { sidecars: { a: [marks.stops], b: [marks.stops] } });
    expect(await job.request()).toBeUndefined();
    job.pod.exit('main');
    await job.phase('Succeeded');
    await job.ended();
    expectStops(windlass().node.stopsOf(job.pod).toSorted(), ['a', 'b']);
    const request = await waitFor('the request to complete', async () => {
      const now = await job.request();
      return now?.status?.phase === 'Completed' && now;
    });
    expect(request.status?.conditions).toMatchObject([{ type: 'Complete', reason: 'ContainersStopped' }]);
  });

  it.concurrent('JST-13, JST-20: writes the phase where exit codes do not count, after the others have ended', async () => {
    const job = await startJob(windlass(), {
      sidecars: { a: [marks.stops], b: [marks.stops, marks.ignored] },
    });
    job.pod.script('b', { exitCode: 7 });
    job.pod.exit('main');
    const pod = await job.phase('Succeeded');
    expect(pod.status?.conditions?.find(({ type }) => type === 'SidecarTerminated')).toMatchObject({ status: 'True' });
    await job.ended();
    expectStops(windlass().node.stopsOf(job.pod), ['a', 'b']);
  });

  it.concurrent('JST-24, JST-27: a sidecar that fails when it is stopped under OnFailure is stopped again', async () => {
    const job = await startJob(windlass(), { restartPolicy: 'OnFailure' });
    job.pod.script('proxy', { exitCode: 143 });
    job.pod.exit('main');
    const { waitingFor } = await job.waitsFor('StopFailed');
    expect(waitingFor?.unblock).toContain('it has been started again');
    job.pod.script('proxy', {});
    await job.phase('Succeeded');
    await job.ended();
    expectStops(windlass().node.stopsOf(job.pod), ['proxy', 'proxy']);
  });

  it.concurrent('JST-30: a stop that the runtime refuses is tried again, at once after retry', async () => {
    const job = await startJob(windlass());
    job.pod.script('proxy', { stopFails: 'no such thing' });
    job.pod.exit('main');
    const { waitingFor } = await job.waitsFor('StopFailed');
    expect(waitingFor).toMatchObject({
      blockedBy: ['container/proxy'],
      unblock: expect.stringContaining('no such thing'),
    });
    job.pod.script('proxy', {});
    await job.operation.signal('retry', { by: 'ann' });
    const pod = await job.phase('Succeeded');
    await job.ended();
    // two, or more if ten seconds had passed before the retry
    expectStops(windlass().node.stopsOf(job.pod).slice(0, 2), ['proxy', 'proxy']);
    await waitFor('the wait to be taken back', async () => {
      const now = await job.pod.read();
      return now?.metadata.annotations?.['windlass.io/sidecar-termination'] === undefined;
    });
    await waitFor('the Event', async (see) =>
      see(await windlass().cluster.eventsOf(pod)).some(({ message }) => message === 'Retried by ann'),
    );
  });

  it.concurrent('JST-11: on a virtual node swaps the image, and waits for the provider', async () => {
    const { cluster } = windlass();
    const node = await NodePlayer.join(cluster);
    const labels = { type: 'virtual-kubelet' };
    await cluster.kube.patch<Node>(kubeResource.nodes, { name: node.ref.name }, 'merge', { metadata: { labels } });
    const job = await startJob(windlass(), { node, sidecars: { a: [marks.image], b: [marks.image, marks.stops] } });
    job.pod.exit('main');
    await job.waitsFor('QuickExitPending');
    const pod = await job.pod.read();
    expect(pod?.spec.containers.map(({ image }) => image)).toEqual(['busybox:1.36', 'busybox:1.35', 'busybox:1.35']);
    expect(await job.request()).toBeUndefined();
    job.pod.exit('a');
    job.pod.exit('b');
    await job.phase('Succeeded');
    await job.ended();
  });

  it.concurrent('JST-10: waits for the Node of the pod', async () => {
    const { cluster } = windlass();
    const node = await NodePlayer.join(cluster);
    const job = await startJob(windlass(), { node });
    await cluster.kube.delete(kubeResource.nodes, { name: node.ref.name });
    job.pod.exit('main');
    const { waitingFor } = await job.waitsFor('NodeMissing');
    expect(waitingFor?.blockedBy).toEqual([`node/${node.ref.name}`]);
    await job.operation.signal('abort', { by: 'ann' });
    await job.ended('FAILED');
  });

  it.concurrent('JST-34: ends with a pod that is deleted', async () => {
    const stopped = newGate();
    const job = await startJob(windlass());
    job.pod.script('proxy', { stopTakes: stopped.opened });
    job.pod.exit('main');
    await windlass().node.begunToStop(job.pod, 'proxy');
    await job.pod.delete();
    await job.ended();
    stopped.open();
  });
});

describe('an operator of the end of sidecars', () => {
  it.concurrent('pauses and resumes', async () => {
    const job = await startJob(windlass());
    job.pod.script('proxy', { stopFails: 'not now' });
    job.pod.exit('main');
    await job.waitsFor('StopFailed');
    await job.operation.signal('pause', { by: 'ann' });
    await waitFor('the name to be told', async () => {
      const { waitingFor } = await job.waitsFor('Paused');
      return waitingFor?.unblock.includes('paused by ann');
    });
    job.pod.script('proxy', {});
    await job.operation.signal('retry', { by: 'ann' });
    await job.operation.signal('resume', { by: 'ann' });
    await job.phase('Succeeded');
    await job.ended();
  });

  it.concurrent('takes commands by annotation of the pod, also before its main container is done', async () => {
    const job = await startJob(windlass(), { sidecars: { a: [marks.stops], b: [marks.stops] } });
    await job.command('pause');
    job.pod.exit('main');
    const { waitingFor } = await job.waitsFor('Paused');
    expect(waitingFor?.unblock).toContain('paused by annotation of');
    expect(await job.request()).toBeUndefined();
    await job.obeyed();

    await job.command('skip a');
    await job.obeyed();
    await job.command('resume');
    await job.ended();
    expect([job.pod.newest('a')?.running, job.pod.newest('b')?.running]).toEqual([true, false]);
    const pod = await job.obeyed();
    expect(pod.metadata.annotations?.['windlass.io/sidecar-termination']).toBe('{"skipped":["a"]}');
    const events = (await windlass().cluster.eventsOf(pod)).map(({ message }) => message);
    for (const done of ['Paused', 'Skipped a', 'Resumed']) {
      expect(events).toContainEqual(expect.stringContaining(`${done} by annotation of`));
    }

    await job.command('retry');
    await job.obeyed(); // no operation is left to receive it
  });

  it.concurrent('tries again at once, and aborts, by annotation of the pod', async () => {
    const job = await startJob(windlass());
    job.pod.script('proxy', { stopFails: 'not now' });
    job.pod.exit('main');
    await job.waitsFor('StopFailed');
    await job.command('retry');
    await waitFor('the second stop', () => windlass().node.stopsOf(job.pod).length >= 2);
    await job.command('abort');
    await job.ended('FAILED');
    const { metadata } = await job.obeyed();
    expect(metadata.annotations?.['windlass.io/sidecar-termination']).toContain('"abortedBy":"annotation of');
    expect(job.pod.newest('proxy')?.running).toBe(true);
  });

  it.concurrent('skips a sidecar, which is then left running', async () => {
    const job = await startJob(windlass(), { sidecars: { a: [marks.stops], b: [marks.stops] } });
    job.pod.script('a', { stopFails: 'never' });
    job.pod.exit('main');
    await job.waitsFor('StopFailed');
    await job.operation.signal('skip', { by: 'ann' });
    await job.ended();
    expect(job.pod.newest('a')?.running).toBe(true);
    expect(job.pod.newest('b')?.running).toBe(false);
    const pod = await job.pod.read();
    expect(pod?.metadata.annotations?.['windlass.io/sidecar-termination']).toBe('{"skipped":["a"]}');
  });

  it.concurrent('aborts: nothing further is stopped, until the annotation is taken off', async () => {
    const job = await startJob(windlass());
    job.pod.script('proxy', { stopFails: 'not now' });
    job.pod.exit('main');
    await job.waitsFor('StopFailed');
    await job.operation.signal('abort', { by: 'ann' });
    await job.ended('FAILED');
    const { metadata } = await job.until('aborted', (pod) => pod.metadata.annotations !== undefined);
    expect(metadata.annotations?.['windlass.io/sidecar-termination']).toBe('{"abortedBy":"ann"}');
    expect(job.pod.newest('proxy')?.running).toBe(true);

    job.pod.script('proxy', {});
    const annotations = { 'windlass.io/sidecar-termination': null };
    await windlass().cluster.kube.patch(kubeResource.pods, job.pod.ref, 'merge', { metadata: { annotations } });
    await waitFor('the second attempt', async (see) => {
      await job.operation.signal('retry', { by: 'ann' }).catch(() => undefined);
      return see((await job.pod.read())?.status?.phase) === 'Succeeded';
    });
    await job.ended();
  });

  it.concurrent('JST-33: a workflow that is terminated manually is started again and continues', async () => {
    const job = await startJob(windlass());
    job.pod.script('proxy', { stopFails: 'not now' });
    job.pod.exit('main');
    await job.waitsFor('StopFailed');
    await job.operation.terminate('by hand');
    job.pod.script('proxy', {});
    await waitFor('the next run', async (see) => {
      await job.operation.signal('retry', { by: 'ann' }).catch(() => undefined);
      return see((await job.pod.read())?.status?.phase) === 'Succeeded';
    });
    await job.ended();
  });
});
