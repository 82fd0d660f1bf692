import { measureStolen } from '../support/stolen.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** What happens to the cluster, and what is to come of it. */
export interface Scenario {
  readonly name: string;
  /** What it proves, in a few words. */
  readonly about: string;
  readonly run: (world: World, random: Random, report: Report) => Promise<void>;
}

/** What a scenario reports. */
export interface Report {
  fault(name: string): void;
  /** A request came to its end, or to what was to be expected instead. */
  outcome(name: string, count?: number): void;
  violation(text: string): void;
  /** A figure for people, `200 requests in 93 s`. */
  figure(text: string): void;
}

/** What became of one scenario. */
export interface Result {
  readonly scenario: string;
  readonly faults: ReadonlyMap<string, number>;
  readonly outcomes: ReadonlyMap<string, number>;
  readonly violations: readonly string[];
  readonly figures: readonly string[];
  readonly seconds: number;
  /** Share of the CPU time that the machine's hypervisor gave to others, in percent. */
  readonly stolen: number | undefined;
}

const brokeOff = 'broke off';
export const notJudged = 'not judged';

/** Whether a violation says that a scenario did not come to its end: then nothing was found to be wrong. */
export function isUndecided(violation: string): boolean {
  return violation.startsWith(brokeOff) || violation.startsWith(notJudged);
}

/** Runs one scenario; one that breaks off is a violation, too. What is left over is removed, and nothing of scenarios beside it. */
export async function runScenario(scenario: Scenario, sharedWorld: World, random: Random): Promise<Result> {
  const world: World = { ...sharedWorld, leftovers: new Set() };
  const startedAtMs = performance.now();
  const stolen = measureStolen();
  const faults = new Map<string, number>();
  const outcomes = new Map<string, number>();
  const violations: string[] = [];
  const figures: string[] = [];
  const add = (counts: Map<string, number>, name: string, count: number): void => {
    counts.set(name, (counts.get(name) ?? 0) + count);
  };
  world.say(`\n== ${scenario.name}: ${scenario.about}`);
  try {
    await scenario.run(world, random.fork(scenario.name), {
      fault: (name) => add(faults, name, 1),
      outcome: (name, count = 1) => add(outcomes, name, count),
      violation(text) {
        violations.push(text);
        world.say(`   VIOLATION ${text}`);
      },
      figure(text) {
        figures.push(text);
        world.say(`   ${text}`);
      },
    });
  } catch (error) {
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
    violations.push(`${brokeOff}: ${why}`);
    world.say(`   BROKE OFF ${why}`);
  }
  for (const leftover of world.leftovers)
    await leftover.remove().catch((error: unknown) => world.say(`   ${String(error)}`));
  world.leftovers.clear();
  const seconds = Math.round((performance.now() - startedAtMs) / 1000);
  const result = { scenario: scenario.name, faults, outcomes, violations, figures, seconds, stolen: stolen() };
  world.say(`== ${scenario.name}: ${violations.length === 0 ? 'ok' : `${violations.length} violations`}, ${seconds} s`);
  return result;
}

/** The table at the end of a campaign. */
export function summary(results: readonly Result[]): string {
  const rows = results.map((result) => [
    result.scenario,
    String(total(result.faults)),
    [...result.outcomes].map(([name, count]) => `${count} ${name}`).join(', ') || '-',
    String(result.violations.length),
    `${result.seconds} s`,
  ]);
  const table = [['scenario', 'faults', 'outcomes', 'violations', 'time'], ...rows];
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  const lines = table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  const faults = new Map<string, number>();
  for (const result of results) {
    for (const [name, count] of result.faults) faults.set(name, (faults.get(name) ?? 0) + count);
  }
  return [
    ...lines,
    '',
    'faults injected',
    ...[...faults]
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([name, count]) => `${String(count).padStart(5)}  ${name}`),
    '',
    ...results.flatMap(({ scenario, figures }) => figures.map((figure) => `${scenario}: ${figure}`)),
    ...results.flatMap(({ scenario, violations }) => violations.map((text) => `VIOLATION ${scenario}: ${text}`)),
  ].join('\n');
}

function total(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}
