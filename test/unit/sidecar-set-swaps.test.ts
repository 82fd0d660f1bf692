import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Event } from '../../api/core/event.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { hotMark } from '../../api/sidecar-set/marks.ts';
import { hot, injectedPod } from '../support/sidecar-pods.ts';
import { rollOutOf, SwapWorld } from '../support/swap-world.ts';
import { waitFor } from '../support/wait.ts';

let world: SwapWorld;

beforeEach(() => {
  world = new SwapWorld();
});

afterEach(async () => {
  await world.stop();
});

const mesh = (image: string, empty = 'empty:1') => ({ containers: [hot('mesh', image, empty)] });
const eventsOf = () =>
  (world.cluster.all(kubeResource.events) as unknown as readonly Event[]).map(
    ({ reason, message }) => `${reason}: ${message}`,
  );

/** The kubelet works all the time. */
async function until(what: string, holds: () => unknown, works?: Parameters<SwapWorld['kubelet']>[0]): Promise<void> {
  await waitFor(what, () => {
    world.kubelet(works);
    return holds();
  });
}

describe('swaps of a SidecarSet', () => {
  it('SHU-32, SHU-41: the new image starts in the idle container, and the old one becomes idle', async () => {
    const old = world.put(mesh('mesh:1'));
    world.addPod(injectedPod([old], { name: 'web' }));
    await world.start();
    const set = world.put({ ...mesh('mesh:2'), generation: 2 });
    world.rollOut();
    await until('the swap', () => world.operations[0]?.progress.end);
    expect(world.images('web')).toMatchObject({ 'mesh-1': 'empty:1', 'mesh-2': 'mesh:2' });
    const { annotations = {} } = world.pod('web').metadata;
    expect(annotations[hotMark.working]).toBe('{"mesh":"mesh-2"}');
    const version = annotations[`${hotMark.version}mesh-2`];
    expect(Number(version)).toBeGreaterThan(1);
    expect([annotations[`${hotMark.version}mesh-1`], annotations[`${hotMark.otherVersion}mesh-2`]]).toEqual(['0', '0']);
    expect(annotations[`${hotMark.otherVersion}mesh-1`]).toBe(version);
    expect(world.operations[0]?.cause).toBe(rollOutOf(set));
    expect(world.operations[0]?.progress.end).toMatchObject({ kind: 'Completed', reason: 'Swapped' });
    expect(eventsOf()).toContain('ResetContainerSucceed: reset sidecar container image empty successfully');
  });

  it('SHU-84: each step is one write of images and annotations', async () => {
    const old = world.put(mesh('mesh:1'));
    world.addPod(injectedPod([old], { name: 'web' }));
    await world.start();
    world.put({ ...mesh('mesh:2'), generation: 2 });
    world.rollOut();
    await until('the swap', () => world.operations[0]?.progress.end);
    const [begin, reset, ...others] = world.swapsOf('web');
    expect(others).toEqual([]);
    expect(begin).toMatchObject({
      spec: { containers: [{ name: 'mesh-2', image: 'mesh:2' }] },
      metadata: { annotations: { [hotMark.working]: '{"mesh":"mesh-2"}' } },
    });
    expect(reset).toMatchObject({
      spec: { containers: [{ name: 'mesh-1', image: 'empty:1' }] },
      metadata: { annotations: { [`${hotMark.version}mesh-1`]: '0' } },
    });
  });

  it('SHU-34: a pod uses up maxUnavailable until its old container is idle', async () => {
    const old = world.put(mesh('mesh:1'));
    for (const name of ['web-a', 'web-b']) world.addPod(injectedPod([old], { name }));
    await world.start();
    world.put({ ...mesh('mesh:2'), generation: 2 });
    world.rollOut();
    const begun = () => ['web-a', 'web-b'].filter((name) => world.images(name)['mesh-2'] === 'mesh:2');
    await until(
      'the first one',
      () => begun().length > 0,
      () => false,
    );
    const [first = ''] = begun();
    await new Promise((resolve) => void setTimeout(resolve, 300));
    expect(begun()).toEqual([first]);
    await waitFor('the second one', () => {
      if (begun().length === 1) world.kubelet();
      return begun().length === 2;
    });
    expect(world.images(first)).toMatchObject({ 'mesh-1': 'empty:1', 'mesh-2': 'mesh:2' });
    await until('both', () => world.operations.length === 2 && world.operations.every(({ progress }) => progress.end));
  });

  it('the first write needs the permit of the roll-out', async () => {
    const old = world.put(mesh('mesh:1'));
    world.addPod(injectedPod([old], { name: 'web' }));
    await world.start();
    world.put({ ...mesh('mesh:2'), generation: 2 });
    await new Promise((resolve) => void setTimeout(resolve, 300));
    expect([world.operations, world.swapsOf('web')]).toEqual([[], []]);
  });

  it('SHU-42, SHU-69: what OpenKruise has left half swapped is finished without a permit', async () => {
    const set = world.put(mesh('mesh:2'));
    const pod = injectedPod([set], { name: 'web' });
    world.addPod({
      ...pod,
      metadata: {
        ...pod.metadata,
        annotations: {
          ...pod.metadata.annotations,
          [hotMark.working]: '{"mesh":"mesh-2"}',
          [`${hotMark.version}mesh-2`]: '77',
          [`${hotMark.otherVersion}mesh-1`]: '77',
        },
      },
      spec: {
        ...pod.spec,
        containers: pod.spec.containers.map((container) => {
          const images: Readonly<Record<string, string>> = { 'mesh-1': 'mesh:1', 'mesh-2': 'mesh:2' };
          return { ...container, image: images[container.name] ?? 'app:1' };
        }),
      },
    });
    world.kubelet();
    await world.start();
    await until('the reset', () => world.images('web')['mesh-1'] === 'empty:1');
    await until('the end', () => world.operations[0]?.progress.end);
    expect(world.images('web')['mesh-2']).toBe('mesh:2');
  });

  it('SHU-43: a paused SidecarSet resets nothing until it is unpaused', async () => {
    const old = world.put(mesh('mesh:1'));
    world.addPod(injectedPod([old], { name: 'web' }));
    await world.start();
    world.put({ ...mesh('mesh:2'), generation: 2 });
    world.rollOut();
    await until(
      'the new image',
      () => world.images('web')['mesh-2'] === 'mesh:2',
      () => false,
    );
    world.put({ ...mesh('mesh:2'), updateStrategy: { paused: true }, generation: 3 });
    await until('the pause', () => world.operations[0]?.progress.waitingFor?.reason === 'Paused');
    expect(world.images('web')).toMatchObject({ 'mesh-1': 'mesh:1', 'mesh-2': 'mesh:2' });
    world.put({ ...mesh('mesh:2'), generation: 4 });
    await until('the reset', () => world.images('web')['mesh-1'] === 'empty:1');
  });

  it('SHU-60: abort restores the old version, which has served all the time', async () => {
    const old = world.put(mesh('mesh:1'));
    world.addPod(injectedPod([old], { name: 'web' }));
    await world.start();
    world.put({ ...mesh('mesh:broken'), generation: 2 });
    world.rollOut();
    const works = (_: string, image: string) => image !== 'mesh:broken';
    await until('the new image', () => world.images('web')['mesh-2'] === 'mesh:broken', works);
    world.operations[0]?.put({ kind: 'command', name: 'abort' });
    await until('the end', () => world.operations[0]?.progress.end, works);
    expect(world.operations[0]?.progress.end).toMatchObject({ kind: 'Aborted' });
    expect(world.images('web')).toMatchObject({ 'mesh-1': 'mesh:1', 'mesh-2': 'empty:1' });
    expect(world.pod('web').metadata.annotations?.[hotMark.working]).toBe('{"mesh":"mesh-1"}');
  });

  it('SHU-68: another empty image rolls within maxUnavailable', async () => {
    const old = world.put(mesh('mesh:1'));
    for (const name of ['web-a', 'web-b', 'web-c']) world.addPod(injectedPod([old], { name }));
    await world.start();
    world.put({ ...mesh('mesh:1', 'empty:2'), generation: 2 });
    const emptied = () => ['web-a', 'web-b', 'web-c'].filter((name) => world.images(name)['mesh-2'] === 'empty:2');
    await waitFor('the first one', () => emptied().length > 0);
    await new Promise((resolve) => void setTimeout(resolve, 300));
    expect(emptied().length).toBe(1);
    expect(world.operations.length).toBe(1);
    await until('all', () => emptied().length === 3);
    await until(
      'the end',
      () => world.operations.length === 3 && world.operations.every(({ progress }) => progress.end),
    );
  });

  it('two SidecarSets swap in a pod one after the other', async () => {
    const first = world.put(mesh('mesh:1'));
    const second = world.put({ name: 'other', containers: [hot('proxy', 'proxy:1')] });
    world.addPod(injectedPod([first, second], { name: 'web' }));
    await world.start();
    world.put({ ...mesh('mesh:2'), generation: 2 });
    world.rollOut();
    await until(
      'the first swap',
      () => world.images('web')['mesh-2'] === 'mesh:2',
      () => false,
    );
    world.put({ name: 'other', containers: [hot('proxy', 'proxy:2')], generation: 2 });
    world.rollOut('other');
    await new Promise((resolve) => void setTimeout(resolve, 300));
    expect(world.operations.map(({ operation }) => operation.set.name)).toEqual(['logs']);
    await until('the second swap', () => world.images('web')['proxy-1'] === 'empty:1');
    await until('the end', () => world.operations.every(({ progress }) => progress.end));
    expect(world.operations.map(({ operation }) => operation.set.name)).toEqual(['logs', 'other']);
  });
});
