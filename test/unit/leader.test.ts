import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Clock, defaultLeaseTimes, Leader, type LeaderOptions } from '../../kube/leader.ts';

interface StoredLease {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec: {
    readonly holderIdentity: string;
    readonly leaseDurationSeconds: number;
    readonly acquireTime: string;
    readonly renewTime: string;
    readonly leaseTransitions: number;
  };
}

/** The leases of a cluster. Calls take no time, and can fail or hang. */
class Leases {
  readonly stored = new Map<string, StoredLease>();
  /** Called before each call, with its client and verb. */
  fault: (who: string, verb: string, name: string) => undefined | 'hang' | Error = () => undefined;
  writes = 0;
  #version = 0;

  /** A client for one process. */
  clientOf(who: string): LeaderOptions['client'] {
    const call = async <T>(verb: string, name: string, signal: AbortSignal | undefined, act: () => T): Promise<T> => {
      signal?.throwIfAborted();
      const fault = this.fault(who, verb, name);
      if (fault === 'hang') {
        await new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
      }
      if (fault instanceof Error) throw fault;
      return act();
    };
    // The election only reads and writes leases, so the client's types are wider than needed.
    return {
      get: (_resource, { name }, options) =>
        call('get', name, options?.signal, () => this.stored.get(name) ?? refuse(404, 'NotFound')),
      create: (_resource, object, options) => {
        const { metadata, spec } = object as StoredLease & { readonly metadata: { readonly name: string } };
        return call('create', metadata.name, options?.signal, () => {
          if (this.stored.has(metadata.name)) refuse(409, 'AlreadyExists');
          return this.put(metadata.name, spec);
        });
      },
      patch: (_resource, { name }, _type, body, options) =>
        call('patch', name, options?.signal, () => {
          const held = this.stored.get(name) ?? refuse(404, 'NotFound');
          const { metadata, spec } = body as StoredLease;
          if (metadata.resourceVersion !== held.metadata.resourceVersion) refuse(409, 'Conflict');
          return this.put(name, { ...held.spec, ...spec });
        }),
    } as LeaderOptions['client'];
  }

  put(name: string, spec: StoredLease['spec']): StoredLease {
    this.#version += 1;
    this.writes += 1;
    const lease = { metadata: { resourceVersion: String(this.#version) }, spec };
    this.stored.set(name, lease);
    return lease;
  }

  /** Renews a lease like a holder outside of the test. */
  renew(name: string, holderIdentity: string, leaseDurationSeconds = 15): void {
    const times = { acquireTime: 'x', renewTime: `renewal ${this.writes}`, leaseTransitions: 0 };
    this.put(name, { holderIdentity, leaseDurationSeconds, ...times });
  }

  get holder(): string | undefined {
    return this.stored.get('windlass-watcher')?.spec.holderIdentity;
  }
}

function refuse(status: number, reason: string): never {
  throw Object.assign(new Error(reason), { status, reason });
}

/** A clock that advances on request. Sleepers are woken in order. */
class ManualClock implements Clock {
  #nowMs = 1_000_000;
  readonly #sleepers = new Set<{ readonly atMs: number; readonly wake: () => void }>();

  now(): number {
    return this.#nowMs;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const sleeper = {
        atMs: this.#nowMs + ms,
        wake: () => {
          this.#sleepers.delete(sleeper);
          signal.removeEventListener('abort', sleeper.wake);
          resolve();
        },
      };
      if (signal.aborted) return resolve();
      signal.addEventListener('abort', sleeper.wake);
      this.#sleepers.add(sleeper);
    });
  }

