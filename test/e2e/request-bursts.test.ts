import { it } from '@jest/globals';
import { fortyRequests } from '../chaos/scenarios/requests.ts';
import { describeProof } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

const run = useScenarios({ seed: 1 });

describeProof('load', 'forty requests at once', () => {
  it('restart each container exactly once', () => run(fortyRequests), scenarioTimeoutMs);
});
