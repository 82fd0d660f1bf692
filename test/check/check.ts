import type { Project } from './project.ts';

/** One thing that must hold for the whole project. */
export interface Check {
  /** A claim, as `npm run check` shows it. */
  readonly name: string;
  /** Every problem on a line of its own, beginning with `path:line:` where it has a place; empty when all is well. */
  readonly run: (project: Project) => readonly string[] | Promise<readonly string[]>;
}

export interface CheckResult {
  readonly name: string;
  readonly problems: readonly string[];
  readonly seconds: number;
}

/** Runs all checks, one after the other, and prints each with its time and problems. */
export async function runChecks(
  checks: readonly Check[],
  project: Project,
  print: (line: string) => void,
): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const check of checks) {
    const result = await runCheck(check, project);
    results.push(result);
    const passed = result.problems.length === 0;
    print(`  ${passed ? '✓' : '✗'} ${result.name} (${result.seconds.toFixed(1)} s)`);
    for (const problem of result.problems) print(`      ${problem}`);
  }
  return results;
}

async function runCheck({ name, run }: Check, project: Project): Promise<CheckResult> {
  const startedAtMs = performance.now();
  const problems = await Promise.resolve(project)
    .then(run)
    .catch((error: unknown) => [error instanceof Error ? error.message : String(error)]);
  return { name, problems, seconds: (performance.now() - startedAtMs) / 1000 };
}