  date(): Date {
    return new Date(this.#nowMs);
  }

  get sleeping(): number {
    return this.#sleepers.size;
  }

  /** Advances the time by this many seconds, in order. `each` is called after each event. */
  async pass(seconds: number, each: () => void = () => undefined): Promise<void> {
    const endMs = this.#nowMs + seconds * 1000;
    await settled();
    for (;;) {
      const next = [...this.#sleepers].sort((a, b) => a.atMs - b.atMs)[0];
      if (!next || next.atMs > endMs) break;
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.wake();
      await settled();
      each();
    }
    this.#nowMs = Math.max(this.#nowMs, endMs);
    await settled();
    each();
  }

  /** The process was frozen for this long: time has passed, and nothing has been woken yet. */
  freeze(seconds: number): void {
    this.#nowMs += seconds * 1000;
  }
}

/** Resolves after everything that is pending has run. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
}

const forever = new AbortController().signal;

interface Candidate {
  readonly leader: Leader;
  readonly log: string[];
}

function candidate(leases: Leases, identity: string, clock: Clock, options: Partial<LeaderOptions> = {}): Candidate {
  const log: string[] = [];
  const write = (fields: object, message: string) => {
    log.push(`${message} ${JSON.stringify(fields)}`);
  };
  const leader = new Leader({
    client: leases.clientOf(identity),
    lease: { namespace: 'kruise-system', name: 'windlass-watcher' },
    identity,
    clock,
    log: { info: write, warn: write },
    ...options,
  });
  return { leader, log };
}

const openKruise = { namespace: 'kruise-system', name: 'kruise-manager', owner: "OpenKruise's manager" };

describe('the election', () => {
  it('is won at once where nobody holds the lease, and writes it as client-go does', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock);
    expect(leader.isLeading()).toBe(false);
    expect(leader.standbyReason).toBe('it has not tried to acquire the lease yet');
    const term = await leader.campaign(forever);
    expect([leader.isLeading(), term.isLeading(), term.lost.aborted]).toEqual([true, true, false]);
    expect(leader.standbyReason).toBeUndefined();
    const { spec } = leases.stored.get('windlass-watcher') ?? refuse(404, 'NotFound');
    expect(spec).toMatchObject({ holderIdentity: 'one', leaseDurationSeconds: 12, leaseTransitions: 0 });
    expect(spec.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(spec.acquireTime).toBe(spec.renewTime);
    expect(await leader.campaign(forever)).toBe(term);
  });

  it('renews every second for as long as it lives', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock);
    const term = await leader.campaign(forever);
    await clock.pass(600, () => expect(term.isLeading()).toBe(true));
    expect(leases.writes).toBe(601);
    expect(leases.stored.get('windlass-watcher')?.spec.leaseTransitions).toBe(0);
  });

  it('is won by one of many, and only by one', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const all = ['one', 'two', 'three', 'four'].map((name) => candidate(leases, name, clock));
    for (const { leader } of all) void leader.campaign(forever).catch(() => undefined);
    await clock.pass(60, () => {
      expect(all.filter(({ leader }) => leader.isLeading()).length).toBe(1);
    });
    expect(
      all.filter(({ leader }) => leader.standbyReason === '"one" holds Lease "kruise-system/windlass-watcher"').length,
    ).toBe(3);
  });

  it('passes to the next within 15 s when the leader is killed, and not before its lease has run out', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const first = candidate(leases, 'one', clock);
    const second = candidate(leases, 'two', clock);
    await first.leader.campaign(forever);
    const next = second.leader.campaign(forever);
    await clock.pass(20.5);
    leases.fault = (who) => (who === 'one' ? 'hang' : undefined);
    const killedAt = clock.now();
    let ledAt = 0;
    await clock.pass(30, () => {
      if (second.leader.isLeading()) ledAt ||= clock.now();
      expect(first.leader.isLeading() && second.leader.isLeading()).toBe(false);
    });
    await next;
    expect(ledAt - killedAt).toBeLessThan(15_000);
    expect(ledAt - killedAt).toBeGreaterThan(11_000);
    expect(leases.stored.get('windlass-watcher')?.spec).toMatchObject({ holderIdentity: 'two', leaseTransitions: 1 });
    expect(first.log.at(-1)).toContain('it did not renew the lease in time');
  });

  it('M3: is left to another by a leader that resigns, and taken again where nobody else wants it', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const [first, second] = [candidate(leases, 'one', clock), candidate(leases, 'two', clock)];
    const term = await first.leader.campaign(forever);
    const campaign = second.leader.campaign(forever);
    const again = first.leader.campaign(AbortSignal.timeout(0)).catch(() => undefined);
    await first.leader.resign('it could not follow any resource');
    expect([term.isLeading(), term.lost.aborted, leases.holder]).toEqual([false, true, '']);
    await again;
    const next = first.leader.campaign(forever);
    await clock.pass(3);
    await campaign;
    expect(leases.holder).toBe('two');
    await second.leader.stop();
    await clock.pass(60);
    await next;
    expect(leases.holder).toBe('one');
    expect(first.log.join()).toContain('it has released the lease: it could not follow any resource');
    await first.leader.stop();
  });

  it('passes on at once when the leader stops, which releasing the lease', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const first = candidate(leases, 'one', clock);
    const second = candidate(leases, 'two', clock);
    const term = await first.leader.campaign(forever);
    const next = second.leader.campaign(forever);
    await clock.pass(5);
    await first.leader.stop();
    expect([term.lost.aborted, term.isLeading(), leases.holder]).toEqual([true, false, '']);
    await clock.pass(1.3);
    expect(second.leader.isLeading()).toBe(true);
    await next;
    expect(leases.stored.get('windlass-watcher')?.spec).toMatchObject({ holderIdentity: 'two', leaseTransitions: 1 });
    await second.leader.stop();
    expect(clock.sleeping).toBe(0);
  });

  it('relies on observed changes, never on the times in the lease', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const past = { acquireTime: '1999-01-01T00:00:00.000000Z', renewTime: '1999-01-01T00:00:00.000000Z' };
    leases.put('windlass-watcher', { holderIdentity: 'old', leaseDurationSeconds: 30, leaseTransitions: 7, ...past });
    const { leader } = candidate(leases, 'one', clock);
    void leader.campaign(forever);
    await clock.pass(29);
    expect(leader.isLeading()).toBe(false);
    await clock.pass(2);
    expect(leader.isLeading()).toBe(true);
    expect(leases.stored.get('windlass-watcher')?.spec.leaseTransitions).toBe(8);
  });

  it('ignores changes of the lease that are not renewals', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    leases.renew('windlass-watcher', 'dead', 12);
    const { leader } = candidate(leases, 'one', clock);
    void leader.campaign(forever);
    for (let second = 0; second < 13; second++) {
      const held = leases.stored.get('windlass-watcher');
      if (held && leases.holder === 'dead') leases.put('windlass-watcher', held.spec); // for example a label
      await clock.pass(1);
    }
    expect(leader.isLeading()).toBe(true);
  });

  it('takes its own lease again at once after a restart of the election', async () => {
    const leases = new Leases();
    leases.renew('windlass-watcher', 'one');
    const { leader } = candidate(leases, 'one', new ManualClock());
    await leader.campaign(forever);
    expect(leader.isLeading()).toBe(true);
  });

  it('ends with the reason of its signal', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    leases.renew('windlass-watcher', 'other');
    const { leader } = candidate(leases, 'one', clock);
    const abort = new AbortController();
    const campaign = leader.campaign(abort.signal);
    await clock.pass(3);
    const reason = new Error('SIGTERM');
    abort.abort(reason);
    await expect(campaign).rejects.toBe(reason);
    expect(clock.sleeping).toBe(0);
    await leader.stop();
    expect(leases.holder).toBe('other');
    await expect(leader.campaign(forever)).rejects.toThrow('the election was stopped');
  });

  it('waits while the API server is away or says no, and says so', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    leases.fault = () => new Error('connect ECONNREFUSED');
    const { leader, log } = candidate(leases, 'one', clock);
    void leader.campaign(forever);
    await clock.pass(60);
    expect(leader.standbyReason).toBe('it cannot read or write the leases: connect ECONNREFUSED');
    expect(log.length).toBe(1);
    leases.fault = () => undefined;
    await clock.pass(1.3);
    expect(leader.isLeading()).toBe(true);
  });

  it('refuses times that cannot keep two leaders apart', () => {
    const withTimes = (times: Partial<typeof defaultLeaseTimes>) => () =>
      candidate(new Leases(), 'one', new ManualClock(), { times: { ...defaultLeaseTimes, ...times } });
    expect(withTimes({ renewDeadlineSeconds: 12 })).toThrow(
      'renewDeadlineSeconds must be less than leaseDurationSeconds',
    );
    expect(withTimes({ retryPeriodSeconds: 5 })).toThrow('retryPeriodSeconds must be above 0 and at most half');
    expect(withTimes({ retryPeriodSeconds: 0 })).toThrow('retryPeriodSeconds must be above 0');
    expect(withTimes({ leaseDurationSeconds: 12.5 })).toThrow('leaseDurationSeconds must be an integer');
  });
});

describe('the fence', () => {
  it('closes as soon as a frozen process resumes, before any timer has fired, and for good', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock);
    const term = await leader.campaign(forever);
    await clock.pass(5);
    clock.freeze(8);
    expect(term.isLeading()).toBe(false);
    expect(term.lost.aborted).toBe(true);
    await clock.pass(5); // the lease is still ours in the API server, but this term has ended
    expect(term.isLeading()).toBe(false);
    const again = await leader.campaign(forever);
    expect(again).not.toBe(term);
    expect([again.isLeading(), term.isLeading()]).toEqual([true, false]);
  });

  it('counts from the start of a renewal, however late its answer comes', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock);
    const term = await leader.campaign(forever);
    let answers = 0;
    leases.fault = (_who, verb) => {
      if (verb === 'patch' && answers === 0) {
        answers += 1;
        clock.freeze(3); // sent at 1 s, answered at 4 s
      }
      return undefined;
    };
    await clock.pass(1);
    expect(answers).toBe(1);
    leases.fault = () => 'hang';
    await clock.pass(0);
    clock.freeze(4.9);
    expect(term.isLeading()).toBe(true);
    clock.freeze(0.2);
    expect(term.isLeading()).toBe(false);
  });

  it('does not let a renewal that is answered too late bring the term back', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock);
    const term = await leader.campaign(forever);
    leases.fault = (_who, verb) => {
      if (verb === 'patch') clock.freeze(9);
      return undefined;
    };
    await clock.pass(1);
    expect(term.isLeading()).toBe(false);
  });

  it('holds through failures that are shorter than the renew deadline', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock);
    const term = await leader.campaign(forever);
    leases.fault = () => new Error('connect ECONNREFUSED');
    await clock.pass(6.5);
    leases.fault = () => undefined;
    await clock.pass(60);
    expect(term.isLeading()).toBe(true);
  });

  it('closes at once when another holder of the lease is found', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock);
    const term = await leader.campaign(forever);
    leases.renew('windlass-watcher', 'usurper');
    await clock.pass(1);
    expect(term.isLeading()).toBe(false);
    expect(leader.standbyReason).toBe('"usurper" holds Lease "kruise-system/windlass-watcher"');
    await leader.stop();
    expect(leases.holder).toBe('usurper');
  });

  it('stays when somebody else only touched the lease, or deleted it', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock);
    const term = await leader.campaign(forever);
    const held = leases.stored.get('windlass-watcher') ?? refuse(404, 'NotFound');
    leases.put('windlass-watcher', held.spec);
    await clock.pass(3);
    leases.stored.delete('windlass-watcher');
    await clock.pass(3);
    expect(term.isLeading()).toBe(true);
    expect(leases.holder).toBe('one');
  });

  it('is never open for two processes at once, whatever fails and freezes', async () => {
    const whom = fc.constantFrom(undefined, 0, 1, 2);
    const spell = fc.record({ frozen: whom, cutOff: whom, seconds: fc.integer({ min: 1, max: 20 }) });
    let changes = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(spell, { minLength: 5, maxLength: 20 }), async (spells) => {
        const leases = new Leases();
        const end = new AbortController();
        const all = [0, 1, 2].map((index) => {
          const clock = new ManualClock();
          return { clock, ...candidate(leases, `process ${index}`, clock) };
        });
        const campaigns = all.map(({ leader }) => campaignAlways(leader, end.signal));
        for (const { frozen, cutOff, seconds } of spells) {
          leases.fault = (who) => (who === `process ${cutOff}` ? new Error('network') : undefined);
          for (let second = 0; second < seconds; second++) {
            for (const [index, { clock }] of all.entries()) {
              if (index === frozen) clock.freeze(1);
              else await clock.pass(1);
              expect(all.filter(({ leader }) => leader.isLeading()).length).toBeLessThanOrEqual(1);
            }
          }
        }
        changes += leases.stored.get('windlass-watcher')?.spec.leaseTransitions ?? 0;
        end.abort();
        await Promise.all([...campaigns, ...all.map(({ leader }) => leader.stop())]);
        expect(all.map(({ clock }) => clock.sleeping)).toEqual([0, 0, 0]);
      }),
      { numRuns: 40 },
    );
    expect(changes).toBeGreaterThan(5);
  });
});

/** Competes again after each term, like the watcher. */
async function campaignAlways(leader: Leader, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const term = await leader.campaign(signal).catch(() => undefined);
    await new Promise((resolve) => {
      if (!term || term.lost.aborted) resolve(undefined);
      else term.lost.addEventListener('abort', resolve);
    });
  }
}

describe('a lease to yield to', () => {
  it('keeps us from leading while somebody renews it, and lets us when nobody does any more', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock, { yieldTo: [openKruise] });
    void leader.campaign(forever);
    for (let second = 0; second < 60; second++) {
      leases.renew('kruise-manager', 'kruise-controller-manager-abc');
      await clock.pass(1);
      expect(leader.isLeading()).toBe(false);
    }
    expect(leader.standbyReason).toBe(`OpenKruise's manager holds Lease "kruise-system/kruise-manager"`);
    await clock.pass(14);
    expect(leader.isLeading()).toBe(false);
    await clock.pass(2);
    expect(leader.isLeading()).toBe(true);
  });

  it('does not matter when it is absent, or nobody holds it', async () => {
    const leases = new Leases();
    const { leader } = candidate(leases, 'one', new ManualClock(), { yieldTo: [openKruise] });
    await leader.campaign(forever);
    await leader.stop();
    leases.renew('kruise-manager', '');
    const second = candidate(leases, 'two', new ManualClock(), { yieldTo: [openKruise] });
    await second.leader.campaign(forever);
    expect(second.leader.isLeading()).toBe(true);
  });

  it('ends our term when it is renewed while we lead, but not when it cannot be read', async () => {
    const leases = new Leases();
    const clock = new ManualClock();
    const { leader } = candidate(leases, 'one', clock, { yieldTo: [openKruise] });
    const term = await leader.campaign(forever);
    leases.fault = (_who, _verb, name) => (name === 'kruise-manager' ? new Error('forbidden') : undefined);
    await clock.pass(30);
    expect(term.isLeading()).toBe(true);
    leases.fault = () => undefined;
    leases.renew('kruise-manager', 'kruise-controller-manager-abc');
    await clock.pass(1);
    expect(term.isLeading()).toBe(false);
    expect(leader.standbyReason).toBe(`OpenKruise's manager holds Lease "kruise-system/kruise-manager"`);
  });
});
