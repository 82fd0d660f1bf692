/**
 * `npm run test:scale:daemonsets [-- nodes ...]`: takes DaemonSets on 100, 1,000 and 5,000 nodes (or on as many as given) that kwok
 * plays through their life, as `npm run test:scale` does with CloneSets.
 */
import { daemonSetOf } from './daemon-sets.ts';
import { nodeSteps } from './judge.ts';
import { scaleRun } from './run.ts';

const given = process.argv.slice(2).map(Number);
const sizes = given.length > 0 ? given : [100, 1_000, 5_000];

await scaleRun({
  name: 'scale-daemonsets',
  section: 'test:scale:daemonsets',
  head: [
    'DaemonSets',
    'Written by `npm run test:scale:daemonsets`: a DaemonSet with one container, updated in place, with a pod on each of so many ' +
      'nodes whose kubelets are played by kwok. Each takes 0.8 to 1.6 s to start a container or to exchange one, and 0.3 to ' +
      '0.8 s to end one.',
  ],
  fleets: sizes.map((nodes) => ({ pods: nodes, steps: nodeSteps, fleet: daemonSetOf })),
  isByNode: true,
});
