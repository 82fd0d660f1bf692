import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  answered,
  handedIn,
  type Known,
  nothingPaid,
  nothingSent,
  owedFromMs,
  type Paid,
  type Sent,
  sendAtMs,
  went,
} from '../../plan/permits/owed.ts';

const nowMs = 1_000_000;
const idle: Known = {
  ...{ isWanted: true, isRunning: true, isNothingLeft: false },
  ...{ mayGo: [], collectsUntilMs: nowMs, hasRoomForBatch: true, endsBatch: false },
};
const paid: Paid = answered(nothingPaid, idle, nowMs - 60_000);

function isOwed(known: Known, by: Paid, atMs = nowMs): boolean {
  const fromMs = owedFromMs(known, by);
  return fromMs !== undefined && fromMs <= atMs;
}

/** All that may be known of one object and two items. */
function* everyKnown(): Generator<Known> {
  const both = [true, false];
  const waits: readonly (Known['wait'] | undefined)[] = [
    undefined,
    { reason: 'BudgetSpent', sinceMs: nowMs, isOwn: false },
    { reason: 'BudgetSpent', sinceMs: nowMs - 5_000, isOwn: false },
    { reason: 'BudgetSpent', sinceMs: nowMs - 5_000, isOwn: true },
  ];
  for (const isWanted of both)
    for (const isRunning of both)
      for (const isNothingLeft of both)
        for (const mayGo of [[], ['a'], ['a', 'b']])
          for (const collectsUntilMs of [nowMs, nowMs + 300])
            for (const hasRoomForBatch of both)
              for (const endsBatch of both)
                for (const wait of waits)
                  yield {
                    ...{
                      isWanted,
                      isRunning,
                      isNothingLeft,
                      mayGo,
                      collectsUntilMs,
                      hasRoomForBatch,
                      endsBatch,
                    },
                    ...(wait && { wait }),
                  };
}

/** And all that answers may have paid. */
function* everyPaid(): Generator<Paid> {
  const moments = [undefined, nowMs - 10_000, nowMs - 9_999];
  for (const isAnswered of [false, true])
    for (const a of moments)
      for (const endAtMs of moments)
        for (const toldMs of [undefined, nowMs - 24 * 3_600_000, nowMs - 1])
          for (const fruitless of [0, 1])
            yield {
              ...(isAnswered && { isAnswered }),
              answeredAtMs: new Map(a === undefined ? [] : [['a', a]]),
              ...(endAtMs !== undefined && { endAtMs }),
              toldAtMs: new Map(toldMs === undefined ? [] : [['BudgetSpent', toldMs]]),
              fruitless,
            };
}

