import { describe, expect, it } from '@jest/globals';
import { type CommandName, commandEvent, commandNames, commandsOf } from '../../api/engine/operations.ts';
import type { RollOutFacts } from '../../api/fleet/operation.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { noteOnSkip, ordersAfter, skipOfPods } from '../../plan/fleet/roll-out-orders.ts';
import { answerTo } from '../../plan/recreate/answer.ts';
import { applyEvent, newProgress } from '../../plan/recreate/events.ts';
import type { Progress } from '../../plan/recreate/model.ts';
import { answerToRefresh, newRefresh } from '../../plan/refresh-environment.ts';
import { answerToSwap } from '../../plan/sidecar-swap/answer.ts';
import { afterNews, begunSwap } from '../../plan/sidecar-swap/progress.ts';

describe('the Event about a command', () => {
  it('says what was done to what, or why nothing was', () => {
    expect(commandEvent('pause', 'ann')).toEqual({ type: 'Normal', reason: 'Paused', message: 'Paused by ann' });
    expect(
      commandEvent('undo', 'ann', { target: 'web-1', note: 'it never became available', isWarning: true }),
    ).toEqual({
      type: 'Warning',
      reason: 'Undone',
      message: 'Undone to revision web-1 by ann; it never became available',
    });
    const refused = `it must be one of ${commandNames.join(', ')}`;
    expect(commandEvent('pasue', 'ann', { refused })).toEqual({
      type: 'Warning',
      reason: 'CommandRefused',
      message: 'Command pasue by ann has no effect: it must be one of pause, resume, retry, skip, abort',
    });
  });

  it('undo is a command of roll-outs only', () => {
    expect(commandsOf('rollOut')).toContain('undo');
    expect(commandsOf('pullImages')).not.toContain('undo');
  });
});

describe('a command about a request to recreate containers', () => {
  const names = ['app', 'proxy'];
  const container = { phase: 'Pending', isKilled: false, originalId: '0', originalRestartCount: 0 } as const;
  const order = {
    ...{ request: 'crr-a', pod: 'web', ordered: false, force: false, graceSeconds: 30, minStartedSeconds: 0 },
    failurePolicy: 'Ignore',
  } as const;
  const begun = newProgress({ order, phase: '', containers: names.map((name) => ({ ...container, name })) });
  const given = (progress: Progress, name: (typeof commandNames)[number], target?: string) =>
    applyEvent(progress, { kind: 'command', command: { id: 1, name, by: 'ann', ...(target && { target }) } });
  const answer = (progress: Progress, name: (typeof commandNames)[number], target?: string) =>
    answerTo(progress, { name, ...(target !== undefined && { target }) });

  it('is refused for a container that the request does not have, with those that it has', () => {
    for (const name of ['skip', 'retry'] as const) {
      const why = 'container "prxy" is not one of the request, which has app and proxy';
      expect(answer(begun, name, 'prxy')).toEqual({ refused: why });
    }
    const long = 'x'.repeat(300);
    expect(answer(begun, 'skip', long).refused?.length).toBeLessThan(250);
  });

  it('names the container that is skipped, and is refused where that changes nothing', () => {
    expect(answer(begun, 'skip')).toEqual({ target: 'app' });
    expect(answer(begun, 'skip', 'proxy')).toEqual({ target: 'proxy' });
    const skipped = given(begun, 'skip', 'proxy');
    expect(answer(skipped, 'skip', 'proxy')).toEqual({ refused: 'container "proxy" is skipped already' });
    const stopping = applyEvent(
      { ...begun, inFlight: { ...begun.inFlight, stopping: 'app' } },
      { kind: 'command', command: { id: 1, name: 'pause', by: 'ann' } },
    );
    expect(answer(stopping, 'skip')).toEqual({ target: 'app', note: 'its stop has begun, and is finished' });
  });

  it('is refused where there is nothing to resume or to retry, and at the end', () => {
    expect(answer(begun, 'resume')).toEqual({ refused: 'the request is not paused' });
    expect(answer(given(begun, 'pause'), 'resume')).toEqual({});
    expect(answer(begun, 'retry', 'app')).toEqual({ refused: 'the stop of container "app" has not failed' });
    const result = { kind: 'failed', message: 'no' } as const;
    const failed = applyEvent(begun, { kind: 'stopEnded', container: 'app', result });
    expect(answer(failed, 'retry')).toEqual({ target: 'app' });
    expect(answer(given(begun, 'abort'), 'pause')).toEqual({ refused: 'the request is at its end' });
  });
});

describe('a command about the refresh of an environment', () => {
  const seen = {
    kind: 'seen',
    instances: ['app', 'log'].map((name) => ({ name, runtime: 'containerd', containerId: `${name}-0` })),
    more: false,
  } as const;
  const answer = (name: (typeof commandNames)[number], target?: string) =>
    answerToRefresh(newRefresh('web'), { name, ...(target !== undefined && { target }) }, seen);

  it('is refused without a target where it needs one, and for a container that is not refreshed', () => {
    expect(answer('skip').refused).toBe(
      'all containers are restarted at once, so it needs a target; left: app and log',
    );
    expect(answer('skip', 'ap').refused).toBe('container "ap" does not run with an old environment; left: app and log');
    expect(answer('skip', 'app')).toEqual({});
    expect(answer('resume')).toHaveProperty('refused');
    expect(answer('retry', 'app').refused).toBe('container "app" is not skipped');
  });
});

