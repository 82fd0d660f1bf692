import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { KubeError } from '../../kube/failures.ts';
import { KeyedQueue, type PassResult } from '../../kube/keyed-queue.ts';

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

/** Advances the time, and runs everything that is due. */
async function elapse(ms = 0): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
}

interface Pass {
  readonly key: string;
  readonly end: (result?: PassResult | Error) => void;
}

/** A queue whose reconciles end when the test says so, and which checks all invariants. */
function queueOf(concurrency = 2, shareOf?: (key: string) => string) {
  const running: Pass[] = [];
  const begun: string[] = [];
  const errors: { readonly key: string; readonly retryInMs: number }[] = [];
  const queue = new KeyedQueue({
    concurrency,
    ...(shareOf && { shareOf }),
    onError: (key, _, retryInMs) => void errors.push({ key, retryInMs }),
    pass: (key) => {
      if (running.some((pass) => pass.key === key)) throw new Error(`two passes of ${key} at once`);
      if (running.length >= concurrency) throw new Error('more passes than there is room for');
      begun.push(key);
      return new Promise<PassResult | undefined>((resolve, reject) => {
        const pass: Pass = {
          key,
          end: (result) => {
            running.splice(running.indexOf(pass), 1);
            if (result instanceof Error) reject(result);
            else resolve(result);
          },
        };
        running.push(pass);
      });
    },
  });
  return { queue, running, begun, errors };
}

