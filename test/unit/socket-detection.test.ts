import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { RuntimeDetector, socketsToTry } from '../../daemon/cri/detection.ts';
import { answers, FakeCri } from '../support/fake-cri.ts';

let run: string;
let fakes: FakeCri[];
let detector: RuntimeDetector;
let said: { readonly message: string; readonly socket?: string; readonly failure?: string }[];

beforeEach(async () => {
  run = await mkdtemp(join(tmpdir(), 'run-'));
  fakes = [];
  said = [];
});

afterEach(async () => {
  await detector?.stop();
  for (const fake of fakes) await fake.close();
  await rm(run, { recursive: true, force: true });
});

/** A runtime that listens on `file` below the folder that stands for /run. */
async function runtimeAt(file: string, options: { name?: string; version?: string } = {}): Promise<FakeCri> {
  const path = join(run, file);
  await mkdir(dirname(path), { recursive: true });
  const fake = await FakeCri.start({ path, ...(options.version && { version: options.version }) });
  fake.runtimeName = options.name ?? 'containerd';
  fakes.push(fake);
  return fake;
}

function detect(socketFile = ''): void {
  const note = (fields: object, message: string) => void said.push({ ...fields, message });
  detector = new RuntimeDetector({
    sockets: socketsToTry({ socketLocation: run, socketFile }),
    log: { info: note, warn: note },
    retryMs: { first: 5, most: 20 },
    idleMs: 20,
  });
  detector.start();
}

async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`waited in vain until ${what}; said: ${JSON.stringify(said)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const found = (name: string) => detector.named(name).length;
const troubleOf = () => detector.check().then(() => '', String);

describe('the sockets that are tried', () => {
  it('ND-4: are the known ones in the order of the original, then those of K3s and k0s', () => {
    expect(socketsToTry({ socketLocation: '/hostvarrun', socketFile: '' })).toEqual([
      '/hostvarrun/containerd.sock',
      '/hostvarrun/containerd/containerd.sock',
      '/hostvarrun/crio.sock',
      '/hostvarrun/crio/crio.sock',
      '/hostvarrun/cri-dockerd.sock',
      '/hostvarrun/cri-dockerd/cri-dockerd.sock',
      '/hostvarrun/k3s/containerd/containerd.sock',
      '/hostvarrun/k0s/containerd.sock',
    ]);
  });

  it('ND-3: are only the one that was asked for', () => {
    expect(socketsToTry({ socketLocation: '/hostvarrun', socketFile: 'my/cri.sock' })).toEqual([
      '/hostvarrun/my/cri.sock',
    ]);
  });
});

describe('detection', () => {
  it.each([
    ['containerd', 'containerd/containerd.sock'],
    ['cri-o', 'crio/crio.sock'],
    ['docker', 'cri-dockerd.sock'],
  ])('ND-5: takes %s at %s, which answers Version, ImageFsInfo and ListImages', async (name, file) => {
    const fake = await runtimeAt(file, { name });
    detect();
    await until(() => said.length > 0, 'it has said what it found');
    expect(found(name)).toBe(1);
    expect(fake.calls.map(({ call }) => call)).toEqual(['Version', 'ImageFsInfo', 'ListImages']);
    await expect(detector.check()).resolves.toBeUndefined();
    expect(said).toMatchObject([{ message: 'Container runtime is usable', socket: join(run, file), runtime: name }]);
  });

  it('ND-6: keeps every usable runtime, in order, and picks by the name that prefixes container IDs', async () => {
    await runtimeAt('crio/crio.sock', { name: 'cri-o' });
    await runtimeAt('containerd/containerd.sock');
    await runtimeAt('containerd.sock');
    detect();
    await until(() => said.length > 0, 'it has said what it found');
    expect([found('containerd'), found('cri-o')]).toEqual([2, 1]);
    expect(detector.absence('docker')).toEqual({
      final: true,
      message: 'not found runtime service for docker in daemon, which has containerd, containerd, cri-o',
    });
  });

  it('tries a socket once that has two names', async () => {
    await runtimeAt('containerd/containerd.sock');
    await symlink(join(run, 'containerd/containerd.sock'), join(run, 'containerd.sock'));
    detect();
    await until(() => said.length > 0, 'it has said what it found');
    expect(found('containerd')).toBe(1);
  });

  it('says that there is no socket, keeps looking, and takes a runtime that comes later', async () => {
    detect('late.sock');
    await until(() => said.length > 0, 'it has said so');
    expect(said.map(({ message }) => message)).toEqual([
      `not found container runtime sock: none of ${join(run, 'late.sock')}`,
    ]);
    await expect(troubleOf()).resolves.toContain('not found container runtime sock');
    expect(detector.absence('containerd').final).toBe(false);

    await runtimeAt('late.sock');
    await until(() => found('containerd') === 1, 'the late runtime is found');
  });

  it('names the socket and the call when a runtime does not speak CRI v1', async () => {
    await runtimeAt('containerd/containerd.sock', { version: 'v1alpha2' });
    detect();
    await until(() => said.length === 2, 'it has said so');
    expect(said).toMatchObject([
      { message: 'Container runtime is not usable', socket: join(run, 'containerd/containerd.sock') },
      { message: expect.stringContaining('no usable container runtime') },
    ]);
    expect(said[0]?.failure).toMatch(
      /^Version: .*\(it does not serve CRI v1: too old, or its CRI plugin is disabled\)$/,
    );
    await expect(troubleOf()).resolves.toContain(`${join(run, 'containerd/containerd.sock')}: Version: `);
  });

  it('names the call that failed, and takes the runtime once it works', async () => {
    const fake = await runtimeAt('containerd/containerd.sock');
    fake.script('ListImages', answers(status.UNKNOWN, 'server is not initialized yet'));
    detect();
    await until(() => said.length > 0, 'it has said so');
    expect(said[0]?.failure).toBe('ListImages: server is not initialized yet');
    fake.unscript('ListImages');
    await until(() => found('containerd') === 1, 'containerd is found');
  });

  it('says the same thing once, however often it looks', async () => {
    const fake = await runtimeAt('containerd/containerd.sock', { version: 'v1alpha2' });
    detect();
    await until(() => said.length > 0, 'it has said so');
    await runtimeAt('crio/crio.sock', { name: 'cri-o' });
    await until(() => found('cri-o') === 1, 'CRI-O is found');
    expect(said.filter(({ message }) => message.includes('no usable container runtime'))).toHaveLength(1);
    expect(fake.calls).toEqual([]);
  });

  it('leaves open what a socket is on which nobody answers yet', async () => {
    await runtimeAt('containerd/containerd.sock');
    await writeFile(join(run, 'crio.sock'), '');
    detect();
    await until(() => found('containerd') === 1 && said.length === 2, 'containerd is found');
    expect(detector.absence('cri-o').final).toBe(false);
    expect(detector.absence('cri-o').message).toBe(
      'not found runtime service for cri-o in daemon, which has containerd',
    );
  });

  it('is not well while its runtime is away, and well again afterwards, without looking for it anew', async () => {
    const fake = await runtimeAt('containerd/containerd.sock');
    detect();
    await until(() => found('containerd') === 1, 'containerd is found');
    await fake.down();
    await until(async () => (await troubleOf()) !== '', 'the outage shows');
    expect(found('containerd')).toBe(1);
    await fake.up();
    await until(async () => (await troubleOf()) === '', 'it is well again');
    expect(fake.count('ListImages')).toBe(1);
  });
});
