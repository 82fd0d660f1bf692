import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import type { Verdict } from '../../workflows/plan/fleet/permit.ts';
import {
  begun,
  detailsOf,
  heard,
  isOver,
  permitText,
  phaseOf,
  type RollOutNews,
  type RollOutProgress,
  refusalOf,
  unrecordedOrders,
  wantedPermit,
} from '../../workflows/plan/fleet/roll-out.ts';
import {
  mostSkipBytes,
  type OrderCommand,
  ordersAfter,
  ordersFor,
  permitUnder,
  prunedOrders,
} from '../../workflows/plan/fleet/roll-out-orders.ts';
import '../support/property-seed.ts';

const at = '2026-11-21T06:13:44.000Z';
const nowMs = Date.parse(at);
const facts: RollOutFacts = { generation: 2, revision: 'web-2', previous: 'web-1', replicas: 100 };
const by = { by: 'ann', at };

function command(name: OrderCommand['name'], more: Partial<OrderCommand> = {}): RollOutNews {
  return { kind: 'command', id: 1, command: { name, ...by, ...more } };
}

/** The permit that is wanted comes to this. */
function verdict(progress: RollOutProgress, verdict: Verdict, atMs = nowMs): RollOutNews {
  const permit = wantedPermit(progress);
  if (!permit) throw new Error('nobody has been asked');
  return { kind: 'verdict', verdict, of: { permit, generation: progress.facts.generation }, atMs };
}

/** What follows from all of this, once what was ordered stands in the object. */
function hearing(progress: RollOutProgress, ...news: readonly RollOutNews[]): RollOutProgress {
  const heardAll = news.reduce(heard, progress);
  const orders = unrecordedOrders(heardAll);
  return orders ? heard(heardAll, { kind: 'recorded', version: orders.version }) : heardAll;
}

const start = begun(facts, nowMs);
const blocked = (reason: string, blockedBy: readonly string[] = []): Verdict => ({
  kind: 'blocked',
  waitingFor: { reason, blockedBy, blockedCount: blockedBy.length, since: at, unblock: 'do something' },
});
const batchDone = (arrived: number): Verdict => ({ kind: 'batchDone', summary: `${arrived} of 100`, arrived });
const allDone: Verdict = { kind: 'allDone', summary: '100 of 100', arrived: 100 };

describe('the permit of a roll-out', () => {
  it('is limited by the budget only, with milestones of a tenth of the pods or five', () => {
    expect(wantedPermit(start)).toEqual({
      revision: 'web-2',
      paused: false,
      skip: [],
      batch: 2 ** 31 - 1,
      milestone: 10,
    });
    expect(wantedPermit(begun({ ...facts, replicas: 7 }, nowMs))).toMatchObject({ milestone: 5 });
    const next = hearing(start, verdict(start, batchDone(12), nowMs + 4_000));
    expect(wantedPermit(next)).toMatchObject({ milestone: 22 });
    const last = hearing(next, verdict(next, batchDone(22), nowMs + 18_000));
    expect(last.log).toEqual(['batch 1: 12 of 100', 'batch 2: 10 pods in 14 s, 22 of 100']);
    expect(permitText(last, { revision: 'web-2', paused: false, skip: [], batch: 1, milestone: 32 })).toBe(
      'batch 3: up to 32 pods of web-2',
    );
  });

  it('speaks of no more pods than there are', () => {
    const first = begun({ ...facts, replicas: 10 }, nowMs);
    const next = hearing(first, verdict(first, { kind: 'batchDone', summary: '6 of 10', arrived: 6 }));
    const permit = wantedPermit(next);
    if (permit === undefined) throw new Error('no permit is wanted');
    expect(permit.milestone).toBe(11);
    expect(permitText(next, permit)).toBe('batch 2: up to 10 pods of web-2');
  });

  it('says what has been told already, so that the same wait is not told again and again', () => {
    const waiting = hearing(start, verdict(start, blocked('BudgetSpent')));
    expect(wantedPermit(waiting)).toMatchObject({ told: 'BudgetSpent' });
    expect(waiting.round).toBe(start.round + 1);
    expect(wantedPermit(hearing(waiting, verdict(waiting, batchDone(10))))).not.toHaveProperty('told');
  });

  it('is not given while only a change of the object can help, and given anew with the change', () => {
    const waiting = hearing(start, verdict(start, blocked('Paused')));
    expect(wantedPermit(waiting)).toBeUndefined();
    const changed = hearing(waiting, { kind: 'changed', change: { ...facts, generation: 3 } });
    expect(wantedPermit(changed)).toBeDefined();
    expect(changed).not.toHaveProperty('waitingFor');
  });
});

