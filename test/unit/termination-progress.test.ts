import { describe, expect, it } from '@jest/globals';
import type { TerminationStatus } from '../../api/job-sidecar-termination.ts';
import { waitFor } from '../../plan/decision.ts';
import type { SidecarDecision } from '../../plan/terminate-sidecars.ts';
import {
  answerToTermination,
  applyTerminationEvent,
  lookAgainPauseMs,
  newTermination,
  nextOrder,
  repeatPauseMs,
  type TerminationEvent,
  type TerminationProgress,
} from '../../plan/termination-progress.ts';

const paused: TerminationStatus = { waitingFor: { ...waitFor('Paused', [], 'Signal resume'), since: 'noon' } };
const stop = { kind: 'requestStop', containers: ['proxy', 'mesh'] } as const;
const due: Extract<SidecarDecision, { kind: 'act' }> = { kind: 'act', step: stop };

function played(...events: readonly TerminationEvent[]): TerminationProgress {
  return events.reduce(applyTerminationEvent, newTermination({}));
}

function order(progress: TerminationProgress, status: TerminationStatus = {}) {
  return nextOrder(progress, due, status);
}

describe('what operators want of a termination', () => {
  it('is nothing at first', () => {
    expect(order(played())).toBeUndefined();
    expect(order(played({ kind: 'command', name: 'retry' }))).toBeUndefined();
  });

  it('is a pause until a resume, with the name of the sender once it is known', () => {
    const pause = played({ kind: 'command', name: 'pause' });
    expect(order(pause)).toMatchObject({ kind: 'pause', waitingFor: { reason: 'Paused' } });
    const named = applyTerminationEvent(pause, { kind: 'commandIdentified', name: 'pause', by: 'ann' });
    expect(order(named)).toMatchObject({ waitingFor: { unblock: expect.stringContaining('; paused by ann') } });
    expect(order(applyTerminationEvent(named, { kind: 'command', name: 'resume' }))).toBeUndefined();
  });

  it('is a pause that the status names at the first look, unless an operator resumed before', () => {
    const looked: TerminationEvent = { kind: 'looked', status: paused };
    expect(order(played(looked))).toMatchObject({ kind: 'pause' });
    expect(order(played({ kind: 'command', name: 'resume' }, looked))).toBeUndefined();
    expect(order(played({ kind: 'looked', status: {} }, looked))).toBeUndefined();
  });

  it('is an abort, whose sender is known later, and a cancellation at once', () => {
    const abort = played({ kind: 'command', name: 'abort' });
    expect(order(abort)).toEqual({ kind: 'abort' });
    expect(abort.abortedBy).toBe('');
    expect(applyTerminationEvent(abort, { kind: 'commandIdentified', name: 'abort', by: 'ann' }).abortedBy).toBe('ann');
    expect(played({ kind: 'cancelled', by: 'a cancellation' }).abortedBy).toBe('a cancellation');
  });

  it('is to leave out the container that is named, or the first one in the way, before all else', () => {
    const skip: TerminationEvent = { kind: 'command', name: 'skip' };
    expect(order(played(skip, { kind: 'command', name: 'abort' }))).toMatchObject({ kind: 'skip', skipped: ['proxy'] });
    expect(order(played(skip, skip))).toMatchObject({ kind: 'skip', skipped: ['proxy', 'mesh'] });
    expect(order(played({ ...skip, target: 'other' }), { skipped: ['log'] })).toMatchObject({
      kind: 'skip',
      skipped: ['log', 'other'],
    });
    expect(order(played(skip, { kind: 'skipsReported' }))).toBeUndefined();
  });

  it('is refused for a container that is no sidecar of the pod, or is skipped already, and where nothing is in the way', () => {
    const skip = (id: number, target?: string): TerminationEvent => ({ kind: 'command', id, name: 'skip', target });
    const decision = {
      kind: 'wait',
      waitingFor: waitFor('NoStopMark', ['container/proxy'], 'Delete the pod'),
    } as const;
    const progress = played(skip(1, 'prxy'), skip(2), skip(3, 'proxy'), skip(4));
    expect(nextOrder(progress, decision, {}, ['proxy', 'log'])).toEqual({
      kind: 'skip',
      skipped: ['proxy'],
      answers: [
        {
          id: 1,
          answer: {
            refused: 'container "prxy" is not a sidecar that ends with the pod, which has proxy and log',
          },
        },
        { id: 2, answer: { target: 'proxy' } },
        { id: 3, answer: { refused: 'sidecar "proxy" is skipped already' } },
        { id: 4, answer: { refused: 'it has no target, and no sidecar is waited for' } },
      ],
    });
  });

  it('resume is refused where nothing is paused', () => {
    const looked: TerminationEvent = { kind: 'looked', status: {} };
    expect(answerToTermination(played(looked), 'resume')).toHaveProperty('refused');
    expect(answerToTermination(played(looked, { kind: 'command', name: 'pause' }), 'resume')).toEqual({});
    // the pause may stand on the pod
    expect(answerToTermination(played(), 'resume')).toEqual({});
  });

  it('takes the container in the way from what it waits for', () => {
    const waitingFor = waitFor('NoStopMark', ['container/proxy', 'node/n'], 'Delete the pod');
    const progress = played({ kind: 'command', name: 'skip' });
    expect(nextOrder(progress, { kind: 'wait', waitingFor }, {})).toMatchObject({ kind: 'skip', skipped: ['proxy'] });
  });
});

