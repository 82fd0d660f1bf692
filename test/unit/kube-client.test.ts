import { afterEach, describe, expect, it } from '@jest/globals';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import {
  createKubeClient,
  type KubeClient,
  type KubeClientOptions,
  pathOf,
  type WriteOptions,
} from '../../kube/client.ts';
import { CredentialsError } from '../../kube/credentials.ts';
import { KubeError } from '../../kube/failures.ts';
import { FakeApiServer, refusal } from '../support/fake-api/fake-api-server.ts';
import { eventLine } from '../support/fake-api/fake-watch.ts';
import { waitFor } from '../support/wait.ts';

const pods: Resource = { group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true };
const nodes: Resource = { group: '', version: 'v1', plural: 'nodes', kind: 'Node', namespaced: false };
const requests: Resource = {
  group: 'apps.kruise.io',
  version: 'v1beta1',
  plural: 'containerrecreaterequests',
  kind: 'ContainerRecreateRequest',
  namespaced: true,
};
const leases: Resource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
};
const web = { namespace: 'shop', name: 'web' };

const started: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of started.splice(0).reverse()) await each.close();
});

async function serve(): Promise<FakeApiServer> {
  const server = await FakeApiServer.start();
  started.push({ close: () => server.stop() });
  return server;
}

function connect(server: FakeApiServer, options: Partial<KubeClientOptions> = {}): KubeClient {
  const client = createKubeClient({
    credentials: server.credentials,
    userAgent: 'windlass-test',
    qps: 10_000,
    burst: 1000,
    ...options,
  });
  started.push(client);
  return client;
}

