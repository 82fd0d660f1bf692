import { describe, expect, it } from '@jest/globals';
import { currentContent } from '../../api/sidecar-set/injection/choose.ts';
import type { SidecarSet } from '../../api/sidecar-set/types.ts';
import { mostUnavailable, podsToKeep, podsToUpdate, updateDemand } from '../../plan/sidecar-set/budget.ts';
import type { ClassifiedPod } from '../../plan/sidecar-set/classify.ts';
import { targetOfSpec, targetOfUndo } from '../../plan/sidecar-set/target.ts';
import { aSidecarSet, cold, injectedPod } from '../support/sidecar-pods.ts';

const old = aSidecarSet();
const withStrategy = (updateStrategy: SidecarSet['spec']['updateStrategy'] = {}) =>
  aSidecarSet({ containers: [cold('log', 'log:2')], updateStrategy });

interface Group {
  readonly count?: number;
  readonly place?: ClassifiedPod['place'];
  readonly isSidecarReady?: boolean;
  readonly isConsistent?: boolean;
}

/** Pods in groups, in their order: waiting, ready and consistent unless a group says otherwise. */
function fleet(...groups: readonly Group[]): readonly ClassifiedPod[] {
  let number = 0;
  return groups.flatMap((group) => {
    const { count = 1, place = { kind: 'waiting' }, isSidecarReady = true, isConsistent = true } = group;
    return Array.from({ length: count }, (): ClassifiedPod => {
      const name = `p${String(number++).padStart(3, '0')}`;
      const pod = injectedPod([place.kind === 'updated' ? withStrategy() : old], { name });
      return { pod, place, isSidecarReady, isConsistent };
    });
  });
}

const updated: ClassifiedPod['place'] = { kind: 'updated' };

function chosen(pods: readonly ClassifiedPod[], strategy: SidecarSet['spec']['updateStrategy'] = {}) {
  return podsToUpdate(updateDemand(targetOfSpec(withStrategy(strategy), ''), pods)).pods.map(
    ({ pod }) => pod.metadata.name,
  );
}

describe('the number of pods that partition keeps', () => {
  it.each([
    { partition: undefined, managed: 10, kept: 0 },
    { partition: 0, managed: 10, kept: 0 },
    { partition: 3, managed: 10, kept: 3 },
    { partition: 30, managed: 10, kept: 10 },
    { partition: -1, managed: 10, kept: 0 },
    { partition: '0%', managed: 10, kept: 0 },
    { partition: '33%', managed: 10, kept: 4 },
    { partition: '99%', managed: 2, kept: 1 },
    { partition: '1%', managed: 1, kept: 1 },
    { partition: 90, managed: 100, kept: 90 },
    { partition: '100%', managed: 10, kept: 10 },
    { partition: '99%', managed: 10, kept: 9 },
    { partition: '250%', managed: 10, kept: 10 },
    { partition: 'many', managed: 10, kept: 10 },
    { partition: '50%', managed: 0, kept: 0 },
  ])('SCS-154, SCS-155: $partition of $managed keeps $kept', ({ partition, managed, kept }) => {
    expect(podsToKeep(partition, managed)).toBe(kept);
  });

  it('SCS-154, SCS-155: is taken off the waiting pods: 5 of 10, of which 4 are not upgradable, leave one', () => {
    const pods = fleet({ count: 4, place: { kind: 'notUpgradable' } }, { count: 6 });
    expect(chosen(pods, { partition: 5, maxUnavailable: 10 })).toEqual(['p004']);
  });

  it('SCS-155: partition 90 of 100 lets 10 go', () => {
    expect(chosen(fleet({ count: 100 }), { partition: 90, maxUnavailable: '100%' })).toHaveLength(10);
  });

  it('SCS-154: pods that are not selected or in progress do not use it up', () => {
    const pods = fleet(
      { count: 2, place: { kind: 'notSelected' } },
      { count: 2, place: { kind: 'inProgress', containers: ['log'] } },
      { count: 2 },
    );
    expect(chosen(pods, { partition: 1, maxUnavailable: 10 })).toEqual(['p004']);
    expect(chosen(pods, { partition: 2, maxUnavailable: 10 })).toEqual([]);
  });

  it('SCS-158: a partition that is raised later rolls nothing back', () => {
    expect(chosen(fleet({ count: 3, place: updated }, { count: 1 }), { partition: 4 })).toEqual([]);
  });

  it('is not for the undo of an update', () => {
    const set = withStrategy({ partition: '100%', maxUnavailable: 5 });
    const undo = targetOfUndo(set, { ...currentContent(old), revision: 'logs-old' });
    expect(updateDemand(undo, fleet({ count: 3 }))).toMatchObject({ line: { length: 3 }, kept: { length: 0 } });
  });
});

describe('the number of pods that may be unavailable', () => {
  it.each([
    { maxUnavailable: undefined, managed: 10, most: 1 },
    { maxUnavailable: 0, managed: 10, most: 0 },
    { maxUnavailable: 4, managed: 10, most: 4 },
    { maxUnavailable: '5%', managed: 6, most: 1 },
    { maxUnavailable: '50%', managed: 5, most: 3 },
    { maxUnavailable: '0%', managed: 10, most: 0 },
    { maxUnavailable: 'many', managed: 10, most: 0 },
    { maxUnavailable: -3, managed: 10, most: 0 },
  ])('SCS-156: $maxUnavailable of $managed is $most', ({ maxUnavailable, managed, most }) => {
    expect(mostUnavailable(maxUnavailable, managed)).toBe(most);
  });

  it('SCS-156: 0 updates only pods that are not sidecar-ready', () => {
    const pods = fleet({ count: 2, isSidecarReady: false }, { count: 2 });
    expect(chosen(pods, { maxUnavailable: 0 })).toEqual(['p000', 'p001']);
  });

  it('SCS-157, SCS-226: updated pods that are down use it up', () => {
    const down = fleet(
      { place: updated, isSidecarReady: false },
      { place: updated, isConsistent: false },
      { place: updated },
      { count: 4 },
    );
    expect(chosen(down, { maxUnavailable: 3 })).toEqual(['p003']);
    expect(chosen(down, { maxUnavailable: 2 })).toEqual([]);
  });

  it('SCS-157: old pods that are not ready never use it up, and cost nothing', () => {
    const pods = fleet({ count: 3, isSidecarReady: false }, { count: 3 });
    expect(chosen(pods, { maxUnavailable: 1 })).toEqual(['p000', 'p001', 'p002', 'p003']);
  });

  it('SCS-157: the walk stops at the first ready pod without room, although a pod behind it would cost nothing', () => {
    const pods = fleet({ count: 2 }, { isSidecarReady: false });
    const demand = updateDemand(targetOfSpec(withStrategy({}), ''), pods);
    const { pods: taken, heldBack } = podsToUpdate(demand);
    expect([taken.length, heldBack?.pod.metadata.name]).toEqual([1, 'p001']);
  });

  it('SHU-34: a pod in its swap uses it up, and is Ready for Kubernetes', () => {
    const pods = fleet({ place: updated, isSidecarReady: false, isConsistent: true }, { count: 1 });
    expect(chosen(pods, { maxUnavailable: 1 })).toEqual([]);
  });
});
