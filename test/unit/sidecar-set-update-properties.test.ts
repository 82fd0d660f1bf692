import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../api/core/pod.ts';
import { hotPair, isHotUpgrade, type SidecarSet } from '../../api/sidecar-set/types.ts';
import { mostUnavailable, podsToKeep, podsToUpdate, updateDemand } from '../../plan/sidecar-set/budget.ts';
import { classifyPods } from '../../plan/sidecar-set/classify.ts';
import { isConsistent, isSidecarReady, recordedHash } from '../../plan/sidecar-set/pods.ts';
import { resetDecision, resetWrite } from '../../plan/sidecar-set/swap.ts';
import { type SidecarTarget, targetOfSpec } from '../../plan/sidecar-set/target.ts';
import { sidecarChange, sidecarWrite } from '../../plan/sidecar-set/write.ts';
import {
  aSidecarSet,
  caughtUp,
  cold,
  hot,
  imagesOf,
  injectedPod,
  statusOf,
  written,
  writtenAt,
} from '../support/sidecar-pods.ts';

// Fleets are played round by round: resets and updates as the controller does them, then a kubelet that finishes with some
// pods, breaks some, and leaves the others as they are.

const labels = { zone: ['a', 'b', 'c'], tier: ['1', '2', '30'] } as const;

const count = fc.oneof(
  fc.integer({ min: 0, max: 6 }),
  fc.integer({ min: 0, max: 100 }).map((share) => `${share}%`),
);
const strategy = fc.record(
  {
    partition: count,
    maxUnavailable: count,
    priorityStrategy: fc.constantFrom(
      { orderPriority: [{ orderedKey: 'tier' }] },
      { weightPriority: [{ weight: 20, matchSelector: { matchLabels: { zone: 'b' } } }] },
    ),
    scatterStrategy: fc.constantFrom([{ key: 'zone', value: '*' }], [{ key: 'zone', value: 'a' }]),
  },
  { requiredKeys: [] },
);

const podFacts = fc.record({
  zone: fc.constantFrom(...labels.zone, undefined),
  tier: fc.constantFrom(...labels.tier, undefined),
  content: fc.constantFrom('old', 'old', 'old', 'new', 'other'),
  isDown: fc.constantFrom(false, false, false, true),
});

/** What the kubelet does with each pod after a round. */
const kubelet = fc.array(fc.constantFrom('finish', 'finish', 'nothing', 'break', 'halfway'), { minLength: 1 });

const scenario = fc.record({
  hasHot: fc.boolean(),
  strategy,
  pods: fc.array(podFacts, { minLength: 1, maxLength: 12 }),
  rounds: fc.array(kubelet, { maxLength: 8 }),
});
type Scenario = typeof scenario extends fc.Arbitrary<infer Value> ? Value : never;

function world({ hasHot, strategy: updateStrategy, pods }: Scenario) {
  const set = (tag: string, others = {}): SidecarSet =>
    aSidecarSet({
      containers: [cold('log', `log:${tag}`, others), ...(hasHot ? [hot('mesh', `mesh:${tag}`)] : [])],
      updateStrategy,
      resourceVersion: '500',
    });
  const contents = { old: set('1'), new: set('2'), other: set('1', { tty: true }) };
  const fleet = pods.map(({ zone, tier, content, isDown }, index) => {
    const given = { app: 'web', ...(zone && { zone }), ...(tier && { tier }) };
    const namespace = index % 2 === 0 ? 'even' : 'odd';
    const pod = injectedPod([contents[content]], { namespace, name: `p${index}`, uid: `u${index}`, labels: given });
    return caughtUp(pod, !isDown);
  });
  return { fleet, target: targetOfSpec(contents.new, 'logs-new') };
}

const isUp = (target: SidecarTarget, pod: Pod) =>
  isSidecarReady({ spec: target.content }, pod) &&
  isConsistent({ metadata: { name: target.setName }, spec: target.content }, pod);

const chosenOf = (target: SidecarTarget, fleet: readonly Pod[]) =>
  podsToUpdate(
    updateDemand(
      target,
      classifyPods(target, fleet, () => undefined),
    ),
  ).pods.map(({ pod }) => pod);

/** One pass: resets, and only without any of them updates. `took` names the pods that were up when they were written. */
function pass(target: SidecarTarget, fleet: readonly Pod[]) {
  const due = fleet.filter((pod) => resetDecision(target, pod).kind === 'due');
  if (due.length > 0) {
    const reset = (pod: Pod) => {
      const result = resetWrite(target, pod, writtenAt);
      return result === undefined ? pod : written(pod, result.write);
    };
    return { fleet: fleet.map((pod) => (due.includes(pod) ? reset(pod) : pod)), took: [] };
  }
  const chosen = chosenOf(target, fleet);
  const took = chosen.filter((pod) => isSidecarReady({ spec: target.content }, pod));
  return { fleet: fleet.map((pod) => (chosen.includes(pod) ? update(target, pod) : pod)), took };
}

function update(target: SidecarTarget, pod: Pod): Pod {
  const result = sidecarWrite(target, pod, writtenAt);
  if (result.kind !== 'write') throw new Error(`a chosen pod is not written: ${JSON.stringify(result)}`);
  expect(sidecarChange(target, pod)).toEqual({ kind: 'change', containers: result.containers });
  checkHot(
    target,
    pod,
    result.containers.map(({ name }) => name),
  );
  const after = written(pod, result.write);
  expect(sidecarWrite(target, after, writtenAt)).toEqual({ kind: 'nothing' });
  return after;
}

