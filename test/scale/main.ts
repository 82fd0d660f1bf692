/**
 * `npm run test:scale [-- pods ...]`: takes CloneSets of 100, 1,000 and 5,000 pods (or of the sizes given) through their
 * life on nodes that kwok plays, judges what it took, and writes it into docs/performance.md. Exits with 1 when something
 * that is asked of the figures does not hold, or a step did not end. WINDLASS_KEEP=1 leaves the cluster up.
 */
import { fleetOf } from './fleet.ts';
import { stepNames } from './judge.ts';
import { scaleRun } from './run.ts';

const given = process.argv.slice(2).map(Number);
const sizes = given.length > 0 ? given : [100, 1_000, 5_000];

await scaleRun({
  name: 'scale',
  section: 'test:scale',
  head: [
    'Fleets',
    'Written by `npm run test:scale`: CloneSets of pods with one container, updated in place, on nodes whose kubelets are ' +
      'played by kwok. Each takes 0.8 to 1.6 s to start a container or to exchange one, and 0.3 to 0.8 s to end one.',
  ],
  fleets: sizes.map((pods) => ({ pods, steps: stepNames, fleet: fleetOf })),
});
