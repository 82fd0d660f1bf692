import { describe, expect, it } from '@jest/globals';
import { cloneSetWaits } from '../../api/cloneset/types.ts';
import type { Pod } from '../../api/core/pod.ts';
import {
  engineNoDaemon,
  engineNoFleetWorker,
  engineNoWorkers,
  engineSilent,
  engineStuck,
} from '../../api/engine/engine-trouble.ts';
import type { Lifecycle } from '../../api/fleet/lifecycle.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { formatState, type InPlaceState } from '../../api/in-place/state.ts';
import { noWork } from '../../api/in-place/work.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { type CloneSetSituation, cloneSetRules } from '../../plan/cloneset/waits.ts';
import { type Permit, question } from '../../plan/fleet/permit.ts';
import { allWaits as allWaitsBy } from '../../plan/fleet/waits.ts';
import { nothingYet } from '../../plan/starting.ts';
import {
  cloneSet,
  earlier,
  heldByOperator,
  imageUpdate,
  newName,
  newPodOf,
  newRevisionOfSet,
  now,
  nowMs,
  oldImage,
  oldName,
  onDelete,
  permit,
  pod,
  pods,
  revisionOf,
  template,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';
import { permitForAll } from '../support/permits.ts';

const allWaits = (situation: CloneSetSituation) => allWaitsBy(cloneSetRules, situation);

const drain = 'example.com/drain';
const hook = { finalizersHandler: [drain], labelsHandler: { guard: 'on' } };
const fresh = (count: number, facts = {}) => pods('n', count, { revision: newName, ...facts });

function plan(facts: WorldFacts) {
  return planCloneSet(world(facts));
}

/** A set with orders of operators. */
function ordered(orders: RollOutOrders) {
  return cloneSet({}, { status: { rollOut: orders } });
}

/** What the status tells. */
function wait(facts: WorldFacts) {
  const { waitingFor } = plan(facts).status ?? {};
  return waitingFor;
}

/** Every reason that holds. */
function reasons(facts: WorldFacts): readonly string[] {
  const { situation } = plan(facts);
  return situation ? allWaits(situation).map(({ reason }) => reason) : [];
}

function updating(name: string, change: Partial<InPlaceState>, ready = true): Pod {
  const state = imageUpdate({ updateTimestamp: now, ...change });
  const made = newPodOf(name, {
    state: 'Updating',
    annotations: { 'apps.kruise.io/inplace-update-state': formatState(state) },
    conditions: [
      { type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime: earlier },
      { type: 'Ready', status: 'False', lastTransitionTime: earlier },
    ],
  });
  const containerStatuses = (made.status?.containerStatuses ?? []).map((status) => ({
    ...status,
    ready,
    image: oldImage,
  }));
  return { ...made, status: { ...made.status, containerStatuses } };
}

/** Out of service for this long before its containers change. */
function graced(name: string, graceSeconds: number, since: string): Pod {
  const { status, ...made } = updating(name, { updateTimestamp: since });
  const annotations = {
    ...made.metadata.annotations,
    'apps.kruise.io/inplace-update-grace': JSON.stringify({ revision: newName, graceSeconds }),
  };
  return { ...made, metadata: { ...made.metadata, annotations }, ...(status && { status }) };
}

const running = { main: { imageID: 'docker.io/library/nginx:1.1@sha256:0' } };

describe('what a CloneSet waits for', () => {
  it('nothing, when all is as it should be', () => {
    expect(reasons({ pods: fresh(5) })).toEqual([]);
  });

  it('BudgetSpent: names the pods that spend it', () => {
    const given = [...pods('o', 4), newPodOf('web-down', { ready: false })];
    expect(wait({ pods: given, permit: permit() })).toEqual({
      reason: 'BudgetSpent',
      blockedBy: ['pod/web-down'],
      blockedCount: 1,
      since: now,
      unblock: cloneSetWaits.BudgetSpent,
    });
  });

  describe('asks for nothing as long as the pods have only just begun', () => {
    const ago = (seconds: number) => new Date(nowMs - seconds * 1000).toISOString().replace('.000', '');
    const starting = (seconds: number, change: Partial<Pod['status']> = {}) => {
      const made = newPodOf('web-new', { ready: false, phase: 'Pending', created: ago(seconds) });
      return { ...made, status: { ...made.status, ...change } };
    };
    const unblockOf = (facts: WorldFacts) => {
      const { situation } = plan(facts);
      return new Map((situation ? allWaits(situation) : []).map(({ reason, unblock }) => [reason, unblock]));
    };
    const budget = (pod: Pod) => ({ pods: [...pods('o', 4), pod], permit: permit() });

    it('BudgetSpent, NotReady: of a pod that was created a moment ago', () => {
      expect(unblockOf(budget(starting(5)))).toEqual(
        new Map([
          ['BudgetSpent', nothingYet],
          ['NotReady', nothingYet],
        ]),
      );
    });

    it('asks for a look once that takes long, and has the status say so then', () => {
      expect(plan(budget(starting(5))).againInMs).toBe(25_000);
      expect(plan(budget(starting(31))).againInMs).toBeUndefined();
      expect(unblockOf(budget(starting(31))).get('NotReady')).toBe(cloneSetWaits.NotReady);
      expect(unblockOf(budget(starting(31))).get('BudgetSpent')).toBe(cloneSetWaits.BudgetSpent);
    });

    it('NotScheduled: of a pod that the scheduler has not refused', () => {
      const created = newPodOf('web-s', {
        node: null,
        phase: 'Pending',
        ready: false,
        created: ago(1),
        conditions: [],
      });
      expect(unblockOf({ pods: [...fresh(4), created] }).get('NotScheduled')).toBe(nothingYet);
      const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }];
      const refused = { ...created, status: { ...created.status, conditions } };
      expect(unblockOf({ pods: [...fresh(4), refused] }).get('NotScheduled')).toBe(
        `${cloneSetWaits.NotScheduled}; web-s: Unschedulable`,
      );
    });

    it('asks for a look at once where the kubelet says what is wrong', () => {
      const waiting = (reason: string, message = '') => {
        const containerStatuses = [
          { name: 'main', ready: false, restartCount: 0, state: { waiting: { reason, message } } },
        ];
        return unblockOf(budget(starting(5, { containerStatuses }))).get('NotReady');
      };
      expect([waiting('ContainerCreating'), waiting('PodInitializing')]).toEqual([nothingYet, nothingYet]);
      expect(waiting('ErrImagePull')).toBe(`${cloneSetWaits.NotReady}; web-new: main: ErrImagePull: nginx:1.1`);
      expect(waiting('CrashLoopBackOff')).toBe(`${cloneSetWaits.NotReady}; web-new: main: CrashLoopBackOff`);
      // its turn has not come (launch priority)
      expect(waiting('CreateContainerConfigError', 'configmap "web-new-barrier" not found')).toBe(nothingYet);
    });

    it('names pods that need a look before those that are starting', () => {
      const given = [...fresh(3), starting(5), newPodOf('web-old', { ready: false })];
      expect(wait({ pods: given })).toMatchObject({
        reason: 'NotReady',
        blockedBy: ['pod/web-old', 'pod/web-new'],
        unblock: cloneSetWaits.NotReady,
      });
    });

    it('GracePeriod: every wait of a pod in its grace period asks for nothing', () => {
      const rollingUpdate = { inPlaceUpdateStrategy: { gracePeriodSeconds: 120 } };
      const set = cloneSet({ rollingUpdate });
      const { disruption } = plan({ set, pods: pods('o', 5), permit: permit() });
      expect(disruption).toHaveLength(1);
      const given = [...pods('o', 4), graced('web-grace', 120, ago(100))];
      const found = unblockOf({ set, pods: given, permit: permit() });
      expect([...found.keys()]).toEqual(['GracePeriod', 'BudgetSpent', 'NotReady']);
      for (const text of found.values()) expect(text).toMatch(/^Nothing to do/);
    });

    it('BudgetSpent: is no wait while the budget lets pods go', () => {
      expect(reasons({ pods: pods('o', 5), permit: permit() })).toEqual([]);
      const chooses = permit({ chooses: true, pods: new Map() });
      expect(reasons({ pods: pods('o', 5), permit: chooses })).toEqual([]);
    });

    it('ContainersNotSwapped: of containers that were changed a moment ago', () => {
      const state = (at: string) => updating('web-u', { updateTimestamp: at, lastContainerStatuses: running });
      const text = (seconds: number) =>
        unblockOf({ pods: [...fresh(4), state(ago(seconds))] }).get('ContainersNotSwapped');
      expect(text(5)).toBe(`${nothingYet}; not started from the new image: main`);
      expect(text(31)).toBe(`${cloneSetWaits.ContainersNotSwapped}; not started from the new image: main`);
    });
  });

  it('BudgetSpent: says of which pods an operator has skipped the update, as that does not make them available', () => {
    const given = [...pods('o', 3), ...['web-a', 'web-b'].map((name) => newPodOf(name, { ready: false }))];
    const owner = ordered({ version: 1, revision: newName, skip: ['web-a', 'web-o0'] });
    expect(wait({ set: owner, pods: given, permit: permit() })).toMatchObject({
      reason: 'BudgetSpent',
      blockedBy: ['pod/web-a', 'pod/web-b'],
      unblock: `${cloneSetWaits.BudgetSpent}; skipped, still unavailable: web-a`,
    });
  });

  it('BudgetSpent: also holds back deletions of ready pods', () => {
    const given = [...fresh(3), newPodOf('web-down', { ready: false }), newPodOf('web-named', { specified: true })];
    expect(wait({ pods: given })).toMatchObject({
      reason: 'BudgetSpent',
      blockedBy: ['pod/web-down', 'pod/web-named'],
    });
  });

  it('BudgetRoundsToZero: says which share of how many pods comes to nothing', () => {
    const set = cloneSet({ replicas: 4, rollingUpdate: { maxUnavailable: '10%', maxSurge: 1 } });
    const more = { failures: { scale: 'quota', nothingCreated: true } };
    expect(reasons({ set, pods: pods('o', 4), permit: permit(), more })).toContain('BudgetRoundsToZero');
    const deleting = onDelete(cloneSet({ replicas: 4 }));
    const given = [...fresh(3), newPodOf('web-named', { specified: true })];
    expect(wait({ set: deleting, pods: given })).toMatchObject({
      reason: 'BudgetRoundsToZero',
      blockedBy: ['pod/web-named'],
      unblock: `${cloneSetWaits.BudgetRoundsToZero}; maxUnavailable 20% of 4 pods`,
    });
  });

  it('Paused, PausedByOperator: tell who has paused, before all else', () => {
    const down = [...pods('o', 4), newPodOf('web-down', { ready: false })];
    const set = cloneSet({ rollingUpdate: { paused: true } });
    expect(wait({ set, pods: down, permit: permit() })).toMatchObject({ reason: 'Paused', blockedBy: [] });
    expect(wait({ pods: pods('o', 5), permit: permit(), more: heldByOperator })).toMatchObject({
      reason: 'PausedByOperator',
    });
    expect(reasons({ set, pods: fresh(5) })).toEqual([]);
  });

  it('EngineStuck: is not said to a roll-out that asks', () => {
    const engine = engineStuck({
      workflowId: 'roll-out/shop/web/set-uid',
      temporalNamespace: 'default',
      wasBegunAnew: false,
    });
    const down = [newPodOf('web-down', { ready: false }), ...pods('o', 4)];
    const asked = permit({ pods: new Map(), chooses: true, isAsked: true });
    expect(plan({ pods: down, permit: asked, more: { engine } }).standing).toMatchObject({
      wait: { reason: 'BudgetSpent' },
    });
  });

  it('EngineSilent, NoPermit: tell Temporal being away from a roll-out that is to go on', () => {
    expect(wait({ pods: pods('o', 5) })).toMatchObject({ reason: 'NoPermit' });
    expect(wait({ pods: pods('o', 5), more: { engine: engineSilent } })).toMatchObject({ reason: 'EngineSilent' });
    expect(reasons({ pods: fresh(5), more: { engine: engineSilent } })).toEqual([]);
    expect(reasons({ set: onDelete(cloneSet()), pods: pods('o', 5), more: { engine: engineSilent } })).toEqual([
      'OnDelete',
    ]);
    const spent = [...pods('o', 4), newPodOf('web-down', { ready: false })];
    expect(reasons({ pods: spent, more: { engine: engineSilent } })).toEqual([
      'EngineSilent',
      'BudgetSpent',
      'NotReady',
    ]);
  });

  it('EngineSilent, EngineNoWorkers, EngineNoFleetWorker, EngineStuck: are told also of a roll-out that has a permit', () => {
    const workflow = { workflowId: 'roll-out/shop/web/set-uid', temporalNamespace: 'shop', wasBegunAnew: false };
    for (const engine of [
      engineSilent,
      engineNoWorkers({ temporalNamespace: 'shop', build: 'abc' }),
      engineNoFleetWorker('shop', '2026-11-28T10:00:00Z'),
      engineStuck(workflow),
    ]) {
      const spent = [...pods('o', 4), newPodOf('web-down', { ready: false })];
      for (const leave of [permit(), question]) {
        const { reason } = engine;
        expect(reasons({ pods: pods('o', 5), permit: leave, more: { engine } })).toEqual([reason]);
        expect(reasons({ pods: spent, permit: leave, more: { engine } })[0]).toBe(reason);
        expect(reasons({ pods: fresh(5), permit: leave, more: { engine } })).toEqual([]);
      }
    }
  });

  it('EngineNoWorkers: names the queue, for a roll-out that is to go on', () => {
    const engine = engineNoWorkers({ temporalNamespace: 'shop', build: 'abc' });
    const found = wait({ pods: pods('o', 5), more: { engine } });
    expect(found).toMatchObject({
      reason: 'EngineNoWorkers',
      blockedBy: ['taskqueue/cluster'],
      unblock: engine.unblock,
    });
    expect(reasons({ pods: fresh(5), more: { engine } })).toEqual([]);
  });

  it('EngineNoFleetWorker: names the queue, for a roll-out that is to go on', () => {
    const engine = engineNoFleetWorker('shop', '2026-11-28T10:00:00Z');
    const found = { pods: pods('o', 5), more: { engine, withoutPermitSinceMs: 0 } };
    expect(wait(found)).toMatchObject({ reason: 'EngineNoFleetWorker', blockedBy: ['taskqueue/fleet'] });
    expect(wait(found)?.unblock).toContain('since 2026-11-28T10:00:00Z');
    expect(reasons({ pods: fresh(5), more: { engine } })).toEqual([]);
  });

  it('EngineStuck: names the workflow and the command that helps, for a roll-out that is to go on', () => {
    const engine = engineStuck({
      workflowId: 'roll-out/shop/web/set-uid',
      temporalNamespace: 'shop',
      wasBegunAnew: false,
    });
    const found = wait({ pods: pods('o', 5), more: { engine } });
    expect(found).toMatchObject({
      reason: 'EngineStuck',
      blockedBy: ['workflow/roll-out/shop/web/set-uid'],
      blockedCount: 1,
    });
    expect(found?.unblock).toContain(
      'temporal workflow terminate --namespace shop --workflow-id roll-out/shop/web/set-uid',
    );
    expect(reasons({ pods: fresh(5), more: { engine } })).toEqual([]);
  });

  it('NoPermit: is not reported between two permits, and reported when it has lasted too long', () => {
    const seen = (agoMs: number) => plan({ pods: pods('o', 5), more: { withoutPermitSinceMs: nowMs - agoMs } });
    expect(seen(0).status?.waitingFor).toBeUndefined();
    expect(seen(0).againInMs).toBe(5000);
    expect(seen(4999).againInMs).toBe(1);
    expect(seen(5000).status?.waitingFor).toMatchObject({ reason: 'NoPermit' });
    expect(seen(5000).againInMs).toBeUndefined();
  });

  it('NoPermit: is reported under a permit, too, while pods may go that it does not name, and ahead of BudgetSpent', () => {
    const set = cloneSet({ rollingUpdate: { maxUnavailable: 2 } });
    const down = [...pods('o', 4), newPodOf('web-down', { ready: false })];
    const seen = (agoMs: number, leave: Permit = question) =>
      plan({ set, pods: down, permit: leave, more: { withoutPermitSinceMs: nowMs - agoMs } });
    expect(seen(0).lacksPermit).toBe(true);
    expect([seen(0).status?.waitingFor?.reason, seen(0).againInMs]).toEqual(['BudgetSpent', 5000]);
    expect([seen(4999).status?.waitingFor?.reason, seen(4999).againInMs]).toEqual(['BudgetSpent', 1]);
    expect([seen(5000).status?.waitingFor?.reason, seen(5000).againInMs]).toEqual(['NoPermit', undefined]);
    const { situation, standing } = seen(5000);
    expect(situation && allWaits(situation).map(({ reason }) => reason)).toEqual([
      'NoPermit',
      'BudgetSpent',
      'NotReady',
    ]);
    expect(standing).toMatchObject({ kind: 'pods', pods: [{ name: 'web-o1' }] });
  });

  it('NoPermit: is not reported where every pod that may go is named, nothing is asked, or an operator holds', () => {
    const since = { withoutPermitSinceMs: 0 };
    const seen = (facts: WorldFacts) => plan({ pods: pods('o', 5), ...facts, more: { ...since, ...facts.more } });
    for (const facts of [
      { permit: permit() },
      { permit: permit({ chooses: true }) },
      { permit: permit({ pods: new Map() }) },
      { permit: question, more: heldByOperator },
      { permit: question, pods: fresh(5) },
      { permit: question, set: cloneSet({ rollingUpdate: { paused: true } }) },
    ]) {
      const { situation, lacksPermit } = seen(facts);
      expect(lacksPermit).toBe(false);
      expect(situation && allWaits(situation).map(({ reason }) => reason)).not.toContain('NoPermit');
    }
  });

  it('OnDelete: names the pods that somebody has to delete', () => {
    const set = onDelete(cloneSet());
    expect(wait({ set, pods: [...pods('o', 2), ...fresh(3)] })).toMatchObject({
      reason: 'OnDelete',
      blockedBy: ['pod/web-o1', 'pod/web-o2'],
    });
  });

  it('PartitionReached: names the pods that stay, and there is nothing more to roll out', () => {
    const set = cloneSet({ rollingUpdate: { partition: 3 } });
    const given = { set, pods: [...pods('o', 3), ...fresh(2)], permit: permit() };
    expect(wait(given)).toMatchObject({ reason: 'PartitionReached', blockedCount: 3 });
    expect(plan(given).standing).toMatchObject({ kind: 'allDone' });
  });

  it('Skipped: names the pods that an operator leaves out, and the roll-out is done without them', () => {
    const set = ordered({ version: 1, revision: newName, skip: ['web-o1'] });
    const given = { pods: [...pods('o', 1), ...fresh(4)], set };
    expect(plan({ ...given, permit: permit() }).standing).toMatchObject({ kind: 'allDone' });
    // also when nothing is rolled out any more
    for (const leave of [{ permit: permit() }, {}]) {
      expect(wait({ ...given, ...leave })).toMatchObject({ reason: 'Skipped', blockedBy: ['pod/web-o1'] });
    }
  });

  it('Aborted, PausedByOperator: tell who said so and what has been changed, with a permit or without', () => {
    const at = { by: 'ann', at: '2026-11-21T06:00:00Z' };
    const given = { pods: [...pods('o', 3), ...fresh(2)] };
    const told = `2 of 5 pods are of revision ${newName}; ordered by ann at 2026-11-21T06:00:00Z`;
    for (const leave of [{}, { permit: permit() }]) {
      const aborted = { ...given, ...leave, set: ordered({ version: 1, revision: newName, aborted: at }) };
      expect(wait(aborted)).toMatchObject({ reason: 'Aborted', unblock: `${cloneSetWaits.Aborted}; ${told}` });
      const paused = { ...given, ...leave, set: ordered({ version: 1, revision: oldName, paused: at }) };
      expect(wait(paused)).toMatchObject({ reason: 'PausedByOperator', unblock: expect.stringContaining(told) });
      for (const facts of [aborted, paused]) expect(plan(facts).disruption).toEqual([]);
    }
    const over = { ...given, set: ordered({ version: 1, revision: oldName, aborted: at }), permit: permit() };
    expect(plan(over).disruption).toHaveLength(1);
  });

  it('PausedByOperator: is said of a roll-out that is held before the object says so, and why it does not', () => {
    const given = { pods: [...pods('o', 3), ...fresh(2)] };
    const paused = plan({ ...given, permit: permit(), more: heldByOperator });
    expect(paused.disruption).toEqual([]);
    expect(paused.standing).toMatchObject({ wait: { reason: 'PausedByOperator' } });
    const orders = { version: 1, revision: newName, paused: { by: 'ann', at: '' } };
    const held = { orders, because: 'the API server refuses it' };
    expect(wait({ ...given, more: { held } })?.unblock).toMatch(
      /ordered by ann; it could not be written into the object yet: the API server refuses it$/,
    );
  });

  it('PausedByOperator: holds a roll-out whose undo goes to a revision that is not kept any more, and says so', () => {
    const set = ordered({ version: 1, revision: newName, undo: { by: 'ann', at: '', to: 'web-gone' } });
    const given = { set, pods: [...pods('o', 3), ...fresh(2)], permit: permit() };
    expect(plan(given).disruption).toEqual([]);
    expect(wait(given)).toMatchObject({
      reason: 'PausedByOperator',
      unblock: expect.stringContaining('revision web-gone is not kept any more, so no pod can go back to it'),
    });
    // the roll-out asks for the revision of the spec, which it gets no pods for
    expect(plan(given)).toMatchObject({ standing: { kind: 'waiting' }, rollOut: { facts: { revision: newName } } });
    expect(plan(given).rollOut?.facts).not.toHaveProperty('orders');
  });

  it('Undone: tells who took the revision back, once that is through', () => {
    const undo = { by: '', at: '', to: oldName };
    const set = ordered({ version: 1, revision: newName, undo });
    expect(wait({ set, pods: pods('o', 5) })).toMatchObject({
      reason: 'Undone',
      unblock: `${cloneSetWaits.Undone}; 5 of 5 pods are of revision ${oldName}; ordered by an operator`,
    });
    expect(wait({ set, pods: pods('o', 4) })?.reason).not.toBe('Undone');
  });

  it('HookBeforeDelete, HookBeforeUpdate: name the marks that are still there', () => {
    const lifecycle: Lifecycle = { preDelete: hook, inPlaceUpdate: hook };
    const set = cloneSet({ lifecycle });
    const leaving = newPodOf('web-d', { state: 'PreparingDelete', specified: true, finalizers: [drain] });
    expect(wait({ set, pods: [...fresh(4), leaving] })).toMatchObject({
      reason: 'HookBeforeDelete',
      blockedBy: ['pod/web-d'],
      unblock: `${cloneSetWaits.HookBeforeDelete}; finalizer ${drain}`,
    });
    const waiting = pod('web-u', { state: 'PreparingUpdate', labels: { guard: 'on' } });
    expect(wait({ set, pods: [...fresh(4), waiting], permit: permit() })).toMatchObject({
      reason: 'HookBeforeUpdate',
      blockedBy: ['pod/web-u'],
      unblock: `${cloneSetWaits.HookBeforeUpdate}; label guard=on`,
    });
  });

  it('LC-23, HookAfterUpdate, HookBeforeNormal: name the marks that are missing', () => {
    const set = cloneSet({ lifecycle: { inPlaceUpdate: hook, preNormal: hook } });
    const updated = newPodOf('web-u', { state: 'Updated', finalizers: [drain] });
    expect(wait({ set, pods: [...fresh(4), updated] })).toMatchObject({
      reason: 'HookAfterUpdate',
      blockedBy: ['pod/web-u'],
      unblock: `${cloneSetWaits.HookAfterUpdate}; label guard=on`,
    });
    const born = newPodOf('web-b', { state: 'PreparingNormal', labels: { guard: 'on' } });
    expect(wait({ set, pods: [...fresh(4), born] })).toMatchObject({
      reason: 'HookBeforeNormal',
      unblock: `${cloneSetWaits.HookBeforeNormal}; finalizer ${drain}`,
    });
  });

  it('GracePeriod: names the pods that are in it', () => {
    const annotations = {
      'apps.kruise.io/inplace-update-state': JSON.stringify({ revision: newName, updateTimestamp: now }),
      'apps.kruise.io/inplace-update-grace': JSON.stringify({ revision: newName, graceSeconds: 9 }),
    };
    const given = [...fresh(4), newPodOf('web-g', { state: 'Updating', annotations })];
    expect(wait({ pods: given })).toMatchObject({ reason: 'GracePeriod', blockedBy: ['pod/web-g'] });
  });

  it('Draining: names the pods that Services are letting go of', () => {
    const conditions = [
      { type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime: now },
      { type: 'Ready', status: 'False', lastTransitionTime: now },
    ];
    const given = [...fresh(4), pod('web-d', { conditions })];
    expect(wait({ pods: given })).toMatchObject({ reason: 'Draining', blockedBy: ['pod/web-d'] });
    expect(plan({ pods: given }).againInMs).toBe(30_000);
  });

  it('ContainersNotSwapped: says what the containers lack', () => {
    const swapping = updating('web-s', { lastContainerStatuses: running });
    expect(wait({ pods: [...fresh(4), swapping] })).toMatchObject({
      reason: 'ContainersNotSwapped',
      blockedBy: ['pod/web-s'],
      unblock: expect.stringContaining('not started from the new image: main'),
    });
    const unreported = updating('web-s', { updateEnvFromMetadata: true });
    expect(wait({ pods: [...fresh(4), unreported] })?.unblock).toContain(
      'not reported by the daemon of the node: main',
    );
  });

  it('says what the kubelet says of the pods that it waits for, whatever the wait', () => {
    const message = 'failed to pull "nginx:1.1": not found';
    const state = { waiting: { reason: 'ErrImagePull', message } };
    const failing = (made: Pod): Pod => {
      const containerStatuses = made.status?.containerStatuses?.map((status) => ({ ...status, ready: false, state }));
      return { ...made, status: { ...made.status, ...(containerStatuses && { containerStatuses }) } };
    };
    const said = (name: string) => `; ${name}: main: ErrImagePull: ${message}`;
    const down = failing(newPodOf('web-d', { ready: false }));
    const swapping = failing(updating('web-s', { lastContainerStatuses: running }, false));
    const next = { ...noWork, images: { main: 'nginx:2' } };
    const between = failing(updating('web-b', { next, requiredReady: ['main'] }, false));
    const scaling = cloneSet({ scaleStrategy: { enablePVCReuse: true, maxUnavailable: 1 } });
    for (const [reason, facts] of [
      ['ContainersNotSwapped', { pods: [...fresh(4), swapping] }],
      ['BatchNotReady', { pods: [...fresh(4), between] }],
      ['NotReady', { pods: [...fresh(4), down] }],
      ['BudgetSpent', { pods: [...pods('o', 4), down], permit: permit() }],
      ['ScaleLimited', { pods: [...fresh(2), down], set: scaling }],
    ] as const) {
      const given = wait(facts);
      expect(given).toMatchObject({ reason, unblock: expect.stringMatching(/; web-/) });
      expect(given?.unblock).toContain(said(given?.blockedBy[0]?.slice('pod/'.length) ?? ''));
    }
  });

  it('NotScheduled: says why the scheduler finds no node', () => {
    const message = '0/1 nodes are available: 1 Insufficient cpu.';
    const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }];
    const pending = newPodOf('web-p', { ready: false, node: null, phase: 'Pending', conditions });
    expect(wait({ pods: [...fresh(4), pending] })).toMatchObject({
      reason: 'NotScheduled',
      unblock: `${cloneSetWaits.NotScheduled}; web-p: Unschedulable: ${message}`,
    });
  });

  it('EngineNoDaemon: names the node whose daemon has to report, or to restart a container, and is down', () => {
    const unreported = updating('web-s', { updateEnvFromMetadata: true });
    const given = { pods: [...fresh(4), unreported] };
    const down = engineNoDaemon('node-7', '2026-11-28T10:00:00Z');
    const more = { daemonTrouble: (asked: Pod) => (asked.metadata.name === 'web-s' ? down : undefined) };
    expect(wait({ ...given, more })).toMatchObject({ ...down, blockedCount: 1 });
    expect(reasons({ ...given, more })).toContain('ContainersNotSwapped');
    expect(reasons({ ...given, more: { daemonTrouble: () => engineSilent } })).not.toContain('EngineSilent');
    const byKubelet = updating('web-s', { lastContainerStatuses: running });
    expect(reasons({ pods: [...fresh(4), byKubelet], more })).not.toContain('EngineNoDaemon');
  });

  it('BatchNotReady: names the containers that the next ones wait for', () => {
    const next = { ...noWork, images: { main: 'nginx:2' } };
    const between = updating('web-b', { next, requiredReady: ['main'] }, false);
    expect(wait({ pods: [...fresh(4), between] })).toMatchObject({
      reason: 'BatchNotReady',
      blockedBy: ['pod/web-b'],
      unblock: expect.stringContaining('not ready: main'),
    });
  });

  it('InPlaceImpossible: names the field that forces a new pod', () => {
    const set = cloneSet({
      template: template(oldImage, { hostNetwork: true }),
      rollingUpdate: { podUpdatePolicy: 'InPlaceOnly' },
    });
    const revisions = [revisionOf(cloneSet(), 1, template(oldImage)), revisionOf(set, 2)];
    const leave = permitForAll(revisions[1]?.metadata.name ?? '');
    expect(wait({ set, revisions, pods: pods('o', 5), permit: leave })).toMatchObject({
      reason: 'InPlaceImpossible',
      blockedBy: ['pod/web-o1'],
      unblock: `${cloneSetWaits.InPlaceImpossible}; spec.template.spec.hostNetwork needs a new pod`,
    });
  });

  it('RefusedByBudget: names the budget first', () => {
    const more = { refusals: [{ pod: 'web-o1', by: 'podunavailablebudget/web' }] };
    expect(wait({ pods: pods('o', 5), permit: permit(), more })).toMatchObject({
      reason: 'RefusedByBudget',
      blockedBy: ['podunavailablebudget/web', 'pod/web-o1'],
    });
  });

  it('ScaleLimited: names the pods that hold creation back', () => {
    const set = cloneSet({ scaleStrategy: { maxUnavailable: 1 } });
    const given = [...fresh(3), newPodOf('web-down', { ready: false })];
    expect(wait({ set, pods: given })).toMatchObject({ reason: 'ScaleLimited', blockedBy: ['pod/web-down'] });
  });

  it('CannotCreate, CannotDelete, CannotUpdate: say who refuses', () => {
    const scale = { failures: { scale: 'exceeded quota' } };
    expect(wait({ pods: fresh(4), more: scale })).toMatchObject({
      reason: 'CannotCreate',
      unblock: `${cloneSetWaits.CannotCreate}; exceeded quota`,
    });
    expect(wait({ pods: fresh(6), more: scale })).toMatchObject({ reason: 'CannotDelete' });
    const often = { failures: { scale: 'exceeded quota', scaleType: 'Denied', retriedWithinMs: 300_000 } as const };
    expect(wait({ pods: fresh(4), more: often })).toMatchObject({
      unblock:
        `${cloneSetWaits.CannotCreate}; Denied: exceeded quota; ` +
        'retried within 5 minutes, and at once when the CloneSet changes',
    });
    const update = { failures: { update: 'denied the request' } };
    expect(wait({ pods: pods('o', 5), permit: permit(), more: update })).toMatchObject({ reason: 'CannotUpdate' });
  });

  describe('CS-72: CannotCreate of pods that mount what no PVC template provides any more', () => {
    const more = { failures: { scale: 'volumeMounts[0].name: Not found: "data"', scaleType: 'Invalid' } } as const;
    const mounting = (image: string) =>
      template(image, {
        containers: [{ name: 'main', image, volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
        initContainers: [{ name: 'prepare', image, volumeDevices: [{ name: 'data', devicePath: '/dev/data' }] }],
      });
    const before = revisionOf(cloneSet(), 1, mounting(oldImage));
    const name = before.metadata.name;
    const change = `; revision ${name} mounts "data" in container "prepare", which nothing provides: add a template "data" to spec.volumeClaimTemplates, or `;
    const status = { status: { currentRevision: name } };
    const old = (count: number) => pods('o', count, { revision: name });

    it('of the revision that partition keeps', () => {
      const set = cloneSet({ replicas: 6, rollingUpdate: { partition: 6 } }, status);
      const given = { set, pods: old(5), revisions: [before, revisionOf(set, 2)], more };
      expect(wait(given)?.unblock).toBe(
        `${cloneSetWaits.CannotCreate}${change}lower partition, so that new pods get revision ${newName}; Invalid: ${more.failures.scale}`,
      );
      const kept = cloneSet({ ...set.spec, volumeClaimTemplates: [{ metadata: { name: 'data' } }] }, status);
      expect(wait({ ...given, set: kept })?.unblock).toBe(
        `${cloneSetWaits.CannotCreate}; Invalid: ${more.failures.scale}`,
      );
    });

    it('of the revision of the template, and of one that an operator wants back', () => {
      const set = cloneSet({ template: mounting(oldImage) }, status);
      expect(wait({ set, pods: old(4), revisions: [before], more })?.unblock).toContain(
        `${change}remove the mount from spec.template; `,
      );
      const undo = { from: newName, to: name };
      const undone = { revisions: [before, newRevisionOfSet], pods: old(4), more: { ...more, undo } };
      expect(wait({ set: cloneSet({}, status), ...undone })?.unblock).toContain(
        `${change}resume the roll-out, which takes the undo back; `,
      );
    });
  });

  it('PodUnreadable: names the pod and the annotation', () => {
    const annotations = { 'apps.kruise.io/inplace-update-state': '{' };
    const given = [...fresh(4), newPodOf('web-x', { state: 'Updating', annotations })];
    expect(wait({ pods: given })).toMatchObject({
      reason: 'PodUnreadable',
      blockedBy: ['pod/web-x'],
      unblock: expect.stringContaining('apps.kruise.io/inplace-update-state'),
    });
  });

  it('NotScheduled, NotReady, MinReadySeconds: tell apart why pods are not available', () => {
    const unscheduled = newPodOf('web-s', { node: null, phase: 'Pending', ready: false });
    expect(wait({ pods: [...fresh(4), unscheduled] })).toMatchObject({
      reason: 'NotScheduled',
      blockedBy: ['pod/web-s'],
    });
    expect(wait({ pods: [...fresh(4), newPodOf('web-d', { ready: false })] })).toMatchObject({ reason: 'NotReady' });
    const young = newPodOf('web-y', { ready: now });
    expect(wait({ set: cloneSet({ minReadySeconds: 10 }), pods: [...fresh(4), young] })).toMatchObject({
      reason: 'MinReadySeconds',
      blockedBy: ['pod/web-y'],
    });
  });

  it('lists at most ten pods and counts all', () => {
    const given = fresh(12, { ready: false });
    const found = wait({ set: cloneSet({ replicas: 12 }), pods: given });
    expect([found?.blockedBy.length, found?.blockedCount]).toEqual([10, 12]);
  });

  it('explains every reason that holds, in the order of the rules', () => {
    const given = [
      ...pods('o', 3),
      newPodOf('web-down', { ready: false }),
      pod('web-new', { node: null, ready: false }),
    ];
    expect(reasons({ pods: given, permit: permit() })).toEqual(['NotScheduled', 'BudgetSpent', 'NotReady']);
  });

  it('each reason is of the closed list, and each rule is named by it', () => {
    const names = cloneSetRules.map(({ name }) => name.toLowerCase());
    const known = Object.keys(cloneSetWaits).map((reason) => reason.toLowerCase());
    expect(names.filter((name) => !known.includes(name))).toEqual([]);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('how a permit stands', () => {
  const standing = (facts: WorldFacts) => plan({ permit: permit(), ...facts }).standing;

  it('is working as long as there is something to do', () => {
    expect(standing({ pods: pods('o', 5) })).toEqual({ kind: 'working' });
    expect(standing({ pods: pods('o', 4) })).toEqual({ kind: 'working' });
  });

  it('waits when what there is to do was refused the last time', () => {
    const more = { failures: { scale: 'exceeded quota', nothingCreated: true } };
    expect(standing({ pods: fresh(4), more })).toMatchObject({ kind: 'waiting', wait: { reason: 'CannotCreate' } });
  });

  it('offers pods for what the set asks for now, whatever revision the permit names them for', () => {
    const given = { pods: pods('o', 5), permit: permitForAll(oldName) };
    expect(plan(given)).toMatchObject({ disruption: [], standing: { kind: 'working' }, named: { to: newName } });
    const asked = permitForAll(oldName, { chooses: true });
    expect(standing({ ...given, permit: asked })).toMatchObject({
      ...{ kind: 'pods', revision: newName, pods: [{ name: 'web-o1' }], more: false },
    });
  });

  it('waits for updated pods that are not available, unless an operator leaves them out', () => {
    const down = [...fresh(4), newPodOf('web-down', { ready: false })];
    expect(standing({ pods: down })).toMatchObject({ kind: 'waiting' });
    const set = ordered({ version: 1, revision: newName, skip: ['web-down'] });
    expect(standing({ set, pods: down })).toMatchObject({
      kind: 'allDone',
    });
  });

  it('is all done though pods that the partition keeps are down, but not while there is a pod to take back', () => {
    const set = cloneSet({ rollingUpdate: { partition: 2 } });
    const given = [...pods('o', 1), pod('web-down', { ready: false }), ...fresh(3)];
    expect(standing({ set, pods: given })).toMatchObject({ kind: 'allDone' });
    const spent = [...fresh(4), newPodOf('web-down', { ready: false })];
    const facts = { set, pods: spent, gates: ['CloneSetPartitionRollback'] as const };
    expect(standing(facts)).not.toMatchObject({ kind: 'allDone' });
  });

  it('is all done for a set that leaves its pods to the user, and withdrawn for one that is being deleted', () => {
    expect(standing({ set: onDelete(cloneSet()), pods: [...pods('o', 3), ...fresh(2)] })).toEqual({
      kind: 'allDone',
      summary: `2 of 5 pods are of revision ${newName}`,
    });
    const set = cloneSet({}, { metadata: { deletionTimestamp: now } });
    expect(standing({ set, pods: pods('o', 5) })).toEqual({ kind: 'withdrawn' });
  });

  it('is all done when every pod is of the revision and available, and no pod is too many', () => {
    expect(standing({ pods: fresh(5) })).toEqual({
      kind: 'allDone',
      summary: `5 of 5 pods are of revision ${newName}`,
    });
    expect(standing({ pods: [...fresh(4), newPodOf('web-d', { ready: false })] })).toMatchObject({
      kind: 'waiting',
      wait: { reason: 'NotReady' },
    });
    expect(standing({ pods: fresh(6), set: cloneSet({ minReadySeconds: 9999 }) })).not.toMatchObject({
      kind: 'allDone',
    });
  });

  it('is done at the previous revision when that is what an operator wants back', () => {
    const more = { undo: { from: newName, to: oldName } };
    expect(standing({ pods: pods('o', 5), permit: permitForAll(oldName), more })).toEqual({
      kind: 'allDone',
      summary: `5 of 5 pods are of revision ${oldName}`,
    });
  });

  it('means nothing while there is no permit', () => {
    expect(planCloneSet(world({ pods: pods('o', 5), revisions: [newRevisionOfSet] })).standing).toEqual({
      kind: 'working',
    });
  });
});
