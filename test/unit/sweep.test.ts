import { describe, expect, it } from '@jest/globals';
import { Sweeper } from '../../process/sweep.ts';

/** Simulates the activity of the event loop between looks; returns after which looks garbage was collected. */
function sweeps(work: readonly number[]): readonly number[] {
  let activeMs = 0;
  const after: number[] = [];
  let look = 0;
  const collect = () => {
    after.push(look);
    activeMs += 50; // collecting is activity, too
  };
  const sweeper = new Sweeper({ activeMs: () => activeMs, collect });
  for (const ms of work) {
    activeMs += ms;
    sweeper.look();
    look += 1;
  }
  return after;
}

describe('Sweeper', () => {
  it('collects garbage once it is quiet after the start', () => {
    expect(sweeps([800, 300, 10, 10, 10])).toEqual([2]);
  });

  it('collects it once after a burst, and not in the middle of it', () => {
    expect(sweeps([10, 4_000, 4_000, 4_000, 20, 20, 20])).toEqual([0, 4]);
  });

  it('does not collect after little work, however often that comes', () => {
    expect(sweeps([10, 200, 200, 10, 10])).toEqual([0]);
  });

  it('collects what much little work has left', () => {
    expect(sweeps([10, ...Array.from({ length: 40 }, () => 50)])).toEqual([0, 40]);
  });
});
