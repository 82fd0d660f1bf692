import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { createServer as createHttp, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, createServer as createTcp, type Socket } from 'node:net';
import { status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from '@jest/globals';
import * as x509 from '@peculiar/x509';
import type { Probe } from '../../api/core/probe.ts';
import { createCriClient } from '../../daemon/cri/client.ts';
import { runCheck } from '../../daemon/probes/checks.ts';
import { answers, FakeCri } from '../support/fake-cri.ts';

const ends: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const check = (probe: Probe, overrides: { ip?: string; timeoutSeconds?: number } = {}) =>
  runCheck({ probe, containerId: 'app-1', ip: '127.0.0.1', timeoutSeconds: 30, ...overrides }, undefined);

/** Blocks this process, like a machine that stalls. */
function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

async function listening(
  server: Pick<Server, 'listen' | 'close' | 'address' | 'closeAllConnections'>,
): Promise<number> {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', () => resolve()));
  ends.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A server that answers, and the requests that it got. */
async function answering(answer: RequestListener) {
  const requests: IncomingMessage[] = [];
  const port = await listening(
    createHttp((request, response) => {
      requests.push(request);
      answer(request, response);
    }),
  );
  return { port, requests };
}

const http = (port: number, overrides: Partial<NonNullable<Probe['httpGet']>> = {}): Probe => ({
  httpGet: { path: '/ready', port, scheme: 'HTTP', ...overrides },
});

describe('a probe by TCP', () => {
  async function tcp(onConnect: (socket: Socket) => void = () => undefined): Promise<number> {
    const server = createTcp((socket) => {
      socket.on('error', () => undefined);
      onConnect(socket);
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', () => resolve()));
    ends.push(() => server.close());
    return (server.address() as AddressInfo).port;
  }

  it('NPP-25: succeeds when somebody listens, and fails when the connection is refused', async () => {
    const port = await tcp();
    expect(await check({ tcpSocket: { port } })).toEqual({ kind: 'success', message: '' });
    for (const end of ends.splice(0)) await end();
    expect(await check({ tcpSocket: { port } })).toEqual({
      kind: 'failure',
      message: `dial tcp 127.0.0.1:${port}: connection refused`,
    });
  });

  it('has no result when its time was up because the daemon itself was held up', async () => {
    const outcome = check({ tcpSocket: { port: await tcp() } }, { timeoutSeconds: 0.5 });
    stall(1_500);
    expect((await outcome).kind).not.toBe('failure');
  });

  it('NPP-25: has no result while the pod has no IP', async () => {
    expect(await check({ tcpSocket: { port: 80 } }, { ip: '' })).toMatchObject({ kind: 'none' });
  });
});

describe('a probe by HTTP', () => {
  it('NPP-25: is a GET as the kubelet makes it, with the headers of the probe', async () => {
    const { port, requests } = await answering((_request, response) => response.end('fine'));
    const httpHeaders = [
      { name: 'Host', value: 'game.example' },
      { name: 'X-Two', value: 'a' },
      { name: 'x-two', value: 'b' },
    ];
    expect(await check(http(port, { path: 'ready?x=1', httpHeaders }))).toEqual({ kind: 'success', message: 'fine' });
    expect(requests[0]).toMatchObject({
      method: 'GET',
      url: '/ready?x=1',
      headers: {
        'user-agent': 'kube-probe',
        accept: '*/*',
        host: 'game.example',
        'x-two': 'a, b',
        connection: 'close',
      },
    });
  });

  it.each([
    [200, 'success'],
    [204, 'success'],
    [304, 'success'],
    [399, 'success'],
    [400, 'failure'],
    [404, 'failure'],
    [503, 'failure'],
  ])('NPP-25: takes status %i for a %s', async (code, kind) => {
    const { port } = await answering((_request, response) => response.writeHead(code).end());
    const message = kind === 'success' ? '' : `HTTP probe failed with statuscode: ${code}`;
    expect(await check(http(port))).toEqual({ kind, message });
  });

  it('NPP-25: follows redirects on the same host, and takes one to another host for an answer', async () => {
    const { port, requests } = await answering(({ url }, response) => {
      const location = url === '/ready' ? '/there' : url === '/away' ? 'http://example.invalid/' : undefined;
      if (location) response.writeHead(302, { location }).end('moved');
      else response.writeHead(url === '/there' ? 503 : 200).end();
    });
    expect(await check(http(port))).toMatchObject({ kind: 'failure', message: expect.stringContaining('503') });
    expect(requests.map(({ url }) => url)).toEqual(['/ready', '/there']);
    expect(await check(http(port, { path: '/away' }))).toEqual({ kind: 'success', message: 'moved' });
  });

  it('NPP-25: fails when it is sent round in circles', async () => {
    const { port, requests } = await answering((_r, response) => response.writeHead(307, { location: '/ready' }).end());
    expect(await check(http(port))).toMatchObject({
      kind: 'failure',
      message: expect.stringContaining('10 redirects'),
    });
    expect(requests).toHaveLength(11);
  });

  it('NPP-25: fails when nobody listens, when the connection breaks, and when no answer comes in time', async () => {
    const { port } = await answering((_request, response) => response.destroy());
    expect(await check(http(port))).toMatchObject({ kind: 'failure', message: expect.stringContaining('/ready') });
    const silent = await answering(() => undefined);
    expect(await check(http(silent.port), { timeoutSeconds: 0.2 })).toEqual({
      kind: 'failure',
      message: `Get "http://127.0.0.1:${silent.port}/ready": no answer within 0.2s`,
    });
    const slow = await answering((_request, response) => void response.write('half'));
    expect(await check(http(slow.port), { timeoutSeconds: 0.2 })).toMatchObject({ kind: 'failure' });
  });

  it('NPP-25: reads the beginning of a body only', async () => {
    const { port } = await answering((_request, response) => response.end('x'.repeat(1_000_000)));
    const outcome = await check(http(port));
    expect(outcome.kind === 'success' && outcome.message.length).toBe(10_240);
  });

  it('NPP-25: does not check certificates', async () => {
    const key = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      name: 'CN=nobody',
      keys: key as never,
      notBefore: new Date('2020-01-01'),
      notAfter: new Date('2020-01-02'),
      signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    } as never);
    const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key.privateKey)).toString('base64');
    const pem = `-----BEGIN PRIVATE KEY-----\n${pkcs8}\n-----END PRIVATE KEY-----\n`;
    const options = { key: pem, cert: certificate.toString('pem') };
    const port = await listening(createHttps(options, (_request, response) => response.end('secret')));
    expect(await check(http(port, { scheme: 'HTTPS' }))).toEqual({ kind: 'success', message: 'secret' });
  });
});

