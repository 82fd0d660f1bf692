import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { type Confirmation, ConfirmedLife } from '../../activities/fleet/permit-life.ts';
import '../support/property-seed.ts';

beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] }));
afterEach(() => void jest.useRealTimers());

const holdsMs = 10_000;
const runs = { numRuns: Number(process.env.PLAYS ?? 60) };

type Temporal = 'ok' | 'away' | 'slow' | 'cancelled' | 'gone';

/** A permit, and what Temporal and its queue do meanwhile. */
class PlayedLife {
  temporal: Temporal = 'ok';
  isBegun = false;
  /** Something is to begin by it and may not yet, so its queue has to be told when it may. */
  waits = false;
  countsFromMs = performance.now();
  longestSilenceMs = 0;
  life: ConfirmedLife | undefined;
  #heardAtMs = performance.now();

  async begin(): Promise<void> {
    this.life = await ConfirmedLife.begin({
      confirm: (deadlineMs) => this.#confirm(deadlineMs),
      heartbeat: () => {
        if (this.temporal !== 'away') this.#hear();
      },
      holdsMs,
      isBegun: () => this.isBegun,
      confirmed: () => {
        this.waits = false;
      },
      heartbeatTimeoutMs: 60_000,
      cancelled: new AbortController().signal,
    });
  }

  get hasEnded(): boolean {
    return this.life?.ended.aborted === true;
  }

  ask(): boolean {
    const isAlive = this.life?.isAlive() === true;
    this.waits = isAlive ? false : this.waits || !this.hasEnded;
    return isAlive;
  }

  async #confirm(deadlineMs: number): Promise<Confirmation> {
    const [sentAtMs, { temporal }] = [performance.now(), this];
    if (temporal === 'away') {
      await new Promise((resolve) => void setTimeout(resolve, deadlineMs));
      throw new Error('14 UNAVAILABLE');
    }
    this.#hear();
    if (temporal === 'slow') await new Promise((resolve) => void setTimeout(resolve, deadlineMs - 1));
    if (temporal === 'cancelled' || temporal === 'gone') return temporal;
    this.countsFromMs = Math.max(this.countsFromMs, sentAtMs);
    return 'counts';
  }

  #hear(): void {
    this.longestSilenceMs = Math.max(this.longestSilenceMs, performance.now() - this.#heardAtMs);
    this.#heardAtMs = performance.now();
  }
}

const act = fc.oneof(
  fc.record({ act: fc.constant('begun' as const), is: fc.boolean() }),
  fc.record({
    act: fc.constant('temporal' as const),
    is: fc.constantFrom<Temporal>('ok', 'ok', 'ok', 'away', 'slow', 'cancelled', 'gone'),
  }),
  fc.record({ act: fc.constant('ask' as const) }),
  fc.record({
    act: fc.constant('elapse' as const),
    ms: fc.constantFrom(1, 1_000, 3_000, 4_999, 5_000, 5_001, 9_000, 12_000, 26_000, 61_000),
  }),
);

const elapse = async (ms: number) => {
  for (let leftMs = ms; leftMs > 0; leftMs -= 500) await jest.advanceTimersByTimeAsync(Math.min(500, leftMs));
};

describe('the life of a permit', () => {
  it('P-6: counts ten seconds from a confirmation, is heard of in time, and is confirmed when something waits for it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 40 }), async (acts) => {
        const play = new PlayedLife();
        await play.begin();
        let wasAway = false;
        for (const one of acts) {
          if (one.act === 'begun') play.isBegun = one.is;
          if (one.act === 'temporal') play.temporal = one.is;
          wasAway ||= play.temporal === 'away';
          if (one.act === 'ask' && play.ask()) expect(performance.now() - play.countsFromMs).toBeLessThan(holdsMs);
          if (one.act === 'elapse') await elapse(one.ms);
        }
        const { isBegun } = play;
        play.temporal = 'ok';
        await elapse(20_000);
        expect([play.waits && !play.hasEnded, isBegun || play.hasEnded || play.ask()]).toEqual([false, true]);
        if (!wasAway && !play.hasEnded) expect(play.longestSilenceMs).toBeLessThan(45_000);
        play.life?.stop();
      }),
      runs,
    );
  });

  it('P-6: that rests is confirmed for what waits for it, also when the first confirmation gets no answer', async () => {
    const play = new PlayedLife();
    await play.begin();
    play.isBegun = true;
    await elapse(60_000);
    play.temporal = 'away';
    expect(play.ask()).toBe(false);
    await elapse(11_000);
    play.temporal = 'ok';
    await elapse(15_000);
    expect([play.waits, play.hasEnded]).toEqual([false, false]);
    play.life?.stop();
  });
});
