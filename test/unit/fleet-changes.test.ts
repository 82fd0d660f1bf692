import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import { isDueEarlier } from '../../watcher/fleet/changes.ts';
import { pod } from '../support/stateful-set-world.ts';

describe('isDueEarlier', () => {
  const going = pod(0, { going: true });
  const ended = (more: Partial<Pod> = {}): Pod => {
    const metadata = { ...going.metadata, resourceVersion: '2', deletionTimestamp: '2026-01-01T00:09:59Z' };
    return { ...going, metadata, ...more };
  };

  it('is a pod that its kubelet has ended, which goes in the next moment', () => {
    expect(isDueEarlier(going, ended())).toBe(true);
  });

  it.each<[string, Pod, Pod]>([
    ['one whose deletion has just begun', pod(0), ended()],
    ['one whose status has changed as well', going, ended({ status: { phase: 'Failed' } })],
    ['one that has lost a finalizer', { ...going, metadata: { ...going.metadata, finalizers: ['f'] } }, ended()],
  ])('is not %s', (_, before, after) => {
    expect(isDueEarlier(before, after)).toBe(false);
  });
});
