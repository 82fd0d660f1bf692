// Containers that restart in the middle of a swap, or after it. The kubelet gives them the annotations of that moment, and
// the scripts decide by them (SHU-81).
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { startRole } from '../support/hot-script.ts';
import { hot, injectedPod } from '../support/sidecar-pods.ts';
import { SwapWorld } from '../support/swap-world.ts';
import { waitFor } from '../support/wait.ts';

let world: SwapWorld;
let generation: number;

beforeEach(async () => {
  world = new SwapWorld();
  generation = 1;
  world.addPod(injectedPod([world.put(mesh('mesh:1'))], { name: 'web' }));
  await world.start();
  world.rollOut();
});

afterEach(async () => {
  await world.stop();
});

const mesh = (image: string) => ({ containers: [hot('mesh', image)] });
const publish = (image: string) => void world.put({ ...mesh(image), generation: ++generation });
const images = () => [world.images('web')['mesh-1'], world.images('web')['mesh-2']];
const roles = () => ['mesh-1', 'mesh-2'].map((container) => startRole(world.pod('web'), container));
const restarts = (container: string) =>
  world.pod('web').status?.containerStatuses?.find(({ name }) => name === container)?.restartCount ?? 0;

type Works = NonNullable<Parameters<SwapWorld['kubelet']>[0]>;

/** The kubelet works all the time. */
async function until(what: string, holds: () => unknown, works?: Works): Promise<void> {
  await waitFor(what, () => {
    world.kubelet(works);
    return holds();
  });
}

/** Starts a swap whose new container does not get ready, and lets what the controller does about it happen. */
async function inTheMiddle(image: string, then: readonly string[]): Promise<Works> {
  const works: Works = (_, running) => running !== image;
  publish(image);
  await until('the new image', () => images().includes(image), works);
  expect(images()).toEqual(then);
  return works;
}

async function swapped(image: string, then: readonly string[]): Promise<void> {
  await until('the swap', () => images().every((one, index) => one === then[index]));
  await until('the end', () => world.operations.every(({ progress }) => progress.end));
  expect(images()).toEqual(then);
  expect(then).toContain(image);
}

/** These containers restart, and nothing is written because of it. */
async function restart(containers: readonly string[], works?: Works): Promise<void> {
  const before = { counts: containers.map(restarts), writes: world.swapsOf('web').length, roles: roles() };
  world.crash('web', containers);
  await until(
    'the restarts',
    () => containers.every((one, index) => restarts(one) > (before.counts[index] ?? 0)),
    works,
  );
  expect([roles(), world.swapsOf('web').length]).toEqual([before.roles, before.writes]);
}

describe('containers of a hot-upgrade sidecar that restart', () => {
  it('SHU-64: the old container restarts in the middle, stays up without listening, and becomes idle after the swap', async () => {
    const works = await inTheMiddle('mesh:2', ['mesh:1', 'mesh:2']);
    await restart(['mesh-1'], works);
    expect(roles()).toEqual(['stays up', 'takes over']);
    await swapped('mesh:2', ['empty:1', 'mesh:2']);
    expect(world.swapsOf('web').length).toBe(2);

    // the other way round, where both versions are numbers of updates
    const again = await inTheMiddle('mesh:3', ['mesh:3', 'mesh:2']);
    await restart(['mesh-2'], again);
    expect(roles()).toEqual(['takes over', 'stays up']);
    await swapped('mesh:3', ['mesh:3', 'empty:1']);
    expect(world.swapsOf('web').length).toBe(4);
  });

  it('SHU-64: an old container that does not come up again does not hold back the reset', async () => {
    await inTheMiddle('mesh:2', ['mesh:1', 'mesh:2']);
    world.crash('web', ['mesh-1']);
    const works: Works = (_, image) => image !== 'mesh:1';
    await until('the reset', () => images()[0] === 'empty:1', works);
    await swapped('mesh:2', ['empty:1', 'mesh:2']);
  });

  it('SHU-65: both restart in the middle: the greater version takes over, the smaller one does not listen', async () => {
    const works = await inTheMiddle('mesh:2', ['mesh:1', 'mesh:2']);
    world.crash('web', ['mesh-1', 'mesh-2']);
    await until('the restart of the old one', () => restarts('mesh-1') === 1, works);
    expect([images(), roles()]).toEqual([
      ['mesh:1', 'mesh:2'],
      ['stays up', 'takes over'],
    ]);
    await swapped('mesh:2', ['empty:1', 'mesh:2']);
    expect(world.swapsOf('web').length).toBe(2);

    const again = await inTheMiddle('mesh:3', ['mesh:3', 'mesh:2']);
    world.crash('web', ['mesh-1', 'mesh-2', 'app']);
    await until('the restart of the old one', () => restarts('mesh-2') === 2, again);
    expect([images(), roles()]).toEqual([
      ['mesh:3', 'mesh:2'],
      ['takes over', 'stays up'],
    ]);
    await swapped('mesh:3', ['mesh:3', 'empty:1']);
    expect(world.swapsOf('web').length).toBe(4);
  });

  it('SHU-66: the working container restarts after the swap as at a first start, and nothing is written', async () => {
    // not the idle one: its empty image would have to wait for the back-off of the kubelet at the end
    await restart(['mesh-1']);
    expect(roles()).toEqual(['listens', 'idles']);

    publish('mesh:2');
    await swapped('mesh:2', ['empty:1', 'mesh:2']);
    const runs = world.operations.length;
    await restart(['mesh-2']);
    await restart(['mesh-1', 'mesh-2']);
    expect(roles()).toEqual(['idles', 'listens']);
    expect([images(), world.operations.length]).toEqual([['empty:1', 'mesh:2'], runs]);

    // a write because of them would have been made by the end of the next swap
    publish('mesh:3');
    await swapped('mesh:3', ['mesh:3', 'empty:1']);
    expect([world.swapsOf('web').length, world.operations.length]).toEqual([4, 2]);
  });

  it('SHU-66: a restart while the old container becomes idle is a first start, too', async () => {
    publish('mesh:2');
    const works: Works = (container, image) => container !== 'mesh-1' || image !== 'empty:1';
    await until('the reset', () => images()[0] === 'empty:1', works);
    await restart(['mesh-2'], works);
    expect(roles()).toEqual(['idles', 'listens']);
    await swapped('mesh:2', ['empty:1', 'mesh:2']);
    expect(world.swapsOf('web').length).toBe(2);
  });

  it('SHU-64, SHU-65: after a swap that was undone the old version restarts as at a first start', async () => {
    const works = await inTheMiddle('mesh:broken', ['mesh:1', 'mesh:broken']);
    await restart(['mesh-1'], works);
    world.operations[0]?.put({ kind: 'command', name: 'abort' });
    await until('the end', () => world.operations[0]?.progress.end, works);
    expect([images(), roles()]).toEqual([
      ['mesh:1', 'empty:1'],
      ['listens', 'idles'],
    ]);
    await restart(['mesh-1', 'mesh-2'], works);
  });
});
