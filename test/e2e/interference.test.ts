import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { interferences } from '../chaos/scenarios/subset.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// The part of `npm run test:chaos` in which people interfere and no process dies. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);

describeAlone(`each container is restarted exactly once, whatever people do (CHAOS_SEED=${random.seed})`, () => {
  it.concurrent.each(interferences)('$name: $about', run, scenarioTimeoutMs);
});
