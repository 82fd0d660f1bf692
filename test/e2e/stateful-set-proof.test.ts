import { afterAll, beforeAll, it } from '@jest/globals';
import { inPlaceReadinessGate } from '../../api/in-place/annotations.ts';
import { statefulSets } from '../../api/stateful-set/types.ts';
import { describeProof } from '../support/groups.ts';
import { followsLoad } from './autoscaler.ts';
import { type LocalCluster, localCluster } from './local-cluster.ts';

let local: LocalCluster;

beforeAll(async () => {
  local = await localCluster();
});

afterAll(async () => {
  await local?.close();
});

describeProof('load', 'a StatefulSet in use', () => {
  it('follows a HorizontalPodAutoscaler up and down, by the load of its pods', async () => {
    const podSpec = { readinessGates: [{ conditionType: inPlaceReadinessGate }] };
    await followsLoad(local, { resource: statefulSets, podSpec });
  });
});
