import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { mostTerms } from '../../api/fleet/update-order.ts';
import { updateOrder } from '../../plan/fleet/order.ts';
import { fleet, now, type PodFacts, pod } from '../support/cloneset-world.ts';

type Strategy = Parameters<typeof updateOrder>[2];

function order(facts: Readonly<Record<string, PodFacts>>, strategy: Strategy = {}, others = 0) {
  const pods = fleet(...Object.entries(facts).map(([name, fact]) => pod(name, fact)));
  const rest = fleet(...Array.from({ length: others }, (_, index) => pod(`other-${index}`)));
  return updateOrder(pods, [...pods, ...rest], strategy).map(({ name }) => name);
}

/** Pods `p01`, `p02`, … of which some have the label `color=red`. */
function painted(red: string): Readonly<Record<string, PodFacts>> {
  return Object.fromEntries(
    [...red].map((mark, index) => [
      `p${String(index + 1).padStart(2, '0')}`,
      { labels: { color: mark === 'r' ? 'red' : 'blue' } },
    ]),
  );
}

const byRed: Strategy = { scatterStrategy: [{ key: 'color', value: 'red' }] };

/** The positions of the red pods. */
function places(red: string, strategy = byRed): string {
  const facts = painted(red);
  return order(facts, strategy)
    .map((name) => (facts[name]?.labels?.color === 'red' ? 'r' : '.'))
    .join('');
}

describe('updateOrder', () => {
  it('CS-51: begins with the pods that are worth least', () => {
    const facts = {
      settled: {},
      recent: { ready: now },
      restarting: { restarts: 3 },
      unready: { ready: false },
      unknown: { phase: 'Unknown' },
      pending: { phase: 'Pending' },
      unassigned: { node: null },
    };
    const expected = ['unassigned', 'pending', 'unknown', 'unready', 'recent', 'restarting', 'settled'];
    expect(order(facts)).toEqual(expected);
  });

  it('CS-51: does not ask what a deletion costs', () => {
    const cheap = { annotations: { 'controller.kubernetes.io/pod-deletion-cost': '-5' } };
    expect(order({ a: {}, b: cheap })).toEqual(['a', 'b']);
  });

  it('CS-51: pods that wait for their update come before all others, in their order', () => {
    const facts = {
      a: { ready: false },
      b: { state: 'PreparingUpdate' as const },
      c: { state: 'PreparingUpdate' as const, restarts: 1 },
    };
    expect(order(facts)).toEqual(['c', 'b', 'a']);
  });

  it('CS-52: the larger sum of weights comes first; equals keep their order', () => {
    const weight = (key: string, value: string, points: number) => ({
      weight: points,
      matchSelector: { matchLabels: { [key]: value } },
    });
    const strategy: Strategy = {
      priorityStrategy: { weightPriority: [weight('tier', 'canary', 30), weight('zone', 'a', 40)] },
    };
    const facts = {
      none: {},
      noneRestarting: { restarts: 1 },
      canary: { labels: { tier: 'canary' } },
      zone: { labels: { zone: 'a' } },
      both: { labels: { tier: 'canary', zone: 'a' } },
    };
    expect(order(facts, strategy)).toEqual(['both', 'zone', 'canary', 'noneRestarting', 'none']);
  });

  it('CS-53: pods with none of the keys come first, then by key, larger numbers first', () => {
    const strategy: Strategy = {
      priorityStrategy: { orderPriority: [{ orderedKey: 'first' }, { orderedKey: 'second' }] },
    };
    const facts = {
      two9: { labels: { first: 'sts-9' } },
      two10: { labels: { first: 'sts-10' } },
      wordless: { labels: { first: 'sts' } },
      second: { labels: { second: '99' } },
      both: { labels: { first: '1', second: '100' } },
      none: {},
    };
    expect(order(facts, strategy)).toEqual(['none', 'two10', 'two9', 'both', 'wordless', 'second']);
  });

  it('CS-53: a number that fits nowhere counts as none', () => {
    const strategy: Strategy = { priorityStrategy: { orderPriority: [{ orderedKey: 'k' }] } };
    const facts = { huge: { labels: { k: '99999999999999999999' } }, one: { labels: { k: '1' } } };
    expect(order(facts, strategy)).toEqual(['one', 'huge']);
  });

  it('CS-54: 10 pods of which the first 3 match come at places 1, 6 and 10', () => {
    expect(places('rrr.......')).toBe('r....r...r');
  });

  it('CS-54: leaves the order alone when one of the two kinds has at most one pod', () => {
    expect(places('r.......')).toBe('r.......');
    expect(places('.rrrr')).toBe('.rrrr');
    expect(places('.....')).toBe('.....');
  });

  it('CS-54: spreads the thinner kind, whichever it is', () => {
    expect(places('rrrrrr..')).toBe('rrr.rr.r');
    expect(places('rrrr....')).toBe('r.r.r..r');
  });

  it('CS-54: the last one that matches is the very last', () => {
    expect(places('r.r.r.r.').at(-1)).toBe('r');
  });

  it('CS-54: candidates that are thinner than the whole set let the others go ahead', () => {
    const facts = painted('rr....');
    const all = { ...facts };
    const pods = fleet(...Object.entries(all).map(([name, fact]) => pod(name, fact)));
    const done = fleet(...Array.from({ length: 3 }, (_, index) => pod(`done-${index}`, { labels: { color: 'red' } })));
    const found = updateOrder(pods, [...pods, ...done], byRed).map(({ name }) => facts[name]?.labels?.color ?? '');
    expect(found.map((color) => color[0]).join('')).toBe('bbbrbr');
  });

  it('CS-54: several terms are applied one after the other, the more frequent one first', () => {
    const facts: Record<string, PodFacts> = {};
    for (let index = 0; index < 8; index++) {
      facts[`p${index}`] = { labels: { color: index < 4 ? 'red' : 'blue', size: index % 4 === 0 ? 'big' : 'small' } };
    }
    const terms = [
      { key: 'size', value: 'big' },
      { key: 'color', value: 'red' },
    ];
    expect(order(facts, { scatterStrategy: terms })).toEqual(order(facts, { scatterStrategy: terms.toReversed() }));
  });

  it('keeps every pod exactly once, whatever the strategy', () => {
    const anyPods = fc.array(fc.record({ red: fc.boolean(), big: fc.boolean(), preparing: fc.boolean() }), {
      maxLength: 14,
    });
    fc.assert(
      fc.property(anyPods, fc.nat({ max: 10 }), (given, others) => {
        const facts = Object.fromEntries(
          given.map(({ red, big, preparing }, index): [string, PodFacts] => [
            `p${index}`,
            {
              labels: { ...(red && { color: 'red' }), ...(big && { size: 'big' }) },
              ...(preparing && { state: 'PreparingUpdate' }),
            },
          ]),
        );
        const strategy: Strategy = {
          priorityStrategy: { weightPriority: [{ weight: 5, matchSelector: { matchLabels: { size: 'big' } } }] },
          scatterStrategy: [
            { key: 'color', value: 'red' },
            { key: 'size', value: 'big' },
          ],
        };
        expect(new Set(order(facts, strategy, others))).toEqual(new Set(Object.keys(facts)));
        expect(order(facts, strategy, others)).toHaveLength(Object.keys(facts).length);
      }),
    );
  });
});

