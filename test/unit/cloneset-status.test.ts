import { describe, expect, it } from '@jest/globals';
import { sameJson } from '../../api/base/json.ts';
import type { CloneSetCondition, CloneSetStatus } from '../../api/cloneset/types.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { cloneSetStatus } from '../../plan/cloneset/status.ts';
import { forgottenRevisions } from '../../plan/fleet/revisions.ts';
import {
  cloneSet,
  earlier,
  newName,
  newPodOf,
  newRevisionOfSet,
  now,
  nowMs,
  oldImage,
  oldName,
  oldRevision,
  onDelete,
  permit,
  pod,
  pods,
  revisionOf,
  revisionsFor,
  type SpecChange,
  scene,
  setUid,
  template,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';

const fresh = (count: number, facts = {}) => pods('n', count, { revision: newName, ...facts });

function statusOf(facts: WorldFacts, news: Parameters<typeof cloneSetStatus>[1] = {}): CloneSetStatus {
  return cloneSetStatus(scene(world(facts)), news);
}

const secondsAgo = (seconds: number) => new Date(nowMs - seconds * 1000).toISOString().replace('.000Z', 'Z');

describe('the counters', () => {
  it('CS §3: count pods by readiness, availability and revision', () => {
    const given = [
      ...pods('o', 2),
      ...fresh(1),
      newPodOf('web-held', { state: 'PreparingDelete' }),
      newPodOf('web-new', { state: 'PreparingNormal' }),
      newPodOf('web-named', { specified: true }),
      newPodOf('web-down', { ready: false }),
      newPodOf('web-gone', { deleting: true }),
      newPodOf('web-failed', { phase: 'Failed' }),
    ];
    expect(statusOf({ set: cloneSet({ replicas: 8, rollingUpdate: { partition: '30%' } }), pods: given })).toEqual({
      observedGeneration: 2,
      replicas: 7,
      readyReplicas: 6,
      availableReplicas: 4,
      updatedReplicas: 5,
      updatedReadyReplicas: 4,
      updatedAvailableReplicas: 2,
      expectedUpdatedReplicas: 5,
      currentRevision: oldName,
      updateRevision: newName,
      collisionCount: 0,
      labelSelector: 'app=web',
    });
  });

  it('CS §3: a pod is available when it has been ready for longer than minReadySeconds', () => {
    const at = (ready: string) =>
      statusOf({ set: cloneSet({ minReadySeconds: 10 }), pods: [newPodOf('web-a', { ready })] }).availableReplicas;
    expect([at(secondsAgo(9)), at(secondsAgo(10)), at(secondsAgo(11))]).toEqual([0, 0, 1]);
  });

  it('CS §3: a pod whose in-place gate is down is not ready, one without the gate may be', () => {
    const down = [
      { type: 'InPlaceUpdateReady', status: 'False', lastTransitionTime: earlier },
      { type: 'Ready', status: 'True', lastTransitionTime: earlier },
    ];
    const given = [newPodOf('web-a', { conditions: down }), newPodOf('web-b', { gates: [] })];
    expect(statusOf({ pods: given })).toMatchObject({ replicas: 2, readyReplicas: 1 });
  });

  it('CS-1, CS-20: scripts see the end of a roll-out under a partition', () => {
    const status = statusOf({
      set: cloneSet({ rollingUpdate: { partition: '90%' } }),
      pods: [...pods('o', 4), ...fresh(1)],
    });
    expect(status.expectedUpdatedReplicas).toBe(1);
    expect(status.updatedReplicas).toBeGreaterThanOrEqual(status.expectedUpdatedReplicas ?? 9);
  });

  it('CS-62: with OnDelete all replicas are expected to be updated', () => {
    expect(statusOf({ set: onDelete(cloneSet()), pods: [] }).expectedUpdatedReplicas).toBe(5);
    const { spec } = cloneSet();
    const set = {
      ...cloneSet(),
      spec: { ...spec, updateStrategy: { type: 'OnDelete', rollingUpdate: { partition: 2 } } },
    } as const;
    expect(statusOf({ set, pods: [] }).expectedUpdatedReplicas).toBe(3);
  });

  it('CS §3: the current revision follows once all pods that are wanted are of the new one, ready or not', () => {
    const current = (given: WorldFacts['pods']) => statusOf({ pods: given ?? [] }).currentRevision;
    expect(current([...fresh(4), ...pods('o', 1)])).toBe(oldName);
    expect(current(fresh(4))).toBe(oldName);
    expect(current(fresh(5, { ready: false }))).toBe(newName);
    expect(current([...fresh(5), newPodOf('web-surplus')])).toBe(oldName);
  });

  it('CS §3: the first current revision is the update revision', () => {
    const set = cloneSet({}, { status: {} });
    expect(statusOf({ set, revisions: [newRevisionOfSet] }).currentRevision).toBe(newName);
  });

  it('CS-85: a current revision that is gone is replaced by the update revision', () => {
    const set = cloneSet({}, { status: { currentRevision: 'web-gone' } });
    expect(statusOf({ set, pods: pods('o', 5) }).currentRevision).toBe(newName);
  });

  it('CS-83: keeps the count of collisions', () => {
    const set = cloneSet({}, { status: { currentRevision: oldName, collisionCount: 3 } });
    const revisions = [oldRevision, revisionOf(set, 2)];
    expect(statusOf({ set, revisions }).collisionCount).toBe(3);
  });
});

describe('what is written', () => {
  it('CS-2: nothing, while it says the same', () => {
    const given = { pods: fresh(5) };
    const status = statusOf(given);
    const set = cloneSet({}, { status });
    expect(sameJson(set.status, statusOf({ ...given, set }))).toBe(true);
    expect(sameJson(set.status, statusOf({ ...given, set, pods: fresh(4) }))).toBe(false);
    expect(planCloneSet(world({ ...given, set })).status).toBeUndefined();
  });

  it('CS-2: the generation alone is enough', () => {
    const set = cloneSet({}, { status: statusOf({ pods: fresh(5) }), metadata: { generation: 3 } });
    expect(planCloneSet(world({ set, pods: fresh(5) })).status).toMatchObject({ observedGeneration: 3 });
  });
});

describe('FailedScale and FailedUpdate', () => {
  const condition = (news: Parameters<typeof cloneSetStatus>[1], before?: readonly CloneSetCondition[]) => {
    const set = cloneSet({}, { status: { currentRevision: oldName, ...(before && { conditions: before }) } });
    return statusOf({ set, pods: fresh(5) }, news).conditions;
  };
  const scaleFailed = {
    type: 'FailedScale',
    status: 'True',
    message: 'quota',
    lastUpdateTime: earlier,
    lastTransitionTime: earlier,
  };

  it('CS-3, CS-14: say what failed, without a reason', () => {
    expect(condition({ scaleFailure: 'quota', updateFailure: 'no' })).toEqual([
      { type: 'FailedScale', status: 'True', message: 'quota', lastUpdateTime: now, lastTransitionTime: now },
      { type: 'FailedUpdate', status: 'True', message: 'no', lastUpdateTime: now, lastTransitionTime: now },
    ]);
  });

  it('CS-3: go with the next pass that does not fail', () => {
    expect(condition({}, [scaleFailed])).toBeUndefined();
  });

  it('CS-3, CS-4: say the last failure, and keep their times while it is the same', () => {
    expect(condition({ scaleFailure: 'quota' }, [scaleFailed])).toEqual([scaleFailed]);
    expect(condition({ scaleFailure: 'denied' }, [scaleFailed])).toEqual([
      { ...scaleFailed, message: 'denied', lastUpdateTime: now },
    ]);
  });

  it('leave conditions of others alone', () => {
    const other = { type: 'Theirs', status: 'True' };
    expect(condition({ scaleFailure: 'quota' }, [other])).toEqual([
      other,
      expect.objectContaining({ type: 'FailedScale' }),
    ]);
  });
});

describe('Progressing', () => {
  const progress = (
    reason: string,
    { at = earlier, status = 'True' }: { readonly at?: string; readonly status?: string } = {},
  ): CloneSetCondition => ({
    type: 'Progressing',
    status,
    reason,
    message: '',
    lastUpdateTime: at,
    lastTransitionTime: earlier,
  });
  interface Given {
    readonly spec?: SpecChange;
    readonly before?: CloneSetCondition;
    readonly pods?: WorldFacts['pods'];
    readonly status?: Partial<CloneSetStatus>;
  }
  const of = ({ spec, before, pods: given, status }: Given) => {
    const set = cloneSet(
      { progressDeadlineSeconds: 600, ...spec },
      {
        status: {
          currentRevision: oldName,
          updateRevision: newName,
          ...(before && { conditions: [before] }),
          ...status,
        },
      },
    );
    return statusOf({ set, pods: given ?? pods('o', 5) }).conditions?.[0];
  };

  it('CS-90: is there only while there is a deadline', () => {
    expect(of({ spec: { progressDeadlineSeconds: 2147483647 } })).toBeUndefined();
    expect(of({ spec: { progressDeadlineSeconds: 2147483647 }, before: progress('CloneSetUpdated') })).toBeUndefined();
    expect(of({})).toEqual({
      type: 'Progressing',
      status: 'True',
      reason: 'CloneSetUpdated',
      message: 'CloneSet is progressing',
      lastUpdateTime: now,
      lastTransitionTime: now,
    });
  });

  it('CS §3: all pods are updated and available', () => {
    expect(of({ pods: fresh(5) })).toMatchObject({ reason: 'CloneSetAvailable', message: 'CloneSet is available' });
    expect(of({ pods: fresh(5, { ready: false }) })).toMatchObject({ reason: 'CloneSetUpdated' });
    expect(of({ pods: fresh(6) })).toMatchObject({ reason: 'CloneSetUpdated' });
  });

  it('CS §3: paused comes before the partition', () => {
    const given = [...pods('o', 3), ...fresh(2)];
    const partition = { partition: 3 };
    expect(of({ spec: { rollingUpdate: partition }, pods: given })).toMatchObject({
      reason: 'ProgressPartitionAvailable',
    });
    expect(of({ spec: { rollingUpdate: { ...partition, paused: true } }, pods: given })).toMatchObject({
      reason: 'CloneSetPaused',
    });
  });

  it('CS-90: is late when the clock has run for longer than the deadline, and nothing but the condition changes', () => {
    expect(of({ before: progress('CloneSetUpdated', { at: secondsAgo(600) }) })).toMatchObject({ status: 'True' });
    expect(of({ before: progress('CloneSetUpdated', { at: secondsAgo(601) }) })).toEqual({
      type: 'Progressing',
      status: 'False',
      reason: 'ProgressDeadlineExceeded',
      message: `CloneSet revision ${newName} has timed out progressing`,
      lastUpdateTime: now,
      lastTransitionTime: now,
    });
    const set = cloneSet(
      { progressDeadlineSeconds: 600 },
      {
        status: {
          currentRevision: oldName,
          updateRevision: newName,
          conditions: [progress('ProgressDeadlineExceeded', { status: 'False' })],
        },
      },
    );
    expect(planCloneSet(world({ set, pods: pods('o', 5), permit: permit() })).disruption).toHaveLength(1);
  });

  it('CS-90a: neither progress nor another template starts the clock again', () => {
    const before = progress('CloneSetUpdated', { at: secondsAgo(300) });
    expect(of({ before, pods: [...pods('o', 3), ...fresh(2)] })).toEqual(before);
    expect(of({ before, status: { updateRevision: 'web-other' } })).toEqual(before);
  });

  it('CS-90b: an update that begins long after the last one is not late', () => {
    for (const reason of ['CloneSetAvailable', 'CloneSetPaused', 'ProgressPartitionAvailable']) {
      expect(of({ before: progress(reason, { at: secondsAgo(86_400) }) })).toMatchObject({
        reason: 'CloneSetUpdated',
        lastUpdateTime: now,
        lastTransitionTime: earlier,
      });
    }
  });

  it('CS-90b: being late stays, but not for another revision', () => {
    const before = progress('ProgressDeadlineExceeded', { status: 'False' });
    expect(of({ before })).toEqual(before);
    expect(of({ before, status: { updateRevision: 'web-other' } })).toMatchObject({
      reason: 'CloneSetUpdated',
      lastTransitionTime: now,
    });
    expect(of({ before, pods: fresh(5) })).toMatchObject({ reason: 'CloneSetAvailable', status: 'True' });
  });

  it('CS-91: the reasons are those of the stored objects', () => {
    const { reason } = of({ spec: { rollingUpdate: { paused: true } } }) ?? {};
    expect(reason).toBe('CloneSetPaused');
  });

  it('CS-11, CS-90: looks again a second after the deadline', () => {
    const before = progress('CloneSetUpdated', { at: secondsAgo(300) });
    const set = cloneSet(
      { progressDeadlineSeconds: 600 },
      { status: { currentRevision: oldName, updateRevision: newName, conditions: [before] } },
    );
    expect(planCloneSet(world({ set, pods: pods('o', 5) })).againInMs).toBe(301_000);
  });
});

describe('when to look again', () => {
  it('CS-11: when the next pod has been ready for minReadySeconds', () => {
    const given = [
      newPodOf('web-a', { ready: secondsAgo(3) }),
      newPodOf('web-b', { ready: secondsAgo(7) }),
      ...fresh(3),
    ];
    const found = planCloneSet(world({ set: cloneSet({ minReadySeconds: 10 }), pods: given }));
    expect(found.againInMs).toBe(3001);
  });

  it('CS-11: after a second when a budget has refused a pod', () => {
    const more = { refusals: [{ pod: 'web-o1', by: 'podunavailablebudget/web' }] };
    expect(planCloneSet(world({ pods: pods('o', 5), permit: permit(), more })).againInMs).toBe(1000);
  });

  it('not at all when nothing is due', () => {
    expect(planCloneSet(world({ pods: fresh(5) })).againInMs).toBeUndefined();
  });
});

describe('waitingFor', () => {
  it('says since when it waits for the same reason, though other pods are in the way by now', () => {
    const wait = { reason: 'BudgetSpent', blockedBy: ['pod/a'], blockedCount: 1, unblock: '' };
    const stored = { ...wait, blockedBy: ['pod/b'], since: earlier };
    const at = (waitingFor: typeof stored) => {
      const set = cloneSet({}, { status: { currentRevision: oldName, waitingFor } });
      return statusOf({ set, pods: fresh(5) }, { wait }).waitingFor;
    };
    expect(at(stored)).toEqual({ ...wait, since: earlier });
    expect(at({ ...stored, reason: 'NotReady' })).toEqual({ ...wait, since: now });
    expect(statusOf({ pods: fresh(5) }).waitingFor).toBeUndefined();
  });
});

describe('chooseRevisions', () => {
  const choose = (facts: WorldFacts) => revisionsFor(world(facts));

  it('CS-82: a new template is recorded before anything else happens', () => {
    const set = cloneSet({ template: template('nginx:9') });
    const found = choose({ set, revisions: [oldRevision, newRevisionOfSet] });
    expect(found).toMatchObject({ kind: 'create', revision: { revision: 3 } });
    const plan = planCloneSet(
      world({ set, revisions: [oldRevision, newRevisionOfSet], pods: pods('o', 3), permit: permit() }),
    );
    expect(plan).toMatchObject({ upkeep: [{ kind: 'createRevision' }], disruption: [] });
    expect(plan.status).toBeUndefined();
  });

  describe('a revision that is replaced', () => {
    const unfinished = windlassAnnotation.unfinished;
    const counts = { replicas: 5, readyReplicas: 4, availableReplicas: 4, updatedReplicas: 2 };
    const replacedWith = (status: object, marked?: string) => {
      const last: ControllerRevision = {
        ...newRevisionOfSet,
        metadata: { ...newRevisionOfSet.metadata, ...(marked && { annotations: { [unfinished]: marked } }) },
      };
      const set = cloneSet({ template: template('nginx:9') }, { status: { ...counts, ...status } });
      return planCloneSet(world({ set, revisions: [oldRevision, last], pods: pods('o', 3) })).upkeep;
    };
    const mark = (text: string | null) => ({
      kind: 'patchRevision',
      revision: { name: newName },
      patch: { metadata: { annotations: { [unfinished]: text } } },
    });
    const halfWay = { updateRevision: newName, currentRevision: oldName, updatedReadyReplicas: 1 };
    const rolledOut = { updateRevision: newName, currentRevision: newName, updatedReadyReplicas: 4 };

    it('before it was rolled out is marked, once', () => {
      expect(replacedWith(halfWay)).toMatchObject([mark('1 of 5 pods'), { kind: 'createRevision' }]);
      expect(replacedWith(halfWay, '1 of 5 pods')).toMatchObject([{ kind: 'createRevision' }]);
      // the first one is that of all pods from the beginning, whether or not any of them has ever run
      const never = { ...rolledOut, updatedReadyReplicas: 0 };
      expect(replacedWith(never)).toMatchObject([mark('0 of 5 pods'), { kind: 'createRevision' }]);
    });

    it('after it was rolled out is not, and loses the mark of an earlier time', () => {
      expect(replacedWith(rolledOut)).toMatchObject([{ kind: 'createRevision' }]);
      expect(replacedWith(rolledOut, '1 of 5 pods')).toMatchObject([mark(null), { kind: 'createRevision' }]);
    });

    it('by an older template is marked as well, and an undo to it is warned about', () => {
      const back = cloneSet({ template: template(oldImage) }, { status: { ...counts, ...halfWay } });
      expect(
        planCloneSet(world({ set: back, revisions: [oldRevision, newRevisionOfSet], pods: pods('o', 5) })).upkeep,
      ).toMatchObject([{ kind: 'patchRevision', revision: { name: oldName } }, mark('1 of 5 pods')]);
      const annotations = { [unfinished]: '1 of 5 pods' };
      const marked = { ...newRevisionOfSet, metadata: { ...newRevisionOfSet.metadata, annotations } };
      const settled = cloneSet({ template: template(oldImage) }, { status: { ...counts, currentRevision: oldName } });
      const revisions = [marked, { ...oldRevision, revision: 3 }];
      const { rollOut } = planCloneSet(world({ set: settled, revisions, pods: [] }));
      expect(rollOut?.facts).toMatchObject({
        previous: newName,
        previousDoubt: 'it was never completely rolled out: when it was replaced, 1 of 5 pods had it and were ready',
      });
    });
  });

  it('CS-82: the newest that is equal is kept, an older one becomes the newest', () => {
    expect(choose({})).toMatchObject({ kind: 'found', steps: [], update: { metadata: { name: newName } } });
    const back = choose({
      set: cloneSet({ template: template(oldImage) }),
      revisions: [oldRevision, newRevisionOfSet],
    });
    expect(back).toMatchObject({
      kind: 'found',
      update: { metadata: { name: oldName }, revision: 3 },
      steps: [{ kind: 'patchRevision', revision: { name: oldName }, patch: { revision: 3 } }],
    });
  });

  it('CS-82, CS-87: nothing but the template makes a revision', () => {
    const set = cloneSet({
      replicas: 9,
      minReadySeconds: 3,
      rollingUpdate: { partition: 1 },
      volumeClaimTemplates: [],
    });
    expect(choose({ set, revisions: [oldRevision, newRevisionOfSet] })).toMatchObject({ kind: 'found', steps: [] });
  });

  it('CS-83: a collision gives another name', () => {
    const set = cloneSet({}, { status: { collisionCount: 1 } });
    const [plain, other] = [choose({ revisions: [] }), choose({ set, revisions: [] })].map((found) =>
      found.kind === 'create' ? found.revision.metadata.name : '',
    );
    expect(other).not.toBe(plain);
  });

  it('CS-84: revisions of others do not count', () => {
    const foreign = {
      ...newRevisionOfSet,
      metadata: {
        ...newRevisionOfSet.metadata,
        ownerReferences: [{ apiVersion: 'v1', kind: 'X', name: 'x', uid: 'x', controller: true }],
      },
    };
    expect(choose({ revisions: [foreign] })).toMatchObject({ kind: 'create' });
    const owned = newRevisionOfSet.metadata.ownerReferences?.map(({ uid }) => uid);
    expect(owned).toEqual([setUid]);
  });

  it('CS-86: forgets the oldest that nobody uses, until as many are left as the limit says', () => {
    const history = Array.from({ length: 5 }, (_, index) =>
      revisionOf(cloneSet(), index - 10, template(`nginx:0.${index}`)),
    );
    const [first, second] = history;
    if (first === undefined || second === undefined) throw new Error('no history');
    const set = cloneSet({ revisionHistoryLimit: 2 }, { status: { currentRevision: oldName } });
    const given = world({
      set,
      revisions: [...history, oldRevision, newRevisionOfSet],
      pods: [pod('web-a', { revision: first.metadata.name })],
    });
    const found = revisionsFor(given);
    if (found.kind === 'create') throw new Error('nothing found');
    const names = forgottenRevisions(found, { ...scene(given), limit: 2 }).map((step) =>
      step.kind === 'deleteRevision' ? step.revision.name : '',
    );
    expect(names).toEqual([second.metadata.name, history[2]?.metadata.name]);
    const kept = { ...given, undo: { from: newName, to: second.metadata.name } };
    expect(JSON.stringify(forgottenRevisions(found, { ...scene(kept), limit: 2 }))).not.toContain(second.metadata.name);
  });
});
