import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { disturbed, sideBySide } from '../chaos/scenarios/subset.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// The shorter part of `npm run test:chaos`. Every check uses a recorded watch of the pods, the runtime's own list of
// containers, the audit log, and the output of the containers. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);

describeAlone(`each container is restarted exactly once, and in order (CHAOS_SEED=${random.seed})`, () => {
  it('JST-33, CLP-24: work of every kind goes on when each role dies', () => run(sideBySide), scenarioTimeoutMs);
  it.each(disturbed)('$name: $about', run, scenarioTimeoutMs);
});
