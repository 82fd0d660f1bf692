import { describe, expect, it } from '@jest/globals';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { freeInstanceIds } from '../../plan/cloneset/pods.ts';
import { planScale, prunedPodsToDelete } from '../../plan/cloneset/scale.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import {
  claim,
  cloneSet,
  heldByOperator,
  newName,
  newPodOf,
  now,
  nowMs,
  oldName,
  oldRevision,
  onDelete,
  permit,
  pod,
  pods,
  revisionOf,
  type SpecChange,
  scene,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';

const drain = 'example.com/drain';
const hooks: Lifecycle = { preDelete: { finalizersHandler: [drain] } };
const held = { state: 'PreparingDelete', finalizers: [drain] } as const;
const fresh = (count: number, facts = {}) => pods('n', count, { revision: newName, ...facts });

function plan(facts: WorldFacts) {
  return planScale(scene(world(facts)));
}

/** The steps in short form: `create new`, `delete web-a`, `prepareDelete web-b`. */
function said(steps: readonly Intention[]): readonly string[] {
  return steps.map((step) => {
    switch (step.kind) {
      case 'createPod': {
        const metadata = step.pod.metadata as { readonly labels: Readonly<Record<string, string>> };
        return `create ${metadata.labels['controller-revision-hash'] === oldName ? 'old' : 'new'}`;
      }
      case 'deletePod':
        return `delete ${step.pod.name}`;
      case 'writePod':
        return `${step.why} ${step.pod.name}`;
      default:
        return step.kind;
    }
  });
}

function steps(spec: SpecChange, given: WorldFacts['pods'], more: WorldFacts = {}): readonly string[] {
  return said(plan({ set: cloneSet(spec), pods: given ?? [], ...more }).steps);
}

describe('creating', () => {
  it('CS-31: creates the pods that are missing', () => {
    expect(steps({ replicas: 3 }, fresh(1))).toEqual(['create new', 'create new']);
  });

  it('CS-10: replaces pods at once that are going, finished, not chosen or of somebody else', () => {
    const given = [
      newPodOf('web-a'),
      newPodOf('web-b', { deleting: true }),
      newPodOf('web-c', { phase: 'Failed' }),
      newPodOf('web-d', { phase: 'Succeeded' }),
      newPodOf('web-e', { labels: { app: 'other' } }),
      newPodOf('web-f', { owner: 'somebody' }),
      newPodOf('web-g', { owner: null }),
    ];
    expect(steps({ replicas: 3 }, given)).toEqual(['create new', 'create new']);
  });

  it('CS-59: creates old pods as long as fewer of them are there than the partition keeps', () => {
    const given = [...pods('o', 3), ...fresh(2)];
    const spec = { replicas: 8, rollingUpdate: { partition: 4 } };
    expect(steps(spec, given)).toEqual(['create old', 'create new', 'create new']);
  });

  it('CS-96: ignores the partition while there is one revision only', () => {
    const set = cloneSet({ replicas: 2, rollingUpdate: { partition: 2 } }, { status: { currentRevision: newName } });
    expect(said(plan({ set }).steps)).toEqual(['create new', 'create new']);
  });

  it('CS-31: creates no more than may be unavailable, and says so', () => {
    const given = [...fresh(2), newPodOf('web-x', { ready: false })];
    const found = plan({ set: cloneSet({ replicas: 6, scaleStrategy: { maxUnavailable: 2 } }), pods: given });
    expect(said(found.steps)).toEqual(['create new']);
    expect(found.events).toEqual([
      {
        kind: 'event',
        event: {
          type: 'Warning',
          reason: 'ScaleUpLimited',
          message: 'scaleUp is limited because of scaleStrategy.maxUnavailable, limit: 1',
        },
      },
    ]);
  });

  it('CS-31: while pods are missing, nothing else is deleted', () => {
    const named = newPodOf('web-a', { specified: true, ready: false });
    const freed = newPodOf('web-b', { state: 'PreparingDelete', specified: true });
    expect(steps({ replicas: 4, lifecycle: hooks }, [named, freed])).toEqual(['create new', 'create new']);
  });

  it('CS-31, CS-32: while no pod can be created, a held pod that may be deleted is deleted, since it may be what blocks the creation', () => {
    const freed = newPodOf('web-c', { state: 'PreparingDelete', specified: true });
    const spec = { replicas: 4, scaleStrategy: { maxUnavailable: 1 } };
    expect(steps(spec, [...fresh(2), freed])).toEqual(['delete web-c']);
  });

  it('CS-31: surge is made under a permit only, and kept when it is gone', () => {
    const spec = { replicas: 3, rollingUpdate: { maxUnavailable: 0, maxSurge: 2 } };
    expect(steps(spec, pods('o', 3))).toEqual([]);
    expect(steps(spec, pods('o', 3), { permit: permit() })).toEqual(['create new', 'create new']);
    expect(steps(spec, pods('o', 3), { permit: permit(), more: heldByOperator })).toEqual([]);
    expect(steps(spec, [...pods('o', 3), ...fresh(2)])).toEqual([]);
  });

  it('CS-38: a pod that is held before its deletion is replaced at once where the set, or the flag, says so', () => {
    const given = [...fresh(2), newPodOf('web-x', { ...held, specified: true })];
    const spec = { replicas: 3, lifecycle: hooks };
    expect(steps(spec, given)).toEqual([]);
    expect(steps({ ...spec, scaleStrategy: { excludePreparingDelete: true } }, given)).toEqual(['create new']);
    expect(steps(spec, given, { more: { excludePreparingDelete: true } })).toEqual(['create new']);
  });

  it('CS-39: scales while paused and with OnDelete', () => {
    expect(steps({ replicas: 3, rollingUpdate: { paused: true } }, fresh(2))).toEqual(['create new']);
    expect(said(plan({ set: onDelete(cloneSet({ replicas: 3 })), pods: fresh(2) }).steps)).toEqual(['create new']);
  });

  it('CS-62: with OnDelete, pods that are deleted come back as new ones', () => {
    expect(said(plan({ set: onDelete(cloneSet()), pods: pods('o', 4) }).steps)).toEqual(['create new']);
  });

  it('CS-73: gives the claims of a vanished pod to a new one', () => {
    const volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }];
    const set = cloneSet({ replicas: 1, volumeClaimTemplates });
    const [step] = plan({ set, claims: [claim('data', 'bbbbb')] }).steps;
    expect(step).toMatchObject({ kind: 'createPod', name: 'web-bbbbb', claims: [] });
  });
});

