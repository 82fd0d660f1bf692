import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { FeatureGate } from '../../api/feature-gates.ts';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import type { StatefulSetRollingUpdate } from '../../api/stateful-set/types.ts';
import '../support/property-seed.ts';
import { type StatefulSetCast, StatefulSetPlay, sized } from '../support/stateful-set-play.ts';

const guard = { labelsHandler: { guard: 'on' }, finalizersHandler: ['example.com/drain'] };

const lifecycle: fc.Arbitrary<Lifecycle | undefined> = fc.constantFrom<Lifecycle | undefined>(
  undefined,
  undefined,
  { inPlaceUpdate: guard },
  { preDelete: guard },
  { preDelete: { ...guard, markPodNotReady: true }, inPlaceUpdate: { ...guard, markPodNotReady: true } },
  { preNormal: { labelsHandler: { born: 'on' } } },
);

const cast: fc.Arbitrary<StatefulSetCast> = fc
  .record({
    replicas: fc.integer({ min: 1, max: 5 }),
    isOrdered: fc.boolean(),
    podUpdatePolicy: fc.constantFrom<NonNullable<StatefulSetRollingUpdate['podUpdatePolicy']>>(
      'ReCreate',
      'InPlaceIfPossible',
      'InPlaceIfPossible',
      'InPlaceOnly',
    ),
    maxUnavailable: fc.constantFrom<number | string>(1, 2, '30%'),
    partition: fc.constantFrom(0, 0, 1, 2),
    minReadySeconds: fc.constantFrom(0, 0, 5),
    gracePeriodSeconds: fc.constantFrom(0, 0, 3),
    isUnordered: fc.boolean(),
    lifecycle,
    hasClaims: fc.constantFrom(true, true, false),
    whenScaled: fc.constantFrom<StatefulSetCast['whenScaled']>('Delete', 'Delete', 'Retain'),
    gates: fc.subarray<FeatureGate>(['PreparingUpdateAsUpdate', 'StatefulSetAutoResizePVCGate']),
    hasStaleCaches: fc.boolean(),
    hasDaemon: fc.boolean(),
    losesAnswers: fc.constantFrom(true, true, false),
  })
  .map(({ replicas, isOrdered, maxUnavailable, isUnordered, gracePeriodSeconds, ...rest }): StatefulSetCast => {
    const { podUpdatePolicy, partition, minReadySeconds, ...others } = rest;
    return {
      ...others,
      spec: { replicas, podManagementPolicy: isOrdered ? 'OrderedReady' : 'Parallel' },
      rollingUpdate: {
        ...{ podUpdatePolicy, partition, minReadySeconds, inPlaceUpdateStrategy: { gracePeriodSeconds } },
        ...(isOrdered ? { maxUnavailable: 1 } : { maxUnavailable, ...(isUnordered && { unorderedUpdate: {} }) }),
      },
    };
  });

/** Ordinals come and go, with PVCs that go with them. */
const scaledCast: fc.Arbitrary<StatefulSetCast> = cast.map((given) => ({
  ...given,
  ...{ lifecycle: undefined, hasClaims: true, whenScaled: 'Delete', losesAnswers: true },
  userSteps: /wants one pod|whenScaled|reserves|evicted|marks/,
  spec: { ...given.spec, replicas: Math.min(given.spec.replicas ?? 1, 2) },
  rollingUpdate: { maxUnavailable: 1 },
}));

const choices = fc.array(fc.nat({ max: 100_000 }), { minLength: 20, maxLength: 250 });

const runs = Number(process.env.PLAYS ?? 30);

/** Whatever happens to such a StatefulSet: it keeps its promises, which the play checks at each step. */
function endsWhateverHappens(casts: fc.Arbitrary<StatefulSetCast>, numRuns: number): void {
  fc.assert(
    fc.property(casts, choices, (given, steps) => {
      const play = new StatefulSetPlay(given);
      play.settle();
      play.play(steps);
      expect(['allDone', 'waiting']).toContain(play.settle().standing.kind);
      play.mend();
      expect(play.settle().standing.kind).toBe('allDone');
      expect([play.unfinished(), play.unfinished().length > 0 ? play.story.slice(-80) : []]).toEqual([[], []]);
    }),
    { numRuns },
  );
}

describe('a StatefulSet, played to the end between two leaders, some of whose writes get no answer', () => {
  it('comes up with all its pods, whatever it asks for', () => {
    fc.assert(
      fc.property(cast, (given) => {
        const play = new StatefulSetPlay(given);
        expect([play.settle().standing.kind, play.unfinished()]).toEqual(['allDone', []]);
      }),
      { numRuns: runs },
    );
  });

  it('AS-33, AS-71: creates no ordinal twice, ends or names what it waits for, and ends once nothing is in the way', () => {
    endsWhateverHappens(cast, runs);
  });

  it('AS-81, AS-82: loses no PVC of an ordinal that is wanted, however ordinals come and go', () => {
    // what a lost answer does to a PVC takes several things to happen
    endsWhateverHappens(scaledCast, 2 * runs);
  });

  it('AS-34, AS-61, AS-62: never takes more pods or volumes than its budget allows by its own doing, from the first to the last', () => {
    fc.assert(
      fc.property(cast, fc.integer({ min: 1, max: 2 }), choices, (given, image, steps) => {
        const play = new StatefulSetPlay(given);
        play.settle();
        if (given.hasClaims) play.changeSpec({ volumeClaimTemplates: [sized('2Gi')] });
        play.rollOut(image, steps);
        play.settle();
      }),
      { numRuns: runs },
    );
  });

  it('takes back every pod that it has changed when an operator wants that, wherever it stands', () => {
    fc.assert(
      fc.property(cast, choices, (given, steps) => {
        const play = new StatefulSetPlay(given);
        play.settle();
        play.rollOut(1, steps);
        expect(play.undo().standing.kind).toBe('allDone');
        expect(play.imagesInUse()).toEqual({ 'nginx:1': given.spec.replicas });
      }),
      { numRuns: runs },
    );
  });
});
