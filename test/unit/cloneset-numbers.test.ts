import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  type CountedPod,
  type Limits,
  limitsOf,
  numbersOf,
  partitionOf,
  type Question,
  roundsToZero,
} from '../../plan/cloneset/counts.ts';

const oldPod: CountedPod = { isNew: false, isPreparingDelete: false, isSpecified: false, isAvailable: true };
const newPod: CountedPod = { ...oldPod, isNew: true };
const down = { isAvailable: false };
const specified = { isSpecified: true };
const preparing = { isPreparingDelete: true, isAvailable: false };

function times(count: number, pod: CountedPod, change: Partial<CountedPod> = {}): readonly CountedPod[] {
  return Array.from({ length: count }, () => ({ ...pod, ...change }));
}

function limits(given: Partial<Limits>): Limits {
  return {
    replicas: 5,
    partition: 0,
    maxUnavailable: 1,
    maxSurge: 0,
    scaleMaxUnavailable: Number.POSITIVE_INFINITY,
    ...given,
  };
}

function numbers(given: Partial<Limits>, pods: readonly CountedPod[], more: Partial<Question> = {}) {
  return numbersOf({ limits: limits(given), pods, canRollBack: false, excludePreparingDelete: false, ...more });
}

describe('partitionOf', () => {
  it.each([
    ['90%', 8, 7],
    ['1%', 8, 1],
    ['100%', 8, 8],
    ['100.0%', 8, 7],
    [20, 8, 8],
    ['50%', 1, 1],
    [undefined, 8, 0],
  ])('CS-20: %s of %i replicas are %i pods', (partition, replicas, pods) => {
    expect(partitionOf(partition, replicas)).toBe(pods);
  });

  it('CS-20: a fraction of a percent counts, and stays within the replicas', () => {
    expect(partitionOf('0.5%', 1000)).toBe(5);
    expect(partitionOf('12.5%', 8)).toBe(1);
    expect(partitionOf('300%', 8)).toBe(8);
    expect(partitionOf(-3, 8)).toBe(0);
  });

  it('CS-21: one that nobody can read is 0', () => {
    expect(partitionOf('most', 8)).toBe(0);
    expect(partitionOf('-10%', 8)).toBe(0);
  });

  it('CS-92: no replicas, no partition', () => {
    expect(partitionOf('50%', 0)).toBe(0);
    expect(partitionOf(3, 0)).toBe(0);
  });
});

describe('limitsOf', () => {
  const of = (replicas: number, rollingUpdate: Parameters<typeof limitsOf>[0]['rollingUpdate']) =>
    limitsOf({ replicas, rollingUpdate, scaleMaxUnavailable: undefined });

  it('CS-22: maxUnavailable is rounded up without surge and down with surge', () => {
    expect(of(11, { maxUnavailable: '10%' }).maxUnavailable).toBe(2);
    expect(of(11, { maxUnavailable: '10%', maxSurge: 1 }).maxUnavailable).toBe(1);
    expect(of(11, { maxUnavailable: '10%', maxSurge: '0%' }).maxUnavailable).toBe(2);
    expect(of(11, { maxUnavailable: 7 }).maxUnavailable).toBe(7);
  });

  it('CS-22: without a rolling update it is 20%, rounded down', () => {
    expect(of(9, undefined).maxUnavailable).toBe(1);
    expect(of(4, undefined).maxUnavailable).toBe(0);
    expect(of(9, {}).maxUnavailable).toBe(2);
  });

  it('CS-23: maxSurge is rounded up, and 0 while paused', () => {
    expect(of(11, { maxSurge: '10%' }).maxSurge).toBe(2);
    expect(of(11, { maxSurge: '10%', paused: true })).toMatchObject({ maxSurge: 0, maxUnavailable: 3 });
  });

  it('CS-24: fractions are understood everywhere, and a bare number in quotes is a percentage', () => {
    expect(of(16, { maxUnavailable: '12.5%' }).maxUnavailable).toBe(2);
    const scale = (value: string) =>
      limitsOf({ replicas: 100, rollingUpdate: {}, scaleMaxUnavailable: value }).scaleMaxUnavailable;
    expect([scale('2.5%'), scale('5'), scale('some')]).toEqual([3, 5, 0]);
  });

  it('tells a share that comes to nothing from one that is nothing', () => {
    expect(roundsToZero('10%', 0)).toBe(true);
    expect(roundsToZero('0%', 0)).toBe(false);
    expect(roundsToZero(0, 0)).toBe(false);
    expect(roundsToZero('10%', 1)).toBe(false);
  });
});