describe('L5: a revision without data', () => {
  it('does not stop the controller of the CloneSet', () => {
    const { data: _, ...bare } = revisionOf(cloneSet(), 9);
    const revisions = [oldRevision, revisionOf(cloneSet(), 2), bare as ControllerRevision];
    const handMade = { ...bare, metadata: { ...bare.metadata, name: 'hand-made', uid: 'hand-made' } };
    const given = { pods: pods('o', 4), revisions: [...revisions, handMade as ControllerRevision] };
    expect(planCloneSet(world(given)).upkeep.map(({ kind }) => kind)).toContain('createPod');
  });
});

describe('C3: asking for more pods than anybody can have', () => {
  const everything = 2_147_483_647;

  it('plans as many creations as a pass may make, in bounded work, and counts right', () => {
    const set = cloneSet({
      replicas: everything,
      rollingUpdate: { partition: '50%', maxUnavailable: '20%', maxSurge: '1%' },
    });
    const given = world({ set, permit: permit() });
    planCloneSet(given);
    const before = process.cpuUsage();
    const found = planCloneSet(given);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(100);
    expect(found.upkeep.filter(({ kind }) => kind === 'createPod')).toHaveLength(64);
    expect(found.status).toMatchObject({ replicas: 0, expectedUpdatedReplicas: everything - 1_073_741_824 });
    expect(found.standing).toEqual({ kind: 'working' });
  });

  it('reports that there are no free instance IDs, and stops generating them', () => {
    let asked = 0;
    const isSpent = () => {
      asked += 1;
      return true;
    };
    const found = planCloneSet(world({ set: cloneSet({ replicas: everything }), more: { isSpent } }));
    expect(asked).toBeLessThanOrEqual(64 + 16 * 64);
    expect(found.upkeep.filter(({ kind }) => kind === 'createPod')).toEqual([]);
    expect(found.status?.waitingFor).toMatchObject({
      reason: 'NoFreeInstanceIds',
      unblock: expect.stringContaining('no free instance IDs'),
    });
  });

  it('finds IDs for a set that has drawn thousands, and whose pods have gone by thousands', () => {
    const ids = freeInstanceIds(5_000, newName, world());
    const there = new Set(ids.slice(0, 3_000).map((id) => `web-${id}`));
    const spent = new Set(ids.slice(3_000).map((id) => `web-${id}`));
    const given = [...there].map((name) => newPodOf(name));
    const more = { isSpent: (name: string) => spent.has(name), spentNames: spent.size };
    expect(steps({ replicas: 3_003 }, given, { more })).toEqual(['create new', 'create new', 'create new']);
  });
});

