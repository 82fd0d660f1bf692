import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { cloneSetOf, RefusedPlay, secondMs, useClockOfTest, weekMs } from '../support/refused-play.ts';

beforeEach(() => void useClockOfTest());
afterEach(() => void jest.useRealTimers());

const hourMs = 3_600 * secondMs;
const never = Number.POSITIVE_INFINITY;

describe('billable actions of a roll-out, without its start and end', () => {
  it.each<[what: string, most: number, replicas: number, budget: number | string, startsMs: number, lastsMs: number]>([
    ['20 pods at 20 %, available at once', 30, 20, '20%', 0, hourMs],
    ['20 pods at 20 %, available after 60 s', 75, 20, '20%', 60 * secondMs, hourMs],
    ['500 pods one by one, available after 60 s', 1_600, 500, 1, 60 * secondMs, 10 * hourMs],
    ['5,000 pods at 100 %, available after a second', 600, 5_000, '100%', secondMs, hourMs],
  ])('%s: at most %i', async (_what, most, replicas, budget, startsMs, lastsMs) => {
    const play = new RefusedPlay(cloneSetOf(replicas, budget));
    play.startsMs = startsMs;
    await play.passes(lastsMs);
    expect(play.updated()).toHaveLength(replicas);
    expect(play.attempts).toHaveLength(replicas);
    expect(play.actions).toBeLessThanOrEqual(most);
  });

  it.each([
    ['are ready for too short, every half minute of a day', 60, 30 * secondMs, weekMs / 7],
    ['are so every quarter of an hour of a week', 3_600, 900 * secondMs, weekMs],
    ['never get ready, in a week', 0, never, weekMs],
  ])('20 pods at 20 %% that %s: at most 60', async (_what, minReadySeconds, everyMs, lastsMs) => {
    const play = new RefusedPlay(cloneSetOf(20, '20%', minReadySeconds));
    play.startsMs = never;
    let isReady = false;
    await play.passes(lastsMs, Math.min(everyMs, lastsMs), () => {
      isReady = !isReady;
      if (everyMs < never) play.turns(isReady);
    });
    expect(play.updated()).toHaveLength(4);
    expect(play.actions).toBeLessThanOrEqual(60);
  });
});