describe('a probe by a command', () => {
  const exec: Probe = { exec: { command: ['test', '-e', '/state'] } };

  async function inContainer(play: () => object) {
    const fake = await FakeCri.start();
    const client = createCriClient(fake.socketPath, { call: 100_000, imageFsInfo: 100_000, listImages: 100_000 });
    ends.push(
      () => client.close(),
      () => fake.close(),
    );
    fake.script('ExecSync', play);
    const outcome = await runCheck({ probe: exec, containerId: 'app-1', ip: '', timeoutSeconds: 7 }, client);
    return { outcome, asked: fake.requests('ExecSync')[0] };
  }

  it('NPP-24: is run by the runtime with its time limit, and its outputs come back', async () => {
    const played = { exitCode: 0, stdout: Buffer.from('no players\n'), stderr: Buffer.from('x') };
    const { outcome, asked } = await inContainer(() => played);
    expect(outcome).toEqual({ kind: 'success', message: 'no players\n' });
    expect(asked).toMatchObject({ containerId: 'app-1', cmd: ['test', '-e', '/state'], timeout: 7 });
    const failed = await inContainer(() => ({ exitCode: 1, stdout: Buffer.from('x'), stderr: Buffer.from('players') }));
    expect(failed.outcome).toEqual({ kind: 'failure', message: 'players' });
  });

  it('has no result when the answer was late because the daemon itself was held up', async () => {
    const fake = await FakeCri.start();
    const client = createCriClient(fake.socketPath, { call: 100, imageFsInfo: 100_000, listImages: 100_000 });
    ends.push(
      () => client.close(),
      () => fake.close(),
    );
    fake.script('ExecSync', () => {
      stall(1_500);
      return { exitCode: 0 };
    });
    const outcome = runCheck({ probe: exec, containerId: 'app-1', ip: '', timeoutSeconds: 1 }, client);
    expect(await outcome).toEqual({ kind: 'none', why: 'the daemon was delayed' });
  });

  it('NPP-24: has failed when the runtime gives it up, and has no result when it cannot be run', async () => {
    const late = await inContainer(
      () => answers(status.DEADLINE_EXCEEDED, 'timeout 7s exceeded')({} as never, () => ({})) as object,
    );
    expect(late.outcome).toEqual({ kind: 'failure', message: 'command took longer than 7s' });
    const gone = await inContainer(() => answers(status.NOT_FOUND, 'no container')({} as never, () => ({})) as object);
    expect(gone.outcome).toEqual({ kind: 'none' });
    const broken = await inContainer(
      () => answers(status.UNKNOWN, 'no such program')({} as never, () => ({})) as object,
    );
    expect(broken.outcome).toEqual({ kind: 'none', why: 'no such program' });
  });
});
