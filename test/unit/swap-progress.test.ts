import { describe, expect, it } from '@jest/globals';
import type { OpenSwap, SwapAwaitAnswer, SwapLook, SwapStage, SwapStepAnswer } from '../../plan/sidecar-swap/model.ts';
import {
  afterNews,
  backOffUntilMs,
  begunSwap,
  deadlineMs,
  restOf,
  type SwapNews,
  type SwapProgress,
  wantedWork,
} from '../../plan/sidecar-swap/progress.ts';
import { swapDetailsOf, swapPhaseOf, swapWaitOf, workText } from '../../plan/sidecar-swap/texts.ts';

const at = '2026-11-22T10:00:00Z';
const atMs = Date.parse(at);

function open(stage: SwapStage, more: Partial<OpenSwap> = {}): OpenSwap {
  return {
    ...{ kind: 'open', stage, target: 'v2' },
    incoming: [{ container: 'mesh-2', image: 'app:v2' }],
    outgoing: [{ container: 'mesh-1', image: 'empty:1' }],
    ...more,
  };
}

const wait = (reason: string) => ({
  reason,
  blockedBy: ['container/mesh-2'],
  blockedCount: 1,
  since: at,
  unblock: 'wait',
});
const command = (name: 'pause' | 'resume' | 'retry' | 'skip' | 'abort'): SwapNews => ({ kind: 'command', name });
const stepped = (step: 'begin' | 'reset' | 'cancel', answer: SwapStepAnswer = { kind: 'written', at }): SwapNews => ({
  ...{ kind: 'stepped', step, answer },
});
const awaited = (until: 'ready' | 'idle', answer: SwapAwaitAnswer = { kind: 'reached' }): SwapNews => ({
  ...{ kind: 'awaited', until, answer },
});

/** A look as the workflow makes it: after all that is known. */
function looked(progress: SwapProgress, look: SwapLook): SwapProgress {
  const { looks: nth, answers } = progress;
  return afterNews(progress, { kind: 'looked', look, nth, answers, atMs });
}

function played(progress: SwapProgress, ...news: readonly SwapNews[]): SwapProgress {
  return news.reduce(afterNews, progress);
}

const fresh = looked(begunSwap('web-0'), open('begin'));
const starting = played(fresh, stepped('begin'));

/** What is asked of the watcher, without the key. */
function asks(progress: SwapProgress): unknown {
  const { key: _, ...work } = wantedWork(progress) ?? { key: '' };
  return work;
}

