import { condition, isCancellation, setCurrentDetails } from '@temporalio/workflow';
import { type RefusalReason, refusalWait } from '../../api/core/failure.ts';
import { refusedPauseMs } from '../plan/refused-pause.ts';
import { reasonOf } from './refusals.ts';

/** How often an operator has said `retry` so far. */
export interface Retries {
  readonly retries: () => number;
}

/** Why a call is not answered, while that is so. */
export interface Refused {
  readonly reason: RefusalReason;
  readonly message: string;
}

/**
 * Asks until there is an answer, for as long as it takes: nothing can be done without it, and a person can mend what is
 * refused. It asks again by itself, later and later, and at once when an operator says `retry`.
 */
export async function untilAllowed<T>(
  call: () => Promise<T>,
  operator: Retries,
  handling: {
    /** The answer when the object is gone or another one. Absent: that is a refusal like others. */
    readonly superseded?: () => T;
    /** Hears each refusal. */
    readonly refused?: (why: Refused) => Promise<void> | void;
  } = {},
): Promise<T> {
  for (let refusals = 0; ; refusals++) {
    const retriesBefore = operator.retries();
    try {
      const answer = await call();
      if (refusals > 0) setCurrentDetails('');
      return answer;
    } catch (error) {
      if (isCancellation(error)) throw error;
      const why = reasonOf(error);
      if (why.kind === 'superseded' && handling.superseded) return handling.superseded();
      const reason: RefusalReason = why.kind === 'refused' ? why.reason : 'Invalid';
      const message = why.kind === 'nodeSilent' ? 'no worker answered in time' : why.message;
      setCurrentDetails(`${refusalWait(reason)}: ${message}`);
      await handling.refused?.({ reason, message });
      const pauseMs = refusedPauseMs(reason, refusals);
      await condition(() => operator.retries() !== retriesBefore, pauseMs, { summary: 'refused' });
    }
  }
}
