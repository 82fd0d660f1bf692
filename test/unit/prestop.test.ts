import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type HookMeans, type HookRequest, runPreStop } from '../../activities/cri/pre-stop.ts';
import type { ContainerPort, LifecycleHandler } from '../../api/core/pod.ts';
import { getHook } from '../../daemon/http-hook.ts';
import { createAuthority } from '../../webhook/server/x509.ts';

/** Hook functions that record their calls. */
function means(overrides: Partial<HookMeans> = {}) {
  const done: unknown[] = [];
  const noting: HookMeans = {
    exec: async (command) => {
      done.push(command);
      return { exitCode: 0 };
    },
    httpGet: async (request) => void done.push(request),
    podIp: async () => '10.0.0.7',
    sleep: async (seconds) => void done.push(seconds),
    ...overrides,
  };
  return { done, means: noting };
}

async function requestOf(httpGet: LifecycleHandler['httpGet'], ports: readonly ContainerPort[] = []) {
  const { done, means: noting } = means();
  await runPreStop({ handler: { ...(httpGet && { httpGet }) }, ports }, noting);
  return done[0] as HookRequest;
}

describe('a preStop hook', () => {
  it('CRR-42: exec runs the command in the container', async () => {
    const { done, means: noting } = means();
    await runPreStop({ handler: { exec: { command: ['sh', '-c', 'drain'] } }, ports: [] }, noting);
    expect(done).toEqual([['sh', '-c', 'drain']]);
  });

  it('CRR-42: exec fails when the command does', async () => {
    const { means: failing } = means({ exec: async () => ({ exitCode: 3 }) });
    const hook = runPreStop({ handler: { exec: { command: ['false'] } }, ports: [] }, failing);
    await expect(hook).rejects.toThrow('command exited with 3');
  });

  it('CRR-42: httpGet calls the IP of the pod unless it names a host', async () => {
    await expect(requestOf({ path: '/stop?in=5', port: 8080 })).resolves.toEqual({
      scheme: 'http',
      host: '10.0.0.7',
      port: 8080,
      path: '/stop?in=5',
      headers: [],
    });
    await expect(requestOf({ port: 8080, host: 'drainer' })).resolves.toMatchObject({ host: 'drainer', path: '/' });
  });

  it('CRR-42: httpGet finds named ports in the request, takes numbers as text, and HTTPS in any case', async () => {
    const ports = [
      { name: 'metrics', containerPort: 9100 },
      { name: 'web', containerPort: 8443 },
    ];
    const headers = [{ name: 'X-Stop', value: 'yes' }];
    await expect(
      requestOf({ path: 'stop', port: 'web', scheme: 'HTTPS', httpHeaders: headers }, ports),
    ).resolves.toEqual({
      scheme: 'https',
      host: '10.0.0.7',
      port: 8443,
      path: '/stop',
      headers,
    });
    await expect(requestOf({ port: '81' }, ports)).resolves.toMatchObject({ port: 81 });
    await expect(requestOf({ port: 'admin' }, ports)).rejects.toThrow('no port is named "admin"');
  });

  it('CRR-42: httpGet fails when the pod has no IP that anybody knows', async () => {
    const { means: lost } = means({ podIp: async () => undefined });
    const hook = runPreStop({ handler: { httpGet: { port: 80 } }, ports: [] }, lost);
    await expect(hook).rejects.toThrow('the runtime reports no IP address of the pod');
  });

  it('CRR-42: tcpSocket and an empty handler fail, as in the kubelet', async () => {
    for (const handler of [{ tcpSocket: { port: 80 } }, {}]) {
      await expect(runPreStop({ handler, ports: [] }, means().means)).rejects.toThrow('invalid handler');
    }
  });

  it('sleep sleeps', async () => {
    const { done, means: noting } = means();
    await runPreStop({ handler: { sleep: { seconds: 7 } }, ports: [] }, noting);
    expect(done).toEqual([7]);
  });
});

describe('the GET of a hook', () => {
  const servers: Server[] = [];

  afterEach(async () => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  });

  async function listening(server: Server): Promise<number> {
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return (server.address() as AddressInfo).port;
  }

  /** A server that records its requests. */
  async function serve(answer: RequestListener, tls?: { key: string; cert: string }) {
    const asked: Pick<IncomingMessage, 'url' | 'headers'>[] = [];
    const listener: RequestListener = (request, response) => {
      asked.push({ url: request.url ?? '', headers: request.headers });
      answer(request, response);
    };
    return { asked, port: await listening(tls ? createTlsServer(tls, listener) : createServer(listener)) };
  }

  const get = (port: number, overrides: Partial<HookRequest> = {}) =>
    getHook({ scheme: 'http', host: '127.0.0.1', port, path: '/stop?now', headers: [], ...overrides });

  it('accepts any answer', async () => {
    const { asked, port } = await serve((_request, response) => response.writeHead(500).end('no'));
    await get(port);
    expect(asked).toMatchObject([{ url: '/stop?now', headers: { 'user-agent': 'kruise-daemon', accept: '*/*' } }]);
  });

  it('sends the headers of the hook, also Host and repeated ones', async () => {
    const { asked, port } = await serve((_request, response) => response.end());
    const headers = [
      { name: 'Host', value: 'web.example' },
      { name: 'X-Stop', value: 'a' },
      { name: 'X-Stop', value: 'b' },
      { name: 'User-Agent', value: 'me' },
    ];
    await get(port, { headers });
    expect(asked[0]?.headers).toMatchObject({ host: 'web.example', 'x-stop': 'a, b', 'user-agent': 'me' });
  });

  it('fails when nobody answers', async () => {
    const { port } = await serve((request) => request.destroy());
    await expect(get(port)).rejects.toThrow();
    await expect(get(port, { headers: [{ name: 'bad name', value: '' }] })).rejects.toThrow(/header/i);
  });

  it('follows redirects on the same host alone, and not for ever', async () => {
    const elsewhere = await serve((request, response) => {
      const location = request.url === '/stop?now' ? '/there' : 'http://other.invalid/';
      response.writeHead(302, { location }).end();
    });
    await get(elsewhere.port);
    expect(elsewhere.asked.map(({ url }) => url)).toEqual(['/stop?now', '/there']);

    const round = await serve((_request, response) => response.writeHead(302, { location: '/stop?now' }).end());
    await expect(get(round.port)).rejects.toThrow('stopped after 10 redirects');
  });

  it('does not check certificates, as the kubelet does not', async () => {
    const now = new Date();
    const { key, certificate } = await createAuthority('nobody', { notBefore: now, notAfter: now });
    const { asked, port } = await serve((_request, response) => response.end(), { key, cert: certificate });
    await get(port, { scheme: 'https' });
    expect(asked).toHaveLength(1);
  });

  it('falls back to HTTP, without credentials, when a server does not speak TLS', async () => {
    const { asked, port } = await serve((_request, response) => response.end());
    await get(port, { scheme: 'https', headers: [{ name: 'Authorization', value: 'Basic c2VjcmV0' }] });
    expect(asked.map(({ url, headers }) => [url, headers.authorization])).toEqual([['/stop?now', undefined]]);
  });
});
