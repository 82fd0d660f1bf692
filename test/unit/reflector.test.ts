import { afterEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { type Change, compareVersions, createCache, type WritableCache } from '../../kube/cache.ts';
import { createKubeClient, type ListOptions, type WatchOptions } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import { Reflector, type ReflectorOptions } from '../../kube/reflector.ts';
import { FakeApiServer, refusal } from '../support/fake-api/fake-api-server.ts';
import { eventLine } from '../support/fake-api/fake-watch.ts';
import type { SeenRequest } from '../support/fake-api/http-requests.ts';
import { waitFor } from '../support/wait.ts';

const things: Resource = { group: 'test.io', version: 'v1', plural: 'things', kind: 'Thing', namespaced: true };
const path = '/apis/test.io/v1/things';

interface Thing extends KubeObject {
  readonly size?: number;
  readonly ballast?: string;
}

/** A reflector with a server of its own, and a mirror that is built from the listener's calls alone. */
interface Following {
  readonly server: FakeApiServer;
  readonly cache: WritableCache<Thing>;
  readonly reflector: Reflector<Thing>;
  readonly mirror: Mirror;
  readonly log: string[];
  stop(): Promise<void>;
}

const running: Following[] = [];
afterEach(async () => {
  for (const each of running.splice(0)) await each.stop();
});

async function follow(options: Partial<ReflectorOptions<Thing>> = {}, server?: FakeApiServer): Promise<Following> {
  const served = server ?? (await FakeApiServer.start());
  const client = createKubeClient({ credentials: served.credentials, userAgent: 'test', qps: 1e5, burst: 1e5 });
  const mirror = new Mirror();
  const cache = createCache<Thing>({
    onError: (error) => {
      throw error;
    },
  });
  cache.onChange((change) => mirror.hear(change));
  const log: string[] = [];
  const write = (fields: object, message: string) => {
    log.push(`${message} ${JSON.stringify(fields)}`);
  };
  const reflector = new Reflector<Thing>({
    client,
    resource: things,
    cache,
    log: { info: write, warn: write },
    pageSize: 2,
    backOffMs: { first: 1, most: 5 },
    ...options,
  });
  const stop = async () => {
    await reflector.stop();
    await client.close();
    await served.stop();
  };
  const following = { server: served, cache, reflector, mirror, log, stop };
  running.push(following);
  reflector.start();
  return following;
}

/** The state from the listener's calls, and all wrong calls. */
class Mirror {
  readonly objects = new Map<string, Thing>();
  readonly wrongs: string[] = [];
  changes = 0;

  hear({ before, after }: Change<Thing>): void {
    this.changes += 1;
    const { uid, name, namespace, resourceVersion } = (after ?? before ?? never()).metadata;
    const known = this.objects.get(uid);
    if (before !== known) this.wrongs.push(`${name}: told of a change from what was not told before`);
    if (before && after && compareVersions(after.metadata.resourceVersion, before.metadata.resourceVersion) <= 0) {
      this.wrongs.push(`${name}: went from ${before.metadata.resourceVersion} to ${resourceVersion}`);
    }
    const namesake = [...this.objects.values()].find(
      ({ metadata }) => metadata.name === name && metadata.namespace === namespace && metadata.uid !== uid,
    );
    if (after && namesake) this.wrongs.push(`${name}: appears before its namesake has gone`);
    if (after) this.objects.set(uid, after);
    else this.objects.delete(uid);
  }
}

function never(): never {
  throw new Error('a change without object');
}

const isList = (request: SeenRequest) => request.path === path && !request.query.has('watch');
const isWatch = (request: SeenRequest) => request.path === path && request.query.has('watch');

const inOrder = new Intl.Collator('en').compare;

function byName(objects: Iterable<KubeObject>): readonly string[] {
  return [...objects]
    .map(({ metadata }) => `${metadata.name} ${metadata.uid}@${metadata.resourceVersion}`)
    .toSorted(inOrder);
}

/** Waits until the cache equals the server, and checks that the listener's calls led to the same state. */
async function expectEqual({ server, cache, mirror, log, reflector }: Following): Promise<void> {
  await waitFor('the cache to equal the server', (see) => {
    see({ reached: cache.reached, version: server.version, trouble: reflector.trouble, log: log.slice(-3) });
    expect(byName(cache.all())).toEqual(byName(server.stored(path)));
    return true;
  });
  expect(byName(mirror.objects.values())).toEqual(byName(server.stored(path)));
  expect(mirror.wrongs).toEqual([]);
}

/** One watch is open, and the reflector has caught up. */
async function whenWatching({ server, reflector }: Following): Promise<void> {
  await reflector.synced();
  await waitFor('the watch', () => server.watches.length === 1);
}

describe('the reflector', () => {
  it('lists in pages of one version, watches from there, and follows', async () => {
    const server = await FakeApiServer.start();
    for (const name of ['a', 'b', 'c', 'd', 'e']) server.put(path, { metadata: { namespace: 'shop', name } });
    const following = await follow({}, server);
    await whenWatching(following);
    expect(following.cache.size).toBe(5);
    expect(server.requests.filter(isList).length).toBe(3);
    expect(server.requests.find(isWatch)?.query.get('resourceVersion')).toBe('105');

    server.put(path, { metadata: { namespace: 'shop', name: 'b' }, size: 2 });
    server.put(path, { metadata: { namespace: 'shop', name: 'f' } });
    server.remove(path, 'shop', 'a');
    await expectEqual(following);
    expect(following.mirror.changes).toBe(5 + 3);
    const counts = { lists: 1, watches: 1, events: 3, bookmarks: 0, errors: 0, skipped: 0 };
    expect(following.reflector.counts).toEqual(counts);
    expect(following.reflector.trouble).toBeUndefined();
  });

  it('keeps its selectors and its namespace in lists and watches', async () => {
    const following = await follow({ namespace: 'shop', labelSelector: 'app=web', fieldSelector: 'spec.nodeName=n1' });
    await whenWatching(following);
    for (const request of following.server.requests) {
      expect(request.path).toBe('/apis/test.io/v1/namespaces/shop/things');
      expect(request.query.get('labelSelector')).toBe('app=web');
      expect(request.query.get('fieldSelector')).toBe('spec.nodeName=n1');
    }
  });

  it('holds only what trim leaves, and unchanged objects once', async () => {
    const server = await FakeApiServer.start();
    server.put(path, { metadata: { name: 'a' }, ballast: 'x'.repeat(1000) });
    const trim = ({ apiVersion, kind, metadata }: Thing): Thing => ({ apiVersion, kind, metadata });
    const following = await follow({ trim }, server);
    await whenWatching(following);
    server.put(path, { metadata: { name: 'b' }, ballast: 'x'.repeat(1000) });
    await expectEqual(following);
    expect(JSON.stringify([...following.cache.all()])).not.toContain('ballast');

    const held = following.cache.byName('', 'a');
    server.watches[0]?.fail(410, 'Expired', 'too old');
    await waitFor('the second list', () => following.reflector.counts.lists === 2);
    expect(following.cache.byName('', 'a')).toBe(held);
    expect(following.mirror.changes).toBe(2);
  });

  it('has the age of its last data', async () => {
    let nowMs = 1000;
    const following = await follow({ now: () => nowMs });
    expect(following.reflector.ageMs).toBe(Number.POSITIVE_INFINITY);
    expect(following.reflector.isSynced).toBe(false);
    await whenWatching(following);
    expect(following.reflector.isSynced).toBe(true);
    nowMs = 61_000;
    expect(following.reflector.ageMs).toBe(60_000);
    following.server.bookmark();
    await waitFor('the bookmark', () => following.reflector.counts.bookmarks === 1);
    expect(following.reflector.ageMs).toBe(0);
  });

  it('shows a write of ours once its version has been seen, also where only a bookmark tells', async () => {
    const following = await follow({ namespace: 'shop' });
    await whenWatching(following);
    const { metadata } = following.server.put(path, { metadata: { namespace: 'shop', name: 'a' } });
    await following.cache.seen(metadata.uid, metadata.resourceVersion, AbortSignal.timeout(60_000));
    expect(following.cache.byName('shop', 'a')?.metadata.resourceVersion).toBe(metadata.resourceVersion);

    const elsewhere = following.server.put(path, { metadata: { namespace: 'other', name: 'b' } }).metadata;
    const seen = following.cache.seen(elsewhere.uid, elsewhere.resourceVersion, AbortSignal.timeout(60_000));
    following.server.bookmark();
    await seen;
  });

  it('leaves nothing behind when it is stopped, wherever it is', async () => {
    const faults: readonly FakeApiServer['fault'][] = [
      () => undefined,
      () => ({ kind: 'stall' }),
      (request) => (isWatch(request) ? { kind: 'stall' } : undefined),
      () => refusal(500, 'InternalError', 'try again'),
    ];
    for (const fault of faults) {
      const timers = activeTimers();
      const server = await FakeApiServer.start();
      server.fault = fault;
      const following = await follow({ backOffMs: { first: 60_000, most: 60_000 } }, server);
      await waitFor('a request', () => server.requests.length > 0);
      const waiting = following.cache.until(() => false, { signal: new AbortController().signal, what: 'pigs fly' });
      const refused = expect(waiting).rejects.toThrow('The cache of things is no longer kept up to date');
      await following.reflector.stop();
      await refused;
      await waitFor('no watch', () => server.watches.length === 0);
      await following.stop();
      expect(following.cache.sizes.waits).toBe(0);
      await waitFor('the sockets to close', () => server.openConnections === 0);
      // Not with waitFor, which has a timer itself. The timers of 60 s, of the back-off, would still exist.
      const deadline = performance.now() + 60_000;
      while (activeTimers() > timers && performance.now() < deadline) await new Promise(setImmediate);
      expect(activeTimers()).toBeLessThanOrEqual(timers);
      running.splice(0);
    }
  });

  it('does not start again after its end, and says so to those who wait for the first list', async () => {
    const server = await FakeApiServer.start();
    server.fault = () => ({ kind: 'stall' });
    const { reflector } = await follow({}, server);
    const synced = expect(reflector.synced()).rejects.toThrow('no longer kept up to date');
    await reflector.stop();
    await synced;
    const before = server.requests.length;
    reflector.start();
    await reflector.stop();
    expect(server.requests.length).toBe(before);
  });
});

describe('when a watch breaks', () => {
  const breaks: readonly (readonly [string, (server: FakeApiServer) => void])[] = [
    ['is dropped', (server) => server.watches[0]?.drop()],
    ['ends in order', (server) => server.watches[0]?.end()],
    ['ends in half a line', (server) => server.watches[0]?.endInHalfALine()],
    ['sends what is not JSON', (server) => server.watches[0]?.send('<html>\n')],
    ['fails with 500', (server) => server.watches[0]?.fail(500, 'InternalError', 'etcd has no leader')],
  ];
  it.each(breaks)('that %s, it goes on where it stopped, without a list', async (_what, breakIt) => {
    const following = await follow();
    await whenWatching(following);
    const { server, reflector } = following;
    server.put(path, { metadata: { name: 'a' } });
    await expectEqual(following);
    server.bookmark('150');
    await waitFor('the bookmark', () => reflector.counts.bookmarks === 1);
    breakIt(server);
    await waitFor('the second watch', () => server.requests.filter(isWatch).length >= 2 && server.watches.length === 1);
    expect(server.requests.filter(isWatch)[1]?.query.get('resourceVersion')).toBe('150');
    expect(reflector.counts.lists).toBe(1);
    expect(following.mirror.changes).toBe(1);
  });

  it('loses nothing that happened meanwhile', async () => {
    const following = await follow();
    await whenWatching(following);
    const { server } = following;
    server.put(path, { metadata: { name: 'a' } });
    await expectEqual(following);
    server.fault = (request) => (isWatch(request) ? { kind: 'drop' } : undefined);
    server.watches[0]?.drop();
    server.put(path, { metadata: { name: 'b' } });
    server.remove(path, undefined, 'a');
    server.put(path, { metadata: { name: 'a', uid: 'another' } });
    await waitFor('three attempts', () => server.requests.filter(isWatch).length > 4);
    server.fault = () => undefined;
    await expectEqual(following);
    expect(following.reflector.counts.lists).toBe(1);
    expect(following.mirror.changes).toBe(4);
  });

  it('and the version is compacted away, it lists, and tells what has gone, come and changed meanwhile', async () => {
    const following = await follow();
    await whenWatching(following);
    const { server, reflector, mirror } = following;
    for (const name of ['gone', 'kept', 'changed', 'remade']) server.put(path, { metadata: { name } });
    await expectEqual(following);
    server.fault = (request) => (isWatch(request) ? { kind: 'drop' } : undefined);
    server.watches[0]?.drop();
    server.remove(path, undefined, 'gone');
    server.put(path, { metadata: { name: 'changed' }, size: 1 });
    server.remove(path, undefined, 'remade');
    server.put(path, { metadata: { name: 'remade', uid: 'another' } });
    server.compact();
    server.fault = () => undefined;
    await expectEqual(following);
    expect(reflector.counts.lists).toBe(2);
    // Four appeared; one went away, one changed, one was recreated. The unchanged one is not reported again.
    expect(mirror.changes).toBe(4 + 4);
  });

  it('and says nothing more, it is cut, and the server is asked for a list', async () => {
    const following = await follow({ silenceMs: 50 });
    following.server.bookmarkEveryMs = 5;
    await whenWatching(following);
    await waitFor('a bookmark', () => following.reflector.counts.bookmarks > 0);
    following.server.watches[0]?.stall();
    following.server.put(path, { metadata: { name: 'a' } });
    await expectEqual(following);
    expect(following.reflector.counts.lists).toBeGreaterThan(1);
  });

  it('and nothing has happened, one object is asked for and not the whole list, however long it is silent', async () => {
    const following = await follow({ silenceMs: 30 });
    await whenWatching(following);
    const { server, reflector, cache } = following;
    for (const name of ['a', 'b', 'c']) server.put(path, { metadata: { name } });
    await expectEqual(following);
    const before = server.requests.length;
    await waitFor('three silences', () => reflector.counts.watches >= 4);
    const lists = server.requests.slice(before).filter(isList);
    expect(lists.length).toBeGreaterThanOrEqual(3);
    expect(lists.map(({ query }) => query.get('limit'))).toEqual(lists.map(() => '1'));
    expect(reflector.counts.lists).toBe(1);
    expect(reflector.ageMs).toBeLessThan(60_000);

    server.remove(path, undefined, 'b');
    await waitFor('the change', () => cache.size === 2);
  });

  it('and relist is called, it lists at once, whatever the watch has not delivered', async () => {
    const following = await follow();
    await whenWatching(following);
    const { server, reflector, cache } = following;
    server.watches[0]?.stall();
    server.put(path, { metadata: { name: 'a' } });
    await reflector.relist();
    expect(byName(cache.all())).toEqual(byName(server.stored(path)));
    server.put(path, { metadata: { name: 'b' } });
    await expectEqual(following);
    expect(reflector.counts).toMatchObject({ lists: 2, errors: 0 });
  });

  it('or is about to, a list that had begun before is not enough', async () => {
    const following = await follow();
    await whenWatching(following);
    const { server, reflector, cache } = following;
    let lists = 0;
    server.fault = (request) => {
      if (!isList(request)) return undefined;
      lists += 1;
      return lists === 1 ? { kind: 'drop' } : undefined;
    };
    const wanted = [reflector.relist()];
    await waitFor('the first list to break off', () => lists > 0);
    server.put(path, { metadata: { name: 'a' } });
    wanted.push(reflector.relist());
    await Promise.all(wanted);
    expect(byName(cache.all())).toEqual(byName(server.stored(path)));
  });

  it('is no reason to wait for a list from one that was stopped', async () => {
    const { reflector } = await follow();
    await reflector.synced();
    await reflector.stop();
    await expect(reflector.relist()).rejects.toThrow('no longer kept up to date');
  });

  it('because the server was restored from a backup, it accepts the older state', async () => {
    const following = await follow({ silenceMs: 50 });
    await whenWatching(following);
    const { server } = following;
    const old = server.put(path, { metadata: { name: 'old' } });
    for (let version = 0; version < 200; version++) server.put(path, { metadata: { name: 'new' }, size: version });
    await expectEqual(following);
    server.restore(path, [old], 102);
    await waitFor('the cache to equal the server', () => {
      expect(byName(following.cache.all())).toEqual(byName(server.stored(path)));
      return true;
    });
    server.put(path, { metadata: { name: 'old' }, size: 7 });
    await waitFor('the change', () => following.cache.byName('', 'old')?.size === 7);
  });

  it('it pauses longer and longer, at most the longest pause, and briefly again once something was heard', async () => {
    const server = await FakeApiServer.start();
    const pauses: number[] = [];
    const warn = (fields: object) => {
      pauses.push((fields as { readonly pauseMs: number }).pauseMs);
    };
    server.fault = (request) => (isWatch(request) ? refusal(500, 'InternalError', 'no') : undefined);
    const following = await follow({ backOffMs: { first: 8, most: 32 }, log: { info: () => {}, warn } }, server);
    await waitFor('six failures', () => pauses.length >= 6);
    const bounds = [8, 16, 32, 32, 32, 32];
    for (const [index, fullMs] of bounds.entries()) {
      expect(pauses[index]).toBeGreaterThanOrEqual(fullMs / 2);
      expect(pauses[index]).toBeLessThanOrEqual(fullMs);
    }
    expect(following.reflector.trouble).toBe('no');
    server.fault = () => undefined;
    await waitFor('the watch', () => server.watches.length === 1);
    server.put(path, { metadata: { name: 'a' } });
    await expectEqual(following);
    expect(following.reflector.trouble).toBeUndefined();
    const failures = pauses.length;
    server.watches[0]?.drop();
    await waitFor('the next pause', () => pauses.length > failures);
    expect(pauses[failures]).toBeLessThanOrEqual(8);
  });

  it('it knows for how long the server was away, and how long ago that ended', async () => {
    let nowMs = 5_000;
    const following = await follow({ now: () => nowMs });
    await waitFor('the watch', () => following.server.watches.length === 1);
    expect(following.reflector.lastOutage).toBeUndefined();
    following.server.fault = () => refusal(500, 'InternalError', 'no');
    following.server.watches[0]?.drop();
    await waitFor('a failure', () => following.reflector.counts.errors > 1);
    nowMs += 20_000;
    expect(following.reflector.lastOutage).toEqual({ lastedMs: 20_000, endedMs: 0 });
    following.server.fault = () => undefined;
    following.server.put(path, { metadata: { name: 'after' } });
    await expectEqual(following);
    nowMs += 30_000;
    expect(following.reflector.lastOutage).toEqual({ lastedMs: 20_000, endedMs: 30_000 });

    // other clients keep their present back-off
    following.server.watches[0]?.drop();
    await waitFor('another outage', () => following.reflector.lastOutage?.lastedMs === 50_000);
    following.server.put(path, { metadata: { name: 'later' } });
    await expectEqual(following);
    nowMs += 200_000;
    following.server.watches[0]?.drop();
    await waitFor('an outage of its own', () => (following.reflector.lastOutage?.lastedMs ?? 1) === 0);
  });

  it('by throttling, it waits as long as the server says', async () => {
    const pauses: number[] = [];
    const warn = (fields: object) => {
      pauses.push((fields as { readonly pauseMs: number }).pauseMs);
    };
    const server = await FakeApiServer.start();
    server.fault = () => ({ ...refusal(429, 'TooManyRequests', 'busy'), headers: { 'retry-after': '30' } });
    await follow({ log: { info: () => {}, warn } }, server);
    await waitFor('the refusal', () => pauses.length > 0);
    expect(pauses).toEqual([30_000]);
  });

  it('M2: a wish for a list ends the pause before the next attempt', async () => {
    const following = await follow({ backOffMs: { first: 600_000, most: 600_000 } });
    await whenWatching(following);
    const { server, reflector } = following;
    server.watches[0]?.fail(500, 'InternalError', 'etcd has no leader');
    server.fault = () => ({ kind: 'drop' });
    await waitFor('the pause', () => reflector.trouble !== undefined);
    server.fault = () => undefined;
    await reflector.relist();
    expect(reflector.counts.lists).toBe(2);
  });

  it('M2: a server that asks to wait for an hour is asked again after a minute at most', async () => {
    const server = await FakeApiServer.start();
    server.fault = () => ({ ...refusal(429, 'TooManyRequests', 'busy'), headers: { 'retry-after': '3600' } });
    const { reflector, log } = await follow({}, server);
    await waitFor('the pause', () => reflector.trouble !== undefined);
    expect(log.at(-1)).toContain('"pauseMs":60000');
  });

  it('at once each time without an event, it pauses between attempts', async () => {
    const server = await FakeApiServer.start();
    server.fault = (request) => (isWatch(request) ? { kind: 'answer', status: 200, body: '' } : undefined);
    const following = await follow({}, server);
    await waitFor('failures', () => following.reflector.counts.errors > 3);
    expect(following.reflector.trouble).toBe('the watch ended before its first event');
    expect(following.reflector.counts.lists).toBe(1);
  });
});

describe('when a list breaks', () => {
  it('between two pages because its version is gone, it begins anew, and mixes no two versions', async () => {
    const server = await FakeApiServer.start();
    for (const name of ['a', 'b', 'c', 'd', 'e']) server.put(path, { metadata: { name } });
    let broken = 0;
    server.fault = ({ query }) => {
      if (query.get('continue')?.endsWith(':4') && broken < 2) {
        broken += 1;
        server.remove(path, undefined, broken === 1 ? 'a' : 'b');
        server.compact();
      }
      return undefined;
    };
    const following = await follow({}, server);
    await whenWatching(following);
    await expectEqual(following);
    expect(broken).toBe(1); // without "a", two pages are enough
    expect(following.mirror.changes).toBe(4);
    expect(following.reflector.counts).toMatchObject({ lists: 1, errors: 1 });
  });

  const faults = [
    ['is dropped', { kind: 'drop' }],
    ['breaks off', { kind: 'half' }],
    ['fails', refusal(503, 'ServiceUnavailable', 'starting')],
    ['finds no such kind (yet)', { kind: 'answer', status: 404, body: '404 page not found' }],
    ['is forbidden (yet)', refusal(403, 'Forbidden', 'things is forbidden')],
  ] as const;
  it.each(faults)('because it %s, it is tried again until it is whole', async (_what, fault) => {
    const server = await FakeApiServer.start();
    for (const name of ['a', 'b', 'c']) server.put(path, { metadata: { name } });
    let failures = 0;
    server.fault = (request) => {
      if (!isList(request) || failures === 4) return undefined;
      failures += 1;
      return fault;
    };
    const following = await follow({}, server);
    await whenWatching(following);
    await expectEqual(following);
    expect(following.mirror.changes).toBe(3);
    expect(following.reflector.counts).toMatchObject({ lists: 1, errors: 4 });
  });
});

describe('H7: objects that are too large', () => {
  const large = new KubeError({ status: 0, message: 'the answer is longer than it may be', reason: 'AnswerTooLarge' });

  /** A server with this many objects, of which only some fit into an answer. Those of `tooLarge` never do. */
  function serverOf(count: number, fitting: number, tooLarge: readonly string[] = []) {
    const asked: (number | undefined)[] = [];
    const all = Array.from({ length: count }, (_, index): Thing => {
      const metadata = { namespace: 'shop', name: `thing-${index}`, uid: `uid-${index}`, resourceVersion: '7' };
      return { apiVersion: 'test.io/v1', kind: 'Thing', metadata: { ...metadata, creationTimestamp: '' }, size: index };
    });
    const list = async (_: Resource, options: ListOptions = {}) => {
      const { limit = count, metadataOnly } = options;
      asked.push(limit);
      const from = Number(options.continue ?? 0);
      const items = all.slice(from, from + limit);
      const fits = items.length <= fitting && items.every(({ metadata }) => !tooLarge.includes(metadata.name));
      if (!metadataOnly && !fits) throw large;
      const next = from + limit;
      return {
        items: metadataOnly ? items.map(({ apiVersion, kind, metadata }) => ({ apiVersion, kind, metadata })) : items,
        resourceVersion: '9',
        ...(next < count && { continue: String(next) }),
      };
    };
    const watch = async function* (_: Resource, { signal }: WatchOptions) {
      if (signal?.aborted) return;
      await new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }));
    };
    return { client: { list, watch } as unknown as ReflectorOptions<Thing>['client'], asked, all };
  }

  it('asks for half of what did not fit, down to what fits, and lists all', async () => {
    const { client, asked } = serverOf(120, 50);
    const { reflector, cache } = await follow({ client, pageSize: 500 });
    await reflector.synced();
    expect(cache.size).toBe(120);
    expect(reflector.counts).toMatchObject({ lists: 1, errors: 0, skipped: 0 });
    expect(asked).toEqual([500, 250, 125, 62, 31, 31, 31, 31]);
  });

  it('skips one that does not fit alone, says which, and lists all others', async () => {
    const { client } = serverOf(40, 500, ['thing-17']);
    const { reflector, cache, log } = await follow({ client, pageSize: 10 });
    await reflector.synced();
    expect(cache.size).toBe(39);
    expect(reflector.counts).toMatchObject({ lists: 1, errors: 0, skipped: 1 });
    expect(reflector.tooLarge).toEqual(['shop/thing-17']);
    const said = log.filter((line) => line.startsWith('An object is too large to be read and is skipped'));
    expect(said).toEqual([expect.stringContaining('"namespace":"shop","name":"thing-17","uid":"uid-17"')]);
  });

  it('keeps one that has grown too large as it was: it is not gone', async () => {
    const tooLarge: string[] = [];
    const { client, all } = serverOf(5, 500, tooLarge);
    const { reflector, cache } = await follow({ client, pageSize: 10 });
    await reflector.synced();
    tooLarge.push('thing-3');
    await reflector.relist();
    expect(cache.byUid('uid-3')).toBe(all[3]);
    expect(reflector.counts.skipped).toBe(1);
    tooLarge.length = 0;
    await reflector.relist();
    expect(reflector.counts.skipped).toBe(0);
  });

  it('lists again when a watch sends one', async () => {
    const following = await follow();
    await whenWatching(following);
    const { server, reflector } = following;
    server.watches[0]?.send(`${'x'.repeat(17 * 1024 * 1024)}\n`);
    await waitFor('the second list', () => reflector.counts.lists === 2);
  });
});