describe('numbersOf', () => {
  it('CS-28: replicas 10, partition 3, 10 old pods: updates 7, with 2 unavailable at most', () => {
    const found = numbers({ replicas: 10, partition: 3, maxUnavailable: 2 }, times(10, oldPod));
    expect(found).toMatchObject({ updateNum: 7, updateMax: 2, up: 0, down: 0 });
  });

  describe('CS-27: replicas 5, maxSurge 2, maxUnavailable 0', () => {
    const surge = { replicas: 5, maxSurge: 2, maxUnavailable: 0 };

    it('begins with 2 new pods', () => {
      expect(numbers(surge, times(5, oldPod))).toMatchObject({ up: 2, upOld: 0, upLimit: 2, useSurge: 2 });
    });

    it('then updates 3 pods, 2 at a time', () => {
      const found = numbers(surge, [...times(5, oldPod), ...times(2, newPod)]);
      expect(found).toMatchObject({ up: 0, updateNum: 3, updateMax: 2 });
    });

    it('deletes 2 ready ones when 2 old ones are marked for it', () => {
      const found = numbers(surge, [...times(3, oldPod), ...times(2, oldPod, specified), ...times(2, newPod)]);
      expect(found).toMatchObject({ deleteAvailableLimit: 2, up: 0 });
    });

    it('ends by deleting the 2 old ones that are left', () => {
      const found = numbers(surge, [...times(5, newPod), ...times(2, oldPod)]);
      expect(found).toMatchObject({ down: 2, downOld: 2, useSurge: 0, updateNum: 0 });
    });

    it('makes no pod for an update that may not start, and keeps those that it has made', () => {
      const kept = (keptSurge: number) => ({ keptSurge });
      expect(numbers(surge, times(5, oldPod), kept(0))).toMatchObject({ up: 0, down: 0, useSurge: 0 });
      const begun = [...times(3, oldPod), ...times(4, newPod)];
      expect(numbers(surge, begun)).toMatchObject({ down: 1, useSurge: 1 });
      expect(numbers(surge, begun, kept(2))).toMatchObject({ up: 0, down: 0, useSurge: 2 });
      const through = [...times(2, oldPod), ...times(5, newPod)];
      expect(numbers(surge, through, kept(2))).toMatchObject({ down: 2, useSurge: 0 });
    });
  });

  describe('CS-27: replicas 5, maxUnavailable 1, maxSurge 1', () => {
    const surge = { replicas: 5, maxSurge: 1, maxUnavailable: 1 };

    it('creates first when one pod is down and another one is to be deleted', () => {
      const pods = [...times(3, newPod), ...times(1, newPod, down), ...times(1, newPod, specified)];
      expect(numbers(surge, pods)).toMatchObject({ up: 1, deleteAvailableLimit: 0 });
    });

    it('creates nothing when the pod to be deleted is the one that is down', () => {
      const pods = [...times(4, newPod), ...times(1, newPod, { ...specified, ...down })];
      expect(numbers(surge, pods)).toMatchObject({ up: 0 });
    });

    it('deletes at once when the budget has room for it', () => {
      const pods = [...times(3, newPod), ...times(1, newPod, down), ...times(1, newPod, specified)];
      expect(numbers({ ...surge, maxUnavailable: 2 }, pods)).toMatchObject({ up: 0, deleteAvailableLimit: 1 });
    });
  });

  it('CS-28: replicas 8, partition 4, 3 old and 2 new pods: creates 3, of which 1 is old', () => {
    const found = numbers({ replicas: 8, partition: 4 }, [...times(3, oldPod), ...times(2, newPod)]);
    expect(found).toMatchObject({ up: 3, upOld: 1, upLimit: 3 });
  });

  it('CS-28: replicas 4, partition 3, 5 old and 3 new pods: deletes 4, of which 2 are old', () => {
    const pods = [...times(5, oldPod), ...times(3, newPod)];
    const found = numbers({ replicas: 4, partition: 3, maxUnavailable: 1 }, pods);
    expect(found).toMatchObject({ down: 4, downOld: 2, deleteAvailableLimit: 5 });
  });

  it('CS-28: replicas 6, 2 may be unavailable while scaling, 3 pods of which 1 is: creates 1 of 3', () => {
    const pods = [...times(2, newPod), ...times(1, newPod, down)];
    expect(numbers({ replicas: 6, scaleMaxUnavailable: 2 }, pods)).toMatchObject({ up: 3, upLimit: 1 });
  });

  it('CS-38: a pod held before its deletion is replaced at once only where the set says so', () => {
    const pods = [...times(4, newPod), ...times(1, newPod, preparing)];
    expect(numbers({}, pods)).toMatchObject({ up: 0 });
    expect(numbers({}, pods, { excludePreparingDelete: true })).toMatchObject({ up: 1 });
  });

  it('CS-26, CS-64: takes pods back by the partition only where that is allowed', () => {
    const pods = [...times(4, newPod), ...times(1, oldPod)];
    const given = { replicas: 5, partition: 4, maxUnavailable: 2 };
    expect(numbers(given, pods, { canRollBack: true })).toMatchObject({ updateNum: -3, updateMax: 2 });
    expect(numbers(given, pods)).toMatchObject({ updateNum: 0, updateMax: 0 });
  });

  it('CS-26: takes no pod back while scaling is enough', () => {
    const missing = [...times(3, oldPod), ...times(2, newPod)];
    const given = { replicas: 8, partition: 4, scaleMaxUnavailable: 0 };
    expect(numbers(given, missing, { canRollBack: true })).toMatchObject({ up: 3, upLimit: 0, updateNum: 0 });
    const tooMany = [...times(5, oldPod), ...times(3, newPod)];
    expect(numbers({ replicas: 4, partition: 3 }, tooMany, { canRollBack: true })).toMatchObject({ updateNum: 0 });
  });

  it('CS-28, CS-55b: replicas 3, 5 pods that are not available: is 2 too many, which no budget keeps', () => {
    const pods = times(5, newPod, down);
    expect(numbers({ replicas: 3, maxUnavailable: 1 }, pods)).toMatchObject({ down: 2, isScaleIn: true });
  });

  it('CS-25: pods to be deleted are no part of the unavailable ones, pods held before it are', () => {
    const pods = [...times(2, newPod), ...times(1, newPod, { ...specified, ...down }), ...times(2, newPod, preparing)];
    expect(numbers({}, pods)).toMatchObject({ unavailable: 2 });
  });

  it('CS-94: pods of whatever older revision count as old, anew at each look', () => {
    const pods = [...times(3, oldPod), ...times(1, oldPod, down), ...times(1, newPod)];
    expect(numbers({ replicas: 5, maxUnavailable: 1 }, pods)).toMatchObject({ updateNum: 4, updateMax: 1 });
  });

  const anyPod = fc.record({
    isNew: fc.boolean(),
    isPreparingDelete: fc.boolean(),
    isSpecified: fc.boolean(),
    isAvailable: fc.boolean(),
  });
  const small = fc.integer({ min: 0, max: 6 });
  const anyLimits = fc
    .record({ replicas: small, partition: small, maxUnavailable: small, maxSurge: small, scaleMaxUnavailable: small })
    .map((given): Limits => ({ ...given, partition: Math.min(given.partition, given.replicas) }));

  it('never asks for more than the replicas and the surge, nor for creating and deleting at once', () => {
    fc.assert(
      fc.property(
        anyLimits,
        fc.array(anyPod, { maxLength: 12 }),
        fc.boolean(),
        fc.boolean(),
        (given, pods, canRollBack, excludePreparingDelete) => {
          const found = numbersOf({ limits: given, pods, canRollBack, excludePreparingDelete });
          const counted = excludePreparingDelete ? pods.filter((pod) => !pod.isPreparingDelete) : pods;
          expect(found.useSurge).toBeLessThanOrEqual(given.maxSurge);
          expect(counted.length + found.up).toBeLessThanOrEqual(
            Math.max(given.replicas + given.maxSurge, counted.length),
          );
          expect(found.up * found.down).toBe(0);
          expect(found.upLimit).toBeLessThanOrEqual(found.up);
          const movable = pods.filter(({ isNew }) => isNew === found.updateNum < 0);
          expect(Math.abs(found.updateNum)).toBeLessThanOrEqual(movable.length);
        },
      ),
    );
  });
});
