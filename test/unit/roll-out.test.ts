import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import { mostSkipBytes, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { batchesOf, batchOf, type ChosenPod, type PodBatch, type PodOutcome } from '../../plan/fleet/batch.ts';
import type { AnswerKind } from '../../plan/fleet/permit.ts';
import {
  asked,
  asks,
  begun,
  detailsOf,
  doneReason,
  type GivenCommand,
  handedInAgain,
  heard,
  inFlightText,
  isEnding,
  isOver,
  justPermitted,
  mayBegin,
  meantBy,
  phaseOf,
  type RollOutNews,
  type RollOutProgress,
  shownWait,
} from '../../plan/fleet/roll-out.ts';
import { isHeld, keptOrders, type OrderCommand, ordersAfter, toldOrders } from '../../plan/fleet/roll-out-orders.ts';
import { type AnswerOrder, type InFlight, mostInBatch, mostInFlight } from '../../plan/permits/in-flight.ts';
import '../support/property-seed.ts';

const at = '2026-11-21T06:13:44.000Z';
const nowMs = Date.parse(at);
const facts: RollOutFacts = { generation: 2, revision: 'web-2', previous: 'web-1', replicas: 100 };
const by = { by: 'ann', at };

let given = 0;

/** A command as a person gives it. */
interface Said {
  readonly kind: 'said';
  readonly name: OrderCommand['name'];
  readonly target?: string;
}

function command(name: Said['name'], target?: string): Said {
  return { kind: 'said', name, ...(target !== undefined && { target }) };
}

/** The command as it is given to the leading watcher, or why it is not. */
function meant(progress: RollOutProgress, { name, target }: Said): GivenCommand | { readonly refused: string } {
  const found = meantBy(progress, { name, target });
  return 'refused' in found ? found : { key: `run/${given++}`, name, ...by, ...found };
}

/** The progress once a command is received, which nobody has applied. */
function receiving(progress: RollOutProgress, said: Said): RollOutProgress {
  const found = meant(progress, said);
  return 'refused' in found ? progress : heard(progress, { kind: 'command', command: found });
}

const nothing: AnswerKind = { kind: 'nothing' };

/** What becomes of all commands when the leading watcher applies them, and answers this. */
function applying(progress: RollOutProgress, answer: AnswerKind = nothing): RollOutProgress {
  return progress.commands.reduce((before, one) => {
    const { orders: known, ...others } = before.facts;
    const { orders = known } = ordersAfter({ by: '', ...one }, { ...others, orders: known });
    const told = toldOrders(orders);
    const next = { ...answer, facts: { ...others, ...(told && { orders: told }) } };
    return heard(before, { kind: 'applied', key: one.key, next, atMs: nowMs });
  }, progress);
}

/** What follows from all of this, where commands are applied at once. */
function hearing(progress: RollOutProgress, ...news: readonly (RollOutNews | Said)[]): RollOutProgress {
  return news.reduce<RollOutProgress>(
    (before, one) => (one.kind === 'said' ? applying(receiving(before, one)) : heard(before, one)),
    progress,
  );
}

/** The question has been answered. */
function answer(answer: AnswerKind, { atMs = nowMs, ...more }: Told = {}): RollOutNews {
  return { kind: 'answer', answer: { ...answer, ...more }, atMs };
}

interface Told {
  readonly atMs?: number;
  /** What the object asks for, where that is another one than before. */
  readonly facts?: RollOutFacts;
  readonly order?: AnswerOrder;
}

/** A batch is through; its result brings an answer. */
function through(number: number, next: AnswerKind, pods: readonly PodOutcome[] = [], more: Told = {}): RollOutNews {
  const { atMs = nowMs, ...known } = more;
  const result = { summary: '9 of 100 pods are updated', pods, next: { ...next, ...known } };
  return { kind: 'carriedOut', number, result, atMs };
}

const changed: RollOutNews = { kind: 'changed' };
const lost = (number: number): RollOutNews => ({ kind: 'lost', number, why: 'failed by hand' });
const wait = (reason: string, blockedBy: readonly string[] = []) =>
  ({
    kind: 'wait',
    waitingFor: { reason, blockedBy, blockedCount: blockedBy.length, since: at, unblock: 'do something' },
  }) as const;
const chosen = (name: string): ChosenPod => ({
  ...{ namespace: 'shop', name, uid: `${name}-uid`, how: 'inPlace', containers: [['app']] },
});
const pods = (...names: readonly string[]) => ({
  ...({ kind: 'pods', more: false, of: 100, updated: 7 } as const),
  batches: batchesOf('web-2', names.map(chosen)),
});
const done = { kind: 'done', summary: '100 of 100' } as const;
/** The names of this many pods, from this number on. */
const many = (count: number, from = 0) => Array.from({ length: count }, (_, index) => `web-${from + index}`);

/** A roll-out that begins, and one that has asked. */
const beginning = begun(facts);
const start = asked(beginning);

/** The names of the pods of each batch in flight, by its number. */
function inFlight(progress: RollOutProgress): Readonly<Record<number, readonly string[]>> {
  return Object.fromEntries(progress.inFlight.map(({ number, batch }) => [number, batch.pods.map(({ name }) => name)]));
}

/** Why a command is refused, by the roll-out or by the leading watcher. */
function refusalOf(progress: RollOutProgress, said: Said): string | undefined {
  const found = meant(progress, said);
  if ('refused' in found) return found.refused;
  return ordersAfter({ by: '', ...found }, { ...progress.facts, orders: progress.facts.orders }).answer.refused;
}

function skipped(progress: RollOutProgress): readonly string[] {
  return progress.facts.orders?.skip ?? [];
}

describe('a roll-out asks', () => {
  it('P-3: which pods go next, once: the result of each batch brings the next answer', () => {
    expect([asks(beginning), asks(start)]).toEqual([true, false]);
    const first = hearing(start, answer(pods('web-a', 'web-b')));
    expect(first).toMatchObject({ next: 2, summary: '7 of 100 pods are of revision web-2', mustAsk: false });
    expect(first.inFlight).toMatchObject([{ number: 1, startedAtMs: nowMs, batch: { revision: 'web-2' } }]);
    expect(inFlight(first)).toEqual({ 1: ['web-a', 'web-b'] });
    const second = hearing(first, through(1, pods('web-c')));
    expect([inFlight(second), asks(second)]).toEqual([{ 2: ['web-c'] }, false]);
  });

  it('and is told what has become of each batch, in any order', () => {
    const both = hearing(start, answer(pods('web-a', 'web-b')), answer(pods('web-c')));
    const outcome = (pod: string, why?: string) =>
      ({ pod, how: 'inPlace', ...(why !== undefined && { why }) }) as const;
    const after = { atMs: nowMs + 4_000 };
    const later = hearing(both, through(2, nothing, [outcome('web-c')], after));
    expect(later.inFlight.map(({ number }) => number)).toEqual([1]);
    const outcomes = [outcome('web-a', 'not now: the budget'), outcome('web-b')];
    const last = hearing(later, through(1, wait('BudgetSpent'), outcomes, after));
    expect([last.inFlight, last.summary]).toEqual([[], '9 of 100 pods are updated']);
    expect(last.log).toEqual([
      'batch 2: 1 pods in 4 s; 9 of 100 pods are updated',
      'batch 1: 1 pods in 4 s; not web-a: not now: the budget; 9 of 100 pods are updated',
    ]);
    expect(hearing(last, through(1, pods('web-d')))).toEqual(last);
  });

  it('P-2: and has an answer of 200 pods carried out in batches of 40, which are in flight together', () => {
    const all = hearing(start, answer(pods(...many(200))));
    expect(all.inFlight.map(({ number, batch }) => [number, batch.pods.length])).toEqual([
      [1, mostInBatch],
      [2, mostInBatch],
      [3, mostInBatch],
      [4, mostInBatch],
      [5, mostInBatch],
    ]);
    expect([all.next, asks(all)]).toEqual([6, false]);
  });

  it('P-3: and permits no pod again that is in one of its batches', () => {
    const first = hearing(start, answer(pods('web-a', 'web-b')));
    const both = hearing(first, answer(pods('web-b', 'web-c')));
    expect(inFlight(both)).toEqual({ 1: ['web-a', 'web-b'], 2: ['web-c'] });
    const same = hearing(both, answer(pods('web-a', 'web-c')));
    expect([inFlight(same), same.next, asks(same)]).toEqual([inFlight(both), both.next, false]);
    // what has come back may go again
    const back = hearing(both, through(1, pods('web-a', 'web-c')));
    expect(inFlight(back)).toEqual({ 2: ['web-c'], 3: ['web-a'] });
  });

  it('P-3: and permits a pod once that the results of two batches name', () => {
    const both = hearing(start, answer(pods('web-a')), answer(pods('web-b')));
    const one = hearing(both, through(2, pods('web-c', 'web-d')), through(1, pods('web-c', 'web-d')));
    expect([inFlight(one), asks(one)]).toEqual([{ 3: ['web-c', 'web-d'] }, false]);
  });

  it('P-1: and has 25 batches in flight at most; the result of the next that ends brings the answer', () => {
    let progress = start;
    for (let nth = 0; nth < mostInFlight - 1; nth++) progress = hearing(progress, answer(pods(`web-a${nth}`)));
    const full = hearing(progress, answer({ ...pods(...many(2 * mostInBatch)), more: true }));
    expect([full.inFlight.length, full.next, asks(full)]).toEqual([mostInFlight, mostInFlight + 1, false]);
    const still = hearing(full, answer({ ...pods(...many(2 * mostInBatch)), more: true }));
    expect([inFlight(still), still.next, asks(still)]).toEqual([inFlight(full), full.next, false]);
    const next = hearing(still, through(3, pods(...many(mostInBatch, mostInBatch))));
    expect([next.inFlight.length, next.inFlight.at(-1)?.number]).toEqual([mostInFlight, mostInFlight + 1]);
  });

  it('P-2: again at once where more may go', () => {
    const first = hearing(start, answer({ ...pods(...many(200)), more: true }));
    expect([first.inFlight.length, asks(first)]).toEqual([5, true]);
    const rest = hearing(asked(first), answer(pods(...many(20, 200))));
    expect([rest.inFlight.length, asks(rest)]).toEqual([6, false]);
  });

  it('P-2: and then names 200 pods at most that it has just permitted, also when several results come in one task', () => {
    const all = many(25).reduce(
      (before, _, nth) => hearing(before, answer({ ...pods(...many(mostInBatch, nth * mostInBatch)), more: true })),
      start,
    );
    expect(justPermitted(all, nowMs).flatMap(({ uids }) => uids)).toHaveLength(200);
  });

  it('P-2: not for ever where its batches do not get there, and says which it has just permitted', () => {
    const more = { ...pods(...many(200)), more: true };
    const first = hearing(start, answer(pods('web-a')), answer(more, { atMs: nowMs + 1 }));
    expect(justPermitted(first, nowMs + 1_000).map(({ revision, uids }) => [revision, uids.length])).toEqual(
      Array.from({ length: 5 }, () => ['web-2', mostInBatch]),
    );
    expect(justPermitted(first, nowMs + 1_001)).toEqual([]);
    const stuck = hearing(asked(first), answer(more, { atMs: nowMs + 2 }));
    expect([asks(stuck), inFlight(stuck)]).toEqual([false, inFlight(first)]);
    // the leading watcher wakes it, or a batch ends
    expect(asks(hearing(stuck, changed))).toBe(true);
    expect(asks(hearing(stuck, through(2, { ...pods(...many(40, 200)), more: true })))).toBe(true);
  });

  it('F5: again when the activity of a batch was ended by hand, and does not end with it', () => {
    const first = hearing(start, answer(pods('web-a')), answer(done));
    const ended = hearing(first, lost(1));
    expect(ended).toMatchObject({ inFlight: [], log: ['100 of 100', 'batch 1: failed by hand'] });
    expect([asks(ended), isOver(ended)]).toEqual([true, false]);
    expect(inFlight(hearing(asked(ended), answer(pods('web-a'))))).toEqual({ 2: ['web-a'] });
  });

  it('P-5: once more when it is woken while it asks, however often', () => {
    const woken = hearing(start, changed, changed);
    const answered = hearing(woken, answer(wait('BudgetSpent')));
    expect(asks(answered)).toBe(true);
    const again = hearing(asked(answered), answer(wait('BudgetSpent')));
    expect(asks(again)).toBe(false);
  });
});

describe('a wait', () => {
  const waiting = hearing(start, answer(wait('BudgetSpent', ['pod/web-a'])));

  it('P-4: is not asked about until the roll-out is woken, also while a batch is in flight, and stays in sight', () => {
    for (const before of [start, hearing(start, answer(pods('web-b')))]) {
      const held = hearing(before, answer(wait('BudgetSpent', ['pod/web-a'])));
      expect([asks(held), isOver(held), detailsOf(held)]).toEqual([
        ...[false, false],
        expect.stringContaining('BudgetSpent (pod/web-a)'),
      ]);
    }
    const woken = hearing(waiting, changed);
    expect([asks(woken), woken.waitingFor]).toEqual([true, waiting.waitingFor]);
    expect(asked(woken).waitingFor).toEqual(waiting.waitingFor);
  });

  it('is over with the next answer that has none', () => {
    const woken = asked(hearing(waiting, changed));
    for (const next of [pods('web-a'), done]) expect(hearing(woken, answer(next))).not.toHaveProperty('waitingFor');
    const other = hearing(woken, answer(wait('NotReady')));
    expect([other.waitingFor?.reason, asks(other)]).toEqual(['NotReady', false]);
    expect(hearing(asked(hearing(woken, answer(nothing))), answer(nothing))).not.toHaveProperty('waitingFor');
  });

  it('P-3: is over with a command, whose result says what may go', () => {
    const retried = applying(receiving(waiting, command('retry')), pods('web-a'));
    expect([inFlight(retried), asks(retried)]).toEqual([{ 1: ['web-a'] }, false]);
    expect(retried).not.toHaveProperty('waitingFor');
  });

  it('P-3: is asked about after a command of which the result does not say what may go', () => {
    const received = receiving(waiting, command('retry'));
    const [{ key = '' } = {}] = received.commands;
    const unknown = heard(received, { kind: 'applied', key, next: undefined, atMs: nowMs });
    expect([unknown.commands, asks(unknown)]).toEqual([[], true]);
  });

  it('of an operator is asked about once when the roll-out is woken', () => {
    const paused = hearing(start, command('pause'));
    const held = hearing(paused, answer(wait('PausedByOperator')));
    const woken = hearing(held, changed);
    expect([asks(held), asks(woken), phaseOf(woken)]).toEqual([false, true, 'Paused']);
    expect(asks(hearing(asked(woken), answer(wait('PausedByOperator'))))).toBe(false);
  });
});

describe('the wait BatchNotRunning', () => {
  const first = hearing(start, answer(pods('web-a')), answer(pods('web-b')));
  const laterMs = (ms: number) => ({ atMs: nowMs + ms });
  /** Pods are named, and once more later. */
  const twice = (progress: RollOutProgress, names: readonly string[], ms = 5_000) =>
    hearing(progress, answer(pods(...names), laterMs(1_000)), answer(pods(...names), laterMs(1_000 + ms)));

  it('P-2: is shown when pods that were permitted are named for five seconds, and not before', () => {
    expect(twice(first, ['web-a'], 4_999)).not.toHaveProperty('waitingFor');
    const stuck = twice(first, ['web-a']);
    expect(stuck.waitingFor).toMatchObject({
      ...{ reason: 'BatchNotRunning', since: at, blockedBy: ['batch/1'], blockedCount: 1 },
    });
    expect(detailsOf(stuck)).toContain('BatchNotRunning (batch/1): The pods of these batches may go');
    expect(twice(first, ['web-a', 'web-b']).waitingFor).toMatchObject({
      blockedBy: ['batch/1', 'batch/2'],
      blockedCount: 2,
    });
  });

  it('is not shown after a change of the leader, which names them once', () => {
    const once = hearing(first, answer(pods('web-a'), laterMs(3_600_000)), answer(nothing, laterMs(3_610_000)));
    expect(once).not.toHaveProperty('waitingFor');
    // and so does the one after that, hours later
    expect(hearing(once, answer(pods('web-a'), laterMs(9_000_000)))).not.toHaveProperty('waitingFor');
  });

  it('names the first five batches', () => {
    const names = many(8);
    const eight = names.reduce((before, name) => hearing(before, answer(pods(name))), start);
    const { waitingFor } = twice(eight, names);
    expect([waitingFor?.blockedBy.length, waitingFor?.blockedCount]).toEqual([5, 8]);
  });

  it('is not shown while other pods may go, unless no further batch may', () => {
    const goesOn = hearing(
      first,
      answer(pods('web-a'), laterMs(1_000)),
      answer(pods('web-a', 'web-c'), laterMs(9_000)),
    );
    expect([inFlight(goesOn)[3], goesOn.waitingFor]).toEqual([['web-c'], undefined]);
    const full = many(mostInFlight).reduce((before, name) => hearing(before, answer(pods(name))), start);
    expect(twice(full, ['web-0', 'web-x']).waitingFor).toMatchObject({
      reason: 'BatchNotRunning',
      blockedBy: ['batch/1'],
    });
  });

  it('goes away with the next answer: a batch is through, was ended, or its pods are not named any more', () => {
    const stuck = twice(first, ['web-a']);
    expect(hearing(stuck, through(1, nothing))).not.toHaveProperty('waitingFor');
    expect(hearing(stuck, answer(nothing))).not.toHaveProperty('waitingFor');
    const ended = hearing(asked(hearing(stuck, lost(1))), answer(pods('web-a'), laterMs(7_000)));
    expect([inFlight(ended), ended.waitingFor]).toEqual([{ 2: ['web-b'], 3: ['web-a'] }, undefined]);
  });
});

it('P-11: the next run brings the batches in flight again, so that the leading watcher may not have them when it is asked', () => {
  const { next, inFlight } = hearing(start, answer(pods('web-a', 'web-b')));
  const later = nowMs + 60_000;
  const again = begun(facts, { next, inFlight });
  expect(justPermitted(again, later)).toEqual([{ revision: 'web-2', uids: ['web-a-uid', 'web-b-uid'] }]);
  expect(justPermitted(hearing(again, answer(nothing)), later)).toEqual([]);
});

describe('an answer that meets a hold', () => {
  it.each(['pause', 'abort'] as const)(
    'P-9: of %s permits nothing, and is asked again once that is applied',
    (name) => {
      const held = hearing(receiving(start, command(name)), answer(pods('web-a')));
      expect([inFlight(held), asks(held), held.mustAsk]).toEqual([{}, false, true]);
      const applied = applying(held, wait('PausedByOperator'));
      expect([asks(applied), applied.waitingFor?.reason]).toEqual([true, 'PausedByOperator']);
    },
  );

  it('P-9: and came with the result of a batch, or of a command before it, permits nothing', () => {
    const first = hearing(start, answer(pods('web-a')));
    const held = hearing(receiving(first, command('pause')), through(1, pods('web-b')));
    expect([inFlight(held), asks(held)]).toEqual([{}, false]);
    const both = receiving(receiving(start, command('retry')), command('pause'));
    const [{ key = '' } = {}] = both.commands;
    const retried = heard(both, { kind: 'applied', key, next: pods('web-a'), atMs: nowMs });
    expect([inFlight(retried), phaseOf(retried), asks(retried)]).toEqual([{}, 'Paused', false]);
  });

  it('P-8: is asked again when a resume drops the hold', () => {
    const held = hearing(receiving(start, command('pause')), answer(pods('web-a')));
    const resumed = receiving(held, command('resume'));
    expect(asks(resumed)).toBe(true);
    expect(inFlight(hearing(asked(resumed), answer(pods('web-a'))))).toEqual({ 1: ['web-a'] });
  });

  it('P-9: is not waited for: while a hold is on its way nothing is asked', () => {
    const held = receiving(start, command('pause'));
    expect([asks(hearing(held, changed)), asks(applying(hearing(held, changed)))]).toEqual([false, true]);
    const withdrawn = hearing(receiving(hearing(start, answer(pods('web-a'))), command('pause')), lost(1));
    expect([asks(withdrawn), asks(applying(withdrawn))]).toEqual([false, true]);
  });
});

describe('an answer from before the last command', () => {
  it('neither holds nor ends what the command has freed', () => {
    const paused = hearing(start, command('pause'));
    const undoing = hearing(receiving(paused, command('undo')), answer(wait('PausedByOperator')));
    const freed = applying(undoing, pods('web-a'));
    expect([phaseOf(freed), freed.waitingFor, inFlight(freed)]).toEqual(['Undoing', undefined, { 1: ['web-a'] }]);

    const undone = hearing(receiving(start, command('undo')), answer(done));
    expect([isEnding(undone), isOver(undone)]).toEqual([false, false]);
    expect(applying(undone, pods('web-a'))).not.toHaveProperty('end');
  });
});

describe('a roll-out', () => {
  it('P-5: ends when all is done, unless it has to ask', () => {
    const ended = hearing(start, answer(done));
    expect(ended).toMatchObject({ end: 'done', summary: '100 of 100', log: ['100 of 100'] });
    expect([phaseOf(ended), isOver(ended)]).toEqual(['Completed', true]);
    for (const woken of [hearing(start, changed, answer(done)), hearing(start, answer(done), changed)]) {
      expect([isEnding(woken), isOver(woken), asks(woken)]).toEqual([false, false, true]);
      expect(isOver(hearing(asked(woken), answer(done)))).toBe(true);
    }
  });

  it('P-5: goes on after it was done when it is woken, and pods may go again', () => {
    const woken = asked(hearing(start, answer(done), changed));
    const newer = { ...facts, generation: 3, replicas: 120 };
    const goesOn = hearing(woken, answer(pods('web-a'), { facts: newer }));
    expect(goesOn).not.toHaveProperty('end');
    expect([inFlight(goesOn), isOver(goesOn), phaseOf(goesOn)]).toEqual([{ 1: ['web-a'] }, false, 'RollingOut']);
    expect(goesOn.facts).toEqual(newer);
  });

  it('is not done any more when the question fails that it asks since', () => {
    const woken = asked(hearing(start, answer(done), changed));
    const failed = heard(woken, { kind: 'notAnswered', waitingFor: wait('Invalid').waitingFor });
    expect([isEnding(failed), asks(failed), shownWait(failed)?.reason]).toEqual([false, false, 'Invalid']);
    expect(asks(hearing(failed, changed))).toBe(true);
  });

  it('ends with the last batch in flight, and says once that all is done', () => {
    const ending = hearing(start, answer(pods('web-a')), answer(done));
    expect([isEnding(ending), isOver(ending)]).toEqual([true, false]);
    const over = hearing(ending, through(1, done));
    expect([isOver(over), over.summary]).toEqual([true, '100 of 100']);
    expect(over.log.filter((line) => line === '100 of 100')).toHaveLength(1);
  });

  it('P-3: an answer that comes after a later one of the same leader says nothing', () => {
    const both = hearing(start, answer(pods('web-a')), answer(pods('web-b')));
    const [earlier, later] = [1, 2].map((nth) => ({ order: { term: 'a', nth } }));
    for (const newer of [done, wait('BudgetSpent')]) {
      for (const older of [nothing, wait('NotReady'), pods('web-c'), done]) {
        const known = hearing(both, through(2, newer, [], later));
        const overtaken = hearing(known, through(1, older, [], earlier));
        expect(overtaken).toMatchObject({ ...known, inFlight: [], log: expect.anything() });
      }
    }
  });

  it('P-6: what comes with a result of another leader says nothing, and is a reason to ask', () => {
    const both = hearing(start, answer(pods('web-a'), { order: { term: 'a', nth: 1 } }));
    const asking = asked(both);
    for (const next of [done, wait('NotReady'), pods('web-b')]) {
      const other = hearing(asking, through(1, next, [], { order: { term: 'b', nth: 1 } }));
      expect([asks(other), isOver(other), other.waitingFor, other.inFlight]).toEqual([true, false, undefined, []]);
    }
  });

  it('P-6: batches that were named by an earlier leader are handed in again, under numbers of their own', () => {
    const of = (term: string, nth: number): Told => ({ order: { term, nth }, atMs: nowMs + nth });
    const before = hearing(
      start,
      answer(pods('web-a'), of('a', 1)),
      through(1, pods('web-b', 'web-c'), [], of('a', 2)),
    );
    const [batch] = before.inFlight;
    const heardOf = hearing(before, answer(pods('web-b', 'web-c', 'web-d'), of('b', 3)));
    const after = handedInAgain(heardOf, nowMs + 4);
    expect(after.inFlight).toEqual([
      expect.objectContaining({ number: 3, term: 'b', batch: batchOf('web-2', [chosen('web-d')]) }),
      { ...batch, number: 4, startedAtMs: nowMs + 4, term: 'b' },
    ]);
    expect(after.log.at(-1)).toBe('another watcher leads: handed in again are batches 2, as 4');
    // what becomes of the earlier one says nothing, whoever answers; the later one is what is waited for
    const late = [lost(2), through(2, done, [], of('a', 9)), through(2, done, [], of('b', 9))];
    for (const news of late) expect(hearing(after, news)).toEqual(after);
    expect(handedInAgain(hearing(after, answer(nothing, of('b', 4))), nowMs).inFlight).toEqual(after.inFlight);
    // its result is among the news
    const ended = handedInAgain(hearing(heardOf, through(2, nothing, [], of('a', 4))), nowMs);
    expect(ended.inFlight.map(({ number }) => number)).toEqual([3]);
  });

  it('P-6: no batch is handed in again while a hold is on its way', () => {
    const before = hearing(start, answer(pods('web-a'), { order: { term: 'a', nth: 1 } }));
    const other = answer(nothing, { order: { term: 'b', nth: 1 } });
    const again = (progress: RollOutProgress) => handedInAgain(progress, nowMs);
    const held = hearing(receiving(before, command('pause')), other);
    expect(again(held).inFlight).toEqual(before.inFlight);
    const gone = hearing(before, answer({ kind: 'withdrawn' }, { order: { term: 'b', nth: 1 } }));
    expect(again(gone).inFlight).toEqual(before.inFlight);
    // nor is one that was answered before the hold was read
    const both = receiving(again(hearing(before, other)), command('pause'));
    expect([mayBegin(both), mayBegin(again(hearing(before, other))).length]).toEqual([[], 1]);
    // then it is given back by the watcher that leads
    const [{ key } = { key: '' }] = held.commands;
    const next = { ...nothing, order: { term: 'b', nth: 2 } };
    const applied = hearing(held, { kind: 'applied', key, next, atMs: nowMs });
    expect(again(applied).inFlight).toMatchObject([{ number: 2, term: 'b' }]);
  });

  it('turns to a newer revision, and does not go back with an answer that is older', () => {
    const newer = { ...facts, generation: 3, revision: 'web-3' };
    const turned = hearing(start, answer(nothing, { facts: newer }));
    expect([turned.facts, turned.log]).toEqual([newer, ['revision web-3 is now the update revision']]);
    const late = hearing(turned, answer(nothing, { facts }), through(1, nothing, [], { facts }));
    expect([late.facts, late.log]).toEqual([turned.facts, turned.log]);
    expect(hearing(turned, answer(nothing)).facts).toEqual(newer);
    const scaled = hearing(turned, answer(nothing, { facts: { ...newer, generation: 4, replicas: 7 } }));
    expect([scaled.facts.replicas, scaled.log]).toEqual([7, turned.log]);
  });

  it('ends when its object is gone, whatever else it hears', () => {
    const withdrawn: RollOutNews = { kind: 'withdrawn' };
    const first = hearing(start, answer(pods('web-a')));
    for (const gone of [
      hearing(start, withdrawn, command('resume')),
      heard(receiving(start, command('pause')), withdrawn),
      hearing(start, answer({ kind: 'withdrawn' }), changed),
      hearing(first, through(1, { kind: 'withdrawn' })),
      hearing(first, withdrawn, through(1, pods('web-b'))),
      hearing(first, withdrawn, lost(1)),
      hearing(start, withdrawn, answer(pods('web-a')), answer(done)),
    ]) {
      expect([gone.end, isOver(gone), asks(gone), inFlight(gone)]).toEqual(['withdrawn', true, false, {}]);
    }
  });

  it('says all there is to say', () => {
    const waiting = hearing(start, command('pause'), command('skip', 'web-a'));
    const told = hearing(waiting, answer(wait('PausedByOperator', ['pod/web-a'])));
    expect(detailsOf(told).split('\n\n')).toEqual([
      'Paused: revision web-2, 100 pods',
      `paused by ann at ${at}`,
      'skipped: web-a',
      `waits since ${at}: PausedByOperator (pod/web-a): do something`,
    ]);
  });

  it('continues in the next run with its batches and commands, and asks', () => {
    const before = receiving(hearing(start, answer(pods('web-a'))), command('skip', 'web-b'));
    const next = begun(facts, before);
    expect([asks(next), inFlight(next), next.next]).toEqual([true, { 1: ['web-a'] }, 2]);
    expect(next.commands).toEqual(before.commands);
    // it hands its batches in anew, and the answer may come before they are there
    expect(inFlight(hearing(asked(next), answer(pods('web-a', 'web-c'))))).toEqual({ 1: ['web-a'], 2: ['web-c'] });
  });
});

describe('a roll-out that has ended', () => {
  it('waits for nothing, and has nothing in flight', () => {
    const told = hearing(start, command('pause'), answer(wait('PausedByOperator', ['pod/web-a'])));
    const gone = heard(told, { kind: 'withdrawn' });
    const [first = ''] = detailsOf(gone, true).split('\n\n');
    expect(first).toBe('Deleted: revision web-2, 100 pods');
    expect(detailsOf(gone, true)).not.toContain('waits since');
    const flying = heard(hearing(start, answer(pods('web-a'))), { kind: 'withdrawn' });
    expect(detailsOf(flying)).toContain('batch 1 in flight');
    expect(detailsOf(flying, true)).not.toContain('in flight');
  });
});

describe('an undo', () => {
  it('is named by what it does, and the roll-out ends as rolled back, unless it is taken back', () => {
    const back = hearing(start, command('undo'));
    const inFlight: InFlight<PodBatch> = { number: 1, batch: batchOf('web-1', [chosen('web-a')]), startedAtMs: 0 };
    expect(phaseOf(back)).toBe('Undoing');
    expect(inFlightText(back, inFlight)).toBe('undo: update web-a in place');
    expect(inFlightText(start, inFlight)).toBe('update web-a in place');
    expect(doneReason(start)).toBe('RolledOut');
    const ended = hearing(back, answer({ kind: 'done', summary: 'all' }));
    expect([ended.end, doneReason(ended)]).toEqual(['done', 'RolledBack']);
    expect(doneReason(hearing(ended, command('resume')))).toBe('RolledOut');
  });
});

describe('a command', () => {
  it('P-9: pause holds at once; resume ends what is applied once it is applied itself', () => {
    const paused = receiving(start, command('pause'));
    expect(paused.commands).toMatchObject([{ name: 'pause', at }]);
    expect([phaseOf(paused), detailsOf(paused)]).toEqual([
      'Paused',
      expect.stringContaining(`pause by ann at ${at}: not applied yet`),
    ]);
    const held = applying(paused, wait('PausedByOperator'));
    expect([phaseOf(held), asks(held)]).toEqual(['Paused', false]);
    const resumed = receiving(held, command('resume'));
    expect([phaseOf(resumed), asks(resumed)]).toEqual(['Paused', false]);
    const freed = applying(resumed, pods('web-a'));
    expect([phaseOf(freed), inFlight(freed)]).toEqual(['RollingOut', { 1: ['web-a'] }]);
  });

  it('P-8: resume drops a pause that is not applied yet, and else says what it takes back', () => {
    const both = receiving(receiving(start, command('pause')), command('resume'));
    expect(both.commands).toMatchObject([{ name: 'resume', takesBack: 'unwritten' }]);
    // also where the pause has never got there
    expect(ordersAfter({ by: '', ...both.commands[0] } as OrderCommand, { ...facts, orders: undefined })).toEqual({
      answer: {},
    });
    expect(phaseOf(both)).toBe('RollingOut');
    expect(inFlight(hearing(both, answer(pods('web-a'))))).toEqual({ 1: ['web-a'] });
    const undone = hearing(start, command('undo'));
    expect(meant(undone, command('resume'))).toMatchObject({ takesBack: 'undo' });
    expect(meant(hearing(undone, command('pause')), command('resume'))).toMatchObject({ takesBack: 'hold' });
  });

  it('P-8: is applied once, though an attempt has lost its answer', () => {
    const scene = { revision: 'web-2', previous: 'web-1' };
    const order = (name: OrderCommand['name'], key: string, more: Partial<OrderCommand> = {}): OrderCommand => ({
      ...{ key, name, ...by },
      ...more,
    });
    const paused = ordersAfter(order('pause', 'a'), { ...scene, orders: undefined }).orders;
    const resume = order('resume', 'b', { takesBack: 'hold' });
    const resumed = ordersAfter(resume, { ...scene, orders: paused }).orders;
    const undone = ordersAfter(order('undo', 'c'), { ...scene, orders: resumed }).orders;
    expect(ordersAfter(resume, { ...scene, orders: undone })).toEqual({ answer: {} });
    expect(ordersAfter(order('undo', 'c'), { ...scene, orders: undone })).toEqual({ answer: { target: 'web-1' } });
    // and one that was not applied takes back nothing but what its sender has seen
    const late = order('resume', 'd', { takesBack: 'hold' });
    expect(ordersAfter(late, { ...scene, orders: undone }).answer).toHaveProperty('refused');
  });

  it('P-8: takes back an order of a clock that is ahead, or whose time says nothing', () => {
    const scene = { revision: 'web-2', nowMs: Date.parse(by.at) };
    const resume: OrderCommand = { key: 'b', name: 'resume', ...by, takesBack: 'hold' };
    const resumedAt = (at: string) =>
      ordersAfter(resume, { ...scene, orders: { ...{ version: 1, revision: 'web-2' }, paused: { ...by, at } } });
    for (const at of ['2199-01-01T00:00:00.000Z', 'some day', ''])
      expect(resumedAt(at).orders).not.toHaveProperty('paused');
    // while clocks differ by little it counts as given later
    const soon = new Date(scene.nowMs + 5_000).toISOString();
    expect(resumedAt(soon).answer).toEqual({ refused: expect.stringContaining(`since, at ${soon}`) });
  });

  it('abort holds for one revision, pause for the next one, too', () => {
    const newer = ({ facts: { orders } }: RollOutProgress): RollOutNews => {
      const known = { ...facts, generation: 3, revision: 'web-3', ...(orders && { orders }) };
      return answer(nothing, { facts: known });
    };
    const aborted = hearing(start, command('abort'));
    expect(phaseOf(aborted)).toBe('Aborted');
    expect(phaseOf(hearing(aborted, newer(aborted)))).toBe('RollingOut');
    const paused = hearing(start, command('pause'));
    expect(phaseOf(hearing(paused, newer(paused)))).toBe('Paused');
    expect(phaseOf(hearing(aborted, command('retry')))).toBe('RollingOut');
  });

  it('P-5: an aborted one ends when nothing is in flight any more, and goes on when that is taken back before', () => {
    const aborted = { kind: 'aborted', summary: '1 of 100 pods are of revision web-2', isIdle: true } as const;
    const held = applying(receiving(hearing(start, answer(pods('web-a'))), command('abort')), aborted);
    expect([held.end, phaseOf(held), isEnding(held), isOver(held)]).toEqual(['aborted', 'Aborted', true, false]);
    const ended = hearing(held, through(1, aborted));
    expect([isOver(ended), detailsOf(ended, true)]).toEqual([true, expect.stringContaining(aborted.summary)]);
    const resumed = receiving(held, command('resume'));
    expect(isEnding(resumed)).toBe(false);
    expect(applying(resumed, pods('web-b'))).not.toHaveProperty('end');
    // a run that has begun with orders of long ago, as with the input of another one, does not tell what is to be taken back
    const undo = { ...by, to: 'web-1' };
    const late = begun({ ...facts, orders: { version: 1, revision: 'web-2', undo } });
    expect(meantBy(late, command('resume'))).toEqual({});
    const orders = { version: 2, revision: 'web-2', undo, aborted: by };
    const resume = { key: 'r/1', name: 'resume', by: 'ann', at: '2026-11-21T07:00:00.000Z' } as const;
    expect(ordersAfter(resume, { ...facts, orders }).orders).toMatchObject({ undo });
    expect(ordersAfter({ ...resume, takesBack: 'undo' }, { ...facts, orders }).orders).toMatchObject({ aborted: by });
    // what begins, and hears that, ends as well
    expect(isOver(hearing(start, answer(aborted)))).toBe(true);
  });

  it('undo goes back to the revision before, also from a pause; resume takes it back when nothing is held', () => {
    const undone = hearing(start, command('pause'), command('undo'));
    const revisionIn = (progress: RollOutProgress) => detailsOf(progress).split('\n\n')[0];
    expect(revisionIn(undone)).toBe('Undoing: revision web-1, 100 pods');
    const held = hearing(undone, command('pause'));
    expect(revisionIn(held)).toBe('Paused: revision web-1, 100 pods');
    expect(revisionIn(hearing(held, command('resume')))).toBe('Undoing: revision web-1, 100 pods');
    const freed = hearing(held, command('resume'), command('resume'));
    expect(revisionIn(freed)).toBe('RollingOut: revision web-2, 100 pods');
    const { previous: _, ...first } = facts;
    expect(refusalOf(begun(first), command('undo'))).toBe('no earlier revision is kept');
  });

  it('skip leaves out the pod that it names, or those that are waited for; retry takes them up again', () => {
    const waiting = hearing(start, answer(wait('NotReady', ['pod/web-a', 'pod/web-b', 'temporal'])));
    expect(skipped(hearing(waiting, command('skip')))).toEqual(['web-a', 'web-b']);
    const named = hearing(start, command('skip', 'web-c'), command('skip', 'pod/web-d'));
    expect(skipped(named)).toEqual(['web-c', 'web-d']);
    expect(skipped(hearing(named, command('retry')))).toEqual([]);
  });

  it('P-8: skip without a target is left to the leading watcher, unless the wait that is shown names pods', () => {
    const first = hearing(start, answer(pods('web-a')));
    const named = hearing(first, answer(pods('web-a'), { atMs: nowMs + 1_000 }));
    const stuck = hearing(named, answer(pods('web-a'), { atMs: nowMs + 9_000 }));
    expect(stuck.waitingFor?.blockedBy).toEqual(['batch/1']);
    const told = hearing(start, answer(wait('NotReady', ['pod/web-a'])));
    const since = hearing(told, command('skip', 'web-c'));
    for (const progress of [start, first, stuck, hearing(start, answer(wait('Denied'))), since]) {
      const left = meant(progress, command('skip'));
      expect(left).toMatchObject({ name: 'skip' });
      expect(left).not.toHaveProperty('pods');
    }
    expect(meant(told, command('skip'))).toMatchObject({ pods: ['web-a'] });
  });

  it('skip and retry take a pod, a pod with its namespace, or all pods of a batch in flight', () => {
    const inShop = asked(begun(facts, { namespace: 'shop' }));
    const first = hearing(inShop, answer(pods('web-a', 'web-b')));
    const three = hearing(first, command('skip', 'batch 1'), command('skip', 'shop/web-c'));
    expect(skipped(three)).toEqual(['web-a', 'web-b', 'web-c']);
    expect(skipped(hearing(three, command('retry', 'pod/web-b')))).toEqual(['web-a', 'web-c']);
    expect(skipped(hearing(three, command('retry', 'Batch 1')))).toEqual(['web-c']);
    expect(refusalOf(first, command('skip', 'batch 7'))).toMatch(/batch 7 is not in flight/);
    expect(refusalOf(first, command('retry', 'other/web-a'))).toMatch(/in namespace shop, not in other/);
  });

  it('skip stays small enough for a history', () => {
    let progress = start;
    for (let pod = 0; pod < 200; pod++) {
      progress = hearing(progress, command('skip', `web-${'x'.repeat(60)}-${pod}`));
    }
    expect(jsonBytes(skipped(progress))).toBeLessThanOrEqual(mostSkipBytes);
    expect(refusalOf(progress, command('skip', 'x'.repeat(99)))).toMatch(/no more pods/);
  });

  it('that cannot be applied is a wait, and changes nothing', () => {
    const { waitingFor } = wait('Denied');
    const refused = heard(receiving(start, command('undo')), { kind: 'notApplied', waitingFor });
    expect([phaseOf(refused), asks(refused)]).toEqual([phaseOf(start), false]);
    // also while the roll-out waits for something else
    const both = hearing(refused, answer(wait('BudgetSpent')));
    expect([shownWait(both)?.reason, detailsOf(both)]).toEqual([
      'Denied',
      expect.stringMatching(/undo by ann .*: not applied yet(?:.|\n)*Denied: do something(?:.|\n)*BudgetSpent/),
    ]);
    expect(shownWait(applying(both))).toBeUndefined();
  });

  it('is refused where twenty others wait to be applied, unless it holds', () => {
    let progress = start;
    for (let nth = 0; nth < 20; nth++) progress = receiving(progress, command('skip', `web-${nth}`));
    expect(refusalOf(progress, command('skip', 'web-x'))).toMatch(/^20 commands before it are not applied yet/);
    const held = receiving(progress, command('pause'));
    expect(phaseOf(held)).toBe('Paused');
    expect(refusalOf(held, command('pause'))).toMatch(/^21 commands before it/);
    expect(refusalOf(held, command('abort'))).toBeUndefined();
  });

  it('is waited for by a roll-out that is done', () => {
    const ended = hearing(receiving(start, command('undo')), answer(done));
    expect([ended.end, isOver(ended)]).toEqual(['done', false]);
    expect(isOver(applying(ended, done))).toBe(true);
    expect(applying(ended, pods('web-a'))).not.toHaveProperty('end');
  });
});

describe('orders in the object', () => {
  const orders = { version: 4, revision: 'web-2', aborted: by };

  it('hold for a roll-out that begins, of another revision only a pause', () => {
    expect(phaseOf(begun({ ...facts, orders }))).toBe('Aborted');
    expect(phaseOf(begun({ ...facts, orders: { ...orders, revision: 'web-1' } }))).toBe('RollingOut');
    expect(phaseOf(begun({ ...facts, orders: { ...orders, revision: 'web-1', paused: by } }))).toBe('Paused');
  });

  it('P-10: are what the watcher has answered last, whoever has given them', () => {
    const held = hearing(start, answer(wait('Aborted'), { facts: { ...facts, orders } }));
    expect([phaseOf(held), shownWait(held)?.reason]).toEqual(['Aborted', 'Aborted']);
    const freed = hearing(held, changed, answer(pods('web-a'), { facts }));
    expect([phaseOf(freed), inFlight(freed)]).toEqual(['RollingOut', { 1: ['web-a'] }]);
  });

  it('go once they are void', () => {
    const where = { revision: 'web-2', isRolledOut: false };
    const kept = (rollOut?: RollOutOrders, at = where) =>
      keptOrders({ metadata: {}, status: rollOut ? { rollOut } : {} }, at);
    expect(kept()).toBeUndefined();
    expect(kept(orders)).toEqual(orders);
    expect(kept(orders, { ...where, isRolledOut: true })).toBeUndefined();
    expect(kept({ ...orders, revision: 'web-1' })).toBeUndefined();
    expect(kept({ version: 1, revision: 'web-2' })).toBeUndefined();
    // while something is rolled out, commands may be given once more
    const applied = { version: 1, revision: 'web-2', applied: ['a'] };
    expect(kept(applied)).toEqual(applied);
    expect(kept(applied, { ...where, isRolledOut: true })).toBeUndefined();
  });

  it('never grow beyond what a history takes, and after any commands a resume or two hold nothing', () => {
    const names = fc.constantFrom('pause', 'resume', 'retry', 'skip', 'abort', 'undo');
    const anyCommand = fc.record({
      name: names,
      by: fc.string({ maxLength: 300, unit: 'grapheme' }),
      target: fc.string({ minLength: 1, maxLength: 253 }),
    });
    fc.assert(
      fc.property(fc.array(anyCommand, { maxLength: 40 }), (commands) => {
        let progress = start;
        let stored: RollOutOrders | undefined;
        for (const { name, by: who, target } of commands) {
          const said = command(name, name === 'skip' || name === 'retry' ? target : undefined);
          const found = meant(progress, said);
          if ('refused' in found) continue;
          const { orders: made } = ordersAfter({ ...found, by: who }, { ...facts, orders: stored });
          if (made) expect(made.version).toBe((stored?.version ?? 0) + 1);
          stored = made ?? stored;
          const told = toldOrders(stored);
          const next = { ...nothing, facts: { ...facts, ...(told && { orders: told }) } };
          progress = heard(heard(progress, { kind: 'command', command: found }), {
            ...{ kind: 'applied', key: found.key, next, atMs: nowMs },
          });
          expect(jsonBytes(progress.facts.orders ?? {})).toBeLessThan(2_700);
          expect(jsonBytes(stored ?? {})).toBeLessThan(4_100);
          expect(isHeld(stored)).toBe(phaseOf(progress) === 'Paused' || phaseOf(progress) === 'Aborted');
        }
        const freed = hearing(progress, command('resume'), command('resume'), command('retry'));
        expect(isHeld(freed.facts.orders)).toBe(false);
        expect(['RollingOut', 'Undoing']).toContain(phaseOf(freed));
      }),
    );
  });
});

describe('a question that comes to nothing', () => {
  const { waitingFor } = wait('Parked');
  const failed = heard(start, { kind: 'notAnswered', waitingFor });

  it('F5: is shown, and asked again after a pause, or when somebody asks for it', () => {
    expect(asks(failed)).toBe(false);
    expect(detailsOf(failed)).toContain('Parked: do something');
    expect(asks(hearing(failed, changed))).toBe(true);
    const retried = applying(receiving(failed, command('retry')), pods('web-a'));
    expect([inFlight(retried), shownWait(retried)]).toEqual([{ 1: ['web-a'] }, undefined]);
  });

  it('F5: leaves batches in flight alone, and one of them may bring the answer', () => {
    const first = hearing(start, answer(pods('web-a')));
    const both = heard(first, { kind: 'notAnswered', waitingFor });
    expect(inFlight(both)).toEqual({ 1: ['web-a'] });
    const goesOn = hearing(both, through(1, pods('web-b')));
    expect([inFlight(goesOn), shownWait(goesOn)]).toEqual([{ 2: ['web-b'] }, undefined]);
  });
});
