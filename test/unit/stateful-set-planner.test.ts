import { describe, expect, it, test } from '@jest/globals';
import { type JsonObject, listOr, objectOr } from '../../api/base/json.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { statusSchema } from '../../api/stateful-set/schema.ts';
import { type StatefulSet, statefulSetWaits } from '../../api/stateful-set/types.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import { nothingYet } from '../../plan/starting.ts';
import { statefulSetWorkloads } from '../../plan/stateful-set/planner.ts';
import { strategicMerge } from '../support/fake-api/strategic-merge.ts';
import { permitForAll } from '../support/permits.ts';
import { recorded } from '../support/recorded.ts';
import { refusedUpdates, trialsIn } from '../support/refused-updates.ts';
import { begun, created, deleted, ordered, type Plan, plan, reason, specified } from '../support/stateful-set-plan.ts';
import { claim, data, fresh, now, old, pod, pods, set, template, uid } from '../support/stateful-set-world.ts';

const permit = permitForAll(fresh.metadata.name);

describe('creating and keeping', () => {
  it('AS-10, AS-15: gives a pod its name, host name, subdomain, labels and PVCs, which nobody owns yet', () => {
    const { upkeep } = plan(set({ replicas: 1, volumeClaimTemplates: [data] }), []);
    expect(upkeep).toMatchObject([
      {
        kind: 'createPod',
        name: 'web-0',
        claims: [{ metadata: { name: 'data-web-0', labels: { app: 'web' } } }],
        pod: {
          metadata: {
            generateName: 'web-',
            labels: {
              'statefulset.kubernetes.io/pod-name': 'web-0',
              'apps.kubernetes.io/pod-index': '0',
              'controller-revision-hash': fresh.metadata.name,
            },
            ownerReferences: [{ apiVersion: 'apps.kruise.io/v1beta1', kind: 'StatefulSet', controller: true }],
          },
          spec: {
            ...{ hostname: 'web-0', subdomain: 'web' },
            volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data-web-0' } }],
          },
        },
      },
    ]);
    expect(JSON.stringify(upkeep[0] && 'claims' in upkeep[0] && upkeep[0].claims)).not.toContain('ownerReferences');
  });

  it('LC-10: a pod is Normal from its creation, unless preNormal waits for marks that its template lacks', () => {
    const stateOf = (lifecycle?: StatefulSet['spec']['lifecycle']) => {
      const [step] = plan(set({ replicas: 1, ...(lifecycle && { lifecycle }) }), []).upkeep;
      const { labels } = objectOr(step?.kind === 'createPod' ? step.pod.metadata : {});
      return objectOr(labels as JsonObject)['lifecycle.apps.kruise.io/state'];
    };
    const waitsFor = (label: string) => ({ preNormal: { labelsHandler: { [label]: 'web' } } });
    expect(stateOf()).toBe('Normal');
    expect(stateOf(waitsFor('app'))).toBe('Normal');
    expect(stateOf(waitsFor('warm'))).toBe('PreparingNormal');
  });

  it('AS-13: a reserved ordinal is given up, and the next free one is used', () => {
    const moved = plan(set({ reserveOrdinals: [1] }, {}, 'app:1'), pods(3));
    expect([created(moved), deleted(moved)]).toEqual([['web-3'], ['web-1']]);
    const lowered = plan(set({ reserveOrdinals: [1], replicas: 2 }, {}, 'app:1'), pods(3));
    expect([created(lowered), deleted(lowered)]).toEqual([[], ['web-1']]);
  });

  it('AS-30, AS-36: deletes what has ended, whatever the budget, and not twice', () => {
    const limited = set({ scaleStrategy: { maxUnavailable: 1 } });
    const first = pod(0, { ready: false });
    expect(deleted(plan(limited, [first, pod(1, { phase: 'Failed' }), pod(2)]))).toEqual(['web-1']);
    expect(deleted(plan(limited, [first, pod(1, { phase: 'Succeeded', going: true }), pod(2)]))).toEqual([]);
  });

  it.each([
    ['terminating', { deletionTimestamp: now }, 'Retain', 'ClaimTerminating'],
    [
      'of an earlier pod',
      { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'web-1', uid: 'x' }] },
      'Delete',
      'ClaimOfEarlierPod',
    ],
  ] as const)('AS-31: creates no pod while its PVC is %s, and says so', (_, metadata, whenScaled, expected) => {
    const owner = set({ volumeClaimTemplates: [data], persistentVolumeClaimRetentionPolicy: { whenScaled } });
    const result = plan(owner, [pod(0), pod(2)], { claims: [claim(0), claim(1, metadata), claim(2)] });
    expect([created(result), reason(result)]).toEqual([[], expected]);
    expect(result.status?.waitingFor?.blockedBy).toEqual(['persistentvolumeclaim/data-web-1']);
  });

  it('AS-32: creates the missing PVCs of a pending pod', () => {
    const { upkeep } = plan(set({ replicas: 1, volumeClaimTemplates: [data] }), [
      pod(0, { phase: 'Pending', ready: false }),
    ]);
    expect(upkeep).toContainEqual(
      expect.objectContaining({ kind: 'createClaim', name: 'data-web-0', podName: 'web-0' }),
    );
  });

  it('AS-33: does not create the pod of an ordinal whose pod is being deleted', () => {
    const result = plan(set(), [pod(0), pod(1, { going: true }), pod(2)]);
    expect([created(result), reason(result)]).toEqual([[], 'PodTerminating']);
  });

  it('AS-34, AS-34a: in order, nothing is done beyond a pod that is not available', () => {
    expect(created(plan(set(ordered), []))).toEqual(['web-0']);
    const broken = [pod(0), pod(1, { ready: false })];
    const result = plan(set(ordered), broken, { permit });
    expect([created(result), begun(result), reason(result)]).toEqual([[], [], 'OrdinalNotAvailable']);
    expect(result.status?.waitingFor?.blockedBy).toEqual(['pod/web-1']);
    const waiting = { reason: 'CrashLoopBackOff' };
    const containerStatuses = [
      {
        ...{ name: 'app', ready: false, restartCount: 4, state: { waiting } },
        lastState: { terminated: { exitCode: 1, reason: 'Error' } },
      },
    ];
    const [first, second] = broken;
    const crashing = second && { ...second, status: { ...second.status, containerStatuses } };
    const said = plan(
      set(ordered),
      [first, crashing].filter((one) => one !== undefined),
      { permit },
    );
    expect(said.status?.waitingFor?.unblock).toMatch(/; web-1: app: CrashLoopBackOff: exit code 1 \(Error\)$/);
    expect(deleted(plan(set({ ...ordered, replicas: 1 }), [pod(0, { ready: false }), pod(1)]))).toEqual([]);
    expect(begun(plan(set(ordered), [...pods(2), pod(2, { ready: false })], { permit }))).toEqual([]);
  });

  it.each([
    ['starts', { running: { startedAt: now } }, 'ContainersNotSwapped'],
    ['cannot start', { waiting: { reason: 'ErrImagePull' } }, 'OrdinalNotAvailable'],
  ])(
    'AS-34: in order, a pod that is updated in place and %s is what everything waits for, or what it waits for',
    (_, state, expected) => {
      const record = {
        revision: fresh.metadata.name,
        updateTimestamp: '2026-01-01T00:00:00Z',
        updateImages: true,
        lastContainerStatuses: { main: { imageID: 'image@1' } },
      };
      const labels = { 'lifecycle.apps.kruise.io/state': 'Updating' };
      const last = pod(2, { of: fresh, ready: false, labels });
      const changing: Pod = {
        ...last,
        metadata: { ...last.metadata, annotations: { 'apps.kruise.io/inplace-update-state': JSON.stringify(record) } },
        status: {
          ...last.status,
          containerStatuses: [
            { name: 'main', ready: false, restartCount: 1, image: 'app:1', imageID: 'image@1', state },
          ],
        },
      };
      const owner = set(ordered, { podUpdatePolicy: 'InPlaceIfPossible' });
      expect(reason(plan(owner, [...pods(2), changing], { permit }))).toBe(expected);
    },
  );

  it('asks for nothing as long as the pods in the way have only just begun', () => {
    const young = (ordinal: number): Pod => {
      const { metadata, ...made } = pod(ordinal, { ready: false });
      return { ...made, metadata: { ...metadata, creationTimestamp: now } };
    };
    const wait = (result: Plan) => [result.status?.waitingFor?.reason, result.status?.waitingFor?.unblock];
    expect(wait(plan(set(ordered), [pod(0), young(1)]))).toEqual(['OrdinalNotAvailable', nothingYet]);
    const grown = set({ replicas: 10, scaleStrategy: { maxUnavailable: 2 } });
    expect(wait(plan(grown, [...pods(3), young(3), young(4)]))).toEqual(['ScaleLimited', nothingYet]);
    const mixed = [...pods(3), young(3), pod(4, { ready: false })];
    expect(wait(plan(grown, mixed))).toEqual(['ScaleLimited', statefulSetWaits.ScaleLimited]);
  });

  it('AS-34a: in order, a missing pod below one that is not available is created', () => {
    expect(created(plan(set(ordered), [pod(0), pod(2, { ready: false })]))).toEqual(['web-1']);
  });

  it('AS-35, AS-35a: side by side, as many are created as may be unavailable', () => {
    const grown = set({ replicas: 10, scaleStrategy: { maxUnavailable: 2 } });
    expect(created(plan(grown, pods(3)))).toEqual(['web-3', 'web-4']);
    const result = plan(grown, [...pods(3), pod(3, { ready: false }), pod(4, { ready: false })]);
    expect([created(result), reason(result)]).toEqual([[], 'ScaleLimited']);
    expect(created(plan(grown, [...pods(4), pod(4, { ready: false })]))).toEqual(['web-5']);
  });

  it('AS-37: side by side, a stuck pod holds up no other', () => {
    expect(created(plan(set({ replicas: 4 }), [pod(0, { going: true }), pod(1, { ready: false })]))).toEqual([
      'web-2',
      'web-3',
    ]);
  });

  it('creates a bounded number of pods in a pass, however many are wanted', () => {
    expect(created(plan(set({ replicas: 2 ** 31 - 1 }), [pod(2_000_000_000)]))).toHaveLength(64);
  });
});

