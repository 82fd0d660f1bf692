import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import type { StatefulSet } from '../../api/stateful-set/types.ts';
import { permitForAll } from '../support/permits.ts';
import { begun, created, deleted, ordered, type Plan, plan, specified } from '../support/stateful-set-plan.ts';
import { claim, data, fresh, now, old, pod, pods, set, uid } from '../support/stateful-set-world.ts';

const permit = permitForAll(fresh.metadata.name);

/** Each step with the object that it is about. */
const steps = ({ upkeep }: Plan) =>
  upkeep.map((step) => {
    if (step.kind === 'createPod' || step.kind === 'createClaim') return `${step.kind} ${step.name}`;
    if (step.kind === 'writePod' || step.kind === 'deletePod') return `${step.kind} ${step.pod.name}`;
    return step.kind === 'writeClaim' ? `${step.kind} ${step.claim.name}` : step.kind;
  });

/** As its kubelet has started it: not ready, as nobody has opened the gate for updates in place. */
function gated(one: Pod): Pod {
  const conditions = one.status?.conditions?.filter(({ type }) => type !== 'InPlaceUpdateReady') ?? [];
  return {
    ...one,
    status: {
      ...one.status,
      conditions: conditions.map((condition) =>
        condition.type === 'Ready' ? { ...condition, status: 'False' } : condition,
      ),
    },
  };
}

function since(one: Pod, lastTransitionTime: string): Pod {
  const conditions = one.status?.conditions?.map((condition) => ({ ...condition, lastTransitionTime }));
  return { ...one, status: { ...one.status, ...(conditions && { conditions }) } };
}

