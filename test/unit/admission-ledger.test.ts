import { describe, expect, it } from '@jest/globals';
import { podUnavailableBudgets as resource } from '../../api/pod-unavailable-budget/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError, noAnswer } from '../../kube/failures.ts';
import { type Account, Ledger, LedgerConflict } from '../../webhook/review/ledger.ts';
import { type Meet, MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { newGate } from '../support/gate.ts';

interface Purse extends Account {
  readonly status?: { readonly left: number; readonly taken?: Readonly<Record<string, string>> };
}

const ref = { namespace: 'shop', name: 'web' };
const other = { namespace: 'bar', name: 'db' };
const signal = new AbortController().signal;
const pausesMs = { first: 1, most: 2 };

function clusterWith(left: number, refs = [ref]): MemoryCluster {
  const cluster = new MemoryCluster();
  for (const metadata of refs) cluster.put(resource, { metadata, status: { left } });
  return cluster;
}

const look = (cluster: MemoryCluster, of = ref) => cluster.look<Purse>(resource, of);
const statusOf = (cluster: MemoryCluster, of = ref) => look(cluster, of)?.status;

function ledgerOf(
  cluster: MemoryCluster,
  {
    meet,
    client = cluster.client(meet),
    known,
  }: {
    readonly meet?: Meet;
    readonly client?: Pick<KubeClient, 'get' | 'patch'>;
    readonly known?: () => Purse | undefined;
  } = {},
): Ledger<Purse> {
  return new Ledger<Purse>({ client, resource, pausesMs, ...(known && { known }) });
}

/** Takes one under a name, once. */
const takeFor = (name: string) => (purse: Purse | undefined) => {
  if (purse?.status === undefined) return { kind: 'gone' };
  const { left, taken = {} } = purse.status;
  if (Object.hasOwn(taken, name)) return { kind: 'taken' };
  return left > 0 ? { kind: 'take', status: { left: left - 1, taken: { ...taken, [name]: 'now' } } } : { kind: 'none' };
};
const take = async (ledger: Ledger<Purse>, name: string, of = ref, until = signal) =>
  (await ledger.reserve(of, takeFor(name), until)).kind;

/** Somebody else changes the object. */
const touch = (cluster: MemoryCluster) => {
  const { metadata, status } = look(cluster) as Purse;
  const labels = { touched: String(Number(metadata.labels?.touched ?? 0) + 1) };
  cluster.put(resource, { metadata: { ...metadata, labels }, status });
};

/** Fails the first patches without an answer, before or after they take effect. */
function losing(cluster: MemoryCluster, ...when: readonly ('before' | 'after')[]): Pick<KubeClient, 'get' | 'patch'> {
  const client = cluster.client();
  const losses = [...when];
  return {
    get: (...args) => client.get(...args),
    async patch(...args) {
      const loss = losses.shift();
      if (loss !== 'before') {
        const answer = await client.patch<never>(...args);
        if (loss === undefined) return answer;
      }
      throw noAnswer('PATCH', 'no answer within 2 s');
    },
  };
}

describe('the ledger', () => {
  it('stores on a cached copy without reading, and decides on its own last write while the cache is behind', async () => {
    const cluster = clusterWith(3);
    const stale = look(cluster);
    const ledger = ledgerOf(cluster, { known: () => stale });
    expect(await take(ledger, 'a')).toBe('take');
    expect(await take(ledger, 'b')).toBe('take');
    expect(cluster.calls).toEqual(['patch podunavailablebudgets/web', 'patch podunavailablebudgets/web']);
    expect(statusOf(cluster)).toEqual({ left: 1, taken: { a: 'now', b: 'now' } });
  });

  it('goes by the cache where that is newer than its own last write', async () => {
    const cluster = clusterWith(1);
    const ledger = ledgerOf(cluster, { known: () => look(cluster) });
    expect(await take(ledger, 'a')).toBe('take');
    cluster.put(resource, { metadata: ref, status: { left: 1 } });
    expect(await take(ledger, 'b')).toBe('take');
    expect(cluster.calls).toHaveLength(2);
  });

  it('removes from the status what a decision leaves out', async () => {
    const cluster = clusterWith(3);
    await take(ledgerOf(cluster), 'a');
    await ledgerOf(cluster).reserve(ref, () => ({ kind: 'take', status: { left: 9, taken: {} } }), signal);
    expect(statusOf(cluster)).toEqual({ left: 9, taken: {} });
  });

  it.each<readonly [string, Purse['status'], string]>([
    ['spent', { left: 0 }, 'none'],
    ['absent', undefined, 'gone'],
    ['taken already', { left: 1, taken: { a: 'before' } }, 'taken'],
  ])('reads before it goes by a copy that shows it as %s', async (_, status, answer) => {
    const cluster = clusterWith(1);
    const { status: __, ...seen } = look(cluster) as Purse;
    const stale: Purse = { ...seen, ...(status && { status }) };
    cluster.put(resource, { metadata: ref, status: { left: 2 } });
    expect(takeFor('a')(stale).kind).toBe(answer);
    expect(await take(ledgerOf(cluster, { known: () => stale }), 'a')).toBe('take');
    expect(statusOf(cluster)?.left).toBe(1);
  });

  it('reads once for all requests that wait for the same object', async () => {
    const cluster = clusterWith(0);
    const ledger = ledgerOf(cluster);
    const answers = await Promise.all(['a', 'b', 'c', 'd'].map(async (name) => await take(ledger, name)));
    expect(answers).toEqual(['none', 'none', 'none', 'none']);
    expect(cluster.calls).toEqual(['get podunavailablebudgets/web']);
    expect(await take(ledger, 'e')).toBe('none');
    expect(cluster.calls).toHaveLength(2);
  });

  it.each([
    ['does not exist', { status: 404, reason: 'NotFound', message: 'not found' }],
    ['is of a kind that does not exist', { status: 404, message: '404 page not found' }],
  ])('decides about no object where it %s', async (_, refusal) => {
    const cluster = clusterWith(1);
    const stale = look(cluster);
    const fails = () => Promise.reject(new KubeError(refusal));
    const ledger = ledgerOf(cluster, { client: { get: fails, patch: fails }, known: () => stale });
    expect(await take(ledger, 'a')).toBe('gone');
    expect(await take(ledger, 'x'.repeat(20), { namespace: 'shop', name: 'x'.repeat(254) })).toBe('gone');
  });
});

describe('PUB-21: a conflict', () => {
  it('leads to another decision on what is read then', async () => {
    const cluster = clusterWith(1);
    const stale = look(cluster);
    expect(await take(ledgerOf(cluster), 'a')).toBe('take');
    expect(await take(ledgerOf(cluster, { known: () => stale }), 'b')).toBe('none');
    expect(await take(ledgerOf(cluster, { known: () => stale }), 'a')).toBe('taken');
    expect(statusOf(cluster)?.left).toBe(0);
  });

  it('is met four times at most', async () => {
    const cluster = clusterWith(5);
    let conflicts = 3;
    const meet: Meet = ({ verb }) => {
      if (verb === 'patch' && conflicts-- > 0) touch(cluster);
    };
    expect(await take(ledgerOf(cluster, { meet }), 'a')).toBe('take');
    conflicts = 4;
    await expect(take(ledgerOf(cluster, { meet }), 'b')).rejects.toThrow(LedgerConflict);
    expect(statusOf(cluster)?.left).toBe(4);
    expect(cluster.calls.filter((call) => call.startsWith('patch'))).toHaveLength(8);
  });
});

describe('a write without an answer', () => {
  it.each([
    [['after'], 'taken'],
    [['before'], 'take'],
    [['before', 'after'], 'taken'],
    [['before', 'before', 'before'], 'take'],
  ] as const)('is charged once: lost %p it took effect', async (when, answer) => {
    const cluster = clusterWith(5);
    expect(await take(ledgerOf(cluster, { client: losing(cluster, ...when) }), 'a')).toBe(answer);
    expect(statusOf(cluster)).toEqual({ left: 4, taken: { a: 'now' } });
  });

  it('is charged once, too, when it takes effect after the status has been read again', async () => {
    const cluster = clusterWith(5);
    const [client, late] = [cluster.client(), newGate()];
    let patches = 0;
    let arrives = Promise.resolve();
    const ledger = ledgerOf(cluster, {
      client: {
        get: (...args) => client.get(...args),
        async patch(...args) {
          patches += 1;
          if (patches > 1) {
            late.open();
            await arrives;
            return await client.patch<never>(...args);
          }
          arrives = late.opened.then(async () => void (await client.patch(...args)));
          throw noAnswer('PATCH', 'no answer within 2 s');
        },
      },
    });
    expect(await take(ledger, 'a')).toBe('taken');
    expect(patches).toBe(2);
    expect(statusOf(cluster)).toEqual({ left: 4, taken: { a: 'now' } });
  });

  it('fails the request after four attempts, as does what no attempt can change after one', async () => {
    const cluster = clusterWith(5);
    const lost = take(ledgerOf(cluster, { client: losing(cluster, 'before', 'before', 'before', 'before') }), 'a');
    await expect(lost).rejects.toThrow('Cannot take from PodUnavailableBudget "shop/web": no answer within 2 s');
    const meet: Meet = ({ verb }) => {
      if (verb === 'patch') throw new KubeError({ status: 403, message: 'no right' });
    };
    await expect(take(ledgerOf(cluster, { meet }), 'a')).rejects.toThrow('"shop/web": no right');
    expect(cluster.calls.filter((call) => call.startsWith('patch'))).toHaveLength(1);
  });
});

describe('requests at one time', () => {
  it('for one object are decided one after the other, and those for others do not wait for them', async () => {
    const cluster = clusterWith(50, [ref, other]);
    const stuck = newGate();
    const meet: Meet = async ({ name }) => (name === ref.name ? await stuck.opened : undefined);
    const ledger = ledgerOf(cluster, { meet });
    const waiting = Array.from({ length: 20 }, async (_, index) => await take(ledger, `pod-${index}`));
    expect(await take(ledger, 'a', other)).toBe('take');
    expect(statusOf(cluster)?.left).toBe(50);
    stuck.open();
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['take']));
    // No conflict among them: one read, and one write for each.
    expect(cluster.calls.filter((call) => call.endsWith('/web'))).toHaveLength(21);
    expect(statusOf(cluster)?.left).toBe(30);
  });

  it('wait in a line of limited length, and leave it at their deadline', async () => {
    const cluster = clusterWith(500);
    const stuck = newGate();
    const ledger = ledgerOf(cluster, { meet: () => stuck.opened });
    const [first, deadline] = [take(ledger, 'first'), new AbortController()];
    const late = take(ledger, 'late', ref, deadline.signal);
    const waiting = Array.from({ length: 63 }, async (_, index) => await take(ledger, `pod-${index}`));
    await expect(take(ledger, 'more')).rejects.toThrow('Too many requests at one time for "shop/web"');
    deadline.abort(new Error('too late'));
    await expect(late).rejects.toThrow('too late');
    const next = take(ledger, 'next');
    await expect(take(ledger, 'never', ref, deadline.signal)).rejects.toThrow('too late');
    stuck.open();
    expect(new Set(await Promise.all([first, next, ...waiting]))).toEqual(new Set(['take']));
    expect(statusOf(cluster)?.left).toBe(500 - 65);
  });

  it('leave nothing behind but a hundred copies', async () => {
    const refs = Array.from({ length: 150 }, (_, index) => ({ namespace: 'shop', name: `web-${index}` }));
    const cluster = clusterWith(9, refs);
    const ledger = ledgerOf(cluster);
    for (const each of refs) await take(ledger, 'a', each);
    const callsOf = async (of: typeof ref) => {
      const before = cluster.calls.length;
      await take(ledger, 'b', of);
      return cluster.calls.slice(before).map((call) => call.split(' ')[0]);
    };
    expect(await callsOf({ namespace: 'shop', name: 'web-149' })).toEqual(['patch']);
    expect(await callsOf({ namespace: 'shop', name: 'web-0' })).toEqual(['get', 'patch']);
  });
});
