import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { RollingUpdate } from '../../api/cloneset/types.ts';
import type { FeatureGate } from '../../api/feature-gates.ts';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import { type Cast, CloneSetPlay } from '../support/cloneset-play.ts';

const guard = { labelsHandler: { guard: 'on' }, finalizersHandler: ['example.com/drain'] };
const born = { labelsHandler: { born: 'on' } };

const lifecycle: fc.Arbitrary<Lifecycle | undefined> = fc.constantFrom<Lifecycle | undefined>(
  undefined,
  undefined,
  { inPlaceUpdate: guard },
  { preDelete: guard },
  { preDelete: guard, inPlaceUpdate: guard },
  { preDelete: { ...guard, markPodNotReady: true }, inPlaceUpdate: { ...guard, markPodNotReady: true } },
  { preNormal: born },
);

const preferred = { weight: 10, matchSelector: { matchLabels: { first: 'yes' } } };

const gates: fc.Arbitrary<readonly FeatureGate[]> = fc.subarray<FeatureGate>([
  'CloneSetPartitionRollback',
  'PreparingUpdateAsUpdate',
  'CloneSetShortHash',
]);

const cast: fc.Arbitrary<Cast> = fc
  .record({
    replicas: fc.integer({ min: 1, max: 5 }),
    minReadySeconds: fc.constantFrom(0, 0, 5),
    podUpdatePolicy: fc.constantFrom('ReCreate', 'InPlaceIfPossible', 'InPlaceIfPossible', 'InPlaceOnly'),
    maxUnavailable: fc.constantFrom<number | string>(0, 1, 2, '30%'),
    maxSurge: fc.constantFrom(0, 0, 1, 2),
    partition: fc.constantFrom<number | string>(0, 0, 1, '30%'),
    gracePeriodSeconds: fc.constantFrom(0, 0, 3),
    lifecycle,
    keepsClaims: fc.boolean(),
    hasClaims: fc.boolean(),
    excludesPreparingDelete: fc.boolean(),
    gates,
    hasPriority: fc.boolean(),
    hasStaleCaches: fc.boolean(),
    hasDaemon: fc.boolean(),
  })
  .map(
    ({
      replicas,
      minReadySeconds,
      podUpdatePolicy,
      maxUnavailable,
      partition,
      gracePeriodSeconds,
      hasPriority,
      ...rest
    }): Cast => {
      const isInPlaceOnly = podUpdatePolicy === 'InPlaceOnly';
      const maxSurge = isInPlaceOnly ? 0 : rest.maxSurge;
      return {
        ...rest,
        spec: { replicas, minReadySeconds, maxSurge },
        rollingUpdate: {
          podUpdatePolicy: podUpdatePolicy as NonNullable<RollingUpdate['podUpdatePolicy']>,
          maxUnavailable: maxSurge === 0 && maxUnavailable === 0 ? 1 : maxUnavailable,
          partition,
          inPlaceUpdateStrategy: { gracePeriodSeconds },
          ...(hasPriority && { priorityStrategy: { weightPriority: [preferred] } }),
        },
      };
    },
  );

const choices = fc.array(fc.nat({ max: 100_000 }), { minLength: 20, maxLength: 250 });

const runs = Number(process.env.PLAYS ?? 100);

/**
 * Whatever happens to such a CloneSet: the roll-out completes or names what it waits for, and completes when nothing
 * blocks it.
 */
function endsWhateverHappens(casts: fc.Arbitrary<Cast>, numRuns: number): void {
  fc.assert(
    fc.property(casts, choices, (given, steps) => {
      const play = new CloneSetPlay(given);
      play.settle();
      play.play(steps);
      const plan = play.settle();
      expect(['allDone', 'waiting']).toContain(plan.standing.kind);

      play.mend();
      expect(play.settle().standing.kind).toBe('allDone');
      expect([play.unfinished(), play.unfinished().length > 0 ? play.story.slice(-80) : []]).toEqual([[], []]);
    }),
    { numRuns },
  );
}