describe('KeyedQueue', () => {
  it('combines requests into one reconcile, and keeps a request that arrives during a reconcile', async () => {
    const { queue, running, begun } = queueOf();
    for (let wish = 0; wish < 3; wish++) queue.add('a');
    await elapse();
    expect(begun).toEqual(['a']);
    queue.add('a');
    queue.add('a');
    await elapse();
    expect(begun).toEqual(['a']);
    running[0]?.end();
    await elapse();
    expect(begun).toEqual(['a', 'a']);
    running[0]?.end();
    await elapse(60_000);
    expect(begun).toHaveLength(2);
  });

  it('reconciles keys in the order of their requests, up to the limit of concurrency', async () => {
    const { queue, running, begun } = queueOf(2);
    for (const key of ['a', 'b', 'c', 'd']) queue.add(key);
    await elapse();
    expect(begun).toEqual(['a', 'b']);
    expect(queue.depth).toBe(2);
    running[1]?.end();
    await elapse();
    expect(begun).toEqual(['a', 'b', 'c']);
  });

  it('comes back when a pass asks for it, at the earliest of several times', async () => {
    const { queue, running, begun } = queueOf();
    queue.add('a');
    await elapse();
    running[0]?.end({ againInMs: 5_000 });
    await elapse();
    queue.addAfter('a', 9_000);
    queue.addAfter('a', 1_000);
    await elapse(999);
    expect(begun).toHaveLength(1);
    await elapse(1);
    expect(begun).toHaveLength(2);
    running[0]?.end();
    await elapse(60_000);
    expect(begun).toHaveLength(2);
  });

  it('waits as long as a timer can for what is due in years', async () => {
    const { queue, begun } = queueOf();
    queue.addAfter('a', 1e15);
    await elapse(60_000);
    expect(begun).toEqual([]);
  });

  it('M4: tries a failed pass again by itself, after pauses that grow up to five minutes', async () => {
    const { queue, running, begun, errors } = queueOf();
    queue.add('a');
    for (let attempt = 1; attempt <= 14; attempt++) {
      await elapse(300_000);
      expect(begun).toHaveLength(attempt);
      running[0]?.end(new Error('no'));
      await elapse();
    }
    const pauses = errors.map(({ retryInMs }) => retryInMs);
    for (const [index, pause] of pauses.entries()) {
      const most = Math.min(200 * 2 ** index, 300_000);
      expect(pause).toBeGreaterThanOrEqual(most / 2);
      expect(pause).toBeLessThanOrEqual(most);
    }
    await elapse(300_000);
    running[0]?.end();
    await elapse();
    queue.add('a');
    await elapse();
    running[0]?.end(new Error('no'));
    await elapse();
    expect(errors.at(-1)?.retryInMs).toBeLessThanOrEqual(200); // success forgets the failures
  });

  it('M4: pauses for half a minute at most after what passes by itself, as a server that is away', async () => {
    const { queue, running, errors } = queueOf();
    queue.add('a');
    for (let attempt = 1; attempt <= 12; attempt++) {
      await elapse(30_000);
      running[0]?.end(new KubeError({ status: 0, message: 'connection refused' }));
      await elapse();
    }
    expect(errors).toHaveLength(12);
    expect(errors.filter(({ retryInMs }) => retryInMs > 30_000)).toEqual([]);
  });

  it('M4: a reminder leaves a failed key to its pause; a change ends it, and pauses begin anew', async () => {
    const { queue, running, begun, errors } = queueOf();
    queue.add('a');
    for (let attempt = 1; attempt <= 10; attempt++) {
      await elapse(300_000);
      running[0]?.end(new Error('no'));
    }
    await elapse();
    queue.remind('a');
    queue.remind('b');
    await elapse();
    expect(begun.slice(10)).toEqual(['b']);
    running[0]?.end();
    queue.add('a');
    await elapse();
    expect(begun.slice(10)).toEqual(['b', 'a']);
    running[0]?.end(new Error('no'));
    await elapse();
    expect(errors.at(-1)?.retryInMs).toBeLessThanOrEqual(200);
  });

  it('M4: a thousand keys of one namespace delay those of another by one turn', async () => {
    const { queue, running, begun } = queueOf(8, (key) => key.slice(0, key.indexOf('/')));
    for (let index = 0; index < 1000; index++) queue.add(`busy/${index}`);
    for (const key of ['quiet/1', 'quiet/2', 'calm/1']) queue.add(key);
    await elapse();
    // one of eight workers is not available to the busy share
    expect(begun.filter((key) => key.startsWith('busy/'))).toHaveLength(7);
    expect(begun).toContain('quiet/1');
    running[0]?.end(new Error('no'));
    running[1]?.end();
    running[2]?.end();
    await elapse();
    expect(begun).toContain('calm/1');
    expect(begun).toContain('quiet/2');
  });

  it('M4: passes of one namespace that hang never hold all places', async () => {
    const { queue, running, begun } = queueOf(8, (key) => key.slice(0, key.indexOf('/')));
    for (let index = 0; index < 50; index++) queue.add(`hanging/${index}`);
    await elapse();
    for (const key of ['other/1', 'other/2', 'other/3']) {
      queue.add(key);
      await elapse();
      expect(begun.at(-1)).toBe(key);
      running.find((pass) => pass.key === key)?.end();
      await elapse();
    }
    expect(queue.depth).toBe(43);
  });

  it('handles a reconcile that throws synchronously, and one that requests its own key before its first await', async () => {
    const seen: string[] = [];
    const queue: KeyedQueue = new KeyedQueue({
      concurrency: 4,
      onError: () => void seen.push('error'),
      pass: (key) => {
        seen.push(`begin ${key} ${seen.length}`);
        if (seen.length === 1) {
          queue.add(key);
          expect(seen).toHaveLength(1);
          throw new Error('at once');
        }
        return Promise.resolve(undefined);
      },
    });
    queue.add('a');
    await elapse();
    expect(seen).toEqual(['begin a 0', 'error', 'begin a 2']);
    await elapse(200);
    expect(seen).toHaveLength(4);
  });

  it('stops: drops what waits, takes nothing new, and waits for what runs', async () => {
    const { queue, running, begun } = queueOf(1);
    queue.add('a');
    queue.addAfter('c', 10);
    await elapse();
    queue.add('b');
    let isStopped = false;
    const stopping = queue.stop().then(() => {
      isStopped = true;
    });
    queue.add('d');
    queue.addAfter('e', 10);
    await elapse(100);
    expect(isStopped).toBe(false);
    running[0]?.end({ againInMs: 1 });
    await stopping;
    await elapse(100);
    expect(begun).toEqual(['a']);
  });

  it('never reconciles a key twice at the same time and loses no request, in any order of events', async () => {
    const key = fc.constantFrom('a', 'b', 'c');
    const event = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), key }),
      fc.record({ kind: fc.constant('addAfter' as const), key, ms: fc.nat(500) }),
      fc.record({
        kind: fc.constant('end' as const),
        which: fc.nat(3),
        how: fc.constantFrom('well', 'again', 'failed'),
      }),
      fc.record({ kind: fc.constant('elapse' as const), ms: fc.nat(300) }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 40 }),
        fc.integer({ min: 1, max: 3 }),
        async (events, concurrency) => {
          const { queue, running, begun, errors } = queueOf(concurrency);
          /** How many reconciles of a key had begun at its last request. */
          const wished = new Map<string, number>();
          const passesOf = (of: string) => begun.filter((each) => each === of).length;
          for (const each of events) {
            if (each.kind === 'add' || each.kind === 'addAfter') wished.set(each.key, passesOf(each.key));
            if (each.kind === 'add') queue.add(each.key);
            if (each.kind === 'addAfter') queue.addAfter(each.key, each.ms);
            if (each.kind === 'end') {
              const result = { well: undefined, again: { againInMs: 20 }, failed: new Error('no') }[each.how];
              running[each.which % Math.max(running.length, 1)]?.end(result);
            }
            await elapse(each.kind === 'elapse' ? each.ms : 0);
          }
          for (let quiet = 0; quiet < 3; quiet++) {
            while (running.length > 0) {
              running[0]?.end();
              await elapse();
            }
            await elapse(300_000);
          }
          for (const [of, before] of wished) expect(passesOf(of)).toBeGreaterThan(before);
          expect(queue.depth).toBe(0);
          expect(errors.filter(({ retryInMs }) => retryInMs > 300_000)).toEqual([]);
          await queue.stop();
        },
      ),
      { numRuns: 100 },
    );
  });
});
