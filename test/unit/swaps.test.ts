import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type {
  OpenSwap,
  SwapAwaitAnswer,
  SwapGoal,
  SwapLook,
  SwapStage,
  SwapStep,
  SwapStepAnswer,
  SwapStepRequest,
} from '../../plan/sidecar-swap/model.ts';
import type { SwapStanding } from '../../plan/sidecar-swap/standing.ts';
import { reportAfterMs, Swaps } from '../../watcher/kinds/sidecar-set/swaps.ts';

const pod = { namespace: 'shop', name: 'web-0', uid: 'p' };
const set = { name: 'mesh', uid: 's' };

beforeEach(() => {
  jest.useFakeTimers({ now: new Date('2026-11-22T10:00:00Z') });
});

afterEach(() => {
  jest.useRealTimers();
});

function open(stage: SwapStage): OpenSwap {
  return { kind: 'open', stage, incoming: [], outgoing: [], target: 'v2', begunAt: '2026-11-22T09:59:00Z' };
}

const waitOf = (reason: string) => ({ reason, blockedBy: ['container/mesh-2'], blockedCount: 1, unblock: 'wait' });

/** A life that the test ends. */
function life() {
  const end = new AbortController();
  return { isAlive: () => !end.signal.aborted, ended: end.signal, end: (why: string) => end.abort(new Error(why)) };
}

function played(initial: SwapStanding) {
  let standing = initial;
  const wakes: string[] = [];
  const lost = new AbortController();
  const swaps = new Swaps({
    term: { lost: lost.signal },
    look: () => standing,
    wake: (uid) => wakes.push(uid),
    nowMs: () => Date.now(),
  });

  /** What has come of it by now. */
  function watch<Answer>(answer: Promise<Answer>) {
    const seen: { answer?: Answer; error?: unknown } = {};
    answer.then(
      (one) => {
        seen.answer = one;
      },
      (error: unknown) => {
        seen.error = error instanceof Error ? error.message : error;
      },
    );
    return seen;
  }

  return {
    swaps,
    wakes,
    lost,
    stands(next: SwapStanding) {
      standing = next;
      swaps.podChanged(pod.uid);
    },
    step(step: SwapStep, { of = life(), ...more }: Partial<SwapStepRequest> & { of?: ReturnType<typeof life> } = {}) {
      return watch<SwapStepAnswer>(swaps.step({ pod, set, step, reports: 0, ...more }, of));
    },
    awaits(until: SwapGoal, more: { readonly told?: string; readonly reports?: number } = {}, of = life()) {
      return watch<SwapAwaitAnswer>(swaps.await({ pod, set, until, reports: 0, ...more }, of));
    },
  };
}

const pass = async (ms = 0) => await jest.advanceTimersByTimeAsync(ms);

describe('the steps that swaps hand in', () => {
  it('are written by the controller while their activity lives', async () => {
    const { swaps, wakes, step, stands } = played({ look: open('begin') });
    const of = life();
    const begin = step('begin', { of });
    expect(wakes).toEqual(['s']);
    expect(swaps.dueSteps('s').map((one) => one.step)).toEqual(['begin']);
    expect(swaps.dueSteps('other')).toEqual([]);
    expect([swaps.mayWrite({ pod, set, step: 'begin' }), swaps.mayWrite({ pod, set, step: 'reset' })]).toEqual([
      true,
      false,
    ]);
    stands({ look: open('starting') });
    await pass();
    expect(begin.answer).toEqual({ kind: 'written', at: '2026-11-22T09:59:00Z' });
    expect([swaps.dueSteps('s'), swaps.mayWrite({ pod, set, step: 'begin' })]).toEqual([[], false]);
    expect(wakes).toEqual(['s', 's']);
  });

  it('may not be written any more when the activity has ended, and the SidecarSet is looked at again', async () => {
    const { swaps, wakes, step } = played({ look: open('begin') });
    const of = life();
    const begin = step('begin', { of });
    of.end('the permit was revoked');
    await pass();
    expect(begin.error).toBe('the permit was revoked');
    expect([swaps.dueSteps('s'), swaps.mayWrite({ pod, set, step: 'begin' })]).toEqual([[], false]);
    expect(wakes.length).toBe(2);
  });

  it('SHU-32: are answered as written when they were on their way as the activity ended', async () => {
    const { swaps, step, stands } = played({ look: open('begin') });
    const [of, other] = [life(), life()];
    const begin = step('begin', { of });
    const over = swaps.writing(pod.uid);
    of.end('cancelled');
    await pass();
    expect(begin).toEqual({});
    stands({ look: open('starting') });
    over();
    await pass();
    expect(begin.answer).toEqual({ kind: 'written', at: '2026-11-22T09:59:00Z' });

    stands({ look: open('begin') });
    const failed = step('begin', { of: other });
    const without = swaps.writing(pod.uid);
    other.end('cancelled');
    without();
    await pass();
    expect(failed).toEqual({ error: 'cancelled' });
  });

  it('are replaced by a later attempt', async () => {
    const { stands, step } = played({ look: open('begin') });
    const [first, second] = [step('begin'), step('begin')];
    await pass();
    stands({ look: open('starting') });
    await pass();
    expect([first.error, second.answer?.kind]).toEqual(['a later attempt has brought it again', 'written']);
  });

  it('SHU-32: are found written where an earlier attempt has written them', async () => {
    for (const [step, stage] of [
      ['begin', 'starting'],
      ['begin', 'reset'],
      ['reset', 'resetting'],
      ['cancel', 'resetting'],
    ] as const) {
      const stage1 = played({ look: open(stage) }).step(step);
      await pass();
      expect(stage1.answer?.kind).toBe('written');
    }
    const begun = played({ look: open('starting') }).step('begin');
    await pass();
    expect(begun.answer).toEqual({ kind: 'written', at: '2026-11-22T09:59:00Z' });
  });

  it.each([
    ['begin', { kind: 'done' }],
    ['reset', open('begin')],
    ['cancel', open('reset')],
    ['cancel', { kind: 'gone', why: 'The pod is gone' }],
  ] as const)('%s: comes to nothing where there is nothing to write', async (step, look: SwapLook) => {
    const answer = played({ look }).step(step);
    await pass();
    expect(answer.answer?.kind).toBe('nothing');
  });

  it('SHU-40: a reset is not due before the kubelet has done its part', async () => {
    const { swaps, stands, step } = played({ look: open('starting'), wait: waitOf('PodNotReady') });
    step('reset');
    expect(swaps.dueSteps('s')).toEqual([]);
    stands({ look: open('reset') });
    expect(swaps.dueSteps('s').length).toBe(1);
  });

  it('SHU-43: a pause is reported at once, and once', async () => {
    const { swaps, stands, step } = played({ look: open('reset') });
    const first = step('reset');
    swaps.waits('p', waitOf('Paused'));
    await pass();
    expect(first.answer).toMatchObject({ kind: 'blocked', waitingFor: { reason: 'Paused' } });
    const second = step('reset', { told: 'Paused', reports: 1 });
    swaps.waits('p', waitOf('Paused'));
    await pass(3_600_000);
    expect(second).toEqual({});
    stands({ look: open('resetting') });
    await pass();
    expect(second.answer).toEqual({ kind: 'written', at: '2026-11-22T11:00:00Z' });
  });

  it('other waits are reported when they have lasted: the controller is asked again for that', async () => {
    const { swaps, wakes, step } = played({ look: open('begin') });
    const begin = step('begin');
    swaps.waits('p', waitOf('NotPermitted'));
    const before = wakes.length;
    await pass(reportAfterMs.first);
    expect(wakes.length).toBe(before + 1);
    swaps.waits('p', waitOf('NotPermitted'));
    await pass();
    expect(begin.answer).toMatchObject({ waitingFor: { reason: 'NotPermitted', since: '2026-11-22T10:00:00Z' } });
  });

  it('end with the term, and none is taken after it', async () => {
    const { lost, step, awaits } = played({ look: open('begin') });
    const begin = step('begin');
    lost.abort(new Error('the lease is lost'));
    await pass();
    expect(begin.error).toBe('the lease is lost');
    const late = awaits('ready');
    await pass();
    expect(late.error).toBe('the lease is lost');
  });
});

