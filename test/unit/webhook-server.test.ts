import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { carryOut, certificatePolicy } from '../../webhook/server/certificates.ts';
import {
  type AdmissionServer,
  type AdmissionServerOptions,
  createAdmissionServer,
  deadlineMs,
  type Outcome,
  type Route,
  type ServerCertificate,
  type ServerLimits,
} from '../../webhook/server/server.ts';
import { bundleOf, createAuthority, issueCertificate, type KeyPairPem } from '../../webhook/server/x509.ts';
import { waitFor } from '../support/wait.ts';

const log = { debug: () => undefined, warn: () => undefined, error: () => undefined };
let certificate: ServerCertificate;
let bundle: string;
const open: AdmissionServer[] = [];

async function newCertificates(): Promise<{ certificate: ServerCertificate; bundle: string }> {
  const policy = certificatePolicy({
    hosts: ['localhost', '127.0.0.1'],
    lifetimeSeconds: 3600,
    renewBeforeSeconds: 60,
  });
  const kept = await carryOut({ kind: 'startAnew', because: 'test' }, undefined, policy, Date.now());
  const pem = bundleOf([kept.certificate]);
  return { certificate: { certificate: pem, key: kept.key }, bundle: bundleOf(kept.authorities) };
}

beforeAll(async () => {
  ({ certificate, bundle } = await newCertificates());
});

afterEach(async () => {
  const now = AbortSignal.abort();
  await Promise.all(open.splice(0).map((server) => server.close(now)));
});

interface Served {
  readonly server: AdmissionServer;
  readonly address: AddressInfo;
  readonly observed: [string, Outcome][];
}

const echo: Route = (body) => ({ status: 200, body: { echo: body }, outcome: 'allowed' });

async function serve(
  routes: AdmissionServerOptions['routes'] = { '/echo': echo },
  limits: Partial<ServerLimits> = {},
  more: Partial<AdmissionServerOptions> = {},
): Promise<Served> {
  const observed: [string, Outcome][] = [];
  const observe = (path: string, outcome: Outcome) => void observed.push([path, outcome]);
  const server = createAdmissionServer(certificate, { routes, limits, log, observe, ...more });
  open.push(server);
  return { server, observed, address: await server.listen({ host: '127.0.0.1', port: 0 }) };
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly json: {
    readonly message?: string;
    readonly reason?: string;
    readonly code?: number;
    readonly echo?: unknown;
  };
}

interface Ask {
  readonly method?: string;
  readonly path?: string;
  readonly body?: string | Buffer;
  readonly ca?: string;
  /** The client certificate. */
  readonly client?: KeyPairPem;
  /** The local address of the client. */
  readonly from?: string;
}

