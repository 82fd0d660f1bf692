import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Fleet } from '../support/permit-play/cluster.ts';
import { type Act, Play, plain, type Setting } from '../support/permit-play/play.ts';
import type { Command, CommandName, Rules } from '../support/permit-play/protocol.ts';
import { calm, type Fate } from '../support/permit-play/temporal.ts';

const at = fc.integer({ min: 0, max: 11 });
const elapse = fc.record({
  act: fc.constant('elapse' as const),
  ms: fc.constantFrom(1, 3, 5, 8, 13, 30, 100, 300, 600, 2_000, 6_000, 11_000, 65_000, 700_000),
});
const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 12, arbitrary: elapse },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant('newLeader' as const),
      old: fc.constantFrom(
        'clean' as const,
        'fenced' as const,
        'unaware' as const,
        'frozen' as const,
        'crashed' as const,
      ),
      gapMs: fc.constantFrom(0, 0, 5_000, 90_000),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      act: fc.constantFrom('reset' as const, 'pauseActivity' as const, 'cancelActivity' as const, 'breakDown' as const),
      at,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      act: fc.constantFrom('command' as const, 'command' as const, 'annotate' as const),
      name: fc.constantFrom('pause', 'resume', 'resume', 'abort', 'undo', 'retry'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      act: fc.constantFrom(
        'edit',
        'terminate',
        'handOver',
        'unpauseActivities',
        'loseTemporal',
        'temporalIsBack',
        'refuseItems',
        'refuseOrders',
        'acceptAll',
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constantFrom('delete', 'edit', 'edit') }) },
) as fc.Arbitrary<Act>;

const fates = (...all: Fate[]) => fc.array(fc.constantFrom(...all), { maxLength: 5 });
const setting: fc.Arbitrary<Setting> = fc.record({
  fleet: fc.record({
    size: fc.constantFrom(1, 3, 6, 12, 90),
    maxUnavailable: fc.constantFrom(1, 2, 50),
    readyAfterMs: fc.constantFrom(0, 50, 1_000, 30_000),
  }),
  delays: fc.record({
    drainMs: fc.array(fc.constantFrom(0, 1, 30, 400, 2_500), { minLength: 1, maxLength: 3 }),
    writeMs: fc.array(fc.constantFrom(0, 2, 30, 500), { minLength: 1, maxLength: 3 }),
    cacheMs: fc.array(fc.constantFrom(0, 3, 300), { minLength: 1, maxLength: 3 }),
  }),
  fates: fc.record({
    signals: fates('arrives', 'lost', 'twice', 'late'),
    results: fates('arrives', 'arrives', 'lost', 'late'),
    tasks: fates('arrives', 'arrives', 'late'),
  }),
});

const orderAct = fc.oneof(
  { weight: 3, arbitrary: elapse },
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constant('command' as const),
      name: fc.constantFrom('pause', 'resume', 'abort', 'undo'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constantFrom('reset', 'pauseActivity', 'cancelActivity'), at }) },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant('newLeader' as const),
      old: fc.constantFrom('clean', 'fenced', 'unaware', 'frozen', 'crashed'),
      gapMs: fc.constantFrom(0, 5_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constantFrom(
        'handOver',
        'unpauseActivities',
        'loseTemporal',
        'temporalIsBack',
        'refuseOrders',
        'acceptAll',
      ),
    }),
  },
) as fc.Arbitrary<Act>;

const runs = { numRuns: Number(process.env.PLAYS ?? 200) };

/** A roll-out under way, after these acts. */
function played(given: Setting, acts: readonly Act[], changed: Partial<Rules> = {}): Play {
  const play = new Play(given, changed);
  play.cluster.edit();
  for (const one of acts) play.do(one);
  return play;
}

/** By then every permit has ended of which nothing was heard. */
const holdsAfterMs = 20_000;

/** What stands after these commands, by their senders' wish: of each kind of order the key. */
class Wished {
  orders: readonly { readonly name: CommandName; readonly key: string }[] = [];

  /** Infinity: it is not held. */
  heldSinceMs = Number.POSITIVE_INFINITY;

