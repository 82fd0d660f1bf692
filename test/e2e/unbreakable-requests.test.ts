import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { sideBySide } from '../chaos/scenarios/subset.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// As unbreakable.test.ts, with requests at each of their steps. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);
const scenario = sideBySide.requests(random);

describeAlone(`each container is restarted exactly once, and in order (CHAOS_SEED=${random.seed})`, () => {
  it(`${scenario.name}: ${scenario.about}`, () => run(scenario), scenarioTimeoutMs);
});