describe('CS-46, CS-73: pods that others have deleted', () => {
  const volumeClaimTemplates = [{ metadata: { name: 'data' }, spec: {} }];
  const set = cloneSet({ replicas: 4, volumeClaimTemplates });
  const ids = ['aaaaa', 'bbbbb', 'ccccc', 'ddddd'];
  const claims = ids.map((id) => claim('data', id));
  /** Their grace period ends now. */
  const going = ids.map((id) => newPodOf(`web-${id}`, { deleting: true }));
  const at = (ms: number) => ({ more: { nowMs: nowMs + ms } });

  it('are waited for by those that take over their PVCs', () => {
    const found = planCloneSet(world({ set, pods: going, claims }));
    expect(found.upkeep.filter(({ kind }) => kind === 'createPod')).toEqual([]);
    expect(found.status?.waitingFor).toMatchObject({
      reason: 'PodTerminating',
      blockedBy: ids.map((id) => `pod/web-${id}`),
      blockedCount: 4,
    });
    expect(found.againInMs).toBe(30_000);
  });

  it('give their names and PVCs to new pods once they are gone, each by itself', () => {
    const found = plan({ set, pods: going.slice(2), claims });
    expect(found.steps).toMatchObject([
      { kind: 'createPod', name: 'web-aaaaa', claims: [] },
      { kind: 'createPod', name: 'web-bbbbb', claims: [] },
    ]);
    expect(found.awaited.map(({ name }) => name)).toEqual(['web-ccccc', 'web-ddddd']);
  });

  it('hold up no pod that is missing for another reason', () => {
    const more = { set: cloneSet({ replicas: 6, volumeClaimTemplates }), pods: going, claims };
    const names = plan(more).steps.map((step) => step.kind === 'createPod' && step.name);
    expect(names).toHaveLength(2);
    for (const id of ids) expect(names).not.toContain(`web-${id}`);
  });

  it('are given up 30 s after their grace period, as their node may be lost', () => {
    expect(plan({ set, pods: going, claims, ...at(29_999) }).steps).toEqual([]);
    const found = plan({ set, pods: going, claims, ...at(30_000) });
    expect([said(found.steps), found.awaited]).toEqual([Array.from(ids, () => 'create new'), []]);
    for (const step of found.steps) expect(ids.map((id) => `web-${id}`)).not.toContain(Object(step).name);
  });

  it('are not waited for where nothing of theirs is taken over', () => {
    const replaced = ids.map(() => 'create new');
    const discard = cloneSet({ replicas: 4, volumeClaimTemplates, scaleStrategy: { enablePVCReuse: false } });
    expect(said(plan({ set: discard, pods: going, claims }).steps)).toEqual(replaced);
    expect(said(plan({ set: cloneSet({ replicas: 4 }), pods: going, claims }).steps)).toEqual(replaced);
    const gone = ids.map((id) => claim('data', id, { deletionTimestamp: now }));
    expect(said(plan({ set, pods: going, claims: gone }).steps)).toEqual(replaced);
    const finished = ids.map((id) => newPodOf(`web-${id}`, { phase: 'Failed' }));
    expect(said(plan({ set, pods: finished, claims }).steps)).toEqual(replaced);
  });

  it('CS-74: without reuse, a new pod gets a new ID, and not that of a PVC which is being deleted', () => {
    const discard = cloneSet({ replicas: 1, volumeClaimTemplates, scaleStrategy: { enablePVCReuse: false } });
    const found = planCloneSet(world({ set: discard, claims: [claim('data', 'bbbbb')] }));
    expect(found.upkeep).toContainEqual(expect.objectContaining({ kind: 'deleteClaim' }));
    const [created] = found.upkeep.filter(({ kind }) => kind === 'createPod');
    expect(Object(created).name).not.toBe('web-bbbbb');
    expect(Object(created).claims).toHaveLength(1);
  });
});

