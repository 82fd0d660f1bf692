import { condition, isCancellation, setCurrentDetails } from '@temporalio/workflow';
import { refusalWait } from '../../api/core/failure.ts';
import { refusedPauseMs } from '../../plan/refused-pause.ts';
import { asRefusal, type Refused, reasonOf } from './refusals.ts';

/** How often an operator has sent `retry` so far. */
export interface Retries {
  readonly retries: () => number;
}

/**
 * Calls repeatedly until it succeeds, for as long as it takes: nothing can be done without the result, and a person can
 * fix what is rejected. It retries with growing pauses, and at once when an operator sends `retry`.
 */
export async function untilAllowed<T>(
  call: () => Promise<T>,
  operator: Retries,
  handling: {
    /** The result when the object is gone or was replaced. Absent: that is a rejection like others. */
    readonly superseded?: () => T;
    /** Called for each rejection. */
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
      const refusal = asRefusal(why);
      setCurrentDetails(`${refusalWait(refusal.reason)}: ${refusal.message}`);
      await handling.refused?.(refusal);
      const pauseMs = refusedPauseMs(refusal.reason, refusals);
      await condition(() => operator.retries() !== retriesBefore, pauseMs, { summary: 'refused' });
    }
  }
}
