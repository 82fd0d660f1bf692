import { ActivityFailure, ApplicationFailure, TemporalFailure, TimeoutFailure } from '@temporalio/workflow';
import { timestamp } from '../../api/base/time.ts';
import { isFailureType, type RefusalReason, refusalWait } from '../../api/core/failure.ts';
import { withGrant } from '../../api/engine/missing-right.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';

/** Why a step failed, as far as it decides what to do next. */
export type StepFailure =
  | { readonly kind: 'nodeSilent' }
  | { readonly kind: 'superseded'; readonly message: string }
  | { readonly kind: 'away'; readonly message: string }
  | { readonly kind: 'refused'; readonly reason: RefusalReason; readonly message: string };

/** Why a call was rejected. */
export interface Refused {
  readonly reason: RefusalReason;
  readonly message: string;
}

/** The failure of a step as a rejection: that of a step which is tried again until it succeeds. */
export function asRefusal(why: StepFailure): Refused {
  return {
    reason: why.kind === 'refused' ? why.reason : 'Invalid',
    message: why.kind === 'nodeSilent' ? 'no worker answered in time' : why.message,
  };
}

/** What an operation waits for when a step of it was rejected. */
export function refusedWait({ reason, message }: Refused): WaitingFor {
  const unblock = `It is retried automatically, or at once after the signal retry; ${message}`;
  return { reason: refusalWait(reason), blockedBy: [], blockedCount: 0, since: timestamp(Date.now()), unblock };
}

/**
 * Classifies the failure of a step. An unknown failure, for example one by `temporal activity fail`, is final, too: it
 * is in the history, so other code could not undo it, and it counts as a rejection. An error that is not a failure is a
 * bug of the workflow, and is thrown: it blocks the workflow until the code is fixed.
 */
export function reasonOf(error: unknown): StepFailure {
  const cause = error instanceof ActivityFailure ? (error.cause ?? error) : error;
  if (cause instanceof TimeoutFailure) return timedOut(cause);
  if (!(cause instanceof TemporalFailure)) throw error;
  const message = cause.message || 'the activity failed without a message';
  const type = cause instanceof ApplicationFailure ? cause.type : undefined;
  if (!isFailureType(type)) return { kind: 'refused', reason: 'Invalid', message };
  switch (type) {
    case 'Denied':
      return { kind: 'refused', reason: type, message: withGrant(message) };
    case 'Invalid':
      return { kind: 'refused', reason: type, message };
    case 'Superseded':
      return { kind: 'superseded', message };
    case 'Unreachable':
    case 'Throttled':
    case 'Held':
    case 'Conflict':
      return { kind: 'away', message };
  }
}

/**
 * A node that never starts a step, or stops heartbeating, is silent. One that has started and takes too long is not.
 */
function timedOut({ timeoutType, message }: TimeoutFailure): StepFailure {
  const isSilence = timeoutType === 'SCHEDULE_TO_START' || timeoutType === 'HEARTBEAT';
  return isSilence
    ? { kind: 'nodeSilent' }
    : { kind: 'away', message: `It started but did not complete in time: ${message}` };
}
