import { describe, expect, it } from '@jest/globals';
import { RecentlySeen } from '../../kube/recently-seen.ts';

describe('what was seen recently', () => {
  it('SEC-6: is believed for its time, and no longer', () => {
    const seen = new RecentlySeen(60_000);
    seen.add('credentials', 0);
    expect(seen.has('credentials', 59_999)).toBe(true);
    expect(seen.has('other', 59_999)).toBe(false);
    expect(seen.has('credentials', 60_000)).toBe(false);
  });

  it('is believed anew when it is seen again', () => {
    const seen = new RecentlySeen(60_000);
    seen.add('a', 0);
    seen.add('b', 10_000);
    seen.add('a', 50_000);
    expect(seen.has('b', 75_000)).toBe(false);
    expect(seen.has('a', 75_000)).toBe(true);
  });

  it('is forgotten, though nobody asks for it any more', () => {
    const seen = new RecentlySeen(60_000);
    for (let index = 0; index < 1_000; index++) seen.add(`secret-${index}`, index * 1_000);
    expect(seen.size).toBe(60);
  });
});
