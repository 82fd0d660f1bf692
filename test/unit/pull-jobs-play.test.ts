import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import '../support/property-seed.ts';
import { pullJob } from '../support/pull-objects.ts';
import { endPullPlays, nodeNames, PullPlay, passMs, pullUid, useClockOfPulls } from '../support/pull-play.ts';

beforeEach(useClockOfPulls);
afterEach(endPullPlays);

const runs = { numRuns: Number(process.env.PLAYS ?? 60) };

type Act =
  | { readonly act: 'end'; readonly count: number; readonly fails: boolean }
  | { readonly act: 'newLeader' | 'loseAttempts' | 'pause' | 'resume' | 'changed' | 'nodeComes' }
  | { readonly act: 'secrets' | 'holdByHand' }
  | { readonly act: 'nodeGoes' | 'full' | 'roomAgain' | 'retry'; readonly at: number }
  | { readonly act: 'elapse'; readonly ms: number };

const at = fc.nat(200);
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      act: fc.constant('end' as const),
      count: fc.integer({ min: 1, max: 60 }),
      fails: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constantFrom(
        ...(['newLeader', 'loseAttempts', 'pause', 'resume', 'changed', 'nodeComes', 'secrets', 'holdByHand'] as const),
      ),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ act: fc.constantFrom(...(['nodeGoes', 'full', 'roomAgain', 'retry'] as const)), at }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      act: fc.constant('elapse' as const),
      ms: fc.constantFrom(1, 3, 300, 2_000, 7_000, 12_000, 30_000, 70_000),
    }),
  },
);

const setting = fc.record({
  nodes: fc.integer({ min: 1, max: 130 }),
  parallelism: fc.constantFrom(1, 2, 5, 60),
  acts: fc.array(act, { maxLength: 30 }),
});

/** Nodes that were made to pull once more. */
async function playActs(play: PullPlay, acts: readonly Act[], parallelism: number): Promise<ReadonlySet<string>> {
  const retried = new Set<string>();
  let coming = 0;
  const nth = (at: number, all: readonly string[]) => all[at % Math.max(all.length, 1)];
  const inState = (state: string) => [...play.states].filter(([, is]) => is === state).map(([node]) => node);
  await play.settle();
  for (const one of acts) {
    switch (one.act) {
      case 'end':
        for (const node of play.active().slice(0, one.count)) play.end(node, one.fails ? 'failed' : 'succeeded');
        break;
      case 'newLeader':
        play.newTerm();
        break;
      case 'loseAttempts':
        play.loseAttempts();
        break;
      case 'pause':
      case 'resume':
        play.pause(one.act === 'pause');
        break;
      case 'secrets':
        play.secretTrouble = play.secretTrouble === undefined ? 'cannot be copied' : undefined;
        break;
      case 'holdByHand': {
        const [first] = play.operation?.progress().inFlight ?? [];
        if (first === undefined) break;
        play.pausedByHand.add(first.number);
        play.loseAttempts();
        break;
      }
      case 'changed':
        play.operation?.changed();
        break;
      case 'nodeComes':
        play.states.set(`x${String(coming++).padStart(3, '0')}`, 'unasked');
        break;
      case 'nodeGoes':
        play.states.delete(nth(one.at, [...play.states.keys()]) ?? '');
        break;
      case 'full':
        play.full.add(nth(one.at, inState('unasked')) ?? '');
        break;
      case 'roomAgain':
        play.full.delete(nth(one.at, [...play.full]) ?? '');
        break;
      case 'retry': {
        const failed = nth(one.at, inState('failed'));
        if (failed === undefined || play.active().length >= parallelism) break;
        play.states.set(failed, 'active');
        retried.add(failed);
        break;
      }
      case 'elapse':
        await play.settle(one.ms);
    }
    await play.settle();
  }
  return retried;
}

/** Nodes that are named more than once, by waves that did not give them back. */
function namedTwice(play: PullPlay): readonly string[] {
  const named = play.named();
  return named.filter((node, index) => named.indexOf(node) !== index);
}

describe('a pull job, whatever happens', () => {
  it('IPJ-10: tells each node once, never more than parallelism, and names each once, at little cost', async () => {
    await fc.assert(
      fc.asyncProperty(setting, async ({ nodes, parallelism, acts }) => {
        const play = new PullPlay(pullJob({ parallelism, completionPolicy: { type: 'Never' } }), nodeNames(nodes));
        try {
          const retried = await playActs(play, acts, parallelism);
          play.full.clear();
          play.secretTrouble = undefined;
          play.pausedByHand.clear();
          play.newTerm();
          play.pause(false);
          await play.settle(1_000);
          const isOpen = () => [...play.states.values()].some((state) => state === 'unasked' || state === 'active');
          for (let rounds = 0; rounds < 300 && isOpen(); rounds++) {
            for (const node of play.active()) play.end(node);
            await play.settle(1_000);
          }
          await play.settle(20_000);
          expect(isOpen()).toBe(false);
          expect(play.most).toBeLessThanOrEqual(parallelism);
          expect(play.told).toHaveLength(new Set(play.told).size);
          expect(play.told.filter((node) => !play.named().includes(node))).toEqual([]);
          expect(namedTwice(play).filter((node) => !retried.has(node))).toEqual([]);
          expect(play.counts.tells + play.questions).toBeLessThan(200);
          play.finish('Aborted');
          await play.settle(100_000);
          expect(play.operation?.progress()).toMatchObject({ end: { reason: 'Aborted' }, inFlight: [] });
        } finally {
          play.stop();
        }
      }),
      runs,
    );
  }, 300_000);

  it('IPJ-20: ends with the job at any moment, with every node named that was told', async () => {
    const end = fc.record({
      isDeleted: fc.boolean(),
      isFirst: fc.boolean(),
      before: fc.constantFrom('nothing', 'loseAttempts', 'newLeader'),
      after: fc.constantFrom('nothing', 'loseAttempts', 'newLeader'),
    });
    await fc.assert(
      fc.asyncProperty(setting, end, async ({ nodes, parallelism, acts }, { isDeleted, isFirst, before, after }) => {
        const play = new PullPlay(pullJob({ parallelism }), nodeNames(nodes));
        const happens = (what: string) => {
          if (what === 'loseAttempts') play.loseAttempts();
          if (what === 'newLeader') play.newTerm();
        };
        try {
          const retried = isFirst ? new Set<string>() : await playActs(play, acts, parallelism);
          if (isFirst) play.pass();
          play.pausedByHand.clear();
          happens(before);
          play.finish('Aborted');
          if (isDeleted) {
            play.isGone = true;
            if (!play.holder.forget(pullUid)) play.operation?.changed();
          } else play.pass();
          happens(after);
          const settle = async (ms: number) => {
            if (!isDeleted) return await play.settle(ms);
            // what is handed in has a pass made, which finds that the job is gone
            for (let leftMs = ms; leftMs > 0; leftMs -= 1_000) {
              play.holder.forget(pullUid);
              await passMs(1_000);
            }
          };
          await settle(30_000);
          // a run that is not wanted is found by its list
          play.operation?.changed();
          await settle(100_000);
          const progress = play.operation?.progress();
          if (progress === undefined) return;
          expect([progress.end === undefined, progress.inFlight]).toEqual([false, []]);
          expect(namedTwice(play).filter((node) => !retried.has(node))).toEqual([]);
          if (!isDeleted) expect(play.told.filter((node) => !play.named().includes(node))).toEqual([]);
        } finally {
          play.stop();
        }
      }),
      runs,
    );
  }, 300_000);
});