describe('a verdict on a permit from before the last command', () => {
  it('neither holds nor ends what the command has freed', () => {
    const paused = hearing(start, command('pause'));
    const held = verdict(paused, blocked('PausedByOperator'));
    const undoing = hearing(paused, command('undo'), held);
    expect(undoing).toMatchObject({ isParked: false });
    expect(wantedPermit(undoing)).toMatchObject({ revision: 'web-1', paused: false });

    const undone = hearing(start, command('undo'), verdict(start, allDone));
    expect(isOver(undone)).toBe(false);
    expect(wantedPermit(undone)).toMatchObject({ revision: 'web-1' });
  });
});

describe('a roll-out', () => {
  it('ends when all is done, unless it was told of something newer meanwhile', () => {
    const done = verdict(start, allDone);
    expect(hearing(start, done)).toMatchObject({ end: 'done', summary: '100 of 100' });
    expect(phaseOf(hearing(start, done))).toBe('Complete');
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
    expect(wantedPermit(turned)).toMatchObject({ revision: 'web-3' });
    expect(hearing(turned, { kind: 'changed', change: facts })).toEqual(turned);
  });

  it('asks again a few times when the object asks for something else, then leaves it to the watcher', () => {
    let progress = start;
    for (let asked = 0; asked < 5; asked++) {
      progress = hearing(progress, verdict(progress, { kind: 'superseded' }));
      expect(wantedPermit(progress)).toBeUndefined();
      if (asked < 4) progress = hearing(progress, { kind: 'noFacts' });
    }
    expect(hearing(progress, { kind: 'changed', change: facts })).not.toHaveProperty('end');
    expect(hearing(progress, { kind: 'noFacts' })).toMatchObject({ end: 'superseded' });
  });

  it('ends when its object is gone, whatever else it hears', () => {
    const gone = hearing(start, { kind: 'changed', change: { withdrawn: true } }, command('resume'));
    expect(isOver(gone)).toBe(true);
    const commanded = heard(heard(start, command('pause')), { kind: 'changed', change: { withdrawn: true } });
    expect(unrecordedOrders(commanded)).toBeUndefined();
    expect(isOver(commanded)).toBe(true);
    expect(wantedPermit(gone)).toBeUndefined();
  });

  it('says all there is to say', () => {
    const waiting = hearing(start, command('pause'), command('skip', { target: 'web-a' }));
    const told = hearing(waiting, verdict(waiting, blocked('PausedByOperator', ['pod/web-a'])));
    expect(detailsOf(told).split('\n\n')).toEqual([
      'Paused: revision web-2, 100 pods',
      `paused by ann at ${at}`,
      'skipped: web-a',
      `waits since ${at}: PausedByOperator (pod/web-a): do something`,
    ]);
  });
});