describe('scaling in', () => {
  it('AS-40: in order, one at a time from the highest ordinal, and not while a replica is unavailable', () => {
    expect(deleted(plan(set({ ...ordered, replicas: 1 }), pods(3)))).toEqual(['web-2']);
    expect(deleted(plan(set({ ...ordered, replicas: 1 }), [pod(0), pod(1), pod(2, { going: true })]))).toEqual([]);
    // the first unhealthy pod may go
    expect(deleted(plan(set({ ...ordered, replicas: 1 }), [pod(0), pod(1), pod(2, { ready: false })]))).toEqual([
      'web-2',
    ]);
  });

  it('AS-40a: in order, of pods that are all unready none is deleted', () => {
    const result = plan(set({ ...ordered, replicas: 0 }), pods(3, { ready: false }));
    expect([deleted(result), reason(result)]).toEqual([[], 'OrdinalNotAvailable']);
    expect(result.status?.waitingFor?.blockedBy).toEqual(['pod/web-2']);
  });

  it('AS-41: side by side, all at once', () => {
    expect(deleted(plan(set({ replicas: 1 }), pods(4)))).toEqual(['web-3', 'web-2', 'web-1']);
  });

  it('AS-42: honours the hook before deletion', () => {
    const hook = { preDelete: { labelsHandler: { hold: 'yes' } } };
    const result = plan(set({ replicas: 1, lifecycle: hook }), [pod(0), pod(1, { labels: { hold: 'yes' } })]);
    expect(deleted(result)).toEqual([]);
    expect(result.upkeep).toContainEqual(expect.objectContaining({ kind: 'writePod', why: 'prepareDelete' }));
  });
});

