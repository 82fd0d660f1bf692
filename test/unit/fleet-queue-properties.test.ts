import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { pino } from 'pino';
import type { FleetPlan, Permit, Standing } from '../../plan/fleet/permit.ts';
import type { FleetKind, PermitLife } from '../../watcher/fleet/kind.ts';
import { FleetQueue } from '../../watcher/fleet/queue.ts';

/** What the planner answers at one pass, and how its steps go. */
interface ScriptedPlan {
  readonly upkeep: readonly ScriptedStep[];
  /** Left out when there is no permit. */
  readonly disruption: readonly ScriptedStep[];
  readonly standing: Standing;
  readonly againInMs?: number;
}

interface ScriptedStep {
  readonly actMs: number;
  readonly seenMs: number;
  readonly ends: 'written' | 'unchanged' | 'failed';
}

type Event =
  | { readonly kind: 'add'; readonly uid: string }
  | { readonly kind: 'hand'; readonly uid: string }
  | { readonly kind: 'endLife'; readonly uid: string; readonly silently: boolean }
  | { readonly kind: 'elapse'; readonly ms: number }
  | { readonly kind: 'loseLease' };

const uids = ['a', 'b'];
const uid = fc.constantFrom(...uids);
const ms = fc.integer({ min: 0, max: 50 });
const step: fc.Arbitrary<ScriptedStep> = fc.record({
  actMs: ms,
  seenMs: ms,
  ends: fc.constantFrom('written', 'written', 'unchanged', 'failed'),
});
const standing: fc.Arbitrary<Standing> = fc.constantFrom<Standing>(
  { kind: 'working' },
  { kind: 'waiting', wait: { reason: 'BudgetSpent', blockedBy: [], blockedCount: 0, unblock: '' } },
  { kind: 'batchDone', summary: '', arrived: 0 },
);
const scriptedPlan: fc.Arbitrary<ScriptedPlan> = fc.record(
  {
    upkeep: fc.array(step, { maxLength: 2 }),
    disruption: fc.array(step, { maxLength: 4 }),
    standing,
    againInMs: fc.integer({ min: 1, max: 500 }),
  },
  { requiredKeys: ['upkeep', 'disruption', 'standing'] },
);
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('add' as const), uid }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('hand' as const), uid }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('endLife' as const), uid, silently: fc.boolean() }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('elapse' as const), ms }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('loseLease' as const) }) },
);

/** A permit as the test knows it: dead as soon as anybody could know that it is. */
class TestPermit implements Permit, PermitLife {
  readonly revision = '';
  readonly paused = false;
  readonly skip = [];
  readonly batch = 1;
  readonly #end = new AbortController();
  #dead = false;
  /** Settled or replaced: the queue itself has ended it. */
  over = false;

  isAlive(): boolean {
    if (this.#dead) this.#end.abort(new Error('ended'));
    return !this.#dead;
  }

  get ended(): AbortSignal {
    return this.#end.signal;
  }

  get mayDisrupt(): boolean {
    return !this.#dead && !this.over;
  }

  die(silently: boolean): void {
    this.#dead = true;
    if (!silently) this.#end.abort(new Error('ended'));
  }
}

interface Step extends ScriptedStep {
  readonly uid: string;
  readonly permit?: TestPermit;
}

const sleep = (forMs: number) =>
  new Promise<void>((resolve) => {
    setTimeout(resolve, forMs);
  });

/** One run: a queue over a scripted kind, and everything that it was seen to do wrong. */
class Run {
  readonly wrongs: string[] = [];
  readonly #plans: ScriptedPlan[];
  readonly #lease = new AbortController();
  readonly #permits = new Map<string, TestPermit>();
  /** Steps, waits and catching up that have not ended, by UID. */
  readonly #inFlight = new Map<string, number>();
  /** Wishes that no pass has begun after. */
  readonly #wished = new Set<string>();
  /** When a pass has to begin, by UID; prompt unless the pass that said so had to act, and may have failed. */
  readonly #due = new Map<string, { readonly dueAtMs: number; readonly prompt: boolean }>();
  readonly #queue: FleetQueue<string, Step>;

  constructor(plans: readonly ScriptedPlan[]) {
    this.#plans = [...plans];
    this.#queue = new FleetQueue({
      fleet: this.#kind(),
      term: { isLeading: () => !this.#lease.signal.aborted, lost: this.#lease.signal },
      log: pino({ level: 'silent' }),
      blockedAfterMs: 100,
      concurrency: 2,
      parallelSteps: 2,
      nowMs: () => Date.now(),
    });
  }