describe('the progress of a swap', () => {
  it('SHU-32, SHU-41: writes, waits for the kubelet, resets, waits, and looks once more', () => {
    const kinds: unknown[] = [];
    let progress = fresh;
    for (const news of [stepped('begin'), awaited('ready'), stepped('reset'), awaited('idle')]) {
      kinds.push(asks(progress));
      progress = afterNews(progress, news);
    }
    expect(kinds).toEqual([
      { kind: 'write', step: 'begin' },
      { kind: 'await', until: 'ready' },
      { kind: 'write', step: 'reset' },
      { kind: 'await', until: 'idle' },
    ]);
    expect(progress.end).toBeUndefined();
    expect(looked(progress, { kind: 'done' }).end).toMatchObject({ kind: 'Completed', reason: 'Swapped' });
  });

  it('asks nothing before its first look', () => {
    expect(wantedWork(begunSwap('web-0'))).toBeUndefined();
  });

  it.each([
    ['starting', { kind: 'await', until: 'ready' }],
    ['reset', { kind: 'write', step: 'reset' }],
    ['resetting', { kind: 'await', until: 'idle' }],
  ] as const)('SHU-68: continues a swap that it finds %s', (stage, work) => {
    expect(asks(looked(begunSwap('web-0'), open(stage)))).toEqual(work);
  });

  it('ends where there is nothing to swap, where the planner keeps the pod, and where the pod is gone', () => {
    const first = begunSwap('web-0');
    expect(looked(first, { kind: 'done' }).end?.reason).toBe('NothingToSwap');
    expect(looked(first, { kind: 'gone', why: 'The pod is gone' }).end).toMatchObject({ reason: 'Deleted' });
    const kept = played(fresh, stepped('begin', { kind: 'nothing', why: 'the partition keeps it' }));
    expect(kept.end).toMatchObject({ kind: 'Completed', reason: 'NothingToSwap' });
  });

  it('does not use a look that is older than an answer, or than a change', () => {
    const { looks: nth, answers } = fresh;
    const old: SwapNews = { kind: 'looked', look: open('begin'), nth, answers, atMs };
    const after = played(starting, old);
    expect(asks(after)).toEqual({ kind: 'await', until: 'ready' });
    expect(after.looks).toBe(starting.looks + 1);
    const changed = played(starting, { kind: 'changed' });
    const older: SwapNews = { kind: 'looked', look: { kind: 'done' }, nth, answers: changed.answers, atMs };
    expect(played(changed, older).end).toBeUndefined();
  });

  it('keeps what it asks while a look finds the same', () => {
    const changed = played(starting, { kind: 'changed' });
    expect(wantedWork(looked(changed, open('starting')))?.key).toBe(wantedWork(starting)?.key);
  });

  it('SHU-33: writes another image that is published while the new container is not ready', () => {
    const changed = looked(played(starting, { kind: 'changed' }), open('begin', { target: 'v3' }));
    expect(asks(changed)).toEqual({ kind: 'write', step: 'begin' });
  });

  it('a wait that was reported is asked for again, under another key', () => {
    const blocked = played(starting, awaited('ready', { kind: 'blocked', waitingFor: wait('ContainerNotReady') }));
    expect(wantedWork(blocked)?.key).not.toBe(wantedWork(starting)?.key);
    expect(swapWaitOf(blocked)?.reason).toBe('ContainerNotReady');
    expect(blocked.reports).toBe(1);
    const over = played(blocked, awaited('ready'));
    expect([swapWaitOf(over), over.reports]).toEqual([undefined, 0]);
  });

  describe('operators', () => {
    it('pause holds back the first write, and nothing after it', () => {
      const paused = played(fresh, command('pause'));
      expect([wantedWork(paused), swapPhaseOf(paused)]).toEqual([undefined, 'Paused']);
      expect(swapWaitOf(paused)?.reason).toBe('PausedByOperator');
      expect(asks(played(paused, command('resume')))).toEqual({ kind: 'write', step: 'begin' });
      const later = played(starting, command('pause'));
      expect([asks(later), swapPhaseOf(later)]).toEqual([{ kind: 'await', until: 'ready' }, 'Swapping']);
    });

    it('abort ends a swap that a look finds not begun, and writes nothing', () => {
      const aborted = played(fresh, command('abort'));
      expect([asks(aborted), aborted.end, aborted.looks]).toEqual([{}, undefined, fresh.looks + 1]);
      expect(looked(aborted, open('begin')).end).toMatchObject({ kind: 'Aborted', reason: 'Aborted' });
    });

    it('a first write that was made all the same is undone by abort, and continued despite a pause', () => {
      const aborted = played(fresh, command('abort'), stepped('begin'));
      expect(asks(aborted)).toEqual({ kind: 'write', step: 'cancel', why: 'Aborted' });
      const paused = played(fresh, command('pause'), stepped('begin'));
      expect(asks(paused)).toEqual({ kind: 'await', until: 'ready' });
      const unsure = played(fresh, command('pause'), { kind: 'withdrawn' });
      expect([asks(unsure), unsure.looks]).toEqual([{}, fresh.looks + 1]);
      expect(asks(looked(unsure, open('starting')))).toEqual({ kind: 'await', until: 'ready' });
    });

    it('abort before the first look ends after it', () => {
      const early = played(begunSwap('web-0'), command('abort'));
      expect(early.end).toBeUndefined();
      expect(looked(early, open('begin')).end).toMatchObject({ kind: 'Aborted' });
    });

    it('SHU-60: abort returns to the old version while the new one is not ready', () => {
      const aborted = played(starting, command('abort'));
      expect(asks(aborted)).toEqual({ kind: 'write', step: 'cancel', why: 'Aborted' });
      const back = played(aborted, stepped('cancel'));
      expect([asks(back), swapPhaseOf(back)]).toEqual([{ kind: 'await', until: 'idle' }, 'Undoing']);
      expect(played(back, awaited('idle')).end).toMatchObject({ kind: 'Aborted' });
    });

    it('abort lets a swap finish whose new version serves', () => {
      const serves = played(starting, awaited('ready'), command('abort'));
      expect(asks(serves)).toEqual({ kind: 'write', step: 'reset' });
      const done = looked(played(serves, stepped('reset'), awaited('idle')), { kind: 'done' });
      expect(done.end).toMatchObject({ kind: 'Completed' });
    });

    it('a new container that becomes ready meanwhile is not undone', () => {
      const aborted = played(starting, command('abort'));
      const late = played(aborted, stepped('cancel', { kind: 'nothing', why: 'the new version serves' }));
      expect([wantedWork(late), restOf(late)]).toEqual([undefined, 1_000]);
      const seen = looked(played(late, { kind: 'again' }), open('reset'));
      expect(asks(seen)).toEqual({ kind: 'write', step: 'reset' });
    });

    it('retry asks again at once for what was refused, and so does the end of the pause', () => {
      const parked = played(fresh, { kind: 'parked', waitingFor: wait('Parked') });
      expect([wantedWork(parked), swapWaitOf(parked)?.reason]).toEqual([undefined, 'Parked']);
      for (const news of [command('retry'), { kind: 'again' } as const]) {
        const retried = played(parked, news);
        expect([asks(retried), swapWaitOf(retried)]).toEqual([{ kind: 'write', step: 'begin' }, undefined]);
      }
    });
  });

  describe('the back-off of the kubelet', () => {
    const held = looked(begunSwap('web-0'), open('begin', { backOffUntil: '2026-11-22T10:05:00Z' }));

    it('is waited for before the first write', () => {
      expect([wantedWork(held), backOffUntilMs(held)]).toEqual([undefined, atMs + 300_000]);
      expect(swapWaitOf(held)).toMatchObject({ reason: 'KubeletBackOff' });
      expect(swapWaitOf(held)?.unblock).toContain('It begins at 2026-11-22T10:05:00Z');
      expect(asks(played(held, { kind: 'backOffOver' }))).toEqual({ kind: 'write', step: 'begin' });
    });

    it('is not waited for after skip, in this swap', () => {
      const skipped = played(held, command('skip'));
      expect(asks(skipped)).toEqual({ kind: 'write', step: 'begin' });
      const ended = played(skipped, stepped('begin'), awaited('ready'), stepped('reset'), awaited('idle'));
      expect(wantedWork(looked(ended, open('begin', { target: 'v3', backOffUntil: at })))).toBeUndefined();
    });

    it('skip does nothing where nothing is waited for', () => {
      expect(played(starting, command('skip'))).toEqual(starting);
    });
  });

  describe('the deadline', () => {
    const limited = played(
      looked(begunSwap('web-0'), open('begin', { deadlineMs: 60_000 })),
      stepped('begin', { kind: 'written', at }),
    );

    it('SHU-63: counts from the first write, and then the old version is restored', () => {
      expect(deadlineMs(limited)).toBe(atMs + 60_000);
      const over = played(limited, { kind: 'deadlineOver' });
      expect([deadlineMs(over), asks(over)]).toEqual([
        undefined,
        { kind: 'write', step: 'cancel', why: 'DeadlineExceeded' },
      ]);
      const back = played(over, stepped('cancel'), awaited('idle'));
      expect(back.end).toMatchObject({ kind: 'DeadlineExceeded' });
    });

    it('is over at once where a look finds that it has passed, and not when the new version serves', () => {
      const seen = (stage: SwapStage) =>
        looked(begunSwap('web-0'), open(stage, { deadlineMs: 60_000, begunAt: '2026-11-22T09:00:00Z' }));
      expect(asks(seen('starting'))).toMatchObject({ step: 'cancel', why: 'DeadlineExceeded' });
      expect(asks(seen('reset'))).toMatchObject({ step: 'reset' });
    });

    it('no deadline: it waits', () => {
      expect(deadlineMs(starting)).toBeUndefined();
    });
  });

  it('what was undone ends so in the next run, too, unless another swap has begun', () => {
    const kept = { goesBack: 'Aborted' } as const;
    expect(looked(begunSwap('web-0', kept), { kind: 'done' }).end).toMatchObject({ kind: 'Aborted' });
    expect(looked(begunSwap('web-0', kept), open('begin')).end).toMatchObject({ kind: 'Aborted' });
    expect(asks(looked(begunSwap('web-0', kept), open('resetting')))).toEqual({ kind: 'await', until: 'idle' });
    expect(looked(begunSwap('web-0', kept), open('starting')).goesBack).toBeUndefined();
  });

  it('rests longer and longer while a look finds something to write and the watcher finds nothing', () => {
    let progress = played(starting, awaited('ready'));
    const rests: unknown[] = [];
    for (let nth = 0; nth < 8; nth++) {
      progress = played(progress, stepped('reset', { kind: 'nothing', why: 'not now' }));
      rests.push(restOf(progress));
      progress = looked(played(progress, { kind: 'again' }), open('reset'));
    }
    expect(rests).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  });
});