describe('updating', () => {
  const inPlace = { podUpdatePolicy: 'InPlaceIfPossible' } as const;

  it('AS-50, AS-52: the lowest wanted ordinals stay old, reserved ones do not count', () => {
    const gates = parseFeatureGates('StatefulSetStartOrdinal=true');
    const owner = set(
      { ordinals: { start: 2 }, reserveOrdinals: [3] },
      { ...inPlace, partition: 2, maxUnavailable: 3 },
    );
    expect(begun(plan(owner, [pod(2), pod(4), pod(5)], { permit, gates }))).toEqual(['web-5']);
    expect(begun(plan(set({}, { ...inPlace, partition: 3 }), pods(3), { permit }))).toEqual([]);
  });

  it('AS-21, AS-51: a new pod below the partition is of the current revision', () => {
    const { upkeep } = plan(set({}, { partition: 1 }), []);
    const revisions = upkeep.flatMap((step) =>
      step.kind === 'createPod'
        ? [(step.pod.metadata as unknown as Pod['metadata']).labels?.['controller-revision-hash']]
        : [],
    );
    expect(revisions).toEqual([old, fresh, fresh].map(({ metadata }) => metadata.name));
  });

  it('AS-51: says which change helps a pod below the partition that mounts what nothing provides any more', () => {
    const volumeMounts = [{ name: 'data', mountPath: '/data' }];
    const mounting = { ...template('app:1'), spec: { containers: [{ name: 'main', image: 'app:1', volumeMounts }] } };
    const failures = { scale: 'not found: "data"' };
    const earlier = { ...old, data: { spec: { template: mounting } } };
    const { status } = plan(set({}, { partition: 3 }), [], { revisions: [earlier, fresh], failures });
    expect(status?.waitingFor?.unblock).toContain(
      `revision ${old.metadata.name} mounts "data" in container "main", which nothing provides: add a template "data" to spec.volumeClaimTemplates, or lower partition, so that new pods get revision ${fresh.metadata.name}; `,
    );
  });

  it('AS-60, AS-62, AS-64: from the highest ordinal down, within the budget', () => {
    const owner = (maxUnavailable: number | string) => set({ replicas: 5 }, { ...inPlace, maxUnavailable });
    expect(begun(plan(owner(3), pods(5), { permit }))).toEqual(['web-4', 'web-3', 'web-2']);
    expect(begun(plan(owner('30%'), pods(5), { permit }))).toEqual(['web-4']);
    // the walk ends at the first pod that has no room, even if later ones are unavailable
    const sick = [pod(0), pod(1, { ready: false }), pod(2), pod(3, { ready: false }), pod(4)];
    const result = plan(owner(1), sick, { permit });
    expect([begun(result), reason(result)]).toEqual([[], 'BudgetSpent']);
  });

  it('P-7, AS-64: a pod whose update was refused keeps its turn, with its part of the budget', () => {
    const refused = refusedUpdates(fresh.metadata.name, ['web-4-uid']);
    const of = (maxUnavailable: number, given = pods(5)) => {
      const owner = set({ replicas: 5 }, { ...inPlace, maxUnavailable });
      return plan(owner, given, { permit, refused });
    };
    expect([begun(of(1)), reason(of(1))]).toEqual([[], 'CannotUpdate']);
    expect(begun(of(3))).toEqual(['web-3', 'web-2']);
    expect(trialsIn(of(1)).map((trial) => trial.pod.name)).toEqual(['web-4']);
    // an old pod that is not ready stands behind it
    expect(reason(of(2, [pod(0, { ready: false }), pod(1), pod(2), pod(3, { of: fresh }), pod(4)]))).toBe(
      'CannotUpdate',
    );
  });

  it('AS-61: missing pods count as unavailable, condemned ones do not', () => {
    const owner = set({ volumeClaimTemplates: [data] }, { ...inPlace, maxUnavailable: 1 });
    const claims = [claim(0), claim(1, { deletionTimestamp: now }), claim(2)];
    expect(begun(plan(owner, [pod(0), pod(2)], { permit, claims }))).toEqual([]);
    const going = [...pods(3), pod(3, { going: true })];
    expect(begun(plan(owner, going, { permit, claims: [0, 1, 2].map((ordinal) => claim(ordinal)) }))).toEqual([
      'web-2',
    ]);
  });

  it('AS-62: pods that are unavailable already are updated beyond the budget', () => {
    expect(begun(plan(set({}, { ...inPlace, maxUnavailable: 1 }), pods(3, { ready: false }), { permit }))).toEqual([
      ...['web-2', 'web-1', 'web-0'],
    ]);
  });

  it('AS-63: a pod that cannot be updated in place is deleted, or labelled first where a hook is asked', () => {
    const owner = set({}, { podUpdatePolicy: 'ReCreate' });
    const of = { pod: { namespace: 'shop', name: 'web-2', uid: 'web-2-uid', resourceVersion: '1' } };
    expect(plan(owner, pods(3), { permit }).disruption).toEqual([
      { kind: 'recreatePod', ...of, revision: fresh.metadata.name },
    ]);
    const hooked = set(
      { lifecycle: { preDelete: { labelsHandler: { app: 'web' } } } },
      { podUpdatePolicy: 'ReCreate' },
    );
    const labels = { metadata: { labels: specified } };
    expect(plan(hooked, pods(3), { permit }).disruption).toMatchObject([
      { kind: 'recreatePod', ...of, mark: { write: { kind: 'pod', patch: labels } } },
    ]);
    expect(deleted(plan(owner, [...pods(2), pod(2, { labels: specified })]))).toEqual(['web-2']);
  });

  it('AS-53, AS-54: without order, by priority, and terminating pods use up slots', () => {
    const orderPriority = [{ orderedKey: 'rank' }];
    const unordered = { ...inPlace, maxUnavailable: 1, unorderedUpdate: { priorityStrategy: { orderPriority } } };
    const ranked = [
      pod(0, { labels: { rank: 'a-9' } }),
      pod(1, { labels: { rank: 'a-10' } }),
      pod(2, { labels: { rank: '5' } }),
    ];
    expect(begun(plan(set({}, unordered), ranked, { permit }))).toEqual(['web-1']);
    const partitioned = set({}, { ...unordered, partition: 2, maxUnavailable: 3 });
    expect(begun(plan(partitioned, [pod(0), pod(1, { going: true }), pod(2)], { permit }))).toEqual([]);
  });

  describe('without order', () => {
    const unordered = (more: Parameters<typeof set>[0], rollingUpdate: Parameters<typeof set>[1]) =>
      set(more, { ...inPlace, maxUnavailable: 5, unorderedUpdate: {}, ...rollingUpdate });
    const imagesOf = ({ upkeep }: Plan) =>
      upkeep.flatMap((step) => {
        if (step.kind !== 'createPod') return [];
        const labels = objectOr(objectOr(step.pod.metadata).labels);
        return [`${step.name}: ${labels['controller-revision-hash'] === old.metadata.name ? 'old' : 'new'}`];
      });
    /** No pod can be created at this ordinal. */
    const heldAt = (...held: readonly number[]) => held.map((ordinal) => claim(ordinal, { deletionTimestamp: now }));

    it('AS-50: reserved ordinals and pods that are too many do not count, pods at the goal do', () => {
      const owner = unordered({ reserveOrdinals: [1] }, { partition: 1 });
      // nothing is begun beside a deletion
      const others = [pod(1, { going: true }), pod(5, { of: fresh, going: true })];
      const all = [pod(0), pod(2), pod(3), ...others];
      expect(begun(plan(owner, all, { permit }))).toEqual(['web-3', 'web-2']);
      const started = plan(owner, [pod(0), pod(2, { of: fresh }), pod(3), ...others], { permit });
      expect(begun(started)).toEqual(['web-3']);
      const reached = plan(owner, [pod(0), pod(2, { of: fresh }), pod(3, { of: fresh }), ...others], { permit });
      expect([begun(reached), reached.rollOut?.isWanted]).toEqual([[], false]);
    });

    it('AS-50, AS-55: so many pods stay old, and no updated one goes back', () => {
      const owner = unordered({}, { partition: 3 });
      const result = plan(owner, [pod(0, { of: fresh }), pod(1), pod(2)], { permit });
      expect([begun(result), result.rollOut?.isWanted]).toEqual([[], false]);
      expect(plan(owner, [pod(0), pod(1), pod(2, { going: true })]).rollOut?.isWanted).toBe(false);
    });

    it('AS-53: a pod that is missing and to be created of the new revision uses up a slot', () => {
      const owner = unordered({ replicas: 4, volumeClaimTemplates: [data] }, { partition: 2 });
      const claims = [claim(0), claim(1), claim(2), ...heldAt(3)];
      expect(begun(plan(owner, pods(3), { permit, claims }))).toEqual(['web-2']);
      // and one that is to be created of the old revision none
      const updated = [pod(0), pod(1, { of: fresh }), pod(2, { of: fresh })];
      expect(begun(plan(owner, updated, { permit, claims }))).toEqual([]);
    });

    it('AS-51: of pods that are missing as many are created of the old revision as are to stay old', () => {
      expect(imagesOf(plan(unordered({}, { partition: 1 }), []))).toEqual(['web-0: old', 'web-1: new', 'web-2: new']);
      const owner = unordered({ replicas: 4, volumeClaimTemplates: [data] }, { partition: 2 });
      expect(imagesOf(plan(owner, [pod(3)], { claims: [...heldAt(0), claim(3)] }))).toEqual([
        'web-1: new',
        'web-2: new',
      ]);
      // those that are too many are none of them
      const shrunk = unordered({ replicas: 2 }, { partition: 1 });
      expect(imagesOf(plan(shrunk, [pod(5, { going: true })]))).toEqual(['web-0: old', 'web-1: new']);
    });
  });

  it('AS-56: with OnDelete nothing is updated, and labels for deletion are ignored', () => {
    const owner = set({ updateStrategy: { type: 'OnDelete' } });
    const result = plan(owner, [pod(0), pod(1), pod(2, { labels: specified })], { permit });
    expect([begun(result), deleted(result), reason(result)]).toEqual([[], [], 'OnDelete']);
    const { upkeep } = plan(owner, pods(2));
    expect(upkeep).toMatchObject([
      { kind: 'createPod', pod: { metadata: { labels: { 'controller-revision-hash': fresh.metadata.name } } } },
    ]);
  });

  it('AS-57: while paused no pod is updated or deleted by label, and missing ones are created', () => {
    const owner = set({}, { paused: true });
    const result = plan(owner, [pod(0), pod(1, { labels: specified })], { permit });
    expect([begun(result), deleted(result), created(result)]).toEqual([[], [], ['web-2']]);
  });

  it('AS-70: labelled pods are deleted from the highest ordinal, as far as the budget goes', () => {
    const owner = set({}, { maxUnavailable: 1, partition: 3 });
    const labelled = pods(3, { labels: specified });
    expect(deleted(plan(owner, labelled))).toEqual(['web-2']);
    const sick = [pod(0, { labels: specified, ready: false }), pod(1, { labels: specified }), pod(2)];
    const result = plan(owner, sick);
    expect([deleted(result), reason(result)]).toEqual([['web-0'], 'BudgetSpent']);
  });

  it('P-7, AS-24: a pod of which an update got no answer counts as unavailable', () => {
    const inDoubt = new Set(['web-2-uid']);
    expect(deleted(plan(set(), [pod(0), pod(1, { labels: specified }), pod(2)], { permit, inDoubt }))).toEqual([]);
    const owner = set({ replicas: 5 }, { ...inPlace, maxUnavailable: 2 });
    expect(begun(plan(owner, pods(5), { permit, inDoubt }))).toEqual(['web-4']);
    const more = plan(owner, pods(5), { permit, inDoubt: new Set(['web-4-uid']) });
    expect(begun(more)).toEqual(['web-4', 'web-3']);
  });
});