describe('one pass', () => {
  it('AS-20: creates from the lowest ordinal up, and then deletes from the highest down what is too many', () => {
    const of = [pod(1), pod(4), pod(5)];
    expect(steps(plan(set(), of))).toEqual([
      ...['createPod web-0', 'createPod web-2'],
      ...['deletePod web-5', 'deletePod web-4'],
    ]);
    const going = {
      volumeClaimTemplates: [data],
      persistentVolumeClaimRetentionPolicy: { whenScaled: 'Delete' },
    } as const;
    const claims = [claim(4), claim(5)];
    // the owners of their PVCs come first
    expect(steps(plan(set(going), of, { claims }))).toEqual([
      ...['createPod web-0', 'createPod web-2'],
      ...['writeClaim data-web-5', 'writeClaim data-web-4'],
    ]);
    // and the revision before everything else
    expect(steps(plan(set(), of, { revisions: [old] }))).toEqual(['createRevision']);
  });

  it('AS-20a: refreshes pods also while it is paused, when none is deleted by its label or updated', () => {
    const of = [pod(0), gated(pod(1)), pod(2, { labels: specified })];
    const result = plan(set({}, { paused: true, maxUnavailable: 3 }), of, { permit });
    expect([steps(result), begun(result)]).toEqual([['writePod web-1'], []]);
  });

  it('AS-20a, AS-70a: deletes what is labelled before it updates, and so first where both are asked for', () => {
    const labelled = [pod(0, { labels: specified }), pod(1), pod(2)];
    for (const maxUnavailable of [1, 3]) {
      const result = plan(set({}, { maxUnavailable }), labelled, { permit });
      expect([deleted(result), begun(result)]).toEqual([['web-0'], []]);
    }
    const gone = plan(set({}, { maxUnavailable: 1 }), [pod(1), pod(2)], { permit });
    expect([created(gone), begun(gone)]).toEqual([['web-0'], []]);
  });

  it('AS-70a: below the partition a labelled pod comes back with the current revision, without the label', () => {
    const newPods = ({ upkeep }: Plan) =>
      upkeep.flatMap((step) => (step.kind === 'createPod' ? [(step.pod as unknown as Pod).metadata.labels ?? {}] : []));
    const labelsOf = (partition: number) => newPods(plan(set({}, { partition }), [pod(0), pod(2)]));
    const revisionOf = ({ metadata }: ControllerRevision) => ({ 'controller-revision-hash': metadata.name });
    expect(labelsOf(2)).toMatchObject([revisionOf(old)]);
    expect(labelsOf(1)).toMatchObject([revisionOf(fresh)]);
    expect(labelsOf(1)[0]).not.toHaveProperty(['apps.kruise.io/specified-delete']);
  });

  const unnamed = { 'statefulset.kubernetes.io/pod-name': '' };
  it.each([
    ['has ended', pod(0, { phase: 'Failed', labels: unnamed }), ['deletePod web-0']],
    ['is pending', pod(0, { phase: 'Pending', ready: false, labels: unnamed }), ['createClaim data-web-0']],
    ['is being deleted', gated(pod(0, { going: true })), []],
    ['has a closed gate', gated(pod(0, { labels: unnamed })), ['writePod web-0']],
    ['lacks its label', pod(0, { labels: unnamed }), ['writePod web-0', 'createPod web-1']],
    ['lacks nothing', pod(0), ['createPod web-1']],
  ])('AS-39: in order, of a pod that %s only the first that is due is done', (_, first, expected) => {
    const claims = first.status?.phase === 'Pending' ? [] : [claim(0)];
    const owner = set({ ...ordered, replicas: 2, volumeClaimTemplates: [data] });
    expect(steps(plan(owner, [first], { claims }))).toEqual(expected);
  });

  it.each([
    ['by recreation', { type: 'RollingUpdate', rollingUpdate: { podUpdatePolicy: 'ReCreate' } }],
    ['in place', { type: 'RollingUpdate', rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible' } }],
    ['by the user', { type: 'OnDelete' }],
  ] as const)(
    'AS-39, AS-39a: in order, a new pod gets its gate opened before it is judged (updates %s)',
    (_, updateStrategy) => {
      const owner = set({ ...ordered, updateStrategy });
      const waiting = plan(owner, [gated(pod(0, { of: fresh }))]);
      expect([steps(waiting), created(waiting)]).toEqual([['writePod web-0'], []]);
      const opened = JSON.stringify(waiting.upkeep);
      expect(opened).toContain('{"type":"InPlaceUpdateReady","status":"True"');
      expect(created(plan(owner, [pod(0, { of: fresh })]))).toEqual(['web-1']);
    },
  );

  it('AS-72: a pod that others delete is not held by a hook, and comes back when it is gone', () => {
    const owner = set({ lifecycle: { preDelete: { labelsHandler: { hold: 'yes' } } } });
    expect(steps(plan(owner, [pod(0), pod(1, { going: true, labels: { hold: 'yes' } }), pod(2)]))).toEqual([]);
    expect(steps(plan(owner, [pod(0), pod(2)]))).toEqual(['createPod web-1']);
  });

  it('AS-101: jobs that pull images ahead are deleted once there is one revision again', () => {
    const gates = parseFeatureGates('PreDownloadImageForInPlaceUpdate=true,ImagePullJobGate=true');
    const metadata = { namespace: 'shop', name: 'ahead', uid: 'job-uid', resourceVersion: '1', creationTimestamp: '' };
    const pullJobs = [{ metadata, spec: { image: 'app:2' } } as ImagePullJob];
    const deletions = (owner: StatefulSet) =>
      plan(owner, pods(3), { gates, pullJobs }).upkeep.filter(({ kind }) => kind === 'deletePullJob');
    expect(deletions(set({}, {}, 'app:1'))).toMatchObject([{ job: { name: 'ahead', uid: 'job-uid' } }]);
    expect(deletions(set())).toEqual([]);
  });
});

describe('AS-23: a pod', () => {
  const minReadySeconds = 10;
  const earlier = (seconds: number) => new Date(Date.parse(now) - seconds * 1000).toISOString();

  it.each([
    ['that is ready in a working state is healthy', pod(2, { of: fresh }), true],
    ['that is not ready is not', pod(2, { of: fresh, ready: false }), false],
    ['that is being deleted is not, though it is ready', pod(2, { of: fresh, going: true }), false],
    [
      'that is held in a state is not, though it is ready',
      pod(2, { of: fresh, labels: { 'lifecycle.apps.kruise.io/state': 'Updated' } }),
      false,
    ],
  ])('%s', (_, last, isHealthy) => {
    const lifecycle = { inPlaceUpdate: { labelsHandler: { hold: 'yes' } } };
    const owner = set({ lifecycle }, { podUpdatePolicy: 'InPlaceIfPossible', maxUnavailable: 1 });
    expect(begun(plan(owner, [pod(0), pod(1), last], { permit }))).toEqual(isHealthy ? ['web-1'] : []);
  });

  it('is available once it has been ready for minReadySeconds, which are waited for by the clock', () => {
    const of = (seconds: number) =>
      plan(set({ ...ordered, replicas: 2 }, { minReadySeconds }), [since(pod(0, { of: fresh }), earlier(seconds))]);
    const young = of(4);
    expect([created(young), young.againInMs, young.status?.availableReplicas]).toEqual([[], 6_001, 0]);
    const grown = of(11);
    expect([created(grown), grown.againInMs, grown.status?.availableReplicas]).toEqual([['web-1'], undefined, 1]);
  });

  it('that is being deleted counts as available in the status', () => {
    expect(plan(set(), [pod(0, { going: true })]).status?.availableReplicas).toBe(1);
  });
});

describe('AS-3: that an update is done', () => {
  /** As scripts ask for it. */
  function doneness(owner: StatefulSet, of: readonly Pod[]) {
    const { generation = 0 } = owner.metadata;
    const { status } = plan(owner, of);
    if (status === undefined) throw new Error('no status');
    const { partition = 0 } = owner.spec.updateStrategy?.rollingUpdate ?? {};
    const { observedGeneration = 0, updatedReplicas, replicas, updateRevision, currentRevision } = status;
    const isPartDone = observedGeneration >= generation && updatedReplicas >= replicas - partition;
    return [isPartDone, isPartDone && updateRevision === currentRevision];
  }

  it.each([
    ['nothing is updated', 0, [pod(0), pod(1), pod(2)], [false, false]],
    ['the partition is reached', 1, [pod(0), pod(1, { of: fresh }), pod(2, { of: fresh })], [true, false]],
    ['it is not, by one pod', 1, [pod(0), pod(1), pod(2, { of: fresh })], [false, false]],
    ['all pods are updated', 0, pods(3, { of: fresh }), [true, true]],
    ['one is not ready yet', 0, [...pods(2, { of: fresh }), pod(2, { of: fresh, ready: false })], [true, false]],
  ])('is told by the status: %s', (_, partition, of, expected) => {
    expect(doneness(set({}, { partition }), of)).toEqual(expected);
  });
});

describe('AS-81a: the StatefulSet as owner of a PVC', () => {
  const ofSet = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'StatefulSet', name: 'web', uid };
  const policy = { whenDeleted: 'Delete' } as const;
  const owner = (podManagementPolicy: 'Parallel' | 'OrderedReady') =>
    set({
      podManagementPolicy,
      replicas: 2,
      volumeClaimTemplates: [data],
      persistentVolumeClaimRetentionPolicy: policy,
    });
  const owned = claim(0, { ownerReferences: [ofSet] });

  it.each(['Parallel', 'OrderedReady'] as const)(
    'comes after its pod, and at the latest when that is available (%s)',
    (mode) => {
      const { upkeep } = plan(owner(mode), [pod(0)], { claims: [owned] });
      expect(upkeep).toMatchObject([{ kind: 'createPod', claims: [{ metadata: { name: 'data-web-1' } }] }]);
      expect(upkeep).not.toMatchObject([{ claims: [{ metadata: { ownerReferences: expect.anything() } }] }]);
      const claims = [owned, claim(1)];
      expect(steps(plan(owner(mode), [pod(0)], { claims }))).toEqual(['createPod web-1']);
      expect(steps(plan(owner(mode), pods(2), { claims }))).toEqual(['writeClaim data-web-1']);
    },
  );

  it('is not given to PVCs that were left by an earlier scale-in', () => {
    const claims = [owned, claim(1, { ownerReferences: [ofSet] }), claim(5)];
    expect(steps(plan(owner('Parallel'), pods(2), { claims }))).toEqual([]);
  });
});
