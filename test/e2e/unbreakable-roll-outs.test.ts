import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { sideBySide } from '../chaos/scenarios/subset.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// As unbreakable.test.ts, with work that takes longer. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);
const scenario = sideBySide.slow(random);

describeAlone(`each image is pulled once, and each pod updated once (CHAOS_SEED=${random.seed})`, () => {
  it(`${scenario.name}: ${scenario.about}`, () => run(scenario), scenarioTimeoutMs);
});