describe('a command', () => {
  it('pause takes leave back at once; what gives leave waits until it stands in the object', () => {
    const paused = heard(start, command('pause'));
    expect(wantedPermit(paused)).toMatchObject({ paused: true });
    expect(wantedPermit(paused)).not.toHaveProperty('milestone');
    expect(unrecordedOrders(paused)).toMatchObject({ version: 1, revision: 'web-2', paused: by });
    const parked = hearing(paused, verdict(paused, blocked('PausedByOperator')));
    expect(wantedPermit(parked)).toBeUndefined();
    const resumed = heard(parked, command('resume'));
    expect(wantedPermit(resumed)).toBeUndefined();
    expect(wantedPermit(hearing(resumed))).toMatchObject({ paused: false });
  });

  it('abort holds for one revision, pause for the next one, too', () => {
    const newer = { kind: 'changed', change: { ...facts, generation: 3, revision: 'web-3' } } as const;
    const aborted = hearing(start, command('abort'));
    expect(phaseOf(aborted)).toBe('Aborted');
    expect(wantedPermit(aborted)).toMatchObject({ paused: true, aborted: true });
    expect(wantedPermit(hearing(aborted, newer))).toMatchObject({ paused: false, revision: 'web-3' });
    expect(wantedPermit(hearing(start, command('pause'), newer))).toMatchObject({ paused: true, revision: 'web-3' });
    expect(wantedPermit(hearing(aborted, command('retry')))).toMatchObject({ paused: false });
  });

  it('undo goes back to the revision before, also from a pause; resume takes it back when nothing is held', () => {
    const undone = hearing(start, command('pause'), command('undo'));
    expect(wantedPermit(undone)).toMatchObject({
      revision: 'web-1',
      paused: false,
      undo: { from: 'web-2', to: 'web-1' },
    });
    expect(phaseOf(undone)).toBe('Undoing');
    const held = hearing(undone, command('pause'));
    expect(wantedPermit(hearing(held, command('resume')))).toMatchObject({ revision: 'web-1' });
    expect(wantedPermit(hearing(held, command('resume'), command('resume')))).toMatchObject({ revision: 'web-2' });
    const { previous: _, ...first } = facts;
    expect(refusalOf(begun(first, nowMs), { name: 'undo', ...by })).toBe('no earlier revision is kept');
  });

  it('skip leaves out the pod that it names, or those that are waited for; retry takes them up again', () => {
    const waiting = hearing(start, verdict(start, blocked('NotReady', ['pod/web-a', 'pod/web-b', 'temporal'])));
    expect(wantedPermit(hearing(waiting, command('skip')))).toMatchObject({ skip: ['web-a', 'web-b'] });
    const named = hearing(start, command('skip', { target: 'web-c' }), command('skip', { target: 'pod/web-d' }));
    expect(wantedPermit(named)).toMatchObject({ skip: ['web-c', 'web-d'] });
    expect(wantedPermit(hearing(named, command('retry')))).toMatchObject({ skip: [] });
    expect(refusalOf(start, { name: 'skip', ...by })).toMatch(/has no target/);
  });

  it('skip stays small enough for a history', () => {
    let progress = start;
    for (let pod = 0; pod < 200; pod++) {
      progress = hearing(progress, command('skip', { target: `web-${'x'.repeat(60)}-${pod}` }));
    }
    expect(jsonBytes(progress.orders?.skip)).toBeLessThanOrEqual(mostSkipBytes);
    expect(refusalOf(progress, { name: 'skip', ...by, target: 'x'.repeat(99) })).toMatch(/no more pods/);
  });

  it('retry asks again though nothing else is new', () => {
    const waiting = hearing(start, verdict(start, blocked('Denied')));
    expect(hearing(waiting, command('retry')).round).toBeGreaterThan(waiting.round);
  });

  it('gets the name of its sender when that is known', () => {
    const unnamed = hearing(start, command('abort', { by: '' }));
    const named = heard(unnamed, { kind: 'identified', command: { name: 'abort', at }, by: 'bob' });
    expect(unrecordedOrders(named)).toMatchObject({ version: 2, aborted: { by: 'bob', at } });
    expect(heard(named, { kind: 'identified', command: { name: 'abort', at }, by: 'eve' })).toEqual(named);
  });

  it('that cannot be written is a wait, and gives no leave', () => {
    const { waitingFor } = blocked('Denied') as Extract<Verdict, { kind: 'blocked' }>;
    const refused = heard(heard(start, command('undo')), { kind: 'refused', waitingFor });
    expect(refused).toMatchObject({ waitingFor: { reason: 'Denied' } });
    expect(wantedPermit(refused)).toBeUndefined();
    expect(hearing(refused)).not.toHaveProperty('waitingFor');
  });
});

