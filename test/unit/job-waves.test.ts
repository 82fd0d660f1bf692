import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import { heldBackBy, type NodeStanding, nodesToTell } from '../../plan/images/image-pull-job.ts';
import { mostInWave, type NextNodes, pullEndOf, type WaveOutcome } from '../../plan/images/pull-waves.ts';
import { WaveHolder } from '../../watcher/kinds/image-pull-job/wave-holder.ts';
import { newLife, type PlayedPulls, playPulls } from '../support/played-pulls.ts';
import { bornAt, bornMs, pullJob } from '../support/pull-objects.ts';

const uid = 'job-1';
const played: PlayedPulls[] = [];

afterEach(() => {
  jest.useRealTimers();
  for (const pulls of played.splice(0)) pulls.stop();
});

type State = NodeStanding['state'];

/** Nodes and the reconciles of one job, in memory. */
class Play {
  job: ImagePullJob;
  readonly states = new Map<string, State>();
  readonly told: string[] = [];
  /** The most nodes that pulled at once. */
  most = 0;
  passes = 0;
  /** When the last reconcile wants another one. */
  againInMs: number | undefined;
  holder: WaveHolder;
  wakes = '';
  #isWoken = false;
  readonly #pulls: PlayedPulls | undefined;

  readonly #isToldAtStart: boolean;

  constructor(job: ImagePullJob, nodes: readonly string[], { hasOperation = true, isToldAtStart = true } = {}) {
    this.#isToldAtStart = isToldAtStart;
    this.job = job;
    for (const node of nodes) this.states.set(node, 'unasked');
    this.holder = this.newTerm();
    if (!hasOperation) return;
    this.#pulls = playPulls(() => this.holder);
    played.push(this.#pulls);
  }

  /** Another leader. */
  newTerm(lost: AbortSignal = new AbortController().signal): WaveHolder {
    this.holder = new WaveHolder({ lost }, () => {
      this.#isWoken = true;
    });
    return this.holder;
  }

  get operation() {
    return this.#pulls?.of(uid);
  }

  named(): readonly string[] {
    return (this.operation?.answers ?? []).flatMap((answer) => (answer.kind === 'wave' ? answer.nodes : []));
  }

  outcomes() {
    return [...(this.operation?.outcomes.values() ?? [])].flatMap(({ nodes }) => nodes);
  }

  active(): readonly string[] {
    return [...this.states].filter(([, state]) => state === 'active').map(([node]) => node);
  }

  standings(): readonly NodeStanding[] {
    return [...this.states]
      .map(([node, state]) => ({ node, state, lacksSecret: false }))
      .sort((a, b) => (a.node < b.node ? -1 : 1));
  }

  /** One reconcile, like that of the controller. */
  pass(): void {
    this.#isWoken = false;
    this.passes += 1;
    const end = pullEndOf(this.job);
    const waves = this.holder.of(uid);
    const before = this.standings();
    if (end) {
      waves.finish(this.job, before, end);
      return;
    }
    waves.see(before);
    const mayTell = waves.permission(before);
    for (const node of nodesToTell(this.job, before, mayTell)) {
      if (!mayTell(node)) continue;
      waves.begins(node, bornMs);
      this.states.set(node, 'active');
      this.told.push(node);
    }
    this.most = Math.max(this.most, this.active().length);
    const nodes = this.standings();
    const judgement = {
      job: this.job,
      nodes,
      mayTell: true,
      heldBackBy: heldBackBy(this.job, nodes, { nowMs: bornMs }),
    };
    this.againInMs = waves.judge(judgement).againInMs;
    const first = this.#isToldAtStart ? waves.firstWave(judgement) : undefined;
    this.#pulls?.want({ argument: { job: { name: 'warm', uid }, first }, inputs: String(waves.wakes) });
  }

  /** Reconciles until nothing asks for another. */
  async settle(): Promise<void> {
    do {
      this.pass();
      await pause(0);
    } while (this.#isWoken);
  }

  end(node: string, state: State = 'succeeded'): void {
    this.states.set(node, state);
  }

  finish(reason: string): void {
    const failed = { type: 'Failed', status: 'True' as const, reason, message: reason, lastTransitionTime: bornAt };
    const counts = { desired: 0, active: 0, succeeded: 0, failed: 0 };
    this.job = { ...this.job, status: { ...counts, completionTime: bornAt, conditions: [failed] } };
  }

  /** Until no node pulls any more. */
  async playOut(): Promise<void> {
    for (await this.settle(); this.active().length > 0; await this.settle()) {
      const [first] = this.active();
      if (first !== undefined) this.end(first);
    }
  }
}

function names(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `n${String(index).padStart(3, '0')}`);
}

function paused(job: ImagePullJob, isPaused: boolean): ImagePullJob {
  const status = isPaused ? ('True' as const) : ('False' as const);
  const condition = { type: 'Paused', status, reason: 'X', message: 'X by ann', lastTransitionTime: bornAt };
  return { ...job, status: { desired: 0, active: 0, succeeded: 0, failed: 0, conditions: [condition] } };
}

describe('the waves of a job', () => {
  it('IPJ-10: tell the first nodes before the operation has begun, and no further one', () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(4), { hasOperation: false });
    play.pass();
    expect(play.told).toEqual(['n000', 'n001']);
    play.end('n000');
    play.pass();
    expect(play.told).toHaveLength(2);
  });

