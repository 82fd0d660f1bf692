import { describe, expect, it } from '@jest/globals';
import {
  asked,
  begun,
  detailsOf,
  handedInAgain,
  heard,
  isEnding,
  type PullNews,
  type PullProgress,
  phaseOf,
  reasonOfWait,
} from '../../plan/images/pull-on-nodes.ts';
import type { NodesAnswer, PullEnd } from '../../plan/images/pull-waves.ts';
import { mostInFlight } from '../../plan/permits/in-flight.ts';

const end: PullEnd = { failed: true, reason: 'NodesFailed', message: 'Image "nginx:1.27" is on 1 of 2 nodes' };
const told = { image: 'nginx:1.27', of: 5, ended: 0 } as const;
const nothing: NodesAnswer = { kind: 'nothing', ...told };
const done: NodesAnswer = { kind: 'done', end, ...told };

function waitOf(reason: string) {
  return { reason, blockedBy: ['nodeimage/a'], blockedCount: 1, since: '2026-11-22T10:00:00Z', unblock: 'Do this' };
}

function nodes(...waves: readonly (readonly string[])[]): NodesAnswer {
  return { kind: 'nodes', waves, more: false, ...told };
}

/** The answer to a question. */
function answer(given: NodesAnswer, atMs = 0): PullNews {
  return { kind: 'answer', answer: given, atMs };
}

/** The progress after these, which is asked for whenever that is due. */
function progressAfter(...news: readonly PullNews[]): PullProgress {
  return later(begun(), ...news);
}

function later(progress: PullProgress, ...news: readonly PullNews[]): PullProgress {
  return news.reduce((before, one) => heard(asked(before), one), progress);
}

function endOf(
  number: number,
  outcomes: readonly (readonly [string, string?])[],
  next: NodesAnswer = nothing,
): PullNews {
  const ended = outcomes.map(([node, why]) => (why === undefined ? { node, ms: 500 } : { node, why }));
  return { kind: 'carriedOut', number, result: { nodes: ended, next }, atMs: 12_000 };
}

