import { inspect } from 'node:util';
import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CriError, newestByName } from '../../activities/cri/runtime.ts';
import { type CriClient, createCriClient, criDeadlines } from '../../daemon/cri/client.ts';
import { answers, FakeCri, held } from '../support/fake-cri.ts';

let fake: FakeCri;
let client: CriClient;

beforeEach(async () => {
  fake = await FakeCri.start();
  // A slow machine is no slow runtime.
  client = createCriClient(fake.socketPath, { call: 100_000, imageFsInfo: 100_000, listImages: 100_000 });
});

afterEach(async () => {
  client.close();
  await fake.close();
});

async function failureOf(call: Promise<unknown>): Promise<CriError> {
  const error: unknown = await call.then(
    (value) => new Error(`no failure but ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof CriError)) throw error;
  return error;
}

/** Calls until the runtime answers. */
async function onceReachable<Value>(call: () => Promise<Value>): Promise<Value> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

describe('the CRI client', () => {
  it('NP-5: reports no bytes when the runtime is not containerd', async () => {
    const watch = client.watchPull('r.io/app:1');
    expect(await watch.look()).toBeUndefined();
    expect(await watch.look()).toBeUndefined();
    watch.end();
  });

  it('speaks CRI v1 with the runtime on a Unix socket', async () => {
    await expect(client.version()).resolves.toMatchObject({ runtimeName: 'containerd', runtimeApiVersion: 'v1' });
    expect(fake.calls[0]?.request).toMatchObject({ version: '0.1.0' });
  });

  it('lists the containers of one pod, with nanoseconds kept exactly', async () => {
    fake.put({ id: 'a', podUid: 'pod-1', name: 'app', createdAtMs: 1_767_225_600_123, restartCount: 3 });
    fake.put({ id: 'b', podUid: 'pod-2', name: 'app' });

    const [container, ...others] = await client.listContainers({ podUid: 'pod-1' });
    expect(others).toEqual([]);
    expect(container).toMatchObject({ id: 'a', sandboxId: 'sandbox-pod-1', state: 'running' });
    expect(container?.createdAtNs).toBe(1_767_225_600_123_000_000n);
  });

  it('matches an ID exactly, although runtimes match it as a prefix', async () => {
    fake.put({ id: 'abc', podUid: 'pod-1', name: 'app' });
    fake.put({ id: 'abcdef', podUid: 'pod-1', name: 'app' });

    const found = await client.listContainers({ id: 'abc' });
    expect(found.map(({ id }) => id)).toEqual(['abc']);
    await expect(client.listContainers({ id: 'ab' })).resolves.toEqual([]);
  });

  it('knows nothing about a container that the runtime does not know', async () => {
    await expect(client.containerStatus('gone')).resolves.toBeUndefined();
  });

  it('reads answers of more than 4 MiB', async () => {
    const name = 'a'.repeat(5_000);
    for (let n = 0; n < 1_000; n += 1) fake.put({ id: `container-${n}`, podUid: 'pod-1', name });
    await expect(client.listContainers({ podUid: 'pod-1' })).resolves.toHaveLength(1_000);
  });

  it('M11: takes no more than 1 MiB of what a command prints, and says so; a hook has run all the same', async () => {
    fake.put({ id: 'a', podUid: 'pod-1', name: 'app' });
    fake.script('ExecSync', () => ({ exitCode: 0, stdout: Buffer.alloc(900 * 1024, 'a') }));
    expect((await client.execProbe('a', ['cat'], 60)).stdout).toHaveLength(4_096);
    await expect(client.execSync('a', ['cat'])).resolves.toEqual({ exitCode: 0 });

    fake.script('ExecSync', () => ({ exitCode: 0, stdout: Buffer.alloc(3 * 1024 * 1024, 'a') }));
    await expect(failureOf(client.execProbe('a', ['cat'], 60))).resolves.toMatchObject({
      failure: 'answer',
      call: 'ExecSync',
      message: 'the command printed more than 1 MiB',
    });
    await expect(client.execSync('a', ['cat'])).resolves.toEqual({ exitCode: 0 });
    await expect(client.environment('a', ['HOME'])).resolves.toBeUndefined();
  });

  it('CRR-44: gives a stop its grace and 5 s more', async () => {
    expect(criDeadlines.call).toBe(5_000);
    const hasty = createCriClient(fake.socketPath, { call: 20, imageFsInfo: 20, listImages: 20 });
    fake.put({ id: 'a', podUid: 'pod-1', name: 'app' });
    fake.script('StopContainer', held());

    await expect(failureOf(hasty.stopContainer('a', 0))).resolves.toMatchObject({
      failure: 'deadline',
      call: 'StopContainer',
      message: 'runtime did not answer within 0.02s',
    });
    await expect(failureOf(hasty.stopContainer('a', 0.2))).resolves.toMatchObject({
      message: 'runtime did not answer within 0.22s',
    });
    hasty.close();
  });

  it('takes grace periods of any length', async () => {
    fake.put({ id: 'a', podUid: 'pod-1', name: 'app' });
    await client.stopContainer('a', 9_000_000_000);
    expect(fake.requests('StopContainer')).toMatchObject([{ timeout: 9_000_000_000 }]);
  });

  it('distinguishes an error answer, with the text of the runtime, from no answer', async () => {
    fake.script('StopContainer', answers(status.UNKNOWN, 'failed to kill container: permission denied'));
    await expect(failureOf(client.stopContainer('a', 0))).resolves.toMatchObject({
      failure: 'answer',
      message: 'failed to kill container: permission denied',
    });
  });

  it('M10: leaves credentials of URLs out of the words of the runtime, also where causes are logged', async () => {
    const words = 'failed to copy: Get "https://ann:hunter2@b.example.com/x?X-Amz-Signature=hunter2": EOF';
    fake.script('StopContainer', answers(status.UNKNOWN, words));
    fake.script('PullImage', answers(status.UNKNOWN, words));
    const pull = {
      reference: 'app',
      labels: {},
      annotations: {},
      timeoutMs: 60_000,
      signal: new AbortController().signal,
    };
    for (const call of [client.stopContainer('a', 0), client.pullImage(pull)]) {
      const error = await call.then(
        () => undefined,
        (reason: Error) => reason,
      );
      expect(error?.message).toBe('failed to copy: Get "https://…@b.example.com/x?…": EOF');
      expect(inspect(error, { depth: 10 })).not.toContain('hunter2');
    }
  });

  it('says which socket it cannot reach, and why', async () => {
    await fake.down();
    const failure = await failureOf(client.version());
    expect(failure).toMatchObject({ failure: 'unreachable', call: 'Version' });
    expect(failure.message).toContain(`connect ENOENT ${fake.socketPath}`);
    expect(failure.message).not.toContain('Resolution note');
  });

  it('fails as unreachable when the connection breaks in the middle of a call', async () => {
    fake.script('StopContainer', held());
    const failure = failureOf(client.stopContainer('a', 600));
    await fake.called('StopContainer');
    await fake.down();
    await expect(failure).resolves.toMatchObject({ failure: 'unreachable', call: 'StopContainer' });
    expect(fake.count('StopContainer')).toBe(1);
  });

  it('ND-43: dials again by itself when the runtime is back', async () => {
    fake.put({ id: 'a', podUid: 'pod-1', name: 'app' });
    await client.version();
    for (const _restart of [1, 2]) {
      await fake.down();
      await failureOf(client.version());
      await fake.up();
      await onceReachable(() => client.version());
      await expect(client.listContainers({ podUid: 'pod-1' })).resolves.toHaveLength(1);
    }
  });
});

describe('the environment of a container', () => {
  it('ND-25: is what the record of the runtime says, of the variables that are asked for, the last of each name', async () => {
    const env = ['PATH=/bin', 'TIER=silver', 'TIER=gold=1', 'EMPTY=', 'TOKEN=hidden'];
    fake.put({ id: 'a', podUid: 'pod-1', name: 'app', env });
    const told = await client.environment('a', ['TIER', 'EMPTY', 'UNSET']);
    expect([...(told ?? [])]).toEqual([
      ['TIER', 'gold=1'],
      ['EMPTY', ''],
    ]);
    expect(fake.count('ExecSync')).toBe(0);
    await expect(client.environment('gone', ['TIER'])).resolves.toBeUndefined();
  });

  it('ND-25: is what env prints where the record says nothing, and unknown where nothing can print it', async () => {
    fake.put({ id: 'a', podUid: 'pod-1', name: 'app' });
    fake.script('ExecSync', () => ({ exitCode: 0, stdout: Buffer.from('PATH=/bin\nTIER=gold \nnonsense\n') }));
    const told = await client.environment('a', ['TIER', 'NOTE']);
    expect([...(told ?? [])]).toEqual([['TIER', 'gold']]);
    expect(fake.requests('ExecSync')).toMatchObject([{ containerId: 'a', cmd: ['env'], timeout: 3 }]);

    fake.script('ExecSync', () => ({ exitCode: 127 }));
    await expect(client.environment('a', ['TIER'])).resolves.toBeUndefined();
    fake.script('ExecSync', answers(status.UNKNOWN, 'exec: "env": executable file not found'));
    await expect(client.environment('a', ['TIER'])).resolves.toBeUndefined();
    await fake.down();
    await expect(failureOf(client.environment('a', ['TIER']))).resolves.toMatchObject({ failure: 'unreachable' });
  });

  it('ND-25: is printed, too, where the record is none that can be read', async () => {
    fake.put({ id: 'a', podUid: 'pod-1', name: 'app' });
    fake.script('ExecSync', () => ({ exitCode: 0, stdout: Buffer.from('TIER=gold') }));
    for (const info of ['{', '[]', '{"runtimeSpec":{"process":{"env":"TIER=x"}}}']) {
      fake.script('ContainerStatus', (_request, usual) => ({ ...usual(), info: { info } }));
      expect((await client.environment('a', ['TIER']))?.get('TIER')).toBe('gold');
    }
  });
});

describe('newestByName', () => {
  it('takes the instance that was created last, whatever its state', async () => {
    fake.put({ id: 'old', podUid: 'pod-1', name: 'app', createdAtMs: 1_000 });
    fake.put({ id: 'new', podUid: 'pod-1', name: 'app', createdAtMs: 2_000, state: 'exited' });
    fake.put({ id: 'side', podUid: 'pod-1', name: 'side', createdAtMs: 500 });

    const newest = newestByName(await client.listContainers({ podUid: 'pod-1' }));
    expect(newest.size).toBe(2);
    expect(newest.get('app')).toMatchObject({ id: 'new', state: 'exited' });
    expect(newest.get('side')).toMatchObject({ id: 'side', state: 'running' });
  });
});