describe('cancelled deletions', () => {
  const lifecycle = hooks;

  it('CS-30, LC-43: pods that are held go back to work while pods are missing, in their order', () => {
    const given = [newPodOf('web-a'), newPodOf('web-b', held), newPodOf('web-c', held), newPodOf('web-d', held)];
    expect(steps({ replicas: 3, lifecycle }, given)).toEqual(['keep web-b', 'keep web-c']);
    const [step] = plan({ set: cloneSet({ replicas: 3, lifecycle }), pods: given }).steps;
    expect(step).toMatchObject({
      writes: [{ patch: { metadata: { labels: { 'lifecycle.apps.kruise.io/state': 'PreparingNormal' } } } }],
    });
  });

  it('LC-44: not those that somebody has named', () => {
    const given = [newPodOf('web-a', { ...held, specified: true }), newPodOf('web-b', held)];
    expect(steps({ replicas: 2, lifecycle }, given)).toEqual(['keep web-b']);
    const named = { replicas: 2, lifecycle, scaleStrategy: { podsToDelete: ['web-b'] } };
    expect(steps(named, [newPodOf('web-a'), newPodOf('web-b', held)])).toEqual([]);
  });

  it('LC-44: none where held pods are out of service', () => {
    const quiet: Lifecycle = { preDelete: { ...hooks.preDelete, markPodNotReady: true } };
    expect(steps({ replicas: 2, lifecycle: quiet }, [newPodOf('web-a'), newPodOf('web-b', held)])).toEqual([
      'prepareDelete web-b',
    ]);
  });

  it('CS-37: a name that is taken back keeps its pod', () => {
    const given = [newPodOf('web-a'), newPodOf('web-b', held)];
    const named = { replicas: 2, lifecycle, scaleStrategy: { podsToDelete: ['web-b'] } };
    expect(steps(named, given)).toEqual([]);
    expect(steps({ ...named, scaleStrategy: {} }, given)).toEqual(['keep web-b']);
  });
});

