import { it } from '@jest/globals';
import { randomFrom, seedFrom } from '../chaos/random.ts';
import { sideBySide } from '../chaos/scenarios/subset.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// The shorter part of `npm run test:chaos`. Every check uses a recorded watch of the pods, the runtime's own list of
// containers, the audit log, and the output of the containers. CHAOS_SEED repeats a run.
const random = randomFrom(seedFrom(process.env));
const run = useScenarios(random);
const scenario = sideBySide.others(random);

describeAlone(`work goes on whatever dies (CHAOS_SEED=${random.seed})`, () => {
  it(
    'JST-33, CLP-24: sidecars end, containers start in order and probes are shown when each role dies',
    () => run(scenario),
    scenarioTimeoutMs,
  );
});
