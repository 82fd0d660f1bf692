import { describe, expect, it } from '@jest/globals';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { question } from '../../plan/fleet/permit.ts';
import { isUpdateLeft, rollOutFacts } from '../../plan/fleet/roll-out-facts.ts';
import {
  cloneSet,
  newName,
  newRevisionOfSet,
  oldName,
  oldRevision,
  onDelete,
  permit,
  pod,
  pods,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';
import { permitForAll } from '../support/permits.ts';

const by = { by: 'ann', at: '2026-11-21T06:00:00Z' };
const fresh = (count: number) => pods('n', count, { revision: newName });

function ordered(orders: Partial<RollOutOrders>) {
  return cloneSet({}, { status: { rollOut: { version: 3, revision: newName, ...orders } } });
}

function plan(facts: WorldFacts) {
  const made = planCloneSet(world(facts));
  if (!made.situation) throw new Error('nothing to decide');
  return { ...made, situation: made.situation };
}

/** The orders in the planned status. */
function ordersAfter(facts: WorldFacts) {
  const { set } = facts;
  const { status = set?.status } = plan(facts);
  return status?.rollOut;
}

describe('whether there is anything to roll out', () => {
  const isLeft = (facts: WorldFacts) => isUpdateLeft(plan(facts).situation);

  it('is, as long as a pod has not been begun that is to be updated, whoever holds it up', () => {
    expect(isLeft({ pods: [...pods('o', 1), ...fresh(4)] })).toBe(true);
    expect(isLeft({ pods: fresh(5) })).toBe(false);
    expect(isLeft({ set: ordered({ aborted: by }), pods: pods('o', 5) })).toBe(true);
    const aborted = plan({ set: ordered({ aborted: by }), pods: pods('o', 5), permit: question });
    expect([aborted.rollOut?.isWanted, aborted.standing]).toEqual([
      false,
      { kind: 'aborted', summary: expect.stringMatching(/^0 of 5 pods are/) },
    ]);
    for (const orders of [{ aborted: by }, { paused: by }])
      expect(plan({ set: ordered(orders), pods: pods('o', 5) }).lacksPermit).toBe(false);
    // also while pods are to be created, and are refused
    const scaling = cloneSet({ replicas: 7 }, { status: { rollOut: { version: 3, revision: newName, aborted: by } } });
    const named = permit({ pods: new Map([['web-o1-uid', newName]]) });
    const failures = { scale: 'exceeded quota', scaleType: 'Denied' } as const;
    const held = plan({ set: scaling, pods: pods('o', 5), permit: named, more: { failures } });
    expect(held.named?.pods.get('web-o1-uid')?.state).toBe('notNow');
    expect(plan({ set: ordered({ paused: by }), pods: pods('o', 5) }).rollOut?.isWanted).toBe(true);
    expect(isLeft({ set: cloneSet({ rollingUpdate: { paused: true } }), pods: pods('o', 5) })).toBe(true);
  });

  it('is not for pods that the partition keeps, an operator leaves out, or the user deletes', () => {
    expect(isLeft({ set: cloneSet({ rollingUpdate: { partition: 2 } }), pods: [...pods('o', 2), ...fresh(3)] })).toBe(
      false,
    );
    expect(isLeft({ set: ordered({ skip: ['web-o1'] }), pods: [...pods('o', 1), ...fresh(4)] })).toBe(false);
    expect(isLeft({ set: onDelete(cloneSet()), pods: pods('o', 5) })).toBe(false);
  });

  it('is the way back, once an operator has taken the revision back', () => {
    const set = ordered({ undo: { ...by, to: oldName } });
    expect(isLeft({ set, pods: fresh(5) })).toBe(true);
    expect(isLeft({ set, pods: pods('o', 5) })).toBe(false);
  });
});

describe('what a roll-out is told', () => {
  const facts = (given: WorldFacts) => rollOutFacts(plan(given).situation);

  it('is what it has to know, and no pod', () => {
    expect(facts({ pods: pods('o', 5) })).toEqual({
      generation: 2,
      revision: newName,
      previous: oldName,
      replicas: 5,
    });
    expect(facts({ set: ordered({ paused: by }), pods: pods('o', 5) })).toMatchObject({ orders: { paused: by } });
  });

  it('names the revision before, also when all pods have left it', () => {
    const set = cloneSet({}, { status: { currentRevision: newName, updateRevision: newName } });
    expect(facts({ set, pods: fresh(5) })).toMatchObject({ previous: oldName });
    expect(facts({ set, pods: fresh(5), revisions: [newRevisionOfSet] })).not.toHaveProperty('previous');
  });
});

describe('orders in the annotation of a set', () => {
  it('take a revision back without anybody being asked: pods that are missing come as before', () => {
    const set = ordered({ undo: { ...by, to: oldName } });
    const made = plan({ set, pods: pods('o', 4) });
    expect(JSON.stringify(made.upkeep)).toContain(`"controller-revision-hash":"${oldName}"`);
    const back = plan({ set, pods: fresh(5), permit: permitForAll(oldName) });
    expect(back.disruption).toMatchObject([{ revision: oldName }]);
  });

  it('leave out the pods that an operator has named, though the permit does not know of it yet', () => {
    const set = ordered({ skip: ['web-o1'] });
    const given = { set, pods: pods('o', 5), permit: permit() };
    expect(plan(given).disruption).toMatchObject([{ pod: { name: 'web-o2' } }]);
  });

  it('stay as long as they are about this revision', () => {
    const given = [...pods('o', 3), ...fresh(2)];
    for (const orders of [{ paused: by }, { aborted: by }, { skip: ['web-o1'] }, { undo: { ...by, to: oldName } }]) {
      expect(ordersAfter({ set: ordered(orders), pods: given })).toEqual({ version: 3, revision: newName, ...orders });
    }
    const undone = { set: ordered({ undo: { ...by, to: oldName } }), pods: pods('o', 5) };
    expect(ordersAfter(undone)).toMatchObject({ undo: { to: oldName } });
  });

  it('go when the spec wants another revision, but for a pause', () => {
    const given = [...pods('o', 3), ...fresh(2)];
    const old = { revision: oldName };
    expect(ordersAfter({ set: ordered({ ...old, aborted: by, skip: ['x'] }), pods: given })).toBeUndefined();
    const paused = ordersAfter({ set: ordered({ ...old, aborted: by, paused: by }), pods: given });
    expect(paused).toEqual({ version: 4, revision: newName, paused: by });
  });

  it('go when all pods are where the spec wants them', () => {
    const over = { set: ordered({ paused: by, skip: ['web-o1'] }), pods: fresh(5) };
    expect(ordersAfter(over)).toBeUndefined();
    expect(ordersAfter({ ...over, pods: [...fresh(4), pod('web-o1')] })).toMatchObject({ paused: by });
  });

  it('are moved from the annotation of release 0.1.0 into the status, and count once', () => {
    const given = [...pods('o', 3), ...fresh(2)];
    const orders = { version: 3, revision: newName, paused: by };
    const annotations = { [windlassAnnotation.rollOut]: JSON.stringify(orders) };
    const removal = {
      kind: 'writeOwner',
      patch: { metadata: { annotations: { [windlassAnnotation.rollOut]: null } } },
    };
    const at = (rollOut: RollOutOrders | undefined, facts: Partial<WorldFacts> = {}) => {
      const set = cloneSet({}, { metadata: { annotations }, status: rollOut ? { rollOut } : {} });
      return { set, pods: given, ...facts };
    };
    const moved = plan(at(undefined));
    expect([moved.status?.rollOut, moved.disruption]).toEqual([orders, []]);
    expect(moved.upkeep).not.toContainEqual(removal);
    expect(plan(at(orders)).upkeep).toContainEqual(removal);
    // resumed: while the annotation is there, the status says that there are no orders
    const resumed = at({ version: 4, revision: newName });
    expect([ordersAfter(resumed), plan({ ...resumed, permit: permit() }).disruption.length]).toEqual([
      { version: 4, revision: newName },
      1,
    ]);
    expect(plan(resumed).upkeep).toContainEqual(removal);
    expect(ordersAfter(at(undefined, { pods: fresh(5) }))).toEqual({ version: 3, revision: newName });
    const odd = cloneSet({}, { metadata: { annotations: { [windlassAnnotation.rollOut]: '{' } } });
    expect(plan({ set: odd, pods: given }).upkeep).toContainEqual(removal);
  });

  it('keep the revision that they go back to, however few are to be kept', () => {
    const { status } = ordered({ undo: { ...by, to: oldName } });
    const set = cloneSet({ revisionHistoryLimit: 0 }, { status: { ...status, currentRevision: newName } });
    const given = { set, pods: fresh(5), revisions: [oldRevision, newRevisionOfSet] };
    expect(plan(given).upkeep.filter(({ kind }) => kind === 'deleteRevision')).toEqual([]);
  });
});
