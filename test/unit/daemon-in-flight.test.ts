import { describe, expect, it } from '@jest/globals';
import type { ActRun } from '../../activities/cri/single-act.ts';
import { InFlight } from '../../daemon/in-flight.ts';

/** An act that the test ends. */
function act() {
  const end = Promise.withResolvers<string>();
  const runs: ActRun<string>[] = [];
  const begin = (run: ActRun<string>) => {
    runs.push(run);
    return end.promise;
  };
  return { end, runs, begin };
}

/** The caller of this operation; each has a lane of its own by default. */
const who = (operation: string, lane = operation) => ({ operation, lane });

/** Resolves after everything that only waits for a turn of the event loop. */
const turns = () => new Promise((resolve) => setImmediate(resolve));

describe('acts in flight', () => {
  it('are shared by all callers that join while one is in progress', async () => {
    const inFlight = new InFlight<string, string>();
    const { end, runs, begin } = act();
    const first = inFlight.join('c1', who('attempt of workflow 1'), begin);
    const second = inFlight.join('c1', who('attempt of workflow 2'), begin);
    await turns();
    expect(runs).toHaveLength(1);
    expect(inFlight.size).toBe(1);

    runs[0]?.report('half way');
    expect([first.progress(), second.progress()]).toEqual(['half way', 'half way']);
    end.resolve('stopped');
    await expect(Promise.all([first.outcome, second.outcome])).resolves.toEqual(['stopped', 'stopped']);
    expect(inFlight.size).toBe(0);
  });

  it('do not hinder acts on other things', async () => {
    const inFlight = new InFlight<string, string>();
    inFlight.join('c1', who('o1'), act().begin);
    await expect(inFlight.join('c2', who('o2'), async () => 'stopped').outcome).resolves.toBe('stopped');
  });

  it('take turns in their lane, however the one before ends', async () => {
    const inFlight = new InFlight<string, string>();
    const acts = [act(), act(), act()] as const;
    const [first, second, third] = acts.map(({ begin }, at) => inFlight.join(`c${at}`, who(`o${at}`, 'pod'), begin));
    await turns();
    expect(acts.map(({ runs }) => runs.length)).toEqual([1, 0, 0]);
    expect(inFlight.size).toBe(3);

    acts[0].end.reject(new Error('the runtime is away'));
    await expect(first?.outcome).rejects.toThrow('away');
    await turns();
    expect(acts.map(({ runs }) => runs.length)).toEqual([1, 1, 0]);

    third?.leave();
    acts[1].end.resolve('stopped');
    await expect(second?.outcome).resolves.toBe('stopped');
    await turns();
    expect(acts[2].runs[0]?.wanted()).toBe(false);
    acts[2].end.resolve('stopped');
    await inFlight.idle();
    await expect(inFlight.join('c3', who('o3', 'pod'), async () => 'at once').outcome).resolves.toBe('at once');
  });

  it('continue when all callers have left, and can tell', async () => {
    const inFlight = new InFlight<string, string>();
    const { end, runs, begin } = act();
    const first = inFlight.join('c1', who('o1'), begin);
    const second = inFlight.join('c1', who('o2'), begin);
    await turns();
    first.leave();
    first.leave();
    expect(runs[0]?.wanted()).toBe(true);
    second.leave();
    expect(runs[0]?.wanted()).toBe(false);
    expect(inFlight.join('c1', who('o3'), begin).progress()).toBeUndefined();
    expect(runs[0]?.wanted()).toBe(true);

    const idle = inFlight.idle();
    end.resolve('stopped');
    await idle;
    expect(runs).toHaveLength(1);
  });

  it('tell their outcome to an operation that comes back after the end, and begin anew for another one', async () => {
    const inFlight = new InFlight<string, string>();
    await inFlight.join('c1', who('o1'), async () => 'failed').outcome;
    await expect(inFlight.join('c1', who('o1'), async () => 'stopped').outcome).resolves.toBe('failed');
    await expect(inFlight.join('c1', who('o2'), async () => 'stopped').outcome).resolves.toBe('stopped');
  });

  it('begin anew after one that could not be done', async () => {
    const inFlight = new InFlight<string, string>();
    const failing = inFlight.join('c1', who('o1'), async () => {
      throw new Error('unreachable');
    });
    await expect(failing.outcome).rejects.toThrow('unreachable');
    await expect(inFlight.join('c1', who('o1'), async () => 'stopped').outcome).resolves.toBe('stopped');
  });

  it('are forgotten after many later ones', async () => {
    const inFlight = new InFlight<string, string>();
    await inFlight.join('c0', who('o1'), async () => 'failed').outcome;
    for (let n = 1; n <= 1_000; n += 1) await inFlight.join(`c${n}`, who('o1'), async () => 'stopped').outcome;
    await expect(inFlight.join('c0', who('o1'), async () => 'stopped').outcome).resolves.toBe('stopped');
    await expect(inFlight.join('c1000', who('o1'), async () => 'failed').outcome).resolves.toBe('stopped');
  });
});