describe('updateOrder of a set that was stored with more terms than it may have', () => {
  const facts = { a: { labels: { late: 'yes' } }, b: { labels: { soon: 'yes' } }, c: {} };
  const term = (key: string) => ({ weight: 1, matchSelector: { matchLabels: { [key]: 'yes' } } });

  it('goes by the first of them', () => {
    const fillers = Array.from({ length: mostTerms - 1 }, (_, index) => term(`filler-${index}`));
    const weightPriority = [...fillers, term('soon'), term('late'), term('late')];
    expect(order(facts, { priorityStrategy: { weightPriority } })[0]).toBe('b');
  });

  it('asks once for each pod and term, however many comparisons the sort takes', () => {
    let asked = 0;
    const matchLabels = Object.defineProperty({}, 'never', { enumerable: true, value: 'x' });
    const weightPriority = Array.from({ length: 4 * mostTerms }, () => ({ weight: 1, matchSelector: { matchLabels } }));
    const labels = new Proxy<Record<string, string>>(
      {},
      {
        getOwnPropertyDescriptor() {
          asked += 1;
          return undefined;
        },
      },
    );
    const pods = fleet(...Array.from({ length: 64 }, (_, index) => pod(`p${index}`, { labels })));
    for (const one of pods) Object.assign(one.pod.metadata, { labels });
    updateOrder(pods, pods, { priorityStrategy: { weightPriority } });
    expect(asked).toBeLessThanOrEqual(pods.length * mostTerms);
    expect(asked).toBeGreaterThan(0);
  });
});
