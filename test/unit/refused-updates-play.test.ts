import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { pino } from 'pino';
import type { Pod } from '../../api/core/pod.ts';
import { KubeError } from '../../kube/failures.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import type { Answer } from '../../plan/fleet/permit.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import type { FleetKind } from '../../watcher/fleet/kind.ts';
import { FleetQueue } from '../../watcher/fleet/queue.ts';
import { cloneSet, newName, newPodOf, pod, setUid, world } from '../support/cloneset-world.ts';
import { type PlayedQueue, PlayedRollOut } from '../support/played-roll-out.ts';

beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] }));
afterEach(() => void jest.useRealTimers());

const [secondMs, weekMs] = [1_000, 7 * 24 * 3_600_000];
const refusal = () => new KubeError({ status: 403, message: 'admission webhook "guard" denied the request: frozen' });

/** A CloneSet whose pods are updated at once, unless the API server refuses that, and the roll-out that asks which go. */
class Play {
  /** Pods whose update is refused. */
  refuses: (name: string) => boolean = () => false;
  /** The same of dry runs. Absent: as updates. */
  refusesDryRun: ((name: string) => boolean) | undefined;
  /** Questions of the roll-out, each with the signal that has led to it, and batches: billable actions. */
  actions = 0;
  /** Writes that were asked for, by pod. */
  readonly attempts: string[] = [];
  readonly dryRuns: string[] = [];
  lastAnswer: Answer | undefined;
  readonly #pods: Map<string, Pod>;
  readonly #queue: FleetQueue<CloneSetInput, Intention>;
  readonly #rollOut: PlayedRollOut;
  readonly #maxUnavailable: number | string;

