import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import {
  asked,
  asks,
  begun,
  handedInAgain,
  heard,
  isOver,
  justPermitted,
  mayBegin,
  type RollOutNews,
  type RollOutProgress,
} from '../../plan/fleet/roll-out.ts';
import { carriedIn } from '../../plan/permits/in-flight.ts';
import type { FleetQueue } from '../../watcher/fleet/queue.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';
import '../support/property-seed.ts';
import { TrivialCluster, type TrivialStep, type TrivialWorld } from '../support/trivial-fleet.ts';
import { trivialQueue } from '../support/trivial-queue.ts';

const uid = 'fleet-1';
const fleet = { uid, replicas: 5, revision: 'new', maxUnavailable: 2, minReadyMs: 0 };
const facts: RollOutFacts = { generation: 2, revision: 'new', previous: 'old', replicas: 5 };
const longWaitMs = 60_000;
function lifeUntil(ended: AbortSignal): PermitLife {
  return { isAlive: () => !ended.aborted, ended };
}

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
  #isAsking = false;
  /** What takes back each batch that is carried out, by run and number. */
  readonly #begun = new Map<string, AbortController>();
  #runs = 0;
  /** How often the roll-out has asked. */
  questions = 0;
  #pending = 0;
  #isTemporalAway = false;
  #isRunning = false;
  #isBegun = false;
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
    this.cluster.onWake = () => {
      if (this.#isTemporalAway) return;
      // whoever is to roll out what is left is started with it
      const isWanted = this.cluster.pods(uid).some(({ revision }) => revision !== fleet.revision);
      if (!this.#isRunning && isWanted) {
        this.progress = begun(facts, { namespace: 'shop' });
        this.#runs += 1;
        this.#isRunning = this.#isBegun;
      }
      this.#put({ kind: 'changed' });
    };
  }

  async begin(): Promise<void> {
    this.newLeader();
    this.cluster.put({ ...fleet, revision: 'old' });
    await pass();
    this.makeAllReady();
    this.cluster.put(fleet);
    await pass();
    this.#isBegun = true;
    this.#isRunning = true;
    this.#workflow();
  }

  /** Whether the roll-out has ended. */
  get isOver(): boolean {
    return !this.#isRunning;
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
    const fleet = this.cluster.fleet(isLeading);
    this.#queue = trivialQueue(this.cluster, { fleet, term: { isLeading, lost: lost.signal }, longWaitMs });
    this.#queue.add(uid, 'fullPass');
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
      if (!this.#isRunning) return;
      this.progress = heard(this.progress, news);
      this.#workflow();
    }, delayMs);
  }

  /** As the workflow does: batches first, then a question. */
  #workflow(): void {
    this.progress = handedInAgain(this.progress, Date.now());
    const keyOf = (number: number) => `${this.#runs}/${number}`;
    const wanted = new Set(this.progress.inFlight.map(({ number }) => keyOf(number)));
    for (const [key, permit] of this.#begun) if (!wanted.has(key)) permit.abort(new Error('taken back'));
    const run = String(this.#runs);
    for (const { number, batch } of mayBegin(this.progress)) {
      if (this.#begun.has(keyOf(number))) continue;
      const permit = new AbortController();
      this.#begun.set(keyOf(number), permit);
      this.#attempt(
        (queue) => queue.carryOut(uid, { run, number, batch }, lifeUntil(permit.signal)),
        (result) => this.#put({ kind: 'carriedOut', number, result, atMs: Date.now() }),
        permit.signal,
      );
    }
    if (asks(this.progress) && !this.#isAsking) {
      this.#isAsking = true;
      this.questions += 1;
      const carried = { ...carriedIn(this.progress), run: String(this.#runs) };
      const question = { justPermitted: justPermitted(this.progress, Date.now()), carried };
      this.progress = asked(this.progress);
      this.#attempt(
        async (queue) => queue.next(uid, question),
        (answer) => {
          this.#put({ kind: 'answer', answer, atMs: Date.now() });
          this.#isAsking = false;
        },
      );
    }
    if (isOver(this.progress) && !this.#isAsking) this.#isRunning = false;
  }

  /** An activity: it is tried again, by the next leader too, until it is taken back. */
  #attempt<Answer>(
    ask: (queue: FleetQueue<TrivialWorld, TrivialStep>) => Promise<Answer>,
    answered: (answer: Answer) => void,
    takenBack = new AbortController().signal,
  ): void {
    this.#pending += 1;
    const tryOnce = (): void => {
      if (takenBack.aborted) {
        this.#pending -= 1;
        return;
      }
      const queue = this.#queue;
      if (queue === undefined) throw new Error('there is no leader');
      void ask(queue).then(
        (answer) => {
          this.#pending -= 1;
          answered(answer);
        },
        () => setTimeout(tryOnce, 500),
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

async function played({ acts, delays }: { readonly acts: readonly Act[]; readonly delays: readonly number[] }) {
  const play = new Play(delays);
  await play.begin();
  for (const act of acts) await act(play);
  play.temporalIsBack();
  return play;
}

describe('a roll-out with long waits', () => {
  it('restarts each pod once within the budget, and ends, whatever is parked, given back, lost or late', async () => {
    await fc.assert(
      fc.asyncProperty(plays, async (given) => {
        const play = await played(given);
        for (let round = 0; round < 40 && !play.isOver; round++) {
          play.makeAllReady();
          await pass(20_000);
        }
        const restarts = play.restarts();
        expect(restarts).toEqual({ 'pod-0': 1, 'pod-1': 1, 'pod-2': 1, 'pod-3': 1, 'pod-4': 1 });
        expect([play.beyondBudget, play.isOver]).toEqual([[], true]);
      }),
      { numRuns: Number(process.env.PLAYS ?? 150) },
    );
  });

  it('costs no activity while nothing changes', async () => {
    await fc.assert(
      fc.asyncProperty(plays, async (given) => {
        const play = await played(given);
        await pass(20 * longWaitMs);
        if (play.isOver) return;
        expect(play.pending).toBe(0);
        const { questions } = play;
        await pass(7 * 24 * 3_600_000);
        // it is reminded of a wait once a day
        expect(play.questions - questions).toBeLessThanOrEqual(8);
        expect(play.pending).toBe(0);
      }),
      { numRuns: Number(process.env.PLAYS ?? 150) },
    );
  });
});
