import { describeFlakes, type Verdict, withFlakes } from './again.ts';
import { describeCounts, isGreen, sum } from './counts.ts';
import { type Phase, runPhase } from './phase.ts';

/**
 * Runs phases in order, prints flaky tests and, as the last line, `N passed, N failed, N skipped` over all phases. Returns
 * the exit code: 1 when something failed or when a phase ran nothing.
 */
export async function runPhases(
  phases: readonly Phase[],
  args: readonly string[],
  signal: AbortSignal,
): Promise<number> {
  const all: Verdict[] = [];
  for (const phase of phases) {
    if (!signal.aborted) all.push(await runPhase(phase, args));
  }
  const flakes = all.flatMap((verdict) => verdict.flakes);
  const counts = withFlakes(sum(all.map((verdict) => verdict.counts)), flakes);
  console.log(['', ...describeFlakes(flakes), describeCounts(counts)].join('\n'));
  const isComplete = !signal.aborted && all.length > 0 && all.every((verdict) => isGreen(verdict.counts));
  return isComplete && isGreen(counts) ? 0 : 1;
}