  it('of an operation that asks for nothing wake it every ten minutes, and tell no further node', () => {
    jest.useFakeTimers();
    const play = new Play(pullJob({ parallelism: 2 }), names(3), { hasOperation: false });
    const waves = play.holder.of(uid);
    play.pass();
    expect([play.againInMs, waves.wakes]).toEqual([600_000, 0]);
    jest.advanceTimersByTime(599_000);
    play.pass();
    expect([play.againInMs, waves.wakes]).toEqual([1_000, 0]);
    jest.advanceTimersByTime(1_000);
    play.pass();
    expect([play.againInMs, waves.wakes]).toEqual([600_000, 1]);
    for (const node of play.active()) play.states.set(node, 'succeeded');
    play.pass();
    expect(play.told).toHaveLength(2);

    // one that is begun again by a worker of this release asks
    void play.holder.ask(uid, { wave: 1, after: [] }, newLife());
    jest.advanceTimersByTime(3_600_000);
    play.pass();
    expect(waves.wakes).toBe(1);
  });

  it('IPJ-10: the first is told to the operation when it starts, the same until it is handed in', async () => {
    const play = new Play(pullJob({ parallelism: 1, completionPolicy: { type: 'Never' } }), names(3), {
      hasOperation: false,
    });
    const waves = play.holder.of(uid);
    const judgement = () => ({ job: play.job, nodes: play.standings(), mayTell: true });
    play.pass();
    const first = waves.firstWave(judgement());
    expect(first).toEqual({ image: play.job.spec.image, nodes: names(3), of: 3, ended: 0, rest: 0 });
    play.end('n000');
    play.job = paused(play.job, false);
    expect(waves.firstWave(judgement())).toBe(first);
    void play.holder.await(uid, { wave: 1, nodes: names(3) }, newLife());
    expect(waves.firstWave(judgement())).toBeUndefined();
    // it does not ask, so it is woken for a node that comes later
    play.pass();
    expect(waves.wakes).toBe(0);
    play.states.set('later', 'unasked');
    play.end('n001');
    play.end('n002');
    play.pass();
    expect(waves.wakes).toBe(1);
  });