describe('PVCs', () => {
  const ofSet = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'StatefulSet', name: 'web', uid };
  const ofPod = { apiVersion: 'v1', kind: 'Pod', name: 'web-1', uid: 'web-1-uid' };

  /** The owners of these PVCs once the plan is carried out. */
  function ownersAfter({ upkeep }: Plan, claims: readonly VolumeClaim[]) {
    return claims.map(({ metadata }) => {
      const step = upkeep.find((one) => one.kind === 'writeClaim' && one.claim.uid === metadata.uid);
      const before = metadata as unknown as JsonObject;
      const after = step?.kind === 'writeClaim' ? strategicMerge(before, objectOr(step.patch.metadata)) : before;
      return listOr(after.ownerReferences);
    });
  }

  test.each([
    ['Retain', 'Retain', [], []],
    ['Delete', 'Retain', [ofSet], [ofSet]],
    ['Retain', 'Delete', [], [ofPod]],
    ['Delete', 'Delete', [ofSet], [ofPod]],
  ] as const)('AS-80, AS-81: whenDeleted %s, whenScaled %s', (whenDeleted, whenScaled, wanted, condemned) => {
    const policy = { whenDeleted, whenScaled };
    const owner = set({ replicas: 1, volumeClaimTemplates: [data], persistentVolumeClaimRetentionPolicy: policy });
    const result = plan(owner, pods(2), { claims: [claim(0), claim(1)] });
    const owners = ownersAfter(result, [claim(0), claim(1)]);
    expect(owners).toEqual([wanted, condemned]);
    // the reference of a pod comes before its deletion
    expect(deleted(result)).toEqual(owners[1]?.length ? [] : ['web-1']);
  });

  it('AS-81, AS-83: a wanted ordinal drops the reference of its pod, and references of others stay', () => {
    const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'mine', uid: 'other' };
    const claims = [claim(0, { ownerReferences: [other, { ...ofPod, name: 'web-0', uid: 'web-0-uid' }] })];
    const result = plan(set({ replicas: 1, volumeClaimTemplates: [data] }), pods(1), { claims });
    expect(ownersAfter(result, claims)).toEqual([[other]]);
  });

  describe('of an ordinal that is wanted again', () => {
    const policy = { whenScaled: 'Delete' } as const;
    const of = (more: Parameters<typeof set>[0] = {}, rollingUpdate = {}) =>
      set({ volumeClaimTemplates: [data], persistentVolumeClaimRetentionPolicy: policy, ...more }, rollingUpdate);
    const condemned = [claim(0), claim(1, { ownerReferences: [ofPod] }), claim(2)];
    const steps = ({ upkeep }: Plan) => upkeep.map(({ kind }) => kind);

    it.each([
      ['is there', {}],
      ['is being deleted', { going: true }],
    ])('AS-81: drop the reference to the pod while it %s', (_, state) => {
      const result = plan(of(), [pod(0), pod(1, state), pod(2)], { claims: condemned });
      expect(ownersAfter(result, condemned)).toEqual([[], [], []]);
    });

    it('AS-81: drop it in order as well, behind a pod that is not available', () => {
      const result = plan(of(ordered), [pod(0, { ready: false }), pod(1), pod(2)], { claims: condemned });
      expect(ownersAfter(result, condemned)).toEqual([[], [], []]);
    });

    it.each([
      ['has ended', 'Parallel', { phase: 'Failed' }],
      ['has ended', 'OrderedReady', { phase: 'Failed' }],
      ['is to be deleted', 'Parallel', { labels: specified }],
      ['is to be deleted', 'OrderedReady', { labels: specified }],
    ] as const)('AS-82: drop it before a pod that %s is deleted (%s)', (_, podManagementPolicy, state) => {
      const given = [pod(0), pod(1, state), pod(2)];
      const owner = of({ podManagementPolicy });
      expect(steps(plan(owner, given, { claims: condemned }))).toEqual(['writeClaim']);
      expect(steps(plan(owner, given, { claims: [claim(0), claim(1), claim(2)] }))).toEqual(['deletePod']);
    });

    it('AS-82: may still be given to its pod by a change without an answer, which is waited out before a deletion', () => {
      const claims = [claim(0), claim(1), claim(2)];
      const unanswered = new Map([['data-web-1-uid', Date.parse(now) + 60_000]]);
      const ended = [pod(0), pod(1, { phase: 'Failed' }), pod(2, { phase: 'Failed' })];
      const waiting = plan(of(), ended, { claims, unanswered });
      expect([deleted(waiting), waiting.againInMs]).toEqual([['web-2'], 60_000]);
      // what is too many goes in any case
      expect(deleted(plan(of({ replicas: 1 }), pods(2), { claims: condemned, unanswered }))).toEqual(['web-1']);
    });

    it('AS-82: a pod that is to be recreated for an update keeps its PVC', () => {
      const owner = of({ replicas: 2 }, { podUpdatePolicy: 'ReCreate' });
      const given = [pod(0, { of: fresh }), pod(1)];
      const first = plan(owner, given, { claims: condemned, permit });
      expect([steps(first), begun(first)]).toEqual([['writeClaim'], ['web-1']]);
      expect(first.disruption).toMatchObject([{ kind: 'recreatePod', mark: {} }]);
      const marked = [pod(0, { of: fresh }), pod(1, { labels: specified })];
      expect(deleted(plan(owner, marked, { claims: condemned, permit }))).toEqual([]);
      expect(deleted(plan(owner, marked, { claims: [claim(0), claim(1)], permit }))).toEqual(['web-1']);
    });

    it('AS-31, AS-81: whose earlier pod is gone, drop its reference before the pod is created where PVCs are kept', () => {
      const kept = of({ persistentVolumeClaimRetentionPolicy: { whenScaled: 'Retain' } });
      const result = plan(kept, [pod(0), pod(2)], { claims: condemned });
      expect([created(result), ownersAfter(result, condemned)]).toEqual([[], [[], [], []]]);
      expect(created(plan(kept, [pod(0), pod(2)], { claims: [claim(0), claim(1), claim(2)] }))).toEqual(['web-1']);
    });

    it('AS-31: may belong to pods of other names, whose references stay', () => {
      const other = { ...ofPod, name: 'db-1' };
      const claims = [claim(0), claim(1, { ownerReferences: [other] }), claim(2)];
      expect(created(plan(of(), [pod(0), pod(2)], { claims }))).toEqual(['web-1']);
      expect(ownersAfter(plan(of(), pods(3), { claims }), claims)).toEqual([[], [other], []]);
    });
  });

  it('AS-80, AS-81: of pods that are too many are kept at once where that is wanted, also behind a pod in the way', () => {
    const owner = set({ ...ordered, replicas: 1, volumeClaimTemplates: [data] });
    const claims = [claim(0), claim(1, { ownerReferences: [ofPod] })];
    for (const state of [{}, { going: true }]) {
      const result = plan(owner, [pod(0, { ready: false }), pod(1, state)], { claims });
      expect([ownersAfter(result, claims), deleted(result)]).toEqual([[[], []], []]);
    }
    const policy = { whenScaled: 'Delete' } as const;
    const going = set({ ...owner.spec, persistentVolumeClaimRetentionPolicy: policy });
    const result = plan(going, [pod(0, { ready: false }), pod(1)], { claims: [claim(0), claim(1)] });
    expect(result.upkeep).toEqual([]);
  });

  it('AS-31: is not taken over from an earlier StatefulSet of the name, with which it is deleted', () => {
    const owner = set({ volumeClaimTemplates: [data] });
    const earlier = claim(1, { ownerReferences: [{ ...ofSet, uid: 'an-earlier-uid' }] });
    const result = plan(owner, [pod(0), pod(2)], { claims: [claim(0), earlier, claim(2)] });
    expect([created(result), reason(result)]).toEqual([[], 'ClaimOfEarlierPod']);
  });

  it('AS-84: without the gate nothing is changed', () => {
    const owner = set({
      replicas: 1,
      volumeClaimTemplates: [data],
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Delete' },
    });
    const gates = parseFeatureGates('StatefulSetAutoDeletePVC=false');
    expect(plan(owner, pods(1), { claims: [claim(0)], gates }).upkeep).toEqual([]);
  });
});