describe('the operation of a pull job', () => {
  it('asks first, and hands in what it is answered, without a further question', () => {
    expect(begun()).toMatchObject({ mustAsk: true, inFlight: [] });
    const first = progressAfter(answer(nodes(['a', 'b'], ['c'])));
    expect(first).toMatchObject({
      ...{ image: 'nginx:1.27', of: 5, mustAsk: false, next: 3 },
      inFlight: [
        { number: 1, batch: ['a', 'b'], startedAtMs: 0 },
        { number: 2, batch: ['c'], startedAtMs: 0 },
      ],
    });
  });

  it('P-3: hands in what comes with the result of a wave, and nothing that is in another one', () => {
    const flying = progressAfter(answer(nodes(['a'], ['b'])));
    const further = later(flying, endOf(1, [['a']], nodes(['b', 'c'])));
    expect(further.mustAsk).toBe(false);
    expect(further.inFlight.map(({ number, batch }) => [number, batch])).toEqual([
      [2, ['b']],
      [3, ['c']],
    ]);
  });

  it('asks again when it is told to, after retry, and while more may go than an answer can name', () => {
    const flying = progressAfter(answer(nodes(['a'])));
    expect(later(flying, { kind: 'changed' }).mustAsk).toBe(true);
    expect(later(flying, { kind: 'command', name: 'retry' }).mustAsk).toBe(true);
    expect(later(flying, { kind: 'command', name: 'pause' }).mustAsk).toBe(false);
    const many: NodesAnswer = { kind: 'nodes', waves: [['a']], more: true, ...told };
    expect(progressAfter(answer(many)).mustAsk).toBe(true);
    // what is in waves that do not get there would be answered again and again
    expect(later(flying, answer(many)).mustAsk).toBe(false);
    const waves = Array.from({ length: mostInFlight + 1 }, (_, index) => [`n${index}`]);
    const full = progressAfter(answer({ kind: 'nodes', waves, more: true, ...told }));
    expect([full.inFlight.length, full.mustAsk]).toEqual([mostInFlight, false]);
  });

  it('shows what it waits for until an answer says otherwise', () => {
    const waiting = progressAfter(answer({ kind: 'wait', waitingFor: waitOf('NodesFull'), ...told }));
    expect([phaseOf(waiting), reasonOfWait(waiting)]).toEqual(['Pulling', 'NodesFull']);
    expect(detailsOf(waiting)).toContain('waits since 2026-11-22T10:00:00Z: NodesFull (nodeimage/a): Do this');
    expect(reasonOfWait(later(waiting, answer(nothing)))).toBe('');
    const paused = progressAfter(answer({ kind: 'wait', waitingFor: waitOf('Paused'), ...told }));
    expect(phaseOf(paused)).toBe('Paused');
  });

  it('shows a pause that is written to the job before the watcher has seen it, and its end', () => {
    const flying = progressAfter(answer(nodes(['a'])));
    const written = (name: string, isRefused = false) => ({ kind: 'written', name, isRefused, atMs: 0 }) as const;
    const paused = later(flying, written('pause'));
    expect([phaseOf(paused), reasonOfWait(paused)]).toEqual(['Paused', 'Paused']);
    expect(phaseOf(later(flying, written('pause', true)))).toBe('Pulling');
    expect(reasonOfWait(later(paused, written('retry')))).toBe('Paused');
    const resumed = later(paused, written('resume'));
    expect([phaseOf(resumed), reasonOfWait(resumed)]).toEqual(['Pulling', '']);
    const full = later(flying, answer({ kind: 'wait', waitingFor: waitOf('NodesFull'), ...told }), written('resume'));
    expect(reasonOfWait(full)).toBe('NodesFull');
  });

  it('asks again when a wave is lost', () => {
    const flying = progressAfter(answer(nodes(['a', 'b'])));
    const lost = later(flying, { kind: 'lost', number: 1, why: 'by hand' });
    expect(lost).toMatchObject({ mustAsk: true, inFlight: [], log: ['wave 1: by hand'] });
    expect(later(lost, { kind: 'lost', number: 1, why: 'late' }).mustAsk).toBe(false);
  });

  it('says which waves are not running once their nodes have been named again for five seconds', () => {
    const flying = progressAfter(answer(nodes(['a', 'b'])));
    const again = later(flying, answer(nodes(['a', 'b']), 1_000));
    expect(reasonOfWait(again)).toBe('');
    const stuck = later(again, answer(nodes(['a', 'b']), 6_000));
    expect(stuck.waitingFor).toMatchObject({ reason: 'WaveNotRunning', blockedBy: ['wave/1'], blockedCount: 1 });
    // other nodes go on
    const further = later(again, answer(nodes(['a', 'b'], ['c']), 6_000));
    expect([reasonOfWait(further), further.inFlight.length]).toEqual(['', 2]);
    expect(reasonOfWait(later(stuck, answer(nothing, 7_000)))).toBe('');
  });

  it('P-6: hands its waves in again to another leader, whom only a question finds out', () => {
    const by = (term: string, nth: number) => ({ order: { term, nth } });
    const flying = progressAfter(answer({ ...nodes(['a'], ['b']), ...by('one', 1) }));
    const late = later(flying, endOf(1, [['a']], { ...nothing, ...by('other', 7) }));
    expect(late.mustAsk).toBe(true);
    expect(handedInAgain(late, 0)).toBe(late);
    const led = handedInAgain(later(late, answer({ ...nothing, ...by('other', 8) })), 5);
    expect(led.inFlight).toEqual([{ number: 3, batch: ['b'], startedAtMs: 5, term: 'other' }]);
    expect(led.log.at(-1)).toBe('another watcher leads: handed in again are waves 2, as 3');
    // an answer that has been overtaken says nothing any more
    expect(later(led, answer({ ...nodes(['c']), ...by('other', 2) }))).toEqual({ ...led, mustAsk: false });
  });

  it('says what was done, what failed and what is in flight', () => {
    const flying = progressAfter(answer(nodes(['a', 'b'], ['c'])));
    const some = later(flying, endOf(1, [['a'], ['b', 'not found']], { ...nothing, ended: 2 }));
    expect(detailsOf(some).split('\n\n')).toEqual([
      'Pulling: nginx:1.27, 2 of 5 nodes have ended',
      'not pulled on b',
      'wave 2 in flight: pull nginx:1.27 on c',
      'wave 1: 1 nodes in 12 s; not b: not found',
    ]);
  });

  it('says of a job that has ended how, and neither waits nor waves', () => {
    const refused: PullNews = { kind: 'notWritten', waitingFor: waitOf('Denied') };
    const waiting = progressAfter(answer(nodes(['a', 'b'])), refused);
    expect(detailsOf(later(waiting, answer(done))).split('\n\n')).toEqual([
      'Failed: nginx:1.27, 0 of 5 nodes have ended',
    ]);
    expect(detailsOf({ ...waiting, end: { ...end, failed: false } })).toMatch(/^Completed: /);
    expect(detailsOf({ ...waiting, end: 'withdrawn' })).toMatch(/^Deleted: /);
  });

  it('is not over before the last nodes are named and nothing is to be asked', () => {
    const last = progressAfter(answer(nodes(['a', 'b'])));
    expect(isEnding(last)).toBe(false);
    const named = later(last, endOf(1, [['a'], ['b', 'x']], done));
    expect([named.end, isEnding(named), named.inFlight]).toEqual([end, true, []]);
    expect(isEnding(heard(named, { kind: 'changed' }))).toBe(false);
    // nodes that were never named are there
    expect(later(named, answer(nodes(['c']))).end).toBeUndefined();
  });

  it('is over when its job is gone', () => {
    const withdrawn = answer({ kind: 'withdrawn' });
    const gone = progressAfter(withdrawn);
    expect([gone.end, isEnding(heard(gone, { kind: 'changed' }))]).toEqual(['withdrawn', true]);
    // what was known before counts
    expect(progressAfter(answer(done), withdrawn).end).toEqual(end);
  });

  it('shows what cannot be written until it can', () => {
    const refused = progressAfter({ kind: 'notWritten', waitingFor: waitOf('Denied') });
    expect(reasonOfWait(refused)).toBe('Denied');
    expect(reasonOfWait(later(refused, answer(nothing)))).toBe('Denied');
    const written = { kind: 'written', name: 'abort', isRefused: false, atMs: 0 } as const;
    expect(reasonOfWait(later(refused, written))).toBe('');
  });

  it('shows that a question has failed until one is answered', () => {
    const parked = progressAfter({ kind: 'notAnswered', waitingFor: waitOf('Parked') });
    expect([reasonOfWait(parked), parked.mustAsk]).toEqual(['Parked', false]);
    expect(reasonOfWait(later(parked, answer(nodes(['a']))))).toBe('');
  });

  it('P-11: continues with the waves and the numbers of an earlier run, for whoever answers it', () => {
    const inFlight = [{ number: 6, batch: ['a'], startedAtMs: 1, term: 'before' }];
    const next = begun({ next: 7, inFlight, log: ['wave 5: 1 nodes in 3 s'] });
    expect(next.mustAsk).toBe(true);
    const led = later(next, answer({ ...nodes(['b']), order: { term: 'now', nth: 1 } }));
    expect(led.inFlight).toEqual([
      { number: 6, batch: ['a'], startedAtMs: 1, term: 'now' },
      { number: 7, batch: ['b'], startedAtMs: 0, term: 'now' },
    ]);
    expect(handedInAgain(led, 5)).toBe(led);
  });
});
