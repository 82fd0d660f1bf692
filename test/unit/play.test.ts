import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { type FeatureGates, parseFeatureGates } from '../../api/feature-gates.ts';
import { type ControllerRevision, newRevision } from '../../api/fleet/revision.ts';
import type { StatefulSet, StatefulSetRollingUpdate, StatefulSetSpec } from '../../api/stateful-set/types.ts';
import { cloneSetPlanner, planCloneSet } from '../../plan/cloneset/planner.ts';
import type { VolumeClaim } from '../../plan/fleet/input.ts';
import { type Play, play } from '../../plan/fleet/play.ts';
import { statefulSetPlanner } from '../../plan/stateful-set/planner.ts';
import { statefulSetRevisions } from '../../plan/stateful-set/revisions.ts';
import {
  cloneSet,
  newImage,
  newName,
  newRevisionOfSet,
  now,
  oldImage,
  oldName,
  oldRevision,
  onDelete,
  permit,
  pods,
  revisionOf,
  template,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';
import { aPod } from '../support/objects/pod.ts';

const fresh = (count: number) => pods('n', count, { revision: newName });

/** Each pod with its batch and what happens to it. */
function paths(played: Play | undefined): readonly string[] {
  return (played?.updated ?? []).map(({ pod, path, batch }) =>
    [batch, pod, path.kind, path.kind === 'kept' && path.because].filter(Boolean).join(' '),
  );
}

describe('a CloneSet', () => {
  const played = (facts: WorldFacts, looks?: number) => play(cloneSetPlanner, world(facts), looks);

  it('tells the batch and the containers of each pod that is updated in place, for a template that is not recorded', () => {
    const set = cloneSet({ template: template('nginx:9'), rollingUpdate: { maxUnavailable: 2 } });
    const found = played({ set, revisions: [oldRevision], pods: pods('o', 5) });
    expect(found?.updated).toEqual(
      [1, 1, 2, 2, 3].map((batch, index) => ({
        pod: `web-o${index + 1}`,
        path: { kind: 'inPlace', containers: [['main']] },
        batch,
      })),
    );
    expect(found).toMatchObject({ atOnce: 2, created: [], deleted: [], isPlayedOut: true });
  });

  it('names the field that forces a new pod, or forbids the update', () => {
    const because = { path: 'spec.template.spec.hostNetwork', reason: 'FieldNeedsNewPod' };
    const of = (podUpdatePolicy: 'InPlaceIfPossible' | 'InPlaceOnly') =>
      played({
        set: cloneSet({
          replicas: 3,
          template: template(oldImage, { hostNetwork: true }),
          rollingUpdate: { podUpdatePolicy, maxUnavailable: 2 },
        }),
        revisions: [oldRevision],
        pods: pods('o', 3),
      });
    const all = (kind: string) =>
      [1, 1, 2].map((batch, index) => ({ pod: `web-o${index + 1}`, path: { kind, because }, batch }));
    expect(of('InPlaceIfPossible')).toMatchObject({ updated: all('recreate'), created: [], deleted: [] });
    expect(of('InPlaceOnly')).toMatchObject({ updated: all('impossible'), created: [], deleted: [] });
  });

  it('keeps pods that have arrived, those of the partition, and those that an operator skips', () => {
    const orders = { rollOut: { version: 1, revision: newName, skip: ['web-o1'] } };
    const set = cloneSet({ rollingUpdate: { partition: 2 } }, { status: orders });
    expect(paths(played({ set, pods: [...pods('o', 4), ...fresh(1)] }))).toEqual([
      '1 web-o2 inPlace',
      '2 web-o3 inPlace',
      'web-o1 kept Skipped',
      'web-o4 kept Partition',
      'web-n1 kept Arrived',
    ]);
  });

  it('keeps all pods with OnDelete', () => {
    const found = played({ set: onDelete(cloneSet({ replicas: 2 })), pods: pods('o', 2) });
    expect(paths(found)).toEqual(['web-o1 kept OnDelete', 'web-o2 kept OnDelete']);
  });

  it('tells nothing for a selector that is invalid, or that does not select the pods of the template', () => {
    const matchExpressions = [{ key: 'app', operator: 'Like', values: ['w'] }];
    expect(played({ set: cloneSet({ selector: { matchExpressions } }) })).toBeUndefined();
    const others = cloneSet({ selector: { matchLabels: { app: 'other' } } });
    expect(played({ set: others, revisions: [] }, 100)).toBeUndefined();
  });

  it('ends when a revision is not selected by the selector, rather than that it is created again and again', () => {
    let reads = 0;
    const others = cloneSet({ selector: { matchLabels: { app: 'other' } } });
    const spec = {
      ...others.spec,
      get template() {
        reads++;
        return others.spec.template;
      },
    };
    expect(played({ set: { ...others, spec }, revisions: [] }, 1_000)).toBeUndefined();
    expect(reads).toBeLessThan(20);
  });

  it('begins with the pods that the plan begins with', () => {
    const facts: WorldFacts = { set: cloneSet({ rollingUpdate: { maxUnavailable: 3 } }), pods: pods('o', 5) };
    const started = planCloneSet(world({ ...facts, permit: permit() })).disruption;
    const first = played(facts)?.updated.filter(({ batch }) => batch === 1);
    expect(first?.map(({ pod }) => pod)).toEqual(
      started.map((step) => (step.kind === 'updatePod' ? step.pod.name : '')),
    );
  });

  it('CS-55b: begins with pods that are not ready, which cost nothing, besides as many as the budget allows', () => {
    const broken = pods('b', 2, { ready: false });
    const set = cloneSet({ replicas: 4, template: template('nginx:9') });
    for (const revisions of [[oldRevision], [oldRevision, revisionOf(set, 2)]]) {
      expect(paths(played({ set, revisions, pods: [...pods('o', 2), ...broken] }))).toEqual([
        '1 web-b1 inPlace',
        '1 web-b2 inPlace',
        '2 web-o1 inPlace',
        '3 web-o2 inPlace',
      ]);
    }
  });

  it('names what has to be done by somebody before the first pod is updated', () => {
    const set = cloneSet({ replicas: 4 });
    const broken = pods('n', 1, { revision: newName, ready: false });
    const wait = (facts: WorldFacts) => played(facts)?.wait;
    const spent = { reason: 'BudgetSpent', blockedBy: ['pod/web-n1'] };
    expect(wait({ set, pods: [...pods('o', 3), ...broken] })).toMatchObject(spent);
    expect(wait({ set, pods: [...pods('o', 2), ...broken] })).toBeUndefined(); // one is created first
    expect(wait({ set, pods: [...fresh(3), ...pods('b', 1, { revision: newName, ready: false })] })).toBeUndefined();
    const named = pods('d', 1, { revision: newName, specified: true });
    const rounded = { reason: 'BudgetRoundsToZero', blockedBy: ['pod/web-d1'] };
    expect(wait({ set: onDelete(set), pods: [...fresh(3), ...named] })).toMatchObject(rounded);
    expect(wait({ set: onDelete(set), pods: pods('o', 4) })).toBeUndefined();
  });

  it('leaves out what holds the roll-out for the moment: pauses, an abort, hooks, the grace period, minReadySeconds', () => {
    const order = { by: 'ann', at: now };
    const rollOut = { version: 1, revision: newName, paused: order, aborted: order };
    const marks = { labelsHandler: { guard: 'on' }, markPodNotReady: true };
    const set = cloneSet(
      {
        replicas: 3,
        minReadySeconds: 600,
        lifecycle: { inPlaceUpdate: marks, preDelete: marks },
        rollingUpdate: { paused: true, inPlaceUpdateStrategy: { gracePeriodSeconds: 60 } },
      },
      { status: { rollOut } },
    );
    const guarded = { labels: { guard: 'on' } };
    const held = pods('h', 1, { ...guarded, state: 'PreparingUpdate' });
    expect(paths(played({ set, pods: [...pods('o', 2, guarded), ...held] }))).toEqual([
      '1 web-h1 inPlace',
      '2 web-o1 inPlace',
      '3 web-o2 inPlace',
    ]);
  });

  it('takes pods back under an undo, and only those that were updated', () => {
    const undo = { by: 'ann', at: now, to: oldName };
    const set = cloneSet({}, { status: { rollOut: { version: 1, revision: newName, undo } } });
    const found = played({ set, pods: [...pods('o', 3), ...fresh(2)] });
    expect(paths(found).slice(0, 2)).toEqual(['1 web-n1 inPlace', '2 web-n2 inPlace']);
    expect(found?.revision).toBe(oldName);
  });

  it('CS-27: creates surge pods, and deletes as many old ones on the way', () => {
    const surge = (podUpdatePolicy: 'InPlaceIfPossible' | 'ReCreate') =>
      played({
        set: cloneSet({ rollingUpdate: { podUpdatePolicy, maxSurge: 2, maxUnavailable: 0 } }),
        pods: pods('o', 5),
      });
    for (const policy of ['InPlaceIfPossible', 'ReCreate'] as const) {
      const found = surge(policy);
      expect(found).toMatchObject({
        atOnce: 2,
        created: [{ revision: newName, count: 2 }],
        deleted: [
          { pod: 'web-o3', because: 'Surplus' },
          { pod: 'web-o5', because: 'Surplus' },
        ],
      });
      const kind = policy === 'ReCreate' ? 'recreate' : 'inPlace';
      expect(paths(found)).toEqual([`1 web-o1 ${kind}`, `1 web-o2 ${kind}`, `2 web-o4 ${kind}`]);
    }
  });

  it('deletes named, held and surplus pods first, and replaces those that are missing then', () => {
    const named = cloneSet({ replicas: 3, scaleStrategy: { podsToDelete: ['web-o1'] } });
    const leaving = pods('l', 1, { state: 'PreparingDelete' });
    expect(played({ set: named, pods: [...pods('o', 4), ...leaving] })).toMatchObject({
      deleted: [
        { pod: 'web-l1', because: 'Leaving' },
        { pod: 'web-o1', because: 'Named' },
      ],
      created: [],
      updated: [{ pod: 'web-o2' }, { pod: 'web-o3' }, { pod: 'web-o4' }],
    });
    const more = cloneSet({ scaleStrategy: { podsToDelete: ['web-n1'] } });
    expect(played({ set: more, pods: fresh(3) })).toMatchObject({
      deleted: [{ pod: 'web-n1', because: 'Named' }],
      created: [{ revision: newName, count: 3 }],
    });
    expect(paths(played({ set: cloneSet({ replicas: 2 }), pods: [...fresh(2), ...leaving] }))).toHaveLength(2);
  });

  it('CS-54: pods that are to be created count for how pods are scattered', () => {
    const there = [...pods('r', 2, { labels: { color: 'red' } }), ...pods('b', 4)];
    const scatterStrategy = [{ key: 'color', value: 'red' }];
    const red = template(newImage, {}, { labels: { app: 'web', color: 'red' } });
    const order = (replicas: number) => {
      const set = cloneSet({ replicas, template: red, rollingUpdate: { scatterStrategy } });
      return played({ set, pods: there })?.updated.map(({ pod }) => pod);
    };
    expect(order(6)).toEqual(['web-r1', 'web-b1', 'web-b2', 'web-b3', 'web-b4', 'web-r2']);
    expect(order(12)).toEqual(['web-b1', 'web-b2', 'web-b3', 'web-b4', 'web-r1', 'web-r2']);
  });

  describe('of which too much would have to be played', () => {
    /** How often the template of the revision is read: at least once for each pod that is created. */
    function readsFor(replicas: number) {
      let reads = 0;
      const update: ControllerRevision = {
        ...newRevisionOfSet,
        get data() {
          reads++;
          return newRevisionOfSet.data;
        },
      };
      const found = played(
        { set: cloneSet({ replicas }), revisions: [oldRevision, update], pods: pods('o', 5) },
        1_000,
      );
      return { reads, found };
    }

    it('is played no further for millions of replicas than for thousands', () => {
      const few = readsFor(8);
      const most = readsFor(2 ** 31 - 1);
      expect(few.found).toMatchObject({ created: [{ revision: newName, count: 3 }], isPlayedOut: true });
      expect(most.found).toMatchObject({ created: [{ revision: newName, count: 2 ** 31 - 6 }], isPlayedOut: false });
      expect(most.reads).toBe(readsFor(10_000).reads);
      expect(most.found?.updated).toEqual(few.found?.updated);
    });

    it('tells how many are created of the old revision and how many of the new one', () => {
      const set = cloneSet({ replicas: 3_000_000, rollingUpdate: { partition: 1_000_000 } });
      const found = played({ set, pods: [...pods('o', 2), ...fresh(3)] }, 1_000);
      expect(found?.created).toEqual([
        { revision: oldName, count: 999_998 },
        { revision: newName, count: 1_999_997 },
      ]);
      expect(new Set(found?.updated.map(({ path }) => path.kind))).toEqual(new Set(['kept']));
    });

    it('goes on with the batches in the order of the planner', () => {
      const set = cloneSet({ replicas: 40, rollingUpdate: { maxUnavailable: 3 } });
      const facts = { set, pods: pods('o', 40) };
      const cut = played(facts, 200);
      expect(cut).toEqual({ ...played(facts), isPlayedOut: false });
      expect(cut?.updated.at(-1)).toMatchObject({ batch: 14 });
    });

    it('takes no pod that is about to be recreated for one too many, wherever it ends', () => {
      const set = cloneSet({ replicas: 10, rollingUpdate: { podUpdatePolicy: 'ReCreate', maxUnavailable: 3 } });
      const facts = { set, pods: pods('o', 10) };
      const whole = played(facts);
      expect(whole).toMatchObject({ created: [], deleted: [], isPlayedOut: true });
      for (let looks = 1; looks < 100; looks += 5) {
        expect(played(facts, looks)).toEqual({ ...whole, isPlayedOut: false });
      }
    });
  });
});

describe('a StatefulSet', () => {
  const labels = { app: 'web' };
  const templateOf = (image: string, spec: object = {}) => ({
    metadata: { labels },
    spec: { containers: [{ name: 'main', image }], ...spec },
  });
  const data = { metadata: { name: 'data' }, spec: { accessModes: ['ReadWriteOnce'] } };
  type Change = Partial<StatefulSetSpec> & { readonly rollingUpdate?: StatefulSetRollingUpdate };

  function statefulSet({ rollingUpdate, ...spec }: Change = {}): StatefulSet {
    return {
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'StatefulSet',
      metadata: { namespace: 'shop', name: 'web', uid: 'set-uid', resourceVersion: '1', creationTimestamp: '' },
      spec: {
        ...{ replicas: 5, selector: { matchLabels: labels }, serviceName: 'web', template: templateOf('app:2') },
        updateStrategy: {
          type: 'RollingUpdate',
          rollingUpdate: { podUpdatePolicy: 'InPlaceIfPossible', ...rollingUpdate },
        },
        ...spec,
      },
    };
  }

  function recorded(image: string, number: number): ControllerRevision {
    const made = newRevision(statefulSetRevisions.ownerOf(statefulSet({ template: templateOf(image) })), number);
    const { name } = made.metadata;
    return { ...made, metadata: { ...made.metadata, uid: name, resourceVersion: '1', creationTimestamp: '' } };
  }
  const [old, update] = [recorded('app:1', 1), recorded('app:2', 2)];

  /** A pod that has been ready for an hour. */
  function podAt(ordinal: number, change: { readonly labels?: object; readonly isReady?: boolean } = {}): Pod {
    const name = `web-${ordinal}`;
    const gates = ['InPlaceUpdateReady', 'KruisePodReady'];
    const ready = change.isReady === false ? 'False' : 'True';
    return aPod({
      metadata: {
        name,
        uid: `${name}-uid`,
        labels: {
          ...{ ...labels, 'controller-revision-hash': old.metadata.name, 'statefulset.kubernetes.io/pod-name': name },
          ...change.labels,
        },
        ownerReferences: [
          { apiVersion: 'apps.kruise.io/v1beta1', kind: 'StatefulSet', name: 'web', uid: 'set-uid', controller: true },
        ],
      },
      spec: {
        nodeName: 'node-1',
        readinessGates: gates.map((conditionType) => ({ conditionType })),
        containers: [{ name: 'main', image: 'app:1' }],
      },
      status: {
        phase: 'Running',
        conditions: [...gates, 'Ready'].map((type) => ({
          ...{ type, status: type === 'Ready' ? ready : 'True', lastTransitionTime: '2026-11-21T05:13:44Z' },
        })),
      },
    });
  }
  const podsTo = (count: number) => Array.from({ length: count }, (_, ordinal) => podAt(ordinal));

  function played(
    owner: StatefulSet,
    there: readonly Pod[],
    {
      claims = [],
      orphans = [],
      gates = {},
    }: {
      readonly claims?: readonly VolumeClaim[];
      readonly orphans?: readonly Pod[];
      readonly gates?: Partial<FeatureGates>;
    } = {},
  ): Play | undefined {
    const counts = { replicas: 5, readyReplicas: 5, availableReplicas: 5, currentReplicas: 5, updatedReplicas: 0 };
    return play(statefulSetPlanner, {
      owner: { ...owner, status: { ...counts, currentRevision: old.metadata.name } },
      ...{ pods: there, claims, orphans, revisions: there.length + orphans.length > 0 ? [old] : [] },
      ...{ gates: { ...parseFeatureGates(), ...gates }, hasResizeSubresource: true },
      ...{ nowMs: Date.parse(now), isSpent: () => false },
    });
  }

  it('AS-52, AS-61: is rolled out from the highest ordinal down, one pod after the other', () => {
    const found = played(statefulSet(), podsTo(5));
    expect(paths(found)).toEqual([4, 3, 2, 1, 0].map((ordinal, index) => `${index + 1} web-${ordinal} inPlace`));
    expect(found).toMatchObject({
      revision: update.metadata.name,
      currentRevision: old.metadata.name,
      ...{ atOnce: 1, created: [], deleted: [], isPlayedOut: true },
    });
    const parallel = { podManagementPolicy: 'Parallel', rollingUpdate: { maxUnavailable: 2 } } as const;
    expect(paths(played(statefulSet(parallel), podsTo(3).slice(0, 3)))).toEqual([
      '1 web-2 inPlace',
      '1 web-1 inPlace',
      '2 web-0 inPlace',
    ]);
  });

  it('AS-11: adopts the pods that have its names and labels, and updates them like its own', () => {
    const withoutController = ({ metadata: { ownerReferences: _, ...metadata }, ...pod }: Pod): Pod => ({
      ...pod,
      metadata,
    });
    const stranger = withoutController(podAt(7, { labels: { app: 'other' } }));
    const found = played(statefulSet({ replicas: 2 }), [], {
      orphans: [...podsTo(2).map(withoutController), stranger],
    });
    expect(paths(found)).toEqual(['1 web-1 inPlace', '2 web-0 inPlace']);
    expect(found).toMatchObject({ created: [], deleted: [] });
  });

  it('AS-34: with OrderedReady names the pod that is not ready, and goes on as if it were', () => {
    const there = [podAt(0, { isReady: false }), podAt(1)];
    const found = played(statefulSet({ replicas: 2 }), there);
    expect(paths(found)).toEqual(['1 web-1 inPlace', '2 web-0 inPlace']);
    expect(found?.wait).toMatchObject({ reason: 'OrdinalNotAvailable', blockedBy: ['pod/web-0'] });
    const parallel = (maxUnavailable: number) =>
      played(statefulSet({ replicas: 2, podManagementPolicy: 'Parallel', rollingUpdate: { maxUnavailable } }), there)
        ?.wait;
    expect([parallel(1)?.reason, parallel(2)?.reason]).toEqual(['BudgetSpent', undefined]);
    expect(played(statefulSet({ replicas: 2, template: templateOf('app:1') }), there)?.wait).toBeUndefined();
  });

  it('AS-34: goes on after minReadySeconds, which nobody has to end', () => {
    const minReadySeconds = 7200;
    const ready = played(statefulSet({ replicas: 2, rollingUpdate: { minReadySeconds } }), podsTo(2));
    expect(paths(ready)).toEqual(['1 web-1 inPlace', '2 web-0 inPlace']);
    expect(ready?.wait).toBeUndefined();
  });

  it('AS-50, AS-51: keeps the pods below the partition, and creates those of them that are missing with the old revision', () => {
    const set = statefulSet({ replicas: 6, rollingUpdate: { partition: 4 } });
    const found = played(
      set,
      podsTo(6).filter(({ metadata }) => !['web-1', 'web-5'].includes(metadata.name)),
    );
    expect(paths(found)).toEqual([
      '1 web-4 inPlace',
      'web-0 kept Partition',
      'web-2 kept Partition',
      'web-3 kept Partition',
    ]);
    expect(found?.created).toEqual([
      { revision: old.metadata.name, count: 1 },
      { revision: update.metadata.name, count: 1 },
    ]);
  });

  it('AS-40: is scaled in from the highest ordinal down before the others are updated', () => {
    const found = played(statefulSet({ replicas: 2 }), podsTo(5));
    expect(found?.deleted).toEqual([4, 3, 2].map((ordinal) => ({ pod: `web-${ordinal}`, because: 'Surplus' })));
    expect(paths(found)).toEqual(['1 web-1 inPlace', '2 web-0 inPlace']);
  });

  it('AS-31, AS-81: goes on with PVCs that are handed over to pods, and collected with them', () => {
    const claimAt = (ordinal: number, metadata: object = {}): VolumeClaim => {
      const name = `data-web-${ordinal}`;
      return {
        metadata: { namespace: 'shop', name, uid: name, resourceVersion: '1', creationTimestamp: '', ...metadata },
      };
    };
    const set = statefulSet({
      ...{ replicas: 3, volumeClaimTemplates: [data] },
      persistentVolumeClaimRetentionPolicy: { whenScaled: 'Delete', whenDeleted: 'Retain' },
    });
    const claims = [claimAt(0), claimAt(1, { deletionTimestamp: now }), claimAt(2), claimAt(3)];
    const found = played(set, [podAt(0), podAt(2), podAt(3)], { claims, gates: { StatefulSetAutoDeletePVC: true } });
    expect(found).toMatchObject({
      created: [{ revision: update.metadata.name, count: 1 }],
      deleted: [{ pod: 'web-3', because: 'Surplus' }],
    });
    expect(paths(found)).toEqual(['1 web-2 inPlace', '2 web-0 inPlace']);
  });

  it('AS-70: recreates pods in their order, under the same names, and replaces one that is labelled to be deleted', () => {
    const found = played(statefulSet({ rollingUpdate: { podUpdatePolicy: 'ReCreate' } }), podsTo(5));
    expect(paths(found)).toEqual([4, 3, 2, 1, 0].map((ordinal, index) => `${index + 1} web-${ordinal} recreate`));
    expect(found).toMatchObject({ created: [], deleted: [], isPlayedOut: true });

    const labelled = podAt(1, { labels: { 'apps.kruise.io/specified-delete': 'true' } });
    const named = played(statefulSet({ replicas: 3 }), [podAt(0), labelled, podAt(2)]);
    expect(named).toMatchObject({
      created: [{ revision: update.metadata.name, count: 1 }],
      deleted: [{ pod: 'web-1', because: 'Named' }],
    });
    expect(paths(named)).toEqual(['1 web-2 inPlace', '2 web-0 inPlace']);
  });

  it('AS-64: stops at a pod that may not be recreated', () => {
    const set = statefulSet({
      ...{ replicas: 2, template: templateOf('app:2', { hostNetwork: true }) },
      rollingUpdate: { podUpdatePolicy: 'InPlaceOnly' },
    });
    expect(paths(played(set, podsTo(2)))).toEqual(['1 web-1 impossible', '2 web-0 impossible']);
  });

  it('LC-45: says of a pod that is never let go that a change of it is under way', () => {
    const held = podAt(1, { labels: { 'lifecycle.apps.kruise.io/state': 'PreparingDelete' } });
    expect(paths(played(statefulSet({ replicas: 2 }), [podAt(0), held]))).toContain('web-1 kept UnderWay');
  });

  it('AS-83: looks at PVCs of other workloads once, however many passes there are', () => {
    /** How often a PVC that is none of its own is looked at. */
    const readsFor = (replicas: number) => {
      let reads = 0;
      const other = { namespace: 'shop', name: 'data-db-0', uid: 'other', resourceVersion: '1', creationTimestamp: '' };
      const claim = {
        get metadata() {
          reads++;
          return other;
        },
      };
      const found = played(statefulSet({ replicas, volumeClaimTemplates: [data] }), podsTo(replicas), {
        claims: [claim],
      });
      expect(found?.updated).toHaveLength(replicas);
      return reads;
    };
    expect(readsFor(20)).toBe(readsFor(2));
  });

  it('AS-30: is created with all its pods, which belong to no batch', () => {
    const found = played(statefulSet({ volumeClaimTemplates: [data] }), []);
    expect(found).toEqual({
      ...{ revision: update.metadata.name, currentRevision: update.metadata.name, atOnce: 1 },
      ...{ created: [{ revision: update.metadata.name, count: 5 }], deleted: [], updated: [], isPlayedOut: true },
    });
  });
});