describe('status', () => {
  it('AS-5: the current revision moves when all wanted pods are updated and ready', () => {
    const current = (of: readonly Pod[], owner = set()) => plan(owner, of).status?.currentRevision;
    expect(current(pods(3, { of: fresh }))).toBe(fresh.metadata.name);
    expect(current(pods(2, { of: fresh }))).toBe(old.metadata.name);
    expect(current([...pods(2, { of: fresh }), pod(2, { of: fresh, ready: false })])).toBe(old.metadata.name);
    expect(current(pods(3, { of: fresh }), set({ updateStrategy: { type: 'OnDelete' } }))).toBe(old.metadata.name);
  });

  it('counts pods that are being deleted as ready, but not as updated', () => {
    const { status } = plan(set(), [pod(0), pod(1, { of: fresh }), pod(2, { of: fresh, going: true })]);
    expect(status).toMatchObject({
      replicas: 3,
      readyReplicas: 3,
      availableReplicas: 3,
      currentReplicas: 1,
      updatedReplicas: 1,
    });
    expect(status).toMatchObject({ updatedReadyReplicas: 2, updatedAvailableReplicas: 2 });
  });
});

describe('pods that have ended', () => {
  const ended = pod(1, { phase: 'Failed', ready: true });

  it('AS §3: count as replicas until they are gone, and never as ready', () => {
    expect(plan(set({}, {}, 'app:1'), [pod(0), ended, pod(2)]).status).toMatchObject({
      ...{ replicas: 3, readyReplicas: 2, availableReplicas: 2 },
    });
  });

  it('AS-61, AS-30: are unavailable, and are not updated while a hook holds their deletion', () => {
    const lifecycle = { preDelete: { finalizersHandler: ['example.com/hold'] } };
    const { metadata } = pod(1, { phase: 'Failed', labels: { 'lifecycle.apps.kruise.io/state': 'PreparingDelete' } });
    const held = { ...ended, metadata: { ...metadata, finalizers: ['example.com/hold'] } };
    const inPlace = { podUpdatePolicy: 'InPlaceIfPossible' } as const;
    const given = [pod(0), held, pod(2)];
    const updated = (maxUnavailable: number) =>
      begun(plan(set({ lifecycle }, { ...inPlace, maxUnavailable }), given, { permit }));
    expect([updated(1), updated(2)]).toEqual([[], ['web-2']]);
  });
});