describe('owedFromMs', () => {
  it('owes an item that may go at once, and after an answer when ten seconds have gone by without a batch', () => {
    const known = { ...idle, mayGo: ['a'] };
    expect(owedFromMs(known, paid)).toBe(nowMs);
    const then = answered(paid, known, nowMs);
    expect(owedFromMs(known, then)).toBe(nowMs + 10_000);
    expect(owedFromMs({ ...known, mayGo: ['a', 'b'] }, then)).toBe(nowMs);
    expect(owedFromMs(known, handedIn(then, ['a'], nowMs))).toBe(nowMs);
  });

  it('owes the facts again once a batch has come late: it may have been said that it is not running', () => {
    const known = { ...idle, facts: 'new' };
    const then = answered(nothingPaid, { ...known, mayGo: ['a'] }, nowMs);
    expect(owedFromMs({ ...known, factsSinceMs: nowMs }, handedIn(then, ['a'], nowMs + 1_000))).toBeUndefined();
    expect(owedFromMs({ ...known, factsSinceMs: nowMs }, handedIn(then, ['a'], nowMs + 1_001))).toBe(nowMs + 500);
  });

  it('owes nothing for items while a batch ends, or while no further batch can be handed in', () => {
    const known = { ...idle, mayGo: ['a'] };
    expect(owedFromMs({ ...known, endsBatch: true }, paid)).toBeUndefined();
    expect(owedFromMs({ ...known, hasRoomForBatch: false }, paid)).toBeUndefined();
  });

  it('owes a wait after five seconds, once until an item goes, and again after a day if it has lasted ten minutes', () => {
    const known = { ...idle, wait: { reason: 'BudgetSpent', sinceMs: nowMs, isOwn: false } };
    expect(owedFromMs(known, paid)).toBe(nowMs + 5_000);
    const told = answered(paid, known, nowMs + 5_000);
    const dayLaterMs = nowMs + 5_000 + 24 * 3_600_000;
    expect(owedFromMs(known, told)).toBe(dayLaterMs);
    const anew = { ...known, wait: { ...known.wait, sinceMs: dayLaterMs - 1_000 } };
    expect(owedFromMs(anew, told)).toBe(dayLaterMs - 1_000 + 600_000);
    expect(owedFromMs(known, went(told))).toBe(nowMs + 5_000);
    expect(owedFromMs({ ...known, wait: { ...known.wait, isOwn: true } }, paid)).toBeUndefined();
  });

  it('owes the end to a run only, and a new term to what is wanted or runs', () => {
    const over = { ...idle, isNothingLeft: true, isWanted: false };
    expect(isOwed(over, paid)).toBe(true);
    expect(owedFromMs({ ...over, isRunning: false }, paid)).toBeUndefined();
    expect(owedFromMs(over, answered(paid, over, nowMs))).toBe(nowMs + 10_000);
    expect([isOwed(idle, nothingPaid), isOwed({ ...idle, isRunning: false }, nothingPaid)]).toEqual([true, true]);
    expect(owedFromMs({ ...idle, isRunning: false, isWanted: false }, nothingPaid)).toBeUndefined();
  });

  /** The first of all states of which this is not true. */
  function exception(isTrue: (known: Known, by: Paid) => boolean): unknown {
    const all = [...everyPaid()];
    for (const known of everyKnown()) for (const by of all) if (!isTrue(known, by)) return [known, by];
    return undefined;
  }

  it('is paid by an answer at that moment, whatever is owed', () => {
    expect(exception((known, by) => !isOwed(known, answered(by, known, nowMs)))).toBeUndefined();
  });

  it('is put off by nothing else: not by a batch, and not by an item that goes', () => {
    const dueMs = (known: Known, by: Paid) => owedFromMs(known, by) ?? Number.POSITIVE_INFINITY;
    const others = [(by: Paid) => handedIn(by, ['a'], nowMs), (by: Paid) => handedIn(by, ['b'], nowMs), went];
    const isKept = (known: Known, by: Paid) => others.every((other) => dueMs(known, other(by)) <= dueMs(known, by));
    expect(exception(isKept)).toBeUndefined();
  });

  it('leaves no item alone that may go: it is owed, was answered within ten seconds, or the result of a batch is to come', () => {
    const isSeen = (known: Known, by: Paid) =>
      (by.fruitless > 0 && by.answeredAtMs.size > 0) ||
      !known.hasRoomForBatch ||
      known.endsBatch ||
      known.collectsUntilMs > nowMs ||
      known.mayGo.every((uid) => (by.answeredAtMs.get(uid) ?? 0) > nowMs - 10_000) ||
      isOwed(known, by);
    expect(exception(isSeen)).toBeUndefined();
  });
});

