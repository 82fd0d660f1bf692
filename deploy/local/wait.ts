// Waits for a condition with a deadline. The machine may stall for minutes, so deadlines are long.

/** Calls `look` until it returns a value; fails with the last note after `seconds`. */
export async function waitFor<T>(
  what: string,
  look: () => Promise<T | undefined | false>,
  { seconds = 240, everyMs = 50 }: { readonly seconds?: number; readonly everyMs?: number } = {},
): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  let last: unknown;
  for (;;) {
    try {
      const seen = await look();
      if (seen !== undefined && seen !== false) return seen;
    } catch (error) {
      if (error instanceof HopelessError) throw error;
      last = error;
    }
    if (performance.now() > deadline) {
      const why = last instanceof Error ? `: ${last.message}` : '';
      throw new Error(`${what}: not within ${seconds} s${why}`);
    }
    await pause(everyMs);
  }
}

/** Thrown by a `look` that knows that waiting cannot help. */
export class HopelessError extends Error {}

/** Resolves after so many milliseconds. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