describe('members', () => {
  it('AS-11: releases pods of other labels or names, and adopts orphans by both', () => {
    const others = [pod(0), pod(1, { labels: { app: 'db' } }), renamed(pod(2), 'web-other')];
    const orphan = { ...pod(2), metadata: { ...pod(2).metadata, ownerReferences: [] } };
    const orphans = [orphan, renamed(orphan, 'web-x'), renamed(orphan, 'db-2')];
    const { upkeep } = plan(set({}, {}, 'app:1'), others, { orphans });
    const named = (of: (step: (typeof upkeep)[number]) => boolean) =>
      upkeep.filter(of).flatMap((step) => ('pod' in step && 'uid' in step.pod ? [step.pod.name] : []));
    expect(named((step) => step.kind === 'writePod' && step.why === 'release')).toEqual(['web-1', 'web-other']);
    expect(named(({ kind }) => kind === 'adoptPod')).toEqual(['web-2']);
    expect(upkeep.flatMap((step) => (step.kind === 'createPod' ? [step.name] : []))).toEqual(['web-1']);
    expect(deleted(plan(set({}, {}, 'app:1'), others))).toEqual([]);
  });

  it('AS-11, AS-34: in order, nothing else is done while a pod is adopted', () => {
    const orphan = { ...pod(1), metadata: { ...pod(1).metadata, ownerReferences: [] } };
    const result = plan(set({ ...ordered, replicas: 2 }), [pod(0), pod(2)], { orphans: [orphan], permit });
    expect(result.upkeep.map(({ kind }) => kind)).toEqual(['adoptPod']);
    expect(result.disruption).toEqual([]);
  });

  it('AS-11: a pod that is being adopted counts as unavailable', () => {
    const orphan = { ...pod(1), metadata: { ...pod(1).metadata, ownerReferences: [] } };
    const updated = (maxUnavailable: number) => {
      const owner = set({}, { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable });
      return begun(plan(owner, [pod(0), pod(2)], { orphans: [orphan], permit }));
    };
    expect([updated(1), updated(2)]).toEqual([[], ['web-2']]);
  });

  it('AS-15: restores the label with the name of a pod', () => {
    const bare = pod(2, { labels: { 'statefulset.kubernetes.io/pod-name': 'web-7' } });
    const { upkeep } = plan(set({}, {}, 'app:1'), [...pods(2), bare]);
    expect(upkeep.filter(({ kind }) => kind === 'writePod')).toMatchObject([
      {
        kind: 'writePod',
        pod: { name: 'web-2' },
        writes: [{ patch: { metadata: { labels: { 'statefulset.kubernetes.io/pod-name': 'web-2' } } } }],
      },
    ]);
  });
});

function renamed(of: Pod, name: string): Pod {
  return { ...of, metadata: { ...of.metadata, name, uid: `${name}-uid` } };
}

describe('what is written', () => {
  it('AS-4: before the template is recorded, why that fails, with each field that a status must have', () => {
    const { status } = statefulSetWorkloads.plan({
      ...{ owner: set(), pods: [], claims: [], revisions: [], gates: parseFeatureGates() },
      ...{ hasResizeSubresource: true, nowMs: Date.parse(now), isSpent: () => false },
      failures: { revision: 'exceeded quota', revisionType: 'Denied' },
    });
    expect(status?.waitingFor?.reason).toBe('CannotCreate');
    expect(Object.keys(status ?? {})).toEqual(expect.arrayContaining([...(statusSchema.required ?? [])]));
  });

  it('AS-2: nothing when only what rides along has changed', () => {
    const before = plan(set({}, {}, 'app:1'), pods(3)).status;
    const owner = {
      ...set({}, {}, 'app:1'),
      status: { ...before, updatedReadyReplicas: 1, updatedAvailableReplicas: 0 },
    };
    const again = statefulSetWorkloads.plan({
      ...{ owner: owner as StatefulSet, pods: pods(3), claims: [], revisions: [old], gates: parseFeatureGates() },
      ...{ hasResizeSubresource: true, nowMs: Date.parse(now), isSpent: () => false },
    });
    expect([again.status, again.upkeep]).toEqual([undefined, []]);
  });

  it('AS-75: a StatefulSet that is being deleted creates, deletes and updates nothing', () => {
    const owner = set();
    const going = { ...owner, metadata: { ...owner.metadata, deletionTimestamp: now } };
    const result = plan(going, [pod(0), pod(5)], { permit });
    expect([result.upkeep, result.disruption]).toEqual([[], []]);
    expect(result.status).toMatchObject({ replicas: 2 });
  });

  it('AS-71: a pod that is being deleted is not deleted again', () => {
    const labelled = pod(2, { labels: specified, going: true });
    expect(deleted(plan(set(), [...pods(2), labelled]))).toEqual([]);
    expect(deleted(plan(set({ replicas: 2 }), [...pods(2), pod(2, { going: true })]))).toEqual([]);
  });

  it('AS-43: side by side, what is missing or too many comes before an update, in passes of their own', () => {
    const growing = plan(set({ replicas: 4 }, { maxUnavailable: 3 }), pods(3), { permit });
    expect([created(growing), begun(growing)]).toEqual([['web-3'], []]);
  });
});

