import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { pino } from 'pino';
import { batchOf } from '../../plan/fleet/batch.ts';
import type { FleetPlan, NamedPod, Permit, Standing } from '../../plan/fleet/permit.ts';
import type { FleetKind } from '../../watcher/fleet/kind.ts';
import { FleetQueue } from '../../watcher/fleet/queue.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';

/** What the planner answers at one pass, and how its steps go. */
interface ScriptedPlan {
  readonly upkeep: readonly ScriptedStep[];
  /** Of the pods that are named, one after the other; left out when there is no permit. */
  readonly disruption: readonly ScriptedStep[];
  readonly standing: Standing;
  /** Where each pod stands that is named; undefined: it is gone. */
  readonly named: Readonly<Record<string, NamedPod | undefined>>;
  readonly againInMs?: number;
}

interface ScriptedStep {
  readonly actMs: number;
  readonly seenMs: number;
  readonly ends: 'written' | 'unchanged' | 'failed';
}

type Event =
  | { readonly kind: 'add'; readonly uid: string }
  | { readonly kind: 'next'; readonly uid: string }
  | { readonly kind: 'carryOut'; readonly uid: string; readonly pod: string }
  | { readonly kind: 'endLife'; readonly uid: string; readonly silently: boolean }
  | { readonly kind: 'elapse'; readonly ms: number }
  | { readonly kind: 'loseLease' };

const uid = fc.constantFrom('a', 'a', 'a', 'b');
const podNames = ['p', 'q'] as const;
const pod = fc.constantFrom(...podNames);
const ms = fc.integer({ min: 0, max: 50 });
const step: fc.Arbitrary<ScriptedStep> = fc.record({
  actMs: ms,
  seenMs: ms,
  ends: fc.constantFrom('written', 'written', 'unchanged', 'failed'),
});
const standing: fc.Arbitrary<Standing> = fc.constantFrom<Standing>(
  { kind: 'working' },
  { kind: 'working' },
  { kind: 'working' },
  { kind: 'waiting', wait: { reason: 'BudgetSpent', blockedBy: [], blockedCount: 0, unblock: '' } },
  { kind: 'pods', revision: '', pods: [{ namespace: '', name: 's', uid: 's', how: 'inPlace' }], more: false },
  { kind: 'allDone', summary: '' },
  { kind: 'withdrawn' },
);
const named: fc.Arbitrary<NamedPod | undefined> = fc.constantFrom<(NamedPod | undefined)[]>(
  { state: 'next' },
  { state: 'next' },
  { state: 'underWay', doing: 'starting' },
  { state: 'underWay', doing: 'starting' },
  { state: 'underWay', doing: 'starting' },
  { state: 'notNow', why: 'no room' },
  { state: 'done' },
  undefined,
);
const scriptedPlan: fc.Arbitrary<ScriptedPlan> = fc.record(
  {
    upkeep: fc.array(step, { maxLength: 2 }),
    disruption: fc.array(step, { maxLength: 4 }),
    standing,
    named: fc.record({ p: named, q: named }),
    againInMs: fc.integer({ min: 1, max: 500 }),
  },
  { requiredKeys: ['upkeep', 'disruption', 'standing', 'named'] },
);
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('add' as const), uid }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('next' as const), uid }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('carryOut' as const), uid, pod }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('endLife' as const), uid, silently: fc.boolean() }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('elapse' as const), ms }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('loseLease' as const) }) },
);

/** A permit for one pod, as the test knows it: dead as soon as anybody could know that it is. */
class TestPermit implements PermitLife {
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
  /** Absent: it needs no permit. */
  readonly pod?: string;
}

const restful: ScriptedPlan = { upkeep: [], disruption: [], standing: { kind: 'working' }, named: {} };

const sleep = (forMs: number) =>
  new Promise<void>((resolve) => {
    setTimeout(resolve, forMs);
  });

