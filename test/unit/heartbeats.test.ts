import { describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import { type Heartbeat, Heartbeats } from '../../watcher/heartbeats.ts';
import { listHeartbeats } from '../../workers/worker-versions.ts';

const node = { name: 'node-7', uid: 'n7' };

function beat(worker: string, atMs: number, more: Partial<Heartbeat> = {}): Heartbeat {
  return { worker, queue: '', atMs, periodMs: 3_000, build: 'new', isVersioned: true, ...more };
}

/** What looks at these seconds find; by queue. */
function heard(isSilent = false) {
  let [nowMs, changes, isClusterHeard] = [0, 0, undefined as boolean | undefined];
  let found: Readonly<Record<string, readonly Heartbeat[]>> = {};
  const asked: string[] = [];
  const heartbeats = new Heartbeats({
    list: async (queues) => {
      asked.push(...queues);
      if (isSilent) return undefined;
      return queues.flatMap((queue) => (found[queue] ?? []).map((one) => ({ ...one, queue })));
    },
    temporalNamespace: 'shop',
    onChange: () => void changes++,
    onLook: (isHeard) => {
      isClusterHeard = isHeard(({ build }) => build === 'new');
    },
    log: pino({ level: 'silent' }),
    nowMs: () => nowMs,
    date: () => Date.UTC(2026, 0, 1) + nowMs,
  });
  const shown = () => ({ cluster: isClusterHeard, daemon: heartbeats.trouble({ node })?.reason });
  const look = async (second: number, queues: typeof found) => {
    [nowMs, found] = [second * 1_000, queues];
    await heartbeats.look();
    return shown();
  };
  return {
    ...{ heartbeats, asked, look },
    changes: () => changes,
    /** Looks every two seconds. */
    async looks(from: number, to: number, queues: (second: number) => typeof found) {
      for (let second = from; second <= to; second += 2) await look(second, queues(second));
      return shown();
    },
  };
}

function manyNodes(count: number): readonly (typeof node)[] {
  return [node, ...Array.from({ length: count - 1 }, (_, n) => ({ name: `other-${n}`, uid: `u${n}` }))];
}

describe('Heartbeats', () => {
  it('says within 12 seconds that a daemon does not live, since when, and when it does again', async () => {
    const { heartbeats, look, looks, changes } = heard();
    const fleet = (second: number) => ({ fleet: [beat('w', second)] });
    heartbeats.trouble({ node });
    expect(await looks(0, 20, (s) => ({ ...fleet(s), 'node/n7': [beat('d', s)] }))).toMatchObject({
      daemon: undefined,
    });
    // killed: Temporal goes on listing its last heartbeat
    const dead = { 'node/n7': [beat('d', 20)] };
    expect(await looks(22, 26, (s) => ({ ...fleet(s), ...dead }))).toMatchObject({ daemon: undefined });
    expect(await look(28, { ...fleet(28), ...dead })).toMatchObject({ daemon: 'EngineNoDaemon' });
    expect(heartbeats.trouble({ node })).toEqual({
      reason: 'EngineNoDaemon',
      blockedBy: ['node/node-7'],
      unblock:
        'Bring the daemon of node "node-7" back (DaemonSet kruise-daemon, or who runs role daemon there): it has given no ' +
        'sign of life since 2026-01-01T00:00:20Z; kubectl get node node-7 shows whether the node is up',
    });
    expect(changes()).toBe(1);
    const back = { 'node/n7': [beat('d', 20), beat('other', 1)] };
    expect(await look(30, { ...fleet(30), ...back })).toMatchObject({ daemon: undefined });
    // a pass over everything, a few seconds after the one before
    expect(changes()).toBe(1);
    await look(34, { ...fleet(34), ...back });
    expect(changes()).toBe(2);
  });

  it('says it of a daemon that has never been there, and asks only about nodes that something waits for', async () => {
    const { heartbeats, looks, asked } = heard();
    await looks(0, 10, () => ({}));
    expect(new Set(asked)).toEqual(new Set(['cluster', 'fleet', 'node/n7']));
    expect(heartbeats.trouble({ node })?.reason).toBe('EngineNoDaemon');
    expect(heartbeats.trouble({ node: { name: 'other', uid: 'o' } })).toBeUndefined();
    expect(heartbeats.trouble({})).toBeUndefined();
  });

  it('forgets nodes that nobody asks about, and looks at 40 at once', async () => {
    const { heartbeats, look, asked } = heard();
    for (let n = 0; n < 100; n++) heartbeats.trouble({ node: { name: `node-${n}`, uid: `u${n}` } });
    const nodesAsked = () => asked.filter((queue) => queue.startsWith('node/u'));
    await look(0, {});
    expect(nodesAsked()).toHaveLength(40);
    await look(2, {});
    await look(4, {});
    expect(new Set(nodesAsked()).size).toBe(100);
    asked.length = 0;
    await look(200, {});
    expect(nodesAsked()).toEqual([]);
  });

  it('reports no healthy daemon, however many nodes are waited for, and of all others the dead one', async () => {
    for (const [count, turn] of [
      [100, 6],
      [400, 20],
      [1_000, 50],
    ] as const) {
      const { heartbeats, look, changes } = heard();
      const nodes = manyNodes(count);
      const down = () => nodes.filter((one) => heartbeats.trouble({ node: one }) !== undefined).map(({ name }) => name);
      const beats = (second: number, deadFrom = Number.POSITIVE_INFINITY) => ({
        ...{ cluster: [beat('new', second)], fleet: [beat('w', second)] },
        ...Object.fromEntries(
          nodes.map(({ uid }, n) => [
            `node/${uid}`,
            [beat(uid, 3 * Math.floor((n === 70 ? Math.min(second, deadFrom) : second) / 3))],
          ]),
        ),
      });
      const healthyFor = 3 * turn;
      for (let second = 0; second < healthyFor; second += 2) {
        expect(down()).toEqual([]);
        await look(second, beats(second));
      }
      expect([count, down(), changes()]).toEqual([count, [], 0]);
      // one look sees its last heartbeat, and the next ones that there is no newer one
      const seen: (readonly string[])[] = [];
      const reportedIn = turn + turn * Math.ceil(8 / turn) + 2;
      for (let second = healthyFor; second < healthyFor + 3 * turn + 4; second += 2) {
        await look(second, beats(second, healthyFor));
        seen.push(down());
        if (second - healthyFor >= reportedIn) expect([count, down()]).toEqual([count, ['other-69']]);
      }
      expect(new Set(seen.map(String))).toEqual(new Set(['', 'other-69']));
      expect(changes()).toBe(1);
    }
  });

  it('gives a daemon time to be restarted, however long the turn of its node takes', async () => {
    const { heartbeats, look } = heard();
    const nodes = manyNodes(200);
    const down = () => nodes.filter((one) => heartbeats.trouble({ node: one }) !== undefined).length;
    const beats = (second: number) => (start: string) =>
      Object.fromEntries(nodes.map(({ uid }) => [`node/${uid}`, start === '' ? [] : [beat(start + uid, second)]]));
    for (let second = 0; second < 40; second += 2) await look(second, beats(second)('first '));
    for (let second = 40; second < 46; second += 2) await look(second, beats(second)(''));
    expect(down()).toBe(0);
    for (let second = 46; second < 80; second += 2) {
      await look(second, beats(second)('second '));
      expect(down()).toBe(0);
    }
    for (let second = 80; second < 102; second += 2) await look(second, beats(second)(''));
    expect(down()).toBeGreaterThan(0);
    expect(heartbeats.trouble({ node })?.unblock).toMatch(/no sign of life since 2026-01-01T00:01:/);
  });

  it('says that nobody serves queue fleet', async () => {
    const { heartbeats, look, looks } = heard();
    await looks(0, 10, () => ({}));
    expect(heartbeats.trouble({ fleet: true })).toMatchObject({
      reason: 'EngineNoFleetWorker',
      blockedBy: ['taskqueue/fleet'],
      unblock: expect.stringContaining('nobody has served queue "fleet" of Temporal namespace "shop" since 2026-01-01'),
    });
    await look(12, { fleet: [beat('w', 1)] });
    expect(heartbeats.trouble({ fleet: true })).toBeUndefined();
  });

  it('tells cluster workers apart, and knows nothing at first', async () => {
    const { look, looks } = heard();
    const both = (s: number) => ({ cluster: [beat('old', s, { build: 'old' }), beat('new', 0)] });
    expect(await look(0, both(0))).toMatchObject({ cluster: undefined });
    expect(await looks(2, 6, both)).toMatchObject({ cluster: undefined });
    expect(await look(8, both(8))).toMatchObject({ cluster: false });
    expect(await look(10, { cluster: [beat('new', 10)] })).toMatchObject({ cluster: true });
    // it has ended in order: another one may come at once
    expect(await look(12, {})).toMatchObject({ cluster: true });
    expect(await looks(14, 18, () => ({}))).toMatchObject({ cluster: true });
    expect(await look(20, {})).toMatchObject({ cluster: false });
  });

  it('gives a worker with a longer period more time', async () => {
    const { look, looks } = heard();
    const slow = () => ({ cluster: [beat('new', 0, { periodMs: 10_000 })] });
    expect(await looks(0, 24, slow)).toMatchObject({ cluster: true });
    expect(await look(26, slow())).toMatchObject({ cluster: false });
  });

  it('knows nothing after the watcher itself has stood still', async () => {
    const { look, looks, heartbeats } = heard();
    heartbeats.trouble({ node });
    const alive = (s: number) => ({ cluster: [beat('new', s)], 'node/n7': [beat('d', s)] });
    await looks(0, 20, alive);
    expect(await look(80, alive(20))).toEqual({ cluster: undefined, daemon: undefined });
    expect(await looks(82, 86, () => alive(20))).toEqual({ cluster: undefined, daemon: undefined });
    expect(await look(88, alive(20))).toEqual({ cluster: false, daemon: 'EngineNoDaemon' });
    expect(await look(90, alive(90))).toEqual({ cluster: true, daemon: undefined });
  });

  it('says nothing where the server keeps no heartbeats', async () => {
    const { heartbeats, looks } = heard(true);
    expect(await looks(0, 30, () => ({}))).toEqual({ cluster: undefined, daemon: undefined });
    expect(heartbeats.trouble({ fleet: true })).toBeUndefined();
  });
});

describe('listHeartbeats', () => {
  /** A server with or without the capability. */
  function server(workerHeartbeats: boolean) {
    const asked: string[] = [];
    const at = (seconds: number) => ({ seconds, nanos: 500_000_000 });
    const worker = (key: string, more: object) => ({
      workerHeartbeat: {
        workerInstanceKey: key,
        taskQueue: 'cluster',
        heartbeatTime: at(7),
        elapsedSinceLastHeartbeat: at(3),
        ...more,
      },
    });
    const workersInfo = [
      worker('a', { deploymentVersion: { deploymentName: 'windlass-cluster', buildId: 'b1' }, status: 1 }),
      worker('b', { deploymentVersion: { buildId: 'sdk' }, workerIdentity: 'windlass-worker/b2/17@host', status: 1 }),
      worker('ending', { status: 2 }),
      worker('ended', { status: 3 }),
    ];
    const client = {
      options: { namespace: 'shop' },
      withDeadline: async <T>(_at: number, call: () => Promise<T>) => call(),
      workflow: {},
      workflowService: {
        describeNamespace: async () => ({ namespaceInfo: { capabilities: { workerHeartbeats } } }),
        listWorkers: async ({ query }: { readonly query: string }) => {
          asked.push(query);
          return { workersInfo };
        },
      },
    };
    return { list: listHeartbeats(client as unknown as Parameters<typeof listHeartbeats>[0]), asked };
  }

  it('lists the running workers of a queue by build', async () => {
    const { list, asked } = server(true);
    expect(await list(['cluster', 'node/a'])).toEqual([
      { queue: 'cluster', worker: 'a', build: 'b1', isVersioned: true, atMs: 7_500, periodMs: 3_500 },
      { queue: 'cluster', worker: 'b', build: 'b2', isVersioned: false, atMs: 7_500, periodMs: 3_500 },
    ]);
    expect(asked).toEqual([`TaskQueue = 'cluster' OR TaskQueue = 'node/a'`]);
  });

  it('does not ask a server that keeps none', async () => {
    const { list, asked } = server(false);
    expect([await list(['cluster']), asked]).toEqual([undefined, []]);
  });
});
