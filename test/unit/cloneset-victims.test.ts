import { describe, expect, it } from '@jest/globals';
import { chooseVictims, deletionCost, victimOrder } from '../../plan/cloneset/victims.ts';
import { earlier, fleet, newPodOf, now, type PodFacts, pod, template } from '../support/cloneset-world.ts';

const plain = template('nginx');
const nowhere = { template: plain, nodes: new Map<string, Readonly<Record<string, string>>>() };

function cost(value: string): PodFacts {
  return { annotations: { 'controller.kubernetes.io/pod-deletion-cost': value } };
}

/** The names of the pods in deletion order. */
function order(facts: Readonly<Record<string, PodFacts>>, place: Parameters<typeof victimOrder>[1] = nowhere) {
  const pods = Object.entries(facts).map(([name, fact]) => pod(name, { node: name, ...fact }));
  return victimOrder(fleet(...pods), place).map(({ name }) => name);
}

describe('victimOrder', () => {
  it('CS-41: pods without a node go first, then Pending, Unknown, Running', () => {
    const facts = {
      running: {},
      unknown: { phase: 'Unknown' },
      pending: { phase: 'Pending' },
      unassigned: { node: null, ...cost('100') },
    };
    expect(order(facts)).toEqual(['unassigned', 'pending', 'unknown', 'running']);
  });

  it('CS-41: pods that are not available go before others, and among them those that are not ready', () => {
    const facts = {
      working: cost('-1'),
      held: { state: 'PreparingNormal' as const },
      unready: { ready: false, ...cost('100') },
    };
    expect(order(facts)).toEqual(['unready', 'held', 'working']);
  });

  it('CS-41, CS-42: lower cost goes first, before age and restarts', () => {
    const facts = { dear: { ...cost('5'), restarts: 9 }, cheap: { ...cost('-5') }, none: { restarts: 3 } };
    expect(order(facts)).toEqual(['cheap', 'none', 'dear']);
  });

  it('CS-41: the pod that became ready last goes first, then the one that restarts more, then the newer', () => {
    expect(order({ old: {}, young: { ready: now } })).toEqual(['young', 'old']);
    expect(order({ steady: {}, flapping: { restarts: 2 } })).toEqual(['flapping', 'steady']);
    expect(order({ elder: { created: '2026-01-01T00:00:00Z' }, younger: { created: earlier } })).toEqual([
      'younger',
      'elder',
    ]);
  });

  it('CS-41: a ready pod of which nobody knows since when goes first', () => {
    const unknown = [{ type: 'Ready', status: 'True', lastTransitionTime: null }];
    expect(order({ known: { ready: now }, unknown: { conditions: unknown } })).toEqual(['unknown', 'known']);
  });

  it('decides the same for pods that nothing tells apart, in whatever order they come', () => {
    expect(order({ b: {}, a: {}, c: {} })).toEqual(order({ c: {}, b: {}, a: {} }));
  });

  it('CS-43: of pods on one node all but the worthiest are crowded, the least worthy most', () => {
    const facts = {
      alone: { node: 'n1', ready: now },
      crowd1: { node: 'n2' },
      crowd2: { node: 'n2', restarts: 1 },
      crowd3: { node: 'n2', restarts: 2 },
    };
    expect(order(facts)).toEqual(['crowd3', 'crowd2', 'alone', 'crowd1']);
  });

  it('CS-43: pods without a node crowd nobody', () => {
    const facts = { a: { node: null, restarts: 1 }, b: { node: null, restarts: 2 } };
    expect(order(facts)).toEqual(['b', 'a']);
  });

  describe('CS-43: with a topology spread in the template', () => {
    const zones = new Map([
      ['n1', { zone: 'a' }],
      ['n2', { zone: 'a' }],
      ['n3', { zone: 'a' }],
      ['n4', { zone: 'b' }],
    ]);
    const spread = (...keys: readonly string[]) => ({
      template: template('nginx', {
        topologySpreadConstraints: keys.map((topologyKey) => ({ topologyKey, maxSkew: 1 })),
      }),
      nodes: zones,
    });

    it('takes pods from the larger domain first', () => {
      const facts = { a1: { node: 'n1' }, a2: { node: 'n2' }, a3: { node: 'n3' }, b1: { node: 'n4', ready: now } };
      expect(order(facts, spread('zone'))).toEqual(['a1', 'a2', 'b1', 'a3']);
    });

    it('gives nothing to pods on nodes that are unknown or lack the label', () => {
      const facts = { known: { node: 'n4' }, lost: { node: 'gone', ready: now } };
      expect(order(facts, spread('zone'))).toEqual(['known', 'lost']);
    });

    it('ignores crowds on a node when the domain is the node, and counts them otherwise', () => {
      const hosts = new Map([...zones].map(([name, labels]) => [name, { ...labels, 'kubernetes.io/hostname': name }]));
      // within its zone the crowded pod goes first although the other one is less valuable
      const facts = { crowded: { node: 'n1' }, beside: { node: 'n1' }, lonely: { node: 'n2', restarts: 1 } };
      expect(order(facts, { ...spread('zone'), nodes: hosts })).toEqual(['beside', 'lonely', 'crowded']);
      expect(order(facts, { ...spread('kubernetes.io/hostname'), nodes: hosts })[0]).toBe('beside');
    });
  });
});

describe('deletionCost', () => {
  it.each([
    ['7', 7],
    ['-7', -7],
    ['0', 0],
    ['+7', 0],
    ['007', 0],
    ['-0', 0],
    ['7.5', 0],
    ['much', 0],
    ['2147483647', 2147483647],
    ['2147483648', 0],
    ['-2147483648', -2147483648],
  ])('CS-42: "%s" is %i', (text, expected) => {
    const [found] = fleet(pod('a', cost(text)));
    expect(found && deletionCost(found) + 0).toBe(expected);
  });

  it('CS-42: nothing is 0', () => {
    const [found] = fleet(pod('a'));
    expect(found && deletionCost(found)).toBe(0);
  });
});

describe('chooseVictims', () => {
  const old = fleet(pod('old1', { restarts: 1 }), pod('old2'), pod('old3', { ready: false }));
  const fresh = fleet(newPodOf('new1'), newPodOf('new2', { ready: false }));
  const choose = (count: number, countOld: number) =>
    chooseVictims({ old, fresh, count, countOld, ...nowhere }).map(({ name }) => name);

  it('CS-40: takes old pods first, at most as many as are too many, then new ones', () => {
    expect(choose(2, 2)).toEqual(['old3', 'old1']);
    expect(choose(3, 2)).toEqual(['old3', 'old1', 'new2']);
    expect(choose(1, 0)).toEqual(['new2']);
  });

  it('CS-40: never takes more than are asked for, whatever the number of old ones', () => {
    expect(choose(1, 3)).toEqual(['old3']);
    expect(choose(5, 3)).toHaveLength(5);
  });
});
