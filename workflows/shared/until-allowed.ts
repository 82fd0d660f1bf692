import { ActivityFailure, ApplicationFailure, isCancellation, setCurrentDetails, sleep } from '@temporalio/workflow';

/** First and longest pause before what was refused is tried again. */
const refusedMs = { first: 10_000, most: 300_000 } as const;

/** Asks again for as long as the API server refuses: nothing can be done without an answer, and a person can mend it. */
export async function untilAllowed<T>(call: () => Promise<T>): Promise<T> {
  for (let pauseMs: number = refusedMs.first; ; pauseMs = Math.min(pauseMs * 2, refusedMs.most)) {
    try {
      return await call();
    } catch (error) {
      if (isCancellation(error)) throw error;
      const cause = error instanceof ActivityFailure ? error.cause : error;
      const isRefusal = cause instanceof ApplicationFailure && (cause.type === 'Denied' || cause.type === 'Invalid');
      if (!isRefusal) throw error; // a bug: holds the workflow until it is fixed
      setCurrentDetails(`Parked: ${cause.message}`);
      await sleep(pauseMs, { summary: 'refused' });
    }
  }
}