/** A roll-out of such a CloneSet keeps the budget, which the simulation checks at each step. */
function keepsItsBudget(casts: fc.Arbitrary<Cast>): void {
  fc.assert(
    fc.property(casts, fc.integer({ min: 1, max: 2 }), choices, (given, image, steps) => {
      const play = new CloneSetPlay(given);
      play.settle();
      play.rollOut(image, steps);
      play.settle();
    }),
    { numRuns: runs },
  );
}

/** A roll-out of such a CloneSet can be undone completely at any point. */
function canBeUndone(casts: fc.Arbitrary<Cast>): void {
  fc.assert(
    fc.property(casts, choices, (given, steps) => {
      const play = new CloneSetPlay(given);
      play.settle();
      play.rollOut(1, steps);
      expect(play.undo().standing.kind).toBe('allDone');
      expect(play.imagesInUse()).toEqual({ 'nginx:1': given.spec.replicas });
    }),
    { numRuns: runs },
  );
}

describe('a CloneSet, played to the end', () => {
  it('comes up with all its pods, whatever it asks for', () => {
    fc.assert(
      fc.property(cast, (given) => {
        const play = new CloneSetPlay(given);
        const plan = play.settle();
        expect(play.unfinished()).toEqual([]);
        expect(plan.standing.kind).toBe('allDone');
      }),
      { numRuns: runs },
    );
  });

  it('keeps its promises whatever happens, ends or names what it waits for, and ends once nothing is in the way', () => {
    endsWhateverHappens(cast, runs);
  });

  it('never takes more pods than its budget allows by its own doing, from the first to the last', () => {
    keepsItsBudget(cast);
  });

  it('takes back every pod that it has changed when an operator wants that, wherever it stands', () => {
    canBeUndone(cast);
  });
});

/** CloneSets whose images are pre-downloaded, most of which wait for that. */
const pullingCast: fc.Arbitrary<Cast> = fc
  .record({
    given: cast,
    awaited: fc.constantFrom('100%', '100%', '50%', '1', undefined),
    replicas: fc.integer({ min: 2, max: 7 }),
    leastReady: fc.constantFrom(0, 0, 1, 2),
    podUpdatePolicy: fc.constantFrom<NonNullable<RollingUpdate['podUpdatePolicy']>>(
      'InPlaceIfPossible',
      'InPlaceIfPossible',
      'InPlaceOnly',
      'ReCreate',
    ),
  })
  .map(({ given, awaited, replicas, leastReady, podUpdatePolicy }) => {
    const { inPlaceUpdateStrategy } = given.rollingUpdate;
    const maxSurge = podUpdatePolicy === 'InPlaceOnly' ? 0 : given.spec.maxSurge;
    const maxUnavailable =
      maxSurge === 0 ? given.rollingUpdate.maxUnavailable || 1 : given.rollingUpdate.maxUnavailable;
    return {
      ...given,
      pulls: { awaited },
      spec: { ...given.spec, replicas, maxSurge },
      rollingUpdate: {
        ...given.rollingUpdate,
        podUpdatePolicy,
        ...(maxUnavailable !== undefined && { maxUnavailable }),
        inPlaceUpdateStrategy: { ...inPlaceUpdateStrategy, imagePreDownloadMinUpdatedReadyPods: leastReady },
      },
    };
  });

describe('a CloneSet whose images are pulled ahead, played to the end', () => {
  it('disturbs no pod before they are where it wants them, names what it waits for, and leaves no job', () => {
    // failures that are fixed and continue are rare, so there are more runs
    endsWhateverHappens(pullingCast, 2 * runs);
  });

  it('keeps its budget while it waits and goes on', () => {
    keepsItsBudget(pullingCast);
  });

  it('takes back what it has changed, whatever is still being pulled', () => {
    canBeUndone(pullingCast);
  });
});