  it('name no node twice when the job ends before the first is handed in', async () => {
    const play = new Play(pullJob({ parallelism: 3 }), names(3), { hasOperation: false });
    play.pass();
    const judgement = { job: play.job, nodes: play.standings(), mayTell: true };
    const first = play.holder.of(uid).firstWave(judgement);
    for (const node of names(3)) play.end(node);
    play.finish('Aborted');
    const asked = play.holder.ask(uid, { wave: 2, after: [1] }, newLife());
    play.pass();
    expect(await asked).toMatchObject({ kind: 'finished' });
    const handedIn = play.holder.await(uid, { wave: 1, nodes: first?.nodes ?? [] }, newLife());
    play.pass();
    expect((await handedIn).nodes.map(({ node, why }) => [node, why])).toEqual(
      names(3).map((node) => [node, undefined]),
    );
  });

  it('IPJ-20: the first names nodes that have ended in the reconcile that told them', () => {
    const play = new Play(pullJob({ parallelism: 3 }), names(3), { hasOperation: false });
    play.pass();
    for (const node of names(2)) play.end(node);
    const fresh = play.newTerm().of(uid);
    const judgement = { job: play.job, nodes: play.standings(), mayTell: true };
    fresh.judge(judgement);
    expect(fresh.firstWave(judgement)).toMatchObject({ nodes: names(3), ended: 2, rest: 0 });
  });

  it('IPJ-10: no first is told while the job is paused, or by a leader that did not see it new', () => {
    const play = new Play(paused(pullJob({ parallelism: 1 }), true), names(3), { hasOperation: false });
    play.pass();
    const judgement = { job: play.job, nodes: play.standings(), mayTell: true };
    expect(play.holder.of(uid).firstWave(judgement)).toBeUndefined();
    const started = { ...play.job, status: { desired: 3, active: 0, succeeded: 0, failed: 0, startTime: bornAt } };
    expect(
      play
        .newTerm()
        .of(uid)
        .firstWave({ ...judgement, job: started }),
    ).toBeUndefined();
  });

