import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../api/core/pod.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import type { FleetPod } from '../../plan/fleet/pods.ts';
import { cloneSet, newName, now, type PodFacts, permit, pod, scene, world } from '../support/cloneset-world.ts';

/** A pod of either revision that is available, ready for a second, not ready, or has no node. */
const anyPod: fc.Arbitrary<PodFacts> = fc.record({
  revision: fc.constantFrom<string | undefined>(newName, undefined),
  ready: fc.constantFrom(true, true, now, false),
  specified: fc.constantFrom(false, false, false, true),
  labels: fc.constantFrom({}, { first: 'yes' }),
}) as fc.Arbitrary<PodFacts>;

const anyFleet = fc.record({
  facts: fc.array(anyPod, { maxLength: 8 }),
  replicas: fc.integer({ min: 0, max: 6 }),
  partition: fc.integer({ min: 0, max: 3 }),
  maxUnavailable: fc.integer({ min: 0, max: 3 }),
  maxSurge: fc.constantFrom(0, 0, 1),
  scaleMaxUnavailable: fc.constantFrom(undefined, 1, 2),
  podUpdatePolicy: fc.constantFrom('InPlaceIfPossible' as const, 'ReCreate' as const),
  hasPriority: fc.boolean(),
});

describe('a CloneSet that can go on without an available pod beyond its budget', () => {
  it('CS-55b: goes on, or waits for the budget of available pods alone', () => {
    fc.assert(
      fc.property(anyFleet, ({ facts, replicas, partition, hasPriority, ...given }) => {
        const maxUnavailable = given.maxSurge === 0 ? Math.max(given.maxUnavailable, 1) : given.maxUnavailable;
        const weightPriority = [{ weight: 10, matchSelector: { matchLabels: { first: 'yes' } } }];
        const set = cloneSet({
          ...{ replicas, minReadySeconds: 60 },
          ...(given.scaleMaxUnavailable !== undefined && {
            scaleStrategy: { maxUnavailable: given.scaleMaxUnavailable },
          }),
          rollingUpdate: {
            ...{ partition, maxUnavailable, maxSurge: given.maxSurge, podUpdatePolicy: given.podUpdatePolicy },
            ...(hasPriority && { priorityStrategy: { weightPriority } }),
          },
        });
        const pods: readonly Pod[] = facts.map((fact, index) => pod(`web-${index}`, fact));
        const input = world({ set, pods, permit: permit() });
        const plan = planCloneSet(input);
        if (plan.upkeep.length + plan.disruption.length > 0) return;

        // Nothing is done: so nothing is left that would cost no available pod.
        const { counted } = scene(input);
        const isOld = ({ revision }: FleetPod) => revision !== newName;
        const left = counted.filter((one) => isOld(one) && !one.isSpecified).length - partition;
        const free = counted.filter((one) => !one.isReady && isOld(one) && !one.isSpecified);
        // CS-51: with a priority, the partition may keep a pod that is down.
        const isNamed = counted.some((one) => one.isSpecified); // its replacement will be what goes first
        if (left > 0 && !isNamed && (partition === 0 || !hasPriority)) expect(free.slice(0, left)).toEqual([]);
        expect(counted.filter((one) => one.isSpecified && !one.isAvailable)).toEqual([]);
        const available = counted.filter((one) => one.isAvailable).length;
        if (counted.length > replicas) expect(counted.length === available && available > replicas).toBe(false);
      }),
      { numRuns: 2000 },
    );
  });
});