describe('orders in the object', () => {
  const orders = { version: 4, revision: 'web-2', aborted: by };

  it('hold for a roll-out that begins, of another revision only a pause', () => {
    expect(phaseOf(begun({ ...facts, orders }, nowMs))).toBe('Aborted');
    const old = begun({ ...facts, orders: { ...orders, revision: 'web-1', paused: by } }, nowMs);
    expect(old.orders).toEqual({ version: 5, revision: 'web-2', paused: by });
    expect(unrecordedOrders(old)).toEqual(old.orders);
  });

  it('replace those that are older, never those that are newer', () => {
    const known = hearing(begun({ ...facts, orders }, nowMs), command('resume'));
    expect(heard(known, { kind: 'changed', change: { ...facts, orders } }).orders).toEqual(known.orders);
    const written = { version: 9, revision: 'web-2', paused: by };
    const changed = heard(known, { kind: 'changed', change: { ...facts, orders: written } });
    expect(changed.orders).toEqual(written);
    expect(unrecordedOrders(changed)).toBeUndefined();
  });

  it('go once they are void', () => {
    const where = { revision: 'web-2', isRolledOut: false };
    expect(prunedOrders(undefined, where)).toBeUndefined();
    expect(prunedOrders(orders, where)).toBeUndefined();
    expect(prunedOrders(orders, { ...where, isRolledOut: true })).toEqual({ orders: undefined });
    expect(prunedOrders({ ...orders, revision: 'web-1' }, where)).toEqual({ orders: undefined });
    expect(prunedOrders({ version: 1, revision: 'web-2' }, where)).toEqual({ orders: undefined });
  });

  it('limit any permit', () => {
    const permit = { revision: 'web-2', paused: false, skip: ['a'], batch: 3 };
    expect(permitUnder(permit, undefined)).toBe(permit);
    expect(permitUnder(permit, { ...orders, skip: ['a', 'b'] })).toMatchObject({ paused: true, skip: ['a', 'b'] });
  });

  it('never grow beyond what a history takes, and after any commands a resume or two give leave', () => {
    const names = fc.constantFrom('pause', 'resume', 'retry', 'skip', 'abort', 'undo');
    const anyCommand = fc.record({
      name: names,
      by: fc.string({ maxLength: 300, unit: 'grapheme' }),
      at: fc.constant(at),
      target: fc.string({ minLength: 1, maxLength: 253 }),
    });
    fc.assert(
      fc.property(fc.array(anyCommand, { maxLength: 40 }), (commands) => {
        let progress = start;
        for (const given of commands) {
          const before = progress;
          progress = hearing(progress, { kind: 'command', id: 1, command: given });
          const made = ordersAfter(given, {
            orders: before.orders,
            revision: 'web-2',
            previous: 'web-1',
            blockedBy: [],
          });
          if ('orders' in made) expect(made.orders.version).toBe((before.orders?.version ?? 0) + 1);
          expect(jsonBytes(progress.orders ?? {})).toBeLessThan(2_700);
          expect(wantedPermit(progress)?.paused).toBe(
            phaseOf(progress) === 'Paused' || phaseOf(progress) === 'Aborted',
          );
        }
        const freed = hearing(progress, command('resume'), command('resume'), command('retry'));
        expect(wantedPermit(freed)).toMatchObject({ paused: false, skip: [] });
        expect(ordersFor(freed.orders, 'web-2')).toBe(freed.orders);
      }),
    );
  });
});

describe('a permit that comes to nothing', () => {
  const waitingFor = { reason: 'Parked', blockedBy: [], blockedCount: 0, since: at, unblock: 'failed by hand' };
  const parked = heard(start, { kind: 'parked', waitingFor });

  it('F5: is said, and not handed in again until somebody asks for it', () => {
    expect(wantedPermit(parked)).toBeUndefined();
    expect(detailsOf(parked)).toContain('Parked: failed by hand');
    expect(wantedPermit(hearing(parked, { kind: 'changed', change: undefined }))).toEqual(wantedPermit(start));
    expect(wantedPermit(hearing(parked, command('retry')))).toEqual(wantedPermit(start));
  });

  it('F5: stays in sight when orders are written meanwhile', () => {
    expect(heard(parked, { kind: 'recorded', version: 1 }).waitingFor).toEqual(waitingFor);
    const refused = heard(start, { kind: 'refused', waitingFor });
    expect(heard(refused, { kind: 'recorded', version: 1 }).waitingFor).toBeUndefined();
  });
});

describe('orders that were given without knowledge of newer ones', () => {
  const newer = { version: 5, revision: 'web-2', aborted: { by: 'eve', at }, skip: ['web-a'] };

  it('F14: are joined with those: what either holds back is held back', () => {
    const own = heard(heard(start, command('pause')), command('skip', { target: 'web-b' }));
    const joined = heard(own, { kind: 'overtaken', orders: newer });
    expect(unrecordedOrders(joined)).toEqual({
      ...newer,
      version: 6,
      paused: by,
      skip: ['web-a', 'web-b'],
    });
    expect(wantedPermit(joined)?.paused).toBe(true);
  });

  it('F14: say nothing about another revision but that it is paused', () => {
    const own = heard(start, command('pause'));
    const other = heard(own, { kind: 'overtaken', orders: { ...newer, revision: 'web-1' } });
    expect(unrecordedOrders(other)).toEqual({ version: 7, revision: 'web-2', paused: by });
  });
});