describe('the texts of a swap', () => {
  const operation = {
    pod: { namespace: 'shop', name: 'web-0', uid: 'p' },
    set: { name: 'mesh', uid: 's' },
  };

  it('names container, image and pod of each step', () => {
    const text = (work: Parameters<typeof workText>[2], more: Partial<OpenSwap> = {}) =>
      workText(operation, open('begin', more), work);
    expect([
      text({ key: '', kind: 'write', step: 'begin' }),
      text({ key: '', kind: 'await', until: 'ready' }),
      text({ key: '', kind: 'write', step: 'reset' }),
      text({ key: '', kind: 'await', until: 'idle' }),
      text({ key: '', kind: 'write', step: 'cancel', why: 'Aborted' }),
    ]).toEqual([
      'write app:v2 into web-0 mesh-2',
      'wait until mesh-2 of web-0 is ready',
      'reset mesh-1 of web-0',
      'wait until mesh-1 of web-0 is idle',
      'undo mesh-2 of web-0',
    ]);
    const two = [...open('begin').outgoing, { container: 'logs-1', image: 'empty:1' }];
    expect(text({ key: '', kind: 'write', step: 'reset' }, { outgoing: two })).toBe('reset mesh-1 and 1 more of web-0');
  });

  it('is short enough for Temporal, whatever the names are', () => {
    const container = 'c'.repeat(63);
    const incoming = [{ container, image: 'i'.repeat(300) }];
    const long = { ...operation, pod: { ...operation.pod, name: 'p'.repeat(253) } };
    const text = workText(long, open('begin', { incoming }), { key: '', kind: 'write', step: 'begin' });
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(200);
  });

  it('lists the phase, the wait, the containers and what was done', () => {
    const blocked = played(starting, awaited('ready', { kind: 'blocked', waitingFor: wait('ContainerNotReady') }));
    expect(swapDetailsOf(operation, blocked).split('\n\n')).toEqual([
      'Swapping: SidecarSet mesh',
      'ContainerNotReady (container/mesh-2): wait',
      'new: mesh-2: app:v2',
      'old: mesh-1: empty:1',
      `${at}: begun`,
    ]);
  });
});
