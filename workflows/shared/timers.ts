import { CancellationScope, sleep } from '@temporalio/workflow';

/** Longer times are cut to 100 years: that is no deadline in effect, and within the range of a timer. */
export const longestMs = 100 * 365 * 24 * 3600 * 1000;

/** Does something after a time, unless the workflow has ended by then or this has been cancelled. */
export function after(ms: number, summary: string, act: () => void): CancellationScope {
  const scope = new CancellationScope();
  void scope.run(() => sleep(Math.min(Math.max(ms, 0), longestMs), { summary })).then(act, () => undefined);
  return scope;
}
