import { describe, expect, it } from '@jest/globals';
import { refusedPauseMs } from '../../plan/refused-pause.ts';

describe('the pause after a refusal', () => {
  it('is short first where a right is missing, and never longer than that was so far, nor than five minutes', () => {
    let refusedForMs = 0;
    for (let refusals = 0; refusals < 100; refusals++) {
      const pauseMs = refusedPauseMs('Denied', refusals);
      expect(pauseMs).toBeLessThanOrEqual(Math.min(refusedForMs + 1_000, 300_000));
      refusedForMs += pauseMs;
    }
    expect(refusedPauseMs('Denied', 99)).toBe(300_000);
  });

  it('is longer first where it is a verdict', () => {
    expect([0, 1, 2, 99].map((refusals) => refusedPauseMs('Invalid', refusals))).toEqual([
      10_000, 20_000, 40_000, 300_000,
    ]);
  });
});
