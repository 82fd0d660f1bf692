/**
 * `npm run test:scale:sidecars [-- cold hot]`: updates the sidecars of 100, 1,000 and 5,000 pods in place and swaps those of
 * 100 and 500 (or of the two numbers given) on nodes that kwok plays, as `npm run test:scale` does with CloneSets.
 */
import { coldSteps, hotSteps } from './judge.ts';
import { scaleRun } from './run.ts';
import { sidecarsOf } from './sidecars.ts';

const [cold, hot] = process.argv.slice(2).map(Number);

await scaleRun({
  name: 'scale-sidecars',
  section: 'test:scale:sidecars',
  head: [
    'Sidecars of fleets',
    'Written by `npm run test:scale:sidecars`: one SidecarSet with one sidecar in the pods of a CloneSet, on nodes whose ' +
      'kubelets are played by kwok. Each takes 0.8 to 1.6 s to start or to exchange a container. Pods are swapped by a ' +
      'workflow each, at most 10 % of them at once.',
  ],
  fleets: [
    ...(cold === undefined ? [100, 1_000, 5_000] : [cold]).map((pods) => {
      return { pods, steps: coldSteps, fleet: sidecarsOf('ColdUpgrade') };
    }),
    ...(hot === undefined ? [100, 500] : [hot]).map((pods) => {
      return { pods, steps: hotSteps, fleet: sidecarsOf('HotUpgrade') };
    }),
  ],
});
