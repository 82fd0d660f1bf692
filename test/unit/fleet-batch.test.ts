import { describe, expect, it } from '@jest/globals';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { cloneSetWorkloads } from '../../plan/cloneset/planner.ts';
import { question } from '../../plan/fleet/permit.ts';
import { mostInAnswer, mostInBatch } from '../../plan/permits/in-flight.ts';
import {
  cloneSet,
  heldByOperator,
  newName,
  now,
  oldName,
  permit,
  pod,
  pods,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';
import { permitForAll } from '../support/permits.ts';

const planner = cloneSetWorkloads;
const fresh = (count: number) => pods('n', count, { revision: newName });
const half = cloneSet({ rollingUpdate: { maxUnavailable: '50%' } });

function batch(facts: WorldFacts) {
  return planner.chooseBatch(world(facts));
}

describe('chooseBatch', () => {
  it('names the pods that go next by UID, as many as the budget has room for, without a permit', () => {
    const inPlace = cloneSet({ rollingUpdate: { maxUnavailable: 2, podUpdatePolicy: 'InPlaceIfPossible' } });
    expect(batch({ set: inPlace, pods: pods('o', 5) })).toEqual({
      kind: 'pods',
      batch: {
        ...{ revision: newName, namespace: 'shop', how: 'inPlace', containers: [['main']] },
        pods: ['web-o1', 'web-o2'].map((name) => ({ name, uid: `${name}-uid` })),
      },
    });
    const recreated = batch({ set: cloneSet({ rollingUpdate: { podUpdatePolicy: 'ReCreate' } }), pods: pods('o', 5) });
    expect(recreated).toMatchObject({ kind: 'pods', batch: { how: 'recreate', pods: [{ name: 'web-o1' }] } });
  });

  it('is never longer than a line of a history can hold', () => {
    const set = cloneSet({ replicas: 100, rollingUpdate: { maxUnavailable: '100%' } });
    const chosen = batch({ set, pods: pods('o', 100) });
    expect(chosen.kind === 'pods' && chosen.batch.pods).toHaveLength(mostInBatch);
  });

  it('says why nobody may go: the budget, an operator, a pause', () => {
    const down = pods('d', 1, { ready: false, revision: newName });
    expect(batch({ pods: [...down, ...pods('o', 4)] })).toMatchObject({
      kind: 'wait',
      wait: { reason: 'BudgetSpent' },
    });
    const orders: RollOutOrders = { version: 1, revision: newName, paused: { by: 'ann', at: '' } };
    const held = batch({ set: cloneSet({}, { status: { rollOut: orders } }), pods: pods('o', 5) });
    expect(held).toMatchObject({ kind: 'wait', wait: { reason: 'PausedByOperator' } });
    const paused = batch({ set: cloneSet({ rollingUpdate: { paused: true } }), pods: pods('o', 5) });
    expect(paused).toMatchObject({ kind: 'wait', wait: { reason: 'Paused' } });
  });

  it('is done when nothing is to be updated, and chooses the pods to take back during an undo', () => {
    expect(batch({ pods: fresh(5) })).toEqual({ kind: 'done' });
    const undo = { from: newName, to: oldName };
    const chosen = batch({ set: half, pods: [...fresh(2), ...pods('o', 3)], more: { undo } });
    expect(chosen).toMatchObject({ batch: { revision: oldName, pods: [{ name: 'web-n1' }, { name: 'web-n2' }] } });
  });
});

describe('a permit that names pods', () => {
  const named = (...names: readonly string[]) =>
    permit({ pods: new Map(names.map((name) => [`${name}-uid`, newName])) });
  const plan = (facts: WorldFacts) => planner.plan(world(facts));

  it('lets these begin and no others', () => {
    const { disruption } = plan({ set: half, pods: pods('o', 5), permit: named('web-o2', 'web-o9') });
    expect(disruption).toMatchObject([{ pod: { name: 'web-o2' } }]);
  });

  it('does not oblige: what the budget has no room for stays', () => {
    const down = pod('web-d', { ready: false, revision: newName });
    const { disruption, standing } = plan({ pods: [down, ...pods('o', 4)], permit: named('web-o1') });
    expect(disruption).toEqual([]);
    expect(standing).toMatchObject({ kind: 'waiting', wait: { reason: 'BudgetSpent' } });
  });

  it('is told where each of them stands: one that is gone is missing', () => {
    const set = cloneSet({ replicas: 5 });
    const stands = (facts: object, more: WorldFacts['more'] = {}) =>
      plan({ set, pods: [pod('web-a', facts), ...pods('o', 4)], permit: permit(allNamed), more }).named;
    const allNamed = {
      pods: new Map([
        ['web-a-uid', newName],
        ['x', newName],
      ]),
    };
    const of = (facts: object, more: WorldFacts['more'] = {}) => stands(facts, more)?.pods.get('web-a-uid');
    expect(of({ revision: newName })).toEqual({ state: 'done' });
    expect(of({ revision: newName, ready: false })).toEqual({ state: 'underWay', doing: 'not ready' });
    expect(of({})).toEqual({ state: 'next' });
    const status = { rollOut: { version: 1, revision: newName, skip: ['web-a'] } };
    const skipping = { set: cloneSet({ replicas: 5 }, { status }), pods: [pod('web-a', {}), ...pods('o', 4)] };
    const { named: left } = plan({ ...skipping, permit: permit(allNamed) });
    expect(left?.pods.get('web-a-uid')).toEqual({ state: 'skipped' });
    expect(of({}, heldByOperator)).toEqual({ state: 'notNow', why: 'the roll-out is paused' });
    const slow = cloneSet({ replicas: 5, minReadySeconds: 30 });
    const young = plan({
      set: slow,
      pods: [pod('web-a', { revision: newName, ready: now })],
      permit: permit(allNamed),
    });
    expect(young.named?.pods.get('web-a-uid')).toMatchObject({ doing: 'ready for less than minReadySeconds' });
    expect(stands({})?.pods.has('x')).toBe(false);
    expect(stands({ revision: newName })).toMatchObject({ awaited: 0, progress: { of: 5, updated: 1, ready: 1 } });
  });

  it('that chooses is told which other pods may go, after those that it names', () => {
    const set = cloneSet({ rollingUpdate: { maxUnavailable: 2 } });
    const asked = permit({ pods: new Map([['web-o3-uid', newName]]), chooses: true });
    const { disruption, standing } = plan({ set, pods: pods('o', 5), permit: asked });
    expect(disruption).toMatchObject([{ pod: { name: 'web-o3' } }]);
    expect(standing).toMatchObject({ kind: 'pods', revision: newName, pods: [{ name: 'web-o1' }], more: false });
  });

  it('that chooses is told as many as an answer can hold, and whether there are more', () => {
    const told = (replicas: number) => {
      const set = cloneSet({ replicas, rollingUpdate: { maxUnavailable: '100%' } });
      const { standing } = plan({ set, pods: pods('o', replicas), permit: question });
      return standing.kind === 'pods' && [standing.pods.length, standing.more];
    };
    expect(told(mostInAnswer)).toEqual([mostInAnswer, false]);
    expect(told(mostInAnswer + 1)).toEqual([mostInAnswer, true]);
  });

  it('is for the revision that it names: a pod that is to get another one does not begin', () => {
    const given = [...fresh(2), ...pods('o', 3)];
    const undo = { from: newName, to: oldName };
    for (const { named: revision, more, begins } of [
      { named: newName, more: {}, begins: ['web-o1'] },
      { named: oldName, more: {}, begins: [] },
      { named: newName, more: { undo }, begins: [] },
      { named: oldName, more: { undo }, begins: ['web-n1'] },
    ]) {
      const { disruption } = plan({ pods: given, permit: permitForAll(revision), more });
      expect(disruption.map((step) => 'pod' in step && step.pod.name)).toEqual(begins);
    }
  });

  it('is told the revision that pods are brought to now, also when they go back', () => {
    const to = (facts: WorldFacts) => plan({ pods: [...fresh(4), ...pods('o', 1)], permit: question, ...facts });
    expect(to({}).named?.to).toBe(newName);
    expect(to({ more: { undo: { from: newName, to: oldName } } }).named?.to).toBe(oldName);
    const back = to({ set: cloneSet({ rollingUpdate: { partition: 4 } }), gates: ['CloneSetPartitionRollback'] });
    expect(back.named?.to).toBe(oldName);
    expect(back.standing).toMatchObject({ kind: 'pods', revision: oldName, pods: [{ name: 'web-n1' }] });
  });

  it('that names nobody is told of no pod, and nothing is told without a permit', () => {
    expect(plan({ pods: pods('o', 5) })).not.toHaveProperty('named');
    expect(plan({ pods: pods('o', 5), permit: question }).named?.pods.size).toBe(0);
  });
});