describe('a StatefulSet of OpenKruise', () => {
  it('AS-22: has the revisions that OpenKruise gave it, and nothing is written to it but what it waits for', () => {
    const owner = recorded<StatefulSet>('statefulset-1-created-v1beta1');
    const found = {
      pods: recorded<readonly Pod[]>('statefulset-1-created-pods'),
      claims: recorded<readonly KubeObject[]>('statefulset-1-created-pvcs'),
      revisions: recorded<readonly ControllerRevision[]>('statefulset-1-created-revisions'),
    };
    const result = statefulSetWorkloads.plan({
      ...{ owner, ...found, gates: parseFeatureGates(), hasResizeSubresource: true },
      ...{ nowMs: Date.parse('2026-11-22T20:00:00Z'), isSpent: () => false },
    });
    expect([result.upkeep, result.disruption, result.status]).toEqual([[], [], undefined]);
  });
});

describe('images pulled ahead', () => {
  const gates = parseFeatureGates('PreDownloadImageForInPlaceUpdate=true,ImagePullJobGate=true');
  const key = (name: string) => `apps.kruise.io/image-predownload-${name}`;
  const inPlace = { podUpdatePolicy: 'InPlaceIfPossible' } as const;
  const withPace = (owner: StatefulSet, annotations: Readonly<Record<string, string>>): StatefulSet => ({
    ...owner,
    metadata: { ...owner.metadata, annotations },
  });
  const steps = (owner: StatefulSet, of: readonly Pod[] = pods(5)) =>
    plan(owner, of, { gates }).upkeep.filter(({ kind }) => ['preDownload', 'patchRevision'].includes(kind));

  it('AS-100, PRE-2, PRE-6: are jobs at the pace of the annotations', () => {
    const owner = set({ replicas: 5 }, inPlace);
    const spec = (annotations: Readonly<Record<string, string>>) =>
      steps(withPace(owner, annotations)).flatMap((step) => (step.kind === 'preDownload' ? step.jobs : []));
    expect(spec({})).toMatchObject([
      {
        metadata: { name: `${fresh.metadata.name}-main` },
        spec: { image: 'app:2', parallelism: 1, pullPolicy: { timeoutSeconds: 300, backoffLimit: 1 } },
      },
    ]);
    const paced = { [key('parallelism')]: '4', [key('timeout-seconds')]: '60' };
    expect(spec(paced)).toMatchObject([{ spec: { parallelism: 4, pullPolicy: { timeoutSeconds: 60 } } }]);
    const unread = { [key('parallelism')]: 'many', [key('timeout-seconds')]: '-1' };
    expect(spec(unread)).toMatchObject([{ spec: { parallelism: 1, pullPolicy: { timeoutSeconds: 300 } } }]);
  });

  it('PRE-3: are not pulled before so many updated pods are ready, a share rounded up', () => {
    const owner = (least: string) =>
      withPace(set({ replicas: 5 }, inPlace), { [key('min-updated-ready-pods')]: least });
    const updated = [...pods(4), pod(4, { of: fresh })];
    expect([steps(owner('2'), updated).length, steps(owner('21%'), updated).length]).toEqual([0, 0]);
    expect([steps(owner('1'), updated).length, steps(owner('20%'), updated).length]).toEqual([1, 1]);
  });

  it.each([
    ['by recreation', set({ replicas: 5 })],
    ['of three pods', set({ replicas: 3 }, inPlace)],
    ['of all pods at once', set({ replicas: 5 }, { ...inPlace, maxUnavailable: '100%' })],
  ])('AS-100: are not pulled for an update %s, which is recorded', (_, owner) => {
    expect(steps(owner, pods(owner.spec.replicas ?? 0))).toMatchObject([
      {
        kind: 'patchRevision',
        patch: { metadata: { labels: { 'apps.kruise.io/image-predownload-ignored': 'true' } } },
      },
    ]);
  });
});

describe('an undo', () => {
  const held = {
    orders: { version: 1, revision: fresh.metadata.name, undo: { to: old.metadata.name, by: 'ann', at: now } },
  } as const;
  const back = permitForAll(old.metadata.name);
  const broken = (state: object = {}) => [pod(0), pod(1), pod(2, { of: fresh, ready: false, ...state })];
  const undone = (rollingUpdate: Parameters<typeof set>[1], of: readonly Pod[]) =>
    plan(set(ordered, rollingUpdate), of, { held, permit: back });

  it('AS-34: in order, takes back the pod that cannot become available, as a person asks for it', () => {
    expect(undone({ podUpdatePolicy: 'InPlaceIfPossible' }, broken()).disruption).toMatchObject([
      { kind: 'updatePod', pod: { name: 'web-2' }, revision: old.metadata.name },
    ]);
    expect(undone({}, broken()).disruption).toMatchObject([{ kind: 'recreatePod', pod: { name: 'web-2' }, mark: {} }]);
    expect(deleted(undone({}, broken({ labels: specified })))).toEqual(['web-2']);
  });

  it('AS-34: in order, leaves the pods that are available until it is', () => {
    const updated = [pod(0, { of: fresh }), pod(1, { of: fresh, ready: false }), pod(2, { of: fresh })];
    expect(begun(undone({}, updated))).toEqual(['web-1']);
    const named = [pod(0, { of: fresh, labels: specified }), pod(1, { of: fresh, ready: false })];
    expect(deleted(undone({}, named))).toEqual([]);
  });

  it('AS-40: in order, deletes one pod at a time, and nothing beside a scale-in or a creation', () => {
    const two = { ...ordered, replicas: 2 };
    const labelled = pod(0, { of: fresh, labels: specified });
    const of = (owner: StatefulSet, there: readonly Pod[]) => {
      const result = plan(owner, there, { held, permit: back });
      return [created(result), deleted(result)];
    };
    expect(of(set(two), [labelled, pod(1, { of: fresh }), pod(2, { of: fresh })])).toEqual([[], ['web-2']]);
    expect(of(set(two), [labelled, pod(1, { of: fresh }), pod(2, { of: fresh, going: true })])).toEqual([[], []]);
    const broken = [1, 2].map((ordinal) => pod(ordinal, { of: fresh, ready: false, labels: specified }));
    expect(of(set(ordered), broken)).toEqual([['web-0'], []]);
    expect(of(set(ordered), [pod(0), ...broken])).toEqual([[], ['web-2']]);
  });

  it('AS-34a: a newer template does not replace it', () => {
    const result = plan(set(ordered), [pod(0), pod(1), pod(2, { ready: false })], { permit });
    expect([begun(result), deleted(result)]).toEqual([[], []]);
  });
});