  async play(events: readonly Event[]): Promise<void> {
    for (const one of events) await this.#happen(one);
    // Longer than the longest back-off, again and again, until the script has run out and everything has settled.
    for (let round = 0; round < 40; round += 1) await jest.advanceTimersByTimeAsync(2_000);
    if (this.#lease.signal.aborted) return;
    for (const lost of this.#wished) this.wrongs.push(`no pass over ${lost} after it was wished for`);
    for (const missed of this.#due.keys()) this.wrongs.push(`no pass over ${missed} when it was due`);
    await this.#queue.stop();
  }

  async #happen(one: Event): Promise<void> {
    switch (one.kind) {
      case 'add':
        this.#wished.add(one.uid);
        this.#queue.add(one.uid, 'changed');
        return;
      case 'hand':
        this.#hand(one.uid);
        return;
      case 'endLife':
        this.#permits.get(one.uid)?.die(one.silently);
        return;
      case 'loseLease':
        this.#lease.abort(new Error('lost'));
        return;
      case 'elapse':
        await jest.advanceTimersByTimeAsync(one.ms);
    }
  }

  #hand(target: string): void {
    const permit = new TestPermit();
    const replaced = this.#permits.get(target);
    if (replaced) replaced.over = true;
    this.#permits.set(target, permit);
    const over = () => {
      permit.over = true;
    };
    this.#queue.hand(target, permit, permit).then(over, over);
  }

  #kind(): FleetKind<string, Step> {
    return {
      kind: 'Scripted',
      look: (target) => {
        if ((this.#inFlight.get(target) ?? 0) > 0) this.wrongs.push(`two passes over ${target} at once`);
        this.#wished.delete(target);
        this.#lookedAt(target);
        return target;
      },
      plan: (target, permit) => this.#plan(target, permit),
      podOf: () => undefined,
      act: (one) => this.#during(one.uid, () => this.#act(one)),
      catchUp: (target) => this.#during(target, () => sleep(5)),
    };
  }

  #lookedAt(target: string): void {
    const due = this.#due.get(target);
    this.#due.delete(target);
    if (due?.prompt && Date.now() > due.dueAtMs + 1) this.wrongs.push(`a pass over ${target} was late`);
  }

  #plan(target: string, permit: Permit | undefined): FleetPlan<Step> {
    const plan = this.#plans.shift() ?? { upkeep: [], disruption: [], standing: { kind: 'working' } };
    const disruption =
      permit instanceof TestPermit ? plan.disruption.map((one) => ({ ...one, uid: target, permit })) : [];
    const upkeep = plan.upkeep.map((one) => ({ ...one, uid: target }));
    const { againInMs, standing: stands } = plan;
    if (againInMs === undefined) return { upkeep, disruption, standing: stands };
    const dueAtMs = Date.now() + againInMs;
    this.#due.set(target, { dueAtMs, prompt: upkeep.length + disruption.length === 0 });
    return { upkeep, disruption, standing: stands, againInMs };
  }

  async #act({ permit, uid: target, actMs, seenMs, ends }: Step) {
    if (permit && !permit.mayDisrupt) this.wrongs.push('a dead permit was used');
    if (permit && permit !== this.#permits.get(target)) this.wrongs.push('the permit of another attempt was used');
    if (this.#lease.signal.aborted) this.wrongs.push('something was written without the lease');
    await sleep(actMs);
    if (ends === 'failed') throw new Error('failed');
    return ends === 'written' ? () => this.#during(target, () => sleep(seenMs)) : undefined;
  }

  async #during<Result>(target: string, work: () => Promise<Result>): Promise<Result> {
    this.#inFlight.set(target, (this.#inFlight.get(target) ?? 0) + 1);
    try {
      return await work();
    } finally {
      this.#inFlight.set(target, (this.#inFlight.get(target) ?? 0) - 1);
    }
  }
}

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

describe('FleetQueue, whatever happens in whatever order', () => {
  it('makes one pass at a time, loses no wish and no due time, and uses no dead permit', async () => {
    const property = fc.asyncProperty(
      fc.array(scriptedPlan, { maxLength: 12 }),
      fc.array(event, { maxLength: 30 }),
      async (plans, events) => {
        const run = new Run(plans);
        await run.play(events);
        expect(run.wrongs).toEqual([]);
      },
    );
    await fc.assert(property, { numRuns: 300 });
  });
});