  given({ name, key, takesBack }: Command, nowMs: number): void {
    const isHold = (other: CommandName) => other === 'pause' || other === 'abort';
    // also one that nobody could be shown yet
    const isTakenBack = (other: CommandName) =>
      name === 'undo' ? other === 'abort' : name === 'resume' && isHold(other);
    const left = this.orders.filter((order) => !takesBack.includes(order.key) && !isTakenBack(order.name));
    this.orders = name === 'resume' || name === 'retry' ? left : [...left, { name, key }];
    if (!this.orders.some((order) => isHold(order.name))) this.heldSinceMs = Number.POSITIVE_INFINITY;
    else if (this.heldSinceMs === Number.POSITIVE_INFINITY) this.heldSinceMs = nowMs;
  }
}

/** All faults end, and every hold is taken back: then it has to come to its end. */
function ended(play: Play, { fleet }: Setting, acts: readonly Act[]): readonly unknown[] {
  play.calm();
  // what was refused is tried again late, unless somebody asks for it
  if (acts.some((one) => one.act === 'refuseItems' || one.act === 'refuseOrders')) play.command('retry');
  play.clock.elapse(120_000);
  for (let round = 0; round < 2 && play.isHeld; round++) {
    play.command('resume');
    play.clock.elapse(60_000);
  }
  play.clock.elapse(1_800_000 + Math.ceil(fleet.size / fleet.maxUnavailable) * (fleet.readyAfterMs + 5_000));
  return [play.wrongs, play.isRolledOut, play.temporal.runId];
}
const asItShould = [[], true, undefined];

/** Which orders stand after these acts, which should, and what else is wrong. */
function obeyed(given: Setting, acts: readonly Act[], changed: Partial<Rules> = {}) {
  const play = played(given, [], changed);
  const wished = new Wished();
  const late: number[] = [];
  play.clock.elapse(2_000);
  for (const one of acts) {
    if (one.act !== 'command') play.do(one);
    // nobody receives it otherwise
    else if (play.temporal.runId !== undefined && !play.temporal.isAway) {
      wished.given(play.command(one.name), play.clock.nowMs);
    }
    if (play.cluster.lastBegunAtMs >= wished.heldSinceMs + holdsAfterMs) late.push(play.cluster.lastBegunAtMs);
  }
  play.calm();
  play.clock.elapse(120_000);
  play.command('retry');
  play.clock.elapse(120_000);
  const names = (orders: Wished['orders']) =>
    [...new Set(orders.map(({ name }) => name))].toSorted((one, other) => one.localeCompare(other));
  return {
    stand: names(play.cluster.orders.standing),
    wished: names(wished.orders),
    wrongs: [...play.wrongs, ...late],
  };
}

const day = 24 * 3_600_000;
const week = 7 * day;

function rolledOut(fleet: Partial<Fleet>, ms: number, changed: Partial<Rules> = {}, acts: readonly Act[] = []): Play {
  const play = new Play({ ...plain, fleet: { ...twenty, ...fleet } }, changed);
  for (const one of acts) play.do(one);
  play.cluster.edit();
  play.clock.elapse(ms);
  expect(play.wrongs).toEqual([]);
  return play;
}
const twenty: Fleet = { size: 20, maxUnavailable: 4, readyAfterMs: 0 };
const never = Number.POSITIVE_INFINITY;

describe('the permit protocol, played', () => {
  it('disrupts within the budget what a permit names, stops at a pause, and ends, whatever is lost, late or done by hand', () => {
    fc.assert(
      fc.property(setting, fc.array(act, { maxLength: 40 }), (given, acts) => {
        const play = played(given, acts);
        expect(play.wrongs).toEqual([]);
        expect(ended(play, given, acts)).toEqual(asItShould);
      }),
      runs,
    );
  });

  it('does what operators have last ordered, whatever is lost, late or applied again', () => {
    fc.assert(
      fc.property(setting, fc.array(orderAct, { maxLength: 25 }), (given, acts) => {
        const { stand, wished, wrongs } = obeyed(given, acts);
        expect([stand, wrongs]).toEqual([wished, []]);
      }),
      runs,
    );
  });

  it('names every item that may go within three seconds of another leader', () => {
    const how = fc.constantFrom('clean' as const, 'fenced' as const, 'crashed' as const);
    fc.assert(
      fc.property(setting, how, fc.integer({ min: 0, max: 3_000 }), (given, old, afterMs) => {
        const play = played({ ...given, fates: calm }, []);
        play.clock.elapse(afterMs);
        play.newLeader(old);
        play.clock.elapse(1_000 + 10);
        const atFirst = play.leader?.mayGo ?? [];
        play.clock.elapse(3_000);
        const { leader } = play;
        expect(leader?.mayGo.filter((uid) => atFirst.includes(uid))).toEqual([]);
        // that a run is open of an object that is not wanted any more is seen when runs are listed
        expect(play.isRolledOut || (leader && play.temporal.areBatchesWith(leader))).toBe(true);
      }),
      runs,
    );
  });

  const readyAfter = fc.constantFrom(1_000, Number.POSITIVE_INFINITY);
  it('ends within two minutes of a leader being back when the object was deleted meanwhile', () => {
    fc.assert(
      fc.property(setting, readyAfter, fc.integer({ min: 0, max: 700_000 }), (given, readyAfterMs, afterMs) => {
        const play = played({ ...given, fates: calm, fleet: { ...given.fleet, readyAfterMs } }, []);
        play.clock.elapse(afterMs);
        play.newLeader('crashed', 600_000);
        play.clock.elapse(300_000);
        play.cluster.remove();
        play.clock.elapse(301_000 + 120_000);
        expect([play.leader?.term, play.temporal.runId]).toEqual([2, undefined]);
      }),
      runs,
    );
  });
});

