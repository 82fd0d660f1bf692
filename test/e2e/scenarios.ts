import { afterAll, beforeAll, expect } from '@jest/globals';
import { isUndecided, runScenario, type Scenario, summary } from '../chaos/campaign.ts';
import { randomFrom } from '../chaos/random.ts';
import { enterWorld, type World } from '../chaos/world.ts';
import { BrokenPromise } from '../support/broken-promise.ts';

/** The time limit of a scenario on a machine that may stall. */
export const scenarioTimeoutMs = 1_500_000;

/**
 * Records the events of the cluster while the tests of a file run. Returns a function that runs a scenario of the chaos
 * tests, with the same draws each time.
 */
export function useScenarios({ seed }: { readonly seed: number }): (scenario: Scenario) => Promise<void> {
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  let world: World | undefined;

  beforeAll(async () => {
    world = await enterWorld(say);
  });

  afterAll(() => world?.leave());

  return async (scenario) => {
    if (!world) throw new Error('scenarios run only while tests do');
    const result = await runScenario(scenario, world, randomFrom(seed));
    say(summary([result]));
    const judged = result.violations.filter((text) => !isUndecided(text));
    if (judged.length > 0) throw new BrokenPromise(judged.join('\n'));
    expect(result.violations).toEqual([]);
  };
}
