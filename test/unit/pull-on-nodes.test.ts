import { describe, expect, it } from '@jest/globals';
import {
  begun,
  begunWith,
  detailsOf,
  heard,
  isAnswered,
  isEnding,
  type PullNews,
  type PullProgress,
  phaseOf,
  reasonOfWait,
  wantedQuestion,
} from '../../plan/images/pull-on-nodes.ts';
import type { NextNodes, PullEnd } from '../../plan/images/pull-waves.ts';

const open = { kind: 'looked', look: { kind: 'open', image: 'nginx:1.27' } } as const;
const end: PullEnd = { failed: true, reason: 'NodesFailed', message: 'Image "nginx:1.27" is on 1 of 2 nodes' };
const finished = { kind: 'looked', look: { kind: 'finished', image: 'nginx:1.27', end } } as const;

function waitOf(reason: string) {
  return { reason, blockedBy: ['nodeimage/a'], blockedCount: 1, since: '2026-11-22T10:00:00Z', unblock: 'Do this' };
}

function progressAfter(...news: readonly PullNews[]): PullProgress {
  return news.reduce(heard, begun());
}

/** The answer to what is wanted then. */
function next(progress: PullProgress, answer: NextNodes): PullProgress {
  const of = wantedQuestion(progress);
  if (!of) throw new Error('nothing is asked');
  return heard(progress, { kind: 'next', next: answer, of, atMs: 0 });
}

const wave = (nodes: readonly string[], rest = 0): NextNodes => ({ kind: 'wave', nodes, of: 5, ended: 0, rest });

function endOf(number: number, ...outcomes: readonly (readonly [string, string?])[]): PullNews {
  const nodes = outcomes.map(([node, why]) => (why === undefined ? { node, ms: 500 } : { node, why }));
  return { kind: 'ended', wave: number, outcome: { nodes }, atMs: 12_000 };
}

