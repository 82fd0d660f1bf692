import { afterAll } from '@jest/globals';
import { testByHand } from '../support/by-hand-suite.ts';
import { describeProof } from '../support/groups.ts';
import { startingEmpty, startingImage, stopHeldSwaps, writingEmpty, writingImage } from '../support/held-swaps.ts';
import { useSharedWindlass } from './windlass.ts';

// before Windlass itself stops: they use its connection
afterAll(stopHeldSwaps);

const windlass = useSharedWindlass();

// each write once, never both containers empty, and one of them serves all the time
const swapped = {
  end: 'mesh-1 busybox:empty, mesh-2 busybox:1.36, {"mesh":"mesh-2"}',
  done: ['mesh-2 busybox:1.36', 'mesh-1 busybox:empty'],
};
const undone = {
  end: 'mesh-1 busybox:1.35, mesh-2 busybox:empty, {"mesh":"mesh-1"}',
  done: ['mesh-2 busybox:1.36', 'mesh-2 busybox:empty'],
};

describeProof('by-hand', 'a swap that people treat by hand', () => {
  testByHand(windlass, {
    moments: {
      'the new container gets ready': {
        ...{ hold: startingImage, pending: 'fleet.v1.awaitSwap', cancelled: undone, endsAtOnce: true },
      },
      'the new image is being written': { hold: writingImage, pending: 'fleet.v1.swapStep' },
      'the old container is being emptied': { hold: writingEmpty, pending: 'fleet.v1.swapStep' },
      'the old container becomes idle': { hold: startingEmpty, pending: 'fleet.v1.awaitSwap', cancelled: swapped },
    },
    usual: swapped,
  });
});
