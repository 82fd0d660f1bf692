import { afterAll, beforeAll, expect } from '@jest/globals';
import { runScenario, type Scenario, summary } from '../chaos/campaign.ts';
import { withFlags } from '../chaos/faults.ts';
import type { Random } from '../chaos/random.ts';
import { sideBySideFlags } from '../chaos/scenarios/side-by-side.ts';
import { enterWorld, type World } from '../chaos/world.ts';

/** The time limit of a scenario on a machine that may stall. */
export const scenarioTimeoutMs = 1_500_000;

/**
 * Records the events of the cluster while the tests of a file run. Returns a function that runs a scenario of the chaos
 * tests.
 */
export function useScenarios(random: Random): (scenario: Scenario) => Promise<void> {
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  let world: World | undefined;
  let undo: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    world = await enterWorld(say);
    undo = await withFlags(world, 'watcher', sideBySideFlags);
  });

  afterAll(async () => {
    await undo?.();
    await world?.leave();
  });

  return async (scenario) => {
    if (!world) throw new Error('scenarios run only while tests do');
    const result = await runScenario(scenario, world, random);
    say(summary([result]));
    expect(result.violations).toEqual([]);
  };
}
