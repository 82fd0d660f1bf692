import { describe, expect, it } from '@jest/globals';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import { ordersAnnotation, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
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

const by = { by: 'ann', at: '2026-11-21T06:00:00Z' };
const fresh = (count: number) => pods('n', count, { revision: newName });

function ordered(orders: Partial<RollOutOrders>) {
  const annotations = ordersAnnotation({ version: 3, revision: newName, ...orders }) as Record<string, string>;
  return cloneSet({}, { metadata: { annotations } });
}

function plan(facts: WorldFacts) {
  const made = planCloneSet(world(facts));
  if (!made.situation) throw new Error('nothing to decide');
  return { ...made, situation: made.situation };
}

/** The annotation after the plan; undefined when it is unchanged. */
function annotationAfter(facts: WorldFacts) {
  const [step] = plan(facts).upkeep.filter(({ kind }) => kind === 'writeOwner');
  return step?.kind === 'writeOwner' ? step.patch : undefined;
}

describe('whether there is anything to roll out', () => {
  const isLeft = (facts: WorldFacts) => isUpdateLeft(plan(facts).situation);

  it('is, as long as a pod has not been begun that is to be updated, whoever holds it up', () => {
    expect(isLeft({ pods: [...pods('o', 1), ...fresh(4)] })).toBe(true);
    expect(isLeft({ pods: fresh(5) })).toBe(false);
    expect(isLeft({ set: ordered({ aborted: by }), pods: pods('o', 5) })).toBe(true);
    expect(isLeft({ set: cloneSet({ rollingUpdate: { paused: true } }), pods: pods('o', 5) })).toBe(true);
  });

  it('is not for pods that the partition keeps, an operator leaves out, or the user deletes', () => {
    expect(isLeft({ set: cloneSet({ rollingUpdate: { partition: 2 } }), pods: [...pods('o', 2), ...fresh(3)] })).toBe(
      false,
    );
    expect(isLeft({ set: ordered({ skip: ['web-o1'] }), pods: [...pods('o', 1), ...fresh(4)] })).toBe(false);
    expect(isLeft({ pods: [...pods('o', 1), ...fresh(4)], permit: permit({ skip: ['web-o1'] }) })).toBe(false);
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
    const back = plan({ set, pods: fresh(5), permit: { revision: oldName } });
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
      expect(annotationAfter({ set: ordered(orders), pods: given })).toBeUndefined();
    }
    const undone = { set: ordered({ undo: { ...by, to: oldName } }), pods: pods('o', 5) };
    expect(annotationAfter(undone)).toBeUndefined();
  });

  it('go when the spec wants another revision, but for a pause', () => {
    const given = [...pods('o', 3), ...fresh(2)];
    const old = { revision: oldName };
    expect(annotationAfter({ set: ordered({ ...old, aborted: by, skip: ['x'] }), pods: given })).toEqual({
      metadata: { annotations: { [windlassAnnotation.rollOut]: null } },
    });
    expect(annotationAfter({ set: ordered({ ...old, aborted: by, paused: by }), pods: given })).toEqual({
      metadata: { annotations: ordersAnnotation({ version: 4, revision: newName, paused: by }) },
    });
  });

  it('go when all pods are where the spec wants them', () => {
    const over = { set: ordered({ paused: by, skip: ['web-o1'] }), pods: fresh(5) };
    expect(annotationAfter(over)).toEqual({ metadata: { annotations: { [windlassAnnotation.rollOut]: null } } });
    expect(annotationAfter({ ...over, pods: [...fresh(4), pod('web-o1')] })).toBeUndefined();
  });

  it('keep the revision that they go back to, however few are to be kept', () => {
    const { metadata } = ordered({ undo: { ...by, to: oldName } });
    const set = cloneSet({ revisionHistoryLimit: 0 }, { metadata, status: { currentRevision: newName } });
    const given = { set, pods: fresh(5), revisions: [oldRevision, newRevisionOfSet] };
    expect(plan(given).upkeep.filter(({ kind }) => kind === 'deleteRevision')).toEqual([]);
  });
});
