import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';
import { isFailureType, type RefusalReason } from '../../api/failure.ts';
import { withGrant } from '../../api/missing-right.ts';

/** Why a step failed, as far as it matters what to do next. */
export type StepFailure =
  | { readonly kind: 'nodeSilent' }
  | { readonly kind: 'superseded'; readonly message: string }
  | { readonly kind: 'away'; readonly message: string }
  | { readonly kind: 'refused'; readonly reason: RefusalReason; readonly message: string };

/** Reads the failure of a step. What is none of ours is a bug, and thrown on: it holds the workflow until it is fixed. */
export function reasonOf(error: unknown): StepFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof TimeoutFailure) return { kind: 'nodeSilent' };
  if (cause instanceof ApplicationFailure && isFailureType(cause.type)) {
    const { type, message } = cause;
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
  throw error;
}
