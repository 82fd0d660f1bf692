import { afterEach, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { pino } from 'pino';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { createKubeClient } from '../../kube/client.ts';
import type { Term } from '../../kube/leader.ts';
import { createMetrics } from '../../process/metrics.ts';
import type { ControllerContext, ControllerOf, LateCache } from '../../watcher/controller.ts';
import { Watcher, type WatcherDependencies } from '../../watcher/watcher.ts';
import { FakeApiServer, refusal } from '../support/fake-api/fake-api-server.ts';
import { waitFor } from '../support/wait.ts';

function resource(plural: string): Resource {
  return { group: 'test.io', version: 'v1', plural, kind: 'Thing', namespaced: true };
}
const [apples, pears] = [resource('apples'), resource('pears')];
const pathOf = ({ plural }: Resource) => `/apis/test.io/v1/${plural}`;

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

interface TestTerm extends Term {
  end(): void;
}

function newTerm(): TestTerm {
  const lost = new AbortController();
  return { isLeading: () => !lost.signal.aborted, lost: lost.signal, end: () => lost.abort(new Error('lost')) };
}

/** A controller of one resource that runs this function for each object. */
function controllerOf(of: Resource, pass: (uid: string, context: ControllerContext) => Promise<void>): ControllerOf {
  return (context) => {
    const cache = context.cache(of);
    const passes = context.queue(of.plural, async (uid) => {
      await pass(uid, context);
      return undefined;
    });
    cache.onChange(({ after }) => after && passes.add(after.metadata.uid));
    return {
      wantAll() {
        for (const { metadata } of cache.all()) passes.add(metadata.uid);
      },
    };
  };
}

async function watcherOf(
  controllers: readonly ControllerOf[],
  overrides: Partial<WatcherDependencies> = {},
  config: Partial<WatcherDependencies['config']> = {},
) {
  const server = await FakeApiServer.start();
  const kube = createKubeClient({ credentials: server.credentials, userAgent: 'test', qps: 1e5, burst: 1e5 });
  const answersNothing = async () => {
    throw Object.assign(new Error('no such workflow'), { name: 'WorkflowNotFoundError' });
  };
  const client = {
    workflow: { getHandle: () => ({ describe: answersNothing }), list: async function* () {} },
  } as unknown as Client;
  const term = newTerm();
  const terms = [term];
  const metrics = createMetrics('watcher');
  const watcher = new Watcher({
    build: 'test',
    kube,
    client,
    leader: {
      campaign: async (signal) => {
        const next = terms.shift();
        if (next) return next;
        return await new Promise<never>((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
        );
      },
    },
    prepareTemporal: async () => undefined,
    workFleets: () => undefined,
    config: {
      ...{ namespace: '', fullPassSeconds: 0.02, engineSilentSeconds: 60, engineStuckSeconds: 300 },
      ...{ podNamespace: 'kruise-system', featureGates: {}, images: {}, temporal: {}, manageWorkerDeployment: true },
      ...config,
    } as WatcherDependencies['config'],
    log: pino({ level: 'silent' }),
    metrics,
    controllers,
    ...overrides,
  });
  stops.push(
    () => server.stop(),
    () => kube.close(),
    () => watcher.stop(),
  );
  return { server, watcher, term, terms, metrics };
}

describe('the watcher', () => {
  it('M3: a resource that cannot be listed stops only what needs it, and is told of', async () => {
    const seen = { apples: new Set<string>(), pears: new Set<string>() };
    const { server, watcher } = await watcherOf([
      controllerOf(apples, async (uid) => void seen.apples.add(uid)),
      controllerOf(pears, async (uid) => void seen.pears.add(uid)),
    ]);
    server.put(pathOf(apples), { metadata: { name: 'a', uid: 'apple' } });
    server.put(pathOf(pears), { metadata: { name: 'p', uid: 'pear' } });
    server.fault = ({ path }) =>
      path === pathOf(pears) ? refusal(403, 'Forbidden', 'pears.test.io is forbidden') : undefined;
    watcher.start();
    await waitFor('the pass over the apple', () => seen.apples.has('apple'));
    expect(watcher.isLeading).toBe(true);
    expect(watcher.caveat).toContain('cannot list pears');
    await waitFor('the reason', () => watcher.caveat?.includes('pears.test.io is forbidden'));
    expect([...seen.pears]).toEqual([]);

    server.fault = () => undefined;
    await waitFor('the pass over the pear', () => seen.pears.has('pear'));
    expect(watcher.caveat).toBeUndefined();
    expect(watcher.unready).toBeUndefined();
  });

  it('begins to watch what is needed late when it is needed, and nothing waits until that is filled', async () => {
    let late: LateCache<KubeObject> | undefined;
    const appeared: string[] = [];
    const seen = new Set<string>();
    const { server, watcher } = await watcherOf([
      (context) => {
        late = context.lateCache(pears);
        late.onChange(({ after }) => after && appeared.push(after.metadata.name));
        return controllerOf(apples, async (uid) => void seen.add(uid))(context);
      },
    ]);
    server.put(pathOf(apples), { metadata: { namespace: 'shop', name: 'a', uid: 'apple' } });
    server.put(pathOf(pears), { metadata: { namespace: 'shop', name: 'p', uid: 'pear' } });
    let isRefused = true;
    const asked = () => server.requests.filter(({ path }) => path === pathOf(pears));
    server.fault = ({ path }) =>
      isRefused && path === pathOf(pears) ? refusal(403, 'Forbidden', 'pears.test.io is forbidden') : undefined;
    watcher.start();
    await waitFor('the pass over the apple', () => seen.has('apple'));
    expect([asked().length, watcher.caveat, late?.byName('shop', 'p')]).toEqual([0, undefined, undefined]);

    late?.begin();
    late?.begin();
    await waitFor('the caveat', () => watcher.caveat?.includes('pears.test.io is forbidden'));
    expect(watcher.caveat).toContain('cannot list pears.test.io');
    isRefused = false;
    await waitFor('the pear', () => appeared.length > 0);
    expect([appeared, late?.byName('shop', 'p')?.metadata.uid]).toEqual([['p'], 'pear']);
    expect(watcher.caveat).toBeUndefined();
  });

  it('finds stuck operations in each full pass, lets controllers know, and begins them anew in time', async () => {
    const stuck = { workflowId: 'things/a', runId: 'run-1', type: 'things', memo: {}, searchAttributes: {} };
    const [running, terminated]: [Map<string, typeof stuck>, unknown[]] = [new Map([['things/a', stuck]]), []];
    const client = {
      workflow: {
        async *list({ query }: { readonly query: string }) {
          if (query.includes('TemporalReportedProblems')) yield* running.values();
        },
        getHandle: (id: string, runId?: string) => ({
          describe: async () => undefined,
          terminate: async (reason: string) => {
            terminated.push([id, runId, reason]);
            running.delete(id);
          },
        }),
      },
    } as unknown as Client;
    const troubles: (string | undefined)[] = [];
    const things: ControllerOf = (context) => {
      const { wantAll } = controllerOf(apples, async () => undefined)(context);
      return {
        wantAll() {
          wantAll();
          troubles.push(context.starter.trouble('things/a')?.reason);
        },
        workflowTypes: ['things'],
      };
    };
    const config = { engineStuckSeconds: 0.1 };
    const { watcher, term, metrics } = await watcherOf([things], { client }, config);
    const stuckNow = async () => (await metrics.stuckOperations.get()).values.map(({ value }) => value);
    watcher.start();
    await waitFor('the trouble', () => troubles.includes('EngineStuck'));
    await waitFor('its end', () => terminated.length > 0);
    expect(terminated).toEqual([['things/a', 'run-1', expect.stringContaining('once for build test')]]);
    await waitFor('no more trouble', () => troubles.at(-1) === undefined);
    await waitFor('nothing to be counted', async () => (await stuckNow()).every((count) => count === 0));
    term.end();
    await waitFor('the end of the term', async () => (await stuckNow()).length === 0);
  });

  it("does not lead while Temporal's namespace is another cluster's, and says so", async () => {
    let claims = 0;
    let foreign: string | undefined = 'Temporal namespace "default" belongs to Kubernetes cluster other';
    const claim = async () => {
      claims++;
      return foreign;
    };
    const terms: TestTerm[] = [];
    const leader = {
      campaign: async () => {
        const term = newTerm();
        terms.push(term);
        return term;
      },
      resign: async () => terms.at(-1)?.end(),
    };
    const { server, watcher } = await watcherOf([controllerOf(apples, async () => undefined)], { claim, leader });
    watcher.start();
    await waitFor('three claims', () => claims > 2);
    expect([terms.length, watcher.isLeading, watcher.caveat]).toEqual([0, false, foreign]);
    const events = () => server.requests.filter(({ path }) => path.endsWith('/events')).map(({ body }) => body);
    expect(events()[0]).toMatchObject({ type: 'Warning', reason: 'TemporalNamespaceTaken', message: foreign });

    foreign = undefined;
    await waitFor('the lease', () => watcher.isLeading);
    expect(watcher.caveat).toBeUndefined();

    // Temporal was away at the beginning, or its database was lost and another cluster was faster
    foreign = 'Temporal namespace "default" belongs to Kubernetes cluster another';
    await waitFor('the lease to be given back', () => !watcher.isLeading);
    expect(watcher.caveat).toBe(foreign);
  });

  it("leads without knowing whose Temporal's namespace is", async () => {
    const claim = () => Promise.reject(new Error('14 UNAVAILABLE'));
    const { watcher } = await watcherOf([controllerOf(apples, async () => undefined)], { claim });
    watcher.start();
    await waitFor('the lease', () => watcher.isLeading);
    expect(watcher.caveat).toBeUndefined();
  });

  it('lists again what does not show own writes, though its watch is silent, and says so', async () => {
    const lines: { msg: string; resource?: string; waits?: readonly string[] }[] = [];
    const seen: string[] = [];
    const { server, watcher } = await watcherOf(
      [
        (context) => {
          const cache = context.cache(apples);
          const passes = context.queue('apples', async (uid) => {
            const ref = { namespace: '', name: 'a' };
            const patched = await context.kube.patch(apples, ref, 'merge', { metadata: { labels: { own: 'write' } } });
            server.fault = () => refusal(503, 'ServiceUnavailable', 'busy');
            await cache.seen(uid, patched.metadata.resourceVersion, new AbortController().signal);
            seen.push(String(cache.byUid(uid)?.metadata.labels?.own));
            return undefined;
          });
          return {
            wantAll() {
              for (const { metadata } of cache.all()) passes.add(metadata.uid);
            },
          };
        },
      ],
      {
        unseenAfterSeconds: 0.1,
        log: pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
      },
    );
    server.put(pathOf(apples), { metadata: { name: 'a', uid: 'apple' } });
    const silence: FakeApiServer['fault'] = ({ query }) => (query.has('watch') ? { kind: 'stall' } : undefined);
    server.fault = silence;
    watcher.start();
    await waitFor('the caveat', () => watcher.caveat?.startsWith('own writes are not seen: apples'));
    expect(seen).toEqual([]);
    server.fault = silence;
    await waitFor('the write to be seen', () => seen.length > 0);
    expect(seen[0]).toBe('write');
    const told = lines.find(({ msg }) => msg === 'Own writes are not seen: listing again');
    expect(told).toMatchObject({
      resource: 'apples',
      waits: [expect.stringMatching(/^version \d+ of apple is seen$/)],
    });
  });

  it('M3: gives up the lease while it can list nothing, even with a controller that needs nothing', async () => {
    const { server, watcher } = await watcherOf([
      controllerOf(apples, async () => undefined),
      () => ({ wantAll: () => undefined }),
    ]);
    server.fault = () => ({ kind: 'drop' });
    watcher.start();
    await waitFor('three attempts', () => server.requests.length > 2);
    expect(watcher.isLeading).toBe(false);
    expect(watcher.unready).toContain('a cache is still being filled: apples');
    server.fault = () => undefined;
    await waitFor('the lease', () => watcher.isLeading);
  });

  it('M3: releasing the lease when it can do nothing at all', async () => {
    const resigned: string[] = [];
    const term = newTerm();
    const { server, watcher } = await watcherOf([controllerOf(apples, async () => undefined)], {
      uselessAfterSeconds: 0.1,
      leader: { campaign: async () => term, resign: async (reason) => void resigned.push(reason) },
    });
    watcher.start();
    await waitFor('the first list', () => watcher.isLeading);
    server.fault = () => ({ kind: 'drop' });
    for (const watch of [...server.watches]) watch.drop();
    await waitFor('the lease to be given back', () => resigned.length > 0);
    expect(resigned[0]).toBe('it could not list or watch any resource for 0.1 s');
    term.end();
  });

  it('H9: what a term has begun writes nothing once it has ended, though a later one goes on', async () => {
    const resumed = Promise.withResolvers<void>();
    const writes: string[] = [];
    const begun: string[] = [];
    const { server, watcher, term, terms } = await watcherOf([
      controllerOf(apples, async (_uid, { kube }) => {
        begun.push('pass');
        if (begun.length === 1) await resumed.promise;
        const which = `write ${begun.length === 1 ? 'of the first' : 'of a later'} pass`;
        await kube.create(apples, { metadata: { name: which.replaceAll(' ', '-') } });
      }),
    ]);
    terms.push(newTerm());
    server.put(pathOf(apples), { metadata: { name: 'a', uid: 'apple' } });
    watcher.start();
    await waitFor('the first pass', () => begun.length === 1);
    term.end();
    await waitFor('the second term', () => watcher.isLeading);
    resumed.resolve();
    await waitFor('a pass of the second term', () => begun.length > 1);
    await waitFor('its write', () => server.requests.some(({ method }) => method === 'POST'));
    for (const { method, body } of server.requests) if (method === 'POST') writes.push(JSON.stringify(body));
    expect(writes.filter((write) => write.includes('of-the-first'))).toEqual([]);
  });

  it('M4: full passes leave what has failed to its pauses', async () => {
    let passes = 0;
    let fullPasses = 0;
    const counted: ControllerOf = (context) => {
      const controller = controllerOf(apples, async () => {
        passes += 1;
        throw new Error('refused for good');
      })(context);
      return {
        wantAll() {
          fullPasses += 1;
          controller.wantAll();
        },
      };
    };
    const { server, watcher } = await watcherOf([counted]);
    server.put(pathOf(apples), { metadata: { name: 'a', uid: 'apple' } });
    watcher.start();
    await waitFor('many full passes', () => fullPasses > 40);
    // pauses of 200, 400, 800 ms and so on
    expect(passes).toBeLessThan(fullPasses / 2);
  });

  it('F1: looks after the versions of the workers from the beginning of each term', async () => {
    const made: string[] = [];
    const { watcher, term, terms } = await watcherOf([controllerOf(apples, async () => undefined)], {
      versions: {
        describe: async () => ({ kind: 'found', conflictToken: new Uint8Array(), idle: [] }),
        pollers: async () => [{ build: 'test', isVersioned: true, atMs: 1 }],
        setCurrent: async (build) => void made.push(build),
        ...{ runs: async () => [], runsPinnedElsewhere: async () => [] },
        ...{ remove: async () => undefined, wake: async () => undefined, terminate: async () => undefined },
      },
    });
    terms.push(newTerm());
    watcher.start();
    await waitFor('the version to be made current', () => made.length === 1);
    term.end();
    await waitFor('the same in the next term', () => made.length === 2);
    expect(new Set(made)).toEqual(new Set(['test']));
  });

  it('asks Temporal to be prepared one time at a time, while it is away', async () => {
    let prepared = 0;
    let fullPasses = 0;
    const counted: ControllerOf = (context) => {
      context.cache(apples);
      return {
        wantAll() {
          fullPasses += 1;
        },
      };
    };
    const prepareTemporal = async (signal: AbortSignal) => {
      prepared += 1;
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    const { watcher, term } = await watcherOf([counted], { prepareTemporal });
    watcher.start();
    await waitFor('many full passes', () => fullPasses > 10);
    expect(prepared).toBe(1);
    term.end();
  });
});
