import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { longFault } from '../chaos/scenarios/subset.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// The part of `npm run test:chaos` in which something is away for longer than anybody waits. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);
const scenario = longFault(random);

describeAlone(`each container is restarted exactly once, whatever is away (CHAOS_SEED=${random.seed})`, () => {
  it(`${scenario.name}: ${scenario.about}`, () => run(scenario), scenarioTimeoutMs);
});
