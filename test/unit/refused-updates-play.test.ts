import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { cloneSetOf, RefusedPlay, secondMs, useClockOfTest, weekMs } from '../support/refused-play.ts';

beforeEach(() => void useClockOfTest());
afterEach(() => void jest.useRealTimers());

const isOneOf =
  (names: readonly string[]) =>
  (name: string): boolean =>
    names.includes(name);

describe('P-7: a roll-out of which writes are refused', () => {
  it.each([
    ['20%', 40],
    [1, 40],
    ['100%', 100],
    [1, 3],
  ])(
    'of every pod costs at most 600 actions in a week, at maxUnavailable %s of %d',
    async (maxUnavailable, replicas) => {
      const play = new RefusedPlay(cloneSetOf(replicas, maxUnavailable));
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
    const play = new RefusedPlay(cloneSetOf(40, 1));
    play.refuses = () => true;
    await play.passes(weekMs / 7, 60 * secondMs, () => play.event());
    expect(play.actions).toBeLessThanOrEqual(100);
    // each pod once an hour, and more often at first
    expect(play.dryRuns.length).toBeLessThanOrEqual(40 * (24 + 12));
  });

  it.each([1, 2, '20%'])(
    'costs at most 600 actions in a week also where dry runs are accepted, at %s',
    async (budget) => {
      const play = new RefusedPlay(cloneSetOf(40, budget));
      play.refuses = () => true;
      play.refusesDryRun = () => false;
      await play.passes(weekMs, 600 * secondMs, () => play.edit());
      expect(play.actions).toBeLessThanOrEqual(600);
      expect(new Set(play.attempts).size).toBe(40);
    },
  );

  it.each([1, '20%'])('updates all others, wherever these stand, at maxUnavailable %s', async (maxUnavailable) => {
    const play = new RefusedPlay(cloneSetOf(40, maxUnavailable));
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
    const play = new RefusedPlay(cloneSetOf(300, 1));
    play.refuses = (name) => name !== 'web-1150';
    await play.passes(300 * secondMs, secondMs);
    expect(play.updated()).toEqual(['web-1150']);
    expect(play.actions).toBeLessThanOrEqual(60);
  });

  it('goes on by itself when nothing is refused any more, and at once when the object is edited', async () => {
    for (const how of ['by itself', 'edited'] as const) {
      const play = new RefusedPlay(cloneSetOf(20, '20%'));
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
    const play = new RefusedPlay(cloneSetOf(300, '10%'));
    play.refuses = () => true;
    await play.passes(10 * secondMs, secondMs);
    const before = { attempts: play.attempts.length, dryRuns: play.dryRuns.length };
    await play.passes(100 * secondMs, secondMs, () => play.event());
    expect(play.attempts.length - before.attempts).toBe(0);
    expect(play.dryRuns.length - before.dryRuns).toBeLessThanOrEqual(16 * 21);
  });
});