/** One run: a queue over a scripted kind, and everything that it was seen to do wrong. */
class Run {
  readonly wrongs: string[] = [];
  readonly #plans: ScriptedPlan[];
  readonly #lease = new AbortController();
  /** The last permit for each pod, by the UID of its object and its own. */
  readonly #permits = new Map<string, TestPermit>();
  #batches = 0;
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
      longWaitMs: 1_000,
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
      case 'next':
        this.#next(one.uid);
        return;
      case 'carryOut':
        this.#carryOut(one.uid, one.pod);
        return;
      case 'endLife':
        for (const name of podNames) this.#permits.get(`${one.uid}/${name}`)?.die(one.silently);
        return;
      case 'loseLease':
        this.#lease.abort(new Error('lost'));
        return;
      case 'elapse':
        await jest.advanceTimersByTimeAsync(one.ms);
    }
  }

  #next(target: string): void {
    if (!this.#lease.signal.aborted) this.#queue.next(target);
  }

  #carryOut(target: string, name: string): void {
    const permit = new TestPermit();
    const key = `${target}/${name}`;
    this.#end(this.#permits.get(key));
    this.#permits.set(key, permit);
    this.#batches += 1;
    const number = this.#batches;
    const batch = batchOf('', [{ namespace: '', name, uid: name, how: 'recreate' }]);
    const over = () => this.#end(permit);
    this.#queue.carryOut(target, { number, batch }, permit).then(over, over);
  }

  #end(permit: TestPermit | undefined): void {
    if (permit) permit.over = true;
  }

  #kind(): FleetKind<string, Step> {
    return {
      kind: 'Scripted',
      look: (target) => target,
      plan: (target, permit) => this.#plan(target, permit),
      // not of what is only answered
      planned: (target, plan) => {
        if ((this.#inFlight.get(target) ?? 0) > 0) this.wrongs.push(`two passes over ${target} at once`);
        this.#wished.delete(target);
        this.#passed(target, plan);
      },
      podOf: ({ pod }) => (pod === undefined ? undefined : { namespace: 'shop', name: pod, uid: pod }),
      act: (one) => this.#during(one.uid, () => this.#act(one)),
      catchUp: (target) => this.#during(target, () => sleep(5)),
    };
  }

  #passed(target: string, { upkeep, disruption, againInMs }: FleetPlan<Step>): void {
    const due = this.#due.get(target);
    this.#due.delete(target);
    if (due?.prompt && Date.now() > due.dueAtMs + 1) this.wrongs.push(`a pass over ${target} was late`);
    if (againInMs === undefined) return;
    this.#due.set(target, { dueAtMs: Date.now() + againInMs, prompt: upkeep.length + disruption.length === 0 });
  }

  #plan(target: string, permit: Permit | undefined): FleetPlan<Step> {
    const { againInMs, ...plan } = this.#plans.shift() ?? restful;
    const names = [...(permit?.pods.keys() ?? [])];
    const disruption = plan.disruption.flatMap((one, index): readonly Step[] => {
      const name = names[index % Math.max(names.length, 1)];
      return name === undefined ? [] : [{ ...one, uid: target, pod: name }];
    });
    const upkeep = plan.upkeep.map((one) => ({ ...one, uid: target }));
    // Nobody may be told of pods that may go who does not ask.
    const standing = plan.standing.kind === 'pods' && !permit?.chooses ? restful.standing : plan.standing;
    const planned = {
      ...{ upkeep, disruption, standing },
      ...(permit && {
        named: {
          to: '',
          pods: new Map(names.flatMap((name) => (plan.named[name] ? [[name, plan.named[name]] as const] : []))),
          ...{ awaited: 0, progress: { of: 3, updated: 0, ready: 0 } },
        },
      }),
    };
    return { ...planned, ...(againInMs !== undefined && { againInMs }) };
  }

  async #act({ pod: name, uid: target, actMs, seenMs, ends }: Step) {
    const permit = this.#permits.get(`${target}/${name}`);
    if (name !== undefined && !permit?.mayDisrupt) this.wrongs.push('a pod was disrupted without a living permit');
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
    await fc.assert(property, { numRuns: 400 });
  });
});
