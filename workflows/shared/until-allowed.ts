import { isCancellation, setCurrentDetails, sleep } from '@temporalio/workflow';
import { refusalWait } from '../../api/failure.ts';
import { refusedPauseMs } from '../plan/refused-pause.ts';
import { reasonOf } from './refusals.ts';

/** Asks again for as long as the API server refuses: nothing can be done without an answer, and a person can mend it. */
export async function untilAllowed<T>(call: () => Promise<T>): Promise<T> {
  for (let refusals = 0; ; refusals++) {
    try {
      return await call();
    } catch (error) {
      if (isCancellation(error)) throw error;
      const why = reasonOf(error);
      if (why.kind !== 'refused') throw error;
      setCurrentDetails(`${refusalWait(why.reason)}: ${why.message}`);
      await sleep(refusedPauseMs(why.reason, refusals), { summary: 'refused' });
    }
  }
}