describe('what the permit protocol costs, in billable actions', () => {
  it('is little while nothing changes, whatever has happened, is refused or is paused by hand', () => {
    fc.assert(
      fc.property(
        setting,
        fc.constantFrom(1_000, never),
        fc.array(act, { maxLength: 40 }),
        (given, readyAfterMs, acts) => {
          const play = played({ ...given, fleet: { ...given.fleet, readyAfterMs } }, acts);
          play.temporal.fates = calm;
          play.temporal.setAway(false);
          play.clock.elapse(2 * 3_600_000);
          const { billed } = play.temporal;
          play.clock.elapse(day);
          expect(play.temporal.billed - billed).toBeLessThanOrEqual(350);
        },
      ),
      { numRuns: Math.ceil(runs.numRuns / 10) },
    );
  });

  it.each<[what: string, limit: number, fleet: Partial<Fleet>, ms: number, acts: readonly Act[]]>([
    ['20 items at 20 %, available at once', 30, {}, 60_000, []],
    ['20 items at 20 %, available after 60 s', 75, { readyAfterMs: 60_000 }, 3_600_000, []],
    [
      '500 items one by one, available after 60 s',
      1_600,
      { size: 500, maxUnavailable: 1, readyAfterMs: 60_000 },
      10 * 3_600_000,
      [],
    ],
    ['items that never become available, in a week', 60, { readyAfterMs: never }, week, []],
    [
      'items that change between two waits, in a week',
      60,
      { readyAfterMs: never, alternatesEveryMs: 30_000 },
      week,
      [],
    ],
    ['items that do so slowly, in a week', 60, { readyAfterMs: never, alternatesEveryMs: 900_000 }, week, []],
    ['writes that are refused, in a week', 600, { readyAfterMs: 1_000 }, week, [{ act: 'refuseItems' }]],
  ])('%s: at most %i', (_, limit, fleet, ms, acts) => {
    expect(rolledOut(fleet, ms, {}, acts).temporal.billed).toBeLessThanOrEqual(limit);
  });

  it('asks a few times after a reset to the first workflow task behind fifty batches, whatever these were', () => {
    const play = rolledOut({ size: 60, maxUnavailable: 1, readyAfterMs: 1_000 }, 50_500);
    const { questions } = play.temporal.counts;
    play.temporal.reset(0);
    play.clock.elapse(60_000);
    expect(play.cluster.disruptions).toBe(60);
    // the first finds the budget spent by what has begun, and signals that are applied again ask once more each
    expect(play.temporal.counts.questions - questions).toBeLessThanOrEqual(4);
  });
});

