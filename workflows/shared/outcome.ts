/** How runs end: as their objects do. */
import { ApplicationFailure, CancelledFailure, setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import type { ObjectEnd } from '../../api/core/conditions.ts';
import { searchAttributes } from '../../api/engine/operations.ts';

/** How a run ends. */
export interface Outcome {
  /** Also the last phase of the operation. `Canceled`: somebody cancelled the workflow in Temporal, and that ended it. */
  readonly kind: 'Completed' | 'Failed' | 'Canceled';
  /** The reason of the object's condition, where it has one: `DeadlineExceeded`. */
  readonly reason: string;
  readonly message: string;
}

/** The outcome of a run whose object has ended like this. `aborted`: how the run ends if an operator has aborted it. */
export function outcomeOf({ type, reason, message }: ObjectEnd, aborted: 'Failed' | 'Canceled'): Outcome {
  if (type === 'Complete') return { kind: 'Completed', reason, message };
  return { kind: reason === 'Aborted' ? aborted : 'Failed', reason, message };
}

/** The outcome of a run whose object is gone: nobody waits for anything any more. `ImagePullJob` */
export function deleted(kind: string): Outcome {
  return { kind: 'Completed', reason: 'Deleted', message: `The ${kind} was deleted` };
}

/** The result of a completed run. */
export type OperationResult = Pick<Outcome, 'reason' | 'message'>;

/** Shows how the operation has ended. `details`: what is shown of it from then on, if it is more than the message. */
export function showEnd({ kind, reason, message }: Outcome, details = message): void {
  upsertSearchAttributes({ [searchAttributes.phase]: [kind], [searchAttributes.reason]: [reason] });
  setCurrentDetails(details);
}

/** Ends the run: the caller returns the result. Throws for a run that has failed or was cancelled. */
export function endAs({ kind, reason, message }: Outcome): OperationResult {
  switch (kind) {
    case 'Completed':
      return { reason, message };
    case 'Failed':
      throw ApplicationFailure.create({ message, type: reason, nonRetryable: true, category: 'BENIGN' });
    case 'Canceled':
      throw new CancelledFailure(message);
  }
}