describe('a command about a swap', () => {
  const slots = { incoming: [{ container: 'm-2', image: 'm:2' }], outgoing: [{ container: 'm-1', image: 'e:1' }] };
  const at = (stage: 'begin' | 'starting' | 'resetting', backOffUntil?: string) => {
    const begun = begunSwap('web-0');
    const look = { kind: 'open', stage, ...slots, target: 'h', ...(backOffUntil && { backOffUntil }) } as const;
    return afterNews(begun, { kind: 'looked', look, nth: begun.looks, answers: 0, atMs: 0 });
  };

  it('skips the back-off of the kubelet, and is refused where that is not waited for', () => {
    const waits = at('begin', '2026-11-22T10:10:00Z');
    expect(answerToSwap(waits, 'skip')).toEqual({ target: 'the back-off of the kubelet' });
    for (const progress of [begunSwap('web-0'), at('begin'), at('starting')]) {
      expect(answerToSwap(progress, 'skip')).toHaveProperty('refused');
    }
  });

  it('says what it does not undo', () => {
    expect(answerToSwap(at('starting'), 'abort')).toEqual({});
    expect(answerToSwap(at('resetting'), 'abort').note).toMatch(/the new version serves already/);
    expect(answerToSwap(at('starting'), 'pause').note).toMatch(/is finished/);
    expect(answerToSwap(at('begin'), 'resume')).toEqual({ refused: 'the swap is not paused' });
  });
});

describe('a command about a roll-out', () => {
  const facts: Pick<RollOutFacts, 'revision' | 'previous'> = { revision: 'web-2', previous: 'web-1' };
  const command = { by: 'ann', at: 't', key: 'k' };
  const answer = (name: CommandName, pods?: readonly string[], orders?: RollOutOrders) =>
    ordersAfter({ ...command, name, ...(pods && { pods }) }, { ...facts, orders }).answer;
  const skipping = { version: 1, revision: 'web-2', skip: ['web-a'] };

  it('names the pods, and the revision that it goes back to', () => {
    expect(answer('skip', ['web-a', 'web-b'])).toEqual({ target: 'web-a and web-b' });
    expect(answer('skip', ['web-a', 'web-b'], skipping)).toEqual({ target: 'web-b' });
    expect(answer('retry', undefined, skipping)).toEqual({ target: 'web-a' });
    expect(answer('undo')).toEqual({ target: 'web-1' });
    const doubted = { ...facts, previousDoubt: 'it was never completely rolled out', orders: undefined };
    expect(ordersAfter({ ...command, name: 'undo' }, doubted)).toMatchObject({
      answer: { target: 'web-1', note: 'it was never completely rolled out', isWarning: true },
    });
    const undone = { version: 1, revision: 'web-2', undo: { by: 'ann', at: 't', to: 'web-1' } };
    expect(answer('resume', undefined, undone)).toEqual({ note: 'the undo is taken back: pods get revision web-2' });
  });

  it('is refused where it would change nothing', () => {
    expect(answer('skip', ['web-a'], skipping)).toEqual({ refused: 'skipped already: web-a' });
    expect(answer('retry', ['web-b'], skipping)).toEqual({ refused: 'web-b is not skipped; skipped: web-a' });
    expect(answer('retry', ['web-b'])).toEqual({ refused: 'web-b is not skipped; no pod is' });
    expect(answer('resume')).toEqual({ refused: 'it is neither paused nor aborted nor undone' });
  });

  it('that skips pods says which of them stay unavailable, and is refused for pods that the object does not have', () => {
    const many = Array.from({ length: 100 }, (_, index) => ({ name: `web-x${index}`, spendsBudget: false }));
    const pods = [{ name: 'web-b', spendsBudget: false }, { name: 'web-a', spendsBudget: true }, ...many];
    const skip = (...names: readonly string[]) => skipOfPods({ ...command, name: 'skip', pods: names }, pods);
    expect(skip('web-a', 'web-b', 'web-nope')).toMatchObject({ pods: ['web-a', 'web-b'] });
    expect(noteOnSkip(['web-a', 'web-b'], pods)).toEqual({
      note: 'still unavailable, and so still counted by maxUnavailable: web-a',
    });
    expect(noteOnSkip(['web-b'], pods)).toEqual({});
    expect(skip('web-nope')).toEqual({
      refused: expect.stringMatching(/^web-nope is none of its pods: it has web-a, web-b, web-x0, .* and \d+ more$/),
    });
    expect(skipOfPods({ ...command, name: 'skip', pods: ['web-nope'] }, [])).toEqual({
      refused: 'web-nope is none of its pods: it has none',
    });
  });
});
