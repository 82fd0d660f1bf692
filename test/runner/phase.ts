import type { Verdict } from './again.ts';
import { describeCounts, nothing } from './counts.ts';

/** A part of a test command, with a line about its outcome. */
export interface Phase {
  readonly name: string;
  /** What it proves, in a few words. */
  readonly about: string;
  readonly run: (args: readonly string[]) => Promise<Verdict>;
}

/** Runs a phase and prints its outcome. One that cannot be run counts as a failed test. */
export async function runPhase({ name, about, run }: Phase, args: readonly string[]): Promise<Verdict> {
  console.log(`\n── ${name}: ${about}`);
  const startedAtMs = performance.now();
  const verdict = await run(args).catch((error: unknown): Verdict => {
    console.log(`${name} could not be run: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return { counts: { ...nothing, failed: 1 }, flakes: [] };
  });
  const { counts } = verdict;
  const seconds = Math.round((performance.now() - startedAtMs) / 1000);
  const nothingRan = counts.passed + counts.failed === 0 ? '; no test ran, which proves nothing' : '';
  console.log(`── ${name}: ${describeCounts(counts)} in ${seconds} s${nothingRan}`);
  return verdict;
}

/** Aborted by SIGINT or SIGTERM: what runs ends, and what it brought up is taken down, before this process does. */
export function untilInterrupted(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort());
  return interrupted.signal;
}
