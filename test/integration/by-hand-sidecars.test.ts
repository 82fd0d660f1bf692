import { afterAll, beforeAll, expect } from '@jest/globals';
import { testByHand } from '../support/by-hand-suite.ts';
import { describeProof } from '../support/groups.ts';
import { endingSidecars, requestingStops } from '../support/held-operations.ts';
import { startJob, type TestJob } from '../support/jobs.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();
let beside: TestJob | undefined;

beforeAll(async () => {
  beside = await startJob(windlass());
});

afterAll(() => {
  expect(beside && windlass().node.stopsOf(beside.pod)).toEqual([]);
});

const ended = { end: 'Succeeded', done: ['proxy', 'logger'] };

describeProof('by-hand', 'an end of sidecars that people treat by hand', () => {
  testByHand(windlass, {
    moments: {
      'a sidecar is being stopped': { hold: endingSidecars },
      'a stop is being requested': { hold: requestingStops, pending: 'endSidecars' },
    },
    usual: ended,
  });
});
