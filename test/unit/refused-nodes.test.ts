import { describe, expect, it } from '@jest/globals';
import { RefusedNodes } from '../../watcher/kinds/image-pull-job/refused-nodes.ts';

describe('a NodeImage that the API server refuses to change', () => {
  it('is tried again after a minute, then after twice as long each time, at most after an hour', () => {
    const refused = new RefusedNodes();
    let nowMs = 0;
    const pauses: number[] = [];
    for (let times = 0; times < 9; times++) {
      refused.add('a', nowMs);
      const fromMs = nowMs;
      while (refused.has('a', nowMs)) nowMs += 60_000;
      pauses.push((nowMs - fromMs) / 60_000);
    }
    expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
    refused.forget('a');
    refused.add('a', nowMs);
    expect(refused.has('a', nowMs + 60_000)).toBe(false);
  });
});
