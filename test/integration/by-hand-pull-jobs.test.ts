import { afterAll } from '@jest/globals';
import { testByHand } from '../support/by-hand-suite.ts';
import { describeProof } from '../support/groups.ts';
import { pullingForJob, stopJoinedNodes } from '../support/held-operations.ts';
import { useSharedWindlass } from './windlass.ts';

// before Windlass itself stops: they use its connection
afterAll(stopJoinedNodes);

const windlass = useSharedWindlass();

const pulled = { end: '2 have it, 0 failed: job has completed', done: ['node 1', 'node 2'] };
const aborted = {
  end: '0 have it, 0 failed: aborted by a cancellation of its workflow; the image is on no node',
  done: ['node 1'],
};

describeProof('by-hand', 'a job that pulls on nodes, and that people treat by hand', () => {
  testByHand(windlass, {
    moments: {
      'a node is pulling': {
        ...{ hold: pullingForJob, pending: 'fleet.v1.awaitNodes', cancelled: aborted, endsAtOnce: true },
      },
    },
    usual: pulled,
  });
});
