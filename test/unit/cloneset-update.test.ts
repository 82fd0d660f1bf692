import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { timestamp } from '../../api/base/time.ts';
import type { CloneSet } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import { formatGrace } from '../../api/in-place/grace.ts';
import { formatState } from '../../api/in-place/state.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { scaleNumbers } from '../../plan/cloneset/scene.ts';
import { updateDemand, updateLine } from '../../plan/cloneset/update.ts';
import { question } from '../../plan/fleet/permit.ts';
import { planRefresh } from '../../plan/fleet/refresh.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import { planUpdate } from '../../plan/fleet/update.ts';
import {
  cloneSet,
  earlier,
  heldByOperator,
  imageUpdate,
  newName,
  newPodOf,
  newRevisionOfSet,
  now,
  oldImage,
  oldName,
  oldRevision,
  onDelete,
  permit,
  pod,
  pods,
  revisionOf,
  scene,
  template,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';
import { permitForAll } from '../support/permits.ts';
import { refusedUpdates } from '../support/refused-updates.ts';

const drain = 'example.com/drain';
const hooks: Lifecycle = { inPlaceUpdate: { finalizersHandler: [drain] } };
const nobody: ReadonlySet<string> = new Set();
const fresh = (count: number, facts = {}) => pods('n', count, { revision: newName, ...facts });

function update(facts: WorldFacts) {
  return updateOf(world({ permit: permit(), ...facts }));
}

function updateOf(input: CloneSetInput, busy = nobody) {
  const seen = scene(input);
  const { up, down } = scaleNumbers(seen);
  const demand = updateDemand(seen);
  const line = () => updateLine(seen, demand);
  return planUpdate(seen, demand, { line, busy, isScaling: up + down > 0 });
}

function refresh(facts: WorldFacts) {
  const seen = scene(world(facts));
  return planRefresh(seen, { busy: nobody, isTakenBack: updateDemand(seen).left < 0 });
}

/** The set with an operator's order to leave these pods out. */
function skipping(skip: readonly string[], set: CloneSet): CloneSet {
  const rollOut = { version: 1, revision: newName, skip };
  return { ...set, status: { ...set.status, rollOut } as CloneSet['status'] & object };
}

function names(steps: readonly Intention[]): readonly string[] {
  return steps.flatMap((step) => {
    switch (step.kind) {
      case 'updatePod':
        return [`update ${step.pod.name}`];
      case 'recreatePod':
        return [`recreate ${step.pod.name}`];
      case 'writePod':
        return [`${step.why} ${step.pod.name}`];
      default:
        return [step.kind];
    }
  });
}

function labelsIn(step: Intention | undefined): JsonObject {
  const [first] = step !== undefined && 'writes' in step ? step.writes : [];
  const metadata = (first?.patch.metadata ?? {}) as JsonObject;
  return (metadata.labels ?? {}) as JsonObject;
}

function stateIn(step: Intention | undefined): unknown {
  return labelsIn(step)['lifecycle.apps.kruise.io/state'];
}

const inPlace = (change: Parameters<typeof cloneSet>[0] = {}) => cloneSet(change);
const recreate = (change: Parameters<typeof cloneSet>[0] = {}) =>
  cloneSet({ ...change, rollingUpdate: { podUpdatePolicy: 'ReCreate', ...change.rollingUpdate } });

const state = imageUpdate({ updateTimestamp: now });

/** A pod in the middle of its update: its spec has the new image, and its container runs the old or the new one. */
function updating(name: string, isSwapped: boolean, facts: Parameters<typeof newPodOf>[1] = {}): Pod {
  const last = isSwapped ? 'other' : 'docker.io/library/nginx:1.1@sha256:0';
  const made = newPodOf(name, {
    state: 'Updating',
    annotations: {
      'apps.kruise.io/inplace-update-state': formatState({
        ...state,
        lastContainerStatuses: { main: { imageID: last } },
      }),
    },
    conditions: [
      { type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime: earlier },
      { type: 'KruisePodReady', status: 'True', lastTransitionTime: earlier },
      { type: 'ContainersReady', status: 'True', lastTransitionTime: earlier },
      { type: 'Ready', status: 'False', lastTransitionTime: earlier },
    ],
    ...facts,
  });
  if (isSwapped) return made;
  const containerStatuses = (made.status?.containerStatuses ?? []).map((status) => ({ ...status, image: oldImage }));
  return { ...made, status: { ...made.status, containerStatuses } };
}

/** A pod that was taken out of service for its update so many seconds ago. */
function drained(name: string, secondsAgo = 0): Pod {
  const lastTransitionTime = timestamp(Date.parse(now) - secondsAgo * 1000);
  return pod(name, {
    conditions: [
      { type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime },
      { type: 'Ready', status: 'False', lastTransitionTime },
    ],
  });
}

/** A new pod with these conditions from its node. */
function born(conditions: readonly string[], facts: Parameters<typeof pod>[1] = {}): Pod {
  return newPodOf('web-a', {
    state: 'PreparingNormal',
    ready: false,
    phase: 'Pending',
    created: now,
    conditions: conditions.map((type) => ({ type, status: 'True', lastTransitionTime: now })),
    ...facts,
  });
}

describe('planRefresh', () => {
  it('leaves a new pod to scheduler and kubelet until the kubelet has been heard, for ten seconds at most', () => {
    expect(refresh({ pods: [born([], { node: null })] })).toMatchObject({ steps: [], againInMs: 10_000 });
    expect(refresh({ pods: [born(['PodScheduled'])] })).toMatchObject({ steps: [], againInMs: 10_000 });
    expect(names(refresh({ pods: [born(['PodScheduled', 'Initialized'])] }).steps)).toEqual(['refresh web-a']);
    expect(names(refresh({ pods: [born([], { phase: 'Running' })] }).steps)).toEqual(['refresh web-a']);
    expect(names(refresh({ pods: [born(['PodScheduled'], { created: earlier })] }).steps)).toEqual(['refresh web-a']);
  });

  it('PRG-6, LC-11: brings a new pod into service and to work in one write, with the answer for the shared gate', () => {
    const { steps } = refresh({ pods: [born(['PodScheduled', 'Initialized'])] });
    expect(steps).toMatchObject([
      {
        writes: [
          {
            kind: 'status',
            patch: {
              metadata: { labels: { 'lifecycle.apps.kruise.io/state': 'Normal' } },
              status: {
                conditions: [
                  { type: 'InPlaceUpdateReady', status: 'True' },
                  { type: 'KruisePodReady', status: 'True' },
                ],
              },
            },
          },
        ],
      },
    ]);
    expect(steps[0] && 'writes' in steps[0] && steps[0].writes).toHaveLength(1);
  });

  it('PRG-8: leaves an answer for the shared gate alone, whatever it says', () => {
    const held = { type: 'KruisePodReady', status: 'False', message: '[]', lastTransitionTime: earlier };
    const gate = { type: 'InPlaceUpdateReady', status: 'True', lastTransitionTime: earlier };
    expect(refresh({ pods: [newPodOf('web-a', { state: 'Normal', conditions: [gate, held] })] }).steps).toEqual([]);
  });

  it('CS-50, LC-22: an update that is complete brings the pod into service and to work in one write', () => {
    const { steps } = refresh({ pods: [updating('web-a', true)] });
    expect(names(steps)).toEqual(['refresh web-a']);
    expect(steps[0]).toMatchObject({
      pod: { uid: 'web-a-uid', resourceVersion: '1' },
      writes: [
        {
          kind: 'status',
          patch: {
            metadata: {
              labels: { 'lifecycle.apps.kruise.io/state': 'Normal' },
              annotations: { 'lifecycle.apps.kruise.io/timestamp': now },
            },
            status: { conditions: [{ type: 'InPlaceUpdateReady', status: 'True', reason: null }] },
          },
        },
      ],
    });
  });

  it('LC-54: the same write takes the key of the hook out of the readiness condition', () => {
    const held = updating('web-a', true);
    const message = '[{"userAgent":"Lifecycle","key":"preUpdateHook"}]';
    const conditions = (held.status?.conditions ?? []).map((condition) =>
      condition.type === 'KruisePodReady' ? { ...condition, status: 'False', message } : condition,
    );
    const { steps } = refresh({ pods: [{ ...held, status: { ...held.status, conditions } }] });
    expect(steps[0]).toMatchObject({
      writes: [
        {
          patch: {
            status: {
              conditions: [{ type: 'InPlaceUpdateReady' }, { type: 'KruisePodReady', status: 'True', message: '[]' }],
            },
          },
        },
      ],
    });
  });

  it('IPU-40: an update that is not complete is waited for', () => {
    const found = refresh({ pods: [updating('web-a', false)] });
    expect(found.steps).toEqual([]);
    expect(found.underWay).toMatchObject([{ pod: { name: 'web-a' }, waitingFor: { reason: 'ImageNotSwapped' } }]);
  });

  it('IPU-40a: a new pod gets its place in service, and its state when it has a node', () => {
    const conditions = [{ type: 'ContainersReady', status: 'True', lastTransitionTime: earlier }];
    const { steps } = refresh({ pods: [newPodOf('web-a', { state: 'PreparingNormal', conditions })] });
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject({ writes: [{ kind: 'status' }] });
    expect(stateIn(steps[0])).toBe('Normal');
  });

  it('CS-50: a pod without the short hash gets it', () => {
    const plain = newPodOf('web-a', { state: 'Normal' });
    const { 'pod-template-hash': hash, ...labels } = plain.metadata.labels ?? {};
    const { steps } = refresh({ pods: [{ ...plain, metadata: { ...plain.metadata, labels } }] });
    expect(labelsIn(steps[0])).toEqual({ 'pod-template-hash': hash });
  });

  it('CS-50: leaves pods alone that need nothing', () => {
    expect(refresh({ pods: [...fresh(2, { state: 'Normal' }), ...pods('o', 2)] }).steps).toEqual([]);
  });

  it('CS-61, LC-65: goes on while paused, with OnDelete, and without a permit', () => {
    const given = [updating('web-a', true)];
    const paused = cloneSet({ rollingUpdate: { paused: true } });
    for (const set of [paused, onDelete(cloneSet())]) expect(refresh({ set, pods: given }).steps).toHaveLength(1);
  });

  it('IPU-27: looks again when a grace period ends, and goes on then', () => {
    const annotations = (updateTimestamp: string) => ({
      'apps.kruise.io/inplace-update-state': formatState({ ...state, updateTimestamp }),
      'apps.kruise.io/inplace-update-grace': formatGrace({
        revision: newName,
        change: { images: { main: 'nginx:1.1' }, refMetadata: {}, resources: {}, updateEnvFromMetadata: false },
        graceSeconds: 8,
      }),
    });
    const during = newPodOf('web-a', { state: 'Updating', image: oldImage, annotations: annotations(now) });
    expect(refresh({ pods: [during] })).toMatchObject({ steps: [], againInMs: 8_999 });
    const over = newPodOf('web-a', { state: 'Updating', image: oldImage, annotations: annotations(earlier) });
    expect(refresh({ pods: [over] }).steps[0]).toMatchObject({
      writes: [{ kind: 'pod', patch: { spec: { containers: [{ name: 'main', image: 'nginx:1.1' }] } } }],
    });
  });

  it('IPU-28: names a pod that nobody can read', () => {
    const annotations = { 'apps.kruise.io/inplace-update-state': '{' };
    const found = refresh({ pods: [newPodOf('web-a', { state: 'Updating', annotations })] });
    expect(found).toMatchObject({ steps: [], broken: [{ pod: { name: 'web-a' } }] });
  });

  it('LC-26: a held pod that is where it should be goes back, its containers untouched', () => {
    const given = [
      newPodOf('web-a', { state: 'PreparingUpdate' }),
      newPodOf('web-b', { state: 'PreparingUpdate', finalizers: [drain] }),
    ];
    const { steps } = refresh({ set: cloneSet({ lifecycle: hooks }), pods: given });
    expect(steps.map(stateIn)).toEqual(['Updated', 'Normal']);
  });
});

describe('planUpdate', () => {
  it('CS-55: starts as many pods as may be unavailable', () => {
    const set = inPlace({ rollingUpdate: { maxUnavailable: 2 } });
    const found = update({ set, pods: pods('o', 5) });
    expect(names(found.disruption)).toEqual(['update web-o1', 'update web-o2']);
    expect(found.stop).toMatchObject({ kind: 'budget', pod: { name: 'web-o3' } });
  });

  it('starts nothing without a permit', () => {
    const found = updateOf(world({ pods: pods('o', 5) }));
    expect([found.disruption, found.upkeep, found.stop]).toEqual([[], [], { kind: 'noPermit' }]);
  });

  it('starts nothing while an operator holds the roll-out, permit or not', () => {
    const paused = { version: 1, revision: newName, paused: { by: 'ann', at: now } };
    const set = cloneSet({}, { status: { currentRevision: oldName, rollOut: paused } });
    for (const facts of [{ set }, { more: heldByOperator }]) {
      for (const leave of [permit(), permit({ chooses: true }), question]) {
        expect(update({ pods: pods('o', 5), permit: leave, ...facts })).toMatchObject({
          ...{ disruption: [], candidates: [], stop: { kind: 'paused', by: 'operator' } },
        });
      }
    }
  });

  it('starts no pod that the permit names for another revision, which may be chosen again for this one', () => {
    const named = permitForAll(oldName);
    expect(update({ pods: pods('o', 5), permit: named })).toMatchObject({ disruption: [], candidates: [] });
    const [first, second] = pods('o', 5).map(({ metadata }) => metadata.uid);
    const mixed = new Map([
      [first ?? '', 'web-third'],
      [second ?? '', newName],
    ]);
    const set = inPlace({ rollingUpdate: { maxUnavailable: 2 } });
    const found = update({ set, pods: pods('o', 5), permit: { pods: mixed, chooses: true } });
    expect(names(found.disruption)).toEqual(['update web-o2']);
    expect(found.candidates).toMatchObject([{ name: 'web-o1' }]);
  });

  it('P-1: recreates no pod that a permit names to be updated in place, and asks for it again', () => {
    // podUpdatePolicy was edited since, which makes no new revision
    const set = cloneSet({ rollingUpdate: { podUpdatePolicy: 'ReCreate' } });
    const uid = 'web-o1-uid';
    const named = permit({ pods: new Map([[uid, newName]]), inPlaceOnly: new Set([uid]), chooses: true });
    const plan = planCloneSet(world({ set, pods: pods('o', 5), permit: named }));
    expect(plan.disruption).toEqual([]);
    expect(plan.standing).toMatchObject({ kind: 'pods', pods: [{ uid, how: 'recreate' }] });
    expect(plan.named?.pods.get(uid)).toEqual({
      state: 'notNow',
      why: 'it has to be recreated now, which takes another permit',
    });
  });

  it('starts no pod that the permit does not name, and no more in one pass than it may', () => {
    const set = inPlace({ rollingUpdate: { maxUnavailable: 5 } });
    const [, second, third] = pods('o', 5);
    const named = new Map([second, third].map((one) => [one?.metadata.uid ?? '', newName]));
    const found = update({ set, pods: pods('o', 5), permit: { pods: named } });
    expect(names(found.disruption)).toEqual(['update web-o2', 'update web-o3']);
    const inOnePass = update({ set, pods: pods('o', 5), more: { mostStarts: 2 } });
    expect([inOnePass.disruption.length, inOnePass.stop.kind]).toEqual([2, 'batchFull']);
    expect(update({ set, pods: pods('o', 5), permit: { pods: new Map() } }).disruption).toEqual([]);
  });

  it('leaves out pods that an operator has named', () => {
    const set = skipping(['web-o1', 'web-o4'], inPlace({ rollingUpdate: { maxUnavailable: 5 } }));
    const found = update({ set, pods: pods('o', 5) });
    expect(names(found.disruption)).toEqual(['update web-o2', 'update web-o3', 'update web-o5']);
  });

  it('CS-50: does nothing while paused or with OnDelete', () => {
    expect(update({ set: cloneSet({ rollingUpdate: { paused: true } }), pods: pods('o', 5) })).toMatchObject({
      disruption: [],
      stop: { kind: 'paused', by: 'spec' },
    });
    expect(update({ set: onDelete(cloneSet()), pods: pods('o', 5) })).toMatchObject({
      disruption: [],
      stop: { kind: 'onDelete' },
    });
  });

  it('CS-50: stops when the partition is reached', () => {
    const set = inPlace({ rollingUpdate: { partition: 3 } });
    expect(update({ set, pods: [...pods('o', 3), ...fresh(2)] }).stop).toEqual({ kind: 'done' });
  });

  it('CS-51: leaves pods alone that are held before their deletion or in their grace period', () => {
    const annotations = { 'apps.kruise.io/inplace-update-grace': '{}' };
    const given = [
      pod('web-a', { state: 'PreparingDelete' }),
      pod('web-b', { annotations }),
      pod('web-c'),
      ...fresh(2),
    ];
    const set = inPlace({ rollingUpdate: { maxUnavailable: 5 } });
    expect(names(update({ set, pods: given }).disruption)).toEqual(['update web-c']);
  });

  it('CS-55: pods of the new revision that are down use up the budget', () => {
    const given = [...pods('o', 4), newPodOf('web-x', { ready: false })];
    expect(update({ pods: given })).toMatchObject({ disruption: [], stop: { kind: 'budget' } });
  });

  it('CS-55b: old pods that are down are all updated, and take nothing from the budget', () => {
    const given = [...pods('o', 3), pod('web-x', { ready: false }), pod('web-y', { ready: false })];
    expect(update({ pods: given })).toMatchObject({ stop: { kind: 'budget', pod: { name: 'web-o1' } } });
    expect(names(update({ pods: given }).disruption)).toEqual(['update web-x', 'update web-y']);
  });

  it('CS-55b: pods of the new revision that are down hold back available pods only', () => {
    const given = [...pods('o', 3), pod('web-x', { ready: false }), newPodOf('web-y', { ready: false })];
    expect(names(update({ pods: given }).disruption)).toEqual(['update web-x']);
  });

  it('CS-55b: missing pods hold back available pods only', () => {
    const set = inPlace({ replicas: 5, scaleStrategy: { maxUnavailable: 1 }, rollingUpdate: { maxUnavailable: 1 } });
    expect(names(update({ set, pods: [pod('web-x', { ready: false })] }).disruption)).toEqual(['update web-x']);
    expect(names(update({ set, pods: [pod('web-x')] }).disruption)).toEqual([]);
  });

  it('CS-55: of pods that are ready, but not available yet, as many go as updated ones may be unavailable', () => {
    const young = (maxUnavailable: number, given: readonly Pod[]) => {
      const set = inPlace({ replicas: 5, minReadySeconds: 7200, rollingUpdate: { maxUnavailable } });
      return names(update({ set, pods: given }).disruption);
    };
    expect(young(1, pods('o', 5))).toEqual(['update web-o1']);
    expect(young(2, pods('o', 5))).toEqual(['update web-o1', 'update web-o2']);
    expect(young(1, [...pods('o', 4), newPodOf('web-n')])).toEqual([]);
    expect(young(1, [...pods('o', 3), pod('web-x', { ready: false }), newPodOf('web-n')])).toEqual(['update web-x']);
  });

  it('CS-10: pods that have ended are not updated, and take nothing from any budget', () => {
    const ended = [
      pod('web-x', { phase: 'Failed', ready: false }),
      pod('web-y', { phase: 'Succeeded', ready: false }),
      pod('web-z', { phase: 'Failed', ready: false, specified: true }),
    ];
    const set = inPlace({ rollingUpdate: { maxUnavailable: 1 }, scaleStrategy: { maxUnavailable: 1 } });
    const given = [...pods('o', 5), ...ended];
    expect(names(update({ set, pods: given }).disruption)).toEqual(['update web-o1']);
    const { status, upkeep } = planCloneSet(world({ set, pods: [...given.slice(1)] }));
    expect(status?.waitingFor?.blockedBy ?? []).not.toContainEqual(expect.stringMatching(/web-[xyz]$/));
    expect(upkeep.filter(({ kind }) => kind === 'createPod')).toHaveLength(1);
  });

  it('CS-55: pods that are down and left out use up the budget as well', () => {
    const set = skipping(['web-x'], inPlace({ rollingUpdate: { maxUnavailable: 2 } }));
    const given = [...pods('o', 4), pod('web-x', { ready: false })];
    expect(names(update({ set, pods: given }).disruption)).toEqual(['update web-o1']);
  });

  it('goes on first with a pod that is out of service for its update already', () => {
    const given = [...pods('o', 3), pod('web-a', { phase: 'Pending', ready: false }), drained('web-z')];
    const found = update({ pods: given });
    expect(names(found.upkeep)).toEqual(['update web-z']);
    expect(names(found.disruption)).toEqual(['update web-a']);
    expect(refresh({ pods: given }).underWay).toMatchObject([{ waitingFor: { reason: 'Draining' } }]);
  });

  it('P-7: finishes the update for which a pod was taken out of service, held or not, permit or not', () => {
    const given = [...pods('o', 3), pod('web-a', { phase: 'Pending', ready: false }), drained('web-z')];
    const without = updateOf(world({ pods: given }));
    expect(names(without.upkeep)).toEqual(['update web-z']);
    expect(without).toMatchObject({ disruption: [], stop: { kind: 'noPermit' } });
    const held = update({ pods: given, more: heldByOperator });
    expect(names(held.upkeep)).toEqual(['update web-z']);
    expect(held).toMatchObject({ disruption: [], stop: { kind: 'paused', by: 'operator' } });
  });

  it('P-7: finishes nothing while an undo cannot be made, as its revision is not kept', () => {
    const rollOut = { version: 1, revision: newName, undo: { by: 'ann', at: now, to: 'web-gone' } };
    const set = { ...cloneSet(), status: { ...cloneSet().status, rollOut } as CloneSet['status'] & object };
    expect(updateOf(world({ set, pods: [...pods('o', 4), drained('web-z')] }))).toMatchObject({ upkeep: [] });
  });

  it('P-7: what was refused is named again, also after its dry run was accepted', () => {
    const given = [...pods('o', 4), drained('web-z', 6)];
    const refused = refusedUpdates(newName, ['web-z-uid']);
    const known = [...refused.pods].map(([uid, one]) => [uid, { ...one, isAccepted: true }] as const);
    const accepted = { ...refused, pods: new Map(known) };
    expect(updateOf(world({ pods: given, more: { ...heldByOperator, refused: accepted } }))).toMatchObject({
      upkeep: [],
    });
  });

  it('P-1: a pod whose update is complete, and that is not in service yet, has not begun the next one', () => {
    const was = updating('web-z', true, { revision: oldName, state: 'Normal' });
    expect(updateOf(world({ pods: [...pods('o', 4), was] }))).toMatchObject({ upkeep: [], stop: { kind: 'noPermit' } });
  });

  it('P-7: the update is finished rather than that the pod is put back into service', () => {
    const given = [...pods('o', 4), drained('web-z', 31)];
    expect(names(planCloneSet(world({ pods: given })).upkeep).filter((name) => name.endsWith('web-z'))).toEqual([
      'update web-z',
    ]);
    const more = planCloneSet(world({ set: inPlace({ replicas: 7 }), pods: given })).upkeep;
    expect(names(more)).toContain('refresh web-z');
    expect(names(more)).not.toContain('update web-z');
  });

  it('P-7: what cannot be finished in place takes a permit', () => {
    const given = [...pods('o', 4), drained('web-z')];
    const recreated = updateOf(world({ set: recreate(), pods: given }));
    expect(recreated).toMatchObject({ upkeep: [], disruption: [] });
  });

  it('P-7: a pod that went out of service for an update that is not wanted any more goes back', () => {
    const given = [...pods('o', 4), drained('web-z', 31)];
    const set = skipping(['web-z'], inPlace());
    expect(updateOf(world({ set, pods: given }))).toMatchObject({ upkeep: [] });
    expect(names(refresh({ set, pods: given }).steps)).toEqual(['refresh web-z']);
  });

  it('starts no pod that is written already in this pass, nor another one in its place', () => {
    const found = updateOf(world({ pods: pods('o', 5), permit: permit() }), new Set(['web-o1']));
    expect(found).toMatchObject({ disruption: [], stop: { kind: 'budget' } });
  });

  it('CS-55b: an available pod for which there is no room does not hold back those that are down', () => {
    const weightPriority = [{ weight: 10, matchSelector: { matchLabels: { first: 'yes' } } }];
    const set = inPlace({ rollingUpdate: { maxUnavailable: 2, priorityStrategy: { weightPriority } } });
    const given = [
      pod('web-a', { labels: { first: 'yes' } }),
      pod('web-b', { ready: false }),
      pod('web-c', { ready: false }),
      ...pods('o', 2),
    ];
    const found = update({ set, pods: given });
    expect(names(found.disruption)).toEqual(['update web-b', 'update web-c']);
    expect(found.stop).toMatchObject({ kind: 'budget', pod: { name: 'web-a' } });
  });

  it('CS-56: recreates pods by marking them for deletion', () => {
    const found = update({ set: recreate(), pods: pods('o', 5) });
    const pod = { namespace: 'shop', name: 'web-o1', uid: 'web-o1-uid', resourceVersion: '1' };
    const of = { pod, revision: newName };
    const write = { kind: 'pod', patch: { metadata: { labels: { 'apps.kruise.io/specified-delete': 'true' } } } };
    const mark = { write, trial: { ...of, writes: [write], deletes: true } };
    expect(found.disruption).toEqual([{ kind: 'recreatePod', ...of, mark }]);
  });

  it('CS-55: a pod that is to be deleted, and may not be yet, does not hold back those that are down', () => {
    const named = pod('web-x', { specified: true });
    const held = pod('web-h', { state: 'PreparingUpdate' });
    const after = updateOf(world({ pods: [...fresh(3), named, held] }));
    expect(names(after.upkeep)).toEqual(['update web-h']);
    const down = pod('web-d', { ready: false });
    expect(names(update({ pods: [...fresh(3), named, down] }).disruption)).toEqual(['update web-d']);
  });

  it('CS-56: pods that are marked already use up the budget of those that are available, and are not marked again', () => {
    const given = [...pods('o', 4), pod('web-x', { specified: true })];
    expect(update({ set: recreate(), pods: given })).toMatchObject({ disruption: [], stop: { kind: 'budget' } });
    const set = recreate({ rollingUpdate: { maxUnavailable: 2 } });
    expect(names(update({ set, pods: given }).disruption)).toEqual(['recreate web-o1']);
  });

  it('CS-56: recreates a pod that cannot be updated in place, unless the policy forbids it', () => {
    const set = (podUpdatePolicy: 'InPlaceIfPossible' | 'InPlaceOnly') =>
      cloneSet({ template: template(oldImage, { hostNetwork: true }), rollingUpdate: { podUpdatePolicy } });
    const revisions = [revisionOf(cloneSet(), 1, template(oldImage)), revisionOf(set('InPlaceOnly'), 2)];
    const leave = permitForAll(revisions[1]?.metadata.name ?? '');
    const possible = update({ set: set('InPlaceIfPossible'), revisions, pods: pods('o', 5), permit: leave });
    expect(names(possible.disruption)).toEqual(['recreate web-o1']);
    const only = update({ set: set('InPlaceOnly'), revisions, pods: pods('o', 5), permit: leave });
    expect(only).toMatchObject({
      disruption: [],
      stop: { kind: 'impossible', pod: { name: 'web-o1' }, because: { path: 'spec.template.spec.hostNetwork' } },
    });
  });

  it('CS-56, IPU-60: a pod that a budget has refused ends the walk', () => {
    const more = { refusals: [{ pod: 'web-o2', by: 'podunavailablebudget/web' }] };
    const set = inPlace({ rollingUpdate: { maxUnavailable: 5 } });
    const found = update({ set, pods: pods('o', 5), more });
    expect(names(found.disruption)).toEqual(['update web-o1']);
    expect(found.stop).toMatchObject({ kind: 'refused', by: 'podunavailablebudget/web' });
  });

  it('IPU-20, IPU-23: an update in place drains the pod first, then moves its labels with the change', () => {
    const [step] = update({ pods: pods('o', 5) }).disruption;
    expect(step).toMatchObject({
      kind: 'updatePod',
      revision: newName,
      drain: {
        kind: 'status',
        patch: {
          status: {
            conditions: [
              { type: 'InPlaceUpdateReady', status: 'False' },
              { type: 'Ready', status: 'False' },
            ],
          },
        },
      },
      writes: [{ kind: 'pod', patch: { spec: { containers: [{ name: 'main', image: 'nginx:1.1' }] } } }],
    });
    expect(labelsIn(step)).toEqual({
      'controller-revision-hash': newName,
      'pod-template-hash': newName.slice(newName.lastIndexOf('-') + 1),
      'lifecycle.apps.kruise.io/state': 'Updating',
    });
  });

  it('IPU-27: with a grace period the change waits in the pod', () => {
    const set = inPlace({ rollingUpdate: { inPlaceUpdateStrategy: { gracePeriodSeconds: 8 } } });
    const [step] = update({ set, pods: pods('o', 5) }).disruption;
    const [write] = step?.kind === 'updatePod' ? step.writes : [];
    expect(write?.patch.spec).toBeUndefined();
    expect(JSON.stringify(write?.patch)).toContain('graceSeconds');
  });

  it('CS-64: raising the partition takes pods back to the revision that all pods had, with the gate', () => {
    const set = inPlace({ rollingUpdate: { partition: 4, maxUnavailable: 2 } });
    const given = [...fresh(4), ...pods('o', 1)];
    const facts = { set, pods: given, gates: ['CloneSetPartitionRollback'] as const };
    const found = update({ ...facts, permit: permitForAll(oldName) });
    expect(names(found.disruption)).toEqual(['update web-n1', 'update web-n2']);
    expect(found.disruption[0]).toMatchObject({ revision: oldName });
    // nobody has permitted that they become old
    expect(update({ ...facts, permit: permit() }).disruption).toEqual([]);
    expect(update({ set, pods: given }).stop).toEqual({ kind: 'done' });
  });

  it('CS-63: an older template that has come back is rolled out like any other', () => {
    const set = cloneSet({ template: template(oldImage) }, { status: { currentRevision: newName } });
    const revisions = [oldRevision, newRevisionOfSet];
    const found = planCloneSet(world({ set, revisions, pods: fresh(5), permit: permitForAll(oldName) }));
    expect(names(found.upkeep)).toEqual(['patchRevision']);
    expect(names(found.disruption)).toEqual(['update web-n1']);
  });

  describe('an undo', () => {
    const undo = { from: newName, to: oldName };
    const back = permitForAll(oldName);

    it('takes back every pod that has been changed, in place, within the budget', () => {
      const set = inPlace({ rollingUpdate: { partition: 1, maxUnavailable: 2 } });
      const found = update({ set, pods: [...fresh(4), ...pods('o', 1)], permit: back, more: { undo } });
      expect(names(found.disruption)).toEqual(['update web-n1', 'update web-n2']);
      expect(found.disruption[0]).toMatchObject({ revision: oldName });
    });

    it('does not heed the partition, which is about the new revision', () => {
      const set = inPlace({ rollingUpdate: { partition: 5 } });
      const found = update({ set, pods: [...fresh(1), ...pods('o', 4)], permit: back, more: { undo } });
      expect(names(found.disruption)).toEqual(['update web-n1']);
    });

    it('leaves pods of other revisions alone', () => {
      const third = pods('t', 3, { revision: 'web-third' });
      const found = update({ pods: [...fresh(2), ...third], permit: back, more: { undo } });
      expect(names(found.disruption)).toEqual(['update web-n1']);
      expect(update({ pods: [...pods('o', 2), ...third], permit: back, more: { undo } }).stop).toEqual({
        kind: 'done',
      });
    });

    it('makes pods that are missing at the revision to go back to, with a permit or without', () => {
      for (const leave of [{ permit: back }, {}]) {
        const found = planCloneSet(world({ pods: fresh(4), more: { undo }, ...leave }));
        const [step] = found.upkeep;
        expect(JSON.stringify(step?.kind === 'createPod' ? step.pod : '')).toContain(oldName);
      }
    });

    it('starts no pod that was named for the revision that is taken back, and is not heeded once the template has changed', () => {
      const forNew = planCloneSet(world({ pods: fresh(5), permit: permit(), more: { undo } }));
      expect(forNew).toMatchObject({ disruption: [], named: { to: oldName } });
      const other = planCloneSet(
        world({ pods: pods('o', 5), permit: back, more: { undo: { ...undo, from: 'web-x' } } }),
      );
      expect(other).toMatchObject({ disruption: [], named: { to: newName } });
    });
  });
});

describe('hooks around an update', () => {
  const set = cloneSet({ lifecycle: hooks, rollingUpdate: { maxUnavailable: 2 } });
  const marked = { finalizers: [drain], state: 'Normal' } as const;

  it('LC-20, LC-21: a pod with a mark is held first, which is the start of its update', () => {
    const found = update({ set, pods: pods('o', 5, marked) });
    expect(names(found.disruption)).toEqual(['prepareUpdate web-o1', 'prepareUpdate web-o2']);
    expect(stateIn(found.disruption[0])).toBe('PreparingUpdate');
    expect(update({ set: recreate({ lifecycle: hooks }), pods: pods('o', 5, marked) }).disruption).toMatchObject([
      { kind: 'recreatePod' },
    ]);
  });

  it('LC-25: a held pod waits for its marks to go, and then goes on without a permit', () => {
    const held = pod('web-h', { state: 'PreparingUpdate', finalizers: [drain] });
    const free = pod('web-f', { state: 'PreparingUpdate' });
    const found = updateOf(world({ set, pods: [held, free, ...pods('o', 3, marked)] }));
    expect(names(found.upkeep)).toEqual(['update web-f']);
    expect(found.disruption).toEqual([]);
  });

  it('CS-61: a held pod does not go on while the set is paused', () => {
    const paused = cloneSet({ lifecycle: hooks, rollingUpdate: { paused: true } });
    const free = pod('web-f', { state: 'PreparingUpdate' });
    expect(update({ set: paused, pods: [free, ...pods('o', 4)] })).toMatchObject({ upkeep: [], disruption: [] });
  });

  it('a held pod goes on while an operator has paused: it has begun', () => {
    const free = pod('web-f', { state: 'PreparingUpdate' });
    const found = update({ set, pods: [free, ...pods('o', 4)], permit: permit(), more: heldByOperator });
    expect(names(found.upkeep)).toEqual(['update web-f']);
  });

  it('LC-24: an updated pod that is wanted at another revision is held again', () => {
    const waiting = pods('o', 1, { state: 'Updated', revision: 'web-older' });
    const found = update({ set, pods: [...waiting, ...fresh(4)] });
    expect(found.disruption).toMatchObject([{ kind: 'recreatePod' }]);
    const known = update({ set, pods: [...pods('o', 1, { state: 'Updated' }), ...fresh(4)] });
    expect(known.disruption[0]).toMatchObject({
      why: 'prepareUpdate',
      writes: [{ patch: { metadata: { finalizers: [drain] } } }],
    });
  });

  it('LC-27: held pods are first, and count as the first of the budget', () => {
    const held = pod('web-z', { state: 'PreparingUpdate', finalizers: [drain] });
    const found = update({ set, pods: [...pods('o', 4, marked), held] });
    expect(names(found.disruption)).toEqual(['prepareUpdate web-o1']);
  });

  it('LC-27: held pods go back to work when no update is wanted any more', () => {
    const held = [
      pod('web-a', { state: 'PreparingUpdate' }),
      pod('web-b', { state: 'PreparingUpdate', finalizers: [drain] }),
    ];
    const raised = cloneSet({ lifecycle: hooks, rollingUpdate: { partition: 5 } });
    const found = updateOf(world({ set: raised, pods: [...held, ...pods('o', 3)] }));
    expect(found.upkeep.map(stateIn)).toEqual(['Updated', 'Normal']);
    const one = cloneSet({ lifecycle: hooks, rollingUpdate: { partition: 4 } });
    expect(names(updateOf(world({ set: one, pods: [...held, ...pods('o', 3)] })).upkeep)).toEqual([
      'update web-a',
      'refresh web-b',
    ]);
  });

  it('LC-27: nobody is sent back while pods are missing or too many', () => {
    const held = pod('web-a', { state: 'PreparingUpdate', finalizers: [drain] });
    const raised = cloneSet({ lifecycle: hooks, rollingUpdate: { partition: 5 } });
    expect(updateOf(world({ set: raised, pods: [held, ...pods('o', 3)] })).upkeep).toEqual([]);
  });

  it('LC-29: a pod that is being updated goes to a newer revision without a second hold', () => {
    const busy = pod('web-a', { state: 'Updating', finalizers: [drain], ready: false });
    const found = update({ set, pods: [busy, ...fresh(4)] });
    expect(names(found.disruption)).toEqual(['update web-a']);
  });

  it('LC-30: a held pod that cannot be updated in place any more is recreated, under a permit', () => {
    const held = pod('web-a', { state: 'PreparingUpdate', revision: 'web-older' });
    expect(names(update({ set, pods: [held, ...fresh(4)] }).disruption)).toEqual(['recreate web-a']);
    const without = updateOf(world({ set, pods: [held, ...fresh(4)] }));
    expect([without.upkeep, without.disruption]).toEqual([[], []]);
  });

  it('LC-30: such a pod is chosen again when its batch was given back', () => {
    const held = pod('web-a', { state: 'PreparingUpdate', revision: 'web-older' });
    const asked = { pods: new Map<string, string>(), chooses: true };
    const found = update({ set, pods: [held, ...fresh(4)], permit: asked });
    expect([found.disruption, found.candidates]).toMatchObject([[], [{ name: 'web-a', how: 'recreate' }]]);
    const paused = update({ set, pods: [held, ...fresh(4)], permit: asked, more: heldByOperator });
    expect([paused.disruption, paused.candidates]).toEqual([[], []]);
    const free = pod('web-f', { state: 'PreparingUpdate' });
    const goesOn = update({ set, pods: [free, ...fresh(4)], permit: asked });
    expect([names(goesOn.upkeep), goesOn.candidates]).toEqual([['update web-f'], []]);
  });
});

describe('planCloneSet', () => {
  it('carries on what has begun and starts more in one pass, each pod written once', () => {
    const set = inPlace({ rollingUpdate: { maxUnavailable: 2 } });
    const given = [updating('web-a', true), ...pods('o', 4)];
    const found = planCloneSet(world({ set, pods: given, permit: permit() }));
    expect(names(found.upkeep)).toEqual(['refresh web-a']);
    expect(names(found.disruption)).toEqual(['update web-o1']);
  });

  it('writes no pod twice in one pass', () => {
    const surplus = pods('s', 2, { revision: newName, state: 'PreparingNormal', ready: false });
    const shrinking = planCloneSet(world({ pods: [...fresh(5), ...surplus] }));
    expect(names(shrinking.upkeep)).toEqual(['deletePod', 'deletePod']);
    const [first, ...others] = pods('o', 5);
    if (first === undefined) throw new Error('no pods');
    const { 'pod-template-hash': _, ...labels } = first.metadata.labels ?? {};
    const old = { ...first, metadata: { ...first.metadata, labels } };
    const found = planCloneSet(world({ pods: [old, ...others], permit: permit() }));
    expect([names(found.upkeep), found.disruption]).toEqual([['refresh web-o1'], []]);
  });

  it('CS-57: what cannot be done shows in the status as a failure of the update', () => {
    const set = cloneSet({
      template: template(oldImage, { hostNetwork: true }),
      rollingUpdate: { podUpdatePolicy: 'InPlaceOnly' },
    });
    const revisions = [revisionOf(cloneSet(), 1, template(oldImage)), revisionOf(set, 2)];
    const leave = permitForAll(revisions[1]?.metadata.name ?? '');
    const { status } = planCloneSet(world({ set, revisions, pods: pods('o', 5), permit: leave }));
    expect(status?.conditions).toMatchObject([
      {
        type: 'FailedUpdate',
        message:
          'find Pod web-o1 update strategy is InPlaceOnly but can not update in-place: ' +
          'spec.template.spec.hostNetwork needs a new pod',
      },
    ]);
  });
});