  it('name the nodes that were told first, also when they have ended by then', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(4));
    play.pass();
    play.end('n000');
    play.end('n001', 'failed');
    await play.playOut();
    expect(play.named()).toEqual(names(4));
    expect(play.outcomes()).toEqual([
      { node: 'n000', at: expect.any(String), ms: expect.any(Number) },
      { node: 'n001', at: expect.any(String), why: 'the pull failed' },
      { node: 'n002', at: expect.any(String), ms: expect.any(Number) },
      { node: 'n003', at: expect.any(String), ms: expect.any(Number) },
    ]);
  });

  it.each([
    ['1', 1, true],
    ['1', 1, false],
    ['100%', 500, true],
    ['100%', 500, false],
    ['7', 7, true],
  ])(
    'IPJ-10: of 500 nodes at parallelism %s are 13, name each once and cost each a few reconciles',
    async (_, parallelism, isToldAtStart) => {
      const waves = 13;
      const play = new Play(pullJob({ parallelism }), names(500), { isToldAtStart });
      await play.playOut();
      expect(play.most).toBe(parallelism);
      expect(play.told).toEqual(names(500));
      expect(play.named().toSorted()).toEqual(names(500));
      expect(play.operation?.outcomes.size).toBeLessThanOrEqual(waves);
      // each wave is two activities, and one more question says that it waits
      expect(play.operation?.answers.length).toBeLessThanOrEqual(waves + 1);
      expect(play.passes).toBeLessThan(500 + 6 * waves + 10);
    },
  );

  it('tell nodes ahead while the question is pending, so that nothing waits for the answer', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(mostInWave + 2));
    await play.settle();
    for (const node of names(mostInWave)) {
      expect(play.active()).toEqual([node]);
      play.end(node);
      play.pass();
      // told in the same reconcile in which the one before has ended
      expect(play.active()).toHaveLength(1);
      await play.settle();
    }
    expect(play.active()).toEqual(['n040']);
    expect(play.named()).toHaveLength(mostInWave + 2);
  });

  it('are not told any further when the attempt of their activity is lost, and go on with the next one', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(3), { hasOperation: false });
    const { holder } = play;
    const life = newLife();
    play.pass();
    const asked = holder.ask(uid, { wave: 1, after: [] }, life);
    play.pass();
    expect(await asked).toMatchObject({ kind: 'wave', nodes: names(3), rest: 0 });
    const lost = holder.await(uid, { wave: 1, nodes: names(3) }, life);
    life.end('Temporal has started another attempt');
    await expect(lost).rejects.toThrow('another attempt');
    play.end('n000');
    play.pass();
    expect(play.told).toEqual(['n000']);
    const again = holder.await(uid, { wave: 1, nodes: names(3) }, newLife());
    play.pass();
    expect(play.told).toEqual(['n000', 'n001']);
    for (const node of names(3).slice(1)) {
      play.end(node);
      play.pass();
    }
    expect((await again).nodes.map(({ node, why }) => [node, why])).toEqual(names(3).map((node) => [node, undefined]));
    expect(play.told).toEqual(names(3));
  });

  it('of two leaders only tell by that one whose activities count, and nothing twice', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(5));
    await play.settle();
    const before = play.holder;
    const stale = before.of(uid).permission(play.standings());
    play.newTerm();
    before.of(uid).fail(new Error('the lease is lost'));
    expect(stale('n001')).toBe(false);
    await pause(60);
    await play.playOut();
    expect(play.told).toEqual(names(5));
    expect(play.named()).toEqual(names(5));
    expect(play.outcomes().map(({ why }) => why)).toEqual(names(5).map(() => undefined));
  });

  it('say of a node that has ended while nobody listened what its NodeImage says', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(2), { hasOperation: false });
    play.end('n000');
    play.end('n001', 'failed');
    const outcome = play.holder.await(uid, { wave: 3, nodes: names(2) }, newLife());
    const [first, second] = play.standings();
    if (!first || !second) throw new Error('too few nodes');
    const told = { toldAt: '2026-11-22T10:00:00Z', endedAt: '2026-11-22T10:00:07Z' };
    const nodes = [
      { ...first, ...told },
      { ...second, ...told, why: 'not found' },
    ];
    play.holder.of(uid).judge({ job: play.job, nodes, mayTell: true });
    expect(await outcome).toEqual({
      nodes: [
        { node: 'n000', at: told.toldAt, ms: 7_000 },
        { node: 'n001', at: told.toldAt, why: 'not found' },
      ],
    });
  });

  it('wait for a node that is retried', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(2));
    await play.settle();
    play.end('n000', 'failed');
    await play.settle();
    play.end('n000', 'active');
    play.end('n001');
    await play.settle();
    expect(play.outcomes()).toEqual([]);
    play.end('n000');
    await play.settle();
    expect(play.outcomes().map(({ node, why }) => [node, why])).toEqual([
      ['n000', undefined],
      ['n001', undefined],
    ]);
  });

  it('name a node again that is retried after its wave', async () => {
    const play = new Play(pullJob({ parallelism: 2, completionPolicy: { type: 'Never' } }), names(2));
    await play.settle();
    play.end('n000', 'failed');
    play.end('n001');
    await play.settle();
    expect(play.outcomes()).toHaveLength(2);
    play.end('n000', 'active');
    await play.settle();
    expect(play.named()).toEqual(['n000', 'n001', 'n000']);
  });

  it('stop while the job is paused, report it, and continue when it is not', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(50));
    await play.settle();
    play.job = paused(play.job, true);
    await play.settle();
    expect(play.operation?.answers.at(-1)).toMatchObject({ kind: 'blocked', waitingFor: { reason: 'Paused' } });
    play.end('n000');
    await play.settle();
    expect(play.told).toEqual(['n000']);
    const { length } = play.operation?.answers ?? [];
    play.job = paused(play.job, false);
    await play.playOut();
    expect(play.named()).toEqual(names(50));
    expect(play.operation?.answers.length).toBeLessThanOrEqual((length ?? 0) + 2);
  });

  it('end with the job when it is aborted, and say so of nodes that have not ended', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(3));
    await play.settle();
    play.end('n000');
    await play.settle();
    play.finish('Aborted');
    await play.settle();
    expect(play.outcomes()).toEqual([
      { node: 'n000', at: expect.any(String), ms: expect.any(Number) },
      { node: 'n001', at: expect.any(String), why: 'the job has ended: Aborted' },
      { node: 'n002', why: 'the job has ended: Aborted' },
    ]);
  });

  it('answer how the job has ended when the operation still asks', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(50));
    await play.settle();
    play.finish('DeadlineExceeded');
    await play.settle();
    expect(play.operation?.answers.at(-1)).toEqual({
      kind: 'finished',
      end: { failed: true, reason: 'DeadlineExceeded', message: 'DeadlineExceeded' },
    });
  });

  it('IPJ-5: name nodes that come later, and wake the operation for them', async () => {
    const play = new Play(pullJob({ parallelism: 5, completionPolicy: { type: 'Never' } }), names(2));
    await play.playOut();
    const { length } = play.operation?.answers ?? [];
    play.states.set('later', 'unasked');
    await play.settle();
    await play.settle();
    expect(play.active()).toEqual(['later']);
    expect(play.named()).toEqual([...names(2), 'later']);
    expect(play.operation?.answers.length).toBe((length ?? 0) + 1);
  });

  it('go on without a node that the job does not select any more', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(3));
    await play.settle();
    play.states.delete('n001');
    await play.playOut();
    expect(play.outcomes()).toEqual([
      expect.objectContaining({ node: 'n000' }),
      { node: 'n001', why: 'the job does not select this node any more' },
      expect.objectContaining({ node: 'n002' }),
    ]);
  });

  it('end with a job that is deleted', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(50));
    await play.settle();
    play.end('n000');
    play.pass();
    play.holder.forget(uid);
    await pause(0);
    expect(play.operation?.answers.at(-1)).toEqual({ kind: 'gone' });
    const [first, second, third] = play.outcomes();
    expect(first).toMatchObject({ node: 'n000', ms: expect.any(Number) });
    expect(second).toMatchObject({ node: 'n001', why: 'the job was deleted' });
    expect(third).toEqual({ node: 'n002', why: 'the job was deleted' });
  });

  it('are all named again for a history that begins anew', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(3), { hasOperation: false });
    for (const node of names(2)) play.end(node);
    const asked = play.holder.ask(uid, { wave: 1, after: [] }, newLife());
    play.pass();
    expect(await asked).toMatchObject({ nodes: names(3) });
    // the answer was lost
    const again = play.holder.ask(uid, { wave: 1, after: [] }, newLife());
    play.pass();
    expect(await again).toMatchObject({ nodes: names(3) });
  });

  it('are named by none while a wave that is in flight is not handed in', async () => {
    const play = new Play(pullJob({ parallelism: 5 }), names(3), { hasOperation: false });
    play.end('n000', 'active');
    let answer: NextNodes | undefined;
    void play.holder.ask(uid, { wave: 2, after: [1] }, newLife()).then((next) => {
      answer = next;
    });
    play.pass();
    await pause(0);
    expect([answer, play.told]).toEqual([undefined, []]);
    let outcome: WaveOutcome | undefined;
    void play.holder.await(uid, { wave: 1, nodes: ['n000'] }, newLife()).then((ended) => {
      outcome = ended;
    });
    play.pass();
    await pause(0);
    expect(outcome).toBeUndefined();
    expect(answer).toMatchObject({ kind: 'wave', nodes: ['n001', 'n002'] });
  });

  it('show how far they are', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(3));
    await play.settle();
    play.end('n000', 'failed');
    await play.settle();
    expect(play.holder.progressOf(uid, 1)).toEqual({
      of: 3,
      told: 3,
      pulled: 0,
      failed: ['n000'],
      now: ['n001', 'n002'],
    });
  });
});
