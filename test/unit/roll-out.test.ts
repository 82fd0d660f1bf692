import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import { mostSkipBytes, type RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { batchOf, type ChosenPod } from '../../plan/fleet/batch.ts';
import type { ChoiceVerdict } from '../../plan/fleet/permit.ts';
import {
  begun,
  choiceText,
  detailsOf,
  doneReason,
  type GivenCommand,
  heard,
  inFlightText,
  isOver,
  meantBy,
  phaseOf,
  type RollOutNews,
  type RollOutProgress,
  shownWait,
  wantedChoice,
} from '../../plan/fleet/roll-out.ts';
import { heldBy, keptOrders, type OrderCommand, ordersAfter, toldOrders } from '../../plan/fleet/roll-out-orders.ts';
import { permitForAll } from '../support/permits.ts';
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

/** What becomes of all commands when the leading watcher applies them. */
function applying(progress: RollOutProgress): RollOutProgress {
  return progress.commands.reduce((before, one) => {
    const { orders = before.facts.orders } = ordersAfter(
      { by: '', ...one },
      { ...before.facts, orders: before.facts.orders },
    );
    return heard(before, { kind: 'applied', key: one.key, orders: toldOrders(orders) });
  }, progress);
}

/** What is asked comes to this. */
function verdict(progress: RollOutProgress, verdict: ChoiceVerdict, atMs = nowMs): RollOutNews {
  const leave = leaveIn(progress);
  if (!leave) throw new Error('nobody has been asked');
  const { orders, generation } = progress.facts;
  const { round } = progress;
  return {
    kind: 'verdict',
    verdict: { ...verdict, ...(orders && { orders }) },
    of: { leave, generation, round },
    atMs,
  };
}

function leaveIn(progress: RollOutProgress) {
  return wantedChoice(progress)?.leave;
}

/** What follows from all of this, where commands are applied at once. */
function hearing(progress: RollOutProgress, ...news: readonly (RollOutNews | Said)[]): RollOutProgress {
  return news.reduce<RollOutProgress>(
    (before, one) => (one.kind === 'said' ? applying(receiving(before, one)) : heard(before, one)),
    progress,
  );
}

const start = begun(facts);
const blocked = (reason: string, blockedBy: readonly string[] = []): ChoiceVerdict => ({
  kind: 'blocked',
  waitingFor: { reason, blockedBy, blockedCount: blockedBy.length, since: at, unblock: 'do something' },
});
const chosen = (name: string, more: Partial<ChosenPod> = {}): ChosenPod => ({
  ...{ namespace: 'shop', name, uid: `${name}-uid`, how: 'inPlace', containers: [['app']] },
  ...more,
});
const pods = (first: ChosenPod, ...others: readonly ChosenPod[]): ChoiceVerdict => ({
  kind: 'batch',
  batch: batchOf('web-2', [first, ...others]),
  of: 100,
  updated: 7,
});
const allDone: ChoiceVerdict = { kind: 'allDone', summary: '100 of 100', arrived: 100 };

/** Why a command is refused, by the roll-out or by the leading watcher. */
function refusalOf(progress: RollOutProgress, said: Said): string | undefined {
  const found = meant(progress, said);
  if ('refused' in found) return found.refused;
  return ordersAfter({ by: '', ...found }, { ...progress.facts, orders: progress.facts.orders }).answer.refused;
}

function skipped(progress: RollOutProgress): readonly string[] {
  return progress.facts.orders?.skip ?? [];
}

describe('what a roll-out asks', () => {
  it('is which pods go next, and has these carried out as a batch while it asks again', () => {
    expect(wantedChoice(start)).toEqual({ leave: { revision: 'web-2', paused: false } });
    expect(choiceText(start, { revision: 'web-2', paused: false })).toBe('choose batch 1: web-2, 100 pods');
    const first = hearing(start, verdict(start, pods(chosen('web-a'), chosen('web-b'))));
    expect(first).toMatchObject({ next: 2, summary: '7 of 100 pods are of revision web-2' });
    expect(first.inFlight).toMatchObject([{ number: 1, revision: 'web-2', batch: { pods: [{}, {}] } }]);
    expect(first.round).toBe(start.round + 1);
    const second = hearing(first, verdict(first, pods(chosen('web-c'))));
    expect(second.inFlight.map(({ number }) => number)).toEqual([1, 2]);
  });

  it('is told what has become of each batch, in any order', () => {
    const first = hearing(start, verdict(start, pods(chosen('web-a'), chosen('web-b'))));
    const both = hearing(first, verdict(first, pods(chosen('web-c'))));
    const outcome = (pod: string, why?: string) =>
      ({ pod, how: 'inPlace', ...(why !== undefined && { why }) }) as const;
    const carriedOut = (number: number, outcomes: readonly ReturnType<typeof outcome>[]): RollOutNews => ({
      ...{ kind: 'carriedOut', number, atMs: nowMs + 4_000 },
      verdict: { summary: '9 of 100 pods are updated', pods: outcomes },
    });
    const later = hearing(both, carriedOut(2, [outcome('web-c')]));
    expect(later.inFlight.map(({ number }) => number)).toEqual([1]);
    const last = hearing(later, carriedOut(1, [outcome('web-a', 'not now: the budget'), outcome('web-b')]));
    expect(last.inFlight).toEqual([]);
    expect(last.log).toEqual([
      'batch 2: 1 pods in 4 s; 9 of 100 pods are updated',
      'batch 1: 1 pods in 4 s; not web-a: not now: the budget; 9 of 100 pods are updated',
    ]);
  });

  it('is carried out only under the orders for which it was chosen', () => {
    const late = verdict(start, pods(chosen('web-a')));
    const paused = hearing(start, command('pause'), late);
    expect(paused.inFlight).toEqual([]);
    expect(leaveIn(paused)).toMatchObject({ paused: true });
  });

  it('F5: does not end with a batch whose activity was ended by hand', () => {
    const first = hearing(start, verdict(start, pods(chosen('web-a'))));
    const lost = hearing(first, { kind: 'lost', number: 1, why: 'failed by hand' });
    expect(lost).toMatchObject({ inFlight: [], log: ['batch 1: failed by hand'] });
    expect(wantedChoice(lost)).toBeDefined();
  });

  it('ends with the last batch in flight, and keeps asking meanwhile when it is paused', () => {
    const first = hearing(start, verdict(start, pods(chosen('web-a'))));
    const done = hearing(first, verdict(first, allDone));
    expect(isOver(done)).toBe(false);
    expect(isOver(hearing(done, { kind: 'lost', number: 1, why: '' }))).toBe(true);
    const carriedOut = { summary: '100 of 100 pods are updated', pods: [] };
    const over = hearing(done, { kind: 'carriedOut', number: 1, verdict: carriedOut, atMs: nowMs });
    expect([isOver(over), over.summary]).toEqual([true, '100 of 100']);
    const paused = hearing(first, command('pause'));
    const told = hearing(paused, verdict(paused, blocked('PausedByOperator')));
    expect(wantedChoice(told)).toMatchObject({ leave: { paused: true }, told: 'PausedByOperator' });
    expect(wantedChoice(hearing(told, { kind: 'lost', number: 1, why: '' }))).toBeUndefined();
  });

  it('says what has been told already, so that the same wait is not told again and again', () => {
    const waiting = hearing(start, verdict(start, blocked('BudgetSpent')));
    expect(wantedChoice(waiting)).toMatchObject({ told: 'BudgetSpent' });
    expect(waiting.round).toBe(start.round + 1);
    expect(wantedChoice(hearing(waiting, verdict(waiting, pods(chosen('web-a')))))).not.toHaveProperty('told');
  });

  it('is not given while only a change of the object can help, and given anew with the change', () => {
    const waiting = hearing(start, verdict(start, blocked('Paused')));
    expect(wantedChoice(waiting)).toBeUndefined();
    const changed = hearing(waiting, { kind: 'changed', change: { ...facts, generation: 3 } });
    expect(wantedChoice(changed)).toBeDefined();
    expect(changed).not.toHaveProperty('waitingFor');
  });
});

describe('a wait that the watcher has parked', () => {
  const parkedVerdict = { ...blocked('BudgetSpent', ['pod/web-a']), parked: true } as ChoiceVerdict;
  const parked = hearing(start, verdict(start, parkedVerdict));
  const wokenBy = (change: RollOutFacts | undefined): RollOutNews => ({ kind: 'changed', change });

  it('is not asked about again, also while a batch is in flight, and stays in sight', () => {
    expect(wantedChoice(parked)).toBeUndefined();
    expect(detailsOf(parked)).toContain('BudgetSpent (pod/web-a)');
    const first = hearing(start, verdict(start, pods(chosen('web-a'))));
    expect(wantedChoice(hearing(first, verdict(first, parkedVerdict)))).toBeUndefined();
  });

  it('is asked about again when the watcher wakes the roll-out, or another watcher leads', () => {
    for (const change of [undefined, facts]) {
      const asked = hearing(parked, wokenBy(change));
      expect(asked.round).toBeGreaterThan(parked.round);
      expect(wantedChoice(asked)).toMatchObject({ told: 'BudgetSpent', parked: true });
      expect(asked.waitingFor).toEqual(parked.waitingFor);
      const again = hearing(asked, verdict(asked, parkedVerdict));
      expect(wantedChoice(again)).toBeUndefined();
      const goesOn = hearing(asked, verdict(asked, pods(chosen('web-a'))));
      expect(wantedChoice(goesOn)).toEqual({ leave: leaveIn(goesOn) });
    }
  });

  it('is asked about again when the signal has overtaken the answer', () => {
    for (const change of [undefined, facts]) {
      const overtaken = hearing(start, wokenBy(change), verdict(start, parkedVerdict));
      expect(overtaken.round).toBeGreaterThan(start.round);
      expect(wantedChoice(overtaken)).toMatchObject({ told: 'BudgetSpent', parked: true });
      expect(wantedChoice(hearing(overtaken, verdict(overtaken, parkedVerdict)))).toBeUndefined();
    }
    const pending = hearing(start, wokenBy(undefined));
    expect(wantedChoice(pending)).toEqual(wantedChoice(start));
    expect(pending.round).toBe(start.round);
  });

  it('is over with a command and with a change of the object, which are asked about as at first', () => {
    const changed = wokenBy({ ...facts, generation: 3 });
    for (const news of [command('retry'), changed]) {
      expect(wantedChoice(hearing(parked, news))).toEqual({ leave: leaveIn(start) });
    }
    expect(skipped(hearing(parked, command('skip')))).toEqual(['web-a']);
  });

  it('wakes a paused roll-out to ask once', () => {
    const paused = hearing(start, command('pause'));
    const held = hearing(paused, verdict(paused, blocked('PausedByOperator')));
    const asked = hearing(held, wokenBy(undefined));
    expect(wantedChoice(asked)).toMatchObject({ leave: { paused: true }, told: 'PausedByOperator', parked: true });
    expect(wantedChoice(hearing(asked, verdict(asked, parkedVerdict)))).toBeUndefined();
  });
});

describe('a verdict on a permit from before the last command', () => {
  it('neither holds nor ends what the command has freed', () => {
    const paused = hearing(start, command('pause'));
    const held = verdict(paused, blocked('PausedByOperator'));
    const undoing = hearing(paused, command('undo'), held);
    expect(undoing).not.toHaveProperty('parked');
    expect(leaveIn(undoing)).toMatchObject({ revision: 'web-1', paused: false });

    const undone = hearing(start, command('undo'), verdict(start, allDone));
    expect(isOver(undone)).toBe(false);
    expect(leaveIn(undone)).toMatchObject({ revision: 'web-1' });
  });
});

describe('a roll-out', () => {
  it('ends when all is done, unless it was told of something newer meanwhile', () => {
    const done = verdict(start, allDone);
    expect(hearing(start, done)).toMatchObject({ end: 'done', summary: '100 of 100' });
    expect(phaseOf(hearing(start, done))).toBe('Completed');
    const changed = hearing(start, { kind: 'changed', change: { ...facts, generation: 3, replicas: 120 } }, done);
    expect(changed).not.toHaveProperty('end');
    expect(changed.round).toBeGreaterThan(start.round);
    const late = hearing(start, done, { kind: 'changed', change: { ...facts, generation: 3 } });
    expect(late).not.toHaveProperty('end');
    expect(isOver(hearing(start, done, { kind: 'changed', change: facts }))).toBe(true);
  });

  it('turns to a newer revision, and does not mind signals that come late', () => {
    const newer = { ...facts, generation: 3, revision: 'web-3' };
    const turned = hearing(start, { kind: 'changed', change: newer });
    expect(leaveIn(turned)).toMatchObject({ revision: 'web-3' });
    expect(hearing(turned, { kind: 'changed', change: facts })).toEqual(turned);
  });

  it('asks again a few times when the object asks for something else, then leaves it to the watcher', () => {
    let progress = start;
    for (let asked = 0; asked < 5; asked++) {
      progress = hearing(progress, verdict(progress, { kind: 'superseded' }));
      expect(wantedChoice(progress)).toBeUndefined();
      if (asked < 4) progress = hearing(progress, { kind: 'noFacts' });
    }
    expect(hearing(progress, { kind: 'changed', change: facts })).not.toHaveProperty('end');
    expect(hearing(progress, { kind: 'noFacts' })).toMatchObject({ end: 'superseded' });
  });

  it('ends when its object is gone, whatever else it hears', () => {
    const gone = hearing(start, { kind: 'changed', change: { withdrawn: true } }, command('resume'));
    expect(isOver(gone)).toBe(true);
    const commanded = heard(receiving(start, command('pause')), { kind: 'changed', change: { withdrawn: true } });
    expect(isOver(commanded)).toBe(true);
    expect(wantedChoice(gone)).toBeUndefined();
  });

  it('says all there is to say', () => {
    const waiting = hearing(start, command('pause'), command('skip', 'web-a'));
    const told = hearing(waiting, verdict(waiting, blocked('PausedByOperator', ['pod/web-a'])));
    expect(detailsOf(told).split('\n\n')).toEqual([
      'Paused: revision web-2, 100 pods',
      `paused by ann at ${at}`,
      'skipped: web-a',
      `waits since ${at}: PausedByOperator (pod/web-a): do something`,
    ]);
  });
});

describe('a roll-out that has ended', () => {
  it('waits for nothing, and has nothing in flight', () => {
    const waiting = hearing(start, command('pause'));
    const told = hearing(waiting, verdict(waiting, blocked('PausedByOperator', ['pod/web-a'])));
    const gone = heard(told, { kind: 'changed', change: { withdrawn: true } });
    const [first = ''] = detailsOf(gone, true).split('\n\n');
    expect(first).toBe('Deleted: revision web-2, 100 pods');
    expect(detailsOf(gone, true)).not.toContain('waits since');
    const batch = {
      revision: 'web-2',
      namespace: 'shop',
      how: 'inPlace',
      pods: [{ name: 'web-a', uid: 'a' }],
    } as const;
    const flying = { ...gone, inFlight: [{ number: 1, revision: 'web-2', batch, startedAtMs: 0 }] };
    expect(detailsOf(flying)).toContain('batch 1 in flight');
    expect(detailsOf(flying, true)).not.toContain('in flight');
  });
});

describe('an undo', () => {
  it('is named by what it does, and the roll-out ends as rolled back, unless it is taken back', () => {
    const back = hearing(start, command('undo'));
    const batch = {
      revision: 'web-1',
      namespace: 'shop',
      how: 'inPlace',
      pods: [{ name: 'web-a', uid: 'a' }],
    } as const;
    const inFlight = { number: 1, revision: 'web-1', batch, startedAtMs: 0 };
    expect(phaseOf(back)).toBe('Undoing');
    expect(inFlightText(back, inFlight)).toBe('undo: update web-a in place');
    expect(inFlightText(start, inFlight)).toBe('update web-a in place');
    expect(doneReason(start)).toBe('RolledOut');
    const done = hearing(back, verdict(back, { kind: 'allDone', summary: 'all', arrived: 1 }));
    expect([done.end, doneReason(done)]).toEqual(['done', 'RolledBack']);
    expect(doneReason(hearing(done, command('resume')))).toBe('RolledOut');
  });
});

describe('a command', () => {
  it('pause takes leave back at once; what gives leave does so once it is applied', () => {
    const paused = receiving(start, command('pause'));
    expect(leaveIn(paused)).toMatchObject({ paused: true });
    expect(paused.commands).toMatchObject([{ name: 'pause', at }]);
    expect([phaseOf(paused), detailsOf(paused)]).toEqual([
      'Paused',
      expect.stringContaining(`pause by ann at ${at}: not applied yet`),
    ]);
    const parked = hearing(applying(paused), verdict(applying(paused), blocked('PausedByOperator')));
    expect(wantedChoice(parked)).toBeUndefined();
    const resumed = receiving(parked, command('resume'));
    expect(wantedChoice(resumed)).toBeUndefined();
    expect(leaveIn(applying(resumed))).toMatchObject({ paused: false });
  });

  it('P-8: resume drops a pause that is not applied yet, and else says what it takes back', () => {
    const both = receiving(receiving(start, command('pause')), command('resume'));
    expect(both.commands).toMatchObject([{ name: 'resume', takesBack: 'unwritten' }]);
    // also where the pause has never got there
    expect(ordersAfter({ by: '', ...both.commands[0] } as OrderCommand, { ...facts, orders: undefined })).toEqual({
      answer: {},
    });
    expect(leaveIn(both)).toMatchObject({ paused: false });
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
    const newer = (progress: RollOutProgress): RollOutNews => {
      const { orders } = progress.facts;
      return { kind: 'changed', change: { ...facts, generation: 3, revision: 'web-3', ...(orders && { orders }) } };
    };
    const aborted = hearing(start, command('abort'));
    expect(phaseOf(aborted)).toBe('Aborted');
    expect(leaveIn(aborted)).toMatchObject({ paused: true });
    expect(leaveIn(hearing(aborted, newer(aborted)))).toMatchObject({ paused: false, revision: 'web-3' });
    const paused = hearing(start, command('pause'));
    expect(leaveIn(hearing(paused, newer(paused)))).toMatchObject({ paused: true, revision: 'web-3' });
    expect(leaveIn(hearing(aborted, command('retry')))).toMatchObject({ paused: false });
  });

  it('undo goes back to the revision before, also from a pause; resume takes it back when nothing is held', () => {
    const undone = hearing(start, command('pause'), command('undo'));
    expect(leaveIn(undone)).toEqual({ revision: 'web-1', paused: false });
    expect(phaseOf(undone)).toBe('Undoing');
    const held = hearing(undone, command('pause'));
    expect(leaveIn(hearing(held, command('resume')))).toMatchObject({ revision: 'web-1' });
    expect(leaveIn(hearing(held, command('resume'), command('resume')))).toMatchObject({ revision: 'web-2' });
    const { previous: _, ...first } = facts;
    expect(refusalOf(begun(first), command('undo'))).toBe('no earlier revision is kept');
  });

  it('skip leaves out the pod that it names, or those that are waited for; retry takes them up again', () => {
    const waiting = hearing(start, verdict(start, blocked('NotReady', ['pod/web-a', 'pod/web-b', 'temporal'])));
    expect(skipped(hearing(waiting, command('skip')))).toEqual(['web-a', 'web-b']);
    const named = hearing(start, command('skip', 'web-c'), command('skip', 'pod/web-d'));
    expect(skipped(named)).toEqual(['web-c', 'web-d']);
    expect(skipped(hearing(named, command('retry')))).toEqual([]);
    expect(refusalOf(start, command('skip'))).toMatch(/has no target/);
  });

  it('a skip right after another command is about what the status still names', () => {
    const waiting = hearing(start, verdict(start, blocked('BudgetSpent', ['pod/web-a', 'pod/web-b'])));
    const again = hearing(waiting, command('skip', 'web-c'));
    expect(again.waitingFor).toBeUndefined();
    const both = hearing(again, command('skip'));
    expect(skipped(both)).toEqual(['web-c', 'web-a', 'web-b']);
    const third = hearing(both, verdict(both, pods(chosen('web-d'))));
    expect(refusalOf(third, command('skip'))).toMatch(/has not waited for a pod for 5 s; name the pod$/);
  });

  it('skip and retry take a pod, a pod with its namespace, or all pods of a batch in flight', () => {
    const inShop = begun(facts, { namespace: 'shop' });
    const first = hearing(inShop, verdict(inShop, pods(chosen('web-a'), chosen('web-b'))));
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

  it('retry asks again though nothing else is new', () => {
    const waiting = hearing(start, verdict(start, blocked('Denied')));
    expect(hearing(waiting, command('retry')).round).toBeGreaterThan(waiting.round);
  });

  it('that cannot be applied is a wait, and gives no leave', () => {
    const { waitingFor } = blocked('Denied') as Extract<ChoiceVerdict, { kind: 'blocked' }>;
    const refused = heard(receiving(start, command('undo')), { kind: 'notApplied', waitingFor });
    expect(leaveIn(refused)).toEqual(leaveIn(start));
    // also while the roll-out waits for something else
    const both = hearing(refused, verdict(refused, blocked('BudgetSpent')));
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
    expect(leaveIn(held)).toMatchObject({ paused: true });
    expect(refusalOf(held, command('pause'))).toMatch(/^21 commands before it/);
    expect(refusalOf(held, command('abort'))).toBeUndefined();
  });

  it('is waited for by a roll-out that is done', () => {
    const done = heard(receiving(start, command('undo')), verdict(start, allDone));
    expect([done.end, isOver(done)]).toEqual(['done', false]);
    expect(applying(done)).not.toHaveProperty('end');
  });
});

describe('orders in the object', () => {
  const orders = { version: 4, revision: 'web-2', aborted: by };

  it('hold for a roll-out that begins, of another revision only a pause', () => {
    expect(phaseOf(begun({ ...facts, orders }))).toBe('Aborted');
    expect(phaseOf(begun({ ...facts, orders: { ...orders, revision: 'web-1' } }))).toBe('RollingOut');
    expect(phaseOf(begun({ ...facts, orders: { ...orders, revision: 'web-1', paused: by } }))).toBe('Paused');
  });

  it('are what the watcher has told last, whoever has given them', () => {
    const told = (orders?: RollOutOrders): RollOutNews => ({
      ...{ kind: 'changed', change: { ...facts, ...(orders && { orders }) } },
    });
    const held = hearing(start, told(orders));
    expect([phaseOf(held), leaveIn(held)]).toEqual(['Aborted', { revision: 'web-2', paused: true }]);
    const freed = hearing(hearing(held, verdict(held, blocked('Aborted'))), told());
    expect([phaseOf(freed), wantedChoice(freed)]).toEqual(['RollingOut', wantedChoice(start)]);
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

  it('hold any permit', () => {
    const permit = permitForAll('web-2');
    expect(heldBy(undefined, permit, false)).toEqual(permit);
    for (const held of [heldBy(orders, permit, false), heldBy(undefined, permit, true)]) {
      expect(held).toEqual({ ...permit, paused: true });
    }
  });

  it('never grow beyond what a history takes, and after any commands a resume or two give leave', () => {
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
          progress = heard(heard(progress, { kind: 'command', command: found }), {
            ...{ kind: 'applied', key: found.key, orders: toldOrders(stored) },
          });
          expect(jsonBytes(progress.facts.orders ?? {})).toBeLessThan(2_700);
          expect(jsonBytes(stored ?? {})).toBeLessThan(4_100);
          expect(leaveIn(progress)?.paused).toBe(phaseOf(progress) === 'Paused' || phaseOf(progress) === 'Aborted');
        }
        const freed = hearing(progress, command('resume'), command('resume'), command('retry'));
        expect(leaveIn(freed)).toMatchObject({ paused: false });
      }),
    );
  });
});

describe('a permit that comes to nothing', () => {
  const waitingFor = { reason: 'Parked', blockedBy: [], blockedCount: 0, since: at, unblock: 'failed by hand' };
  const parked = heard(start, { kind: 'parked', waitingFor });

  it('F5: is said, and not handed in again until somebody asks for it', () => {
    expect(wantedChoice(parked)).toBeUndefined();
    expect(detailsOf(parked)).toContain('Parked: failed by hand');
    expect(wantedChoice(hearing(parked, { kind: 'changed', change: undefined }))).toEqual(wantedChoice(start));
    expect(wantedChoice(hearing(parked, command('retry')))).toEqual(wantedChoice(start));
  });
});
