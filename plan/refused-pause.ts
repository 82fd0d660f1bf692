import type { RefusalReason } from '../api/core/failure.ts';

/** First and longest pause before a rejected step is retried. */
const pauseMs = {
  /** An API server that has just started may refuse what it allows a moment later. */
  Denied: { first: 1_000, most: 300_000 },
  /** Rejected until the object, or its validation, is changed. */
  Invalid: { first: 10_000, most: 300_000 },
} as const;

/** The pause after this many earlier refusals: about as long as the refusals have lasted so far, up to a limit. */
export function refusedPauseMs(reason: RefusalReason, refusalsBefore: number): number {
  const { first, most } = pauseMs[reason];
  return Math.min(first * 2 ** refusalsBefore, most);
}