/** Each rule that the first proposal lacked, and a play that ends well with it only. */
describe('the rules that plays have shown to be needed', () => {
  const calmly = { ...plain, fleet: { size: 1, maxUnavailable: 1, readyAfterMs: 0 } };

  it('confirms the attempt of another run before it ends the permits of the last one', () => {
    const given: Setting = {
      ...{ ...calmly, fates: { ...calm, tasks: ['arrives', 'late'] } },
      delays: { drainMs: [400], writeMs: [0], cacheMs: [0] },
    };
    const acts: readonly Act[] = [
      { act: 'elapse', ms: 2_000 },
      { act: 'command', name: 'pause' },
      { act: 'reset', at: 1 },
    ];
    expect(ended(played(given, acts), given, acts)).toEqual(asItShould);
    expect(ended(played(given, acts, { runsAreConfirmed: false }), given, acts)).not.toEqual(asItShould);
  });

  it('takes orders back by their keys, so a resume that is late leaves a later pause alone', () => {
    const given: Setting = { ...calmly, fates: { ...calm, tasks: ['late'] } };
    const acts: readonly Act[] = [
      { act: 'command', name: 'resume' },
      { act: 'command', name: 'pause' },
    ];
    expect(obeyed(given, acts)).toMatchObject({ stand: ['pause'], wished: ['pause'] });
    expect(obeyed(given, acts, { takenBackByKey: false })).toMatchObject({ stand: [] });
  });

  it('keeps each order under its key, so one that is late does not replace a later one', () => {
    const given: Setting = {
      fleet: { size: 1, maxUnavailable: 1, readyAfterMs: 30_000 },
      ...{ delays: { drainMs: [0], writeMs: [0, 30], cacheMs: [0] }, fates: calm },
    };
    const acts: readonly Act[] = [
      ...[{ act: 'command', name: 'pause' } as const, { act: 'command', name: 'pause' } as const],
      ...[{ act: 'elapse', ms: 13 } as const, { act: 'command', name: 'resume' } as const],
      { act: 'command', name: 'pause' },
    ];
    expect(obeyed(given, acts)).toMatchObject({ stand: ['pause'], wished: ['pause'] });
    expect(obeyed(given, acts, { ordersStandByKey: false })).toMatchObject({ stand: [] });
  });

  it('ends a hold that is not written with its run', () => {
    const acts: readonly Act[] = [
      ...[
        { act: 'elapse', ms: 500 } as const,
        { act: 'refuseOrders' } as const,
        { act: 'command', name: 'pause' } as const,
      ],
      ...[{ act: 'elapse', ms: 65_000 } as const, { act: 'terminate' } as const],
    ];
    expect(ended(played(plain, acts), plain, acts)).toEqual(asItShould);
    expect(ended(played(plain, acts, { holdsEndWithRun: false }), plain, acts)).not.toEqual(asItShould);
  });

  it('takes along to the next run that it was woken and has not asked', () => {
    const acts: readonly Act[] = [{ act: 'elapse', ms: 4 }, { act: 'handOver' }, { act: 'elapse', ms: 1_000 }];
    expect(played(calmly, acts).isRolledOut).toBe(true);
  });

  it('applies a command once, so an undo stands that came after a resume of which the answer was lost', () => {
    const given = { ...plain, fleet: { ...plain.fleet, readyAfterMs: 60_000 } };
    const play = played(given, [
      ...[{ act: 'elapse', ms: 500 } as const, { act: 'command', name: 'undo' } as const],
      { act: 'elapse', ms: 1_000 },
    ]);
    play.temporal.fates = { ...calm, results: ['lost'] };
    play.command('resume');
    play.clock.elapse(1_000);
    play.temporal.fates = calm;
    play.do({ act: 'annotate', name: 'undo' });
    play.clock.elapse(60_000);
    expect(play.cluster.orders.standing).toEqual([{ name: 'undo', key: 'undo 3' }]);
  });

  it('rests after a batch that was refused as a whole', () => {
    const acts: readonly Act[] = [{ act: 'refuseItems' }];
    expect(rolledOut({}, week, { refusalsRest: false }, acts).temporal.billed).toBeGreaterThan(600);
  });

  it('tries an order again later and later', () => {
    const acts: readonly Act[] = [{ act: 'refuseOrders' }, { act: 'edit' }, { act: 'elapse', ms: 10 }];
    const held: readonly Act[] = [...acts, { act: 'command', name: 'pause' }];
    expect(rolledOut({}, day, {}, held).temporal.billed).toBeLessThan(100);
    expect(rolledOut({}, day, { ordersRest: false }, held).temporal.billed).toBeGreaterThan(10_000);
  });

  it('counts an answer for all that may go, and for longer each time that it comes to nothing', () => {
    const paused = (changed: Partial<Rules>, ms: number) => {
      const play = new Play({ ...plain, fleet: twenty }, changed);
      play.cluster.edit();
      // its first batch is on its way to the watcher
      play.clock.elapse(13);
      play.do({ act: 'pauseActivity', at: 0 });
      play.clock.elapse(ms);
      return play.temporal.billed;
    };
    expect(paused({}, day)).toBeLessThan(320);
    expect(paused({ answersLast: false }, day)).toBeGreaterThan(10_000);
    expect(paused({ answersPayAll: false }, 600_000)).toBeGreaterThan(2_000);
  });
});
