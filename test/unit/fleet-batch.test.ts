import { describe, expect, it } from '@jest/globals';
import { ordersAnnotation, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { cloneSetWorkloads } from '../../workflows/plan/cloneset/planner.ts';
import { mostInBatch } from '../../workflows/plan/fleet/planner.ts';
import { cloneSet, newName, oldName, permit, pod, pods, type WorldFacts, world } from '../support/cloneset-world.ts';

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
      revision: newName,
      pods: ['web-o1', 'web-o2'].map((name) => ({
        ...{ namespace: 'shop', name, uid: `${name}-uid` },
        ...{ how: 'inPlace', containers: [['main']] },
      })),
    });
    const recreated = batch({ set: cloneSet({ rollingUpdate: { podUpdatePolicy: 'ReCreate' } }), pods: pods('o', 5) });
    expect(recreated).toMatchObject({ kind: 'pods', pods: [{ name: 'web-o1', how: 'recreate' }] });
  });

  it('is never longer than a line of a history can hold', () => {
    const set = cloneSet({ replicas: 100, rollingUpdate: { maxUnavailable: '100%' } });
    const chosen = batch({ set, pods: pods('o', 100) });
    expect(chosen.kind === 'pods' && chosen.pods).toHaveLength(mostInBatch);
  });

  it('says why nobody may go: the budget, an operator, a pause', () => {
    const down = pods('d', 1, { ready: false, revision: newName });
    expect(batch({ pods: [...down, ...pods('o', 4)] })).toMatchObject({
      kind: 'wait',
      wait: { reason: 'BudgetSpent' },
    });
    const orders: RollOutOrders = { version: 1, revision: newName, paused: { by: 'ann', at: '' } };
    const annotations = ordersAnnotation(orders) as Record<string, string>;
    const held = batch({ set: cloneSet({}, { metadata: { annotations } }), pods: pods('o', 5) });
    expect(held).toMatchObject({ kind: 'wait', wait: { reason: 'PausedByOperator' } });
    const paused = batch({ set: cloneSet({ rollingUpdate: { paused: true } }), pods: pods('o', 5) });
    expect(paused).toMatchObject({ kind: 'wait', wait: { reason: 'Paused' } });
  });

  it('is done when nothing is to be updated, and chooses the pods to take back during an undo', () => {
    expect(batch({ pods: fresh(5) })).toEqual({ kind: 'done' });
    const undo = { from: newName, to: oldName };
    const chosen = batch({ set: half, pods: [...fresh(2), ...pods('o', 3)], more: { undo } });
    expect(chosen).toMatchObject({ kind: 'pods', revision: oldName, pods: [{ name: 'web-n1' }, { name: 'web-n2' }] });
  });
});

describe('a permit that names pods', () => {
  const named = (...names: readonly string[]) => permit({ pods: names.map((name) => `${name}-uid`) });
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

  it('is done when each of them is of the revision and available, or gone', () => {
    const set = cloneSet({ replicas: 5 });
    const of = (facts: object) =>
      plan({ set, pods: [pod('web-a', facts), ...pods('o', 4)], permit: named('web-a', 'x') });
    expect(of({ revision: newName }).standing).toMatchObject({ kind: 'batchDone', arrived: 1 });
    expect(of({ revision: newName, ready: false }).standing.kind).toBe('waiting');
  });
});