describe('deleting', () => {
  it('CS-32, LC-41: pods that have been held are deleted once their marks are gone, whatever the budget', () => {
    const given = [...fresh(2, { ready: false }), newPodOf('web-x', { state: 'PreparingDelete' })];
    expect(steps({ replicas: 2, lifecycle: hooks }, given)).toEqual(['delete web-x']);
  });

  it('CS-33: named pods that are not ready go at once, ready ones while the budget lasts', () => {
    const given = [
      ...fresh(3),
      newPodOf('web-a', { specified: true }),
      newPodOf('web-b', { specified: true, labels: { 'apps.kruise.io/specified-delete': 'false' } }),
      newPodOf('web-c', { specified: true, ready: false }),
    ];
    const found = plan({ set: cloneSet({ replicas: 6, rollingUpdate: { maxUnavailable: 2 } }), pods: given });
    expect(said(found.steps)).toEqual(['delete web-c', 'delete web-a']);
    expect(found.spared.map(({ name }) => name)).toEqual(['web-b']);
  });

  it('P-7: a pod of which an update got no answer takes its part of the budget', () => {
    const given = [...fresh(4), newPodOf('web-a', { specified: true })];
    expect(steps({}, given)).toEqual(['delete web-a']);
    expect(steps({}, given, { more: { inDoubt: new Set(['web-n1-uid']) } })).toEqual([]);
  });

  it('CS-33: a named pod that is down takes the place of a ready one in the budget', () => {
    const given = [
      ...fresh(3),
      newPodOf('web-a', { specified: true }),
      newPodOf('web-c', { specified: true, ready: false }),
    ];
    expect(steps({}, given)).toEqual(['delete web-c']);
  });

  it('CS-33, CS-55b: a named pod that is ready, but not available yet, goes at once', () => {
    const given = [...fresh(4), newPodOf('web-a', { specified: true })];
    expect(steps({ minReadySeconds: 7200 }, given)).toEqual(['delete web-a']);
  });

  it('CS-36: naming pods while lowering replicas removes exactly these', () => {
    const spec = { replicas: 3, scaleStrategy: { podsToDelete: ['web-n2', 'web-n4'] } };
    expect(steps(spec, fresh(5))).toEqual(['delete web-n2', 'delete web-n4']);
    expect(
      steps(
        spec,
        fresh(5).filter(({ metadata }) => metadata.name !== 'web-n2' && metadata.name !== 'web-n4'),
      ),
    ).toEqual([]);
  });

  it('CS-36: names of pods that are no pods any more are taken off the list', () => {
    const named = (...podsToDelete: readonly string[]) =>
      prunedPodsToDelete(scene(world({ set: cloneSet({ scaleStrategy: { podsToDelete } }), pods: fresh(2) })));
    expect(named('web-n1')).toBeUndefined();
    expect(named('web-n1', 'web-gone')).toEqual({ spec: { scaleStrategy: { podsToDelete: ['web-n1'] } } });
    expect(named('web-gone')).toEqual({ spec: { scaleStrategy: { podsToDelete: null } } });
    expect(named()).toBeUndefined();
  });

  it('CS-34: pods that are too many go, unready ones freely and ready ones while the budget lasts', () => {
    const given = [...fresh(4), newPodOf('web-x', { ready: false })];
    expect(steps({ replicas: 2 }, given)).toEqual(['delete web-x', 'delete web-n1', 'delete web-n2']);
  });

  it('CS-34: chooses nobody while pods are named or held, which may be enough', () => {
    const named = [...fresh(4), newPodOf('web-x', { ...held })];
    const found = plan({ set: cloneSet({ replicas: 3, lifecycle: hooks }), pods: named });
    expect(found.steps).toEqual([]);
    expect(found.goingFirst.map(({ name }) => name)).toEqual(['web-x']);
  });

  it('CS-34, CS-55b: surplus pods that are ready, but not available yet, go at once', () => {
    expect(steps({ replicas: 3, minReadySeconds: 7200 }, fresh(5))).toEqual(['delete web-n1', 'delete web-n2']);
    expect(steps({ replicas: 0, minReadySeconds: 7200 }, fresh(5))).toHaveLength(5);
  });

  it('CS-34, CS-55b: scaling in is not paced by maxUnavailable, whatever the victims are', () => {
    const costly = { annotations: { 'controller.kubernetes.io/pod-deletion-cost': '100' } };
    const given = [...fresh(4), ...['web-x', 'web-y'].map((name) => newPodOf(name, { ready: false, ...costly }))];
    expect(steps({ replicas: 2 }, given)).toEqual([
      ...['delete web-x', 'delete web-y', 'delete web-n1', 'delete web-n2'],
    ]);
  });

  it('CS-55b: the surplus of a roll-out goes when what replaces it is available', () => {
    const surge = { replicas: 3, rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } };
    const starting = [...fresh(2), newPodOf('web-x', { ready: false }), ...pods('o', 1)];
    const found = plan({ set: cloneSet(surge), pods: starting });
    expect(found.steps).toEqual([]);
    expect(found.spared.map(({ name }) => name)).toEqual(['web-o1']);
    expect(steps(surge, [...fresh(3), ...pods('o', 1)])).toEqual(['delete web-o1']);
  });

  it('CS-40, CS-58: old pods go first, so that surge pods stay when the update is done', () => {
    expect(steps({ replicas: 5 }, [...fresh(5), ...pods('o', 2)])).toEqual(['delete web-o1', 'delete web-o2']);
  });

  it('CS-62: with OnDelete and fewer than 5 replicas a ready named pod stays', () => {
    const set = onDelete(cloneSet({ replicas: 4 }));
    const given = [...fresh(3), newPodOf('web-a', { specified: true })];
    expect(plan({ set, pods: given })).toMatchObject({ steps: [], spared: [{ name: 'web-a' }] });
  });

  it('CS-35: a pod goes with all its claims, whether or not claims are kept', () => {
    const claims = [claim('data', 'eb-n1'), claim('logs', 'eb-n1'), claim('data', 'other')];
    const [step] = plan({ set: cloneSet({ replicas: 0 }), pods: fresh(1), claims }).steps;
    expect(step).toMatchObject({
      kind: 'deletePod',
      pod: { name: 'web-n1', uid: 'web-n1-uid', resourceVersion: '1' },
      claims: [{ name: 'data-web-eb-n1' }, { name: 'logs-web-eb-n1' }],
    });
  });

  it('CS-35, LC-40: a pod with a mark is held instead', () => {
    const given = fresh(2, { finalizers: [drain] });
    expect(steps({ replicas: 0, lifecycle: hooks }, given)).toEqual(['prepareDelete web-n1', 'prepareDelete web-n2']);
    expect(steps({ replicas: 0 }, given)).toEqual(['delete web-n1', 'delete web-n2']);
  });

  it('LC-41: a pod that is held is not changed', () => {
    expect(steps({ replicas: 0, lifecycle: hooks }, fresh(1, held))).toEqual([]);
  });

  it('LC-53: a pod that is held gets out of service when the flag comes later', () => {
    const lifecycle: Lifecycle = { preDelete: { ...hooks.preDelete, markPodNotReady: true } };
    expect(steps({ replicas: 0, lifecycle }, fresh(1, held))).toEqual(['prepareDelete web-n1']);
  });

  it('CS-92: without replicas everything goes', () => {
    expect(steps({ replicas: 0 }, [...pods('o', 2), ...fresh(1)])).toHaveLength(3);
  });

  it('LC-28: with the gate a pod that waits for its update counts as new for scaling', () => {
    const given = [...pods('o', 2), pod('web-p', { state: 'PreparingUpdate' }), ...fresh(2)];
    const spec = { replicas: 4, rollingUpdate: { partition: 2 } };
    expect(steps(spec, given)).toEqual(['delete web-p']);
    expect(steps(spec, given, { gates: ['PreparingUpdateAsUpdate'] })).toEqual(['delete web-p']);
    const one = { replicas: 5, rollingUpdate: { partition: 3 } };
    const missing = [...pods('o', 2), pod('web-p', { state: 'PreparingUpdate' }), ...fresh(1)];
    expect(steps(one, missing)).toEqual(['create new']);
    expect(steps(one, missing, { gates: ['PreparingUpdateAsUpdate'] })).toEqual(['create old']);
  });
});