describe('odd events', () => {
  it('of the past, repeated, or about a namesake change nothing', async () => {
    const following = await follow();
    await whenWatching(following);
    const { server } = following;
    const first = server.put(path, { metadata: { name: 'a' } });
    const second = server.put(path, { metadata: { name: 'a' }, size: 2 });
    server.remove(path, undefined, 'a');
    server.put(path, { metadata: { name: 'a', uid: 'another' } });
    await expectEqual(following);
    const watch = server.watches[0];
    for (const object of [first, second]) {
      watch?.send(eventLine('ADDED', object));
      watch?.send(eventLine('MODIFIED', object));
      watch?.send(eventLine('DELETED', object));
    }
    for (const version of ['1', '50', '103', '1', '104', '104']) server.bookmark(version);
    server.put(path, { metadata: { name: 'end' } });
    await waitFor('the end', () => following.cache.byName('', 'end'));
    await expectEqual(following);
    expect(following.mirror.changes).toBe(5);
    expect(following.cache.reached).toBe(server.version);
  });

  it('by the thousand leave nothing behind', async () => {
    const following = await follow({}, undefined);
    await whenWatching(following);
    const { server, cache } = following;
    for (let round = 0; round < 200; round++) {
      for (let index = 0; index < 100; index++) server.put(path, { metadata: { name: `thing-${index}` }, size: round });
      if (round % 10 === 9) {
        for (let index = 0; index < 100; index++) server.remove(path, undefined, `thing-${index}`);
        server.bookmark();
        await new Promise(setImmediate);
      }
    }
    await waitFor('the last event', () => cache.reached === server.version);
    await expectEqual(following);
    expect(cache.sizes).toEqual({ objects: 0, names: 0, indexed: 0, waits: 0 });
    expect(following.reflector.counts).toMatchObject({ lists: 1, watches: 1 });
  });
});

