import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { asyncLocalStorage, type Context } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { currentAttempt } from '../../activities/fleet/attempt.ts';
import { carryOutBatchActivity, nextActivity } from '../../activities/fleet/batches.ts';
import { awaitNodesActivity, type NodeHolder } from '../../activities/fleet/nodes.ts';
import type { PermitHolder } from '../../activities/fleet/permit-holder.ts';
import type { Confirmation } from '../../activities/fleet/permit-life.ts';
import { batchOf } from '../../plan/fleet/batch.ts';
import type { Answer, BatchResult } from '../../plan/fleet/permit.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';

const target = { namespace: 'shop', name: 'web', uid: 'fleet-1' };
const request = {
  number: 3,
  batch: batchOf('new', [{ namespace: 'shop', name: 'web-1', uid: 'pod-1', how: 'recreate' }]),
};
const done: BatchResult = {
  ...{ summary: '3 of 5', pods: [{ pod: 'web-1', how: 'recreate' }] },
  next: { kind: 'nothing' },
};

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

/** An attempt with a heartbeat timeout of a minute, and the queue to which it submits its permit. */
function attempt() {
  const sdk = new AbortController();
  let answer: () => Promise<Confirmation> = async () => 'counts';
  const heartbeats = jest.fn((_deadlineMs: number, _details?: unknown) => answer());
  const sdkHeartbeats = jest.fn((_details?: unknown) => undefined);
  const state = { isBegun: false, confirmed: [] as string[] };
  const verdict = Promise.withResolvers<BatchResult>();
  const handed: PermitLife[] = [];
  const holder: PermitHolder = {
    carryOut(uid, given, life) {
      expect([uid, given]).toEqual([target.uid, { ...request, run: 'run-1' }]);
      handed.push(life);
      life.ended.addEventListener('abort', () => verdict.reject(life.ended.reason));
      return verdict.promise;
    },
    next: () => {
      throw new Error('nobody asks for that');
    },
    progressOf: (_, batch) => ({ now: [`batch ${batch}`] }),
    isBegun: (uid, batch) => uid === target.uid && batch === request.number && state.isBegun,
    confirmed: (uid) => void state.confirmed.push(uid),
  };
  const run = (queue: () => PermitHolder | undefined = () => holder) =>
    carryOutBatchActivity({
      queueOf: queue,
      attempt: () => ({
        ...{ heartbeatTimeoutMs: 60_000, cancelled: sdk.signal },
        ...{ confirm: heartbeats, heartbeat: sdkHeartbeats },
      }),
      runId: () => 'run-1',
    })({ kind: 'CloneSet', target, ...request });
  return {
    run,
    holder,
    handed,
    heartbeats,
    sdkHeartbeats,
    state,
    decide: verdict.resolve,
    answerWith: (next: () => Promise<Confirmation>) => {
      answer = next;
    },
    cancel: () => sdk.abort(new CancelledFailure('CANCELLED')),
  };
}

const pass = (ms = 0) => jest.advanceTimersByTimeAsync(ms);
const noAnswer = () => Promise.reject(new Error('14 UNAVAILABLE'));