describe('the waits for the kubelet that swaps hand in', () => {
  it.each([
    ['ready', open('reset'), 'reached'],
    ['ready', open('begin'), 'changed'],
    ['ready', { kind: 'done' }, 'changed'],
    ['idle', { kind: 'done' }, 'reached'],
    ['idle', open('starting'), 'changed'],
    ['idle', { kind: 'gone', why: 'The pod is gone' }, 'changed'],
  ] as const)('until %s: %o is %s', async (until, look: SwapLook, kind) => {
    const answer = played({ look }).awaits(until);
    await pass();
    expect(answer.answer?.kind).toBe(kind);
  });

  it('SHU-45: last until the kubelet reports it, and say what they wait for', async () => {
    const { stands, swaps, awaits } = played({ look: open('starting'), wait: waitOf('ContainerNotReported') });
    const first = awaits('ready');
    await pass(reportAfterMs.first - 1);
    expect(first).toEqual({});
    await pass(1);
    expect(first.answer).toMatchObject({ kind: 'blocked', waitingFor: { reason: 'ContainerNotReported' } });
    const second = awaits('ready', { told: 'ContainerNotReported', reports: 1 });
    await pass(3_600_000);
    expect([second, swaps.progressOf('p')]).toEqual([
      {},
      { stage: 'starting', waitingFor: 'ContainerNotReported', blockedBy: ['container/mesh-2'] },
    ]);
    stands({ look: open('reset') });
    await pass();
    expect(second.answer).toEqual({ kind: 'reached' });
    expect(swaps.progressOf('p')).toBeUndefined();
  });

  it('report another reason after longer and longer, so that a flapping container does not fill the history', async () => {
    const { stands, awaits } = played({ look: open('starting'), wait: waitOf('ContainerNotReady') });
    const third = awaits('ready', { told: 'ContainerNotReported', reports: 2 });
    await pass(60_000);
    stands({ look: open('starting'), wait: waitOf('ContainerNotReported') });
    await pass(60_000);
    stands({ look: open('starting'), wait: waitOf('ContainerNotReady') });
    await pass(79_000);
    expect(third).toEqual({});
    await pass(1_000);
    expect(third.answer).toMatchObject({ waitingFor: { reason: 'ContainerNotReady' } });
  });

  it('are looked at when their SidecarSet has changed', async () => {
    let stage: SwapStage = 'starting';
    const swaps = new Swaps({
      term: { lost: new AbortController().signal },
      look: () => ({ look: open(stage) }),
      wake: () => undefined,
      nowMs: () => Date.now(),
    });
    const answer = swaps.await({ pod, set, until: 'ready', reports: 0 }, life());
    stage = 'begin';
    swaps.setChanged('other');
    swaps.setChanged('s');
    await expect(answer).resolves.toMatchObject({ kind: 'changed' });
  });
});
