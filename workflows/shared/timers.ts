import { CancellationScope, sleep } from '@temporalio/workflow';

/** Longer times are cut to 100 years: effectively no deadline, and within the range of a timer. */
export const longestMs = 100 * 365 * 24 * 3600 * 1000;

/** Calls a function after a time, unless the workflow has ended or the timer was cancelled. */
export function after(ms: number, summary: string, act: () => void): CancellationScope {
  const scope = new CancellationScope();
  void scope.run(() => sleep(Math.min(Math.max(ms, 0), longestMs), { summary })).then(act, () => undefined);
  return scope;
}
