import { describe, expect, it } from '@jest/globals';
import { Limiter, Places } from '../../kube/limiter.ts';

/** Counts who was admitted, in the order of admission. */
function admitAll(limiter: Limiter, names: readonly string[]): { readonly admitted: string[]; done: Promise<unknown> } {
  const admitted: string[] = [];
  const done = Promise.all(names.map((name) => limiter.admit().then(() => admitted.push(name))));
  return { admitted, done };
}

describe('Limiter', () => {
  it('admits a burst at once, and nobody beyond it', async () => {
    const limiter = new Limiter({ qps: 1, burst: 3, now: () => 0 });
    const { admitted, done } = admitAll(limiter, ['a', 'b', 'c', 'd']);
    await Promise.resolve();
    expect(admitted).toEqual(['a', 'b', 'c']);
    expect(limiter.waiting).toBe(1);
    limiter.close(new Error('closed'));
    await expect(done).rejects.toThrow('closed');
  });

  it('admits in the order of arrival, no faster than qps after the burst', async () => {
    const limiter = new Limiter({ qps: 1000, burst: 1 });
    const names = Array.from({ length: 30 }, (_, index) => `call ${index}`);
    const startedAt = performance.now();
    const { admitted, done } = admitAll(limiter, names);
    await done;
    expect(admitted).toEqual(names);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(28);
  });

  it('does not let a new caller overtake waiting ones, even when there is a token', async () => {
    let nowMs = 0;
    const limiter = new Limiter({ qps: 1000, burst: 1, now: () => nowMs });
    const { admitted, done } = admitAll(limiter, ['first', 'second']);
    nowMs = 1;
    const late = limiter.admit().then(() => admitted.push('late'));
    await Promise.resolve();
    expect(admitted).toEqual(['first']);
    nowMs = 2;
    await done;
    nowMs = 3;
    await late;
    expect(admitted).toEqual(['first', 'second', 'late']);
  });

  it('admits nobody during a pause, and one at a time after it', async () => {
    let nowMs = 0;
    const limiter = new Limiter({ qps: 1000, burst: 100, now: () => nowMs });
    limiter.pause(10);
    limiter.pause(0.01); // a shorter one changes nothing
    const { admitted, done } = admitAll(limiter, ['a', 'b', 'c']);
    await new Promise(setImmediate);
    nowMs = 9_999;
    await new Promise(setImmediate);
    expect(admitted).toEqual([]);
    expect(limiter.waiting).toBe(3);

    limiter.close(new Error('the server is gone'));
    await expect(done).rejects.toThrow('the server is gone');

    nowMs = 10_000;
    const after = admitAll(limiter, ['d', 'e']);
    await Promise.resolve();
    expect(after.admitted).toEqual(['d']);
    nowMs = 10_001;
    await after.done;
    expect(after.admitted).toEqual(['d', 'e']);
  });

  it('wakes by itself when a pause is over', async () => {
    const limiter = new Limiter({ qps: 1000, burst: 1 });
    limiter.pause(0.02);
    const startedAt = performance.now();
    await limiter.admit();
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(19);
  });

  it('forgets a caller whose signal aborts, which costs no token', async () => {
    let nowMs = 0;
    const limiter = new Limiter({ qps: 1000, burst: 1, now: () => nowMs });
    await limiter.admit();
    const abort = new AbortController();
    const given = limiter.admit(abort.signal);
    const waiting = limiter.admit();
    abort.abort(new Error('cancelled'));
    await expect(given).rejects.toThrow('cancelled');
    await expect(limiter.admit(abort.signal)).rejects.toThrow('cancelled');
    nowMs = 1;
    await waiting;
    expect(limiter.waiting).toBe(0);
  });

  it('refuses rates that would admit nobody', () => {
    expect(() => new Limiter({ qps: 0, burst: 1 })).toThrow('qps must be above 0');
    expect(() => new Limiter({ qps: 10, burst: 0 })).toThrow('burst at least 1');
    expect(() => new Limiter({ qps: Number.NaN, burst: 1 })).toThrow('qps must be above 0');
  });
});

describe('Places', () => {
  const { signal } = new AbortController();

  /** Takes a place for each share, and returns the shares that have one, in order. */
  function takeEach(places: Places, shares: readonly string[]) {
    const taken: string[] = [];
    const leave: (() => void)[] = [];
    for (const [index, share] of shares.entries()) {
      void places.take(share, signal).then((giveBack) => {
        taken.push(`${share}${index}`);
        leave.push(giveBack);
      });
    }
    return { taken, leave };
  }

  it('M4: a thousand calls of one namespace delay those of another by one turn', async () => {
    const places = new Places(8);
    const { taken, leave } = takeEach(places, [...Array.from({ length: 1000 }, () => 'busy'), 'quiet', 'quiet']);
    await new Promise(setImmediate);
    // one place is not available to the busy share
    expect(taken.filter((name) => name.startsWith('busy'))).toHaveLength(7);
    expect(taken).toContain('quiet1000');
    for (const giveBack of leave.slice(0, 2)) giveBack();
    await new Promise(setImmediate);
    expect(taken).toContain('quiet1001');
    expect(places.waiting).toBe(1000 - 8);
  });

  it('M4: calls of one namespace that hang never hold all places', async () => {
    const places = new Places(8);
    takeEach(
      places,
      Array.from({ length: 100 }, () => 'hanging'),
    );
    for (let call = 0; call < 3; call++) {
      const giveBack = await places.take('other', signal);
      giveBack();
    }
    expect(places.waiting).toBe(93);
  });

  it('forgets a call whose signal aborts while it waits', async () => {
    const places = new Places(1);
    const giveBack = await places.take('a', signal);
    const abort = new AbortController();
    const waiting = places.take('a', abort.signal);
    abort.abort(new Error('cancelled'));
    await expect(waiting).rejects.toThrow('cancelled');
    await expect(places.take('a', abort.signal)).rejects.toThrow('cancelled');
    expect(places.waiting).toBe(0);
    giveBack();
    (await places.take('a', signal))();
  });
});
