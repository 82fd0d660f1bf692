import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { RefusedPlay, secondMs, sidecarSetOf, useClockOfTest, weekMs } from '../support/refused-play.ts';

beforeEach(() => void useClockOfTest());
afterEach(() => void jest.useRealTimers());

describe('P-7: a SidecarSet of which updates are refused', () => {
  it.each([
    ['20%', 1],
    [1, 1],
    ['100%', 20],
  ])(
    'costs at most 100 actions in a week where that is all, at maxUnavailable %s in %d namespaces',
    async (maxUnavailable, namespaces) => {
      const play = new RefusedPlay(sidecarSetOf(40, { maxUnavailable, namespaces }));
      play.refuses = () => true;
      await play.passes(60 * secondMs, secondMs);
      expect(play.lastAnswer).toMatchObject({ kind: 'wait', waitingFor: { reason: 'CannotUpdate' } });
      await play.passes(weekMs);
      expect(play.actions).toBeLessThanOrEqual(100);
      expect(new Set(play.dryRuns).size).toBe(40);
    },
  );

  it.each([
    [1, 1],
    ['100%', 40],
  ])(
    'costs at most 600 actions in a week where dry runs are accepted, at maxUnavailable %s in %d namespaces',
    async (maxUnavailable, namespaces) => {
      const play = new RefusedPlay(sidecarSetOf(40, { maxUnavailable, namespaces }));
      play.refuses = () => true;
      play.refusesDryRun = () => false;
      await play.passes(weekMs, 600 * secondMs, () => play.edit());
      expect(play.actions).toBeLessThanOrEqual(600);
      expect(new Set(play.attempts).size).toBe(40);
    },
  );

  it.each([1, 5])(
    'hundreds of pods of tenants hold up none of another one, at maxUnavailable %d',
    async (maxUnavailable) => {
      const play = new RefusedPlay(sidecarSetOf(300, { maxUnavailable, namespaces: 30 }));
      // those of the first namespaces stand in front, in each round
      const isGood = (name: string) => Number(name.slice('web-'.length)) % 30 === 29;
      play.refuses = (name) => !isGood(name);
      await play.passes(600 * secondMs, 5 * secondMs);
      expect(play.updated()).toHaveLength(10);
      expect(play.updated().every(isGood)).toBe(true);
      expect(play.actions).toBeLessThanOrEqual(300);
    },
  );

  it.each([
    ['from the beginning', 0],
    ['and was refused for six hours before', 6 * 3600],
  ])('tenants whose dry runs are accepted hold up none that may go, %s', async (_what, fromS) => {
    const play = new RefusedPlay(sidecarSetOf(80, { maxUnavailable: 1, namespaces: 40 }));
    // in the middle of the line
    const isGood = (name: string) => Number(name.slice('web-'.length)) % 40 === 9;
    play.refuses = () => true;
    play.refusesDryRun = isGood;
    if (fromS > 0) await play.passes(fromS * secondMs);
    play.refuses = (name) => !isGood(name);
    play.refusesDryRun = () => false;
    await play.passes(3600 * secondMs, 60 * secondMs);
    expect(play.updated()).toHaveLength(2);
    expect(play.actions).toBeLessThanOrEqual(200);
  });

  it('no pod begins after its accepted dry run has turned out to say nothing', async () => {
    const play = new RefusedPlay(sidecarSetOf(40, { maxUnavailable: 1 }));
    play.refuses = () => true;
    play.refusesDryRun = () => false;
    await play.passes(40 * secondMs, secondMs);
    // five that were never tried; then one of each round of dry runs, at 5, 10, 20 s
    expect(play.attempts.length).toBeLessThanOrEqual(10);
  });
});