/** A change of the server, its objects or the connection. */
type Happening =
  | { readonly kind: 'put' | 'remove' | 'remake'; readonly name: string }
  | { readonly kind: 'bookmark' | 'staleBookmark' | 'repeat' | 'compact' | 'tick' }
  | { readonly kind: 'drop' | 'end' | 'endInHalfALine' | 'garbage' | 'expire' | 'stall' }
  | { readonly kind: 'failNext'; readonly times: number; readonly fault: number };

const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
const nextFaults = [
  { kind: 'drop' },
  { kind: 'half' },
  refusal(500, 'InternalError', 'no'),
  refusal(410, 'Expired', 'too old'),
  refusal(429, 'TooManyRequests', 'busy', { retryAfterSeconds: 0 }),
] as const;

const happening: fc.Arbitrary<Happening> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constantFrom('put' as const, 'put' as const, 'remove' as const, 'remake' as const),
      name: fc.constantFrom(...names),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom('bookmark', 'staleBookmark', 'repeat', 'compact', 'tick'),
    }) as fc.Arbitrary<Happening>,
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('drop', 'end', 'endInHalfALine', 'garbage', 'expire', 'stall'),
    }) as fc.Arbitrary<Happening>,
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('failNext' as const),
      times: fc.integer({ min: 1, max: 3 }),
      fault: fc.nat(nextFaults.length - 1),
    }),
  },
);

