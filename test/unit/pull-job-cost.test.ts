import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { pullJob } from '../support/pull-objects.ts';
import { endPullPlays, nodeNames, PullPlay, useClockOfPulls } from '../support/pull-play.ts';

beforeEach(useClockOfPulls);
afterEach(endPullPlays);

const hourMs = 3_600_000;
const weekMs = 7 * 24 * hourMs;
const never = { completionPolicy: { type: 'Never' } } as const;

/** The actions of a week after this, once all is quiet. */
async function ofWeek(play: PullPlay, change: () => unknown): Promise<number> {
  await play.settle();
  await change();
  await play.settle(60_000);
  const before = play.actions;
  await play.settle(weekMs);
  return play.actions - before;
}

describe('billable actions of a pull job, without its start and end', () => {
  it('two nodes: one question and one wave', async () => {
    const play = new PullPlay(pullJob({ parallelism: 2 }), nodeNames(2));
    await play.playOut();
    expect(play.counts).toEqual({ tells: 1, attempts: 1, heartbeats: 0 });
    expect(play.questions).toBe(1);
  });

  it.each([
    ['one by one', 1, 1_800],
    ['ten at once', 10, 300],
    ['all at once', 500, 60],
  ])('500 nodes that pull for a minute, %s: at most %i', async (_, parallelism, most) => {
    const play = new PullPlay(pullJob({ parallelism }), nodeNames(500));
    await play.settle();
    while (play.active().length > 0) {
      const active = play.active();
      await play.settle(60_000);
      for (const node of active) play.end(node);
      await play.settle();
    }
    expect(play.named()).toHaveLength(500);
    expect(play.most).toBe(parallelism);
    expect(play.actions).toBeLessThanOrEqual(most);
  });

  it('nodes that pull for minutes cost one attempt at their wave, and a heartbeat every 25 s', async () => {
    const play = new PullPlay(pullJob({ parallelism: 10 }), nodeNames(10));
    await play.settle(60_000);
    for (const node of nodeNames(10)) {
      play.end(node);
      await play.settle(15_000);
    }
    expect(play.named()).toEqual(nodeNames(10));
    expect([play.counts.attempts, play.counts.tells, play.questions]).toEqual([1, 1, 1]);
    expect(play.counts.heartbeats).toBeLessThanOrEqual(9);
  });

  it.each<[string, number, (play: PullPlay) => unknown]>([
    ['is idle', 3, (play) => play.playOut()],
    [
      'is paused with nodes named ahead',
      3,
      (play) => {
        play.pause(true);
        for (const node of play.active()) play.end(node);
      },
    ],
    [
      'has one node that became full after it was named',
      3,
      (play) => {
        play.full.add('n002');
        for (const node of ['n000', 'n001']) play.end(node);
      },
    ],
    [
      'has Secrets that were refused after nodes were named',
      3,
      (play) => {
        play.secretTrouble = 'Allow it';
        for (const node of play.active()) play.end(node);
      },
    ],
  ])('a job of type Never that %s: a few in a week', async (_, count, change) => {
    const play = new PullPlay(pullJob({ parallelism: 1, ...never }), nodeNames(count));
    expect(await ofWeek(play, () => change(play))).toBeLessThanOrEqual(6);
  });

  it('a wave that is paused by hand while nodes come and go: no more than they need', async () => {
    const play = new PullPlay(pullJob({ parallelism: 3, ...never }), nodeNames(3));
    play.pausedByHand.add(1);
    await play.settle(60_000);
    const before = play.actions;
    for (let days = 0; days < 7; days++) {
      play.states.set(`new-${days}`, 'unasked');
      await play.playOut();
      await play.settle(24 * hourMs);
    }
    expect(play.actions - before).toBeLessThan(2_100);
  });

  it('waits that change every quarter of an hour, for a week: at most 400', async () => {
    const play = new PullPlay(pullJob({ parallelism: 5, ...never }), []);
    play.full.add('n1');
    play.states.set('n1', 'unasked');
    await play.settle();
    for (let quarters = 0; quarters < 7 * 24 * 4; quarters++) {
      play.pause(quarters % 2 === 0);
      await play.settle(900_000);
    }
    expect(play.actions).toBeLessThanOrEqual(400);
  });
});
