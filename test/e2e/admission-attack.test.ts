import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { admission } from '../chaos/scenarios/subset.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// The part of `npm run test:chaos` that is about admission, one after the other. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);

describeAlone(`admission under attack (CHAOS_SEED=${random.seed})`, () => {
  it.each(admission)('$name: $about', run, scenarioTimeoutMs);
});
