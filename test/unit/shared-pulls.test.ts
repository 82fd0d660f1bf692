import { describe, expect, it } from '@jest/globals';
import type { PullResult } from '../../activities/cri/pull-contract.ts';
import { NodePulls } from '../../daemon/shared-pulls.ts';
import { waitFor } from '../support/wait.ts';

const done: PullResult = { kind: 'succeeded', imageId: 'a@1', pulled: true };
const refused: PullResult = { kind: 'failed', failure: 'authentication', final: true, message: '401' };
const cancelled: PullResult = { kind: 'failed', failure: 'cancelled', final: false, message: 'abandoned' };

/** Pulls that the test ends. */
class Played {
  readonly begun: { readonly end: (result?: PullResult) => void; readonly signal: AbortSignal }[] = [];

  readonly begin = ({ signal }: { readonly signal: AbortSignal }): Promise<PullResult> => {
    const { promise, resolve } = Promise.withResolvers<PullResult>();
    this.begun.push({ end: (result = done) => resolve(result), signal });
    signal.addEventListener('abort', () => resolve(cancelled));
    return promise;
  };

  async count(wanted: number): Promise<void> {
    await waitFor(`${wanted} pulls`, () => this.begun.length === wanted);
  }
}

describe('the pulls of a node', () => {
  const who = (operation: string, share = true) => ({ operation, share });

  it('are one for all who want the same image', async () => {
    const [pulls, played] = [new NodePulls({ slots: 8 }), new Played()];
    const [one, two] = [pulls.join('a', who('1'), played.begin), pulls.join('a', who('2'), played.begin)];
    await played.count(1);
    played.begun[0]?.end();
    expect(await Promise.all([one.outcome, two.outcome])).toEqual([done, done]);
    expect(played.begun).toHaveLength(1);
  });

  it('are never two of one image at once: with policy Always the second follows the first', async () => {
    const [pulls, played] = [new NodePulls({ slots: 8 }), new Played()];
    const one = pulls.join('a', who('1', false), played.begin);
    const two = pulls.join('a', who('2', false), played.begin);
    await played.count(1);
    expect([one.hasBegun(), two.hasBegun()]).toEqual([true, false]);
    played.begun[0]?.end();
    await one.outcome;
    await played.count(2);
    played.begun[1]?.end();
    expect(await two.outcome).toEqual(done);
  });

  it('are joined again by the operation that began them, also with policy Always', async () => {
    const [pulls, played] = [new NodePulls({ slots: 8 }), new Played()];
    pulls.join('a', who('1', false), played.begin).leave();
    const again = pulls.join('a', who('1', false), played.begin);
    await played.count(1);
    played.begun[0]?.end();
    expect(await again.outcome).toEqual(done);
    expect(played.begun).toHaveLength(1);
  });

  it('are tried by whoever joined one that failed: it may bring other credentials', async () => {
    const [pulls, played] = [new NodePulls({ slots: 8 }), new Played()];
    const [one, two] = [pulls.join('a', who('1'), played.begin), pulls.join('a', who('2'), played.begin)];
    await played.count(1);
    played.begun[0]?.end(refused);
    expect(await one.outcome).toEqual(refused);
    await played.count(2);
    played.begun[1]?.end();
    expect(await two.outcome).toEqual(done);
  });

  it('NP-6: never run more at once than there are slots, in the order in which they came', async () => {
    const [pulls, played] = [new NodePulls({ slots: 2 }), new Played()];
    const all = ['a', 'b', 'c', 'd'].map((image) => pulls.join(image, who(image), played.begin));
    await played.count(2);
    await waitFor('two to wait', () => pulls.counts.waiting === 2);
    expect(all.map((pull) => pull.hasBegun())).toEqual([true, true, false, false]);
    played.begun[0]?.end();
    await played.count(3);
    expect(all.map((pull) => pull.hasBegun())).toEqual([true, true, true, false]);
    played.begun[1]?.end();
    await played.count(4);
    for (const { end } of played.begun) end();
    expect(await Promise.all(all.map(({ outcome }) => outcome))).toEqual([done, done, done, done]);
    expect(pulls.counts).toEqual({ running: 0, waiting: 0 });
  });

  it('NP-3: are abandoned a moment after the last has left, and give their slot back', async () => {
    const [pulls, played] = [new NodePulls({ slots: 1, lingerMs: 5 }), new Played()];
    const [one, waiting] = [pulls.join('a', who('1'), played.begin), pulls.join('b', who('2'), played.begin)];
    await played.count(1);
    waiting.leave();
    await waitFor('the one that waits to go', () => pulls.counts.waiting === 0);
    one.leave();
    await waitFor('the call to be given up', () => played.begun[0]?.signal.aborted);
    await waitFor('the slot', () => pulls.counts.running === 0);
    const next = pulls.join('a', who('3'), played.begin);
    await played.count(2);
    played.begun[1]?.end();
    expect(await next.outcome).toEqual(done);
  });
});
