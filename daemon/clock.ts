import { setTimeout as timeout } from 'node:timers/promises';
import type { Clock } from '../activities/cri/attempt.ts';

/** The longest delay of a timer in Node, about 25 days; grace periods may be longer. */
const longestTimerMs = 2 ** 31 - 1;

/** The clock of this machine. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  async sleep(ms, signal) {
    try {
      for (let leftMs = ms; leftMs > 0; leftMs -= longestTimerMs) {
        await timeout(Math.min(leftMs, longestTimerMs), undefined, signal && { signal });
      }
    } catch (error) {
      if (!signal?.aborted) throw error;
    }
  },
};
