import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { DaemonSetRollingUpdate } from '../../api/daemon-set/types.ts';
import type { FeatureGate } from '../../api/feature-gates.ts';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import { type DaemonSetCast, DaemonSetPlay } from '../support/daemon-set-play.ts';
import '../support/property-seed.ts';

const guard = { labelsHandler: { guard: 'on' }, finalizersHandler: ['example.com/drain'] };

const pace: fc.Arbitrary<DaemonSetRollingUpdate> = fc.constantFrom<DaemonSetRollingUpdate>(
  { rollingUpdateType: 'InPlaceIfPossible', maxUnavailable: 1 },
  { rollingUpdateType: 'InPlaceIfPossible', maxUnavailable: '40%' },
  { rollingUpdateType: 'Standard', maxUnavailable: 1 },
  { rollingUpdateType: 'Standard', maxUnavailable: 2 },
  { rollingUpdateType: 'Standard', maxSurge: 1, maxUnavailable: 0 },
  { rollingUpdateType: 'Standard', maxSurge: '50%', maxUnavailable: 0 },
);

const cast: fc.Arbitrary<DaemonSetCast> = fc
  .record({
    nodes: fc.integer({ min: 1, max: 5 }),
    pace,
    partition: fc.constantFrom<number | string>(0, 0, 1, '40%'),
    minReadySeconds: fc.constantFrom(0, 0, 5),
    burstReplicas: fc.constantFrom<number | string>(250, 250, 1, '50%'),
    lifecycle: fc.constantFrom<Lifecycle | undefined>(
      undefined,
      undefined,
      { preDelete: guard },
      { preDelete: { ...guard, markPodNotReady: true } },
    ),
    gates: fc.subarray<FeatureGate>(['DaemonSetPruneIneligibleNodes']),
    hasStaleCaches: fc.boolean(),
    hasDaemon: fc.boolean(),
    losesAnswers: fc.constantFrom(true, true, false),
  })
  .map(({ pace: given, partition, minReadySeconds, burstReplicas, ...rest }): DaemonSetCast => {
    return { ...rest, spec: { minReadySeconds, burstReplicas }, rollingUpdate: { ...given, partition } };
  });

const choices = fc.array(fc.nat({ max: 100_000 }), { minLength: 20, maxLength: 250 });
const runs = Number(process.env.PLAYS ?? 30);

describe('a DaemonSet, played to the end between two leaders, some of whose writes get no answer', () => {
  it('comes up with a pod on each node, whatever it asks for', () => {
    fc.assert(
      fc.property(cast, (given) => {
        const play = new DaemonSetPlay(given);
        expect([play.settle().standing.kind, play.unfinished()]).toEqual(['allDone', []]);
      }),
      { numRuns: runs },
    );
  });

  it('AD-20, AD-61: gives no node two pods, ends or names what it waits for, and ends once nothing is in the way', () => {
    fc.assert(
      fc.property(cast, choices, (given, steps) => {
        const play = new DaemonSetPlay(given);
        play.settle();
        play.play(steps);
        expect(['allDone', 'waiting']).toContain(play.settle().standing.kind);
        play.mend();
        expect(play.settle().standing.kind).toBe('allDone');
        expect([play.unfinished(), play.unfinished().length > 0 ? play.story.slice(-80) : []]).toEqual([[], []]);
      }),
      { numRuns: 2 * runs },
    );
  });

  it('AD-32, AD-35: never takes more nodes out of service, or surges further, than its budget allows by its own doing', () => {
    fc.assert(
      fc.property(cast, fc.integer({ min: 1, max: 2 }), choices, (given, image, steps) => {
        const play = new DaemonSetPlay(given);
        play.settle();
        play.rollOut(image, steps);
        play.settle();
      }),
      { numRuns: runs },
    );
  });

  it('takes back every pod that it has changed when an operator wants that, wherever it stands', () => {
    fc.assert(
      fc.property(cast, choices, (given, steps) => {
        const play = new DaemonSetPlay(given);
        play.settle();
        play.rollOut(1, steps);
        expect(play.undo().standing.kind).toBe('allDone');
        expect(play.imagesInUse()).toEqual({ 'nginx:1': given.nodes });
      }),
      { numRuns: runs },
    );
  });
});
