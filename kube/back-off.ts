/** The pauses between attempts in milliseconds. */
export interface BackOff {
  readonly first: number;
  readonly most: number;
}

/** The pause after so many earlier failures in a row: it doubles from the first to the longest. */
export function backOff({ first, most }: BackOff, failures: number): number {
  return Math.min(first * 2 ** failures, most);
}

/** Shortens a pause at random by up to a half, so that callers that failed together do not come back together. */
export function spread(pauseMs: number): number {
  return pauseMs * (0.5 + Math.random() / 2);
}

/** How long the API server asks to wait before the next attempt; 0 when it does not say. */
export function retryAfterMs(error: unknown): number {
  const { retryAfterSeconds } = (error ?? {}) as { readonly retryAfterSeconds?: unknown };
  return typeof retryAfterSeconds === 'number' ? retryAfterSeconds * 1_000 : 0;
}
