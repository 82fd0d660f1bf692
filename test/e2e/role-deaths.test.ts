import { it } from '@jest/globals';
import { roleDeaths } from '../chaos/scenarios/side-by-side.ts';
import { describeAlone } from '../support/groups.ts';
import { scenarioTimeoutMs, useScenarios } from './scenarios.ts';

// Judged by a recorded watch of the pods, the runtime's own list of containers, the audit log, and the output of the
// containers. `npm run test:chaos -- each-role` does the same beside work of the other kinds, in other orders.
const run = useScenarios({ seed: 1 });

describeAlone('requests at each of their steps', () => {
  it(
    'restart each container exactly once, and in order, while each role is killed once',
    () => run(roleDeaths.requests.oneWatcher),
    scenarioTimeoutMs,
  );
});
