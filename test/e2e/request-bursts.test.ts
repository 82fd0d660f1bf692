import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { witnessed } from '../chaos/scenarios/subset.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// The part of `npm run test:chaos` in which nothing is broken, and the judge is judged. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);

describeAlone(`each container is restarted exactly once, however many at once (CHAOS_SEED=${random.seed})`, () => {
  it.concurrent.each(witnessed)('$name: $about', run, scenarioTimeoutMs);
});
