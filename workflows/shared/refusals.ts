import {
  ActivityFailure,
  ApplicationFailure,
  isCancellation,
  setCurrentDetails,
  sleep,
  TimeoutFailure,
} from '@temporalio/workflow';
import { isFailureType } from '../../api/failure.ts';

/** Why a step failed, as far as it matters what to do next. */
export type StepFailure =
  | { readonly kind: 'nodeSilent' }
  | { readonly kind: 'superseded'; readonly message: string }
  | { readonly kind: 'away'; readonly message: string }
  | { readonly kind: 'refused'; readonly reason: 'Denied' | 'Invalid'; readonly message: string };

/** Reads the failure of a step. What is none of ours is a bug, and thrown on: it holds the workflow until it is fixed. */
export function reasonOf(error: unknown): StepFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof TimeoutFailure) return { kind: 'nodeSilent' };
  if (cause instanceof ApplicationFailure && isFailureType(cause.type)) {
    const { type, message } = cause;
    switch (type) {
      case 'Denied':
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

/** First and longest pause before what was refused is tried again. */
export const refusedMs = { first: 10_000, most: 300_000 } as const;

/** Asks again for as long as the API server refuses. Nothing can be done without an answer, so a person has to mend it. */
export async function unlessRefused<T>(call: () => Promise<T>): Promise<T> {
  for (let pauseMs: number = refusedMs.first; ; pauseMs = Math.min(pauseMs * 2, refusedMs.most)) {
    try {
      return await call();
    } catch (error) {
      if (isCancellation(error)) throw error;
      const why = reasonOf(error);
      if (why.kind !== 'refused') throw error;
      setCurrentDetails(`Parked: ${why.message}`);
      await sleep(pauseMs, { summary: 'refused' });
    }
  }
}
