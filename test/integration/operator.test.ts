import { describe, expect, it } from '@jest/globals';
import { commandNames } from '../../api/engine/operations.ts';
import { expectStops } from '../support/expect-stops.ts';
import { newGate } from '../support/gate.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { outcomeOf, phaseOf } from '../support/requests.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();

describe('an operator', () => {
  it.concurrent('pauses: what is in flight finishes, nothing more is stopped until resume', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());
    await request.operation.signal('pause', { by: 'ann' });
    ready();

    await request.untilContainer('app', 'Succeeded');
    const { status } = await request.waitsFor('Paused');
    expect(status?.waitingFor?.unblock).toContain('paused by ann');
    expectStops(node.stopsOf(pod), ['app']);

    await request.operation.signal('resume', { by: 'ann' });
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
  });

  // the identity of the client that these tests signal with
  const sender = 'operator@test';
  const payloads: readonly { readonly what: string; readonly args: readonly unknown[]; readonly by: string }[] = [
    { what: 'a name', args: [{ by: 'ann' }], by: 'ann' },
    { what: 'a name and things that nobody knows', args: [{ by: 'ann', color: 'red' }, 'more'], by: 'ann' },
    { what: 'an object without a name', args: [{}], by: sender },
    { what: 'an empty name', args: [{ by: '' }], by: sender },
    { what: 'a name that is no text', args: [{ by: { first: 'ann' } }], by: sender },
    { what: 'null', args: [null], by: sender },
    { what: 'nothing', args: [], by: sender },
    { what: 'a text', args: ['now, please'], by: sender },
    { what: 'a number', args: [7], by: sender },
    { what: 'a list', args: [['ann']], by: sender },
  ];
  for (const { what, args, by } of payloads) {
    it.concurrent(`aborts with ${what} as payload, and the message says that it was ${by}`, async () => {
      const { node } = windlass();
      const { request, pod, ready } = await inTheMiddle(windlass());

      await request.operation.signal('abort', ...args);

      await request.ended();
      const { status } = await request.until(`aborted by ${by}`, ({ message }) => message === `aborted by ${by}`);
      expect(status && outcomeOf(status)).toMatchObject({ type: 'Failed', reason: 'Aborted' });
      expect(status && outcomeOf(status)?.message).toContain(`Aborted by ${by}`);
      expect(status?.containerRecreateStates?.map(({ phase }) => phase)).toEqual(['Recreating', 'Pending']);
      expectStops(node.stopsOf(pod), ['app']);
      ready();
    });
  }

  it.concurrent('aborts in the middle of a stop, which ends as it would have', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopTakes: stopped.opened });
    const request = await windlass().request({ pod, containers: ['app', 'proxy'] });
    await request.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'app');

    await request.operation.signal('abort', { by: 'ann' });
    expect((await request.ended()).message).toBe('aborted by ann');
    stopped.open();

    await request.untilContainer('app', 'Recreating');
    await pod.restarted('app', 1);
    expectStops(node.stopsOf(pod), ['app']);
  });

  it.concurrent('skips the container that holds everything up', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());

    await request.operation.signal('skip');

    const status = await request.ended();
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
    expect(phaseOf(status, 'proxy')).toBe('Succeeded');
    await request.until(`skipped by ${sender}`, ({ containerRecreateStates }) => {
      return containerRecreateStates?.[0]?.message === `skipped by ${sender}`;
    });
    ready();
  });

  it.concurrent('skips a container by its name before its turn comes', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());

    await request.operation.signal('skip', { by: 'ann', target: 'proxy' });
    await request.until('told', ({ containerRecreateStates }) => {
      return containerRecreateStates?.[1]?.message === 'skipped by ann';
    });
    ready();

    const status = await request.ended();
    expectStops(node.stopsOf(pod), ['app']);
    expect(phaseOf(status, 'app')).toBe('Succeeded');
  });

  it.concurrent('retries a container whose stop has failed', async () => {
    const { node } = windlass();
    const ready = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopFails: 'context deadline exceeded' });
    pod.script('proxy', { readyTakes: ready.opened });
    const strategy = { failurePolicy: 'Ignore' } as const;
    const request = await windlass().request({ pod, containers: ['app', 'proxy'], strategy });
    await request.untilContainer('app', 'Failed');
    await request.untilContainer('proxy', 'Recreating');
    pod.script('app', {});

    await request.operation.signal('retry', { by: 'ann', target: 'app' });

    await request.untilContainer('app', 'Succeeded');
    ready.open();
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expectStops(node.stopsOf(pod), ['app', 'proxy', 'app']);
    expect(pod.restartsOf('app')).toBe(1);
  });

  it.concurrent('CRR-36: retries a forced stop that has failed', async () => {
    const { node } = windlass();
    const ready = newGate();
    const pod = await windlass().runPod(['app', 'proxy']);
    pod.script('app', { stopFails: 'context deadline exceeded' });
    pod.script('proxy', { readyTakes: ready.opened });
    const strategy = { failurePolicy: 'Ignore', forceRecreate: true } as const;
    const request = await windlass().request({ pod, containers: ['app', 'proxy'], strategy });
    await request.untilContainer('app', 'Failed');
    await request.untilContainer('proxy', 'Recreating');
    pod.script('app', {});

    await request.operation.signal('retry');

    await request.untilContainer('app', 'Succeeded');
    ready.open();
    await request.ended();
    expectStops(node.stopsOf(pod), ['app', 'proxy', 'app']);
  });

  const unreadable = [
    { what: 'no JSON', encoding: 'json/plain', data: '{"by": "ann' },
    { what: 'bytes that say to be JSON', encoding: 'json/plain', data: Buffer.from([0, 255, 254, 1]) },
    { what: 'an encoding that nobody knows', encoding: 'binary/encrypted', data: 'now' },
    { what: 'bytes', encoding: 'binary/plain', data: Buffer.from([0, 255, 254, 1]) },
    { what: 'no encoding', data: 'now' },
  ];
  for (const { what, encoding, data } of unreadable) {
    it.concurrent(`aborts although the payload is ${what}`, async () => {
      const { node, client } = windlass();
      const { request, pod, ready } = await inTheMiddle(windlass());

      const metadata = encoding === undefined ? {} : { encoding: Buffer.from(encoding) };
      const send = async (signalName: string) =>
        client.workflowService.signalWorkflowExecution({
          namespace: 'default',
          workflowExecution: { workflowId: request.workflowId },
          signalName,
          identity: sender,
          input: { payloads: [{ metadata, data: Buffer.from(data) }] },
        });
      await send('changed');
      await send('abort');
      ready();

      const status = await request.ended();
      expect(status.message).toBe(`aborted by ${sender}`);
      expectStops(node.stopsOf(pod), ['app']);
    });
  }

  it.concurrent('may send every command at any time, and as often as they like', async () => {
    const { request, pod, ready } = await inTheMiddle(windlass());
    const calm = commandNames.filter((name) => name !== 'abort' && name !== 'skip');
    for (const name of [...calm, ...calm.toReversed(), 'resume']) await request.operation.signal(name, null);
    ready();
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expect(pod.restartsOf('app')).toBe(1);
  });

  it.concurrent('terminates the workflow: the request continues in a new run', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());

    await request.operation.terminate('by hand');
    ready();

    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
  });

  it.concurrent('pauses and terminates the workflow: the new run is paused as well', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());
    await request.operation.signal('pause', { by: 'ann' });
    await request.waitsFor('Paused');

    await request.operation.terminate('by hand');
    ready();

    await request.untilContainer('app', 'Succeeded');
    const { status } = await request.waitsFor('Paused');
    expect(status?.waitingFor?.unblock).toContain('paused by ann');
    expectStops(node.stopsOf(pod), ['app']);
    await request.operation.signal('resume');
    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
  });

  it.concurrent('cancels the workflow, which is another way to abort', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass());

    await request.operation.cancel();

    expect((await request.ended()).message).toBe('aborted by a cancellation of its workflow');
    expectStops(node.stopsOf(pod), ['app']);
    ready();
  });

  it.concurrent('CRR-36: terminates the workflow during a forced stop, which still happens once', async () => {
    const { node } = windlass();
    const stopped = newGate();
    const pod = await windlass().runPod(['app']);
    pod.script('app', { stopTakes: stopped.opened });
    const request = await windlass().request({ pod, containers: ['app'], strategy: { forceRecreate: true } });
    await request.waitsFor('Stopping');
    await windlass().node.begunToStop(pod, 'app');

    await request.operation.terminate('by hand');
    const { runId } = await waitFor('a new run', async (see) => {
      const now = see(await request.operation.describe());
      return now.status.name === 'RUNNING' ? now : undefined;
    });
    expect(runId).not.toBe('');
    stopped.open();

    expect(phaseOf(await request.ended(), 'app')).toBe('Succeeded');
    expect(pod.restartsOf('app')).toBe(1);
    expectStops(node.stopsOf(pod), ['app']);
  });

  it.concurrent('CRR-36: terminates the workflow after a forced stop, which is not repeated', async () => {
    const { node } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass(), { strategy: { forceRecreate: true } });

    await request.operation.terminate('by hand');
    ready();

    expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
    expectStops(node.stopsOf(pod), ['app', 'proxy']);
    expect([pod.restartsOf('app'), pod.restartsOf('proxy')]).toEqual([1, 1]);
  });

  for (const forceRecreate of [false, true]) {
    const how = forceRecreate ? 'CRR-36: with forceRecreate' : 'CRR-50: without forceRecreate';
    it.concurrent(`${how}, resets the workflow to its start, and no container is stopped twice`, async () => {
      const { node } = windlass();
      const { request, pod, ready } = await inTheMiddle(windlass(), { strategy: { forceRecreate } });

      await request.resetToStart();
      ready();

      expect(outcomeOf(await request.ended())).toMatchObject({ type: 'Complete' });
      expectStops(node.stopsOf(pod), ['app', 'proxy']);
      expect([pod.restartsOf('app'), pod.restartsOf('proxy')]).toEqual([1, 1]);
    });
  }
});