describe('planCloneSet', () => {
  it('CS-10: lets go of pods that the selector no longer chooses, but not while the set itself goes', () => {
    const given = [...fresh(5), newPodOf('web-stray', { labels: { app: 'other' } })];
    expect(said(planCloneSet(world({ pods: given })).upkeep)).toEqual(['release web-stray']);
    const going = cloneSet({}, { metadata: { deletionTimestamp: '2026-11-21T06:13:00Z' } });
    expect(planCloneSet(world({ set: going, pods: given })).upkeep).toEqual([]);
  });

  it('CS-12: does nothing about pods of a set that is being deleted, but keeps its status', () => {
    const going = cloneSet({}, { metadata: { deletionTimestamp: '2026-11-21T06:13:00Z' } });
    const found = planCloneSet(world({ set: going, pods: pods('o', 2), permit: permit() }));
    expect([found.upkeep, found.disruption]).toEqual([[], []]);
    expect(found.standing).toEqual({ kind: 'withdrawn' });
    expect(found.status).toMatchObject({ replicas: 2 });
  });

  it('CS-15: does nothing at all with a selector that nobody understands', () => {
    const selector = { matchExpressions: [{ key: 'app', operator: 'Like', values: ['w'] }] };
    const found = planCloneSet(world({ set: cloneSet({ selector }), pods: fresh(1) }));
    expect(found).toEqual({ upkeep: [], disruption: [], standing: { kind: 'working' } });
  });

  it('CS-11: while pods come or go, no update starts', () => {
    const set = cloneSet({ rollingUpdate: { maxUnavailable: 3 } });
    const coming = planCloneSet(world({ set, pods: pods('o', 4), permit: permit() }));
    expect([said(coming.upkeep), coming.disruption]).toEqual([['create new'], []]);
    const going = planCloneSet(world({ set, pods: pods('o', 6), permit: permit() }));
    expect([said(going.upkeep), going.disruption]).toEqual([['delete web-o1'], []]);
  });

  it('CS-14, CS-31: updates go on while no pod can be created', () => {
    const more = { failures: { scale: 'quota', nothingCreated: true } };
    const set = cloneSet({ rollingUpdate: { maxUnavailable: 3 } });
    const found = planCloneSet(world({ set, pods: pods('o', 4), permit: permit(), more }));
    expect(said(found.upkeep)).toEqual(['create new']);
    expect(found.disruption.map(({ kind }) => kind)).toEqual(['updatePod', 'updatePod']);
  });
});
