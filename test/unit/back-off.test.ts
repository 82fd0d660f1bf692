import { describe, expect, it } from '@jest/globals';
import { backOff, retryAfterMs, spread } from '../../kube/back-off.ts';
import { KubeError } from '../../kube/failures.ts';

describe('a back-off', () => {
  it('doubles from the first pause to the longest, and stays there however often attempts fail', () => {
    const pauses = { first: 200, most: 1_000 };
    expect([0, 1, 2, 3, 50, 5_000].map((failures) => backOff(pauses, failures))).toEqual([
      200, 400, 800, 1_000, 1_000, 1_000,
    ]);
  });

  it('is shortened at random by up to a half', () => {
    for (let times = 0; times < 100; times += 1) {
      const pause = spread(1_000);
      expect(pause).toBeGreaterThanOrEqual(500);
      expect(pause).toBeLessThanOrEqual(1_000);
    }
  });

  it('knows the time that the API server asks for', () => {
    expect(retryAfterMs(new KubeError({ status: 429, message: 'slow', retryAfterSeconds: 3 }))).toBe(3_000);
    expect(retryAfterMs(new Error('away'))).toBe(0);
    expect(retryAfterMs(undefined)).toBe(0);
  });
});