function ask(
  { address }: Pick<Served, 'address'>,
  { method = 'POST', path = '/echo', body = '{}', ca, client, from = '127.0.0.1' }: Ask,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: address.port, method, path, ca: ca ?? bundle, servername: 'localhost' };
    const caller = { localAddress: from, ...(client && { cert: client.certificate, key: client.key }) };
    const request = httpsRequest({ ...options, ...caller, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => void chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const json = text.startsWith('{') ? JSON.parse(text) : {};
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** A connection for handwritten HTTP, which records everything that it receives. */
async function dial({ address }: Served): Promise<{ socket: TLSSocket; heard: () => string; closed: () => boolean }> {
  const socket = connect({ host: '127.0.0.1', port: address.port, ca: bundle, servername: 'localhost' });
  let text = '';
  let closed = false;
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  socket.on('close', () => {
    closed = true;
  });
  socket.on('error', () => undefined);
  await new Promise<void>((resolve) => socket.once('secureConnect', resolve));
  return { socket, heard: () => text, closed: () => closed };
}

describe('the admission server', () => {
  it('answers a POST of JSON at a path that it serves, verified by the authority', async () => {
    const served = await serve();
    const reply = await ask(served, { body: '{"a":[1]}' });
    expect(reply.status).toBe(200);
    expect(reply.json.echo).toEqual({ a: [1] });
    expect(served.observed).toEqual([['/echo', 'allowed']]);
  });

  it('FG-15: answers /healthz', async () => {
    const reply = await ask(await serve(), { method: 'GET', path: '/healthz', body: '' });
    expect([reply.status, reply.text]).toEqual([200, 'ok']);
  });

  it('is not trusted by a client that trusts another CA', async () => {
    const other = await newCertificates();
    await expect(ask(await serve(), { ca: other.bundle })).rejects.toThrow('unable to verify');
  });

  it('says 404 and the path at a path that it does not serve, and counts it under one name', async () => {
    const served = await serve();
    for (const path of ['/mutate-apps-kruise-io-v1alpha1-cloneset', '/constructor', '/__proto__', '//', '/%', '/?a']) {
      const reply = await ask(served, { path });
      expect(reply.status).toBe(404);
      expect(reply.json).toMatchObject({ code: 404, reason: 'NotFound' });
    }
    expect(new Set(served.observed.map(([path]) => path))).toEqual(new Set(['other']));
  });

  it('only takes POST', async () => {
    const served = await serve();
    for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
      expect((await ask(served, { method, body: '' })).json.message).toBe(
        `Method ${method} is not served here, only POST`,
      );
    }
  });

  it('says 400 to what is not JSON', async () => {
    const served = await serve();
    for (const body of ['', 'no', '{"a":', '\u0000', Buffer.from([0xff, 0xfe, 0x00])]) {
      const reply = await ask(served, { body });
      expect(reply.status).toBe(400);
      expect(reply.json.message).toContain('Cannot read the body as JSON');
    }
  });

  it('says 413 to a body that is too long, announced or not, and goes on serving', async () => {
    const served = await serve(undefined, { bodyBytes: 1000 });
    const long = `"${'x'.repeat(100_000)}"`;
    const announced = await ask(served, { body: long });
    expect([announced.status, announced.json.reason]).toEqual([413, 'RequestEntityTooLarge']);

    const { socket, heard } = await dial(served);
    socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
    const chunk = `${(512).toString(16)}\r\n${'y'.repeat(512)}\r\n`;
    await waitFor('the answer', () => {
      if (!heard().includes('413')) socket.write(chunk);
      return heard().includes('413');
    });
    socket.destroy();
    expect((await ask(served, { body: '1' })).status).toBe(200);
    expect(served.observed.map(([, outcome]) => outcome)).toEqual(['tooLarge', 'tooLarge', 'allowed']);
  });

  it('says 503 when all bodies together are too much, and holds none afterwards', async () => {
    const served = await serve(undefined, { bufferedBytes: 1000 });
    const { socket } = await dial(served);
    socket.write(`POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n${'z'.repeat(900)}`);
    const full = await waitFor('a refusal', async () => {
      const reply = await ask(served, { body: `"${'x'.repeat(200)}"` });
      return reply.status === 503 && reply;
    });
    expect(full.json.message).toBe('Too many requests at one time');
    socket.destroy();
    await waitFor('room again', async () => (await ask(served, { body: `"${'x'.repeat(200)}"` })).status === 200);
  });

  it('answers the first request of a connection that was opened long before: its time counts from the first byte', async () => {
    const served = await serve(undefined, { headersMs: 100, requestMs: 200 });
    const early = await dial(served);
    const slow = await dial(served);
    slow.socket.write('POST');
    await waitFor('the server to hang up on slow headers', () => slow.closed());
    expect(early.closed()).toBe(false);
    early.socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}');
    await waitFor('the answer', () => early.heard().includes('HTTP/1.1 200'));
    early.socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{');
    await waitFor('the server to hang up on a slow body', () => early.closed());
  });

  it('hangs up on connections that were never used when it is closed', async () => {
    const served = await serve();
    const silent = await dial(served);
    await served.server.close(new AbortController().signal);
    await waitFor('the server to hang up', () => silent.closed());
  });

  it('hangs up on a connection that is never used', async () => {
    const served = await serve(undefined, { idleMs: 100 });
    const silent = await dial(served);
    await waitFor('the server to hang up', () => silent.closed());
  });

  it('disconnects clients that are slow with headers, with the body or with the handshake', async () => {
    const served = await serve(undefined, { headersMs: 200, requestMs: 400, handshakeMs: 200 });
    const headers = await dial(served);
    headers.socket.write('POST /echo HTTP/1.1\r\nHost:');
    const body = await dial(served);
    body.socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{');
    const plain = httpRequest({ host: '127.0.0.1', port: served.address.port, method: 'POST', path: '/echo' });
    let plainEnded = false;
    plain.on('error', () => {
      plainEnded = true;
    });
    plain.flushHeaders();
    await waitFor('the server to hang up', () => headers.closed() && body.closed() && plainEnded);
    expect(headers.heard()).toContain('408');
    expect((await ask(served, { body: '1' })).status).toBe(200);
  });

  it('survives clients that go away in the middle, and garbage instead of HTTP', async () => {
    const served = await serve();
    for (const text of [
      'GARBAGE\r\n\r\n',
      'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n{"a',
      '\u0000\u0001',
    ]) {
      const { socket } = await dial(served);
      socket.write(text);
      socket.end();
      socket.destroy();
    }
    const { socket } = await dial(served);
    socket.write(`GET / HTTP/1.1\r\nX: ${'h'.repeat(40_000)}\r\n\r\n`);
    await waitFor('the refusal of long headers', () => socket.destroyed || socket.readableEnded);
    expect((await ask(served, { body: '1' })).status).toBe(200);
  });

  it('aborts the work before the API server stops waiting, and says so with status 500', async () => {
    let aborted = false;
    const never: Route = (_body, signal) =>
      new Promise(() => {
        signal.addEventListener('abort', () => {
          aborted = true;
        });
      });
    const served = await serve({ '/never': never });
    const reply = await ask(served, { path: '/never?timeout=100ms' });
    expect([reply.status, reply.json.message]).toEqual([500, 'no answer within 75 ms']);
    expect(aborted).toBe(true);
  });

  it('aborts the work when the client disconnected', async () => {
    const states = { begun: false, aborted: false };
    const never: Route = (_body, signal) =>
      new Promise((_, reject) => {
        states.begun = true;
        signal.addEventListener('abort', () => {
          states.aborted = true;
          reject(signal.reason);
        });
      });
    const served = await serve({ '/never': never });
    const { socket } = await dial(served);
    socket.write('POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}');
    await waitFor('the work', () => states.begun);
    socket.destroy();
    await waitFor('its end', () => states.aborted);
  });

  it('says 500 when a route throws', async () => {
    const served = await serve({
      '/throws': () => {
        throw new Error('boom');
      },
    });
    expect((await ask(served, { path: '/throws' })).json).toMatchObject({ code: 500, message: 'boom' });
  });

  it('works on a bounded number at once; the next one waits, until its deadline', async () => {
    let running = 0;
    let most = 0;
    const release = Promise.withResolvers<void>();
    const slow: Route = async () => {
      running += 1;
      most = Math.max(most, running);
      await release.promise;
      running -= 1;
      return { status: 200, body: {}, outcome: 'allowed' };
    };
    const served = await serve({ '/slow': slow }, { concurrency: 3 });
    const first = Array.from({ length: 5 }, () => ask(served, { path: '/slow' }));
    await waitFor('three to run', () => running === 3);
    const late = await ask(served, { path: '/slow?timeout=40ms' });
    expect(late.status).toBe(503);
    release.resolve();
    for (const reply of await Promise.all(first)) expect(reply.status).toBe(200);
    expect(most).toBe(3);
  });

  it('H3: one source address never holds all places, however many it asks for', async () => {
    const release = Promise.withResolvers<void>();
    let running = 0;
    const slow: Route = async () => {
      running += 1;
      await release.promise;
      return { status: 200, body: {}, outcome: 'allowed' };
    };
    const served = await serve({ '/slow': slow, '/echo': echo }, { concurrency: 3, concurrencyPerSource: 2 });
    const greedy = Array.from({ length: 5 }, () => ask(served, { path: '/slow' }));
    await waitFor('its share to be taken', () => running === 2);
    expect((await ask(served, { path: '/echo?timeout=40ms' })).status).toBe(503);
    expect((await ask(served, { from: '127.0.0.2' })).status).toBe(200);
    release.resolve();
    for (const reply of await Promise.all(greedy)) expect(reply.status).toBe(200);
    expect((await ask(served, {})).status).toBe(200);
  });

  it('one namespace holds few places of a route, however many it asks for; others wait for neither', async () => {
    const release = Promise.withResolvers<void>();
    let running = 0;
    const slow: Route = async () => {
      running += 1;
      await release.promise;
      return { status: 200, body: {}, outcome: 'allowed' };
    };
    const shareOf = (text: string) => /"namespace":"(\w+)"/.exec(text)?.[1] ?? '';
    const served = await serve({ '/slow': { answer: slow, shareOf } }, { concurrency: 8, concurrencyPerShare: 2 });
    const from = (namespace: string) => ask(served, { path: '/slow', body: JSON.stringify({ namespace }) });
    const greedy = Array.from({ length: 6 }, () => from('greedy'));
    await waitFor('its share to be taken', () => running === 2);
    const late = await ask(served, { path: '/slow?timeout=40ms', body: '{"namespace":"greedy"}' });
    expect(late.status).toBe(503);
    const other = from('other');
    await waitFor('the other one to run', () => running === 3);
    release.resolve();
    for (const reply of await Promise.all([...greedy, other])) expect(reply.status).toBe(200);
  });

  it('an immediate route is answered while slow reviews hold all places and all room for bodies', async () => {
    const never: Route = () => new Promise(() => undefined);
    const served = await serve(
      { '/slow': never, '/pod': { answer: echo, isImmediate: true } },
      { waitingBytes: 48 * 1_000 },
    );
    const body = JSON.stringify('x'.repeat(998));
    const slow = Array.from({ length: 49 }, () => ask(served, { path: '/slow', body }));
    for (const reply of slow) reply.catch(() => undefined);
    const last = await Promise.race(slow);
    expect([last.status, last.json.message]).toEqual([503, 'Too many requests at one time']);
    expect((await ask(served, { path: '/pod', body })).status).toBe(200);
    expect((await ask(served, { path: '/slow?timeout=40ms', body: '1' })).status).toBe(503);
  });

  it('H3: one source address never holds all connections, and who was not answered well is not kept', async () => {
    const served = await serve(undefined, { connectionsPerSource: 2 });
    const first = await dial(served);
    const second = await dial(served);
    await expect(ask(served, {})).rejects.toThrow();
    expect((await ask(served, { from: '127.0.0.2' })).status).toBe(200);

    first.socket.write('POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}');
    await waitFor('the server to hang up', () => first.closed());
    expect(first.heard()).toContain('404');
    second.socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}');
    await waitFor('an answer', () => second.heard().includes('200 OK'));
    expect(second.heard()).toContain('Connection: keep-alive');
    second.socket.destroy();
    await waitFor('room again', () =>
      ask(served, {}).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
  });

  it('H3: keeps no more idle connections than it is told to', async () => {
    const served = await serve(undefined, { keptConnections: 1 });
    const first = await dial(served);
    const second = await dial(served);
    second.socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}');
    await waitFor('the server to hang up', () => second.closed());
    expect(second.heard()).toContain('200 OK');
    first.socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}');
    await waitFor('an answer', () => first.heard().includes('Connection: keep-alive'));
    first.socket.destroy();
  });

  it('H3: with a client CA it answers only callers with a certificate of it, but for /healthz and anonymous routes', async () => {
    const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
    const [authority, foreign] = await Promise.all([
      createAuthority('api', validity),
      createAuthority('api', validity),
    ]);
    const certificateOf = (by: KeyPairPem) =>
      issueCertificate({ authority: by, commonName: 'kube-apiserver', hosts: [], usages: ['client'], validity });
    const [caller, stranger] = await Promise.all([certificateOf(authority), certificateOf(foreign)]);

    let asked = 0;
    const counting: Route = (body, signal) => {
      asked += 1;
      return echo(body, signal);
    };
    const routes = { '/echo': counting, '/open': { answer: counting, anonymous: true } };
    const served = await serve(routes, {}, { clientCa: authority.certificate });
    for (const client of [undefined, stranger]) {
      const reply = await ask(served, { ...(client && { client }) });
      expect([reply.status, reply.json.reason]).toEqual([401, 'Unauthorized']);
      expect(reply.json.message).toContain('Admission answers only clients with a certificate signed by --client-ca');
    }
    expect(asked).toBe(0);
    expect((await ask(served, { path: '/open' })).status).toBe(200);
    expect((await ask(served, { client: caller })).status).toBe(200);
    expect((await ask(served, { method: 'GET', path: '/healthz', body: '' })).text).toBe('ok');

    const next = await newCertificates();
    served.server.use(next.certificate);
    expect((await ask(served, { ca: next.bundle })).status).toBe(401);
    expect((await ask(served, { ca: next.bundle, client: caller })).status).toBe(200);
    expect(asked).toBe(3);
    expect(served.observed.map(([, outcome]) => outcome)).toContain('unauthenticated');
  });

  it('serves a new certificate from the next connection on, while an open one goes on', async () => {
    const served = await serve();
    const { socket, heard } = await dial(served);
    const next = await newCertificates();
    served.server.use(next.certificate);
    expect((await ask(served, { ca: next.bundle })).status).toBe(200);
    await expect(ask(served, {})).rejects.toThrow('unable to verify');
    socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}');
    await waitFor('the answer on the open connection', () => heard().includes('200 OK'));
  });

  it('lets requests finish when it is closed, and takes no new ones', async () => {
    const release = Promise.withResolvers<void>();
    const states = { begun: false };
    const slow: Route = async () => {
      states.begun = true;
      await release.promise;
      return { status: 200, body: { done: true }, outcome: 'allowed' };
    };
    const served = await serve({ '/slow': slow });
    const idle = await dial(served);
    const running = ask(served, { path: '/slow' });
    await waitFor('the work', () => states.begun);
    const closing = served.server.close(new AbortController().signal);
    await waitFor('the idle connection to close', () => {
      idle.socket.write('');
      return ask(served, {}).then(
        () => false,
        () => true,
      );
    });
    release.resolve();
    expect((await running).status).toBe(200);
    idle.socket.destroy();
    await closing;
  });

  it('closes what is left when it is told to wait no longer', async () => {
    const served = await serve({ '/never': () => new Promise(() => undefined) });
    const running = ask(served, { path: '/never' });
    const ended = expect(running).rejects.toThrow();
    const { socket } = await dial(served);
    await served.server.close(AbortSignal.abort());
    await ended;
    socket.destroy();
  });

  it('takes the deadline from ?timeout= as Go writes it, and leaves time to answer', () => {
    expect(deadlineMs('10s', 10_000)).toBe(9_500);
    expect(deadlineMs('1s', 10_000)).toBe(750);
    expect(deadlineMs('500ms', 10_000)).toBe(375);
    expect(deadlineMs('1m30s', 10_000)).toBe(10_000);
    expect(deadlineMs('1.5s', 10_000)).toBe(1_125);
    for (const odd of [null, '', '-1s', '10', 'soon', '1s; drop', '9'.repeat(400)])
      expect(deadlineMs(odd, 700)).toBe(700);
  });
});
