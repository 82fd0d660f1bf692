import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { drawnSwap } from '../chaos/scenarios/swaps.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// One of what may happen in the middle of a swap, drawn anew in each run; all of it by `npm run test:chaos -- swap`.
// CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);
const scenario = drawnSwap(random);

describeAlone(`a swap goes on or is undone, and serves all the time (CHAOS_SEED=${random.seed})`, () => {
  it(`${scenario.name}: ${scenario.about}`, () => run(scenario), scenarioTimeoutMs);
});