describe('the pauses of a termination', () => {
  it('grow from look to look while nothing comes, up to a limit', () => {
    const quiet: TerminationEvent = { kind: 'waited', isQuiet: true };
    expect(lookAgainPauseMs(played())).toBe(60_000);
    expect(lookAgainPauseMs(played(quiet, quiet))).toBe(240_000);
    expect(lookAgainPauseMs(played(quiet, quiet, quiet, quiet, quiet))).toBe(600_000);
    expect(lookAgainPauseMs(played(quiet, quiet, { kind: 'waited', isQuiet: false }))).toBe(60_000);
  });

  it('grow while the same step is due again without effect', () => {
    const step: TerminationEvent = { kind: 'stepDue', step: stop };
    expect(repeatPauseMs(played(step))).toBe(0);
    expect(repeatPauseMs(played(step, step))).toBe(2_000);
    expect(repeatPauseMs(played(step, step, { kind: 'stepDue', step: { ...stop, containers: ['log'] } }))).toBe(0);
  });

  it('JST-30: grow from failed stop to failed stop, and do not begin anew with each look', () => {
    const reported: TerminationEvent = { kind: 'tryAgainReported', atMs: 1_000 };
    const first = played(reported, { ...reported, atMs: 5_000 });
    expect(first.tryAgainAtMs).toBe(11_000);
    const second = [{ kind: 'pauseEnded' }, { kind: 'stepDue', step: stop }, reported] as const;
    expect(second.reduce(applyTerminationEvent, first).tryAgainAtMs).toBe(21_000);
  });

  it('count refusals in a row only, and are handed over', () => {
    const refused: TerminationEvent = { kind: 'stepEnded', isRefused: true };
    expect(played(refused, refused).refusals).toBe(2);
    expect(played(refused, { kind: 'stepEnded', isRefused: false }).refusals).toBe(0);
    expect(newTermination({ failures: 3, refusals: 1 })).toMatchObject({ failures: 3, refusals: 1 });
  });

  it('counts what comes from outside, so that a look knows what it has missed', () => {
    const outside = played({ kind: 'changed' }, { kind: 'command', name: 'retry' }, { kind: 'cancelled', by: 'x' });
    expect(outside).toMatchObject({ received: 3, mayTryAgain: true });
    expect(applyTerminationEvent(outside, { kind: 'stepDue', step: stop })).toMatchObject({
      received: 3,
      mayTryAgain: false,
    });
  });
});