describe('a deletion that has begun', () => {
  const inState = (state: string) => ({ 'lifecycle.apps.kruise.io/state': state });
  const hold = { labelsHandler: { hold: 'yes' } };
  const managed = ['Parallel', 'OrderedReady'] as const;

  it.each(managed)('LC-41, P-7, %s: is finished once its hook lets go', (podManagementPolicy) => {
    const owner = set({ podManagementPolicy, lifecycle: { preDelete: hold } });
    const last = (labels: Readonly<Record<string, string>>) => [
      ...pods(2),
      pod(2, { labels: { ...specified, ...labels } }),
    ];
    expect(plan(owner, last({ hold: 'yes' })).upkeep).toMatchObject([
      { kind: 'writePod', why: 'prepareDelete', pod: { name: 'web-2' } },
    ]);
    expect(deleted(plan(owner, last({ ...inState('PreparingDelete'), hold: 'yes' })))).toEqual([]);
    expect(deleted(plan(owner, last({ ...inState('PreparingDelete'), hold: 'no' })))).toEqual(['web-2']);
  });

  it.each(managed)('LC-30, %s: is finished where a held pod has to be recreated after all', (podManagementPolicy) => {
    const owner = set({ podManagementPolicy, lifecycle: { inPlaceUpdate: hold } });
    const held = [...pods(2), pod(2, { labels: { ...inState('PreparingUpdate'), hold: 'no', ...specified } })];
    expect(deleted(plan(owner, held, { permit }))).toEqual(['web-2']);
  });

  it('AS-40: in order, two that have ended and are too many go, as they never become available', () => {
    const ended = (ordinal: number) => pod(ordinal, { phase: 'Failed' });
    expect(deleted(plan(set({ ...ordered, replicas: 1 }, {}, 'app:1'), [pod(0), ended(1), ended(2)]))).toEqual([
      'web-2',
    ]);
  });

  it('P-7, AS-70: takes its part of the budget while the deletion has got no answer', () => {
    const unanswered = new Map([['web-1-uid', Date.parse(now) + 60_000]]);
    const marked = [pod(0), ...[1, 2].map((ordinal) => pod(ordinal, { labels: specified }))];
    expect(deleted(plan(set(), marked, { unanswered }))).toEqual(['web-1']);
    const result = plan(set(), [...pods(2), pod(2)], { unanswered, permit });
    expect([begun(result), result.againInMs]).toEqual([[], 60_000]);
  });

  it('P-7: a labelled pod is not spared because of its own mark that got no answer', () => {
    const marked = [...pods(2), pod(2, { labels: specified })];
    expect(deleted(plan(set(), marked, { inDoubt: new Set(['web-2-uid']) }))).toEqual(['web-2']);
  });
});

describe('a change of a PVC without an answer', () => {
  const unanswered = new Map([['data-web-2-uid', Date.parse(now) + 60_000]]);
  const claims = [claim(0), claim(1), claim(2)];
  const keeping = (whenScaled: 'Retain' | 'Delete', spec = {}) =>
    set({ volumeClaimTemplates: [data], persistentVolumeClaimRetentionPolicy: { whenScaled }, ...spec });

  it.each(['Parallel', 'OrderedReady'] as const)(
    'AS-82, %s: keeps the pod of a PVC that is to be kept by now',
    (podManagementPolicy) => {
      const owner = keeping('Retain', { podManagementPolicy, replicas: 2 });
      const of = pods(3, { of: fresh });
      expect(deleted(plan(owner, of, { claims, unanswered }))).toEqual([]);
      expect(deleted(plan(owner, of, { claims }))).toEqual(['web-2']);
    },
  );

  it('AS-31: lets no pod be created on it, and says so', () => {
    const result = plan(keeping('Delete'), pods(2, { of: fresh }), { claims, unanswered });
    expect([created(result), reason(result), result.againInMs]).toEqual([[], 'ClaimInDoubt', 60_000]);
  });

  it('AS-31: ordinals that wait for their PVCs keep no other from being created', () => {
    const going = Array.from({ length: 64 }, (_, ordinal) => claim(ordinal, { deletionTimestamp: now }));
    expect(created(plan(keeping('Retain', { replicas: 70 }), [], { claims: going }))).toContain('web-64');
  });
});

it.each([undefined, { version: 1, revision: fresh.metadata.name, skip: ['web-0'] }] as const)(
  'AS-1, AS-2: what rides along is not written by itself, whatever orders there are: %j',
  (rollOut) => {
    const counts = { replicas: 0, readyReplicas: 0, availableReplicas: 0, currentReplicas: 0, updatedReplicas: 0 };
    const statusOf = (status: StatefulSet['status']) =>
      statefulSetWorkloads.plan({
        owner: { ...set(), ...(status && { status }) },
        ...{ pods: pods(3), claims: [], revisions: [old, fresh], gates: parseFeatureGates() },
        ...{ hasResizeSubresource: true, nowMs: Date.parse(now), isSpent: () => false },
      }).status;
    const before = { ...counts, currentRevision: old.metadata.name, ...(rollOut && { rollOut }) };
    const written = statusOf(before) ?? before;
    expect(written.rollOut).toEqual(rollOut);
    expect(statusOf(written)).toBeUndefined();
    expect(statusOf({ ...written, updatedReadyReplicas: 7 })).toBeUndefined();
  },
);

describe('a step that is refused', () => {
  const refused = (scaleStep: 'create' | 'delete') =>
    ({ failures: { scale: 'exceeded quota', scaleType: 'Denied', scaleStep } }) as const;

  it('AS-32: is a creation where the PVC of a pod that there is cannot be created', () => {
    const owner = set({ volumeClaimTemplates: [data] }, {}, 'app:1');
    const there = [pod(0, { phase: 'Pending', ready: false }), pod(1), pod(2)];
    const result = plan(owner, there, { claims: [claim(1), claim(2)], ...refused('create') });
    expect(reason(result)).toBe('CannotCreate');
  });

  it('AS-13: is a deletion where another ordinal waits for its PVC', () => {
    const owner = set({ reserveOrdinals: [1], volumeClaimTemplates: [data] }, {}, 'app:1');
    const claims = [claim(0), claim(1), claim(2), claim(3, { deletionTimestamp: now })];
    expect(reason(plan(owner, pods(3), { claims, ...refused('delete') }))).toBe('CannotDelete');
  });
});
