import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { mostInBatch } from '../../plan/permits/in-flight.ts';
import { newLife } from '../support/played-pulls.ts';
import { pullJob } from '../support/pull-objects.ts';
import {
  endPullPlays,
  nodeNames as names,
  PullPlay as Play,
  passMs,
  pullUid as uid,
  useClockOfPulls,
} from '../support/pull-play.ts';

beforeEach(useClockOfPulls);
afterEach(endPullPlays);

/** A run that has handed nothing in. */
const anew = { carried: { run: 'run-1', numbers: [], next: 1 } };

function waveOf(nodes: readonly string[], number = 1) {
  return { run: 'run-1', number, nodes };
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

  it('tell an operation that never asks to do so, less and less often, and no further node', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(3), { hasOperation: false });
    play.pass();
    expect(play.counts.tells).toBe(1);
    await passMs(3_600_000);
    expect(play.counts.tells).toBeGreaterThan(8);
    expect(play.counts.tells).toBeLessThan(15);
    for (const node of play.active()) play.states.set(node, 'succeeded');
    play.pass();
    expect(play.told).toHaveLength(2);
  });

  it('name first the nodes that were told before, also those that have ended by then', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(4));
    play.pass();
    play.end('n000');
    play.end('n001', 'failed');
    await play.playOut();
    expect(play.outcomes()).toEqual([
      { node: 'n000', at: expect.any(String), ms: expect.any(Number) },
      { node: 'n001', at: expect.any(String), why: 'the pull failed' },
      { node: 'n002', at: expect.any(String), ms: expect.any(Number) },
      { node: 'n003', at: expect.any(String), ms: expect.any(Number) },
    ]);
    expect([play.counts.tells, play.questions]).toEqual([1, 1]);
  });

  it('IPJ-20: name nodes that have ended in the reconcile that told them', () => {
    const play = new Play(pullJob({ parallelism: 3 }), names(3), { hasOperation: false });
    play.pass();
    for (const node of names(2)) play.end(node);
    // another leader knows nothing of them
    expect(play.newTerm().next(uid, anew)).toMatchObject({ kind: 'nodes', waves: [names(3)], of: 3, ended: 2 });
  });

  it('name no node twice when the job ends before the first is handed in', async () => {
    const play = new Play(pullJob({ parallelism: 3 }), names(3), { hasOperation: false });
    play.pass();
    expect(play.holder.next(uid, anew)).toMatchObject({ kind: 'nodes', waves: [names(3)], more: false });
    for (const node of names(3)) play.end(node);
    play.finish('Aborted');
    play.pass();
    const asked = { justPermitted: names(3), carried: { run: 'run-1', numbers: [1], next: 2 } };
    expect(play.holder.next(uid, asked)).toMatchObject({ kind: 'done', end: { reason: 'Aborted' } });
    const handedIn = play.holder.await(uid, waveOf(names(3)), newLife());
    play.pass();
    const { nodes, next } = await handedIn;
    expect(nodes.map(({ node, why }) => [node, why])).toEqual(names(3).map((node) => [node, undefined]));
    expect(next).toMatchObject({ kind: 'done' });
  });

  it.each([
    ['1', 1],
    ['100%', 500],
    ['7', 7],
  ])('IPJ-10: of 500 nodes at parallelism %s are 13, name each once and cost little', async (_, parallelism) => {
    const waves = 13;
    const play = new Play(pullJob({ parallelism }), names(500));
    await play.playOut();
    expect(play.most).toBe(parallelism);
    expect(play.told).toEqual(names(500));
    expect(play.named().toSorted()).toEqual(names(500));
    expect(play.operation?.outcomes.size).toBe(waves);
    expect(play.questions).toBeLessThanOrEqual(waves);
    expect(play.operation?.counts.signals).toBeLessThanOrEqual(waves);
  });

  it('name nodes ahead, so that no room is left unused', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(mostInBatch + 2));
    await play.settle();
    for (const node of names(mostInBatch)) {
      expect(play.active()).toEqual([node]);
      play.end(node);
      // told as soon as the permit of its wave is confirmed, without a question
      await play.settle();
      expect(play.active()).toHaveLength(1);
      await play.settle(1_000);
    }
    expect(play.active()).toEqual(['n040']);
    expect(play.inFlight()).toEqual(['n040', 'n041']);
  });

  it('are not told any further when the attempt of their activity is lost, and go on with the next one', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(3), { hasOperation: false });
    const { holder } = play;
    const life = newLife();
    play.pass();
    expect(holder.next(uid, anew)).toMatchObject({ kind: 'nodes', waves: [names(3)], more: false });
    const lost = holder.await(uid, waveOf(names(3)), life);
    life.end('Temporal has started another attempt');
    await expect(lost).rejects.toThrow('another attempt');
    play.end('n000');
    play.pass();
    expect(play.told).toEqual(['n000']);
    const again = holder.await(uid, waveOf(names(3)), newLife());
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
    const stale = play.holder.of(uid).permission(play.job, play.standings());
    play.newTerm();
    expect(stale.mayTell('n001')).toBe(false);
    await play.settle(1_000);
    await play.playOut();
    expect(play.told).toEqual(names(5));
    expect(play.named()).toEqual(names(5));
    expect(play.outcomes().map(({ why }) => why)).toEqual(names(5).map(() => undefined));
  });

  it('ADR 14: tell no node of a job that another leader has seen before, unless a wave names it', async () => {
    const play = new Play(pullJob({ parallelism: 0 }), names(3));
    for (const number of [1, 2, 3]) play.pausedByHand.add(number);
    await play.settle(10_000);
    play.job = { ...pullJob({ parallelism: 2 }), ...(play.job.status && { status: play.job.status }) };
    await play.settle(10_000);
    expect([play.told, play.inFlight()]).toEqual([[], names(3)]);
    play.newTerm();
    await play.settle(10_000);
    expect(play.told).toEqual([]);
  });

  it('say of a node that has ended while nobody listened what its NodeImage says', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(2), { hasOperation: false });
    play.end('n000');
    play.end('n001', 'failed');
    const outcome = play.holder.await(uid, waveOf(names(2), 3), newLife());
    const [first, second] = play.standings();
    if (!first || !second) throw new Error('too few nodes');
    const told = { toldAt: '2026-11-22T10:00:00Z', endedAt: '2026-11-22T10:00:07Z' };
    const nodes = [
      { ...first, ...told },
      { ...second, ...told, why: 'not found' },
    ];
    play.holder.of(uid).judge({ job: play.job, nodes, mayTell: true });
    expect((await outcome).nodes).toEqual([
      { node: 'n000', at: told.toldAt, ms: 7_000 },
      { node: 'n001', at: told.toldAt, why: 'not found' },
    ]);
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
    await play.settle(1_000);
    expect(play.inFlight()).toEqual(['n000']);
  });

  it('P-7: give back what was not told while the job is paused, report it, and continue when it is not', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(50));
    await play.settle();
    play.pause(true);
    await play.settle(6_000);
    expect(play.holder.progressOf(uid, 1)).toMatchObject({ of: 1, told: 1 });
    play.end('n000');
    await play.settle(3_600_000);
    expect(play.told).toEqual(['n000']);
    expect(play.operation?.progress()).toMatchObject({ waitingFor: { reason: 'Paused' }, inFlight: [], failed: [] });
    expect(play.outcomes().slice(0, 2)).toEqual([
      { node: 'n000', at: expect.any(String), ms: expect.any(Number) },
      { node: 'n001', why: 'not now: Paused' },
    ]);
    const { questions } = play;
    play.pause(false);
    await play.settle(1_000);
    await play.playOut();
    expect(play.named()).toEqual(names(50));
    expect(play.questions).toBeLessThanOrEqual(questions + 2);
  });

  it('P-7: go on in the same wave when a pause is short', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(5));
    await play.settle();
    play.pause(true);
    await play.settle(3_000);
    play.pause(false);
    await play.playOut();
    expect(play.operation?.outcomes.size).toBe(1);
    expect(play.outcomes().map(({ why }) => why)).toEqual(names(5).map(() => undefined));
  });

  it('P-7: give back a node that has become full, and name it again when it has room', async () => {
    const play = new Play(pullJob({ parallelism: 1, completionPolicy: { type: 'Never' } }), names(3));
    await play.settle();
    play.full.add('n002');
    await play.playOut();
    expect(play.outcomes().at(-1)).toEqual({ node: 'n002', why: 'not now: NodesFull' });
    await play.settle(10_000);
    expect(play.operation?.progress()).toMatchObject({ waitingFor: { reason: 'NodesFull' }, inFlight: [] });
    play.full.clear();
    await play.settle(1_000);
    await play.playOut();
    expect(play.named()).toEqual(names(3));
  });

  it('of which one node each has become full keep no other node from its turn', async () => {
    const play = new Play(pullJob({ parallelism: 1, completionPolicy: { type: 'Never' } }), names(1_200));
    for (await play.settle(); play.active().length > 0; await play.settle(100)) {
      for (const node of play.active()) play.end(node);
      for (const { batch } of play.operation?.progress().inFlight ?? []) {
        if (batch.length === mostInBatch) play.full.add(batch.at(-1) ?? '');
      }
    }
    expect(play.standings().filter(({ state, held }) => state === 'unasked' && held === undefined)).toEqual([]);
  });

  it('say what is waited for, and that nothing is any more, whatever was told before', async () => {
    const play = new Play(pullJob({ parallelism: 1, completionPolicy: { type: 'Never' } }), ['a']);
    await play.playOut();
    play.full.add('b');
    play.states.set('b', 'unasked');
    const shown: unknown[] = [];
    const change = async (act: () => unknown) => {
      act();
      await play.settle(3_600_000);
      shown.push(play.operation?.progress().waitingFor?.reason);
    };
    await change(() => undefined);
    await change(() => {
      play.secretTrouble = 'Allow it';
    });
    await change(() => {
      play.secretTrouble = undefined;
    });
    await change(() => play.states.delete('b'));
    await change(() => play.states.set('b', 'unasked'));
    expect(shown).toEqual(['NodesFull', 'SecretRefused', 'NodesFull', undefined, 'NodesFull']);
    // a node that goes makes the next wait news
    play.full.clear();
    await play.settle(1_000);
    await play.playOut();
    play.full.add('c');
    play.states.set('c', 'unasked');
    await play.settle(10_000);
    expect(play.operation?.progress().waitingFor?.reason).toBe('NodesFull');
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
    expect(play.operation?.progress()).toMatchObject({ end: { reason: 'Aborted' }, inFlight: [] });
    // the result of the wave has said so
    expect([play.counts.tells, play.questions]).toEqual([1, 1]);
  });

  it('tell an operation without waves how the job has ended', async () => {
    const play = new Play(pullJob({ parallelism: 5, completionPolicy: { type: 'Never' } }), names(2));
    await play.playOut();
    expect(play.inFlight()).toEqual([]);
    play.finish('Aborted');
    await play.settle(1_000);
    expect(play.operation?.progress()).toMatchObject({ end: { reason: 'Aborted' } });
    expect(play.questions).toBe(2);
  });

  it('IPJ-5: name nodes that come later, and wake the operation for them', async () => {
    const play = new Play(pullJob({ parallelism: 5, completionPolicy: { type: 'Never' } }), names(2));
    await play.playOut();
    await play.settle(7 * 24 * 3_600_000);
    expect(play.operation?.counts).toEqual({ signals: 1, questions: 1 });
    play.states.set('later', 'unasked');
    await play.settle();
    await play.settle();
    expect(play.active()).toEqual(['later']);
    expect(play.inFlight()).toEqual(['later']);
    expect(play.operation?.counts).toEqual({ signals: 2, questions: 2 });
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
    play.isGone = true;
    expect(play.holder.forget(uid)).toBe(true);
    await passMs();
    expect(play.operation?.progress()).toMatchObject({ end: 'withdrawn', inFlight: [] });
    const [first, second, third] = play.outcomes();
    expect(first).toMatchObject({ node: 'n000', ms: expect.any(Number) });
    expect(second).toMatchObject({ node: 'n001', why: 'the job was deleted' });
    expect(third).toEqual({ node: 'n002', why: 'the job was deleted' });
    expect(play.holder.next(uid)).toMatchObject({ kind: 'withdrawn' });
  });

  it('are all named again for a history that begins anew', () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(3), { hasOperation: false });
    for (const node of names(2)) play.end(node);
    expect(play.holder.next(uid, anew)).toMatchObject({ waves: [names(3)] });
    // the answer was lost
    expect(play.holder.next(uid, anew)).toMatchObject({ waves: [names(3)] });
  });

  it('P-3: are named once more by an answer, and handed in once', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(90));
    await play.settle();
    for (let asks = 0; asks < 5; asks++) {
      play.operation?.changed();
      await play.settle();
    }
    await play.playOut();
    expect(play.named()).toEqual(names(90));
  });

  it('P-6: of another run end those of the run before', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(3), { hasOperation: false });
    play.pass();
    const before = play.holder.await(uid, { run: 'old', number: 6, nodes: names(3) }, newLife());
    const ended = expect(before).rejects.toThrow('the operation has taken the batch back');
    void play.holder.await(uid, { run: 'new', number: 7, nodes: ['n001'] }, newLife());
    await ended;
    play.end('n000');
    play.pass();
    play.end('n001');
    play.pass();
    expect(play.told).toEqual(['n000', 'n001']);
  });

  it('P-1: a second one takes a node from the first', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(2), { hasOperation: false });
    play.pass();
    const first = play.holder.await(uid, waveOf(names(2)), newLife());
    void play.holder.await(uid, waveOf(['n001'], 2), newLife());
    play.end('n000');
    play.pass();
    expect((await first).nodes).toEqual([
      { node: 'n000', at: expect.any(String), ms: expect.any(Number) },
      { node: 'n001', why: 'it is in wave 2' },
    ]);
    expect(play.told).toEqual(names(2));
  });

  it('P-2: of which one does not run keep only its own nodes from their turn', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(200));
    await play.settle();
    play.end('n000');
    await play.settle();
    // its activity is paused by hand
    play.pausedByHand.add(1);
    play.loseAttempts();
    // it may have got another attempt until then
    await play.settle(10_000);
    await play.playOut();
    expect(play.told).toHaveLength(163);
    await play.settle(60_000);
    expect(play.operation?.progress()).toMatchObject({
      waitingFor: { reason: 'WaveNotRunning', blockedBy: ['wave/1'] },
    });
  });

  it('P-2: of which one does not run, though its nodes have begun, keep others from nothing', async () => {
    const play = new Play(pullJob({ parallelism: 100 }), names(400));
    play.pausedByHand.add(1);
    await play.settle();
    for (let seconds = 0; seconds < 10; seconds++) {
      for (const node of play.active()) play.end(node);
      await play.settle(1_000);
    }
    expect(play.told).toHaveLength(400);
  });

  it('P-2: all of which are held up in the middle keep only their own nodes from their turn', async () => {
    const play = new Play(pullJob({ parallelism: 280, completionPolicy: { type: 'Never' } }), names(600));
    await play.settle(1_000);
    const inFlight = play.operation?.progress().inFlight ?? [];
    for (const { number } of inFlight) play.pausedByHand.add(number);
    play.loseAttempts();
    const waiting = play.inFlight().filter((node) => play.states.get(node) === 'unasked');
    for (let rounds = 0; rounds < 10; rounds++) {
      await play.settle(10_000);
      for (const node of play.active()) play.end(node);
    }
    const free = names(600).filter((node) => !waiting.includes(node));
    expect(free.filter((node) => !play.told.includes(node))).toEqual([]);
  });

  it.each(['active', 'succeeded'] as const)(
    'IPJ-20: do not keep an aborted job open though one of them is paused by hand, with a node that is %s',
    async (state) => {
      const play = new Play(pullJob({ parallelism: 1 }), names(3));
      await play.settle(2_000);
      play.pausedByHand.add(1);
      play.loseAttempts();
      await play.settle(2_000);
      if (state === 'succeeded') play.end('n000');
      play.finish('Aborted');
      await play.settle(120_000);
      const { actions } = play;
      await play.settle(24 * 3_600_000);
      expect(play.operation?.progress().end).toMatchObject({ reason: 'Aborted' });
      expect(play.actions).toBe(actions);
    },
  );

  it('P-2: whose attempts are lost again and again name no more nodes ahead for that', async () => {
    const play = new Play(pullJob({ parallelism: 1, completionPolicy: { type: 'Never' } }), names(200));
    await play.settle(1_000);
    for (let minutes = 0; minutes < 10; minutes++) {
      play.loseAttempts();
      await play.settle(60_000);
      expect(play.operation?.progress().inFlight).toHaveLength(1);
    }
  });

  it('P-7: give a paused job its turn again when it goes on, though one of their nodes still pulls', async () => {
    const play = new Play(pullJob({ parallelism: 5 }), names(30));
    await play.settle(1_000);
    play.pause(true);
    await play.settle(10_000);
    for (const node of names(4)) play.end(node);
    await play.settle(60_000);
    play.pause(false);
    await play.settle(1_000);
    expect(play.active()).toHaveLength(5);
  });

  it('P-7: give a node that was full its turn when it has room, though another one still pulls', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(3));
    await play.settle(1_000);
    play.full.add('n002');
    await play.settle(1_000);
    play.full.clear();
    play.end('n000');
    await play.settle(1_000);
    expect(play.active()).toEqual(['n001', 'n002']);
  });

  it('P-6: have nothing to begin while those that pull leave no room', () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(2), { hasOperation: false });
    play.pass();
    void play.holder.await(uid, waveOf(names(2)), newLife());
    expect(play.holder.isBegun(uid, 1)).toBe(false);
    play.pass();
    expect(play.holder.isBegun(uid, 1)).toBe(true);
    play.end('n000');
    play.holder.of(uid).judge(play.judgement());
    expect(play.holder.isBegun(uid, 1)).toBe(false);
  });

  it('wait for nodes that the look before did not show yet', async () => {
    const play = new Play(pullJob({ parallelism: 1 }), names(1), { hasOperation: false });
    play.pass();
    const waves = play.holder.of(uid);
    const [before, inFlight] = [play.judgement(), waves.inFlight()];
    play.states.set('later', 'unasked');
    let isOver = false;
    const later = play.holder.await(uid, waveOf(['later']), newLife());
    void later.then(() => {
      isOver = true;
    });
    waves.judge(before, inFlight);
    await passMs();
    expect(isOver).toBe(false);
    play.end('n000');
    play.pass();
    expect(play.told).toEqual(['n000', 'later']);
  });

  it('that end in the turn in which they were handed in are not named by the answer to one before', async () => {
    const play = new Play(pullJob({ parallelism: 3 }), names(3), { hasOperation: false });
    play.pass();
    play.holder.next(uid, anew);
    for (const node of names(3)) play.end(node);
    play.finish('Aborted');
    const first = play.holder.await(uid, waveOf(['n000']), newLife());
    play.pass();
    const nextOfFirst = (await first).next;
    expect(nextOfFirst).toMatchObject({ kind: 'nodes', waves: [['n001', 'n002']] });
    const second = play.holder.await(uid, waveOf(['n001', 'n002'], 2), newLife());
    play.pass();
    expect((await second).next).toMatchObject({ kind: 'done' });
  });

  it('are named once, also if an attempt at the first question is late', async () => {
    const play = new Play(pullJob({ parallelism: 2 }), names(3), { hasOperation: false });
    play.pass();
    play.holder.next(uid, anew);
    const wave = play.holder.await(uid, waveOf(names(3)), newLife());
    for (const node of names(2)) play.end(node);
    play.pass();
    play.end('n002');
    play.pass();
    expect((await wave).next.kind).toBe('nothing');
    play.holder.next(uid, anew);
    const later = play.holder.next(uid, { carried: { run: 'run-1', numbers: [], next: 2 } });
    expect(later.kind).toBe('nothing');
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
