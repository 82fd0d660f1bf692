/**
 * When a wait began. The two functions differ in what makes it another wait:
 * - An operation on many targets waits for one reason while the targets in the way come and go: `waitingSince`.
 * - An operation on one pod waits for certain blockers, and another blocker begins another wait: `waitingOnBlockersSince`.
 */
import type { WaitingFor } from '../api/engine/waiting-for.ts';
import type { Wait } from './decision.ts';

/** The wait with the time at which it began: the same reason keeps it, whatever blocks. */
export function waitingSince(before: WaitingFor | undefined, wait: Wait, now: string): WaitingFor {
  return { ...wait, since: before?.reason === wait.reason ? before.since : now };
}

/** The wait with the time at which it began: the same reason and the same blockers keep it. Absent: nothing is waited for. */
export function waitingOnBlockersSince(
  before: WaitingFor | undefined,
  wait: Wait | undefined,
  now: string,
): WaitingFor | undefined {
  if (!wait) return undefined;
  const isSame =
    before !== undefined && before.reason === wait.reason && before.blockedBy.join() === wait.blockedBy.join();
  return { ...wait, since: isSame ? before.since : now };
}
