import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { pino } from 'pino';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import {
  begun,
  heard,
  isOver,
  type RollOutNews,
  type RollOutProgress,
  wantedChoice,
} from '../../plan/fleet/roll-out.ts';
import type { PermitLife } from '../../watcher/fleet/kind.ts';
import { FleetQueue } from '../../watcher/fleet/queue.ts';
import '../support/property-seed.ts';
import { TrivialCluster, type TrivialStep, type TrivialWorld } from '../support/trivial-fleet.ts';

const uid = 'fleet-1';
const fleet = { uid, replicas: 5, revision: 'new', maxUnavailable: 2, minReadyMs: 0 };
const facts: RollOutFacts = { generation: 1, revision: 'new', previous: 'old', replicas: 5 };
const longWaitMs = 60_000;
const forEver: PermitLife = { isAlive: () => true, ended: new AbortController().signal };

beforeEach(() => {
  jest.useFakeTimers({ now: Date.UTC(2026, 0, 1), doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

async function pass(ms = 0): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
}

/** The roll-out of one fleet, the leaders that it asks, and the ways between them, on which everything takes its time. */
class Play {
  readonly cluster = new TrivialCluster();
  progress: RollOutProgress = begun(facts, { namespace: 'shop' });
  #queue: FleetQueue<TrivialWorld, TrivialStep> | undefined;
  #lost = new AbortController();
  #asked = { key: '', life: new AbortController() };
  readonly #begun = new Set<number>();
  #pending = 0;
  #isTemporalAway = false;
  #isRunning = false;
  readonly #delays: readonly number[];
  #turn = 0;
  /** Restarts of pods in service for which the budget had no room. */
  readonly beyondBudget: string[] = [];

  /** `delays`: how long results and signals take, one after the other. */
  constructor(delays: readonly number[]) {
    this.#delays = delays;
    this.cluster.beforeWrite = ({ kind, name }) => {
      const down = this.cluster.pods(uid).filter(({ readyAtMs }) => readyAtMs === undefined);
      const isBeyond =
        kind === 'restart' && down.length >= fleet.maxUnavailable && !down.some((pod) => pod.name === name);
      if (isBeyond) this.beyondBudget.push(name);
    };
    this.cluster.onWake = async () => {
      if (this.#isTemporalAway) return false;
      this.#put({ kind: 'changed', change: undefined });
      return true;
    };
  }

  async begin(): Promise<void> {
    this.newLeader();
    this.cluster.put({ ...fleet, revision: 'old' });
    await pass();
    this.makeAllReady();
    this.cluster.put(fleet);
    await pass();
    this.#isRunning = true;
    this.#workflow();
  }

  /** Activities that are pending at the roll-out. */
  get pending(): number {
    return this.#pending;
  }

  newLeader(): void {
    this.#lost.abort(new Error('the lease is lost'));
    const lost = new AbortController();
    this.#lost = lost;
    const isLeading = () => !lost.signal.aborted;
    const queue = new FleetQueue({
      ...{ fleet: this.cluster.fleet(isLeading), log: pino({ level: 'silent' }), nowMs: () => Date.now() },
      term: { isLeading, lost: lost.signal },
      ...{ blockedAfterMs: 5_000, longWaitMs, concurrency: 4, parallelSteps: 4 },
    });
    this.#queue = queue;
    this.cluster.onShown = (changed) => queue.add(changed, 'changed');
    queue.add(uid, 'fullPass');
    // once a term, a watcher tells every roll-out what is wanted
    this.#put({ kind: 'changed', change: facts });
  }

  loseTemporal(): void {
    this.#isTemporalAway = !this.#isTemporalAway;
  }

  temporalIsBack(): void {
    this.#isTemporalAway = false;
  }

  makeReady(index: number): void {
    const pods = this.cluster.pods(uid).filter(({ readyAtMs }) => readyAtMs === undefined);
    const pod = pods[index % Math.max(pods.length, 1)];
    if (pod) this.cluster.makeReady(uid, pod.name, Date.now());
  }

  makeAllReady(): void {
    for (const { name } of this.cluster.pods(uid)) this.cluster.makeReady(uid, name, Date.now());
  }

  breakDown(index: number): void {
    this.cluster.breakDown(uid, `pod-${index % fleet.replicas}`);
  }

  #put(news: RollOutNews): void {
    const delayMs = this.#delays[this.#turn++ % this.#delays.length] ?? 0;
    setTimeout(() => {
      if (!this.#isRunning || isOver(this.progress)) return;
      this.progress = heard(this.progress, news);
      this.#workflow();
    }, delayMs);
  }

  /** As the workflow does: batches first, then one question. */
  #workflow(): void {
    for (const { number, revision, batch } of this.progress.inFlight) {
      if (this.#begun.has(number)) continue;
      this.#begun.add(number);
      this.#attempt(
        (queue) => queue.carryOut(uid, { number, revision, batch }, forEver),
        (verdict) => this.#put({ kind: 'carriedOut', number, verdict, atMs: Date.now() }),
      );
    }
    const wanted = wantedChoice(this.progress);
    const key = wanted ? JSON.stringify([wanted, this.progress.round]) : '';
    if (key === this.#asked.key) return;
    this.#asked.life.abort(new Error('another question is asked'));
    const life = new AbortController();
    this.#asked = { key, life };
    if (this.progress.awaitsFacts) setTimeout(() => this.#put({ kind: 'noFacts' }), 2_000);
    if (!wanted) return;
    const { leave, ...told } = wanted;
    const of = { leave, generation: 1, round: this.progress.round };
    const after = this.progress.inFlight.map(({ number }) => number);
    const permitLife: PermitLife = { isAlive: () => !life.signal.aborted, ended: life.signal };
    this.#attempt(
      (queue) => queue.choose(uid, { ...leave, after, ...told }, permitLife),
      (verdict) => {
        if (this.#asked.life === life) this.#put({ kind: 'verdict', verdict, of, atMs: Date.now() });
      },
      life.signal,
    );
  }

  /** An activity: it is tried again by the next leader. */
  #attempt<Answer>(
    ask: (queue: FleetQueue<TrivialWorld, TrivialStep>) => Promise<Answer>,
    answered: (answer: Answer) => void,
    cancelled?: AbortSignal,
  ): void {
    this.#pending += 1;
    const tryOnce = (): void => {
      const queue = this.#queue;
      if (queue === undefined) throw new Error('there is no leader');
      void ask(queue).then(
        (answer) => {
          this.#pending -= 1;
          answered(answer);
        },
        () => {
          if (cancelled?.aborted) this.#pending -= 1;
          else setTimeout(tryOnce, 500);
        },
      );
    };
    tryOnce();
  }

  /** Restarts, by pod. */
  restarts(): Readonly<Record<string, number>> {
    const writes = this.cluster.writes.filter(({ kind }) => kind === 'restart');
    const byPod = Map.groupBy(writes, ({ name }) => name);
    return Object.fromEntries([...byPod].map(([name, all]) => [name, all.length]));
  }
}

type Act = (play: Play) => void | Promise<void>;
const waits = [100, 3_000, 20_000, 70_000, 200_000].map(
  (ms): Act =>
    async () =>
      await pass(ms),
);
const acts: readonly Act[] = [
  ...waits,
  ...waits,
  (play) => play.newLeader(),
  (play) => play.loseTemporal(),
  ...[0, 1].flatMap((index): readonly Act[] => [
    (play) => play.makeReady(index),
    (play) => play.makeReady(index),
    (play) => play.breakDown(index * 3),
  ]),
];

const plays = fc.record({
  acts: fc.array(fc.constantFrom(...acts), { maxLength: 25 }),
  delays: fc.array(fc.constantFrom(0, 1, 50, 900, 7_000), { minLength: 1, maxLength: 6 }),
});

describe('a roll-out with long waits', () => {
  it('restarts each pod once within the budget, and ends, whatever is parked, given back, lost or late', async () => {
    await fc.assert(
      fc.asyncProperty(plays, async (given) => {
        const play = new Play(given.delays);
        await play.begin();
        for (const act of given.acts) await act(play);
        play.temporalIsBack();
        for (let round = 0; round < 12 && !isOver(play.progress); round++) {
          play.makeAllReady();
          await pass(20_000);
        }
        const restarts = play.restarts();
        expect(restarts).toEqual({ 'pod-0': 1, 'pod-1': 1, 'pod-2': 1, 'pod-3': 1, 'pod-4': 1 });
        expect([play.beyondBudget, isOver(play.progress)]).toEqual([[], true]);
      }),
      { numRuns: Number(process.env.PLAYS ?? 150) },
    );
  });

  it('costs no activity while nothing changes', async () => {
    await fc.assert(
      fc.asyncProperty(plays, async (given) => {
        const play = new Play(given.delays);
        await play.begin();
        for (const act of given.acts) await act(play);
        play.temporalIsBack();
        await pass(6 * longWaitMs);
        if (isOver(play.progress)) return;
        expect([play.progress.parked, play.pending]).toEqual(['watched', 0]);
        const { round } = play.progress;
        await pass(7 * 24 * 3_600_000);
        expect([play.progress.round, play.pending]).toEqual([round, 0]);
      }),
      { numRuns: Number(process.env.PLAYS ?? 150) },
    );
  });
});