/** What the promise is rejected with. */
async function rejection(promise: Promise<unknown>): Promise<KubeError> {
  const error = await promise.then(
    () => new Error('it was not rejected'),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(KubeError);
  return error as KubeError;
}

/** The names of the objects of a watch, up to its end. */
async function namesOf(
  watch: AsyncIterable<{ readonly type: string; readonly object?: KubeObject }>,
): Promise<string[]> {
  const names: string[] = [];
  for await (const event of watch) names.push(event.object?.metadata.name ?? event.type);
  return names;
}

describe('pathOf', () => {
  it('addresses collections, objects and subresources, of a namespace or of the cluster', () => {
    expect(pathOf(pods)).toBe('/api/v1/pods');
    expect(pathOf(pods, { namespace: 'shop' })).toBe('/api/v1/namespaces/shop/pods');
    expect(pathOf(pods, web, 'status')).toBe('/api/v1/namespaces/shop/pods/web/status');
    expect(pathOf(nodes, { namespace: 'ignored', name: 'node-1' })).toBe('/api/v1/nodes/node-1');
    expect(pathOf(requests, web)).toBe('/apis/apps.kruise.io/v1beta1/namespaces/shop/containerrecreaterequests/web');
  });

  it('finds nothing under a name that would be the path of something else', () => {
    for (const name of ['', '.', '..', '../../x', 'web/log', 'web%2Flog']) {
      expect(() => pathOf(pods, { namespace: 'shop', name })).toThrow(
        expect.objectContaining({ status: 404, reason: 'NotFound', type: 'Superseded' }),
      );
    }
    expect(() => pathOf(pods, { namespace: 'shop/pods', name: 'web' })).toThrow('it is not a valid name');
    expect(pathOf(pods, { namespace: '', name: 'web' })).toBe('/api/v1/pods/web');
  });
});

describe('a call', () => {
  it('sends and takes JSON as it is, with fields that nobody here knows', async () => {
    const server = await serve();
    const client = connect(server);
    const created = await client.create(pods, { metadata: web, spec: { newerThanUs: { deep: [1, 'zwei', null] } } });
    expect(created).toMatchObject({
      kind: 'Pod',
      apiVersion: 'v1',
      spec: { newerThanUs: { deep: [1, 'zwei', null] } },
    });
    await expect(client.get(pods, web)).resolves.toEqual(created);
    expect(server.requests[0]).toMatchObject({
      method: 'POST',
      path: '/api/v1/namespaces/shop/pods',
      headers: { 'user-agent': 'windlass-test', authorization: 'Bearer fake', accept: 'application/json' },
    });
  });

  it('patches with the content type of the patch, and says who writes', async () => {
    const server = await serve();
    const client = connect(server);
    server.fault = () => ({ kind: 'answer', status: 200, body: {} });
    await client.create(pods, { metadata: web });
    for (const type of ['merge', 'json', 'strategic', 'apply'] as const) {
      const options = { fieldManager: 'windlass', force: type === 'apply', subresource: 'status', dryRun: true };
      await client.patch(pods, web, type, { metadata: {} }, options);
    }
    const patches = server.requests.slice(1);
    expect(patches.map((request) => request.headers['content-type'])).toEqual([
      'application/merge-patch+json',
      'application/json-patch+json',
      'application/strategic-merge-patch+json',
      'application/apply-patch+yaml',
    ]);
    expect(patches[3]?.path).toBe('/api/v1/namespaces/shop/pods/web/status');
    expect(Object.fromEntries(patches[3]?.query ?? [])).toEqual({
      fieldManager: 'windlass',
      force: 'true',
      dryRun: 'All',
    });
  });

  it('deletes by UID, and never a namesake', async () => {
    const server = await serve();
    const client = connect(server);
    const { metadata } = await client.create(pods, { metadata: web });
    const error = await rejection(client.delete(pods, web, { preconditions: { uid: 'another' } }));
    expect(error.type).toBe('Superseded');
    await client.delete(pods, web, { preconditions: { uid: metadata.uid }, propagationPolicy: 'Background' });
    expect(server.requests.at(-1)?.body).toMatchObject({
      kind: 'DeleteOptions',
      preconditions: { uid: metadata.uid },
      propagationPolicy: 'Background',
    });
    await expect(rejection(client.get(pods, web))).resolves.toMatchObject({ type: 'Superseded', status: 404 });
  });

  it('lists in pages of one version, and fills in the kind that lists leave out', async () => {
    const server = await serve();
    const client = connect(server);
    const labels = { app: 'web', tier: 'x' };
    for (const name of ['a', 'b', 'c']) server.put('/api/v1/pods', { metadata: { namespace: 'shop', name, labels } });
    const first = await client.list(pods, { namespace: 'shop', limit: 2, labelSelector: 'app=web,tier in (x)' });
    expect(first.items.map((pod) => [pod.kind, pod.metadata.name])).toEqual([
      ['Pod', 'a'],
      ['Pod', 'b'],
    ]);
    expect(server.requests[0]?.query.get('labelSelector')).toBe('app=web,tier in (x)');
    server.put('/api/v1/pods', { metadata: { namespace: 'shop', name: 'd' } });
    const second = await client.list(pods, { namespace: 'shop', limit: 2, continue: first.continue });
    expect(second.items.map((pod) => pod.metadata.name)).toEqual(['c']);
    expect(second).not.toHaveProperty('continue');
    expect(second.resourceVersion).toBe(first.resourceVersion);
  });

  it('returns text where the answer is text', async () => {
    const server = await serve();
    server.fault = () => ({ kind: 'answer', status: 200, body: 'ok' });
    await expect(connect(server).request('GET', '/readyz')).resolves.toBe('ok');
  });

  it('keeps below the path of a server behind a proxy', async () => {
    const server = await serve();
    const credentials = { ...server.credentials, server: new URL(`${server.url}/clusters/one/`) };
    await connect(server, { credentials })
      .request('GET', '/version')
      .catch(() => undefined);
    expect(server.requests[0]?.path).toBe('/clusters/one/version');
  });
});

describe('connections', () => {
  it('are used again: many calls, hardly any connections', async () => {
    const server = await serve();
    const client = connect(server);
    for (let call = 0; call < 20; call++) await client.list(pods);
    expect(server.connections).toBeLessThanOrEqual(2);
  });

  it('are used again after deletions, too, whose preconditions are a body', async () => {
    const server = await serve();
    const client = connect(server);
    for (let call = 0; call < 20; call++) {
      const { metadata } = server.put('/api/v1/pods', { metadata: web });
      await client.delete(pods, web, { preconditions: { uid: metadata.uid } });
    }
    expect(server.connections).toBeLessThanOrEqual(2);
  });

  it('are bounded for calls, while watches and leases never wait for one', async () => {
    const server = await serve();
    const client = connect(server, { connections: 2 });
    server.put('/apis/coordination.k8s.io/v1/leases', { metadata: web });
    const ended = Promise.all([1, 2, 3].map(() => namesOf(client.watch(pods, { resourceVersion: '1' }))));
    await waitFor('three watches', () => server.watches.length === 3);

    server.fault = ({ path }) => (path === '/api/v1/pods' ? { kind: 'stall' } : undefined);
    const abort = new AbortController();
    const stalled = [1, 2, 3, 4].map(() => client.list(pods, { signal: abort.signal }));
    await waitFor('two calls', () => server.requests.filter((request) => !request.query.has('watch')).length === 2);
    await expect(client.get(leases, web)).resolves.toMatchObject({ kind: 'Thing' });
    expect(server.requests.filter((request) => request.path === '/api/v1/pods').length).toBe(3 + 2);

    abort.abort(new Error('enough'));
    await Promise.all(stalled.map((call) => expect(call).rejects.toThrow('enough')));
    for (const watch of [...server.watches]) watch.end();
    await ended;
  });

  it('are all gone after close, which ends calls and watches', async () => {
    const server = await serve();
    const client = connect(server);
    const watch = namesOf(client.watch(pods, { resourceVersion: '1' }));
    await waitFor('the watch', () => server.watches.length === 1);
    server.fault = () => ({ kind: 'stall' });
    const call = client.list(pods);
    await waitFor('the call', () => server.requests.length === 2);

    const ended = Promise.all([rejection(watch), rejection(call)]);
    await client.close();
    expect((await ended).map((error) => error.message)).toEqual(['the client was closed', 'the client was closed']);
    expect((await rejection(client.list(pods))).message).toBe('the client was closed');
    await waitFor('the connections to close', () => server.openConnections === 0);
  });

  it('are opened anew when the TLS settings change, and the old ones end with their last watch', async () => {
    const server = await serve();
    let tls = {};
    const current = () => Promise.resolve({ headers: {}, tls });
    const client = connect(server, { credentials: { ...server.credentials, current } });
    const watch = namesOf(client.watch(pods, { resourceVersion: '1' }));
    await waitFor('the watch', () => server.watches.length === 1);
    await client.list(pods);
    tls = {};
    await client.list(pods);
    expect(server.connections).toBe(3);
    await waitFor('the old connection to close', () => server.openConnections === 2);
    server.watches[0]?.end();
    await expect(watch).resolves.toEqual([]);
  });
});

describe('a call that goes wrong', () => {
  it('is Unreachable when the connection drops, and the next call works', async () => {
    const server = await serve();
    const client = connect(server);
    server.fault = () => ({ kind: 'drop' });
    await expect(rejection(client.list(pods))).resolves.toMatchObject({
      type: 'Unreachable',
      status: 0,
      request: 'GET /api/v1/pods',
    });
    server.fault = () => undefined;
    await expect(client.list(pods)).resolves.toMatchObject({ items: [] });
  });

  it('is Unreachable when nobody listens, or only half an answer comes', async () => {
    const server = await serve();
    const client = connect(server);
    server.fault = () => ({ kind: 'half' });
    await expect(rejection(client.list(pods))).resolves.toMatchObject({ type: 'Unreachable' });
    await server.stop();
    const refused = await rejection(client.list(pods));
    expect(refused).toMatchObject({ type: 'Unreachable', message: expect.stringContaining('ECONNREFUSED') });
  });

  it('is Unreachable after its deadline, and its connection is not used again', async () => {
    const server = await serve();
    const client = connect(server);
    server.fault = () => ({ kind: 'stall' });
    const error = await rejection(client.list(pods, { deadlineMs: 30 }));
    expect(error).toMatchObject({ type: 'Unreachable', message: 'no answer within 0.03 s' });
    await waitFor('the connection to close', () => server.openConnections === 0);
  });

  it('ends with the reason of its signal, before, during and after it was sent', async () => {
    const server = await serve();
    const client = connect(server);
    server.fault = () => ({ kind: 'stall' });
    const abort = new AbortController();
    const call = client.list(pods, { signal: abort.signal });
    await waitFor('the call', () => server.requests.length === 1);
    const reason = new Error('the activity was cancelled');
    abort.abort(reason);
    await expect(call).rejects.toBe(reason);
    await expect(client.list(pods, { signal: abort.signal })).rejects.toBe(reason);
    expect(server.requests.length).toBe(1);
  });

  it('H7: gives up an answer that is longer than it may be, and says so', async () => {
    const server = await serve();
    const client = connect(server);
    server.put('/api/v1/pods', { metadata: { namespace: 'shop', name: 'large' }, ballast: 'x'.repeat(100_000) });
    const error = await rejection(client.list(pods, { maxBytes: 50_000 }));
    expect(error).toMatchObject({
      ...{ type: 'Unreachable', reason: 'AnswerTooLarge', request: 'GET /api/v1/pods' },
      message: 'the answer is longer than 50000 bytes',
    });
    await expect(client.list(pods, { maxBytes: 150_000 })).resolves.toMatchObject({ items: [{}] });
    await client.list(pods, { metadataOnly: true });
    expect(server.requests.at(-1)?.headers.accept).toContain('as=PartialObjectMetadataList;g=meta.k8s.io;v=v1');
  });

  it('never quotes an answer that it cannot read', async () => {
    const server = await serve();
    server.fault = () => ({ kind: 'answer', status: 200, body: '{"status":{"token":"secret-token"' });
    const error = await rejection(connect(server).request('POST', '/api/v1/namespaces/shop/serviceaccounts/x/token'));
    expect(error).toMatchObject({ type: 'Unreachable', message: 'the answer is not JSON' });
  });

  it('says nothing of the token, wherever it fails', async () => {
    const server = await serve();
    const credentials = {
      ...server.credentials,
      current: () => Promise.resolve({ headers: { authorization: 'Bearer sesame' }, tls: {} }),
    };
    const client = connect(server, { credentials });
    const errors: KubeError[] = [];
    for (const fault of [{ kind: 'drop' }, { kind: 'half' }, refusal(401, 'Unauthorized', 'Unauthorized')] as const) {
      server.fault = () => fault;
      errors.push(await rejection(client.list(pods)));
    }
    for (const error of errors) expect(JSON.stringify([error, error.message, error.stack])).not.toContain('sesame');
  });
});

describe('credentials', () => {
  it('are read again when refused, and the call is repeated once', async () => {
    const server = await serve();
    let token = 'old';
    let renewed = 0;
    const credentials = {
      ...server.credentials,
      current: () => Promise.resolve({ headers: { authorization: `Bearer ${token}` }, tls: {} }),
      renew: () => {
        renewed += 1;
        token = 'new';
      },
    };
    server.fault = ({ headers }) =>
      headers.authorization === 'Bearer new' ? undefined : refusal(401, 'Unauthorized', 'Unauthorized');
    const client = connect(server, { credentials });
    await expect(client.list(pods)).resolves.toMatchObject({ items: [] });
    expect(renewed).toBe(1);
  });

  it('are Denied when they are refused twice', async () => {
    const server = await serve();
    server.fault = () => refusal(401, 'Unauthorized', 'Unauthorized');
    await expect(rejection(connect(server).list(pods))).resolves.toMatchObject({ type: 'Denied', status: 401 });
    expect(server.requests.length).toBe(2);
  });

  it('that cannot be had make a call Unreachable, and one that hangs ends it at its deadline', async () => {
    const server = await serve();
    const broken = { ...server.credentials, current: () => Promise.reject(new CredentialsError('plugin failed')) };
    const error = await rejection(connect(server, { credentials: broken }).list(pods));
    expect(error).toMatchObject({ type: 'Unreachable', message: 'plugin failed' });
    const hanging = { ...server.credentials, current: () => new Promise<never>(() => undefined) };
    const late = await rejection(connect(server, { credentials: hanging }).list(pods, { deadlineMs: 20 }));
    expect(late.message).toBe('no answer within 0.02 s');
  });
});

describe('the limiter', () => {
  it('reports the warnings of an answer, those of a rejection too', async () => {
    const server = await serve();
    const client = connect(server);
    const warnings: string[] = [];
    const options = { dryRun: true, fieldValidation: 'Warn', onWarning: (text: string) => void warnings.push(text) };
    const header = String.raw`299 - "unknown field \"spec.foo\"", 299 - "a, \\b"`;
    server.fault = () => ({ ...refusal(422, 'Invalid', 'no'), headers: { warning: header } });
    await rejection(client.create(pods, { metadata: { namespace: 'shop', name: 'web' } }, options as WriteOptions));
    expect(warnings).toEqual(['unknown field "spec.foo"', String.raw`a, \b`]);
    expect(server.requests[0]?.query.get('fieldValidation')).toBe('Warn');
  });

  it('holds back all calls when one is told to wait, but no lease and no watch', async () => {
    const server = await serve();
    const client = connect(server);
    server.put('/apis/coordination.k8s.io/v1/leases', { metadata: web });
    server.fault = ({ path }) =>
      path === '/api/v1/nodes'
        ? { ...refusal(429, 'TooManyRequests', 'busy'), headers: { 'retry-after': '60' } }
        : undefined;
    await expect(rejection(client.list(nodes))).resolves.toMatchObject({ type: 'Throttled', retryAfterSeconds: 60 });

    const abort = new AbortController();
    const held = client.list(pods, { signal: abort.signal });
    await client.get(leases, web);
    const watch = namesOf(client.watch(pods, { resourceVersion: '1' }));
    await waitFor('the watch', () => server.watches.length === 1);
    expect(server.requests.map((request) => request.path)).not.toContain('/api/v1/namespaces/shop/pods');
    expect(server.requests.filter((request) => request.path === '/api/v1/pods' && !request.query.has('watch'))).toEqual(
      [],
    );
    abort.abort(new Error('tired'));
    await expect(held).rejects.toThrow('tired');
    server.watches[0]?.end();
    await watch;
  });

  it('does not pause because a disruption budget is spent', async () => {
    const server = await serve();
    const client = connect(server);
    const details = { causes: [{ reason: 'DisruptionBudget' }], retryAfterSeconds: 60 };
    server.fault = ({ method }) =>
      method === 'POST' ? refusal(429, 'TooManyRequests', 'Cannot evict pod', details) : undefined;
    const path = '/api/v1/namespaces/shop/pods/web/eviction';
    await expect(rejection(client.request('POST', path, { body: {} }))).resolves.toMatchObject({ type: 'Held' });
    await expect(client.list(pods)).resolves.toMatchObject({ items: [] });
  });

  it('M4: does not pause because of an eviction, a webhook, or the cache of one kind', async () => {
    const server = await serve();
    const client = connect(server);
    const said = [
      'Cannot evict pod as it would violate the disruption budget',
      'admission webhook "quota.shop.io" denied the request: too many requests',
      'storage is (re)initializing',
    ];
    for (const [index, message] of said.entries()) {
      server.fault = ({ method }) =>
        method === 'POST' ? refusal(429, 'TooManyRequests', message, { retryAfterSeconds: 60 }) : undefined;
      const path = `/api/v1/namespaces/shop/pods${index === 0 ? '/web/eviction' : ''}`;
      const refused = await rejection(client.request('POST', path, { body: {} }));
      expect(refused).toMatchObject({ type: 'Throttled', retryAfterSeconds: 60 });
      await expect(client.list(pods)).resolves.toMatchObject({ items: [] });
    }
  });

  it('M4: lets a call of another namespace pass a thousand that wait for the server', async () => {
    const server = await serve();
    const client = connect(server, { connections: 8 });
    const abort = new AbortController();
    server.fault = ({ path }) => (path.includes('/namespaces/busy/') ? { kind: 'stall' } : undefined);
    const stalled = Array.from({ length: 1000 }, (_, index) =>
      client.get(pods, { namespace: 'busy', name: `pod-${index}` }, { signal: abort.signal }),
    );
    server.put('/api/v1/pods', { metadata: web });
    await expect(client.get(pods, web)).resolves.toMatchObject({ metadata: web });
    abort.abort(new Error('enough'));
    await Promise.all(stalled.map((call) => expect(call).rejects.toThrow('enough')));
  });
});

describe('a watch', () => {
  it('asks for bookmarks and an end at a random time, and ends in order', async () => {
    const server = await serve();
    const client = connect(server);
    server.put('/api/v1/pods', { metadata: { namespace: 'shop', name: 'a' } });
    const seen = namesOf(
      client.watch(pods, { resourceVersion: '100', namespace: 'shop', fieldSelector: 'status.phase=' }),
    );
    await waitFor('the watch', () => server.watches.length === 1);
    server.put('/api/v1/pods', { metadata: { namespace: 'other', name: 'b' } });
    server.bookmark();
    server.remove('/api/v1/pods', 'shop', 'a');
    server.watches[0]?.end();
    await expect(seen).resolves.toEqual(['a', 'BOOKMARK', 'a']);

    const query = Object.fromEntries(server.requests[0]?.query ?? []);
    expect(query).toMatchObject({
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: '100',
      fieldSelector: 'status.phase=',
    });
    expect(Number(query.timeoutSeconds)).toBeGreaterThanOrEqual(300);
    expect(Number(query.timeoutSeconds)).toBeLessThan(600);
  });

  it('reads characters that are split between chunks, many events in one chunk, and one event in many', async () => {
    const server = await serve();
    const seen = namesOf(connect(server).watch(pods, { resourceVersion: '1' }));
    await waitFor('the watch', () => server.watches.length === 1);
    const watch = server.watches[0];
    const names = ['grün-🚀', 'x'.repeat(200_000), 'c'];
    const bytes = Buffer.from(names.map((name) => eventLine('ADDED', { metadata: { name } })).join(''));
    for (const byte of bytes.subarray(0, 80)) {
      watch?.send(Buffer.from([byte]));
      await new Promise(setImmediate);
    }
    watch?.send(bytes.subarray(80));
    watch?.end();
    await expect(seen).resolves.toEqual(names);
  });

  const breaks: readonly (readonly [string, (server: FakeApiServer) => void, object])[] = [
    ['breaks off', (server) => server.watches[0]?.drop(), { type: 'Unreachable', status: 0 }],
    [
      'ends in half a line',
      (server) => server.watches[0]?.endInHalfALine(),
      { type: 'Unreachable', message: 'the watch ended in the middle of an event' },
    ],
    [
      'sends what is not JSON',
      (server) => server.watches[0]?.send('{"type":\n'),
      { type: 'Unreachable', message: 'the answer is not JSON' },
    ],
    [
      'sends an event without end',
      (server) => {
        for (let sent = 0; sent < 17; sent++) server.watches[0]?.send('x'.repeat(1024 * 1024));
      },
      { type: 'Unreachable', message: expect.stringContaining('longer than 16777216 bytes') },
    ],
    [
      'sends an error',
      (server) => server.watches[0]?.fail(410, 'Expired', 'too old resource version'),
      { type: 'Conflict', status: 410, reason: 'Expired', message: 'too old resource version' },
    ],
  ];
  it.each(breaks)('throws when the server %s, and leaves no connection', async (_what, breakIt, expected) => {
    const server = await serve();
    const seen = namesOf(connect(server).watch(pods, { resourceVersion: '1' }));
    await waitFor('the watch', () => server.watches.length === 1);
    breakIt(server);
    await expect(rejection(seen)).resolves.toMatchObject(expected);
    await waitFor('the connection to close', () => server.watches.length === 0);
  });

  it('throws what the server answers instead of it', async () => {
    const server = await serve();
    server.fault = () => refusal(403, 'Forbidden', 'pods is forbidden');
    const seen = namesOf(connect(server).watch(pods, { resourceVersion: '1' }));
    await expect(rejection(seen)).resolves.toMatchObject({ type: 'Denied', message: 'pods is forbidden' });
  });

  it('is cut when it is silent for too long, and only then', async () => {
    const server = await serve();
    server.bookmarkEveryMs = 5;
    const bookmarks: unknown[] = [];
    const following = (async () => {
      for await (const event of connect(server).watch(pods, { resourceVersion: '1', silenceMs: 1000 })) {
        bookmarks.push(event);
        if (bookmarks.length === 5) server.watches[0]?.stall();
      }
    })();
    const error = await rejection(following);
    expect(error).toMatchObject({ type: 'Unreachable', reason: 'Silent', message: 'no data for 1 s' });
    expect(bookmarks.length).toBe(5);
    await waitFor('the connection to close', () => server.openConnections === 0);
  });

  it('that is not answered ends at the deadline', async () => {
    const server = await serve();
    server.fault = () => ({ kind: 'stall' });
    const seen = namesOf(connect(server, { deadlineMs: 20 }).watch(pods, { resourceVersion: '1' }));
    await expect(rejection(seen)).resolves.toMatchObject({ message: 'no answer within 0.02 s' });
  });

  it('leaves no connection when its consumer leaves, or its signal aborts', async () => {
    const server = await serve();
    const client = connect(server);
    server.put('/api/v1/pods', { metadata: web });
    for await (const event of client.watch(pods, { resourceVersion: '1' })) {
      expect(event.type).toBe('ADDED');
      break;
    }
    const abort = new AbortController();
    const seen = namesOf(client.watch(pods, { resourceVersion: '1', signal: abort.signal }));
    await waitFor('the second watch', () => server.requests.length === 2 && server.watches.length === 1);
    const reason = new Error('stop');
    abort.abort(reason);
    await expect(seen).rejects.toBe(reason);
    await waitFor('the connections to close', () => server.openConnections === 0);
  });
});
