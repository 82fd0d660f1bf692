import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type Attempt, type HeartbeatOptions, Heartbeats } from '../../activities/cri/attempt.ts';

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

interface Progress {
  readonly reason: string;
}

/** Heartbeats of an attempt: when each was sent, in seconds after its start. */
function beating(options?: HeartbeatOptions) {
  const startedAtMs = performance.now();
  const sentAt: number[] = [];
  let reason = 'Stopping';
  const attempt: Attempt<Progress> = {
    operation: 'await app',
    cancellation: new AbortController().signal,
    heartbeat: () => void sentAt.push((performance.now() - startedAtMs) / 1_000),
  };
  const beats = new Heartbeats<Progress>(attempt, () => ({ reason }), options);
  return {
    beats,
    sentAt,
    becomes(next: string) {
      reason = next;
    },
  };
}

describe('the heartbeats of an activity on a node', () => {
  it('are sent soon, then more and more seldom, and two within every heartbeat timeout', () => {
    const { sentAt } = beating();
    jest.advanceTimersByTime(600_000);
    expect(sentAt.slice(0, 9)).toEqual([0.25, 3.25, 6.25, 9.25, 15.25, 24.25, 36.25, 48.25, 60.25]);
    const pauses = sentAt.map((at, index) => at - (sentAt[index - 1] ?? 0));
    expect(Math.max(...pauses)).toBeLessThanOrEqual(12);
    expect(sentAt.length).toBeLessThan(60);
  });

  it('tell of another reason at once', () => {
    const { sentAt, becomes } = beating();
    jest.advanceTimersByTime(61_000);
    const before = sentAt.length;
    becomes('ContainerNotReady');
    jest.advanceTimersByTime(3_000);
    expect(sentAt).toHaveLength(before + 1);
  });

  it('are frequent as long as the attempt can be cancelled, and stop with it', () => {
    let isUrgent = true;
    const { beats, sentAt } = beating({ isUrgent: () => isUrgent });
    jest.advanceTimersByTime(60_000);
    expect(sentAt).toHaveLength(20);
    isUrgent = false;
    jest.advanceTimersByTime(60_000);
    expect(sentAt).toHaveLength(25);
    beats.stop();
    jest.advanceTimersByTime(60_000);
    expect(sentAt).toHaveLength(25);
  });
});
