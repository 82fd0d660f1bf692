import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { KubeObject } from '../../api/core/meta.ts';
import { type Change, compareVersions, createCache, type WritableCache } from '../../kube/cache.ts';

interface Thing extends KubeObject {
  readonly owner?: string;
}

interface Overrides {
  readonly uid?: string;
  readonly namespace?: string;
  readonly owner?: string;
  readonly deletionTimestamp?: string;
}

/** Version `version` of the thing of this name, in namespace shop; its UID is `uid-<name>` unless given. */
function thing(name: string, version: number, overrides: Overrides = {}): Thing {
  const { uid = `uid-${name}`, namespace = 'shop', owner, deletionTimestamp } = overrides;
  return {
    apiVersion: 'v1',
    kind: 'Thing',
    metadata: {
      name,
      namespace,
      uid,
      resourceVersion: String(version),
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    ...(owner !== undefined && { owner }),
  };
}

const never = new AbortController().signal;

function errorsOf(): { readonly errors: unknown[]; readonly onError: (error: unknown) => void } {
  const errors: unknown[] = [];
  return { errors, onError: (error) => errors.push(error) };
}

/** A cache and a log of its listener's calls, as `+a@1`, `a@1>2`, `-a@2`. */
function cacheWithDiary(): { cache: WritableCache<Thing>; diary: string[] } {
  const cache = createCache<Thing>({
    indexes: { owner: (object) => (object.owner ? [object.owner] : []) },
    onError: (error) => {
      throw error;
    },
  });
  const diary: string[] = [];
  cache.onChange(({ before, after }: Change<Thing>) => {
    const [from, to] = [before?.metadata.resourceVersion, after?.metadata.resourceVersion];
    const name = (after ?? before)?.metadata.name;
    diary.push(before && after ? `${name}@${from}>${to}` : after ? `+${name}@${to}` : `-${name}@${from}`);
  });
  return { cache, diary };
}

/** Whether a promise is settled, after all pending microtasks. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  await new Promise(setImmediate);
  return (await Promise.race([promise, Promise.resolve(pending)])) === pending;
}

describe('compareVersions', () => {
  it('orders decimal numbers of any length as numbers', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 80n }), fc.bigInt({ min: 0n, max: 2n ** 80n }), (a, b) => {
        expect(Math.sign(compareVersions(String(a), String(b)))).toBe(a === b ? 0 : a < b ? -1 : 1);
      }),
    );
    expect(compareVersions('9', '10')).toBeLessThan(0);
  });
});

describe('the cache', () => {
  it('finds objects by UID, name and index, and tells of the first list as of objects that appear', () => {
    const { cache, diary } = cacheWithDiary();
    cache.replace(
      [thing('a', 1, { owner: 'x' }), thing('b', 2, { owner: 'x' }), thing('c', 3, { namespace: '' })],
      '5',
    );
    expect(diary).toEqual(['+a@1', '+b@2', '+c@3']);
    expect(cache.byUid('uid-a')?.metadata.name).toBe('a');
    expect(cache.byName('shop', 'b')?.metadata.uid).toBe('uid-b');
    expect(cache.byName('shop', 'c')).toBeUndefined();
    expect(cache.byName('', 'c')?.metadata.uid).toBe('uid-c');
    expect(cache.byIndex('owner', 'x').map((object) => object.metadata.name)).toEqual(['a', 'b']);
    expect(cache.byIndex('owner', 'nobody')).toEqual([]);
    expect(() => cache.byIndex('colour', 'red')).toThrow('There is no index "colour"');
    expect([...cache.all()].length).toBe(3);
  });

  it('finds by an index that comes later what was there before', () => {
    const { cache } = cacheWithDiary();
    cache.replace([thing('a', 1, { owner: 'x' })], '1');
    const byName = ({ metadata }: Thing): readonly string[] => [metadata.name];
    cache.addIndex('name', byName);
    cache.apply('ADDED', thing('b', 2));
    expect(cache.byIndex('name', 'a').length).toBe(1);
    expect(cache.byIndex('name', 'b').length).toBe(1);
    cache.addIndex('name', byName); // another controller that uses the same index
    expect(cache.byIndex('name', 'a').length).toBe(1);
    expect(() => cache.addIndex('name', () => [])).toThrow('There is an index "name" already');
  });

  it('moves an object between the values of an index', () => {
    const { cache } = cacheWithDiary();
    cache.replace([thing('a', 1, { owner: 'x' })], '1');
    cache.apply('MODIFIED', thing('a', 2, { owner: 'y' }));
    expect(cache.byIndex('owner', 'x')).toEqual([]);
    expect(cache.byIndex('owner', 'y').map((object) => object.metadata.resourceVersion)).toEqual(['2']);
    cache.apply('DELETED', thing('a', 3, { owner: 'y' }));
    expect(cache.byIndex('owner', 'y')).toEqual([]);
    expect(cache.sizes).toEqual({ objects: 0, names: 0, indexed: 0, waits: 0 });
  });

  it('ignores what is not newer than what it holds, whatever the type of the event', () => {
    const { cache, diary } = cacheWithDiary();
    cache.replace([thing('a', 10)], '10');
    cache.apply('MODIFIED', thing('a', 9));
    cache.apply('ADDED', thing('a', 10));
    cache.apply('DELETED', thing('a', 9));
    cache.apply('ADDED', thing('a', 11));
    expect(diary).toEqual(['+a@10', 'a@10>11']);
    expect(cache.reached).toBe('11');
  });

  it('does not bring back what was deleted when old events are repeated', () => {
    const { cache, diary } = cacheWithDiary();
    cache.replace([thing('a', 1)], '1');
    for (let repeat = 0; repeat < 2; repeat++) {
      cache.apply('MODIFIED', thing('a', 2));
      cache.apply('DELETED', thing('a', 3));
    }
    expect(diary).toEqual(['+a@1', 'a@1>2', '-a@2']);
  });

  it('applies an event although a bookmark of a later version came first', () => {
    const { cache, diary } = cacheWithDiary();
    cache.replace([], '1');
    cache.advance('9');
    cache.apply('ADDED', thing('a', 5));
    expect(diary).toEqual(['+a@5']);
    expect(cache.reached).toBe('9');
  });

  it('ignores a bookmark that is late or repeated', () => {
    const { cache } = cacheWithDiary();
    cache.replace([], '10');
    for (const version of ['9', '12', '12', '11', '9']) cache.advance(version);
    expect(cache.reached).toBe('12');
  });

  it('ignores the deletion of a namesake that it does not hold', () => {
    const { cache, diary } = cacheWithDiary();
    cache.replace([thing('a', 10, { uid: 'new' })], '10');
    cache.apply('DELETED', thing('a', 11, { uid: 'old' }));
    expect(diary).toEqual(['+a@10']);
    expect(cache.byName('shop', 'a')?.metadata.uid).toBe('new');
  });

  it('reports the deletion of the old object when another one with its name appears', () => {
    const { cache, diary } = cacheWithDiary();
    cache.replace([thing('a', 10, { uid: 'old' })], '10');
    cache.apply('ADDED', thing('a', 12, { uid: 'new' }));
    expect(diary).toEqual(['+a@10', '-a@10', '+a@12']);
    cache.replace([thing('a', 20, { uid: 'newest' })], '20');
    expect(diary.slice(3)).toEqual(['-a@12', '+a@20']);
    expect(cache.sizes).toMatchObject({ objects: 1, names: 1 });
  });

  it('applies a list: missing objects are removed, unchanged ones are not reported', () => {
    const { cache, diary } = cacheWithDiary();
    const kept = thing('kept', 2);
    cache.replace([thing('gone', 1), kept, thing('changed', 3)], '5');
    diary.length = 0;
    cache.replace([thing('kept', 2), thing('changed', 7), thing('new', 8)], '9');
    expect(diary).toEqual(['-gone@1', 'changed@3>7', '+new@8']);
    expect(cache.byName('shop', 'kept')).toBe(kept);
  });

  it('accepts a list of an older version, as after a restored backup', () => {
    const { cache, diary } = cacheWithDiary();
    cache.replace([thing('a', 900)], '1000');
    cache.replace([thing('a', 90)], '100');
    cache.apply('MODIFIED', thing('a', 101));
    expect(diary).toEqual(['+a@900', 'a@900>90', 'a@90>101']);
    expect(cache.reached).toBe('101');
  });
});

describe('listeners', () => {
  it('see the cache as it is after the change', () => {
    const { cache } = cacheWithDiary();
    const found: (string | undefined)[] = [];
    cache.onChange(({ after }) =>
      found.push(cache.byName('shop', 'a')?.metadata.resourceVersion, after?.metadata.name),
    );
    cache.replace([thing('a', 1)], '1');
    cache.apply('DELETED', thing('a', 2));
    expect(found).toEqual(['1', 'a', undefined, undefined]);
  });

  it('do not disturb each other by throwing, coming or going', () => {
    const { errors, onError } = errorsOf();
    const cache = createCache<Thing>({ onError });
    const calls: string[] = [];
    cache.onChange(() => {
      throw new Error('broken');
    });
    const stop = cache.onChange(() => {
      calls.push('once');
      stop();
      cache.onChange(() => calls.push('late'));
    });
    cache.onChange(() => calls.push('always'));
    cache.replace([thing('a', 1)], '1');
    expect(calls).toEqual(['once', 'always']);
    cache.apply('MODIFIED', thing('a', 2));
    expect(calls).toEqual(['once', 'always', 'always', 'late']);
    expect(errors).toEqual([new Error('broken'), new Error('broken')]);
  });

  it('are one each, also when the same function is given twice', () => {
    const cache = createCache<Thing>(errorsOf());
    let calls = 0;
    const count = () => {
      calls += 1;
    };
    const stop = cache.onChange(count);
    cache.onChange(count);
    stop();
    stop();
    cache.replace([thing('a', 1)], '1');
    expect(calls).toBe(1);
  });

  it('are not held up by an index function that throws: that object is not in the index', () => {
    const { errors, onError } = errorsOf();
    const byOwner = (object: Thing) => {
      if (object.owner === undefined) throw new Error('no owner');
      return [object.owner];
    };
    const cache = createCache<Thing>({ indexes: { byOwner }, onError });
    cache.replace([thing('a', 1), thing('b', 2, { owner: 'x' })], '2');
    expect(cache.size).toBe(2);
    expect(cache.byIndex('byOwner', 'x').length).toBe(1);
    expect(errors).toEqual([new Error('no owner')]);
  });
});

describe('seen', () => {
  it('waits for the version of a write, or for a newer one', async () => {
    const { cache } = cacheWithDiary();
    const early = cache.seen('uid-a', '5', never);
    expect(await isPending(early)).toBe(true);
    cache.replace([thing('a', 3)], '4');
    expect(await isPending(early)).toBe(true);
    cache.apply('MODIFIED', thing('a', 5));
    await early;
    await cache.seen('uid-a', '4', never);
    expect(cache.waits).toEqual([]);
  });

  it('does not wait for an object that is gone again, or that the cache does not select', async () => {
    const { cache } = cacheWithDiary();
    cache.replace([thing('a', 3)], '4');
    const changed = cache.seen('uid-a', '6', never);
    cache.apply('DELETED', thing('a', 7));
    await changed;
    const elsewhere = cache.seen('uid-of-another-namespace', '9', never);
    expect(await isPending(elsewhere)).toBe(true);
    cache.advance('10');
    await elsewhere;
    const listed = cache.seen('uid-a', '20', never);
    cache.replace([], '21');
    await listed;
  });
});

describe('seen, when the versions begin again from an earlier number', () => {
  it('L9: does not wait for what was written before an etcd was restored from a backup', async () => {
    const { cache } = cacheWithDiary();
    cache.replace([thing('a', 100)], '100');
    const before = cache.seen('uid-a', '120', never);
    cache.replace([thing('a', 40)], '40');
    await before;
    const after = cache.seen('uid-a', '41', never);
    expect(await Promise.race([after, Promise.resolve('waits')])).toBe('waits');
    cache.apply('MODIFIED', thing('a', 41));
    await after;
  });
});

describe('deletionSeen', () => {
  it('resolves when the object is marked for deletion, or missing after the first list', async () => {
    const { cache } = cacheWithDiary();
    const first = cache.deletionSeen('uid-a', never);
    const unlisted = cache.deletionSeen('uid-of-yesterday', never);
    expect(await isPending(first)).toBe(true);
    expect(await isPending(unlisted)).toBe(true);
    cache.replace([thing('a', 3), thing('b', 3)], '4');
    await unlisted;
    expect(await isPending(first)).toBe(true);
    cache.apply('MODIFIED', thing('a', 5, { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    await first;
    const second = cache.deletionSeen('uid-b', never);
    cache.apply('DELETED', thing('b', 6));
    await second;
    await cache.deletionSeen('uid-c', never);
  });
});

describe('until', () => {
  it('asks at once, then after changes of that object only', async () => {
    const { cache } = cacheWithDiary();
    cache.replace([thing('a', 1), thing('b', 1)], '1');
    await cache.until(() => true, { signal: never, what: 'nothing happens' });

    let asked = 0;
    const holds = () => {
      asked += 1;
      return cache.byUid('uid-a')?.metadata.resourceVersion === '3';
    };
    const wait = cache.until(holds, { signal: never, what: 'a is at 3', uid: 'uid-a' });
    cache.apply('MODIFIED', thing('b', 2));
    expect(asked).toBe(1);
    cache.apply('MODIFIED', thing('a', 3));
    await wait;
    expect(asked).toBe(2);
  });

  it('asks after every change when no object is named', async () => {
    const { cache } = cacheWithDiary();
    const wait = cache.until(() => cache.size === 2, { signal: never, what: 'there are two' });
    cache.replace([thing('a', 1)], '1');
    expect(cache.waits).toEqual(['there are two']);
    cache.apply('ADDED', thing('b', 2));
    await wait;
    expect(cache.waits).toEqual([]);
  });

  it('says what it waited for in vain when time runs out, and passes other reasons on', async () => {
    const { cache } = cacheWithDiary();
    const late = cache.until(() => false, { signal: AbortSignal.timeout(5), what: 'pigs fly' });
    await expect(late).rejects.toThrow('Gave up waiting until pigs fly');
    const abort = new AbortController();
    const reason = new Error('the activity was cancelled');
    const cancelled = cache.until(() => false, { signal: abort.signal, what: 'pigs fly' });
    abort.abort(reason);
    await expect(cancelled).rejects.toBe(reason);
    await expect(cache.until(() => true, { signal: abort.signal, what: 'x' })).rejects.toBe(reason);
    expect(cache.sizes.waits).toBe(0);
  });

  it('rejects only the wait whose predicate throws', async () => {
    const { cache } = cacheWithDiary();
    const broken = cache.until(() => (cache.size > 0 ? fail('broken') : false), { signal: never, what: 'x' });
    const sound = cache.until(() => cache.size > 0, { signal: never, what: 'y' });
    cache.replace([thing('a', 1)], '1');
    await expect(broken).rejects.toThrow('broken');
    await sound;
  });

  it('gives up when the cache is closed', async () => {
    const { cache } = cacheWithDiary();
    const waits = [cache.until(() => false, { signal: never, what: 'x' }), cache.seen('uid', '9', never)];
    cache.close(new Error('stopped'));
    for (const wait of waits) await expect(wait).rejects.toThrow('stopped');
    await expect(cache.deletionSeen('uid', never)).rejects.toThrow('stopped');
    expect(cache.sizes.waits).toBe(0);
  });
});

describe('memory', () => {
  it('stays flat: after 100,000 changes the cache holds exactly what is there', async () => {
    const cache = createCache<Thing>({ indexes: { owner: (object) => [object.owner ?? ''] }, ...errorsOf() });
    cache.replace([], '0');
    const waits: Promise<void>[] = [];
    for (let version = 1; version <= 100_000; version++) {
      const name = `thing-${version % 500}`;
      const uid = `uid-${version % 500}-${Math.floor(version / 5000)}`;
      const owner = `owner-${version}`;
      if (version % 100 === 0) waits.push(cache.seen(uid, String(version), never), cache.deletionSeen(uid, never));
      cache.apply(version % 7 === 0 ? 'DELETED' : 'MODIFIED', thing(name, version, { uid, owner }));
    }
    const { size } = cache;
    expect(size).toBeLessThanOrEqual(500);
    // One value with one object for each, because every owner is different.
    expect(cache.sizes).toMatchObject({ objects: size, names: size, indexed: 2 * size });
    cache.replace([], '100001');
    await Promise.all(waits);
    expect(cache.sizes).toEqual({ objects: 0, names: 0, indexed: 0, waits: 0 });
  });
});

function fail(message: string): never {
  throw new Error(message);
}