describe('the operation of a pull job', () => {
  it('looks first, then asks which nodes go next', () => {
    expect(wantedQuestion(begun())).toBeUndefined();
    expect(begun().looks).toBe(1);
    expect(wantedQuestion(progressAfter(open))).toMatchObject({ wave: 1, after: [] });
  });

  it('hands in at once what it was told at its start, and asks for the rest without a look', () => {
    const told = { image: 'nginx:1.27', nodes: ['a', 'b'], of: 5, ended: 0 };
    const some = begunWith({ ...told, rest: 3 }, 0);
    expect(some).toMatchObject({ looks: 0, image: 'nginx:1.27', of: 5 });
    expect(some.inFlight).toEqual([{ wave: 1, nodes: ['a', 'b'], startedAtMs: 0 }]);
    expect(wantedQuestion(some)).toMatchObject({ wave: 2, after: [1] });
    const all = begunWith({ ...told, rest: 0 }, 0);
    expect(wantedQuestion(all)).toBeUndefined();
    const changed = heard(all, { kind: 'changed' });
    expect(changed.looks).toBe(1);
    expect(wantedQuestion(heard(changed, open))).toMatchObject({ wave: 2, after: [1] });
  });

  it('hands the wave in and asks for the next one at once, unless no node is left', () => {
    const first = next(progressAfter(open), wave(['a', 'b'], 3));
    expect(first.inFlight).toEqual([{ wave: 1, nodes: ['a', 'b'], startedAtMs: 0 }]);
    expect(wantedQuestion(first)).toMatchObject({ wave: 2, after: [1] });
    const second = next(first, wave(['c', 'd', 'e']));
    expect(second.inFlight.map((one) => one.wave)).toEqual([1, 2]);
    expect(wantedQuestion(second)).toBeUndefined();
  });

  it('asks again when the watcher wakes it', () => {
    const parked = next(next(progressAfter(open), wave(['a'], 1)), { kind: 'idle', of: 1, ended: 0 });
    expect(wantedQuestion(parked)).toBeUndefined();
    const changed = heard(parked, { kind: 'changed' });
    expect(changed.looks).toBe(2);
    expect(wantedQuestion(heard(changed, open))).toMatchObject({ wave: 2, after: [1] });
  });

  it('does not ask anew what is asked already', () => {
    const asked = wantedQuestion(progressAfter(open));
    expect(wantedQuestion(progressAfter(open, { kind: 'changed' }, open, { kind: 'command', name: 'retry' }))).toEqual(
      asked,
    );
  });

  it('goes on after a wait was reported, and shows it', () => {
    const paused = next(progressAfter(open), { kind: 'blocked', waitingFor: waitOf('Paused') });
    expect([phaseOf(paused), reasonOfWait(paused)]).toEqual(['Paused', 'Paused']);
    expect(wantedQuestion(paused)).toBeUndefined();
    expect(detailsOf(paused)).toContain('waits since 2026-11-22T10:00:00Z: Paused (nodeimage/a): Do this');
    const resumed = heard(paused, open);
    expect([phaseOf(resumed), reasonOfWait(resumed)]).toEqual(['Pulling', '']);
    expect(wantedQuestion(resumed)).toMatchObject({ wave: 1 });
  });

  it('asks again at once if the waves have ended that the watcher still waited for', () => {
    const flying = next(progressAfter(open), wave(['a'], 1));
    const of = wantedQuestion(flying);
    if (!of) throw new Error('nothing is asked');
    const ended = heard(flying, endOf(1, ['a']));
    const news = {
      kind: 'next',
      next: { kind: 'blocked', waitingFor: waitOf('WaveNotRunning') },
      of,
      atMs: 0,
    } as const;
    expect(wantedQuestion(heard(ended, news))).toMatchObject({ wave: 2, after: [] });
    expect(wantedQuestion(heard(flying, news))).toBeUndefined();
  });

  it('names the nodes of a wave that was lost or is incomplete once more', () => {
    const flying = next(progressAfter(open), wave(['a', 'b']));
    expect(wantedQuestion(heard(flying, { kind: 'lost', wave: 1, why: 'by hand' }))).toMatchObject({
      wave: 2,
      after: [],
    });
    expect(wantedQuestion(heard(flying, endOf(1, ['a'])))).toMatchObject({ wave: 2, after: [] });
    expect(wantedQuestion(heard(flying, endOf(1, ['a'], ['b'])))).toBeUndefined();
  });

  it('says what was done, what failed and what is in flight', () => {
    const flying = next(next(progressAfter(open), wave(['a', 'b'], 1)), wave(['c']));
    const some = heard(flying, endOf(1, ['a'], ['b', 'not found']));
    expect(detailsOf(some).split('\n\n')).toEqual([
      'Pulling: nginx:1.27, 2 of 5 nodes have ended',
      'not pulled on b',
      'wave 2 in flight: pull nginx:1.27 on c',
      'wave 1: 1 nodes in 12 s; not b: not found',
    ]);
  });

  it('says of a job that has ended how, and neither waits nor waves', () => {
    const waiting = next(progressAfter(open), wave(['a', 'b'], 1));
    const refused = heard(waiting, { kind: 'refused', step: 'look', waitingFor: waitOf('Denied') });
    expect(detailsOf({ ...refused, end: { failed: true, reason: 'Aborted', message: '' } }).split('\n\n')).toEqual([
      'Failed: nginx:1.27, 0 of 5 nodes have ended',
    ]);
    expect(detailsOf({ ...refused, end: { failed: false, reason: 'x', message: '' } })).toMatch(/^Completed: /);
    expect(detailsOf({ ...refused, end: 'gone' })).toMatch(/^Deleted: /);
  });

  it('is not over before the last nodes are named and the waves answered', () => {
    const early = progressAfter(finished);
    expect([isEnding(early), isAnswered(early)]).toEqual([true, false]);
    const named = next(early, wave(['a', 'b']));
    expect(isAnswered(named)).toBe(false);
    expect(isAnswered(heard(named, endOf(1, ['a'], ['b', 'x'])))).toBe(true);
    expect(next(progressAfter(open), { kind: 'finished', end })).toMatchObject({ end });
  });

  it('is over when its job is gone', () => {
    const gone = next(progressAfter({ kind: 'looked', look: { kind: 'gone' } }), { kind: 'gone' });
    expect([gone.end, isEnding(gone), isAnswered(gone)]).toEqual(['gone', true, true]);
    // what was known before counts
    expect(next(progressAfter(finished), { kind: 'gone' }).end).toEqual(end);
  });

  it('shows what cannot be read or written until it can', () => {
    const refused = progressAfter(open, { kind: 'refused', step: 'command', waitingFor: waitOf('Denied') });
    expect(reasonOfWait(refused)).toBe('Denied');
    expect(reasonOfWait(heard(refused, { kind: 'allowed', step: 'look' }))).toBe('Denied');
    expect(reasonOfWait(heard(refused, { kind: 'allowed', step: 'command' }))).toBe('');
  });

  it('asks again after a pause, or after retry, when a question has failed', () => {
    const parked = progressAfter(open, { kind: 'parked', waitingFor: waitOf('Parked') });
    expect(wantedQuestion(parked)).toBeUndefined();
    expect(wantedQuestion(heard(parked, { kind: 'again' }))).toMatchObject({ wave: 1 });
    expect(wantedQuestion(heard(parked, { kind: 'command', name: 'retry' }))).toMatchObject({ wave: 1 });
    expect(wantedQuestion(heard(parked, { kind: 'command', name: 'pause' }))).toBeUndefined();
  });

  it('continues the numbers of an earlier run', () => {
    expect(wantedQuestion(heard(begun({ next: 7 }), open))).toMatchObject({ wave: 7, after: [] });
  });
});