/** A standing situation that changes between some states for a while; how many signals that takes. */
function signalsWithin(ms: number, states: readonly [Known, ...Known[]], everyMs: number, isFollowed: boolean): number {
  let by: Paid = nothingPaid;
  let sent: Sent = nothingSent;
  let count = 0;
  for (let atMs = 0, steps = 0; atMs < ms; steps++) {
    if (steps > 100_000) return steps;
    const turn = Math.floor(atMs / everyMs);
    const state = states[turn % states.length] ?? states[0];
    const known = { ...state, ...(state.wait && { wait: { ...state.wait, sinceMs: turn * everyMs } }) };
    const turnEndsMs = (turn + 1) * everyMs;
    const fromMs = owedFromMs(known, by);
    const dueMs = fromMs === undefined ? turnEndsMs : Math.max(sendAtMs(fromMs, sent), atMs);
    if (dueMs >= turnEndsMs) {
      atMs = turnEndsMs;
      continue;
    }
    atMs = dueMs;
    count += 1;
    sent = { lastMs: atMs, unfollowed: isFollowed ? 0 : sent.unfollowed + 1, isBack: false };
    if (isFollowed) by = answered(by, known, atMs);
  }
  return count;
}

describe('the signals of a standing situation', () => {
  const waiting = (reason: string): Known => ({ ...idle, wait: { reason, sinceMs: 0, isOwn: false } });
  const day = 24 * 3_600_000;

  it('are a few a week while items never become ready, also where two waits alternate', () => {
    const week = 7 * day;
    expect(signalsWithin(week, [waiting('NotReady')], week, true)).toBeLessThanOrEqual(8);
    expect(signalsWithin(week, [waiting('NotReady'), waiting('ReadyTooShort')], 30_000, true)).toBeLessThanOrEqual(3);
    expect(signalsWithin(week, [waiting('NotReady'), waiting('ReadyTooShort')], 900_000, true)).toBeLessThanOrEqual(16);
  });

  it('come later and later where an answer comes to nothing, or nobody asks', () => {
    const items = { ...idle, mayGo: ['a'] };
    for (const isFollowed of [true, false]) {
      expect(signalsWithin(3_600_000, [items], 3_600_000, isFollowed)).toBeLessThanOrEqual(13);
      expect(signalsWithin(3_600_000, [items, idle], 700, isFollowed)).toBeLessThanOrEqual(20);
      expect(signalsWithin(3_600_000, [{ ...idle, isNothingLeft: true }], 3_600_000, isFollowed)).toBeLessThanOrEqual(
        13,
      );
    }
  });

  it('are bounded whatever the situation is', () => {
    const states = fc.array(fc.constantFrom(...everyKnown()), { minLength: 1, maxLength: 4 });
    const property = fc.property(
      states,
      fc.constantFrom(400, 3_000, 20_000),
      fc.boolean(),
      ([first, ...others], ms, follows) => {
        const collected = (known: Known) => ({ ...known, collectsUntilMs: 0 });
        if (first === undefined) return;
        expect(signalsWithin(3_600_000, [collected(first), ...others.map(collected)], ms, follows)).toBeLessThanOrEqual(
          40,
        );
      },
    );
    fc.assert(property, { numRuns: Number(process.env.PLAYS ?? 30) });
  });
});

describe('sendAtMs', () => {
  it('sends at once, then one in 500 ms, and one that nobody follows after 10 s, doubling to 10 min', () => {
    expect(sendAtMs(nowMs, nothingSent)).toBe(nowMs);
    expect(sendAtMs(nowMs, { lastMs: nowMs, unfollowed: 0, isBack: false })).toBe(nowMs + 500);
    expect(sendAtMs(nowMs, { lastMs: nowMs - 600, unfollowed: 0, isBack: false })).toBe(nowMs);
    const later = [1, 2, 3, 20].map((unfollowed) => sendAtMs(nowMs, { lastMs: nowMs, unfollowed, isBack: false }));
    expect(later).toEqual([nowMs + 10_000, nowMs + 20_000, nowMs + 40_000, nowMs + 600_000]);
  });

  it('does not wait any longer once Temporal answers again', () => {
    expect(sendAtMs(nowMs, { lastMs: nowMs - 1_000, unfollowed: 20, isBack: true })).toBe(nowMs);
  });
});
