import { afterAll } from '@jest/globals';
import { testByHand } from '../support/by-hand-suite.ts';
import { describeProof } from '../support/groups.ts';
import { pullingOnNode, reportingPull, stopJoinedNodes } from '../support/held-operations.ts';
import { useSharedWindlass } from './windlass.ts';

// before Windlass itself stops: they use its connection
afterAll(stopJoinedNodes);

const windlass = useSharedWindlass();

const pulled = { end: '1 have it, 0 failed: job has completed', done: ['node 1'] };

describeProof('by-hand', 'the pulls of a node that people treat by hand', () => {
  testByHand(windlass, {
    moments: {
      'an image is being pulled': { hold: pullingOnNode, pending: 'node.v1.pullImage' },
      'a result is being written': { hold: reportingPull, pending: 'reportPulls' },
    },
    usual: pulled,
  });
});