/** SHU-84: one container of a pair at most, and never one that has a real image while the other one is idle. */
function checkHot(target: SidecarTarget, pod: Pod, changed: readonly string[]): void {
  for (const sidecar of (target.content.containers ?? []).filter(isHotUpgrade)) {
    const pair = hotPair(String(sidecar.name));
    const ofPair = pair.filter((name) => changed.includes(name));
    expect(ofPair.length).toBeLessThanOrEqual(1);
    const idle = pair.find((name) => imagesOf(pod)[name] === sidecar.upgradeStrategy?.hotUpgradeEmptyImage);
    if (idle !== undefined && ofPair.length > 0) expect(ofPair).toEqual([idle]);
  }
}

function act(pod: Pod, what: string): Pod {
  switch (what) {
    case 'finish':
      return caughtUp(pod);
    case 'break':
      return caughtUp(pod, false);
    case 'halfway': {
      // The first container that differs has been restarted, the others have not.
      const statuses = pod.status?.containerStatuses ?? [];
      const next = pod.spec.containers.find(({ name, image = '' }) =>
        statuses.some((status) => status.name === name && status.image !== `docker.io/library/${image}`),
      );
      const containerStatuses = statuses.map((status) =>
        status.name === next?.name ? statusOf(status.name, next.image ?? '') : status,
      );
      return { ...pod, status: { ...pod.status, containerStatuses } };
    }
    default:
      return pod;
  }
}

const numRuns = 150;

describe('the update of a fleet, played round by round', () => {
  it('SCS-157: never has more pods down by our doing than maxUnavailable', () => {
    fc.assert(
      fc.property(scenario, (given) => {
        const { fleet: before, target } = world(given);
        const most = mostUnavailable(given.strategy.maxUnavailable, before.length);
        let fleet = before;
        const byUs = new Set<string>();
        for (const actions of given.rounds) {
          const round = pass(target, fleet);
          for (const { metadata } of round.took) byUs.add(metadata.uid);
          fleet = round.fleet;
          for (const pod of fleet) if (isUp(target, pod)) byUs.delete(pod.metadata.uid);
          expect(byUs.size).toBeLessThanOrEqual(most);
          fleet = fleet.map((pod, index) => act(pod, actions[index % actions.length] ?? 'nothing'));
          for (const pod of fleet) if (isUp(target, pod)) byUs.delete(pod.metadata.uid);
        }
      }),
      { numRuns },
    );
  });

  it('SCS-154, SCS-158: never updates a pod that partition keeps', () => {
    fc.assert(
      fc.property(scenario, (given) => {
        const { fleet: before, target } = world(given);
        const isOld = (pod: Pod) => recordedHash(pod, target.setName) !== target.hashes.whole;
        const kept = podsToKeep(given.strategy.partition, before.length);
        const least = Math.min(kept, before.filter(isOld).length);
        let fleet = before;
        for (const actions of given.rounds) {
          fleet = pass(target, fleet).fleet;
          expect(fleet.filter(isOld).length).toBeGreaterThanOrEqual(least);
          fleet = fleet.map((pod, index) => act(pod, actions[index % actions.length] ?? 'nothing'));
        }
      }),
      { numRuns },
    );
  });

  it('SCS-170: chooses the same pods in the same order, however they are listed', () => {
    fc.assert(
      fc.property(scenario, fc.infiniteStream(fc.nat()), (given, random) => {
        const { fleet, target } = world(given);
        const shuffled = fleet
          .map((pod) => ({ pod, at: random.next().value ?? 0 }))
          .toSorted((left, right) => left.at - right.at)
          .map(({ pod }) => pod);
        expect(chosenOf(target, shuffled)).toEqual(chosenOf(target, fleet));
      }),
      { numRuns },
    );
  });

  it('updates every pod that can be, when the kubelet does its part', () => {
    fc.assert(
      fc.property(scenario, (given) => {
        const maxUnavailable = 1;
        const { fleet: before, target } = world({ ...given, strategy: { maxUnavailable } });
        let fleet = before.map((pod) => caughtUp(pod));
        for (let round = 0; round < 4 * fleet.length + 4; round++) {
          fleet = pass(target, fleet).fleet.map((pod) => caughtUp(pod));
        }
        for (const { place, isConsistent: isDone, isSidecarReady: isReady } of classifyPods(
          target,
          fleet,
          () => undefined,
        )) {
          expect([place.kind === 'updated' || place.kind === 'notUpgradable', isDone, isReady]).toEqual(
            Array(3).fill(true),
          );
        }
      }),
      { numRuns: 50 },
    );
  });

  it('takes pods with annotations of any text', () => {
    const text = fc.oneof(
      fc.string(),
      fc.json(),
      fc.constantFrom('{"logs":{}}', '{"logs":"x"}', '{"logs":{"lastContainerStatuses":{"log":1}}}', '{"mesh":5}'),
    );
    const keys = [
      'kruise.io/sidecarset-hash',
      'kruise.io/sidecarset-hash-without-image',
      'kruise.io/sidecarset-inplace-update-state',
      'kruise.io/sidecarset-working-hotupgrade-container',
      'version.sidecarset.kruise.io/mesh-1',
      'versionalt.sidecarset.kruise.io/mesh-2',
    ];
    fc.assert(
      fc.property(scenario, fc.dictionary(fc.constantFrom(...keys), text), (given, annotations) => {
        const { fleet, target } = world(given);
        const odd = fleet.map((pod) => ({
          ...pod,
          metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, ...annotations } },
        }));
        chosenOf(target, odd);
        for (const pod of odd) {
          resetWrite(target, pod, writtenAt);
          const result = sidecarWrite(target, pod, writtenAt);
          if (result.kind === 'write') {
            checkHot(
              target,
              pod,
              result.containers.map(({ name }) => name),
            );
            expect(sidecarWrite(target, written(pod, result.write), writtenAt)).toEqual({ kind: 'nothing' });
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});