  constructor(replicas: number, maxUnavailable: number | string) {
    this.#maxUnavailable = maxUnavailable;
    this.#pods = new Map(
      Array.from({ length: replicas }, (_, index) => pod(`web-${index + 1000}`)).map((one) => [one.metadata.uid, one]),
    );
    const term = { isLeading: () => true, lost: new AbortController().signal };
    const options = {
      term,
      log: pino({ level: 'silent' }),
      nowMs: () => Date.now(),
      concurrency: 1,
      parallelSteps: 64,
    };
    this.#queue = new FleetQueue({ fleet: this.#fleet(), ...options });
    const counting: PlayedQueue = {
      next: (uid: string) => this.#queue.next(uid),
      carryOut: (...given) => {
        this.actions += 1;
        return this.#queue.carryOut(...given).then((result) => {
          this.#heard(result.next);
          return result;
        });
      },
    };
    this.#rollOut = new PlayedRollOut(() => counting, setUid);
    this.#queue.add(setUid, 'fullPass');
  }

  updated(): readonly string[] {
    const all = [...this.#pods.values()].map(({ metadata }) => metadata);
    return all.filter(({ labels }) => labels?.['controller-revision-hash'] === newName).map(({ name }) => name);
  }

  results() {
    return this.#rollOut.results.flatMap(({ pods }) => pods);
  }

  /** An event of one of its pods. */
  event(): void {
    this.#queue.add(setUid, 'changed');
  }

  edit(): void {
    this.#queue.add(setUid, 'edited');
  }

  /** Something happens every so often, for so long. */
  async passes(ms: number, everyMs = ms, happens: () => void = () => undefined): Promise<void> {
    for (let left = ms; left > 0; left -= everyMs) {
      happens();
      await jest.advanceTimersByTimeAsync(Math.min(everyMs, left));
    }
  }

  /** As the workflow: pods of an answer that comes with a result are permitted at once. */
  #heard(answer: Answer): void {
    this.lastAnswer = answer;
    if (answer.kind === 'pods') setTimeout(() => this.#ask(), 10);
  }

  #ask(): void {
    this.lastAnswer = this.#rollOut.ask();
  }

  #fleet(): FleetKind<CloneSetInput, Intention> {
    const meet = (name: string, refuses: (name: string) => boolean) => {
      if (refuses(name)) throw refusal();
    };
    const podOf = (step: Intention) => ('pod' in step && step.kind !== 'createPod' ? step.pod : undefined);
    return {
      kind: 'CloneSet',
      look: (uid) => {
        const refused = this.#queue.refused(uid, (podUid) => this.#pods.has(podUid));
        const { size } = this.#pods;
        const set = cloneSet({ replicas: size, rollingUpdate: { maxUnavailable: this.#maxUnavailable } });
        return world({ set, pods: [...this.#pods.values()], more: refused ? { refused } : {} });
      },
      plan: (given, permit) => planCloneSet({ ...given, ...(permit && { permit }) }),
      wake: () => {
        this.actions += 2; // the signal and the question
        setTimeout(() => this.#ask(), 10);
      },
      together: () => 'freely',
      retryKey: (step) => `${step.kind} ${podOf(step)?.uid}`,
      podOf,
      act: async (step) => {
        if (step.kind !== 'updatePod') return undefined;
        const { name, uid } = step.pod;
        this.attempts.push(name);
        meet(name, this.refuses);
        this.#pods.set(uid, newPodOf(name));
        return async () => undefined;
      },
      updateIn: (step) =>
        step.kind === 'updatePod' ? { uid: step.pod.uid, revision: step.revision, isWhole: true } : undefined,
      tryOut: async ({ pod: { name } }) => {
        this.dryRuns.push(name);
        meet(name, this.refusesDryRun ?? this.refuses);
      },
      catchUp: async () => undefined,
    };
  }
}

const isOneOf =
  (names: readonly string[]) =>
  (name: string): boolean =>
    names.includes(name);

describe('P-7: a roll-out of which writes are refused', () => {
  it.each([
    ['20%', 100],
    [1, 100],
    ['100%', 100],
    [1, 3],
  ])(
    'of every pod costs at most 600 actions in a week, at maxUnavailable %s of %d',
    async (maxUnavailable, replicas) => {
      const play = new Play(replicas, maxUnavailable);
      play.refuses = () => true;
      await play.passes(60 * secondMs, secondMs);
      expect(play.lastAnswer).toMatchObject({ kind: 'wait', waitingFor: { reason: 'CannotUpdate' } });
      const { actions } = play;
      await play.passes(weekMs);
      expect(actions).toBeLessThanOrEqual(60);
      expect(play.actions).toBeLessThanOrEqual(100);
      expect(new Set(play.dryRuns).size).toBe(replicas);
    },
  );

  it('costs no more where something happens every minute', async () => {
    const play = new Play(40, 1);
    play.refuses = () => true;
    await play.passes(weekMs / 7, 60 * secondMs, () => play.event());
    expect(play.actions).toBeLessThanOrEqual(100);
    // each pod once an hour, and more often at first
    expect(play.dryRuns.length).toBeLessThanOrEqual(40 * (24 + 12));
  });

  it.each([1, 2, '20%'])(
    'costs at most 600 actions in a week also where dry runs are accepted, at %s',
    async (budget) => {
      const play = new Play(40, budget);
      play.refuses = () => true;
      play.refusesDryRun = () => false;
      await play.passes(weekMs, 600 * secondMs, () => play.edit());
      expect(play.actions).toBeLessThanOrEqual(600);
      expect(new Set(play.attempts).size).toBe(40);
    },
  );

  it.each([1, '20%'])('updates all others, wherever these stand, at maxUnavailable %s', async (maxUnavailable) => {
    const play = new Play(40, maxUnavailable);
    const bad = Array.from({ length: 14 }, (_, index) => `web-${1000 + index}`);
    play.refuses = isOneOf(bad);
    await play.passes(120 * secondMs, secondMs);
    expect(play.updated()).toHaveLength(26);
    const { actions } = play;
    await play.passes(weekMs);
    expect(play.actions - actions).toBeLessThanOrEqual(20);
    expect(play.results().find(({ why }) => why)?.why).toMatch(/^not now: refused: admission webhook "guard" denied/);
  });

  it('updates the only good one of 300, within minutes', async () => {
    const play = new Play(300, 1);
    play.refuses = (name) => name !== 'web-1150';
    await play.passes(300 * secondMs, secondMs);
    expect(play.updated()).toEqual(['web-1150']);
    expect(play.actions).toBeLessThanOrEqual(60);
  });

  it('goes on by itself when nothing is refused any more, and at once when the object is edited', async () => {
    for (const how of ['by itself', 'edited'] as const) {
      const play = new Play(20, '20%');
      play.refuses = () => true;
      await play.passes(600 * secondMs, secondMs);
      expect(play.updated()).toEqual([]);
      play.refuses = () => false;
      if (how === 'edited') play.edit();
      await play.passes((how === 'edited' ? 10 : 1200) * secondMs, secondMs);
      expect(play.updated()).toHaveLength(20);
    }
  });

  it('asks the API server for one write and 16 dry runs in 5 s at most, beyond the batches', async () => {
    const play = new Play(300, '10%');
    play.refuses = () => true;
    await play.passes(10 * secondMs, secondMs);
    const before = { attempts: play.attempts.length, dryRuns: play.dryRuns.length };
    await play.passes(100 * secondMs, secondMs, () => play.event());
    expect(play.attempts.length - before.attempts).toBe(0);
    expect(play.dryRuns.length - before.dryRuns).toBeLessThanOrEqual(16 * 21);
  });
});
