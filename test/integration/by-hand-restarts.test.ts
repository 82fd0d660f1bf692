import { afterAll, beforeAll, expect } from '@jest/globals';
import { testByHand } from '../support/by-hand-suite.ts';
import { describeProof } from '../support/groups.ts';
import { becomingReady, refreshing, reportingRequest, stopping } from '../support/held-operations.ts';
import type { PlayedPod } from '../support/kubelet-player.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();
let beside: PlayedPod | undefined;

beforeAll(async () => {
  beside = await windlass().runPod(['app', 'proxy', 'other']);
});

afterAll(() => {
  expect(beside && windlass().node.stopsOf(beside)).toEqual([]);
});

const both = { end: 'Complete ContainersRecreated, app Succeeded, proxy Succeeded', done: ['app', 'proxy'] };
const aborted = { end: 'Failed Aborted, app Recreating, proxy Pending', done: ['app'] };

describeProof('by-hand', 'a request that people treat by hand', () => {
  testByHand(windlass, {
    moments: {
      'a container is being stopped': { hold: stopping, pending: 'node.v1.stopContainer', cancelled: aborted },
      'a container is becoming ready': {
        ...{ hold: becomingReady, pending: 'node.v1.awaitContainer', cancelled: aborted, endsAtOnce: true },
      },
      'its status is being written': { hold: reportingRequest, pending: 'reportRequest' },
    },
    usual: both,
  });
});

const refreshed = { end: 'app 1, proxy 0', done: ['app'] };

describeProof('by-hand', 'a refresh of the environment that people treat by hand', () => {
  testByHand(windlass, {
    moments: {
      'a container is being stopped': { hold: refreshing, pending: 'node.v1.refreshContainer', cancelled: refreshed },
    },
    usual: refreshed,
  });
});
