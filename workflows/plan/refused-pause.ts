import type { RefusalReason } from '../../api/core/failure.ts';

/** First and longest pause before what was refused is tried again. */
const pauseMs = {
  /** An API server that has just started refuses what it allows a moment later. */
  Denied: { first: 1_000, most: 300_000 },
  /** That stands until somebody changes the object, or what judges it. */
  Invalid: { first: 10_000, most: 300_000 },
} as const;

/** The pause after so many refusals before this one: about as long as it has been refused so far, up to a limit. */
export function refusedPauseMs(reason: RefusalReason, refusalsBefore: number): number {
  const { first, most } = pauseMs[reason];
  return Math.min(first * 2 ** refusalsBefore, most);
}