describe('carryOutBatchActivity', () => {
  it('P-3: waits for the result, which brings the next answer; P-6: meanwhile Temporal confirms the attempt every 5 s', async () => {
    const { run, heartbeats, sdkHeartbeats, decide, handed } = attempt();
    const result = run();
    await pass(4_900);
    expect([heartbeats.mock.calls, handed[0]?.isAlive()]).toEqual([[], true]);
    await pass(55_200);
    expect(heartbeats).toHaveBeenCalledTimes(12);
    expect(heartbeats.mock.lastCall?.[1]).toEqual({ now: ['batch 3'] });
    expect([sdkHeartbeats.mock.calls, handed[0]?.isAlive()]).toEqual([[], true]);
    decide(done);
    await expect(result).resolves.toEqual(done);
    expect(handed[0]?.isAlive()).toBe(false);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('P-6: once all has begun the SDK sends a heartbeat every 25 s, and nothing else does', async () => {
    const { run, heartbeats, sdkHeartbeats, decide, state } = attempt();
    const result = run();
    await pass(1_000);
    state.isBegun = true;
    await pass(299_500);
    expect([heartbeats.mock.calls, sdkHeartbeats.mock.calls.length]).toEqual([[], 12]);
    expect(sdkHeartbeats.mock.lastCall).toEqual([{ now: ['batch 3'] }]);
    decide(done);
    await expect(result).resolves.toEqual(done);
  });

  it('P-6: what is to begin later begins when Temporal confirms the attempt again', async () => {
    const { run, heartbeats, handed, decide, state } = attempt();
    const result = run();
    state.isBegun = true;
    await pass(121_000);
    state.isBegun = false;
    await pass(5_000);
    expect(heartbeats).toHaveBeenCalledTimes(1);
    expect(handed[0]?.isAlive()).toBe(true);
    decide(done);
    await expect(result).resolves.toEqual(done);
  });

  it('P-6: what is to begin before that waits until Temporal has confirmed the attempt, and no longer', async () => {
    const { run, handed, heartbeats, state, decide, answerWith } = attempt();
    const result = run();
    state.isBegun = true;
    await pass(61_000);
    expect(heartbeats).not.toHaveBeenCalled();
    state.isBegun = false;
    const { promise, resolve } = Promise.withResolvers<Confirmation>();
    answerWith(() => promise);
    expect([handed[0]?.isAlive(), handed[0]?.isAlive(), state.confirmed]).toEqual([false, false, []]);
    expect(heartbeats).toHaveBeenCalledTimes(1);
    resolve('counts');
    await pass();
    expect([handed[0]?.isAlive(), state.confirmed]).toEqual([true, [target.uid]]);
    decide(done);
    await expect(result).resolves.toEqual(done);
  });

  it.each(['cancelled', 'gone'] as const)(
    'P-6: what is to begin then does not when the attempt is %s',
    async (answer) => {
      const { run, handed, state, answerWith } = attempt();
      const failed = expect(run()).rejects.toMatchObject({ type: 'Unreachable' });
      state.isBegun = true;
      await pass(61_000);
      state.isBegun = false;
      answerWith(async () => answer);
      expect(handed[0]?.isAlive()).toBe(false);
      await pass(11_000);
      expect([handed[0]?.isAlive(), state.confirmed]).toEqual([false, []]);
      await failed;
    },
  );

  it('fails while this watcher does not lead, so that another one takes the task', async () => {
    const { run } = attempt();
    await expect(run(() => undefined)).rejects.toMatchObject({
      type: 'Unreachable',
      message: 'Cannot carry out batch 3 of CloneSet "shop/web": this watcher is not the leader',
    });
  });

  it('ends as cancelled when it is cancelled, and the permit at that moment', async () => {
    const { run, handed, cancel } = attempt();
    const result = run();
    const failed = expect(result).rejects.toBeInstanceOf(CancelledFailure);
    await pass();
    cancel();
    expect(handed[0]?.isAlive()).toBe(false);
    await failed;
  });

  it('ends the permit as soon as Temporal reports the cancellation, and ends as cancelled when the SDK does', async () => {
    const { run, handed, answerWith, cancel } = attempt();
    const failed = expect(run()).rejects.toBeInstanceOf(CancelledFailure);
    await pass();
    answerWith(async () => 'cancelled');
    await pass(5_000);
    expect(handed[0]?.isAlive()).toBe(false);
    cancel();
    await failed;
  });

  it('ends when another attempt has begun', async () => {
    const { run, handed, answerWith } = attempt();
    answerWith(async () => 'gone');
    const failed = expect(run()).rejects.toMatchObject({
      type: 'Unreachable',
      message: 'Cannot carry out batch 3 of CloneSet "shop/web": Temporal has started another attempt of the activity',
    });
    await pass(5_000);
    expect(handed[0]?.isAlive()).toBe(false);
    await failed;
  });

  it('P-6: ends the permit when Temporal has not answered for ten seconds, though it is asked every second', async () => {
    const { run, handed, heartbeats, answerWith } = attempt();
    const failed = expect(run()).rejects.toMatchObject({
      type: 'Unreachable',
      message: expect.stringContaining('Temporal has not confirmed the permit in time'),
    });
    await pass(5_000);
    answerWith(noAnswer);
    await pass(9_900);
    // nobody has asked whether it lives, so it goes on until ten seconds without an answer are over
    expect([handed[0]?.ended.aborted, heartbeats.mock.calls.length]).toEqual([false, 6]);
    await pass(5_200);
    expect(handed[0]?.ended.aborted).toBe(true);
    await failed;
  });

  it('P-6: lets nothing begin ten seconds after it was confirmed last', async () => {
    const { run, handed, answerWith } = attempt();
    const failed = expect(run()).rejects.toMatchObject({ type: 'Unreachable' });
    await pass(5_000);
    answerWith(noAnswer);
    await pass(9_900);
    expect(handed[0]?.isAlive()).toBe(true);
    await pass(200);
    expect(handed[0]?.isAlive()).toBe(false);
    await failed;
  });

  it('P-6: is not ended by one heartbeat without an answer, however long ago the one before was', async () => {
    const { run, handed, decide, state, answerWith } = attempt();
    const result = run();
    state.isBegun = true;
    await pass(121_000);
    state.isBegun = false;
    let isFirst = true;
    answerWith(async () => {
      if (!isFirst) return 'counts';
      isFirst = false;
      throw new Error('14 UNAVAILABLE');
    });
    await pass(8_000);
    expect(handed[0]?.isAlive()).toBe(true);
    decide(done);
    await expect(result).resolves.toEqual(done);
  });

  it.each([1_000, 12_000, 30_000, 41_000, 44_000, 47_000, 49_000, 92_000])(
    'P-6: is not given up by a timer of the SDK when all has begun after %d ms',
    async (begunAfterMs) => {
      const sdk = new AbortController();
      let localTimer: NodeJS.Timeout | undefined;
      // the SDK gives an attempt up of which it hears nothing for 5 s more than the heartbeat timeout
      const heartbeat = () => {
        clearTimeout(localTimer);
        localTimer = setTimeout(() => sdk.abort(new CancelledFailure('TIMED_OUT')), 65_000);
      };
      heartbeat();
      const info = { heartbeatTimeoutMs: 60_000, taskToken: new Uint8Array() };
      const context = { info, cancellationSignal: sdk.signal, heartbeat } as unknown as Context;
      const loadedDataConverter = { payloadConverter: { toPayload: () => ({}) }, payloadCodecs: [] };
      const client = {
        options: { namespace: 'n', identity: 'i', loadedDataConverter },
        withDeadline: (_: unknown, call: () => unknown) => call(),
        workflowService: { recordActivityTaskHeartbeat: async () => ({}) },
      } as unknown as Client;
      const { holder, handed, state, decide } = attempt();
      setTimeout(() => {
        state.isBegun = true;
      }, begunAfterMs);
      const of = { queueOf: () => holder, attempt: () => currentAttempt(client), runId: () => 'run-1' };
      const result = asyncLocalStorage.run(context, () =>
        carryOutBatchActivity(of)({ kind: 'CloneSet', target, ...request }),
      );
      await pass(300_000);
      expect(handed[0]?.ended.aborted).toBe(false);
      clearTimeout(localTimer);
      decide(done);
      await expect(result).resolves.toEqual(done);
    },
  );

  it('survives a silence that is shorter', async () => {
    const { run, handed, answerWith, decide } = attempt();
    const result = run();
    await pass(5_000);
    answerWith(noAnswer);
    await pass(8_500);
    answerWith(async () => 'counts');
    await pass(30_000);
    expect(handed[0]?.isAlive()).toBe(true);
    decide(done);
    await expect(result).resolves.toEqual(done);
  });

  it('counts from when a heartbeat was sent, since Temporal may have received it at once', async () => {
    const { run, handed, answerWith } = attempt();
    const failed = expect(run()).rejects.toMatchObject({ type: 'Unreachable' });
    await pass();
    answerWith(
      () =>
        new Promise((resolve) => {
          setTimeout(() => {
            answerWith(noAnswer);
            resolve('counts');
          }, 2_500);
        }),
    );
    // Sent at 5,000 and answered at 7,500: it holds until 15,000.
    await pass(14_900);
    expect(handed[0]?.isAlive()).toBe(true);
    await pass(200);
    expect(handed[0]?.isAlive()).toBe(false);
    await failed;
  });
});

describe('an activity whose heartbeat timeout is as long as a confirmation counts', () => {
  it('hands nothing in before Temporal has confirmed the attempt, as its task may be late', async () => {
    const handed: PermitLife[] = [];
    const holder: NodeHolder = {
      await: async (_uid, _wave, life) => {
        handed.push(life);
        return await new Promise<never>((_, reject) =>
          life.ended.addEventListener('abort', () => reject(life.ended.reason)),
        );
      },
      next: () => {
        throw new Error('nobody asks for that');
      },
      progressOf: () => undefined,
      isBegun: () => false,
      confirmed: () => undefined,
    };
    let confirm: () => Promise<Confirmation> = async () => 'gone';
    const awaitWave = awaitNodesActivity({
      queueOf: () => holder,
      attempt: () => ({
        ...{ heartbeatTimeoutMs: 10_000, cancelled: new AbortController().signal },
        ...{ confirm: () => confirm(), heartbeat: () => undefined },
      }),
      runId: () => 'run-1',
    });
    const wave = { job: target, number: 1, nodes: [] };
    await expect(awaitWave(wave)).rejects.toMatchObject({ type: 'Unreachable', nonRetryable: false });
    confirm = noAnswer;
    await expect(awaitWave(wave)).rejects.toMatchObject({ type: 'Unreachable', nonRetryable: false });
    expect(handed).toEqual([]);
    confirm = async () => 'counts';
    const failed = expect(awaitWave(wave)).rejects.toThrow('Temporal has not confirmed the permit in time');
    await pass(9_000);
    expect(handed[0]?.isAlive()).toBe(true);
    confirm = noAnswer;
    await pass(9_100);
    expect(handed[0]?.isAlive()).toBe(false);
    await failed;
  });
});

describe('nextActivity', () => {
  const ask = (next: PermitHolder['next'] | undefined) =>
    nextActivity({
      queueOf: (kind) => (kind === 'CloneSet' && next ? ({ next } as PermitHolder) : undefined),
      runId: () => 'run-1',
    })({ ...{ kind: 'CloneSet', target }, carried: { numbers: [2], next: 3 } });

  it('P-2: answers at once what the leading watcher says of the object', async () => {
    const answer: Answer = { kind: 'pods', batches: [request.batch], more: false, of: 5, updated: 3 };
    const next = jest.fn(() => answer);
    await expect(ask(next)).resolves.toEqual(answer);
    const carried = { run: 'run-1', numbers: [2], next: 3 };
    expect(next.mock.calls).toEqual([[target.uid, { justPermitted: [], carried }]]);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('fails while this watcher does not lead, so that another one takes the question', async () => {
    await expect(ask(undefined)).rejects.toMatchObject({
      ...{ type: 'Unreachable', nonRetryable: false },
      message: 'Cannot find out which pods of CloneSet "shop/web" go next: this watcher is not the leader',
    });
  });

  it('F4: is asked again when it cannot be answered, with a reason that fits into a history', async () => {
    const failing = ask(() => {
      throw new Error('x'.repeat(5_000));
    });
    await expect(failing).rejects.toMatchObject({
      ...{ type: 'Unreachable', nonRetryable: false },
      message: expect.stringMatching(/^.{900,1000}$/),
    });
  });
});