async function happen(what: Happening, server: FakeApiServer, past: string[]): Promise<void> {
  const watch = server.watches[0];
  switch (what.kind) {
    case 'put':
      past.push(eventLine('MODIFIED', server.put(path, { metadata: { name: what.name }, size: past.length })));
      return;
    case 'remove':
      server.remove(path, undefined, what.name);
      return;
    case 'remake':
      server.remove(path, undefined, what.name);
      past.push(eventLine('ADDED', server.put(path, { metadata: { name: what.name } })));
      return;
    case 'bookmark':
      return server.bookmark();
    case 'staleBookmark':
      return server.bookmark('3');
    case 'repeat':
      for (const line of past) watch?.send(line);
      return;
    case 'compact':
      return server.compact();
    case 'tick':
      return new Promise((resolve) => setImmediate(resolve));
    case 'drop':
      return watch?.drop();
    case 'end':
      return watch?.end();
    case 'endInHalfALine':
      return watch?.endInHalfALine();
    case 'garbage':
      return watch?.send('{"type":"ADDED","object":\n');
    case 'expire':
      return watch?.fail(410, 'Expired', 'too old');
    case 'stall':
      return watch?.stall();
    case 'failNext': {
      let left = what.times;
      server.fault = () => {
        left -= 1;
        return left < 0 ? undefined : nextFaults[what.fault];
      };
      return;
    }
  }
}

describe('whatever happens, in whatever order', () => {
  it('the cache ends up equal to the server, and so does what the listener was told', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { minLength: 5, maxLength: 40 }), async (happenings) => {
        const following = await follow({ silenceMs: 40 });
        following.server.bookmarkEveryMs = 10;
        const past: string[] = [];
        await whenWatching(following);
        for (const what of happenings) await happen(what, following.server, past);
        await expectEqual(following);
        await following.stop();
        await waitFor('the connections to close', () => following.server.openConnections === 0);
        running.splice(0);
      }),
      // Repeating a failed run would wait for its deadline again.
      { numRuns: 60, endOnFailure: true },
    );
  });
});

function activeTimers(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
}
